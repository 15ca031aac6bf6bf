"""Record evaluations of pipelines, and check what is learned from them.

``python -m benchmarks.branches.record`` makes ``benchmarks/branches/tables/`` anew, in some ten
minutes on two cores. Pipelines are drawn at random first, and then around the best of each
learner. Others that the surrogate does not learn say how good it is; cross-validations with other
folds, how noisy an evaluation is; and a long search, how low the surrogate gets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent.futures import Executor
from concurrent.futures import ProcessPoolExecutor
from functools import partial
import json
from multiprocessing import get_context
import os
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution

from benchmarks.branches.pipelines import Task
from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Params
from benchmarks.branches.problem import value_at
from benchmarks.branches.recorded import check
from benchmarks.branches.recorded import CHECKS
from benchmarks.branches.recorded import FRESH
from benchmarks.branches.recorded import LEARNED
from benchmarks.branches.recorded import parts
from benchmarks.branches.recorded import read
from benchmarks.branches.recorded import read_checks
from benchmarks.branches.recorded import RECORDED
from benchmarks.branches.recorded import Row
from benchmarks.branches.recorded import Surrogate
from benchmarks.branches.recorded import TABLES
from benchmarks.branches.recorded import write
from benchmarks.records import be_quiet
from benchmarks.records import use_one_thread
from benchmarks.records import write_manifest
from benchmarks.shapes import scaled


# Rounds around the best ones; and the share of each learner's pipelines that are these.
_N_ROUNDS = 4
_BEST = 0.15
# Pipelines whose noise is measured, and with how many other folds.
_N_NOISY, _N_SPLITS = 60, 5
# Rounds of the search on the surrogate, and pipelines in each.
_N_SEARCHES, _N_SEARCHED = 40, 4000


def record(task: Task, n_rows: int, n_fresh: int, seed: int, tables: Path, pool: Executor) -> None:
    """Record a task: so many pipelines to learn from, and so many to check with."""
    rng = np.random.default_rng(seed)
    pipelines = _pipelines(task)

    def evaluate(drawn: Iterable[Params], use: str) -> list[Row]:
        todo = list(drawn)
        errors = pool.map(task.error, todo, chunksize=8)
        return [Row(params, error, use) for params, error in zip(todo, errors)]

    def around(rows: Sequence[Row], n: int) -> list[Params]:
        good = _good(rows)
        return [near(pipelines, good[rng.integers(len(good))].params, rng) for _ in range(n)]

    half = n_rows // 2
    rows = evaluate((pipelines.draw(rng) for _ in range(half)), LEARNED)
    for k in range(_N_ROUNDS):
        rest = (n_rows - len(rows)) // (_N_ROUNDS - k)
        rows += evaluate(around(rows, rest), LEARNED)
    fresh = [pipelines.draw(rng) for _ in range(n_fresh // 2)]
    fresh += around(rows, n_fresh - len(fresh))
    write(task, [*rows, *evaluate(fresh, FRESH)], tables)


def examine(task: Task, seed: int, tables: Path, pool: Executor) -> dict[str, Any]:
    """Return how good a surrogate is that learns what has been recorded, and how low it gets."""
    rng = np.random.default_rng([seed, 1])
    rows, at_random, good = parts(read(task, tables))
    surrogate = Surrogate(task.parameters().space, rows)
    best = search(_pipelines(task), surrogate, [row.params for row in rows], rng)
    return {
        "n_rows": len(rows),
        "n_fresh": len(at_random) + len(good),
        "all": check(surrogate, [*at_random, *good]),
        "random": check(surrogate, at_random),
        "good": check(surrogate, good),
        "noise_std": round(noise_std(task, rows, rng, pool), 4),
        "optimum": surrogate(best),
        "best": best,
        # What the best one really has: with the folds that the surrogate knows, and with others.
        "best_evaluated": [task.error(best, split) for split in range(_N_SPLITS + 1)],
    }


def _pipelines(task: Task) -> Branched:
    parameters = task.parameters()
    return Branched(
        task.name, parameters.space, parameters.conditions, lambda _: 0.0, 0.0, 0.0, {}
    )


def _good(rows: Sequence[Row]) -> list[Row]:
    """Return the best rows of each learner."""
    good = []
    for learner in sorted({str(row.params["learner"]) for row in rows}):
        own = [row for row in rows if row.params["learner"] == learner]
        own.sort(key=lambda row: row.error)
        good += own[: max(3, round(_BEST * len(own)))]
    return good


def near(problem: Branched, params: Params, rng: np.random.Generator) -> Params:
    """Return parameters near others: most are moved a little, some are drawn anew."""

    def ask(name: str, distribution: BaseDistribution) -> Any:
        if name not in params or rng.random() < 0.15:
            return value_at(distribution, rng.random())
        if isinstance(distribution, CategoricalDistribution):
            return params[name]
        position = scaled(distribution, params[name]) + 0.1 * rng.standard_normal()
        return value_at(distribution, float(np.clip(position, 0.0, 1.0)))

    return problem.ask(ask)


def noise_std(task: Task, rows: Sequence[Row], rng: np.random.Generator, pool: Executor) -> float:
    """Return by how much errors differ with the folds, where they are good."""
    good = _good(rows)
    chosen = [good[i].params for i in rng.permutation(len(good))[:_N_NOISY]]
    errors = [
        list(pool.map(partial(task.error, split=split), chosen, chunksize=8))
        for split in range(1, _N_SPLITS + 1)
    ]
    return float(np.sqrt(np.var(errors, axis=0, ddof=1).mean()))


def search(
    problem: Branched, surrogate: Surrogate, start: Sequence[Params], rng: np.random.Generator
) -> Params:
    """Return the best parameters that a long search finds on a surrogate."""
    known = list(start)
    errors = surrogate.many(known)
    for k in range(_N_SEARCHES):
        if k % 4:
            drawn = [
                near(problem, known[rng.integers(len(known))], rng) for _ in range(_N_SEARCHED)
            ]
        else:
            drawn = [problem.draw(rng) for _ in range(_N_SEARCHED)]
        known += drawn
        errors = np.concatenate([errors, surrogate.many(drawn)])
        kept = np.argsort(errors, kind="stable")[:200]
        known, errors = [known[i] for i in kept], errors[kept]
    return known[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(RECORDED), default=list(RECORDED))
    parser.add_argument("--rows", type=int, default=2400, help="pipelines to learn from")
    parser.add_argument("--fresh", type=int, default=200, help="pipelines to check with")
    parser.add_argument("--only-check", action="store_true", help="check what has been recorded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    args.tables.mkdir(parents=True, exist_ok=True)
    use_one_thread()
    checks = args.tables / CHECKS
    with ProcessPoolExecutor(args.jobs, get_context("spawn"), initializer=be_quiet) as pool:
        for name in args.tasks:
            task = RECORDED[name]
            if not args.only_check:
                record(task, args.rows, args.fresh, args.seed, args.tables, pool)
            known = read_checks(args.tables) if checks.is_file() else {}
            known[name] = examine(task, args.seed, args.tables, pool)
            checks.write_text(json.dumps(known, indent=2) + "\n")
            print(name, json.dumps(known[name], indent=2))
    write_manifest(args.tables / "manifest.json", "benchmarks.branches.record")


if __name__ == "__main__":
    main()
