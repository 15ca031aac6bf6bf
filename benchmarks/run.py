"""Run methods on problems under delay and noise, on a virtual clock, and keep the results.

``python -m benchmarks.run`` goes on where it was interrupted: what is in the results is not run
again. ``python -m benchmarks.report`` makes tables of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
import itertools
import os
from pathlib import Path
import time

import numpy as np
import optuna
from optuna.pruners import NopPruner
from optuna.trial import TrialState

from benchmarks.methods import Entry
from benchmarks.methods import METHODS
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.methods import Task
from benchmarks.problems import MULTI_FIDELITY
from benchmarks.problems import Problem
from benchmarks.problems import SCHWEFEL
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.simulation import Delay
from benchmarks.simulation import parse_delay
from benchmarks.simulation import Simulation
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


PROBLEMS = {problem.name: problem for problem in (*MULTI_FIDELITY, SCHWEFEL)}


@dataclass(frozen=True)
class Run:
    """One method on one problem in one setting."""

    problem: str
    method: str
    workers: int
    delay: str
    noise: str
    evaluations: int
    seed: int


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes:
        regret, regret_best:
            Of the recommended point and of Optuna's best trial, without noise and at full
            fidelity. NaN if there is none.
        n_trials, n_told:
            Trials asked, and those whose value has arrived.
        height, n_nodes:
            Of the tree; 0 if there is none.
        sampler_seconds:
            Real time of all that is not the problem: sampler and Optuna.
    """

    regret: float
    regret_best: float
    n_trials: int
    n_told: int
    height: int
    n_nodes: int
    sampler_seconds: float


def execute(run: Run) -> Result:
    """Run it."""
    # Each seed has its own part of the box: on the box as it stands a grid may be lucky.
    problem = PROBLEMS[run.problem].cropped(np.random.default_rng(run.seed))
    entry = METHODS[run.method](Task(problem, run.seed, run.evaluations))
    started = time.perf_counter()
    simulation = start(
        problem, entry, run.seed, parse_delay(run.delay), n_workers=run.workers, noise=run.noise
    )
    simulation.spend(run.evaluations * problem.cost(1.0))
    return measure(simulation, entry.sampler, time.perf_counter() - started)


def start(
    problem: Problem,
    entry: Entry,
    seed: int,
    delay: Delay,
    *,
    n_workers: int = 1,
    noise: str = "normal",
) -> Simulation:
    """Return a method at the start of its work, in evaluations of one step."""
    return Simulation(
        problem,
        entry.sampler,
        NopPruner(),
        n_workers=n_workers,
        n_steps=1,
        seed=seed,
        delay=delay,
        fidelity=entry.fidelity,
        noise=noise,
        waits=entry.waits,
    )


def measure(
    simulation: Simulation, sampler: optuna.samplers.BaseSampler, seconds: float
) -> Result:
    """Return where a simulation stands."""
    study, problem = simulation.study, simulation.problem
    trials = study.get_trials(deepcopy=False)
    n_told = sum(trial.state == TrialState.COMPLETE for trial in trials)
    regret = regret_best = float("nan")
    if n_told:
        regret = problem.regret(simulation.point(dict(recommend(study).params)))
        regret_best = problem.regret(simulation.point(study.best_params))
    height, n_nodes = _tree(sampler)
    return Result(regret, regret_best, len(trials), n_told, height, n_nodes, seconds)


def _tree(sampler: optuna.samplers.BaseSampler) -> tuple[int, int]:
    """Return height and number of nodes of a method's largest tree."""
    trees = getattr(sampler, "trees", ())
    if isinstance(sampler, PCTSSampler):
        trees = [search._tree for search in sampler._searches]
    return (
        max((tree.depth for tree in trees), default=0),
        max((tree.n_nodes for tree in trees), default=0),
    )


def _rows(run: Run) -> dict[Run, Result]:
    return {run: execute(run)}


RECORDS = Records(Run, Result, _rows)
read = RECORDS.read


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", nargs="+", choices=list(PROBLEMS), default=[p.name for p in MULTI_FIDELITY]
    )
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), metavar="METHOD",
        default=[PCTS, *PEERS], help=f"some of: {', '.join(METHODS)}",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8, 32])
    parser.add_argument(
        "--delays", nargs="+", default=["constant 4", "geometric 0.1"],
        help="'none', 'constant 4', 'geometric 0.1', 'heavy-tailed 1.5'",
    )  # fmt: skip
    parser.add_argument("--noise", choices=["normal", "laplace"], default="normal")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[150, 600])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    for delay in args.delays:
        try:
            parse_delay(delay)
        except ValueError as error:
            parser.error(str(error))

    runs = [
        Run(problem, method, workers, delay, args.noise, evaluations, seed)
        for seed, evaluations, delay, workers, problem, method in itertools.product(
            range(args.seeds),
            args.evaluations,
            args.delays,
            args.workers,
            args.problems,
            args.methods,
        )
    ]
    path = args.results / "runs.csv"
    RECORDS.complete(runs, path, module="benchmarks.run", n_jobs=args.jobs)


if __name__ == "__main__":
    main()
