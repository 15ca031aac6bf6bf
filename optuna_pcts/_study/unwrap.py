"""The sampler and the pruner of a study, without wrappers."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.samplers import PartialFixedSampler


def sampler_of(study: optuna.Study) -> BaseSampler:
    """Return the sampler of a study, without wrappers such as PartialFixedSampler."""
    sampler = study.sampler
    while isinstance(inner := getattr(sampler, "_base_sampler", None), BaseSampler):
        sampler = inner
    return sampler


def fixed_params_of(study: optuna.Study) -> dict[str, Any]:
    """Return the parameters that a PartialFixedSampler around the sampler of a study fixes."""
    fixed: dict[str, Any] = {}
    sampler = study.sampler
    while isinstance(inner := getattr(sampler, "_base_sampler", None), BaseSampler):
        if isinstance(sampler, PartialFixedSampler):
            fixed = {**sampler._fixed_params, **fixed}
        sampler = inner
    return fixed


def pruner_of(study: optuna.Study) -> BasePruner:
    """Return the pruner of a study, without wrappers such as PatientPruner."""
    pruner = study.pruner
    while isinstance(inner := getattr(pruner, "_wrapped_pruner", None), BasePruner):
        pruner = inner
    return pruner
