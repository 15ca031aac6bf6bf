"""Optimistic tree searches without support for delays: HOO, POO, and both with fidelities.

- HOO: S. Bubeck, R. Munos, G. Stoltz, C. Szepesvari, "X-armed bandits", JMLR 12 (2011).
- POO: J.-B. Grill, M. Valko, R. Munos, "Black-box optimization of noisy functions with unknown
  smoothness", NIPS 2015.
- MFHOO, MFPOO: R. Sen, K. Kandasamy, S. Shakkottai, "Noisy blackbox optimization using
  multi-fidelity queries: a tree search approach", AISTATS 2019.

Rewards are divided by the range of the function, which these methods are given; their smoothness
is ``nu rho^h`` in units of that range.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
import math

import numpy as np
from optuna.distributions import BaseDistribution

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.problems import FloatArray


BANDITS = ("UCB1", "UCB1-sigma", "UCBV")
# POO's instances have rho = _RHO_MAX^(N / (N - i)).
_RHO_MAX = 0.9
_NU = 1.0
# Weight of UCBV's range term. With 1, the formula, some hundred evaluations are all exploration;
# the program of the PCTS paper has 0.02 to 0.8 by function for all of its trees.
_C = 0.1
# z_h is one of these.
_FIDELITIES = [i / 100 for i in range(101)]


@dataclass
class _Cell:
    depth: int
    lower: FloatArray
    upper: FloatArray
    children: list[_Cell] = field(default_factory=list)
    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    bound: float = math.inf  # the B-value

    @property
    def centre(self) -> FloatArray:
        middle: FloatArray = (self.lower + self.upper) / 2
        return middle

    def split(self) -> None:
        axis = int(np.argmax(self.upper - self.lower))
        middle = self.centre[axis]
        for is_upper in (False, True):
            lower, upper = self.lower.copy(), self.upper.copy()
            (lower if is_upper else upper)[axis] = middle
            self.children.append(_Cell(self.depth + 1, lower, upper))


class Tree:
    """One HOO, with one nu and rho.

    Args:
        n_dims:
            Dimension of the cube.
        knowledge:
            What is known about the problem.
        nu, rho:
            Smoothness: cells of depth h vary by at most nu rho^h of the range.
        bandit:
            One of :data:`BANDITS`.
        has_fidelity:
            Whether cells are evaluated at the lowest fidelity whose bias is within their
            diameter.
    """

    def __init__(
        self,
        n_dims: int,
        knowledge: Knowledge,
        *,
        nu: float = _NU,
        rho: float,
        bandit: str,
        has_fidelity: bool,
    ) -> None:
        self._knowledge, self._bandit, self._has_fidelity = knowledge, bandit, has_fidelity
        self._nu, self._rho = nu, rho
        self._root = _Cell(0, np.zeros(n_dims), np.ones(n_dims))
        self._cells = [self._root]
        self._asked: dict[int, list[_Cell]] = {}
        self._n = 0
        self._fidelities: list[float] = []  # by depth

    @property
    def n_nodes(self) -> int:
        return len(self._cells)

    @property
    def depth(self) -> int:
        return max(cell.depth for cell in self._cells)

    def ask(self, number: int) -> tuple[FloatArray, float]:
        path = [self._root]
        while path[-1].children:
            path.append(max(path[-1].children, key=lambda cell: cell.bound))
        leaf = path[-1]
        leaf.split()
        self._cells += leaf.children
        self._asked[number] = path
        return leaf.centre, self.fidelity(leaf.depth)

    def tell(self, number: int, reward: float) -> None:
        path = self._asked.pop(number)
        reward /= self._knowledge.value_range
        self._n += 1
        for cell in path:
            cell.n += 1
            cell.total += reward
            cell.squares += reward**2
        for cell in reversed(self._cells):  # children before their parents
            below = max((child.bound for child in cell.children), default=math.inf)
            cell.bound = min(self._optimism(cell), below)

    def fidelity(self, depth: int) -> float:
        """Return z_h, the lowest fidelity with a bias of at most nu rho^h."""
        while len(self._fidelities) <= depth:
            diameter = self._diameter(len(self._fidelities)) * self._knowledge.value_range
            fits = (z for z in _FIDELITIES if self._knowledge.bias(z) <= diameter)
            self._fidelities.append(next(fits, 1.0) if self._has_fidelity else 1.0)
        return self._fidelities[depth]

    def _diameter(self, depth: int) -> float:
        return self._nu * self._rho**depth

    def _optimism(self, cell: _Cell) -> float:
        """Return the U-value."""
        if not cell.n:
            return math.inf
        log = math.log(max(self._n, 2))
        mean = cell.total / cell.n
        if self._bandit == "UCBV":
            variance = max(cell.squares / cell.n - mean**2, 0.0)
            width = math.sqrt(2 * variance * log / cell.n) + 3 * _C * log / cell.n
        else:
            is_known = self._bandit == "UCB1-sigma"
            std = self._knowledge.noise_std / self._knowledge.value_range if is_known else 1.0
            width = std * math.sqrt(2 * log / cell.n)
        bias = self._knowledge.bias(self.fidelity(cell.depth)) / self._knowledge.value_range
        return mean + width + self._diameter(cell.depth) + bias


class HOO(Baseline):
    """Hierarchical optimistic optimisation with a given smoothness.

    Args:
        space, seed, knowledge:
            See :class:`Baseline`.
        bandit:
            One of :data:`BANDITS`.
        has_fidelity:
            True is MFHOO.
        rhos:
            One HOO for each of these, in turn (POO).
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
        bandit: str = "UCB1",
        has_fidelity: bool = False,
        rhos: Sequence[float] = (0.5,),
    ) -> None:
        super().__init__(space, seed=seed, knowledge=knowledge)
        if bandit not in BANDITS:
            raise ValueError(f"`bandit` must be one of {BANDITS}, but got {bandit!r}.")
        self.trees = [
            Tree(self.n_dims, self.knowledge, rho=rho, bandit=bandit, has_fidelity=has_fidelity)
            for rho in rhos
        ]
        self._asked_by: dict[int, Tree] = {}

    def ask(self, number: int) -> tuple[FloatArray, float]:
        tree = self._asked_by[number] = self.trees[len(self._asked_by) % len(self.trees)]
        return tree.ask(number)

    def tell(self, number: int, reward: float) -> None:
        self._asked_by[number].tell(number, reward)


def poo_rhos(n_evaluations: int) -> list[float]:
    """Return the rhos of POO's instances for a number of evaluations.

    POO has (D_max / 2) ln(n / ln n) instances, D_max = ln 2 / ln(1 / rho_max).
    """
    n = max(n_evaluations, 3)
    d_max = math.log(2) / math.log(1 / _RHO_MAX)
    count = max(round(d_max / 2 * math.log(n / math.log(n))), 1)
    # That many would get a few evaluations each: limited, so that each has at least fifty.
    count = min(count, max(n // 50, 1))
    return [_RHO_MAX ** (count / (count - i)) for i in range(count)]


def make_poo(
    space: Mapping[str, BaseDistribution],
    *,
    seed: int,
    knowledge: Knowledge | None = None,
    bandit: str = "UCB1-sigma",
    has_fidelity: bool = False,
) -> HOO:
    """Return POO, or MFPOO with ``has_fidelity``.

    It is told the noise: with UCB1, for rewards in [0, 1] with unknown noise, its instances hardly
    get beyond exploring in some hundred evaluations.
    """
    known = Knowledge() if knowledge is None else knowledge
    rhos = poo_rhos(known.n_evaluations)
    return HOO(
        space, seed=seed, knowledge=known, bandit=bandit, has_fidelity=has_fidelity, rhos=rhos
    )
