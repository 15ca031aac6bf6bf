"""The paper's functions (appendix D.2), to be maximised: noise, fidelity and its cost.

Where the printed formula and the authors' program differ, the one with the optimum that the paper
names is used: CurrinExp as in the program (as printed it does not depend on its second parameter
at full fidelity), Branin negated.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from functools import cached_property
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from optuna_pcts._space.space import SearchSpace


FloatArray = NDArray[np.float64]
Space = dict[str, BaseDistribution]


def _ends(distribution: BaseDistribution) -> tuple[float, float]:
    if isinstance(distribution, CategoricalDistribution):
        return 0.0, len(distribution.choices) - 1.0
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return distribution.low, distribution.high


def box(low: Sequence[float] | FloatArray, high: Sequence[float] | FloatArray) -> Space:
    """Return the space of a box of floats: x0, x1, and so on."""
    sides = enumerate(zip(low, high))
    return {f"x{i}": FloatDistribution(float(a), float(b)) for i, (a, b) in sides}


@dataclass(frozen=True)
class Problem:
    """A function of a point and a fidelity, and what is known about it.

    A point holds a number for each parameter: its value, or the index of its category.

    Attributes:
        name:
            Its name.
        space:
            Its parameters as Optuna knows them.
        function:
            Value without noise at a point of the space and a fidelity z in [0, 1].
        best_points:
            Points of the space where it is largest at z = 1.
        noise_std:
            Standard deviation of the noise, the same at each fidelity.
        cost:
            Cost of one evaluation at a fidelity (lambda(z)).
    """

    name: str
    space: Space
    function: Callable[[FloatArray, float], float]
    best_points: tuple[tuple[float, ...], ...]
    noise_std: float
    cost: Callable[[float], float]

    @property
    def n_dims(self) -> int:
        return len(self.space)

    @property
    def low(self) -> FloatArray:
        """The smallest value of each parameter."""
        return np.array([_ends(distribution)[0] for distribution in self.space.values()])

    @property
    def high(self) -> FloatArray:
        """The largest value of each parameter."""
        return np.array([_ends(distribution)[1] for distribution in self.space.values()])

    @property
    def optimum(self) -> float:
        """The largest value at full fidelity."""
        return max(self.function(np.array(point), 1.0) for point in self.best_points)

    @property
    def resumes(self) -> bool:
        """Whether an evaluation at a higher fidelity continues that at a lower one."""
        return True

    def seconds(self, point: FloatArray, fidelity: float) -> float:
        """Return the cost of an evaluation there; here it is the same everywhere."""
        return self.cost(fidelity)

    def noise(self, point: FloatArray, fidelity: float) -> float:
        """Return the standard deviation of the noise there; here it is the same everywhere."""
        return self.noise_std

    def regret(self, point: FloatArray) -> float:
        """Return how far a point is from the optimum, without noise and at full fidelity."""
        return self.optimum - self.function(point, 1.0)

    def point(self, params: Mapping[str, Any]) -> FloatArray:
        """Return parameters as a point."""
        return np.array([d.to_internal_repr(params[name]) for name, d in self.space.items()])

    def at(self, position: FloatArray) -> FloatArray:
        """Return the point at a position in the unit cube, on the scale of each parameter."""
        along = dict(zip(self.space, position.tolist()))
        cube = self._cube  # its axes are in another order
        return self.point(cube.from_unit([along[name] for name in cube.names]))

    @cached_property
    def _cube(self) -> SearchSpace:
        return SearchSpace(self.space)

    def cropped(self, rng: np.random.Generator) -> Problem:
        """Return the same function on a smaller random box around one of its best points.

        On the original box, the centre of some cell may happen to be the optimum, or all may be
        far from it: the result would be an artefact of the grid. A face of the box on which the
        optimum lies is kept. For boxes of floats only.
        """
        best = np.array(self.best_points[rng.integers(len(self.best_points))])
        low = self.low + rng.uniform(0, 0.3, self.n_dims) * (best - self.low)
        high = self.high - rng.uniform(0, 0.3, self.n_dims) * (self.high - best)
        return replace(self, space=box(low, high), best_points=(tuple(best.tolist()),))


def _hartmann(a: list[list[float]], p: list[list[float]]) -> Callable[[FloatArray, float], float]:
    alpha, a_matrix, p_matrix = np.array([1.0, 1.2, 3.0, 3.2]), np.array(a), np.array(p) * 1e-4

    def function(x: FloatArray, z: float) -> float:
        weights = alpha - 0.1 * (1 - z)
        return float(weights @ np.exp(-(a_matrix * (x - p_matrix) ** 2).sum(axis=1)))

    return function


def _currin_exp(x: FloatArray, z: float) -> float:
    x1, x2 = x
    edge = math.exp(-1 / (2 * x2)) if x2 > 0 else 0.0
    top = 2300 * x1**3 + 1900 * x1**2 + 2092 * x1 + 60
    bottom = 100 * x1**3 + 500 * x1**2 + 4 * x1 + 20
    return float((1 - (1 - 0.1 * (1 - z)) * edge) * top / bottom)


def _borehole(x: FloatArray, z: float) -> float:
    r_w, r, t_u, h_u, t_l, h_l, length, k_w = x
    log_ratio = math.log(r / r_w)
    friction = 2 * length * t_u / (log_ratio * r_w**2 * k_w) + t_u / t_l
    flow = t_u * (h_u - h_l) / log_ratio
    return float(z * 2 * math.pi * flow / (1 + friction) + (1 - z) * 5 * flow / (1.5 + friction))


def _branin(x: FloatArray, z: float) -> float:
    x1, x2 = x
    b = 5.1 / (4 * math.pi**2) - 0.01 * (1 - z)
    c = 5 / math.pi - 0.1 * (1 - z)
    t = 1 / (8 * math.pi) + 0.05 * (1 - z)
    return float(-((x2 - b * x1**2 + c * x1 - 6) ** 2 + 10 * (1 - t) * math.cos(x1) + 10))


def _schwefel(x: FloatArray, z: float) -> float:
    return float(-418.9829 * len(x) + (x * np.sin(np.sqrt(np.abs(x)))).sum())


HARTMANN3 = Problem(
    name="Hartmann3",
    space=box(np.zeros(3), np.ones(3)),
    function=_hartmann(
        [[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]],
        [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]],
    ),
    best_points=((0.114614, 0.555649, 0.852547),),
    noise_std=math.sqrt(0.01),
    cost=lambda z: 0.05 + 0.95 * z**3,
)

HARTMANN6 = Problem(
    name="Hartmann6",
    space=box(np.zeros(6), np.ones(6)),
    function=_hartmann(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ],
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ],
    ),
    best_points=((0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573),),
    noise_std=math.sqrt(0.05),
    cost=lambda z: 0.05 + 0.95 * z**3,
)

CURRIN_EXP = Problem(
    name="CurrinExp",
    space=box(np.zeros(2), np.ones(2)),
    function=_currin_exp,
    best_points=((0.216666, 0.0),),
    noise_std=math.sqrt(0.05),
    cost=lambda z: 0.1 + z**2,
)

BOREHOLE = Problem(
    name="Borehole",
    space=box(
        [0.05, 100, 63070, 990, 63.1, 700, 1120, 9855],
        [0.15, 50000, 115600, 1110, 116, 820, 1680, 12045],
    ),
    function=_borehole,
    best_points=((0.15, 100, 115600, 1110, 116, 700, 1120, 12045),),
    noise_std=math.sqrt(0.01),
    cost=lambda z: 0.1 + z**1.5,
)

BRANIN = Problem(
    name="Branin",
    space=box([-5.0, 0.0], [10.0, 15.0]),
    function=_branin,
    best_points=((-math.pi, 12.275), (math.pi, 2.275), (9.42478, 2.475)),
    noise_std=math.sqrt(0.05),
    cost=lambda z: 0.05 + z**3,
)

SCHWEFEL = Problem(
    name="Schwefel",
    space=box(np.zeros(20), np.full(20, 500.0)),
    function=_schwefel,
    best_points=((420.9687,) * 20,),
    noise_std=math.sqrt(0.1),
    cost=lambda z: 1.0,
)

# The five whose fidelity the paper defines.
MULTI_FIDELITY = (HARTMANN3, HARTMANN6, CURRIN_EXP, BOREHOLE, BRANIN)
PAPER = {problem.name: problem for problem in (*MULTI_FIDELITY, SCHWEFEL)}
