"""Compare methods on the machine-learning tasks at equal wall clock, and keep the results.

``python -m benchmarks.ml.compare`` replays the recorded tables on a virtual clock: minutes instead
of days. ``python -m benchmarks.ml.compare --live`` trains the models in worker processes until the
time is up. Both resume after an interrupt, and ``python -m benchmarks.ml.report`` makes tables of
the results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from functools import partial
import itertools
import os
from pathlib import Path
import time

import optuna
from optuna.trial import TrialState

from benchmarks.methods import able
from benchmarks.methods import Task as Setting
from benchmarks.ml.data import DataError
from benchmarks.ml.live import Work
from benchmarks.ml.live import Workers
from benchmarks.ml.methods import Context
from benchmarks.ml.methods import METHODS
from benchmarks.ml.replay import replay
from benchmarks.ml.tasks import lacks
from benchmarks.ml.tasks import MAX_STEP
from benchmarks.ml.tasks import NAMES
from benchmarks.ml.tasks import Params
from benchmarks.ml.tasks import STEPS
from benchmarks.ml.tasks import TASKS
from benchmarks.records import Records
from benchmarks.run import tree_size
from benchmarks.simulation import parse_delay
from benchmarks.simulation import Simulation
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts._tree.fidelity import LAST_SHARE


RESULTS = Path(__file__).parent / "results"
REPLAY = "replay"


@dataclass(frozen=True)
class Run:
    """One method on one task.

    Attributes:
        form:
            ``replay``, or the size of a live task.
        task, method, workers, delay, seed:
            As on the command line.
        seconds:
            Time limit, on the virtual or the real clock.
    """

    form: str
    task: str
    method: str
    workers: int
    delay: str
    seconds: float
    seed: int


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        accuracy, accuracy_best:
            At full fidelity, of the recommended point and of Optuna's best trial: as recorded,
            without noise; live, the mean of evaluations on fresh samples. 0 if no trial has ended.
        n_trials, n_whole:
            Trials that ended in time, and those of them that were evaluated with all samples.
        height, n_nodes:
            Of the tree; 0 if there is none.
        real_seconds:
            That the run took.
    """

    accuracy: float
    accuracy_best: float
    n_trials: int
    n_whole: int
    height: int
    n_nodes: int
    real_seconds: float


recorded = cache(replay)
# Processes that stay from run to run.
workers = cache(Workers)


def run_replay(run: Run) -> Result:
    """Run it on the virtual clock."""
    started = time.perf_counter()
    problem, method = recorded(run.task), METHODS[run.method]
    n_evaluations = round(run.seconds * run.workers / problem.cost(1.0))
    knowledge = Setting(problem, run.seed, n_evaluations).knowledge()
    sampler = method.sampler(Context(problem.space, run.seed, knowledge))
    in_steps = method.pruner is not None
    simulation = Simulation(
        problem,
        sampler,
        method.make_pruner(),
        n_workers=run.workers,
        n_steps=MAX_STEP if in_steps else 1,
        reports=STEPS if in_steps else None,
        seed=run.seed,
        delay=parse_delay(run.delay),
        fidelity=method.fidelity(sampler),
        waits=True,  # as Optuna's workers do
    )
    cost = run.seconds * run.workers
    simulation.run((1 - LAST_SHARE) * cost)
    if isinstance(sampler, PCTSSampler):
        sampler.finish()  # as CostBudget does
    simulation.run(cost)

    def check(params: Params) -> float:
        return problem.function(problem.point(params), 1.0)

    return measure(run, simulation.study, check, started)


def run_live(run: Run) -> Result:
    """Run it on the real clock."""
    started = time.perf_counter()
    hands = workers(run.workers)
    hands.prepare(run.form, run.task)
    work = Work(run.form, run.task, run.method, run.delay, run.seed, time.time(), run.seconds)
    study = hands.run(work)
    return measure(run, study, partial(hands.check, run.form, run.task), started)


def measure(
    run: Run, study: optuna.Study, check: Callable[[Params], float], started: float
) -> Result:
    """Return the result of a study."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    whole = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    accuracy = accuracy_best = 0.0
    if whole:
        answer, best = recommend(study), study.best_trial
        accuracy = check(answer.params)
        accuracy_best = accuracy if best.number == answer.number else check(best.params)
    read_fidelity = METHODS[run.method].fidelity(study.sampler)
    if read_fidelity is not None:
        whole = [trial for trial in whole if read_fidelity(trial) == 1]
    if isinstance(study.sampler, PCTSSampler):
        study.ask(TASKS["digits"][run.task].space)  # the tree is made when it is needed
    height, n_nodes = tree_size(study, study.sampler)
    seconds = time.perf_counter() - started
    return Result(accuracy, accuracy_best, len(trials), len(whole), height, n_nodes, seconds)


def execute(run: Run) -> dict[Run, Result]:
    """Run it."""
    return {run: (run_replay if run.form == REPLAY else run_live)(run)}


RECORDS = Records(Run, Result, execute)


def _runs(args: argparse.Namespace, methods: Sequence[str]) -> list[Run]:
    """Return the runs: for each seed all methods, one after the other."""
    runs = []
    for seed, delay, task in itertools.product(range(args.seeds), args.delays, args.tasks):
        if args.live:
            budgets = [args.seconds]
        else:
            whole = recorded(task).cost(1.0)
            budgets = [float(f"{n * whole / args.workers:.3g}") for n in args.evaluations]
        form = args.size if args.live else REPLAY
        runs += [
            Run(form, task, method, args.workers, delay, seconds, seed)
            for seconds, method in itertools.product(budgets, methods)
        ]
    return runs


def _checked(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, and the methods that can take part."""
    args = parser.parse_args()
    try:
        for delay in args.delays:
            parse_delay(delay)
        for task in args.tasks:
            lack = lacks(task)
            if args.live and lack is not None:
                parser.error(lack)
            if args.live:
                TASKS[args.size][task].load()
            else:
                recorded(task)
    except (DataError, FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    if min(args.seeds, args.workers, args.seconds, *args.evaluations) <= 0:
        parser.error("seeds, workers, seconds and evaluations must be positive")
    return args, able(args.methods or METHODS, args.methods or (), parser.error)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--live", action="store_true", help="train; otherwise replay")
    parser.add_argument("--tasks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), metavar="METHOD",
        help=f"some of (all): {'; '.join(METHODS)}",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (5)")
    parser.add_argument(
        "--workers", type=int, default=2, help="worker processes, live or virtual ones (2)"
    )
    parser.add_argument(
        "--delays", nargs="+", default=["none"], metavar="DELAY",
        help="additional delay of each value: 'none', 'constant 4', 'geometric 0.1'",
    )  # fmt: skip
    parser.add_argument(
        "--evaluations", type=int, nargs="+", default=[10, 20, 60], metavar="N",
        help="replayed: time for so many full evaluations of median length (10 20 60)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="live: of each study (6: 20 minutes in all)"
    )
    parser.add_argument(
        "--size", choices=list(TASKS), default="digits",
        help="live: which data, and how much of it (digits)",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(),
        help="replayed: processes (all cores); live studies run one after the other",
    )  # fmt: skip
    args, methods = _checked(parser)
    RECORDS.complete(
        _runs(args, methods),
        args.results / "runs.csv",
        module="benchmarks.ml.compare",
        n_jobs=0 if args.live else args.jobs,
    )


if __name__ == "__main__":
    main()
