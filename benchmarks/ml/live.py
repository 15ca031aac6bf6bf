"""Live runs: worker processes that train real models until the time is up.

The workers of a study share nothing but its storage, as Optuna's do. Only the tree searches
without a storage (MFPOO) run in one process and send their evaluations to the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
import tempfile
import threading
import time
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.trial import TrialState

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.ml.methods import Context
from benchmarks.ml.methods import METHODS
from benchmarks.ml.tasks import MAX_STEP
from benchmarks.ml.tasks import Params
from benchmarks.ml.tasks import STEPS
from benchmarks.ml.tasks import TASKS
from benchmarks.records import be_quiet
from benchmarks.records import use_one_thread
from benchmarks.simulation import parse_delay
from benchmarks.storages import connect
from benchmarks.storages import JOURNAL
from benchmarks.storages import serve
from optuna_pcts import PCTSSampler
from optuna_pcts._tree.fidelity import LAST_SHARE


# The paper's, for accuracies: sigma^2 = 0.02, b = 1. It does not give the bias.
_KNOWLEDGE = Knowledge(
    noise_std=0.02**0.5,
    cost=lambda z: 0.05 + 0.95 * z,
    bias=lambda z: 0.3 * (1 - z),
    value_range=1.0,
    n_evaluations=50,
)
_NAME = "study"
# Evaluations of the recommendation have seeds that no trial has.
_CHECK_SEED = 1_000_000
_N_CHECKS = 2

# Evaluates parameters at a fidelity, with a seed.
Evaluate = Callable[[Params, float, int], float]


@dataclass(frozen=True)
class Work:
    """What a worker does, and until when."""

    size: str
    task: str
    method: str
    delay: str
    seed: int
    started: float  # in seconds since 1970, which all processes agree on
    seconds: float

    @property
    def ends(self) -> float:
        return self.started + self.seconds


def make_sampler(work: Work, number: int) -> BaseSampler:
    """Return the sampler of one of the workers."""
    space = TASKS[work.size][work.task].space
    return METHODS[work.method].sampler(Context(space, 1000 * work.seed + number, _KNOWLEDGE))


def open_study(work: Work, address: str, number: int) -> optuna.Study:
    """Open the study as one of its workers."""
    return optuna.create_study(
        storage=connect(address),
        study_name=_NAME,
        load_if_exists=True,
        direction="maximize",
        sampler=make_sampler(work, number),
        pruner=METHODS[work.method].make_pruner(),
    )


def evaluate(size: str, task: str, params: Params, fidelity: float, seed: int) -> float:
    """Train and test once, in this process."""
    chosen = TASKS[size][task]
    return chosen.evaluate(params, chosen.n_samples(fidelity), seed).accuracy


def join(work: Work, address: str, number: int) -> None:
    """Be one of the workers of a study in a storage."""

    def here(params: Params, fidelity: float, seed: int) -> float:
        return evaluate(work.size, work.task, params, fidelity, seed)

    run(work, open_study(work, address, number), here, number)


def run(
    work: Work,
    study: optuna.Study,
    evaluate: Evaluate,
    number: int,
    lock: Any = None,
) -> None:
    """Ask, evaluate and tell until the time is up. What ends later does not count.

    Args:
        work:
            What to do.
        study:
            The study.
        evaluate:
            Evaluates parameters.
        number:
            Of the worker.
        lock:
            Held while the study is asked or told, if several workers share one sampler.
    """
    task, method = TASKS[work.size][work.task], METHODS[work.method]
    lock = nullcontext() if lock is None else lock
    delay, rng = parse_delay(work.delay), np.random.default_rng([work.seed, number])
    read_fidelity = method.fidelity(study.sampler)
    steps = (MAX_STEP,) if method.pruner is None else STEPS
    while time.time() < work.ends:
        is_last = time.time() > work.ends - LAST_SHARE * work.seconds
        if is_last and isinstance(study.sampler, PCTSSampler):
            study.sampler.finish()  # as CostBudget does
        with lock:
            trial = study.ask(task.space)
            z = None if read_fidelity is None else read_fidelity(trial)
        state, value = TrialState.COMPLETE, None
        for step in steps:
            # The number of the trial is its seed: no two see the same samples.
            value = evaluate(trial.params, step / MAX_STEP if z is None else z, trial.number)
            time.sleep(delay(rng))
            if time.time() > work.ends:
                state, value = TrialState.FAIL, None
                break
            if method.pruner is not None:
                trial.report(value, step)
                if step < MAX_STEP and trial.should_prune():
                    state, value = TrialState.PRUNED, None
                    break
        with lock:
            study.tell(trial, value, state=state)


class Workers:
    """Worker processes that are kept, so that no run includes the time to start them.

    Args:
        n:
            Their number.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._known: set[tuple[str, str]] = set()
        use_one_thread()
        self._pool = ProcessPoolExecutor(n, get_context("spawn"), initializer=be_quiet)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def prepare(self, size: str, task: str) -> None:
        """Let them load what they need, and train once, before the first clock starts."""
        if (size, task) in self._known:
            return
        params = optuna.create_study().ask(TASKS[size][task].space).params
        jobs = [self._pool.submit(evaluate, size, task, params, 0.0, i) for i in range(self.n)]
        for job in jobs:
            job.result()
        self._known.add((size, task))

    def run(self, work: Work) -> optuna.Study:
        """Let them work on a study, and return it."""
        with tempfile.TemporaryDirectory() as folder, serve(JOURNAL, Path(folder)) as address:
            if isinstance(make_sampler(work, 0), Baseline):
                return self._run_here(work)
            study = open_study(work, address, self.n)
            jobs = [self._pool.submit(join, work, address, i) for i in range(self.n)]
            for job in jobs:
                job.result()
            # The storage goes with its folder.
            copy = optuna.create_study(direction="maximize", sampler=study.sampler)
            copy.add_trials(study.get_trials(deepcopy=False))
            return copy

    def _run_here(self, work: Work) -> optuna.Study:
        """Ask and tell in this process, by a thread for each worker."""
        study = optuna.create_study(direction="maximize", sampler=make_sampler(work, 0))
        lock = threading.Lock()

        def there(params: Params, fidelity: float, seed: int) -> float:
            job = self._pool.submit(evaluate, work.size, work.task, params, fidelity, seed)
            return job.result()

        with ThreadPoolExecutor(self.n) as threads:
            jobs = [threads.submit(run, work, study, there, i, lock) for i in range(self.n)]
            for job in jobs:
                job.result()
        return study

    def check(self, size: str, task: str, params: Params) -> float:
        """Return the mean accuracy of parameters at full fidelity, on fresh samples."""
        jobs = [
            self._pool.submit(evaluate, size, task, params, 1.0, _CHECK_SEED + i)
            for i in range(_N_CHECKS)
        ]
        return float(np.mean([job.result() for job in jobs]))
