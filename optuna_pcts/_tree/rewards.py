"""From values of the objective to rewards: the only place that knows both.

The paper's constants are made for rewards in [0, 1]. Here 1 is the best value so far; 0 depends on
the kind of scale. A failure has reward 0 in any case. A value at less than full fidelity counts as
the expected value at full fidelity (``fidelity.py``). All of this is computed anew at a checkpoint
(``refit.py``) and held in between.

==============  ==========================================================  =================
scale           0 and 1                                                     used by
==============  ==========================================================  =================
:attr:`_kind`   "clipped": as ``local``, with nothing below 0;              the tree's bounds
                "range": the worst value and the best; or given values
``local``       the median and the best; worse values are negative          local asks
``merit``       the median of the first trials and the best                 asks level by level
==============  ==========================================================  =================
"""

from __future__ import annotations

from collections.abc import Sequence
import math
import sys
from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.fidelity import BiasModel
from optuna_pcts._tree.repeats import believable
from optuna_pcts._tree.repeats import places_of


# Values below this quantile have reward 0, as failures do: differences between bad values must not
# cost resolution between good ones.
_CLIP_QUANTILE = 0.5
# Largest reward: a value further above the best of the trials that the scale is made from has to
# wait for the next scale, which also decides whether it is an outlier.
_MAX_REWARD = 2.0
# The value of a random point is estimated from the trials that ended first: so many, and so many
# for each parameter. Later ones are where values are good.
_FIRST = (10, 2)
# Least merit of a value; that of a failure is 0.
_LEAST_MERIT = 1e-3
# There is nothing left to gain if this share of the trials, at least so many, are within this
# fraction of the best one (1: the difference between the best and a random point).
_NOTHING_LEFT = (0.1, 8, 1e-6)


class Scale(NamedTuple):
    """A linear scale: the value of 0, and the size of 1; both halved, against overflow."""

    half_low: float
    half_unit: float

    def of(self, values: FloatArray) -> FloatArray:
        """Return values on this scale; a failure (NaN) is minus infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (values / 2 - self.half_low) / self.half_unit
        scaled = np.where(values == np.inf, 1.0, scaled)
        return np.where(np.isnan(scaled), -np.inf, np.minimum(scaled, _MAX_REWARD))

    def of_one(self, value: float) -> float:
        """Return one finite value on this scale, without the overhead of an array."""
        return (value / 2 - self.half_low) / self.half_unit

    def difference(self, values: Any) -> Any:
        """Return differences of values on this scale."""
        return values / 2 / self.half_unit

    @property
    def unit(self) -> float:
        return 2 * self.half_unit


_UNIT = Scale(0.0, 0.5)


class Reward(NamedTuple):
    """What one trial tells a cell."""

    reward: float
    bias: float
    merit: float


_NOTHING = Reward(0.0, 0.0, 0.0)


class Rewards:
    """Turns values into rewards.

    Args:
        kind:
            What a reward is: "clipped", "range", or the values of rewards 0 and 1.
        bias:
            Shift and bias of values at less than full fidelity.

    Attributes:
        bias:
            The same, as it is estimated now.
        is_partial:
            Whether some trials ended at less than full fidelity.
        has_nothing_left:
            Whether many trials are as good as the best, up to rounding.
    """

    def __init__(self, kind: str | tuple[float, float], bias: BiasModel) -> None:
        self._kind = kind
        self._most = _MAX_REWARD if isinstance(kind, str) else 1.0
        self.bias = bias
        self._scale = self._local = self._merit = _UNIT
        self.is_partial = False
        self.has_nothing_left = False

    @property
    def unit(self) -> float:
        """The size of one reward in the objective's own unit."""
        return self._scale.unit

    def learn(
        self,
        numbers: NDArray[np.intp],
        values: FloatArray,
        fidelity: FloatArray,
        points: FloatArray,
        tolerance: Sequence[float],
        order: NDArray[np.intp],
        *,
        are_values: bool = True,
    ) -> FloatArray:
        """Compute everything anew from some trials.

        Args:
            numbers:
                Their numbers, ascending.
            values:
                Their values.
            fidelity:
                The fidelities of the values.
            points:
                Their positions, a row each.
            tolerance:
                Rounding error of a position, for each axis.
            order:
                Indices that sort them by when they ended.
            are_values:
                Whether these are values of the objective, and not something for which bounds of
                the objective mean nothing.

        Returns:
            Their values, with outliers replaced.
        """
        self.is_partial = bool((fidelity < 1).any())
        self.bias.learn(numbers.tolist())
        expected, is_outlier = self.believable(values, fidelity, points, tolerance)
        believed = values.copy()
        odd = is_outlier
        believed[odd] -= self.expected(values[odd], fidelity[odd]) - expected[odd]
        halves = expected[np.isfinite(expected)] / 2
        best = float(halves.max()) if len(halves) else 0.0
        self._local = _median_to_best(halves, best)
        self._scale = self._scale_of(halves) if are_values else self._local
        first = np.sort(order[: _FIRST[0] + _FIRST[1] * len(tolerance)])
        self._learn_merit(self.expected(believed[first], fidelity[first]) / 2, best, halves)
        largest = sys.float_info.max
        self.bias.scale(
            min(max(2 * self._scale.half_low, -largest), largest), min(self.unit, largest)
        )
        return believed

    def _scale_of(self, halves: FloatArray) -> Scale:
        """Return the scale of rewards, from values; all halved."""
        if not isinstance(self._kind, str):
            low, high = self._kind
            return Scale(low / 2, high / 2 - low / 2)
        if self._kind == "range" and len(halves) and halves.min() < halves.max():
            return Scale(float(halves.min()), float(halves.max() - halves.min()))
        return self._local

    def _learn_merit(self, first: FloatArray, best: float, halves: FloatArray) -> None:
        """Estimate the value of a random point anew. All values are halved."""
        first = first[np.isfinite(first)]
        low = float(np.median(first)) if len(first) else best
        self._merit = Scale(low, best - low) if low < best else self._local
        n_best = int(len(halves) * _NOTHING_LEFT[0])
        top = np.partition(halves, -n_best)[-n_best] if n_best >= _NOTHING_LEFT[1] else -math.inf
        self.has_nothing_left = bool(best - top <= _NOTHING_LEFT[2] * self._merit.half_unit)

    def believable(
        self,
        values: FloatArray,
        fidelity: FloatArray,
        points: FloatArray,
        tolerance: Sequence[float],
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return values at full fidelity with outliers replaced, and which were outliers."""
        expected = self.expected(values, fidelity)
        is_outlier = np.zeros(len(values), dtype=bool)
        if self._kind == "clipped":
            finite = np.isfinite(expected)
            places = places_of(points[finite], tolerance)
            expected[finite], is_outlier[finite] = believable(expected[finite], places)
        return expected, is_outlier

    def expected(self, values: FloatArray, fidelity: FloatArray) -> FloatArray:
        """Return the values expected at full fidelity."""
        if (fidelity < 1).any():
            shifted: FloatArray = values + self.bias.shift(fidelity)
            return shifted
        return values.copy()

    def of(self, expected: FloatArray) -> FloatArray:
        """Return the rewards of values at full fidelity."""
        rewards: FloatArray = np.clip(self._scale.of(expected), 0.0, self._most)
        return rewards

    def local(self, expected: FloatArray) -> FloatArray:
        """Return the rewards for local asks: values below the median are negative."""
        return self._local.of(expected)

    def merits(self, expected: FloatArray) -> FloatArray:
        """Return by how much values at full fidelity are better than a random point."""
        merits: FloatArray = np.clip(self._merit.of(expected), _LEAST_MERIT, _MAX_REWARD)
        merits[~(expected > -np.inf)] = 0.0  # failures
        return merits

    def of_one(self, value: float, fidelity: float) -> Reward:
        """Return what one value tells, without the overhead of an array."""
        if not math.isfinite(value):
            return Reward(1.0, 0.0, 1.0) if value == math.inf else _NOTHING
        bias = 0.0
        if fidelity < 1:
            value += float(self.bias.shift(fidelity))
            bias = self._scale.difference(float(self.bias.zeta(fidelity)))
        return Reward(
            min(max(self._scale.of_one(value), 0.0), self._most),
            bias,
            min(max(self._merit.of_one(value), _LEAST_MERIT), _MAX_REWARD),
        )

    def zeta(self, fidelity: FloatArray | float) -> Any:
        """Return the bias at fidelities, in rewards."""
        return self._scale.difference(self.bias.zeta(fidelity))

    def local_zeta(self, fidelity: FloatArray) -> FloatArray:
        """Return the same for the local asks."""
        zeta: FloatArray = self._local.difference(self.bias.zeta(fidelity))
        return zeta

    def fidelity(self, diameter: float) -> float:
        """Return the lowest fidelity whose bias is within a diameter, in rewards (zeta^-1)."""
        return self.bias.fidelity(diameter * 2 * self._scale.half_unit)


def _median_to_best(halves: FloatArray, best: float) -> Scale:
    """Return the scale of the local asks, from values; all halved."""
    low = float(np.quantile(halves, _CLIP_QUANTILE)) if len(halves) else 0.0
    if low == best:
        # At least half of the values equal the best: take the median of the others.
        others = halves[halves < best]
        a_little = max(0.5, abs(best) / 1e3)
        low = float(np.quantile(others, _CLIP_QUANTILE)) if len(others) else best - a_little
    return Scale(low, best - low)
