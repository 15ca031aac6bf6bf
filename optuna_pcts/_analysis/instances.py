"""How well each smoothness instance has done: POO's choice at the end (appendix C.2)."""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
import optuna

from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._study.attributes import is_enqueued


@dataclass(frozen=True)
class Instance:
    """One smoothness instance, and the trials that it asked for.

    Attributes:
        nu, rho:
            Its smoothness: the diameter of a cell of depth h is ``nu rho^h``.
        numbers:
            Numbers of its trials that have ended, ascending.
        reward:
            The mean of their rewards; NaN if there are none.
    """

    nu: float
    rho: float
    numbers: tuple[int, ...]
    reward: float


def rank_instances(study: optuna.Study) -> list[Instance]:
    """Return the smoothness instances of a study, that with the largest mean reward first.

    POO names a trial of the first one, drawn at random::

        best = rank_instances(study)[0]
        answer = study.trials[random.choice(best.numbers)]

    The paper takes the largest of the optimal values of all instances, which is
    ``study.best_trial``. Neither corrects for the selection bias of observed values;
    :func:`recommend` does, over the trials of all instances, since they share their feedback.

    Enqueued trials belong to no instance. Local asks count for the instance whose turn it was;
    with ``PCTSSampler(local_share=0)`` there are none.

    Args:
        study:
            A study whose sampler is the :class:`PCTSSampler` that ran it, or one with the same
            ``smoothness`` and ``reward``.

    Raises:
        ValueError:
            If the study has several objectives, or no trial that the sampler asked for has ended.
    """
    return rank_instances_of(Snapshot(study))


def rank_instances_of(source: Snapshot) -> list[Instance]:
    """Return the smoothness instances of a snapshot, that with the largest mean reward first."""
    rewards = source.tree.rewards()
    enqueued = {t.number for t in source.trials if is_enqueued(t)}
    asked = {f.number for f in source.history.replay() if f.proposal is not None} - enqueued
    rewards = {number: reward for number, reward in rewards.items() if number in asked}
    if not rewards:
        raise ValueError(
            "`rank_instances` needs a trial that PCTSSampler asked for and that ended."
        )
    pairs = source.instances
    found = []
    for i, (nu, rho) in enumerate(pairs):
        numbers = tuple(number for number in sorted(rewards) if number % len(pairs) == i)
        mean = float(np.mean([rewards[number] for number in numbers])) if numbers else math.nan
        found.append(Instance(nu, rho, numbers, mean))
    return sorted(
        found, key=lambda one: -math.inf if not one.numbers else one.reward, reverse=True
    )
