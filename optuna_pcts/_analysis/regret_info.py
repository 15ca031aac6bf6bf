"""The numbers behind the figure of the regret: best and recommended value over time."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from copy import copy
import math
from typing import NamedTuple

import numpy as np
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._analysis.recommend import recommend_from
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._study.history import History
from optuna_pcts._study.stamps import clock


# A recommendation is computed each time the number of trials has grown by this factor, so that all
# together take three times as long as the last one.
_RECOMMEND_GROWTH = 1.5
_MAX_RECOMMENDED = 12


class RecommendedInfo(NamedTuple):
    """The recommendation at one time."""

    seconds: float
    value: float
    interval: tuple[float, float]
    number: int


class RegretInfo(NamedTuple):
    """The best and the recommended value against the clock, from the start of the first trial."""

    seconds: tuple[float, ...]  # when each completed trial ended that is feasible
    values: tuple[float, ...]
    best: tuple[float, ...]  # of all that ended until then
    recommended: tuple[RecommendedInfo, ...]
    direction: str  # "minimize" or "maximize"
    # Time, value and number of the trials that violate a constraint: they are not in the above.
    infeasible: tuple[tuple[float, float, int], ...]


def regret_info(source: Snapshot) -> RegretInfo:
    """Return best and recommended value over time; see :class:`RegretInfo`."""
    ended = sorted(
        (
            trial
            for trial in source.trials
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
            and trial.datetime_complete is not None
            and trial.values
            and math.isfinite(trial.values[0])
        ),
        key=lambda trial: (_end(trial), trial.number),
    )
    complete = [trial for trial in ended if trial.state == TrialState.COMPLETE]
    if not complete:
        raise ValueError(
            f"The study `{source.study.study_name}` has no completed trial with a finite value "
            "and time stamps, so that there is no course to see."
        )
    out = set(source.infeasible)
    infeasible = [trial for trial in complete if trial.number in out]
    complete = [trial for trial in complete if trial.number not in out]
    if not complete:
        raise ValueError(
            f"The study `{source.study.study_name}` has no feasible trial: all {len(infeasible)} "
            "completed ones violate a constraint, so that there is no course to see."
        )
    starts = [clock(t.datetime_start) for t in source.trials if t.datetime_start is not None]
    start = min([*starts, _end(ended[0])])
    values = [trial.values[0] for trial in complete]
    better = np.maximum if source.sign > 0 else np.minimum
    return RegretInfo(
        seconds=tuple(_end(trial) - start for trial in complete),
        values=tuple(values),
        best=tuple(better.accumulate(values).tolist()),
        recommended=tuple(_recommended(source, ended, start)),
        direction="maximize" if source.sign > 0 else "minimize",
        infeasible=tuple(
            (_end(trial) - start, trial.values[0], trial.number)
            for trial in infeasible[-source.max_points :]
        ),
    )


def _end(trial: FrozenTrial) -> float:
    assert trial.datetime_complete is not None
    return clock(trial.datetime_complete)


def _recommended(
    source: Snapshot, ended: Sequence[FrozenTrial], start: float
) -> Iterable[RecommendedInfo]:
    """Yield the recommendations as they would have been at a few past times."""
    counts = {len(ended)}
    size = len(ended) / _RECOMMEND_GROWTH
    while size >= 2 and len(counts) < _MAX_RECOMMENDED:
        counts.add(int(size))
        size /= _RECOMMEND_GROWTH
    past = [copy(trial) for trial in ended]  # numbered as if asked in this order
    for number, trial in enumerate(past):
        trial.number = number
    for n in sorted(counts):
        history = History(source.study, trials=past[:n])
        history.update(None)
        try:
            (found,) = recommend_from(history, source.sign)
        except ValueError:  # nothing was completed by then
            continue
        yield RecommendedInfo(
            _end(past[n - 1]) - start, found.value, found.interval, ended[found.number].number
        )
