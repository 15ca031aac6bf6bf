"""How far to evaluate a trial, and what a value from halfway says about the end.

==================  ====================================================  ==================
paper               here                                                  units
==================  ====================================================  ==================
``z``, ``Z_h``      fidelity: 0 is nothing, 1 the whole evaluation        --
``zeta(z)``         :meth:`BiasModel.zeta`                                objective's own
``Z_h``             :meth:`BiasModel.fidelity` of the diameter at h       --
``nu_1 rho^h``      ``diameter``                                          objective's own
==================  ====================================================  ==================

A cell of depth h is evaluated at the lowest fidelity whose bias is at most the diameter of the
cell, ``z_h = zeta^-1(nu rho^h)`` (section 3.4): while the cells are large, a cheap and biased
value tells which one to go on with; when they are small, only the whole evaluation does.

Nobody knows zeta, but trials that were evaluated to their end have left a curve behind, and each
point of it says by how much the value at z was off. What all curves have in common (a loss falls,
an accuracy rises) changes nothing about which trial is better: it is the *shift*, and added to
each value. What is left is the bias, and zeta its root mean square, without the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number
from optuna_pcts._policy import FloatArray


# zeta and the shift are piecewise linear between these fidelities.
_KNOTS: FloatArray = np.concatenate([[0.0], 2.0 ** (np.arange(-12, 1) / 2)])
# Until curves say otherwise, zeta(z) = 0.3 (1 - z) in units of the reward: a value from the very
# start is off by a third of what the best trial is better than the median. With each curve this
# counts for less, and for nothing from so many on.
_PRIOR_SCALE = 0.3
_ENOUGH_CURVES = 5


# The last part of a study is evaluated at full fidelity, around the best trials.
LAST_SHARE = 0.1


@dataclass(frozen=True)
class LinearBias:
    """The bias ``scale * (1 - z)``: a zeta for :class:`DepthFidelity`.

    Args:
        scale:
            Bias at fidelity 0 (the paper's C), in the unit of the objective.
    """

    scale: float

    def __post_init__(self) -> None:
        check_number("scale", self.scale, low=0.0, open_low=False)

    def __call__(self, fidelity: float) -> float:
        return self.scale * (1.0 - fidelity)


@dataclass(frozen=True)
class DepthFidelity:
    """How the fidelity of a trial follows from the depth of its cell.

    Args:
        minimum:
            The lowest fidelity to be used. With :class:`PCTSPruner`, its ``min_resource`` is a
            lower limit, too.
        full_share:
            Share of the trials that are evaluated at full fidelity whatever their depth, around
            the best trials so far. The bias is learned from them.
        n_trials:
            Number of trials the study will have, if it is known: the last tenth of them is
            evaluated at full fidelity, around the best. (:class:`CostBudget` sees to that
            itself.)
        bias:
            A bound of the bias, zeta(z): a function from a fidelity in [0, 1] to the largest
            difference from the value at full fidelity, in the unit of the objective. It must not
            increase. By default it is learned.
    """

    minimum: float = 0.05
    full_share: float = 0.1
    n_trials: int | None = None
    bias: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        for name in ("minimum", "full_share"):
            value = getattr(self, name)
            check_number(name, value, low=0.0, high=1.0, open_low=False, open_high=False)
        if self.n_trials is not None:
            check_integer("n_trials", self.n_trials)
            if self.n_trials < 1:
                raise ValueError(f"`n_trials` must be at least 1, but got {self.n_trials!r}.")
        if self.bias is not None:
            checked_bias(self.bias)

    def is_full(self, number: int) -> bool:
        """Whether a trial is one of those at full fidelity whatever their depth."""
        if self.n_trials is not None and number >= self.n_trials * (1 - LAST_SHARE):
            return True
        return int((number + 1) * self.full_share) > int(number * self.full_share)


def checked_bias(bias: Any) -> FloatArray:
    """Return a user's zeta at the knots, if it is one."""
    if not callable(bias):
        raise TypeError(f"`bias` must be a function of the fidelity, but got {bias!r}.")
    zeta = np.array([float(bias(float(z))) for z in _KNOTS])
    if not np.isfinite(zeta).all() or (zeta < 0).any() or (np.diff(zeta) > 0).any():
        raise ValueError(
            "`bias` must give finite numbers that are not negative and do not increase with the "
            f"fidelity, but {bias!r} gives {zeta.tolist()} at {_KNOTS.tolist()}."
        )
    return zeta


class BiasModel:
    """The shift and the bias of values at less than full fidelity.

    Args:
        bias:
            The bias, if it is known.
    """

    def __init__(self, bias: Callable[[float], float] | None = None) -> None:
        self._given = None if bias is None else checked_bias(bias)
        self._rows: list[FloatArray] = []  # full value - value, at the knots
        self._numbers: list[int] = []  # of their trials
        self.learn(0)
        self.scale(1.0)

    def observe(self, number: int, curve: FloatArray, value: float) -> None:
        """Learn the curve of a trial that was evaluated to its end.

        Args:
            number:
                Trial number.
            curve:
                Its fidelities below 1 in the first row, ascending, and its values there.
            value:
                Its value at full fidelity.
        """
        fidelities, values = curve
        row = np.full(len(_KNOTS), np.nan)
        row[_nearest_knot(fidelities)] = value - values  # of several, the last
        row[-1] = 0.0
        self._numbers.append(number)
        self._rows.append(row)

    def forget(self, number: int) -> None:
        """Take back what was learned from a trial."""
        if number in self._numbers:
            i = self._numbers.index(number)
            del self._numbers[i], self._rows[i]

    @property
    def has_curves(self) -> bool:
        return bool(self._rows)

    def learn(self, below: int) -> None:
        """Take the shift and the bias from the curves of the trials below a number."""
        chosen = sorted((n, i) for i, n in enumerate(self._numbers) if n < below)
        rows = np.array([self._rows[i] for _, i in chosen]).reshape(-1, len(_KNOTS))
        counts = np.count_nonzero(~np.isnan(rows), axis=0)
        seen = np.flatnonzero(counts)
        self._n_curves: FloatArray = np.zeros_like(_KNOTS)
        self._shift: FloatArray = np.zeros_like(_KNOTS)
        self._square: FloatArray = np.zeros_like(_KNOTS)
        self._noise = 0.0  # its variance
        if self._given is None and len(seen):
            rows = rows[:, seen]
            shift = np.nanmedian(rows, axis=0)
            square = np.nanmean((rows - shift) ** 2, axis=0)
            # Few curves may differ by chance. Both ends of a difference are noisy.
            square *= np.maximum(1 - np.sqrt(2 / counts[seen]), 0.0)
            self._noise = _noise_variance(rows, _KNOTS[seen])
            square = np.maximum(square - 2 * self._noise, 0.0)
            self._shift = np.interp(_KNOTS, _KNOTS[seen], shift)
            self._square = np.interp(_KNOTS, _KNOTS[seen], square)
            self._n_curves = np.interp(_KNOTS, _KNOTS[seen], counts[seen])

    def scale(self, unit: float) -> None:
        """Set zeta, given the size of one reward: the prior and what was learned."""
        if self._given is not None:
            self._zeta = self._given
            return
        trust = np.minimum(self._n_curves / _ENOUGH_CURVES, 1.0)
        zeta = trust * np.sqrt(self._square) + (1 - trust) * _PRIOR_SCALE * unit * (1 - _KNOTS)
        # Monotone: the bias at z is at least that of any higher fidelity.
        self._zeta = np.maximum.accumulate(zeta[::-1])[::-1]

    def shift(self, fidelity: FloatArray | float) -> Any:
        """Return what to add to a value to expect the one at full fidelity."""
        return np.interp(fidelity, _KNOTS, self._shift)

    def zeta(self, fidelity: FloatArray | float) -> Any:
        """Return the bias at a fidelity."""
        return np.interp(fidelity, _KNOTS, self._zeta)

    def fidelity(self, diameter: float) -> float:
        """Return the lowest fidelity whose bias is at most a diameter (zeta^-1).

        Or at most the noise, if that is larger: a single value cannot show such a bias, and many
        cheap values say more than a few dear ones.
        """
        allowed = max(diameter, math.sqrt(self._noise))
        return float(np.interp(allowed, self._zeta[::-1], _KNOTS[::-1]))


def _nearest_knot(fidelities: FloatArray) -> NDArray[np.intp]:
    """Return the knot nearest to each fidelity, but neither of the two ends."""
    middle = np.sqrt(_KNOTS[1:-2] * _KNOTS[2:-1])
    return 1 + np.searchsorted(middle, fidelities)


def _noise_variance(rows: FloatArray, knots: FloatArray) -> float:
    """Return the variance of the noise: of what a straight line does not explain."""
    variances = [0.0]
    for k in range(1, len(knots) - 1):
        a, b, c = knots[k - 1 : k + 2]
        w = (c - b) / (c - a)
        off = rows[:, k] - w * rows[:, k - 1] - (1 - w) * rows[:, k + 1]
        off = off[~np.isnan(off)]
        if len(off) >= 5:
            variances.append(float(np.mean(off**2)) / (1 + w**2 + (1 - w) ** 2))
    # Elsewhere the curves are curved.
    return min(variances[1:], default=0.0)
