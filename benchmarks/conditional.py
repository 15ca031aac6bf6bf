"""Samplers on objectives with conditional parameters: with many workers, late and noisy values.

``python -m benchmarks.conditional`` runs what is missing in the results and makes the page
``conditional.md`` of them. The clock is virtual: an evaluation takes a second, and its value
arrives some ten seconds later (geometric 0.1); then its worker asks again. All values have arrived
at the end. The parameters of a trial are suggested when it is asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
import heapq
import os
from pathlib import Path
import time
import zlib

import numpy as np
import optuna
from optuna.samplers import BaseSampler

from benchmarks.branches import recorded
from benchmarks.branches.methods import able
from benchmarks.branches.methods import METHODS
from benchmarks.branches.problem import Branched
from benchmarks.branches.recorded import RECORDED
from benchmarks.branches.synthetic import SYNTHETIC
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.simulation import Delay
from benchmarks.simulation import GeometricDelay
from benchmarks.simulation import VirtualStorage
from optuna_pcts import recommend


# Trials and workers.
MAIN = (150, 8)
TRIALS, WORKERS = (75, 150, 400), (1, 8, 32)
# Of the main setting, and of the others.
MAIN_SEEDS, SEEDS = 20, 6
DELAY: Delay = GeometricDelay(0.1)


def _recorded(name: str, rng: np.random.Generator) -> Branched:
    return recorded.problem(RECORDED[name])


# Each makes an instance of its problem; those that were recorded have but one.
PROBLEMS: Mapping[str, Callable[[np.random.Generator], Branched]] = {
    **SYNTHETIC,
    **{name: partial(_recorded, name) for name in RECORDED},
}


@dataclass(frozen=True)
class Run:
    """One method on one problem in one setting."""

    problem: str
    method: str
    workers: int
    evaluations: int
    seed: int


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes:
        regret, regret_best:
            Of what `recommend` names and of Optuna's best trial, without noise.
        seconds:
            Of the sampler and of Optuna, for each trial.
    """

    regret: float
    regret_best: float
    seconds: float


def instance(run: Run) -> Branched:
    """Return the problem of a run: the same for all methods."""
    return PROBLEMS[run.problem](
        np.random.default_rng([run.seed, zlib.crc32(run.problem.encode())])
    )


def execute(run: Run, trials: Sequence[int] = ()) -> dict[Run, Result]:
    """Run it.

    Args:
        run:
            What to run.
        trials:
            Other numbers of trials, of which the results come with it. What is asked first does
            not depend on how many trials there will be: so these are what a run of fewer trials
            would have found.
    """
    problem = instance(run)
    method = METHODS[run.method]
    if method.is_static:
        problem = problem.as_static
    sampler = method.make(problem, run.seed, run.evaluations)
    study, seconds = simulate(problem, sampler, run.workers, run.evaluations, run.seed)
    fewer = [] if method.knows_end else sorted(n for n in trials if n < run.evaluations)
    return {
        replace(run, evaluations=n): _result(problem, study, seconds, n)
        for n in [*fewer, run.evaluations]
    }


def simulate(
    problem: Branched, sampler: BaseSampler, n_workers: int, n_trials: int, seed: int
) -> tuple[optuna.Study, list[float]]:
    """Return a study after so many trials, and the seconds that each has cost the sampler."""
    storage = VirtualStorage()
    study = optuna.create_study(storage=storage, sampler=sampler)
    rng = np.random.default_rng(seed)
    seconds: list[float] = []
    arrivals: list[tuple[float, int, optuna.Trial, float]] = []
    while len(seconds) < n_trials or arrivals:
        if len(seconds) < n_trials and len(arrivals) < n_workers:
            started = time.perf_counter()
            trial = study.ask()
            params = problem.suggest(trial)
            seconds.append(time.perf_counter() - started)
            value = problem.loss(params) + problem.noise_std * rng.standard_normal()
            arrival = storage.seconds + 1.0 + DELAY(rng)
            heapq.heappush(arrivals, (arrival, trial.number, trial, value))
        else:
            storage.seconds, number, trial, value = heapq.heappop(arrivals)
            started = time.perf_counter()
            study.tell(trial, value)
            seconds[number] += time.perf_counter() - started
    return study, seconds


def _result(
    problem: Branched, study: optuna.Study, seconds: Sequence[float], n_trials: int
) -> Result:
    """Return what a study of its first trials alone would have found."""
    part = study
    if n_trials < len(seconds):
        part = optuna.create_study()
        part.add_trials(study.get_trials(deepcopy=False)[:n_trials])
    return Result(
        problem.regret(dict(recommend(part).params)),
        problem.regret(part.best_params),
        float(np.mean(seconds[:n_trials])),
    )


RECORDS = Records(Run, Result, execute)


def plan(
    problems: Sequence[str],
    methods: Sequence[str],
    workers: Sequence[int],
    trials: Sequence[int],
    seeds: int | None,
    first_seed: int,
) -> list[Run]:
    """Return the runs of all settings, without those whose results come with longer ones.

    If it is not said how many seeds, there are some in each setting, and more in the main one.
    """
    runs: dict[Run, None] = {}
    for k in range(MAIN_SEEDS if seeds is None else seeds):
        for n_workers in workers:
            sizes = [
                n
                for n in sorted(trials, reverse=True)
                if seeds is not None or k < SEEDS or (n, n_workers) == MAIN
            ]
            for problem in problems:
                for name in methods:
                    needed = sizes if METHODS[name].knows_end else sizes[:1]
                    for n in needed:
                        runs[Run(problem, name, n_workers, n, first_seed + k)] = None
    return list(runs)


def main() -> None:
    from benchmarks.conditional_page import write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="PROBLEM",
        help=f"some of: {', '.join(PROBLEMS)}",
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD",
        help=f"some of: {', '.join(METHODS)}",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--trials", type=int, nargs="+", default=list(TRIALS))
    parser.add_argument(
        "--seeds", type=int,
        help=f"({MAIN_SEEDS} with {MAIN[0]} trials and {MAIN[1]} workers, otherwise {SEEDS})",
    )  # fmt: skip
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    runs = plan(
        args.problems,
        able(args.methods),
        args.workers,
        args.trials,
        args.seeds,
        args.first_seed,
    )
    path = args.results / "conditional.csv"
    records = replace(RECORDS, execute=partial(execute, trials=args.trials))
    records.complete(runs, path, module="benchmarks.conditional", n_jobs=args.jobs)
    write(args.results, args.output or args.results.parent / "conditional.md")


if __name__ == "__main__":
    main()
