"""When something is learned from all trials anew, and from which.

Whatever many trials say together (the scale of the rewards, the prior, the bias, where the best
point may be) is taken from those that ended first, and held until their number has grown by a
constant factor. So it is a function of the set of trials, and costs O(1) an ask.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


class Checkpoint:
    """A number of trials that is held for a while: it grows in steps of a constant factor.

    What is computed from the first so many trials to end need not be computed anew for every
    trial, and is still a function of the set of trials.

    Args:
        growth:
            The factor.
        late, late_growth:
            Another factor, from this number of trials on.
    """

    def __init__(self, growth: float, *, late: int = sys.maxsize, late_growth: float = 1) -> None:
        self._growth = growth
        self._late, self._late_growth = late, late_growth
        self._at = 1

    def below(self, n: int) -> int:
        """Return the last checkpoint up to ``n``."""
        if n < self._at:
            self._at = 1
        while (following := self._following()) <= n:
            self._at = following
        return self._at

    def _following(self) -> int:
        growth = self._growth if self._at < self._late else self._late_growth
        return max(self._at + 1, int(self._at * growth))


class Reference(NamedTuple):
    """The trials that ended first. Two that are equal are the same set with the same feedback."""

    n: int
    n_revisions: int  # how often they became others, or their feedback did


class Ended:
    """The order in which trials ended, and how often somebody has changed what was learned from.

    Attributes:
        n_revisions:
            How often trials of a reference became others, or their feedback did.
    """

    def __init__(self) -> None:
        self.n_revisions = 0
        # Of the trials that something was learned from, when the last one ended, and its number.
        self._last_learned = (-math.inf, -1)

    def first(
        self, reference: Reference, ended: NDArray[np.bool_], ended_at: FloatArray
    ) -> NDArray[np.intp]:
        """Return the numbers of the trials of a reference, ascending."""
        rows = np.flatnonzero(ended)
        rows = rows[np.argsort(ended_at[rows], kind="stable")][: reference.n]
        if len(rows):
            last = float(ended_at[rows[-1]]), int(rows[-1])
            self._last_learned = max(self._last_learned, last)
        return np.sort(rows)

    def note(self, number: int, ended_at: float) -> None:
        """Note that a trial has ended, perhaps before others that were learned from."""
        self.n_revisions += (ended_at, number) < self._last_learned

    def note_change(self) -> None:
        """Note that a trial which had ended is taken out, or told anew."""
        self.n_revisions += 1
