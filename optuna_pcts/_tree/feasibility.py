"""How much trials violate constraints.

Once a trial is feasible, an infeasible one counts as a failure. Until then values do not matter,
and less violation is better: the total over all constraints, each in units of the median by which
trials have violated it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Mapping
import math
from statistics import median

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


# A constraint violated by so many units is as bad as one of which nothing is known.
_LARGEST = 1e3


class Feasibility:
    """The constraints that trials violate, and what their values are worth."""

    def __init__(self) -> None:
        self._violations: dict[int, Mapping[str, float]] = {}
        self._n_feasible = 0  # of those that have ended with a value
        self._units: dict[str, float] = {}

    @property
    def is_wanting(self) -> bool:
        """Whether trials violate constraints, and none that has ended is feasible."""
        return bool(self._violations) and not self._n_feasible

    def observe(
        self, number: int, value: float, violations: Mapping[str, float], *, ended: bool
    ) -> None:
        """Note what a trial has told: by how much it violates each constraint that it does."""
        if violations:
            self._violations[number] = violations
        else:
            self._n_feasible += ended and math.isfinite(value)

    def forget(self, number: int, value: float, *, ended: bool) -> None:
        """Take back what a trial has told."""
        if self._violations.pop(number, None) is None:
            self._n_feasible -= ended and math.isfinite(value)

    def learn(self, numbers: Iterable[int]) -> None:
        """Take the unit of each constraint from some trials."""
        if not self._violations:
            return
        amounts: dict[str, list[float]] = defaultdict(list)
        for number in numbers:
            for name, amount in self._violations.get(number, {}).items():
                if amount < math.inf:
                    amounts[name].append(amount)
        self._units = {name: median(found) for name, found in amounts.items()}

    def worth(self, number: int, value: float) -> float:
        """Return what the search takes for the value of a trial; NaN for a failure."""
        violations = self._violations.get(number)
        if self.is_wanting:
            return -self._total(violations) if violations else value
        return math.nan if violations else value

    def worths(self, numbers: NDArray[np.intp], values: FloatArray) -> FloatArray:
        """Return the same of several trials."""
        if not self._violations:
            return values
        pairs = zip(numbers.tolist(), values.tolist())
        return np.array([self.worth(number, value) for number, value in pairs], dtype=float)

    def _total(self, violations: Mapping[str, float]) -> float:
        return sum(
            min(amount / self._units.get(name, amount), _LARGEST)
            if amount < math.inf
            else _LARGEST
            for name, amount in violations.items()
        )
