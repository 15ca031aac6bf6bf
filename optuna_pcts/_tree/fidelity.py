"""How far to evaluate a trial, and what a value at low fidelity says about full fidelity.

==================  ====================================================  ==================
paper               here                                                  units
==================  ====================================================  ==================
``z``, ``Z_h``      fidelity: 0 is nothing, 1 a full evaluation           --
``zeta(z)``         :meth:`BiasModel.zeta`                                objective's own
``Z_h``             :meth:`BiasModel.fidelity` of the diameter at h       --
``nu_1 rho^h``      ``diameter``                                          objective's own
==================  ====================================================  ==================

A cell of depth h is evaluated at the lowest fidelity whose bias is at most the diameter of the
cell, ``z_h = zeta^-1(nu rho^h)`` (section 3.4): a cheap and biased value is enough to choose
between large cells; small ones need full fidelity.

zeta is unknown, but the learning curve of a trial at full fidelity shows by how much its value at
each z was off. What all curves have in common (a loss falls, an accuracy rises) does not change
the order of the trials: it is the *shift*, and is added to each value. The rest is the bias, and
zeta is its root mean square, without the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number


# zeta and the shift are piecewise linear between these fidelities.
_KNOTS: FloatArray = np.concatenate([[0.0], 2.0 ** (np.arange(-12, 1) / 2)])
# The prior of zeta is 0.3 (1 - z) in units of the reward, the difference between the best and the
# median value. Its weight decreases with each complete curve, to 0 from so many on.
_PRIOR_SCALE = 0.3
_ENOUGH_CURVES = 5
# The shift is not the same for all trials: the bias is at least this part of it, even if that is
# too little to be seen in the noise.
_SHIFT_SPREAD = 0.2
# Curves with at least so many reports are smoothed.
_ENOUGH_REPORTS = 8
# Curves with larger values are left out: their squares overflow.
_LARGEST = 1e150
# Median of the square of a standard normal variable.
_CHI_SQUARE_MEDIAN = 0.455

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
            Share of the trials that are evaluated at full fidelity whatever their depth: the bias
            is learned from their curves, and only trials at full fidelity are recommended. (Local
            asks around the argmax of the posterior mean are at full fidelity in any case.)
        n_trials:
            Number of trials the study will have, if it is known: the last tenth of them is
            evaluated at full fidelity, around the best. (:class:`CostBudget` does this by
            itself.)
        bias:
            A bound of the bias, zeta(z): a function from a fidelity in [0, 1] to the largest
            difference from the value at full fidelity, in the unit of the objective. It must not
            increase. By default it is learned.
    """

    minimum: float | None = None
    full_share: float = 0.2
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
        self._curves: dict[int, _Smooth] = {}  # by trial number
        self.learn(())
        self.scale(0.0, 1.0)

    def observe(self, number: int, curve: FloatArray) -> None:
        """Learn the curve of a trial that has ended.

        Args:
            number:
                Trial number.
            curve:
                Its fidelities in the first row, ascending, and its values there in the second.
        """
        if np.abs(curve[1]).max() > _LARGEST:
            return
        smooth = _Smooth(*curve)
        if np.count_nonzero(~np.isnan(smooth.row)) > 1:
            self._curves[number] = smooth

    def forget(self, number: int) -> None:
        """Take back what was learned from a trial."""
        self._curves.pop(number, None)

    def learn(self, numbers: Iterable[int]) -> None:
        """Estimate the shift from the curves of some trials.

        From the highest fidelity down: the shift of a curve at a fidelity is the difference to
        its last value, plus the shift at the fidelity of that value.
        """
        curves = []
        if self._given is None:
            curves = [self._curves[n] for n in numbers if n in self._curves]
        rows = np.array([c.row for c in curves]).reshape(-1, len(_KNOTS))
        noise = [c.noise for c in curves if not math.isnan(c.noise)]
        variance = sum(noise) / len(noise) if noise else 0.0
        self._noise = variance * np.array([c.factor for c in curves]).reshape(-1, len(_KNOTS))
        known = ~np.isnan(rows)
        self._rows = rows
        self._last = len(_KNOTS) - 1 - np.argmax(known[:, ::-1], axis=1)
        self._end = rows[np.arange(len(rows)), self._last]
        self._passed = known & (np.arange(len(_KNOTS)) < self._last[:, None])
        self._shift: FloatArray = np.zeros_like(_KNOTS)
        for k in self._seen()[::-1]:
            at = self._passed[:, k]
            ends = self._end[at] + self._shift[self._last[at]]
            self._shift[k] = np.median(ends - rows[at, k])
        self._shift = self._between(self._shift)

    def scale(self, low: float, unit: float, doubt: float = -1.0) -> None:
        """Estimate zeta from the curves, given the scale of the rewards.

        Args:
            low:
                The value of reward 0. Worse values have the same reward, whatever their bias.
            unit:
                The size of one reward.
            doubt:
                How many standard errors to add to the estimate. The search subtracts one: if the
                estimate is too low, further cheap values soon show it.
        """
        if self._given is not None:
            self._zeta = self._given
            return
        rms, error = np.zeros_like(_KNOTS), np.zeros_like(_KNOTS)
        for k in self._seen()[::-1]:
            at = self._passed[:, k]
            last = self._last[at]
            expected = np.maximum(self._rows[at, k] + self._shift[k], low)
            off = np.maximum(self._end[at] + self._shift[last], low) - expected
            square = 0.0
            for knot in np.unique(last):
                group = off[last == knot]
                noise = float(np.mean(self._noise[at, k][last == knot]))
                so_far = np.mean(group**2) * (1 + doubt * math.sqrt(2 / len(group))) - noise
                so_far = math.sqrt(max(so_far, 0.0))
                # Deviations up to here and from here on are likely to have the same sign.
                square += (so_far + rms[knot]) ** 2 * len(group) / len(off)
            rms[k] = math.sqrt(square)
            error[k] = math.sqrt(np.mean(off**2) / len(off))
        n_whole = np.count_nonzero(self._last == len(_KNOTS) - 1)
        trust = min(n_whole / _ENOUGH_CURVES, 1.0)
        prior = _PRIOR_SCALE * unit * (1 - _KNOTS)
        certain = np.maximum(np.abs(self._shift) - 2 * self._between(error), 0.0)
        learned = np.maximum(self._between(rms), _SHIFT_SPREAD * certain)
        zeta = trust * learned + (1 - trust) * prior
        # Monotone: the bias at z is at least that of any higher fidelity.
        self._zeta = np.maximum.accumulate(zeta[::-1])[::-1]

    def _seen(self) -> NDArray[np.intp]:
        """Return the knots that some curve has passed."""
        return np.flatnonzero(self._passed.any(axis=0))

    def _between(self, at_knots: FloatArray) -> FloatArray:
        """Fill in the knots that no curve has passed."""
        seen = np.append(self._seen(), len(_KNOTS) - 1)
        filled: FloatArray = np.interp(_KNOTS, _KNOTS[seen], at_knots[seen])
        return filled

    def shift(self, fidelity: FloatArray | float) -> Any:
        """Return the expected difference between the value at full fidelity and that here."""
        return np.interp(fidelity, _KNOTS, self._shift)

    def zeta(self, fidelity: FloatArray | float) -> Any:
        """Return the bias at a fidelity; at full fidelity there is none."""
        return np.where(np.asarray(fidelity) < 1, np.interp(fidelity, _KNOTS, self._zeta), 0.0)

    def fidelity(self, diameter: float) -> float:
        """Return the lowest fidelity whose bias is at most a diameter (zeta^-1)."""
        return float(np.interp(diameter, self._zeta[::-1], _KNOTS[::-1]))


class _Smooth:
    """A smoothed learning curve.

    A cubic polynomial of log z is fitted to its reports, if there are enough of them; that is
    flexible enough for curves that fall like a power of z, or exponentially.

    Attributes:
        row:
            Its values at the knots; NaN at those that it has not passed.
        noise:
            Variance of the noise of a report: of its distance from the line between its
            neighbours. The median, because a curve that falls steeply at its start is not noisy
            there. NaN if there are too few reports.
        factor:
            Variance of the noise of the difference between its end and each knot, in units of
            ``noise``.
    """

    def __init__(self, fidelities: FloatArray, values: FloatArray) -> None:
        n = len(values)
        inside = (fidelities[0] <= _KNOTS) & (fidelities[-1] >= _KNOTS)
        knots = _KNOTS[inside]
        self.row: FloatArray = np.full(len(_KNOTS), np.nan)
        self.factor: FloatArray = np.full(len(_KNOTS), 2.0)
        self.noise = math.nan
        if n >= _ENOUGH_REPORTS and len(knots):
            weights = _powers(knots) @ np.linalg.pinv(_powers(fidelities))
        else:
            # Linear between two reports: with their values 0 and 1, the weight of each.
            weights = np.array([np.interp(knots, fidelities, one) for one in np.eye(n)]).T
        self.row[inside] = weights @ values
        if len(knots):
            self.factor[inside] = ((weights[-1] - weights) ** 2).sum(axis=1)
        if n >= 3:
            steps = np.diff(fidelities)
            w = steps[1:] / np.maximum(steps[1:] + steps[:-1], 1e-300)
            off = values[1:-1] - w * values[:-2] - (1 - w) * values[2:]
            squares = off**2 / (1 + w**2 + (1 - w) ** 2)
            self.noise = float(np.median(squares)) / _CHI_SQUARE_MEDIAN


def _powers(fidelities: FloatArray) -> FloatArray:
    return np.vander(np.log(np.maximum(fidelities, _KNOTS[1] / 2)), 4)
