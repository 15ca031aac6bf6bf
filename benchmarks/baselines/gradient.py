"""Gradient ascent without gradients, online and with delays: OGD and DBGD.

B. Li, T. Chen, G. Giannakis, "Bandit online learning with unknown delays", AISTATS 2019: a round
evaluates the current point and one point along each axis; the differences give the gradient. DBGD
begins a new round at its current point and applies each gradient when it arrives. OGD takes one
step after the other, and evaluates its current point again while it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math

import numpy as np
from optuna.distributions import BaseDistribution

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.problems import FloatArray


# Distance of the points of a round, and the first step, relative to the side of the cube; both
# shrink with the number of steps, as in the theory.
_DISTANCE = 0.1
_STEP = 0.2


@dataclass
class _Round:
    point: FloatArray
    offsets: FloatArray  # one along each axis, inwards
    rewards: FloatArray  # at the point and at each offset
    n_asked: int = 0


class GradientAscent(Baseline):
    """OGD, or DBGD with ``is_delayed``."""

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
        is_delayed: bool = False,
    ) -> None:
        super().__init__(space, seed=seed, knowledge=knowledge)
        self._is_delayed = is_delayed
        self._point: FloatArray = self.rng.random(self.n_dims)
        self._n_steps = 0
        self._asked: dict[int, tuple[_Round, int]] = {}
        self._round = self._new_round()

    def ask(self, number: int) -> tuple[FloatArray, float]:
        if self._round.n_asked > self.n_dims:
            if not self._is_delayed:
                return self._point, 1.0
            self._round = self._new_round()
        now = self._round
        which = now.n_asked
        now.n_asked += 1
        self._asked[number] = (now, which)
        point = now.point.copy()
        if which:
            point[which - 1] += now.offsets[which - 1]
        return point, 1.0

    def tell(self, number: int, reward: float) -> None:
        if number not in self._asked:
            return  # a point that OGD evaluated while it waited
        done, which = self._asked.pop(number)
        done.rewards[which] = reward / self.knowledge.value_range
        if np.isnan(done.rewards).any():
            return
        gradient = (done.rewards[1:] - done.rewards[0]) / done.offsets
        self._n_steps += 1
        # A unit of the range per side of the cube is a steep gradient.
        step = _STEP / math.sqrt(self._n_steps) * gradient
        length = float(np.linalg.norm(step))
        step *= min(1.0, _STEP / max(length, 1e-300))
        self._point = np.clip(self._point + step, 0.0, 1.0)
        if not self._is_delayed:
            self._round = self._new_round()

    def _new_round(self) -> _Round:
        distance = _DISTANCE / (1 + self._n_steps) ** 0.25
        signs = np.where(self._point < 0.5, 1.0, -1.0)
        return _Round(self._point, distance * signs, np.full(self.n_dims + 1, np.nan))
