"""What a trial costs: what its objective declares, or the seconds that it took."""

from __future__ import annotations

from reprlib import repr as short_repr
import sys

import optuna
from optuna.trial import FrozenTrial

from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._study.attributes import is_integer
from optuna_pcts._study.attributes import MAX_DEPTH
from optuna_pcts._study.stamps import duration


_logger = optuna.logging.get_logger(f"optuna.{__name__}")


def trial_cost(trial: FrozenTrial) -> float | None:
    """Return what a trial cost.

    That is what the objective declared with ``trial.set_user_attr("pcts:cost", cost)``: a finite
    number of at least 0, in any unit. Anything else there is ignored with a warning. Without it,
    the cost is the time from the start to the end of the trial, in seconds.

    Args:
        trial:
            A trial of any study, by whatever sampler.

    Returns:
        The cost, or :obj:`None` if it is not known: the trial has not ended, or has no time
        stamps, or ended before it started (a clock was set back).
    """
    if not isinstance(trial, FrozenTrial):
        raise TypeError(f"`trial` must be a FrozenTrial, but got {trial!r}.")
    warn_of_malformed_cost(trial)
    return known_cost(trial)


def known_cost(trial: FrozenTrial) -> float | None:
    declared = declared_cost(trial)
    if declared is not None:
        return declared
    seconds = duration(trial)
    return None if seconds is None or seconds < 0 else seconds


def warn_of_malformed_cost(trial: FrozenTrial) -> bool:
    """Warn if the declared cost of a trial is malformed, and return whether it is."""
    is_malformed = COST_KEY in trial.user_attrs and declared_cost(trial) is None
    if is_malformed:
        given = short_repr(trial.user_attrs[COST_KEY])  # it may be anything, of any size
        _logger.warning(
            f"Trial {trial.number} has a malformed attribute `{COST_KEY}`, which is ignored: it "
            f"must be a finite number of at least 0, but is {given}."
        )
    return is_malformed


def declared_cost(trial: FrozenTrial) -> float | None:
    cost = trial.user_attrs.get(COST_KEY)
    if isinstance(cost, bool) or not isinstance(cost, (int, float)):
        return None
    return float(cost) if 0 <= cost <= sys.float_info.max else None


def level_of_trial(trial: FrozenTrial) -> int | None:
    """Return the paper's h of a trial; None if its attribute is missing or malformed."""
    depth = trial.user_attrs.get(DEPTH_KEY)
    return depth + 1 if is_integer(depth, 0, MAX_DEPTH) else None
