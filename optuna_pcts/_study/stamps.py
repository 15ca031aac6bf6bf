"""Time stamps of trials, and finding one by its number."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
import math
from operator import attrgetter

from optuna.trial import FrozenTrial


# Without `stale_after`, a trial is stale when it takes this many times longer than the longest one
# that ended, but never sooner than after a minute.
_STALE_FACTOR = 10
_STALE_AT_LEAST = 60.0
# ... and not before so many have ended: the first may have been much faster than the others.
STALE_NEEDS = 5


def find_trial(trials: Sequence[FrozenTrial], number: int) -> FrozenTrial | None:
    """Return the trial of a number from trials that are sorted by it."""
    if number < len(trials) and trials[number].number == number:
        return trials[number]
    i = bisect_left(trials, number, key=attrgetter("number"))
    return trials[i] if i < len(trials) and trials[i].number == number else None


def clock(stamp: datetime) -> float:
    """Return a time stamp in seconds. Those of a study may be of different time zones."""
    return stamp.timestamp()


def duration(trial: FrozenTrial) -> float | None:
    """Return the seconds from the start of a trial to its end; None if it has no time stamps."""
    if trial.datetime_start is None or trial.datetime_complete is None:
        return None
    return clock(trial.datetime_complete) - clock(trial.datetime_start)


def stale_limit(stale_after: float | None, longest: float) -> float:
    """Return the age in seconds from which on a running trial counts as lost (stale).

    Args:
        stale_after:
            The limit that the user gave, if any.
        longest:
            The longest time that a finished trial took; 0 if there is none.
    """
    if stale_after is not None:
        return stale_after
    return max(longest * _STALE_FACTOR, _STALE_AT_LEAST) if longest else math.inf
