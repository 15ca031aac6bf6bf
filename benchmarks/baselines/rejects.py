"""Successive rejection of cells: the system SR of appendix D.5.

A. Locatelli, A. Carpentier, "Adaptivity to smoothness in X-armed bandits", COLT 2018. At level l
all remaining cells have sides 2^-l. The centre of each is evaluated t_l times; those whose mean is
more than B_l below the best one are rejected, and the others are halved along every axis::

    delta_l = delta 2^(-l (d + 1))                              confidence of one cell
    b_l     = 2^(-l alpha)                                      bias: what a cell may vary by
    t_l     = 2 sigma^2 log(1 / delta_l) / b_l^2                noise as large as the bias
    B_l     = 2 (sqrt(2 sigma^2 log(1 / delta_l) / t_l) + b_l)

The PCTS paper names their algorithm 2, with waiting for the feedback. What its authors' program
runs (``MFTreeSearchCV/SR.py``) is this, for one alpha that is given, 2, and delta = 0.1; it does
not adapt alpha. The formulas are taken from there, and so are these two numbers. Differences:

- The program cuts one side of the cell at each level. Their delta_l is made for 2^(l d) cells, so
  here all sides are cut.
- The program takes values as they are. Their rewards are in [0, 1]: here they are divided by the
  range of the function.
- For rewards in [0, 1] sigma is 1/2, and t_1 = 36 for two parameters: a hundred evaluations are
  not enough for the four cells of level 1. Like the others here, it is told the noise.
- The order within a level is free. Here it is random, each cell once before any one again. A
  level with more cells than there are evaluations is never completed; a random part of it is
  evaluated.
- Where several workers have asked all of a level and not been told, its cells are asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
import math

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.problems import FloatArray


class SuccessiveRejects(Baseline):
    """Successive rejection of cells.

    Args:
        space, seed, knowledge:
            See :class:`Baseline`.
        alpha:
            Smoothness: within x of the optimum the reward is at most x^alpha lower.
        delta:
            Probability that the best cell is rejected.
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
        alpha: float = 2.0,
        delta: float = 0.1,
    ) -> None:
        super().__init__(space, seed=seed, knowledge=knowledge)
        self._alpha, self._delta = alpha, delta
        self._std = self.knowledge.noise_std / self.knowledge.value_range
        self._asked: dict[int, tuple[int, int]] = {}  # the level and the cell of a trial
        self._begin(0, np.full((1, self.n_dims), 0.5), is_whole=True)

    @property
    def bias(self) -> float:
        """By how much a cell of this level may vary (b_l)."""
        return float(2.0 ** (-self.level * self._alpha))

    @property
    def n_pulls(self) -> int:
        """How often each cell of this level is evaluated (t_l)."""
        return max(math.ceil(2 * self._std**2 * self._log() / self.bias**2), 1)

    @property
    def tolerance(self) -> float:
        """How far below the best one a cell of this level may be (B_l)."""
        return 2 * (math.sqrt(2 * self._std**2 * self._log() / self.n_pulls) + self.bias)

    def _log(self) -> float:
        """Return log(1 / delta_l)."""
        return math.log(1 / self._delta) + self.level * (self.n_dims + 1) * math.log(2)

    def _begin(self, level: int, centres: FloatArray, is_whole: bool) -> None:
        """Begin a level with these cells, which may be only a part of it."""
        self.level, self.centres, self._is_whole = level, centres, is_whole
        self._n_asked: NDArray[np.int64] = np.zeros(len(centres), dtype=int)
        self._n_told: NDArray[np.int64] = np.zeros(len(centres), dtype=int)
        self._total: FloatArray = np.zeros(len(centres))

    def _refine(self, parents: FloatArray) -> None:
        """Go on with the children of these cells, in random order."""
        n_children = 2**self.n_dims
        n = len(parents) * n_children
        n_seen = min(n, max(self.knowledge.n_evaluations, 1))
        chosen = self.rng.choice(n, n_seen, replace=False)
        # The bits of a child's number say on which sides of its parent's centre it lies.
        bits = (chosen % n_children)[:, None] >> np.arange(self.n_dims) & 1
        shifts = (bits - 0.5) * 0.5 ** (self.level + 1)
        self._begin(self.level + 1, parents[chosen // n_children] + shifts, n_seen == n)

    def ask(self, number: int) -> tuple[FloatArray, float]:
        cell = int(np.argmin(self._n_asked))
        self._n_asked[cell] += 1
        self._asked[number] = self.level, cell
        return self.centres[cell], 1.0

    def tell(self, number: int, reward: float) -> None:
        level, cell = self._asked.pop(number)
        if level < self.level:
            return  # one more than necessary
        self._n_told[cell] += 1
        self._total[cell] += reward / self.knowledge.value_range
        if self._is_whole and self._n_told.min() >= self.n_pulls:
            mean = self._total / self._n_told
            kept = mean >= mean.max() - self.tolerance
            self._refine(self.centres[kept])
