"""An oracle that samples around the known optimum: what better proposals could still gain.

It does not search. Some points are spread over the box, so that the model can fit the whole
function; the others are at several scales around the optimum. None is the optimum itself, which
would be recommended only because it is there. The regret that is left comes mostly from noise. It
is no lower bound: a method that adapts to its values may do better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import FloatDistribution
from scipy.stats import qmc

from benchmarks.baselines.base import AskAndTell
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem


# Number of evaluations spread over the whole box; at most a third of all evaluations.
_N_EVERYWHERE = 64
# Scales of the others: the distance along one axis at which the regret is this large, in standard
# deviations of the noise.
_LOSSES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_SHARES = np.geomspace(1e-5, 1, 101)  # distances to try, as parts of the width of the box


class OracleSampler(AskAndTell):
    """Evaluates a problem around its optimum.

    Args:
        problem:
            A problem over a box of floats.
        seed:
            Seed of its random numbers.
        n_evaluations:
            How many evaluations there will be.

    Raises:
        ValueError:
            If a parameter is not a float.
    """

    def __init__(self, problem: Problem, *, seed: int, n_evaluations: int) -> None:
        super().__init__(problem.space)
        if not all(isinstance(d, FloatDistribution) for d in problem.space.values()):
            raise ValueError(f"{problem.name} has parameters that are not floats.")
        self._problem, self._rng = problem, np.random.default_rng(seed)
        self._best = np.array(problem.best_points[0])
        self._reaches = [self._reach(loss * problem.noise_std) for loss in _LOSSES]
        n_everywhere = min(_N_EVERYWHERE, n_evaluations // 3)
        cube = qmc.Sobol(problem.n_dims, rng=self._rng).random(_N_EVERYWHERE)[:n_everywhere]
        self._everywhere = problem.low + cube * (problem.high - problem.low)

    def _reach(self, loss: float) -> FloatArray:
        """Return the distance along each axis at which the regret is `loss`."""
        reach: FloatArray = self._problem.high - self._problem.low
        for axis, side in enumerate(np.diag(reach)):
            for share in _SHARES:
                both = self._inside(share * np.array([side, -side]))
                if max(map(self._problem.regret, both)) > loss:
                    reach[axis] *= share
                    break
        return reach

    def _inside(self, steps: FloatArray) -> FloatArray:
        """Return the optimum plus some steps, clipped to the box."""
        inside: FloatArray = np.clip(self._best + steps, self._problem.low, self._problem.high)
        return inside

    def propose(self, number: int) -> dict[str, Any]:
        if number < len(self._everywhere):
            point = self._everywhere[number]
        else:
            reach = self._reaches[self._rng.integers(len(_LOSSES))]
            point = self._inside(reach * self._rng.standard_normal(len(reach)))
        return dict(zip(self._problem.space, point.tolist()))

    def tell(self, number: int, reward: float) -> None:
        """Ignore the value."""
