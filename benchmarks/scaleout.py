"""How many workers a study can have: throughput, repeated and lost trials, regret, by storage.

Run it with ``python -m benchmarks.scaleout --storage postgres``; the default is small and takes
about a minute. Workers are processes with a connection each (threads for the storage in memory).
The storages are started here, also the PostgreSQL and the gRPC proxy before it.

The samplers have a study each and take turns: all workers do some trials of one study, then some
of the next. Other load on the machine affects all of them, so that their *ratio* is reliable where
their speed is not. The objective sleeps, as if it were evaluated elsewhere. With a sleep of 0 the
measured time is that of the processor: storage, Optuna and sampler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Mapping
from contextlib import closing
from contextlib import ExitStack
from contextlib import suppress
from dataclasses import astuple
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
import json
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.connection import wait
import os
from pathlib import Path
import random
import signal
import sys
import tempfile
import threading
import time
from typing import Any
from typing import Protocol
import warnings

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import distribution_to_json
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from tqdm import tqdm

from benchmarks.problems import PAPER
from benchmarks.problems import Problem
from benchmarks.records import row
from benchmarks.records import table
from benchmarks.storages import connect
from benchmarks.storages import KINDS
from benchmarks.storages import MEMORY
from benchmarks.storages import serve
from optuna_pcts import PCTSSampler


SAMPLERS: dict[str, Callable[[int | None], BaseSampler]] = {
    "PCTS": lambda seed: PCTSSampler(seed=seed),
    "Random": lambda seed: RandomSampler(seed=seed),
    "TPE": lambda seed: TPESampler(seed=seed),
}
_RUNNING = (TrialState.RUNNING, None, None)
# To reach with 16 workers on PostgreSQL: PCTS against Random.
TARGET_RATIO = 0.9


class Timed(BaseSampler):
    """A sampler whose calls are timed."""

    def __init__(self, sampler: BaseSampler) -> None:
        self._sampler = sampler
        self._lock = threading.Lock()
        self.seconds = 0.0

    def _take(self, call: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return call(*args)
        finally:
            with self._lock:
                self.seconds += time.perf_counter() - start

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        space: dict[str, BaseDistribution] = self._take(
            self._sampler.infer_relative_search_space, study, trial
        )
        return space

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        params: dict[str, Any] = self._take(
            self._sampler.sample_relative, study, trial, search_space
        )
        return params

    def sample_independent(self, *args: Any) -> Any:
        return self._take(self._sampler.sample_independent, *args)

    def before_trial(self, *args: Any) -> None:
        self._take(self._sampler.before_trial, *args)

    def after_trial(self, *args: Any) -> None:
        self._take(self._sampler.after_trial, *args)

    def reseed_rng(self) -> None:
        self._sampler.reseed_rng()


@dataclass
class Work:
    """Trials done, and the seconds of all workers together."""

    n_trials: int = 0
    seconds: float = 0.0
    in_sampler: float = 0.0
    n_statements: int = 0  # sent to the database, where there is one

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other))))


class Objective:
    """A function without noise that sleeps.

    Args:
        problem:
            The function.
        sleep:
            Seconds that it takes on average: between half and one and a half of that.
    """

    def __init__(self, problem: str, sleep: float = 0.0) -> None:
        self._problem: Problem = PAPER[problem]
        self._sleep = sleep

    def __call__(self, trial: optuna.Trial) -> float:
        point = [
            trial.suggest_float(name, low, high)
            for name, low, high in zip(self._problem.space, self._problem.low, self._problem.high)
        ]
        time.sleep(self._sleep * random.uniform(0.5, 1.5))
        return self._problem.regret(np.array(point))


@dataclass(frozen=True)
class Setting:
    """What all workers have in common."""

    address: str
    names: dict[str, str]  # of the study of each sampler
    problem: str
    sleep: float


class Crew(Protocol):
    """Workers on the studies of all samplers."""

    def run(self, sampler: str, n_trials: int, progress: Callable[[int], None]) -> Work:
        """Run some trials of one sampler's study, and report progress."""
        ...


class Threads:
    """The threads of one ``study.optimize``, on the storage in memory."""

    def __init__(self, setting: Setting, storage: BaseStorage, n_workers: int) -> None:
        self._n_workers = n_workers
        self._objective = Objective(setting.problem, setting.sleep)
        self._studies = _studies(setting, storage)

    def run(self, sampler: str, n_trials: int, progress: Callable[[int], None]) -> Work:
        study, timed = self._studies[sampler]
        before, start = timed.seconds, time.perf_counter()
        study.optimize(
            self._objective,
            n_trials=n_trials,
            n_jobs=self._n_workers,
            callbacks=[lambda *_: progress(1)],
        )
        seconds = (time.perf_counter() - start) * self._n_workers
        return Work(n_trials, seconds, timed.seconds - before)


class Processes:
    """A process for each worker, which opens the storage for itself and is kept."""

    def __init__(self, setting: Setting, n_workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._left = context.Value("l", 0)  # trials that nobody has begun yet
        self._pipes: list[Connection[Any, Any]] = []
        self._workers = []
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(setting, theirs, self._left), daemon=True)
            worker.start()
            theirs.close()  # so that the pipe ends with the worker
            self._workers.append(worker)
            self._pipes.append(ours)
        for pipe in self._pipes:
            pipe.recv()  # it has loaded all it needs

    def run(self, sampler: str, n_trials: int, progress: Callable[[int], None]) -> Work:
        self._left.value = n_trials
        for pipe in self._pipes:
            pipe.send(sampler)
        done, work, pending = 0, Work(), list(self._pipes)
        while pending:
            for ready in wait(pending, timeout=0.1):
                assert isinstance(ready, Connection)
                try:
                    work += ready.recv()
                except EOFError:
                    raise RuntimeError("A worker has died; its message stands above.") from None
                pending.remove(ready)
            begun = n_trials - max(self._left.value, 0)
            progress(begun - done)
            done = begun
        return work

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for worker in self._workers:
            worker.join(10)
            worker.kill()


def _studies(setting: Setting, storage: BaseStorage) -> dict[str, tuple[optuna.Study, Timed]]:
    studies = {}
    for sampler, name in setting.names.items():
        timed = Timed(SAMPLERS[sampler](None))
        study = optuna.load_study(study_name=name, storage=storage, sampler=timed)
        studies[sampler] = study, timed
    return studies


def _work(setting: Setting, pipe: Connection[Any, Any], left: Any) -> None:
    """Be a worker: receive a sampler's name, run trials while there are any, return the times."""
    _be_quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the pipe, and that this process
    storage = connect(setting.address)
    statements = _count_statements(storage)
    objective = Objective(setting.problem, setting.sleep)
    studies = _studies(setting, storage)
    n_trials = 0

    def claim() -> bool:
        with left.get_lock():
            left.value -= 1
            return bool(left.value >= 0)

    def go_on(study: optuna.Study, trial: FrozenTrial) -> None:
        nonlocal n_trials
        n_trials += 1
        if not claim():
            study.stop()

    pipe.send(None)
    with suppress(EOFError, BrokenPipeError):
        while True:
            study, timed = studies[pipe.recv()]
            n_trials, in_sampler, n_statements = 0, timed.seconds, statements()
            start = time.perf_counter()
            if claim():
                study.optimize(objective, callbacks=[go_on])
            seconds = time.perf_counter() - start
            pipe.send(
                Work(n_trials, seconds, timed.seconds - in_sampler, statements() - n_statements)
            )


def _count_statements(storage: BaseStorage) -> Callable[[], int]:
    """Count the statements that this process sends to a database; 0 without one."""
    n = 0

    def count(*_: Any) -> None:
        nonlocal n
        n += 1

    engine = getattr(getattr(storage, "_backend", None), "engine", None)
    if engine is not None:
        from sqlalchemy import event

        event.listen(engine, "after_cursor_execute", count)
    return lambda: n


def _be_quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)


@dataclass(frozen=True)
class Result:
    """Measurements of one sampler's study with some number of workers."""

    per_second: float
    per_second_late: float  # in the second half of the trials
    in_sampler: float  # share of the workers' time
    statements: float  # per trial
    attribute_bytes: float  # per trial
    n_repeated: int
    n_lost: int
    regret: float


def measure(
    crew: Crew, setting: Setting, storage: BaseStorage, n_trials: int, n_turns: int, bar: Any
) -> dict[str, Result]:
    """Let the samplers take turns until each has its trials."""
    walls: dict[str, list[float]] = {sampler: [] for sampler in setting.names}
    works = dict.fromkeys(setting.names, Work())
    n_fill = len(_trials(setting, storage, next(iter(setting.names))))
    ends = [n_trials * (i + 1) // n_turns for i in range(n_turns)]
    sizes = [end - begin for begin, end in pairwise([0, *ends])]
    for i, size in enumerate(sizes):
        turn = list(setting.names)
        for sampler in turn if i % 2 else turn[::-1]:
            bar.set_description(sampler)
            start = time.perf_counter()
            works[sampler] += crew.run(sampler, size, bar.update)
            walls[sampler].append(time.perf_counter() - start)
    late = n_turns // 2
    results = {}
    for sampler in setting.names:
        work = works[sampler]
        trials = _trials(setting, storage, sampler)
        complete = [t for t in trials[n_fill:] if t.state == TrialState.COMPLETE]
        results[sampler] = Result(
            n_trials / sum(walls[sampler]),
            sum(sizes[late:]) / sum(walls[sampler][late:]),
            work.in_sampler / work.seconds,
            work.n_statements / n_trials,
            sum(map(attribute_bytes, complete)) / n_trials,
            n_repeated(complete),
            n_trials - len({t.number for t in complete}),
            min(t.values[0] for t in trials if t.state == TrialState.COMPLETE),
        )
    return results


def _trials(setting: Setting, storage: BaseStorage, sampler: str) -> list[FrozenTrial]:
    study = optuna.load_study(study_name=setting.names[sampler], storage=storage)
    return study.get_trials(deepcopy=False)


def n_repeated(trials: list[FrozenTrial]) -> int:
    """Return how many trials were asked where another one was still in flight."""
    busy_until: dict[tuple[Any, ...], datetime] = {}
    count = 0
    for trial in trials:
        start, end = trial.datetime_start, trial.datetime_complete
        assert start is not None, "it has run"
        assert end is not None, "it has ended"
        point = tuple(trial.params.values())
        count += point in busy_until and start < busy_until[point]
        busy_until[point] = max(end, busy_until.get(point, end))
    return count


def attribute_bytes(trial: FrozenTrial) -> int:
    """Return the size of what a sampler has written with a trial, as it is stored."""
    attributes = {**trial.user_attrs, **trial.system_attrs}
    return sum(len(key) + len(json.dumps(value)) for key, value in attributes.items())


def fillers(problem: str, n: int) -> list[FrozenTrial]:
    """Return random trials, the same for each sampler, with which studies start."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.optimize(Objective(problem), n_trials=n)
    return study.get_trials(deepcopy=False)


def fill(study: optuna.Study, trials: list[FrozenTrial]) -> None:
    """Add trials to an empty study. Into a database all at once: one by one takes minutes."""
    backend = getattr(study._storage, "_backend", None)
    if not isinstance(backend, optuna.storages.RDBStorage):
        study.add_trials(trials)
        return
    from optuna.storages._rdb import models

    with backend.scoped_session() as session, session.begin():
        rows = [
            models.TrialModel(
                study_id=study._study_id,
                number=trial.number,
                state=trial.state,
                datetime_start=trial.datetime_start,
                datetime_complete=trial.datetime_complete,
            )
            for trial in trials
        ]
        session.add_all(rows)
        session.flush()
        for model, trial in zip(rows, trials):
            for name, value in trial.params.items():
                distribution = trial.distributions[name]
                session.add(
                    models.TrialParamModel(
                        trial_id=model.trial_id,
                        param_name=name,
                        param_value=distribution.to_internal_repr(value),
                        distribution_json=distribution_to_json(distribution),
                    )
                )
            for value in trial.values or ():
                session.add(
                    models.TrialValueModel(
                        trial_id=model.trial_id,
                        objective=0,
                        value=value,
                        value_type=models.TrialValueModel.TrialValueType.FINITE,
                    )
                )


def regret_of_one(sampler: str, problem: str, n_trials: int, n_fill: int, bar: Any) -> float:
    """Return the regret of the same number of trials by one worker, who sees all feedback."""
    study = optuna.create_study(sampler=SAMPLERS[sampler](None))
    study.add_trials(fillers(problem, n_fill))
    bar.set_description(f"{sampler}, one worker")
    study.optimize(Objective(problem), n_trials=n_trials, callbacks=[lambda *_: bar.update(1)])
    return study.best_value


def run(args: argparse.Namespace, n_workers: int, bar: Any) -> dict[str, Result]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scaleout-")))
        address = stack.enter_context(serve(args.storage, folder))
        storage = connect(address)
        names = {sampler: f"{sampler} {n_workers}" for sampler in args.samplers}
        for sampler, name in names.items():
            study = optuna.create_study(study_name=name, storage=storage)
            bar.set_description(f"fill for {sampler}")
            trials = fillers(args.problem, args.fill + args.lost)
            for trial in trials[args.fill :]:
                trial.state, trial.values, trial.datetime_complete = _RUNNING
            fill(study, trials)
            bar.update(len(trials))
        setting = Setting(address, names, args.problem, args.sleep)
        crew: Crew
        if args.storage == MEMORY:
            crew = Threads(setting, storage, n_workers)
        else:
            crew = stack.enter_context(closing(Processes(setting, n_workers)))
        return measure(crew, setting, storage, args.trials, args.turns, bar)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--storage", choices=KINDS, default="sqlite", help="(sqlite)")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[8], metavar="N", help="numbers of workers (8)"
    )
    parser.add_argument("--trials", type=int, default=240, help="trials of each study (240)")
    parser.add_argument(
        "--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), metavar="NAME"
    )
    parser.add_argument("--problem", choices=PAPER, default="Hartmann6", help="(Hartmann6)")
    parser.add_argument(
        "--sleep", type=float, default=0.05, help="seconds of an evaluation, on average (0.05)"
    )
    parser.add_argument(
        "--fill", type=int, default=0, help="random trials that each study begins with (0)"
    )
    parser.add_argument(
        "--lost", type=int, default=0, help="running trials of dead workers, likewise (0)"
    )
    parser.add_argument("--turns", type=int, default=8, help="turns of each sampler (8)")
    args = parser.parse_args()
    if min(*args.workers, args.trials) < 1 or min(args.sleep, args.fill, args.lost) < 0:
        parser.error("--workers and --trials must be positive, and all others not negative")
    if not 2 <= args.turns <= args.trials:
        parser.error("--turns must be at least 2, and at most --trials")
    _be_quiet()
    # Many processes with many threads each are slower than the same processes with one each.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

    results: dict[int, dict[str, Result]] = {}
    alone: dict[str, float] = {}
    n_studies = len(args.samplers) * len(args.workers)
    total = args.trials * (len(args.samplers) + n_studies) + (args.fill + args.lost) * n_studies
    with tqdm(total=total, unit="trial", file=sys.stderr) as bar:
        try:
            for n_workers in args.workers:
                results[n_workers] = run(args, n_workers, bar)
            for sampler in args.samplers:
                alone[sampler] = regret_of_one(sampler, args.problem, args.trials, args.fill, bar)
        except KeyboardInterrupt:
            print("\ninterrupted: what was measured until then", file=sys.stderr)
    print(report(args, results, alone))


def report(
    args: argparse.Namespace,
    results: Mapping[int, Mapping[str, Result]],
    alone: Mapping[str, float],
) -> str:
    lines = [
        f"{args.storage}, {args.problem}, {args.trials} trials of {args.sleep:g} seconds each, "
        f"after {args.fill} random ones and {args.lost} lost ones",
        "",
        *table(
            "workers",
            "sampler",
            "trials/s",
            "second half",
            "in sampler",
            "statements/trial",
            "bytes/trial",
            "repeated",
            "lost",
            "regret",
            "one worker's",
        ),
    ]
    for n_workers, by_sampler in results.items():
        for sampler, r in by_sampler.items():
            lines.append(
                row(
                    n_workers,
                    sampler,
                    f"{r.per_second:.1f}",
                    f"{r.per_second_late:.1f}",
                    f"{r.in_sampler:.1%}",
                    f"{r.statements:.1f}" if r.statements else "--",
                    f"{r.attribute_bytes:.0f}",
                    r.n_repeated,
                    r.n_lost,
                    f"{r.regret:.2g}",
                    f"{alone[sampler]:.2g}" if sampler in alone else "--",
                )
            )
    for n_workers, by_sampler in results.items():
        if {"PCTS", "Random"} <= by_sampler.keys():
            pcts, rival = by_sampler["PCTS"], by_sampler["Random"]
            lines.append(
                f"\nPCTS / Random with {n_workers} workers: "
                f"{pcts.per_second / rival.per_second:.2f}, in the second half "
                f"{pcts.per_second_late / rival.per_second_late:.2f} (to reach: {TARGET_RATIO:g})"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
