"""When estimates from all trials are refitted, and to which trials.

What is estimated from many trials (the scale of the rewards, the prior, the bias, where the best
point may be) is fitted to those that ended first, and held until their number has grown by a
constant factor. So it is a function of the set of trials, and costs O(1) per ask, amortised.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


class Checkpoint:
    """A number of trials that grows in steps of a constant factor.

    What is computed from that many trials, those that ended first, need not be computed anew for
    every trial, and is still a function of the set of trials.

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
    """The trials that ended first. Equal references: the same trials with the same feedback."""

    n: int
    n_revisions: int  # how often this set, or feedback in it, has changed
    is_wanting: bool = False  # whether constraints are violated, and nothing is feasible


class Ended:
    """The order in which trials ended, and how often those of a reference have changed.

    Attributes:
        n_revisions:
            How often the trials of a reference, or their feedback, have changed.
    """

    def __init__(self) -> None:
        self.n_revisions = 0
        # When the last trial of any reference ended, and its number.
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
        """Note that a trial has ended, perhaps before others that are in a reference."""
        self.n_revisions += (ended_at, number) < self._last_learned

    def note_change(self) -> None:
        """Note that an ended trial was removed, or told anew."""
        self.n_revisions += 1
