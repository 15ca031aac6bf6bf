"""Objectives of numbers and choices that are best somewhere: the parts of synthetic problems."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace

import numpy as np
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Parameters
from benchmarks.branches.problem import Params
from benchmarks.branches.problem import value_at
from benchmarks.problems import Space
from benchmarks.shapes import scaled


NOISE_STD = 0.05
Loss = Callable[[Params], float]


class Bowls:
    """How far numbers are from where they are best.

    Args:
        space:
            All parameters.
        rng:
            Draws where each number is best, and how much it matters.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space = {
            name: d
            for name, d in space.items()
            if isinstance(d, FloatDistribution | IntDistribution)
        }
        self.best = {n: value_at(d, rng.uniform(0.1, 0.9)) for n, d in self._space.items()}
        self._positions = {n: scaled(d, self.best[n]) for n, d in self._space.items()}
        self._weights = {name: 10 ** rng.uniform(0, 1) for name in self._space}

    def off(self, params: Params, name: str) -> float:
        """Return how far a number is off, in parts of its range."""
        return scaled(self._space[name], params[name]) - self._positions[name]

    def typical(self, names: Collection[str]) -> float:
        """Return what :meth:`__call__` is for random numbers in the mean."""
        squares = [1 / 12 + (self._positions[name] - 0.5) ** 2 for name in names]
        return float(np.average(squares, weights=[self._weights[name] for name in names]))

    def __call__(
        self, params: Params, names: Collection[str], moved: Mapping[str, float] | None = None
    ) -> float:
        """Return the weighted mean of the squares of how far numbers are off.

        Args:
            params:
                Of a trial.
            names:
                Which numbers.
            moved:
                Where some of them are best has moved by so much.
        """
        total = weight = 0.0
        for name in names:
            off = self.off(params, name) - (moved or {}).get(name, 0.0)
            total += self._weights[name] * off**2
            weight += self._weights[name]
        return total / weight


@dataclass(frozen=True)
class Shape:
    """A family of problems.

    Attributes:
        name:
            Its name.
        parameters:
            What is tuned.
        make:
            Returns the best choices, and a loss that is 0 where the numbers are best with them.
            Its description is that of the problem.
    """

    name: str
    parameters: Parameters
    make: Callable[[Space, Bowls, np.random.Generator], tuple[Params, Loss]]

    def instance(self, rng: np.random.Generator) -> Branched:
        """Return one of them."""
        space = self.parameters.space
        bowls = Bowls(space, rng)
        choices, loss = self.make(space, bowls, rng)
        found = Branched(self.name, space, self.parameters.conditions, loss, NOISE_STD, 0.0, {})
        values = {**bowls.best, **choices}
        return scale(replace(found, best=found.ask(lambda name, _: values[name])))


def scale(problem: Branched) -> Branched:
    """Return a problem whose random trials have a loss of 1 in the median."""
    rng = np.random.default_rng(0)
    median = float(np.median([problem.loss(problem.draw(rng)) for _ in range(500)]))

    def divided(by: Branched) -> Branched:
        return replace(by, loss=lambda params: by.loss(params) / median)

    return replace(divided(problem), static=problem.static and divided(problem.static))
