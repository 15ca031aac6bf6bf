"""How late the feedback of each trial was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from optuna_pcts._study.stamps import clock


@dataclass(frozen=True)
class Delay:
    """How long the feedback of one trial took (the paper's tau_s)."""

    number: int
    seconds: float
    trials: int  # how many others were asked in the meantime


def delays(study: optuna.Study) -> list[Delay]:
    """Measure the delay of every finished trial from the time stamps in the storage.

    Args:
        study:
            Any study, by whatever sampler.

    Returns:
        One entry per finished trial with time stamps, in the order of the trials: the seconds
        from its start to its completion, and how many other trials started in between.
    """
    return delays_of(study.get_trials(deepcopy=False))


def delays_of(trials: Sequence[FrozenTrial]) -> list[Delay]:
    """Return the delays of the trials of one moment."""
    trials = [t for t in trials if t.datetime_start is not None]
    starts = np.array([clock(t.datetime_start) for t in trials if t.datetime_start])
    finished = [i for i, t in enumerate(trials) if t.datetime_complete is not None]
    ends = np.array([clock(t.datetime_complete) for t in trials if t.datetime_complete])
    order = np.sort(starts)
    asked = np.searchsorted(order, ends, side="right") - np.searchsorted(
        order, starts[finished], side="left"
    )
    return [
        Delay(trials[i].number, float(end - starts[i]), max(int(n) - 1, 0))
        for i, end, n in zip(finished, ends, asked)
    ]
