"""The delayed bandits of the paper's table 2, one formula each.

==================  ====================================================  ==================
paper               here                                                  units
==================  ====================================================  ==================
``mu_(i,s)``        :attr:`NodeStatistics.mean`                           reward
``sigma^2_(i,s)``   :attr:`NodeStatistics.variance`                       reward squared
``s = S_i(t-1)``    :attr:`NodeStatistics.n_told`                         trials
``T_i(t-1)``        :attr:`NodeStatistics.n_asked`                        trials
``log t``           :attr:`NodeStatistics.log_t`                          --
``sigma`` (known)   ``DUCB1Sigma.noise_std``                              objective's own
``b``               ``DUCBV.reward_range``                                objective's own
``B_(i,s,t)``       what :meth:`Policy.bound` returns                     reward
==================  ====================================================  ==================

The delayed versions differ from UCB1, UCB1-sigma and UCB-V in one thing only: ``s`` counts the
trials told back (S), not those asked (T), so a trial in flight never narrows a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from typing import runtime_checkable

import numpy as np

from optuna_pcts._arrays import FloatArray
from optuna_pcts._checks import check_number


# UCB-V's 3 b log t / s covers the worst case and, taken literally (c = 1), is still wider than the
# reward range after hundreds of trials. The authors' program scales it by 0.02 to 0.8, chosen by
# hand for each function; with one small value for all, the bound follows the measured variance.
_DEFAULT_C = 0.01


@dataclass(frozen=True)
class NodeStatistics:
    """What a policy may know about the cells: one entry per cell.

    A cell without feedback appears as if its prior had been told once; without a prior, its bound
    is not used.

    Rewards are larger-is-better and scaled: 0 is the median objective value seen so far (and all
    that is worse), 1 the best. ``unit`` is the size of one reward in the objective's own unit.
    """

    mean: FloatArray
    variance: FloatArray
    n_told: FloatArray
    n_asked: FloatArray
    depth: FloatArray
    log_t: float
    unit: float


@runtime_checkable
class Policy(Protocol):
    """A bandit over the cells of the tree (the paper's BANDIT).

    Implement this one method to bring your own. It must be a pure function of its argument:
    it is called for a few cells after each trial and for all cells now and then, and both must
    agree.
    """

    def bound(self, cells: NodeStatistics) -> FloatArray:
        """Return an upper confidence bound on the mean reward of each cell.

        The tree adds the smoothness term.
        """
        ...


@dataclass(frozen=True)
class DUCB1:
    """Delayed UCB1: for rewards in [0, 1] with unknown noise. Explores a lot."""

    def bound(self, cells: NodeStatistics) -> FloatArray:
        return cells.mean + np.sqrt(2 * cells.log_t / cells.n_told)  # table 2, column 1


@dataclass(frozen=True)
class DUCB1Sigma:
    """Delayed UCB1-sigma: for noise whose standard deviation is known.

    Args:
        noise_std:
            Standard deviation of the noise, in the unit of the objective.
    """

    noise_std: float

    def __post_init__(self) -> None:
        check_number("noise_std", self.noise_std, low=0.0)

    def bound(self, cells: NodeStatistics) -> FloatArray:
        sigma = min(self.noise_std / cells.unit, 1e300)  # the square of a large one overflows
        return cells.mean + sigma * np.sqrt(2 * cells.log_t / cells.n_told)  # eq. 6


@dataclass(frozen=True)
class DUCBV:
    """Delayed UCB-V: for unknown noise. The variance is measured.

    Args:
        reward_range:
            Range of the objective (b), in its own unit. By default the range measured so far.
        c:
            Weight of the range term. 1 is the paper's formula, and explores far more than a few
            thousand trials can pay for; the authors' own program uses 0.02 to 0.8.
    """

    reward_range: float | None = None
    c: float = _DEFAULT_C

    def __post_init__(self) -> None:
        if self.reward_range is not None:
            check_number("reward_range", self.reward_range, low=0.0)
        check_number("c", self.c, low=0.0, open_low=False)

    def bound(self, cells: NodeStatistics) -> FloatArray:
        b = 1.0 if self.reward_range is None else self.reward_range / cells.unit
        return (  # eq. 8
            cells.mean
            + np.sqrt(2 * cells.variance * cells.log_t / cells.n_told)
            + 3 * self.c * b * cells.log_t / cells.n_told
        )
