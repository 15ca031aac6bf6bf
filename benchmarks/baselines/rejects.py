"""Successive rejects over a finite set of points.

J.-Y. Audibert, S. Bubeck, R. Munos, "Best arm identification in multi-armed bandits", COLT 2010:
in each of K - 1 phases all arms that are left are pulled equally often, and the worst is dropped.
The arms are random points of the cube, since the method has none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
import math

import numpy as np
from optuna.distributions import BaseDistribution

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.problems import FloatArray


class SuccessiveRejects(Baseline):
    """Successive rejects.

    Args:
        space, seed, knowledge:
            See :class:`Baseline`. The schedule needs the number of evaluations.
        n_arms:
            Number of points; by default as many as leave each about eight evaluations.
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
        n_arms: int | None = None,
    ) -> None:
        super().__init__(space, seed=seed, knowledge=knowledge)
        n = self.knowledge.n_evaluations
        n_arms = max(n // 8, 2) if n_arms is None else n_arms
        self.arms: FloatArray = self.rng.random((n_arms, self.n_dims))
        self.left = list(range(n_arms))
        log_bar = 0.5 + sum(1 / i for i in range(2, n_arms + 1))
        # How often each arm that is left has been pulled at the end of each phase.
        self._pulls = [
            max(math.ceil((n - n_arms) / (log_bar * (n_arms + 1 - k))), 1)
            for k in range(1, n_arms)
        ]
        self._phase = 0
        self._n_asked = np.zeros(n_arms, dtype=int)
        self._n_told = np.zeros(n_arms, dtype=int)
        self._total = np.zeros(n_arms)
        self._asked: dict[int, int] = {}

    def ask(self, number: int) -> tuple[FloatArray, float]:
        arm = min(self.left, key=lambda a: int(self._n_asked[a]))
        self._n_asked[arm] += 1
        self._asked[number] = arm
        return self.arms[arm], 1.0

    def tell(self, number: int, reward: float) -> None:
        arm = self._asked.pop(number)
        self._n_told[arm] += 1
        self._total[arm] += reward
        while len(self.left) > 1 and all(
            self._n_told[a] >= self._pulls[self._phase] for a in self.left
        ):
            self.left.remove(min(self.left, key=lambda a: float(self._total[a] / self._n_told[a])))
            self._phase += 1
