"""Problems made of recorded evaluations of pipelines: what lies between them is learned.

For each learner there is a forest of its own (extremely randomised trees) that has learned the
error from the parameters of the recorded pipelines. It is what is optimised: it takes no time,
and its value without noise is known. As all trees have, it has plateaus. ``tables/checks.json``
says how it agrees with evaluations that it has not seen.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import csv
from dataclasses import dataclass
from functools import cache
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution

from benchmarks.branches.pipelines import Task
from benchmarks.branches.pipelines import TASKS
from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Params
from benchmarks.problems import FloatArray
from benchmarks.problems import Space
from benchmarks.shapes import scaled


TABLES = Path(__file__).parent / "tables"
CHECKS = "checks.json"
# Why a pipeline was evaluated.
LEARNED, FRESH = "learned", "fresh"
_N_TREES = 100


@dataclass(frozen=True)
class Row:
    """One evaluation.

    Attributes:
        params:
            Of the pipeline.
        error:
            What was measured, in per cent.
        use:
            Whether the surrogate learns it, or is checked with it.
    """

    params: Params
    error: float
    use: str


class Surrogate:
    """Tells the errors of pipelines that nobody has evaluated.

    Args:
        space:
            Their parameters.
        rows:
            Pipelines that somebody has.
    """

    def __init__(self, space: Space, rows: Collection[Row]) -> None:
        from sklearn.ensemble import ExtraTreesRegressor

        self._space = space
        self._names: dict[str, list[str]] = {}
        self._trees: dict[str, list[Any]] = {}
        for learner in sorted({str(row.params["learner"]) for row in rows}):
            own = [row for row in rows if row.params["learner"] == learner]
            known = {name for row in own for name in row.params}
            self._names[learner] = [name for name in space if name in known]
            forest = ExtraTreesRegressor(_N_TREES, random_state=0)
            features = self._encode(learner, [row.params for row in own])
            forest.fit(features, [row.error for row in own])
            # A forest spends most of its time on checks when it is asked for one point.
            self._trees[learner] = [tree.tree_ for tree in forest.estimators_]

    def __call__(self, params: Params) -> float:
        return float(self.many([params])[0])

    def many(self, pipelines: Sequence[Params]) -> FloatArray:
        """Return the errors of several pipelines."""
        learners = [str(params["learner"]) for params in pipelines]
        errors = np.empty(len(pipelines))
        for learner in dict.fromkeys(learners):
            places = [i for i, name in enumerate(learners) if name == learner]
            features = self._encode(learner, [pipelines[i] for i in places])
            found = [tree.predict(features)[:, 0] for tree in self._trees[learner]]
            errors[places] = np.mean(found, axis=0)
        return errors

    def _encode(self, learner: str, pipelines: Sequence[Params]) -> Any:
        rows = [
            [x for n in self._names[learner] for x in _numbers(self._space[n], params.get(n))]
            for params in pipelines
        ]
        return np.array(rows, dtype=np.float32)


def _numbers(distribution: BaseDistribution, value: Any) -> list[float]:
    """Return what a tree sees of a value; None stands for a parameter that is not there."""
    if isinstance(distribution, CategoricalDistribution):
        return [float(value is not None and value == choice) for choice in distribution.choices]
    return [-1.0 if value is None else scaled(distribution, value)]


def problem(task: Task, tables: Path = TABLES) -> Branched:
    """Return what is optimised."""
    parameters = task.parameters()
    checks = read_checks(tables)[task.name]
    return Branched(
        task.name,
        parameters.space,
        parameters.conditions,
        lambda params: surrogate(task, tables)(params),  # which takes a second to learn
        noise_std=checks["noise_std"],
        optimum=checks["optimum"],
        best=checks["best"],
    )


@cache
def surrogate(task: Task, tables: Path = TABLES) -> Surrogate:
    """Return what the recorded evaluations of a task tell."""
    learned, _, _ = parts(read(task, tables))
    return Surrogate(task.parameters().space, learned)


def parts(rows: Collection[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Return what is learned, and what is new to who has learned it: at random and good ones."""
    learned = [row for row in rows if row.use == LEARNED]
    fresh = [row for row in rows if row.use == FRESH]
    known = {frozenset(row.params.items()) for row in learned}
    half = len(fresh) // 2  # those at random come first
    at_random, good = (
        [row for row in part if frozenset(row.params.items()) not in known]
        for part in (fresh[:half], fresh[half:])
    )
    return learned, at_random, good


def read_checks(tables: Path = TABLES) -> dict[str, dict[str, Any]]:
    """Return what the recorder has found out about the surrogates, by task."""
    checks: dict[str, dict[str, Any]] = json.loads((tables / CHECKS).read_text())
    return checks


def check(surrogate: Surrogate, rows: Sequence[Row]) -> dict[str, float]:
    """Return how a surrogate agrees with evaluations."""
    from scipy.stats import spearmanr

    found = surrogate.many([row.params for row in rows])
    truth = np.array([row.error for row in rows])
    return {
        "r2": 1 - float(np.mean((found - truth) ** 2) / np.var(truth)),
        "spearman": float(spearmanr(found, truth).statistic),
        "mean_error": float(np.mean(np.abs(found - truth))),
    }


def read(task: Task, tables: Path = TABLES) -> list[Row]:
    """Return the recorded evaluations of a task."""
    space = task.parameters().space
    with gzip.open(_path(task, tables), "rt", newline="") as file:
        return [
            Row(_parse(space, row), float(row["error"]), row["use"])
            for row in csv.DictReader(file)
        ]


def write(task: Task, rows: Collection[Row], tables: Path = TABLES) -> None:
    """Write the recorded evaluations of a task."""
    names = list(task.parameters().space)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "error", "use"])
    for row in rows:
        cells = [row.params.get(name, "") for name in names]
        writer.writerow([*cells, f"{row.error:.6g}", row.use])
    tables.mkdir(parents=True, exist_ok=True)
    # No time: the same rows, the same bytes.
    _path(task, tables).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def _path(task: Task, tables: Path) -> Path:
    return tables / f"{task.name}.csv.gz"


def _parse(space: Space, row: Mapping[str, str]) -> Params:
    return {name: _value(d, row[name]) for name, d in space.items() if row[name]}


def _value(distribution: BaseDistribution, text: str) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return next(choice for choice in distribution.choices if str(choice) == text)
    return float(text) if isinstance(distribution, FloatDistribution) else int(text)


RECORDED = {task.name: task for task in TASKS}
