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
            The lowest fidelity to be used. By default that of ``min_resource`` where there is a
            :class:`PCTSPruner`, which is a lower limit in any case, and otherwise 0.05.
        full_share:
            Share of the trials that are evaluated at full fidelity whatever their depth. With
            their curves the bias is learned, and from them the recommendation is chosen.
        n_trials:
            Number of trials the study will have, if it is known: the last tenth of them is
            evaluated at full fidelity, around the best. (:class:`CostBudget` sees to that
            itself.)
        bias:
            A bound of the bias, zeta(z): a function from a fidelity in [0, 1] to the largest
            difference from the value at full fidelity, in the unit of the objective. It must not
            increase. By default it is learned.
    """

    minimum: float | None = None
    full_share: float = 0.1
    n_trials: int | None = None
    bias: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        for name, value in (("minimum", self.minimum), ("full_share", self.full_share)):
            if value is not None:
                check_number(name, value, low=0.0, high=1.0, open_low=False, open_high=False)
        if self.n_trials is not None:
            check_integer("n_trials", self.n_trials)
            if self.n_trials < 1:
                raise ValueError(f"`n_trials` must be at least 1, but got {self.n_trials!r}.")
        if self.bias is not None:
            checked_bias(self.bias)

    def is_last(self, number: int) -> bool:
        """Whether a trial is one of the last of the study."""
        return self.n_trials is not None and number >= self.n_trials * (1 - LAST_SHARE)

    def is_full(self, number: int) -> bool:
        """Whether a trial is one of those at full fidelity whatever their depth."""
        if self.full_share and self.bias is None and number < _ENOUGH_CURVES:
            return True  # the first curves, from all over the space
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
        self._rows: dict[int, FloatArray] = {}  # by trial number: its values at the knots
        self.learn(0)
        self.scale(1.0)

    def observe(self, number: int, curve: FloatArray) -> None:
        """Learn the curve of a trial that has ended.

        Args:
            number:
                Trial number.
            curve:
                Its fidelities in the first row, ascending, and its values there in the second.
        """
        fidelities, values = curve
        row = np.interp(_KNOTS, fidelities, values, left=np.nan, right=np.nan)
        if np.count_nonzero(~np.isnan(row)) > 1:
            self._rows[number] = row

    def forget(self, number: int) -> None:
        """Take back what was learned from a trial."""
        self._rows.pop(number, None)

    def learn(self, below: int) -> None:
        """Take the shift and the bias from the curves of the trials below a number.

        From the highest fidelity down: what a curve says about a fidelity is how far its own end
        is from there, and what is known about its end.
        """
        self._shift: FloatArray = np.zeros_like(_KNOTS)
        self._square: FloatArray = np.zeros_like(_KNOTS)
        self._noise = 0.0  # its variance
        numbers = sorted(n for n in self._rows if n < below) if self._given is None else []
        self._n_whole = 0
        if not numbers:
            return
        rows = np.array([self._rows[n] for n in numbers])
        known = ~np.isnan(rows)
        last = len(_KNOTS) - 1 - np.argmax(known[:, ::-1], axis=1)
        end = rows[np.arange(len(rows)), last]
        self._n_whole = int(np.count_nonzero(last == len(_KNOTS) - 1))
        self._noise = _noise_variance(rows)
        seen = [len(_KNOTS) - 1]
        for k in range(len(_KNOTS) - 2, -1, -1):
            on_the_way = known[:, k] & (last > k)
            n = np.count_nonzero(on_the_way)
            if not n:
                continue
            seen.insert(0, k)
            ends_at = last[on_the_way]
            missing = end[on_the_way] + self._shift[ends_at] - rows[on_the_way, k]
            self._shift[k] = np.median(missing)
            # What is off so far is likely to be off further on, in the same direction.
            off = np.abs(missing - self._shift[k]) + np.sqrt(self._square[ends_at])
            square = float(np.mean(off**2))
            # Both ends of a difference are noisy. Few curves may differ by chance.
            by_chance = square * math.sqrt(2 / n)
            self._square[k] = max(square - by_chance - 2 * self._noise, 0.0)
        self._shift = np.interp(_KNOTS, _KNOTS[seen], self._shift[seen])
        self._square = np.interp(_KNOTS, _KNOTS[seen], self._square[seen])

    def scale(self, unit: float) -> None:
        """Set zeta, given the size of one reward: the prior and what was learned."""
        if self._given is not None:
            self._zeta = self._given
            return
        trust = min(self._n_whole / _ENOUGH_CURVES, 1.0)
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


def _noise_variance(rows: FloatArray) -> float:
    """Return the variance of the noise: of what a straight line does not explain."""
    variances = []
    for k in range(1, len(_KNOTS) - 1):
        a, b, c = _KNOTS[k - 1 : k + 2]
        w = (c - b) / (c - a)
        off = rows[:, k] - w * rows[:, k - 1] - (1 - w) * rows[:, k + 1]
        off = off[~np.isnan(off)]
        if len(off) >= _ENOUGH_CURVES:
            variances.append(float(np.mean(off**2)) / (1 + w**2 + (1 - w) ** 2))
    # The smallest: elsewhere the curves are curved.
    return min(variances, default=0.0)
