"""The numbers behind the figure of the fidelities."""

from __future__ import annotations

from collections.abc import Iterable
import math
from typing import NamedTuple

import numpy as np

from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._tree.messages import Status


class FidelityInfo(NamedTuple):
    """How far the finished trials of a study were evaluated, from 0 to 1."""

    numbers: tuple[int, ...]  # of the newest trials
    depths: tuple[int | None, ...]  # None: the tree did not ask for it
    fidelities: tuple[float, ...]
    by_depth: tuple[tuple[int, float, int], ...]  # depth, mean fidelity, number of trials
    n_trials: int
    mean: float
    whole: float  # share of the trials at full fidelity
    work: float  # sum of the fidelities: all trials in units of evaluations at full fidelity
    infeasible: tuple[int, ...]  # of these numbers


def fidelity_info(source: Snapshot) -> FidelityInfo:
    """Return how far trials were evaluated; see :class:`FidelityInfo`."""
    told = [f for f in source.feedback if f.status is Status.TOLD and math.isfinite(f.value)]
    if not told:
        raise ValueError(f"The study `{source.study.study_name}` has no trial with a value yet.")
    if all(f.fidelity >= 1 for f in told):
        raise ValueError(
            f"All {len(told)} trials of the study `{source.study.study_name}` that have a value "
            "were evaluated at full fidelity, so that there is nothing to show. Low fidelities "
            "need a PCTSPruner (or another pruner), or an objective that reads fidelity(trial)."
        )
    fidelities = [f.fidelity for f in told]
    depths = [None if f.proposal is None else f.proposal.depth for f in told]
    newest = slice(-source.max_points, None)
    return FidelityInfo(
        numbers=tuple(f.number for f in told[newest]),
        depths=tuple(depths[newest]),
        fidelities=tuple(fidelities[newest]),
        by_depth=tuple(
            (depth, float(np.mean(group)), len(group))
            for depth, group in by_depth(depths, fidelities)
        ),
        n_trials=len(told),
        mean=float(np.mean(fidelities)),
        whole=float(np.mean([z >= 1 for z in fidelities])),
        work=math.fsum(fidelities),
        infeasible=tuple(f.number for f in told[newest] if not f.is_feasible),
    )


def by_depth(
    depths: Iterable[int | None], values: Iterable[float]
) -> list[tuple[int, list[float]]]:
    """Return the values at each depth, shallow first."""
    groups: dict[int, list[float]] = {}
    for depth, value in zip(depths, values):
        if depth is not None:
            groups.setdefault(depth, []).append(value)
    return sorted(groups.items())
