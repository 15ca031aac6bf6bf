"""The sampler and the pruner of a study, without wrappers."""

from __future__ import annotations

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler


def sampler_of(study: optuna.Study) -> BaseSampler:
    """Return the sampler of a study, without wrappers such as PartialFixedSampler."""
    sampler = study.sampler
    while isinstance(inner := getattr(sampler, "_base_sampler", None), BaseSampler):
        sampler = inner
    return sampler


def pruner_of(study: optuna.Study) -> BasePruner:
    """Return the pruner of a study, without wrappers such as PatientPruner."""
    pruner = study.pruner
    while isinstance(inner := getattr(pruner, "_wrapped_pruner", None), BasePruner):
        pruner = inner
    return pruner
