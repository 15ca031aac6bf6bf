"""How far trials have come: steps, fidelities and curves."""

from __future__ import annotations

import math

import numpy as np
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._arrays import FloatArray
from optuna_pcts._study.attributes import MAX_STEP
from optuna_pcts._study.attributes import SIZED_KEY
from optuna_pcts._tree.messages import ProposalRecord


class LongestRun:
    """The largest step that trials have reported: of completed ones, if there are any."""

    def __init__(self) -> None:
        self._completed, self._pruned = 0, 0

    @property
    def step(self) -> int | None:
        return self._completed or self._pruned or None

    def observe(self, trial: FrozenTrial) -> None:
        if trial.intermediate_values and trial.state.is_finished():
            step = min(max(trial.intermediate_values), MAX_STEP)
            if trial.state == TrialState.COMPLETE:
                self._completed = max(self._completed, step)
            elif trial.state == TrialState.PRUNED:
                self._pruned = max(self._pruned, step)


def progress(
    trial: FrozenTrial, proposal: ProposalRecord | None, full_step: int | None
) -> tuple[float, float, FloatArray | None]:
    """Return the last value that a trial reported, its fidelity, and the learning curve.

    Args:
        trial:
            The trial.
        proposal:
            What is stored with it.
        full_step:
            Steps of a full evaluation; None if that is not known.

    Returns:
        The last report that is a number (NaN if there is none, or if its fidelity is unknown);
        the fidelity of that report, or of the trial's value once it has ended; and fidelities and
        values of the reports of a trial that has ended.
    """
    is_complete = trial.state == TrialState.COMPLETE
    is_sized = SIZED_KEY in trial.system_attrs and proposal is not None
    sized = proposal.fidelity if proposal is not None and is_sized else 1.0
    reports = sorted(
        (min(step, MAX_STEP), value)
        for step, value in trial.intermediate_values.items()
        if value == value
    )
    if not reports or full_step is None:
        # How far a pruned trial went is unknown.
        return math.nan, 0.0 if trial.state == TrialState.PRUNED else sized, None
    steps, values = np.array(reports, dtype=float).T
    reached = np.clip(steps / full_step, 0.0, 1.0)
    # A trial that is not complete has less than full fidelity, even at the last step.
    reached = np.minimum(reached, full_step / (full_step + 1))
    if is_complete and sized >= 1:
        curve = np.array([[*reached, 1.0], [*values, trial.values[0]]])
        return float(values[-1]), 1.0, curve
    # An objective that sizes its own work may not have reached its fidelity, or have exceeded it.
    fidelity = max(sized, reached[-1]) if is_complete else min(sized, reached[-1])
    has_curve = trial.state == TrialState.PRUNED and sized >= 1
    return float(values[-1]), float(fidelity), np.array([reached, values]) if has_curve else None
