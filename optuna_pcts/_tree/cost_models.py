"""The cost models of the paper's table 3.

==================  ====================================================  ==================
paper               here                                                  units
==================  ====================================================  ==================
``h``               the argument of :meth:`CostModel.cost`                levels, from 1
``h - 1``           the user attribute ``pcts:depth`` of a trial          levels, from 0
``lambda(Z_h)``     what :meth:`CostModel.cost` returns                   cost
``lambda(1)``       ``maximum``                                           cost
``beta``            ``beta``                                              see each model
--                  ``scale`` (1 in the paper)                            cost
``Lambda``          ``budget``                                            cost
``H(Lambda)``       :meth:`CostModel.horizon`, by summation               levels
``H(Lambda)``       ``paper_horizon``, table 3 as printed                 levels
==================  ====================================================  ==================

The paper counts levels from h = 1, the tree from depth 0 at its root, so that h = depth + 1.
Cost is whatever the budget is given in. Measured costs are seconds, unless the objective says
otherwise with ``trial.set_user_attr("pcts:cost", ...)``.
"""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import Any
from typing import overload
from typing import Protocol
from typing import runtime_checkable

import numpy as np
from numpy.typing import NDArray
import optuna

from optuna_pcts._arrays import FloatArray
from optuna_pcts._checks import check_number


# Relative tolerance for rounding: three levels at 0.1 each are within a budget of 0.3, although
# the sum of the doubles is larger. A few units in the last place, as much as the sums are off.
_ROUNDING = 2.0**-50

# From here on the terms of a power sum are so flat that six terms of the Euler-Maclaurin formula
# give it to the last digit.
_DIRECT_TERMS = 64
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # B_2, B_4, ..., B_12

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


@runtime_checkable
class CostModel(Protocol):
    """What an evaluation costs at each depth (the paper's lambda(Z_h))."""

    def cost(self, depth: float) -> float:
        """Return the cost of one evaluation at a depth, counted from 1."""
        ...

    def horizon(self, budget: float) -> float:
        """Return how many levels a budget pays for, one evaluation each."""
        ...


class _TableModel(ABC):
    """What the four models share: ``min{curve, maximum}`` and the search for the horizon."""

    beta: float
    maximum: float

    def __post_init__(self) -> None:
        check_number("beta", self.beta, low=0.0)
        _check_maximum(self.maximum)

    @overload
    def cost(self, depth: float) -> float: ...

    @overload
    def cost(self, depth: NDArray[Any] | Sequence[float]) -> FloatArray: ...

    def cost(self, depth: float | NDArray[Any] | Sequence[float]) -> float | FloatArray:
        """Return the cost of one evaluation at a depth.

        Args:
            depth:
                The paper's h, counted from 1: one more than the depth stored with a trial. A
                number or an array of numbers.

        Returns:
            A number, or an array of the shape of ``depth``.
        """
        h = _checked_levels(depth)
        with np.errstate(over="ignore", under="ignore"):
            costs = np.minimum(self._curve(h), self.maximum)
        return float(costs) if h.ndim == 0 else costs

    def horizon(self, budget: float) -> float:
        """Return max{H : cost(1) + ... + cost(H) <= budget}, the paper's H(Lambda).

        The sum is the true one, of costs that are capped at ``maximum`` level by level. It may
        exceed the budget by rounding alone (one part in 10^15), so that three levels at 0.1 fit
        into 0.3.

        Args:
            budget:
                What there is to spend (Lambda), in the unit of the costs.

        Returns:
            A whole number, exact as long as a sum of floating-point numbers can tell one level
            from the next; ``math.inf`` if the sum over all levels stays within the budget, or
            exceeds it only after more levels than a floating-point number can count.
        """
        check_number("budget", budget, low=0.0, open_low=False)
        limit = budget * (1 + _ROUNDING)
        if self._total(math.inf) <= limit:
            return math.inf
        low, high = 0, 1
        while self._total(high) <= limit:
            low, high = high, 2 * high
            if high >= 2**1023:
                return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            if self._total(middle) <= limit:
                low = middle
            else:
                high = middle
        return low

    @abstractmethod
    def _curve(self, h: FloatArray) -> FloatArray:
        """Return the costs as they would be without ``maximum``."""

    @abstractmethod
    def _total(self, n: float) -> float:
        """Return cost(1) + ... + cost(n) in a time that does not depend on n."""

    def _twice_budget(self, budget: float, unit: float = 1.0) -> float:
        """Return 2 Lambda - lambda(1), in which all closed forms of table 3 are written."""
        check_number("budget", budget, low=0.0, open_low=False)
        if math.isinf(self.maximum):
            raise ValueError(
                "The closed forms of the paper contain lambda(1), so that they need a finite "
                f"`maximum`, but it is {self.maximum!r}."
            )
        return (2 * budget - self.maximum) / unit


@dataclass(frozen=True)
class LinearGrowth(_TableModel):
    """Cost ``min{beta h, maximum}``: training that goes on for longer at each level.

    Args:
        beta:
            What each level adds, in the unit of the costs.
        maximum:
            Cost at full fidelity, lambda(1).
    """

    beta: float
    maximum: float = math.inf

    def paper_horizon(self, budget: float) -> float:
        """Return H(Lambda) = sqrt(2 (2 Lambda - lambda(1)) / beta), as table 3 prints it.

        An approximation: its derivation adds lambda(1) once, where min{a, b} <= (a + b) / 2 has
        it at every level. Where the maximum never binds, it is sqrt(2) times too large.
        :meth:`horizon` is exact.
        """
        return math.sqrt(max(2 * self._twice_budget(budget) / self.beta, 0.0))  # table 3, col. 1

    def _curve(self, h: FloatArray) -> FloatArray:
        return self.beta * h

    def _total(self, n: float) -> float:
        if math.isinf(n):
            return math.inf
        free = min(n, math.floor(min(self.maximum / self.beta, n)))
        growing = self.beta * (0.5 * free) * (free + 1.0)
        return growing + (self.maximum * (n - free) if n > free else 0.0)


@dataclass(frozen=True)
class ConstantCost(_TableModel):
    """Cost ``min{beta, maximum}``: every evaluation costs the same, however deep.

    Args:
        beta:
            Cost of an evaluation.
        maximum:
            Cost at full fidelity, lambda(1).
    """

    beta: float
    maximum: float = math.inf

    def paper_horizon(self, budget: float) -> float:
        """Return H(Lambda) = 2 (2 Lambda - lambda(1)) / beta, as table 3 prints it.

        The paper contradicts itself here: its appendix derives half of this,
        (2 Lambda - lambda(1)) / beta. Neither is Lambda / min{beta, lambda(1)}, which
        :meth:`horizon` returns, rounded down.
        """
        return max(2 * self._twice_budget(budget) / self.beta, 0.0)  # table 3, col. 2

    def _curve(self, h: FloatArray) -> FloatArray:
        return np.full_like(h, self.beta)

    def _total(self, n: float) -> float:
        return min(self.beta, self.maximum) * float(n)


@dataclass(frozen=True)
class PolynomialDecay(_TableModel):
    """Cost ``min{scale h^-beta, maximum}``: databases, where deeper changes are cheaper ones.

    Args:
        beta:
            How fast the cost decays, at least 0. The sum over all levels is finite above 1.
        maximum:
            Cost at full fidelity, lambda(1).
        scale:
            Cost of the first level, 1 in the paper.
    """

    beta: float
    maximum: float = math.inf
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("beta", self.beta, low=0.0, open_low=False)
        _check_maximum(self.maximum)
        check_number("scale", self.scale, low=0.0)

    def paper_horizon(self, budget: float) -> float:
        """Return (1 + (1 - beta) (2 Lambda - lambda(1)))^(1 / (1 - beta)), as in table 3.

        An approximation: a sum is replaced by an integral, and lambda(1) is added once where
        it stands at every level. The paper leaves out beta = 1; the limit is returned there.
        ``math.inf`` where the base is not positive, that is, where the integral over all levels
        stays within the budget. :meth:`horizon` is exact.
        """
        x = self._twice_budget(budget, self.scale)
        if x <= 0:
            return 0.0
        base = 1 + (1 - self.beta) * x
        if base <= 0:
            return math.inf
        near_one = abs(1 - self.beta) < 1e-12
        return _exp(x if near_one else math.log(base) / (1 - self.beta))  # table 3, col. 3

    def _curve(self, h: FloatArray) -> FloatArray:
        return self.scale * h**-self.beta

    def _total(self, n: float) -> float:
        # The first levels, whose cost is capped. Where h^-beta touches the maximum both are
        # the same, so that rounding here changes nothing.
        ratio = math.log(self.scale) - math.log(self.maximum)
        if ratio <= 0:
            capped = 0.0
        else:
            capped = min(float(n), _exp(ratio / self.beta) if self.beta else math.inf)
        if not math.isinf(capped):
            capped = math.floor(capped)
        total = self.maximum * capped if capped else 0.0
        if n > capped:
            total += self.scale * _power_sum(capped + 1.0, float(n), self.beta)
        return total


@dataclass(frozen=True)
class ExponentialCost(_TableModel):
    """Cost ``min{scale beta^-h, maximum}``.

    The paper calls this exponential decay and takes beta from (0, 1], where beta^-h *grows*
    with h, as it does when each level multiplies the work. Here beta may be any positive number:
    below 1 the cost grows, at 1 it is constant, above 1 it decays.

    Args:
        beta:
            Factor by which the cost of one level is smaller than that of the level before.
        maximum:
            Cost at full fidelity, lambda(1).
        scale:
            Cost of the level before the first, 1 in the paper.
    """

    beta: float
    maximum: float = math.inf
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale, low=0.0)

    def paper_horizon(self, budget: float) -> float:
        """Return log_(1/beta) (1 + (1 - beta) (2 Lambda - lambda(1))), as table 3 prints it.

        An approximation: lambda(1) is added once where it stands at every level. At beta = 1
        the limit is returned; ``math.inf`` where the argument of the logarithm is not positive
        (beta > 1, and the sum over all levels stays within the budget). :meth:`horizon` is exact.
        """
        x = self._twice_budget(budget, self.scale)
        if x <= 0:
            return 0.0
        if self.beta == 1:
            return x
        argument = (1 - self.beta) * x
        if argument <= -1:
            return math.inf
        return math.log1p(argument) / -math.log(self.beta)  # table 3, col. 4

    def _curve(self, h: FloatArray) -> FloatArray:
        return np.exp(math.log(self.scale) - math.log(self.beta) * h)

    def _total(self, n: float) -> float:
        log_beta = math.log(self.beta)
        if log_beta == 0:
            return min(self.scale, self.maximum) * float(n)
        # scale beta^-h passes the maximum here; the levels are capped before it if the cost
        # decays, after it if the cost grows.
        crossing = (math.log(self.scale) - math.log(self.maximum)) / log_beta
        crossing = min(max(crossing, 0.0), float(n))
        crossing = crossing if math.isinf(crossing) else math.floor(crossing)
        first, last = (crossing + 1, n) if log_beta > 0 else (1, crossing)
        n_capped = crossing if log_beta > 0 else (n - crossing if n > crossing else 0)
        total = self.maximum * n_capped if n_capped else 0.0
        if last >= first and not math.isinf(first):
            # A geometric series, relative to its largest term, so that nothing overflows early.
            top = _exp(math.log(self.scale) - log_beta * (first if log_beta > 0 else last))
            total += (
                top * math.expm1(-abs(log_beta) * (last - first + 1)) / math.expm1(-abs(log_beta))
            )
        return total


def _check_maximum(maximum: Any) -> None:
    if maximum != math.inf or isinstance(maximum, (bool, np.ndarray)):
        check_number("maximum", maximum, low=0.0)


def _checked_levels(depth: Any) -> FloatArray:
    if np.ndim(depth) == 0:
        depth = depth.item() if isinstance(depth, np.ndarray) else depth
        check_number("depth", depth, low=1.0, open_low=False)
        return np.asarray(depth, dtype=float)
    levels = np.asarray(depth)
    if levels.dtype.kind not in "iuf":
        raise TypeError(f"`depth` must be a number or an array of numbers, but got {depth!r}.")
    if not (np.isfinite(levels).all() and (levels >= 1).all()):
        raise ValueError(
            f"`depth` must be finite and at least 1 (a trial's stored depth plus one), but got "
            f"{depth!r}."
        )
    return levels.astype(float)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _power_sum(first: float, last: float, beta: float) -> float:
    """Return the sum of h^-beta for the whole numbers h from first to last."""
    # The terms fall off slowly enough for the formula only where h is well above beta. Beyond
    # beta = 1000 all terms but that of h = 1 are zero anyway.
    n_direct = _DIRECT_TERMS + 2 * math.ceil(min(beta, 1000.0))
    total = 0.0
    if first < n_direct:
        h = np.arange(first, min(last, n_direct - 1) + 1)
        with np.errstate(under="ignore"):
            total = math.fsum(h**-beta)
        first = float(n_direct)
    if first > last:
        return total
    log_ratio = math.log1p((last - first) / first)
    exponent = 1 - beta
    if exponent == 0:
        integral = first**exponent * log_ratio
    else:
        integral = first**exponent * math.expm1(exponent * log_ratio) / exponent
    total += integral + (first**-beta + last**-beta) / 2
    coefficient = beta / 2  # beta (beta + 1) ... (beta + 2k - 2) / (2k)!
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        power = -beta - 2 * k + 1
        total += bernoulli * coefficient * (first**power - last**power)
        coefficient *= (beta + 2 * k - 1) * (beta + 2 * k) / ((2 * k + 1) * (2 * k + 2))
    return float(total)
