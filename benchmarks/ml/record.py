"""Record the evaluations of a task once, on a grid of its parameters and at several fidelities.

``python -m benchmarks.ml.record svm`` resumes after an interrupt. The tables in
``benchmarks/ml/tables/`` were made by it, on one core: each of the three takes about half an hour.
``python -m benchmarks.ml.compare`` replays them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from functools import partial
import itertools
from pathlib import Path
from typing import Any

from benchmarks.ml.data import DataError
from benchmarks.ml.data import MNIST
from benchmarks.ml.data import NEWSGROUPS
from benchmarks.ml.tasks import Evaluation
from benchmarks.ml.tasks import lacks
from benchmarks.ml.tasks import NAMES
from benchmarks.ml.tasks import TASKS
from benchmarks.records import Records


TABLES = Path(__file__).parent / "tables"
# What is recorded, by task.
DATA = {"svm": NEWSGROUPS, "xgb": MNIST, "mlp": MNIST}
# Of all that is drawn: neighbours on the grid see the same samples, so that the differences
# between them are theirs.
_SEED = 0


@dataclass(frozen=True)
class SVMNode:
    """Where the support vector machine is evaluated."""

    C: float
    gamma: float
    samples: int


@dataclass(frozen=True)
class XGBNode:
    """Where the boosted trees are evaluated."""

    max_depth: int
    colsample_bytree: float
    gamma: float
    learning_rate: float
    n_estimators: int
    samples: int


@dataclass(frozen=True)
class MLPNode:
    """Where the network is evaluated."""

    layer_1: int
    layer_2: int
    layer_3: int
    learning_rate: float
    solver: str
    activation: str
    early_stopping: str
    samples: int


Node = SVMNode | XGBNode | MLPNode
Axes = Mapping[str, Sequence[Any]]

# e^-5 to e^5 in twelve steps: none is the centre of a cell of a tree search.
_LOG_12 = (
    *(0.006738, 0.01672, 0.04151, 0.103, 0.2557, 0.6347),
    *(1.575, 3.91, 9.706, 24.09, 59.79, 148.4),
)
# The values of each parameter, and the numbers of samples: the most important ones first, so that
# an interrupted recording can be used.
GRIDS: Mapping[str, tuple[type[Node], Axes]] = {
    "svm": (SVMNode, {"samples": (7000, 100, 1200, 400, 3000), "C": _LOG_12, "gamma": _LOG_12}),
    "xgb": (
        XGBNode,
        {
            "samples": (3000, 500),
            "max_depth": (2, 4, 7, 13),
            "colsample_bytree": (0.2, 0.45, 0.9),
            "gamma": (0.0, 0.7),
            "learning_rate": (0.05, 0.12, 0.3),
            "n_estimators": (10, 40, 100, 200, 400),
        },
    ),
    "mlp": (
        MLPNode,
        {
            "samples": (2500, 500),
            "layer_1": (32, 128),
            "layer_2": (128, 256),
            "layer_3": (256, 512),
            "learning_rate": (0.006738, 0.02556, 0.09698, 0.3679),
            "solver": ("lbfgs", "sgd", "adam"),
            "activation": ("tanh", "relu", "logistic"),
            "early_stopping": ("enable", "disable"),
        },
    ),
}


def nodes(name: str) -> Iterator[Any]:
    """Yield all nodes of the grid of a task."""
    kind, axes = GRIDS[name]
    for values in itertools.product(*axes.values()):
        yield kind(**dict(zip(axes, values)))


def same(node: Any) -> Any:
    """Return the node with the same evaluation as this one: L-BFGS has no learning rate."""
    if isinstance(node, MLPNode) and node.solver == "lbfgs":
        axes = GRIDS["mlp"][1]
        first = axes["learning_rate"][0], axes["early_stopping"][0]
        changed = dict(zip(("learning_rate", "early_stopping"), first))
        return MLPNode(**{**asdict(node), **changed})
    return node


def _evaluate(name: str, node: Any) -> dict[Any, Evaluation]:
    """Evaluate a node, and with it those that differ in the parameter ``staged`` only."""
    task = TASKS["recorded"][name]
    staged = task.staged
    params = asdict(node)
    n_samples = params.pop("samples")
    if staged is None:
        return {node: task.evaluate(params, n_samples, _SEED)}
    stages = GRIDS[name][1][staged]
    found = task.evaluate_stages(params, n_samples, _SEED, stages)
    return {
        type(node)(**{**asdict(node), staged: stage}): evaluation
        for stage, evaluation in zip(stages, found)
    }


def records(name: str) -> Records[Any, Evaluation]:
    """Return how a task is recorded."""
    return Records(GRIDS[name][0], Evaluation, partial(_evaluate, name))


def work(name: str) -> list[Any]:
    """Return the nodes to evaluate, without those that are evaluated with another one."""
    staged = TASKS["recorded"][name].staged
    return [
        node
        for node in nodes(name)
        if node == same(node)
        and (staged is None or getattr(node, staged) == GRIDS[name][1][staged][-1])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=NAMES)
    parser.add_argument(
        "--samples", type=int, nargs="+", metavar="N", help="only with so many samples (all)"
    )
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    args = parser.parse_args()
    lack = lacks(args.task)
    if lack is not None:
        parser.error(lack)
    try:
        TASKS["recorded"][args.task].load()
    except DataError as error:
        parser.error(str(error))
    todo = [n for n in work(args.task) if args.samples is None or n.samples in args.samples]
    records(args.task).complete(
        todo,
        args.tables / f"{args.task}.csv",
        module="benchmarks.ml.record",
        n_jobs=args.jobs,
        data=DATA[args.task].sha256,
    )


if __name__ == "__main__":
    main()
