"""The numbers behind the figure of the costs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from optuna_pcts._analysis.cost_fit import CostFit
from optuna_pcts._analysis.cost_fit import fit_cost_of
from optuna_pcts._analysis.fidelity_info import by_depth
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.costs import level_of_trial
from optuna_pcts._study.costs import trial_cost


class CostInfo(NamedTuple):
    """What the finished trials of a study cost, by the depth of their cell."""

    numbers: tuple[int, ...]  # of the newest trials
    depths: tuple[int, ...]  # from 0 at the root, as in `pcts:depth`
    costs: tuple[float, ...]
    unit: str  # "s"; "cost" if objectives declare it
    n_trials: int
    total: float
    by_depth: tuple[tuple[int, float, int], ...]  # depth, median cost, number of trials
    fit: CostFit | None
    why_no_fit: str | None
    infeasible: tuple[int, ...]  # of these numbers


def cost_info(source: Snapshot) -> CostInfo:
    """Return what trials cost; see :class:`CostInfo`."""
    rows = [
        (trial.number, level - 1, cost)
        for trial in source.trials
        if trial.state.is_finished()
        and (level := level_of_trial(trial)) is not None
        and (cost := trial_cost(trial)) is not None
    ]
    if not rows:
        raise ValueError(
            f"No finished trial of the study `{source.study.study_name}` has both a depth and a "
            "cost. Only trials that PCTSSampler asked for have a depth."
        )
    numbers, depths, costs = zip(*rows)
    fit, why = None, None
    try:
        fit = fit_cost_of(source.trials)
    except ValueError as error:
        why = str(error)
    declared = any(COST_KEY in trial.user_attrs for trial in source.trials)
    newest = slice(-source.max_points, None)
    return CostInfo(
        numbers=numbers[newest],
        depths=depths[newest],
        costs=costs[newest],
        unit="cost" if declared else "s",
        n_trials=len(costs),
        total=math.fsum(costs),
        by_depth=tuple(
            (depth, float(np.median(group)), len(group))
            for depth, group in by_depth(depths, costs)
        ),
        fit=fit,
        why_no_fit=why,
        infeasible=tuple(sorted(set(numbers[newest]) & set(source.infeasible))),
    )
