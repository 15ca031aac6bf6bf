"""A recorded task as a problem for the virtual clock, for many seeds without training.

Between the nodes of the grid accuracy, spread and the logarithm of the seconds are interpolated
linearly, on the scale of each parameter and in the logarithm of the number of samples; not between
categories. So the space is that of the live task, and at a node the numbers are the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
import math
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution

from benchmarks.ml.record import GRIDS
from benchmarks.ml.record import nodes
from benchmarks.ml.record import records
from benchmarks.ml.record import same
from benchmarks.ml.record import TABLES
from benchmarks.ml.tasks import Task
from benchmarks.ml.tasks import TASKS
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem


class Table:
    """The recorded evaluations of a task.

    Args:
        task:
            The task.
        folder:
            Where its table is.

    Raises:
        FileNotFoundError:
            If a part of it has not been recorded.
    """

    def __init__(self, task: Task, folder: Path = TABLES) -> None:
        path = folder / f"{task.name}.csv"
        known = records(task.name).read(path)
        _, axes = GRIDS[task.name]
        names = ["samples", *task.space]
        self._task = task
        self._scales = [math.log, *(_scale(task, name) for name in task.space)]
        # Sorted: the grid has the numbers of samples in the order of recording.
        values = [sorted(axes[n], key=s) for n, s in zip(names, self._scales)]
        self._nodes = [np.array([s(v) for v in vs]) for s, vs in zip(self._scales, values)]
        places = [{value: i for i, value in enumerate(vs)} for vs in values]
        # Accuracy, spread and logarithm of the seconds at each node.
        self._data = np.full((*map(len, values), 3), np.nan)
        for node in nodes(task.name):
            found = known.get(same(node))
            if found is None:
                raise FileNotFoundError(
                    f"{path} has nothing about {node}: `python -m benchmarks.ml.record "
                    f"{task.name}` records what is missing."
                )
            at = asdict(node)
            place = tuple(where[at[name]] for name, where in zip(names, places))
            self._data[place] = found.accuracy, found.spread, math.log(found.seconds)

    def at(self, point: FloatArray, fidelity: float) -> tuple[float, float, float]:
        """Return accuracy, standard deviation of its noise, and seconds."""
        data = self._with(fidelity)
        for axis, x in enumerate(point.tolist(), start=1):
            data = self._cut(data, axis, x)
        accuracy, spread, log_seconds = data.tolist()
        return accuracy, spread / math.sqrt(self._task.n_folds), math.exp(log_seconds)

    def typical(self, fidelity: float) -> tuple[float, float]:
        """Return medians over the grid: standard deviation of the noise, and seconds."""
        _, spread, log_seconds = np.median(self._with(fidelity).reshape(-1, 3), axis=0).tolist()
        return spread / math.sqrt(self._task.n_folds), math.exp(log_seconds)

    def _with(self, fidelity: float) -> FloatArray:
        return self._cut(self._data, 0, self._task.n_samples(fidelity))

    def _cut(self, data: FloatArray, axis: int, x: float) -> FloatArray:
        """Interpolate along an axis, the first one that is left."""
        along = self._nodes[axis]
        position = min(max(self._scales[axis](x), along[0]), along[-1])
        i = min(int(np.searchsorted(along, position, side="right")), len(along) - 1)
        weight = (position - along[i - 1]) / (along[i] - along[i - 1])
        cut: FloatArray = (1 - weight) * data[i - 1] + weight * data[i]
        return cut

    def points(self) -> list[FloatArray]:
        """Return the nodes as points of the space."""
        _, axes = GRIDS[self._task.name]
        columns: list[Sequence[float]] = [
            [float(distribution.to_internal_repr(value)) for value in axes[name]]
            for name, distribution in self._task.space.items()
        ]
        mesh = np.meshgrid(*columns, indexing="ij")
        return list(np.stack([column.ravel() for column in mesh], axis=1))


def _scale(task: Task, name: str) -> Callable[[Any], float]:
    """Return the position of a parameter along its axis; for a category its index."""
    distribution = task.space[name]
    if isinstance(distribution, CategoricalDistribution):
        choices = distribution.choices
        return lambda value: float(choices.index(value) if isinstance(value, str) else value)
    return math.log if getattr(distribution, "log", False) else float


@dataclass(frozen=True)
class Replay(Problem):
    """A recorded task. Each step of a trial is a training of its own, on more samples."""

    table: Table

    @property
    def resumes(self) -> bool:
        return False

    def seconds(self, point: FloatArray, fidelity: float) -> float:
        return self.table.at(point, fidelity)[2]

    def noise(self, point: FloatArray, fidelity: float) -> float:
        return self.table.at(point, fidelity)[1]


def replay(name: str, folder: Path = TABLES) -> Replay:
    """Return a recorded task.

    Args:
        name:
            ``svm``, ``xgb`` or ``mlp``.
        folder:
            Where its table is.
    """
    task = TASKS["recorded"][name]
    table = Table(task, folder)
    points = table.points()
    # A piecewise linear function is largest at a node.
    best = points[int(np.argmax([table.at(point, 1.0)[0] for point in points]))]
    fidelities = np.linspace(0, 1, 21)
    costs = [table.typical(z)[1] for z in fidelities]
    return Replay(
        name=task.title,
        space=task.space,
        function=lambda point, z: table.at(point, z)[0],
        best_points=(tuple(best.tolist()),),
        noise_std=table.typical(1.0)[0],
        cost=lambda z: float(np.interp(z, fidelities, costs)),
        table=table,
    )
