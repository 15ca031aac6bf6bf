"""How fast the objective may vary inside a cell: the diameter term ``nu rho^h`` of eq. 3.

Nobody knows (nu, rho) of a real objective. :class:`UnknownSmoothness` runs one instance of the
search for each of several rho, one ask in turn (appendix C.2, after POO). Unlike POO, all
instances share one tree and its feedback: an evaluation tells every instance the same thing, so
nothing is paid for twice, and each instance differs only in how it reads the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Protocol
from typing import runtime_checkable

from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number


@runtime_checkable
class SmoothnessModel(Protocol):
    """What the tree needs to know: the (nu, rho) of each instance."""

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        """Return (nu, rho) of each instance for a space of ``n_dims`` parameters."""
        ...


@dataclass(frozen=True)
class Smoothness:
    """Known smoothness: inside a cell of depth h the reward varies by at most ``nu rho^h``.

    Args:
        nu:
            Variation over the whole space, in units of the reward range (nu_1).
        rho:
            Factor by which one split shrinks it, between 0 and 1.
    """

    nu: float
    rho: float

    def __post_init__(self) -> None:
        check_number("nu", self.nu, low=0.0, open_low=False)
        check_number("rho", self.rho, low=0.0, high=1.0)

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        return [(self.nu, self.rho)]


@dataclass(frozen=True)
class UnknownSmoothness:
    """Unknown smoothness: instances with different rho over one shared tree.

    POO spreads its rho over (0, rho_max] whatever the dimension. But it takes one split per
    parameter to halve a cell along every axis, so the rho that fits depends mostly on the
    dimension D: rho = 2^(-k/D), where k is the exponent with which the objective falls off around
    its optimum (k = 1: a cone, k = 2: a parabola, k = 1/2: a cusp).

    Args:
        nu:
            Variation over the whole space, in units of the reward range (nu_max).
        exponents:
            The k of each instance.
    """

    nu: float = 1.0
    exponents: tuple[float, ...] = (0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        check_number("nu", self.nu, low=0.0, open_low=False)
        if isinstance(self.exponents, (str, bytes)) or not hasattr(self.exponents, "__iter__"):
            raise TypeError(f"`exponents` must be a sequence of numbers, got {self.exponents!r}.")
        object.__setattr__(self, "exponents", tuple(self.exponents))
        if not self.exponents:
            raise ValueError("`exponents` must name at least one instance, but is empty.")
        for exponent in self.exponents:
            check_number("exponents", exponent, low=0.0)

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        return [(self.nu, 2.0 ** (-k / max(n_dims, 1))) for k in self.exponents]


@dataclass(frozen=True)
class POOSmoothness:
    """Unknown smoothness by the grid of POO, over one shared tree.

    For a study of T trials POO has N = (D_max / 2) ln(T / ln T) instances, where D_max =
    ln 2 / ln(1 / rho_max), with rho = rho_max^(2N / (2i + 1)) for i = 0 ... N - 1: then their
    ln 2 / ln(1 / rho) are the middles of N equal parts of (0, D_max).

    The PCTS paper prints rho_max^(2N / (i + 1)) (appendix C.2), whose largest rho is at most
    rho_max squared, so that half of these parts have no instance: apparently a misprint. Its
    authors' program has rho_max^(N / (N - i)), the upper ends of the parts instead of their
    middles.

    The grid does not depend on the number of parameters: with rho = 0.95, halving a cell along
    every axis reduces its diameter by a factor of 0.95 with one parameter, and of 0.6 with ten.
    :class:`UnknownSmoothness` has factors of 0.25, 0.5 and 0.7 for any number of parameters.

    :func:`rank_instances` returns the instances by their mean reward, as POO does at the end.

    Args:
        n_trials:
            Number of trials that the study will have (T).
        nu_max:
            Variation over the whole space, in units of the reward range.
        rho_max:
            Largest factor by which one split may shrink it, between 0 and 1.
    """

    n_trials: int
    nu_max: float = 1.0
    rho_max: float = 0.95

    def __post_init__(self) -> None:
        check_integer("n_trials", self.n_trials)
        if self.n_trials < 1:
            raise ValueError(f"`n_trials` must be at least 1, but got {self.n_trials!r}.")
        check_number("nu_max", self.nu_max, low=0.0, open_low=False)
        check_number("rho_max", self.rho_max, low=0.0, high=1.0)

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        t = max(self.n_trials, 3)  # T / ln T is not monotone below
        d_max = math.log(2) / math.log(1 / self.rho_max)
        n = max(round(d_max / 2 * math.log(t / math.log(t))), 1)
        n = min(n, self.n_trials)  # at least one trial for each
        return [(self.nu_max, self.rho_max ** (2 * n / (2 * i + 1))) for i in range(n)]
