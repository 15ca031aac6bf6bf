"""A wider set of problems: one for each shape that an objective may have, to be maximised.

Each instance has its optimum at another place (and, where there are such, another rotation, other
weights, other parameters that matter): results on fixed functions may be artefacts of the grid.
All are scaled alike: the optimum is 0 and the median over random points is -1, so that regrets can
be compared between problems; the standard deviation of the noise is a twentieth of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.problems import box
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem
from benchmarks.problems import Space


# A loss of at least 0, of a point with parameters scaled to [0, 1]; categories are numbered.
Loss = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Shape:
    """A family of problems that differ in where their optimum lies.

    Attributes:
        name:
            Its name.
        space:
            The parameters.
        make:
            Returns a random loss that is 0 at the given point.
        margin:
            Least distance of the optimum from the faces of the space, on the scale of [0, 1]. If
            negative, it is drawn from a larger space and clipped: some are on a face.
    """

    name: str
    space: Space
    make: Callable[[FloatArray, np.random.Generator], Loss]
    margin: float = 0.1

    def instance(self, rng: np.random.Generator) -> Problem:
        """Return one of them."""
        problem = Problem(
            self.name, self.space, lambda x, z: 0.0, (), noise_std=0.05, cost=lambda z: 1.0
        )
        position = rng.uniform(self.margin, 1 - self.margin, problem.n_dims)
        best = problem.at(np.clip(position, 0.0, 1.0))
        loss = self.make(self._scaled(best), rng)
        others = [problem.at(x) for x in np.random.default_rng(0).random((500, problem.n_dims))]
        median = float(np.median([loss(self._scaled(x)) for x in others]))
        return replace(
            problem,
            function=lambda x, z: -loss(self._scaled(x)) / median,
            best_points=(tuple(best.tolist()),),
        )

    def _scaled(self, point: FloatArray) -> FloatArray:
        return np.array([scaled(d, x) for d, x in zip(self.space.values(), point)])


def scaled(distribution: object, value: float) -> float:
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return value
    low, high = distribution.low, distribution.high
    if distribution.log:
        low, high, value = np.log(low), np.log(high), np.log(value)
    return float((value - low) / (high - low))


def random_rotation(n_dims: int, rng: np.random.Generator) -> FloatArray:
    q, _ = np.linalg.qr(rng.normal(size=(n_dims, n_dims)))
    return np.asarray(q, dtype=float)


def _separable(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Each parameter by itself; some matter ten times as much as others."""
    weights = 10 ** rng.uniform(0, 1, len(best))
    return lambda x: float(weights @ (x - best) ** 2)


def _rotated(best: FloatArray, rng: np.random.Generator) -> Loss:
    """A long ellipsoid in any direction: the axes differ by a factor of ten."""
    axes = 10 ** np.linspace(0, 1, len(best))[:, None] * random_rotation(len(best), rng)
    return lambda x: float(((axes @ (x - best)) ** 2).sum())


def _rastrigin(best: FloatArray, rng: np.random.Generator) -> Loss:
    """A rotated bowl with four local minima along each axis."""
    rotation = random_rotation(len(best), rng)

    def loss(x: FloatArray) -> float:
        y = 4 * rotation @ (x - best)
        return float((y**2 + 1 - np.cos(2 * np.pi * y)).sum())

    return loss


def _ackley(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Nearly flat with small local minima, and a funnel at the optimum."""

    def loss(x: FloatArray) -> float:
        y = 10 * (x - best)
        bowl = 20 * (1 - np.exp(-0.2 * np.sqrt((y**2).mean())))
        return float(max(0.0, bowl + np.e - np.exp(np.cos(2 * np.pi * y).mean())))

    return loss


def _levy(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Oscillations along each parameter; the amplitude grows with the distance to the optimum."""

    def loss(x: FloatArray) -> float:
        y = 4 * (x - best)
        body = y[:-1] ** 2 * (1 + 10 * np.sin(np.pi * y[:-1] - 1) ** 2)
        last = y[-1] ** 2 * (1 + np.sin(2 * np.pi * y[-1]) ** 2)
        return float(np.sin(np.pi * y[0]) ** 2 + body.sum() + last)

    return loss


def _valley(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Rosenbrock's: a curved valley, steep across and flat along it (on a log scale)."""

    def loss(x: FloatArray) -> float:
        y = 1 + 3 * (x - best)
        return float(np.log1p((100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2).sum()))

    return loss


def _staircase(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Nothing but plateaus: the optimum's is a twentieth of the range wide."""
    return lambda x: float(np.floor(40 * np.abs(x - best)).sum())


def _faces(best: FloatArray, rng: np.random.Generator) -> Loss:
    """A slope up to the optimum, which lies on some of the faces."""
    weights = 10 ** rng.uniform(0, 1, len(best))
    return lambda x: float(weights @ (np.abs(x - best) + (x - best) ** 2))


def _sparse(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Only three of the parameters matter, and they interact."""
    matter = rng.choice(len(best), 3, replace=False)
    rotation = random_rotation(len(matter), rng)
    return lambda x: float(np.abs(rotation @ (x - best)[matter]).sum())


def _traps(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Deceptive groups of three flags: all wrong is nearly as good as all right."""
    penalty = np.array([0.0, 1.0, 0.8, 0.4])
    weights = rng.uniform(0.5, 1.5, len(best) // 3)
    groups = rng.permutation(len(best)).reshape(-1, 3)
    return lambda x: float(weights @ penalty[(x != best)[groups].sum(axis=1)])


def _training(best: FloatArray, rng: np.random.Generator) -> Loss:
    """Like the training of a network: the best value of a parameter depends on others."""
    worse_optimizer, worse_activation = rng.uniform(0.1, 0.3, 4), rng.uniform(0.05, 0.2, 3)
    moved = rng.uniform(-0.3, 0.3, 4)  # the best rate is another one for each optimizer
    worse_optimizer[int(best[5])] = worse_activation[int(best[6])] = moved[int(best[5])] = 0.0

    def loss(x: FloatArray) -> float:
        rate, decay, dropout, layers, units = x[:5] - best[:5]
        optimizer, activation = int(x[5]), int(x[6])
        return float(
            3 * (rate + 0.3 * layers - moved[optimizer]) ** 2
            + 0.5 * (decay + dropout) ** 2
            + 0.3 * dropout**2
            + (layers + 0.5 * units) ** 2
            + 0.5 * units**2
            + worse_optimizer[optimizer]
            + worse_activation[activation]
        )

    return loss


def _cube(n_dims: int) -> Space:
    return box([0.0] * n_dims, [1.0] * n_dims)


_COUNTS: Space = {
    **{f"n{i}": IntDistribution(0, 15) for i in range(4)},
    **{f"s{i}": FloatDistribution(-1.0, 1.0, step=0.1) for i in range(2)},
}
_FLAGS: Space = {f"f{i}": CategoricalDistribution((False, True)) for i in range(12)}
_TRAINING: Space = {
    "rate": FloatDistribution(1e-5, 1.0, log=True),
    "decay": FloatDistribution(1e-6, 0.1, log=True),
    "dropout": FloatDistribution(0.0, 0.6),
    "layers": IntDistribution(1, 8),
    "units": IntDistribution(16, 1024, log=True),
    "optimizer": CategoricalDistribution(("sgd", "adam", "rmsprop", "lion")),
    "activation": CategoricalDistribution(("relu", "gelu", "tanh")),
}
WIDE = (
    Shape("Staircase2", _cube(2), _staircase),
    Shape("Valley3", _cube(3), _valley),
    Shape("Rastrigin4", _cube(4), _rastrigin),
    Shape("Rotated5", _cube(5), _rotated),
    Shape("Separable6", _cube(6), _separable),
    Shape("Faces6", _cube(6), _faces, margin=-0.5),
    Shape("Levy8", _cube(8), _levy),
    Shape("Ackley10", _cube(10), _ackley),
    Shape("Sparse20", _cube(20), _sparse),
    Shape("Counts6", _COUNTS, _rotated, margin=0.0),
    Shape("Flags12", _FLAGS, _traps, margin=0.0),
    Shape("Training7", _TRAINING, _training),
)
