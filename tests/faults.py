"""Workers that can be killed, and what must hold after whatever has happened to a study."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field
import datetime as datetime_module
import enum
import math
import multiprocessing
import os
from pathlib import Path
import random
import signal
import sys
import tempfile
import time
from typing import Any
import warnings

from helpers import cells
from helpers import new_trial
from helpers import propose
from helpers import RetryCallback
from helpers import tree_of
import optuna
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from benchmarks.storages import connect
from optuna_pcts import DUCB1
from optuna_pcts import PCTSSampler
from optuna_pcts import Smoothness
from optuna_pcts._study.attributes import recorded_proposal


STUDY = "study"
_PATIENT = 4  # times as many trials as an undisturbed study needs
BEST = {"x": 0.3, "y": 0.7}
PATIENCE = 60.0  # seconds, for a machine that is busy with something else

SAMPLERS: dict[str, Callable[[], BaseSampler]] = {
    "default": PCTSSampler,
    "paper": lambda: PCTSSampler(
        local_share=0, prior_std=None, policy=DUCB1(), point="uniform", branching=3
    ),
    "known": lambda: PCTSSampler(smoothness=Smoothness(nu=1, rho=0.5), split_order=["y"]),
    "Random": RandomSampler,
    "TPE": TPESampler,
}


def distance(params: dict[str, Any]) -> float:
    return math.fsum((params[name] - best) ** 2 for name, best in BEST.items())


def objective(trial: optuna.Trial) -> float:
    return distance({name: trial.suggest_float(name, 0, 1) for name in BEST})


# ---------------------------------------------------------------------- what must hold


def check(
    study: optuna.Study,
    *,
    tolerance: float = 1e-3,  # random trials are this near in one of six studies
    n_more: int = 60,
    objective: Callable[[optuna.Trial], float] = objective,
) -> None:
    """Check what must hold after any fault.

    Every finished trial is in the tree exactly once, fresh samplers see the same tree, and the
    study goes on and finds the optimum.
    """
    trials = study.get_trials(deepcopy=False)
    assert [trial.number for trial in trials] == list(range(len(trials)))
    expected = {trial.number for trial in trials if _counts(trial, trials)}
    sampler = study.sampler
    trial_id = new_trial(study)
    trees = []
    for each in (PCTSSampler(seed=0), PCTSSampler(seed=0)):
        propose(each, study, trial_id)
        trees.append(tree_of(each))
    assert cells(trees[0]) == cells(trees[1])
    for tree in trees:
        told = {n for n in range(len(trials)) if n in tree and tree._trials.ended[n]}
        assert told == expected
        assert tree._nodes.n_ended[0] == len(expected)  # each of them once
        assert all(n_told <= n_asked for n_asked, n_told, _ in cells(tree).values())
    study._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    study.sampler = PCTSSampler(seed=0)
    # Failures near the optimum hide it for a while; how many there are depends on the timing.
    for _ in range(_PATIENT):
        study.optimize(objective, n_trials=n_more)
        best = min(distance(t.params) for t in study.get_trials()[len(trials) :] if t.values)
        if best < tolerance:
            break
    assert best < tolerance
    if isinstance(sampler, PCTSSampler):
        # A sampler that was there all the time has the same tree as a fresh one.
        trial_id = new_trial(study)
        fresh = PCTSSampler(seed=0)
        for each in (sampler, fresh):
            propose(each, study, trial_id)
        old, new = tree_of(sampler), tree_of(fresh)
        assert (old.n_told, old.n_asked) == (new.n_told, new.n_asked)
        study._storage.set_trial_state_values(trial_id, TrialState.FAIL)


def _counts(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> bool:
    """Whether the tree must know the feedback of a trial."""
    cell = recorded_proposal(trial)
    known = {*trial.params, *(cell.point if cell is not None else ())}
    is_retried = any(trial.number in t.system_attrs.get("retry_history", ()) for t in trials)
    # Where it is known in part, it counts in the cells that certainly hold it.
    return trial.state.is_finished() and not is_retried and bool(known & BEST.keys())


# ---------------------------------------------------------------------- workers


class Phase(enum.IntEnum):
    """What a worker is doing."""

    STARTING = 0
    ASK = 1
    OBJECTIVE = 2
    TELL = 3


@dataclass(frozen=True)
class Job:
    """What a worker is to do, and how."""

    address: str
    sampler: str = "default"
    sleep: float = 0.01  # of an objective
    heartbeat: int | None = None
    retries: bool = False
    skew: float = 0.0  # seconds by which the worker's clock is ahead

    def load(self) -> optuna.Study:
        options: dict[str, Any] = {}
        if self.heartbeat is not None:
            options = {"heartbeat_interval": self.heartbeat, "grace_period": 2 * self.heartbeat}
            if self.retries:
                key = "failed_trial_callback"
                if hasattr(optuna.storages, "RetryHeartbeatStaleTrialCallback"):
                    key = "heartbeat_stale_trial_callback"
                options[key] = RetryCallback(max_retry=2)
        storage = connect(self.address, **options)
        return optuna.create_study(
            study_name=STUDY,
            storage=storage,
            sampler=SAMPLERS[self.sampler](),
            load_if_exists=True,
        )


def work(job: Job, phase: Any, stop: Any, told: str) -> None:
    """Run trials until told to stop, also if the storage is away, and say what is being done.

    What was told, so far as the storage has said so, is noted in a file of this worker's own.
    """
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    warnings.simplefilter("ignore")
    if job.skew:
        _shift_clock(job.skew)

    def watched(trial: optuna.Trial) -> float:
        value = objective(trial)
        phase.value = Phase.OBJECTIVE
        time.sleep(job.sleep * random.uniform(0.5, 1.5))
        phase.value = Phase.TELL
        return value

    def next_ask(study: optuna.Study, trial: FrozenTrial) -> None:
        with open(told, "a") as file:
            file.write(f"{trial.number} {trial.values[0]!r}\n")
        phase.value = Phase.ASK
        if stop.value:
            study.stop()

    study = None
    while not stop.value:
        # What a storage raises while its server is away depends on the driver and the moment.
        with suppress(Exception):
            study = study or job.load()
            phase.value = Phase.ASK
            study.optimize(watched, callbacks=[next_ask])
        time.sleep(0.05)


def _shift_clock(seconds: float) -> None:
    """Let Optuna, in this process, see a clock that is wrong."""

    class Shifted(datetime_module.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime_module.datetime.fromtimestamp(time.time() + seconds, tz)

    for name, module in list(sys.modules.items()):
        if name.startswith("optuna.") and (
            getattr(module, "datetime", None) is datetime_module.datetime
        ):
            module.datetime = Shifted  # type: ignore[attr-defined]


@dataclass
class Crew:
    """Worker processes; one that was killed is replaced.

    Attributes:
        jobs:
            One for each worker.
        killed:
            How many were killed, by what they were doing at that very moment.
        told:
            When all have stopped: the value of each trial that a worker has told.
    """

    jobs: Sequence[Job]
    killed: dict[Phase, int] = field(default_factory=lambda: dict.fromkeys(Phase, 0))
    told: dict[int, float] = field(default_factory=dict)

    def __enter__(self) -> Crew:
        # From a process that has all modules loaded: a new worker is there at once.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["optuna_pcts", "sqlalchemy.orm", "psycopg2"])
        self._stop = self._context.RawValue("b", 0)
        self._notes = tempfile.TemporaryDirectory()
        self._n_started = 0
        self._workers = [self._start(job) for job in self.jobs]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.value = 1
        deadline = time.monotonic() + PATIENCE
        for worker, _phase in self._workers:
            worker.join(max(deadline - time.monotonic(), 0.1))
            worker.kill()
            worker.join()
        lines = [
            line
            for notes in Path(self._notes.name).iterdir()
            for line in notes.read_text().splitlines(keepends=True)
            if line.endswith("\n")  # or the worker was killed while it wrote
        ]
        self.told = {int(n): float(value) for n, value in map(str.split, lines)}
        self._notes.cleanup()

    def losses(self, study: optuna.Study) -> int:
        """Count the trials that a worker has told, and that are not in the storage like that."""
        trials = study.get_trials(deepcopy=False)
        kept = {t.number: t.values[0] for t in trials if t.state == TrialState.COMPLETE}
        return sum(kept.get(number) != value for number, value in self.told.items())

    def _start(self, job: Job) -> tuple[Any, Any]:
        # Shared memory without a lock: a worker that is killed would never release it.
        phase = self._context.RawValue("b", 0)
        self._n_started += 1
        notes = f"{self._notes.name}/{self._n_started}"
        worker = self._context.Process(
            target=work, args=(job, phase, self._stop, notes), daemon=True
        )
        worker.start()
        return worker, phase

    def kill(self, rng: random.Random, phase: Phase) -> bool:
        """Kill a random worker in a phase, if one is found in time, and replace it."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            i = rng.randrange(len(self._workers))
            worker, doing = self._workers[i]
            if doing.value == phase:
                time.sleep(rng.uniform(0, 0.005))  # anywhere in it
                os.kill(worker.pid, signal.SIGKILL)
                worker.join()
                self.killed[Phase(doing.value)] += 1
                self._workers[i] = self._start(self.jobs[i])
                return True
            time.sleep(0.001)
        return False


def wait_for(study: optuna.Study, n_finished: int) -> None:
    """Wait until a study has so many finished trials."""
    deadline = time.monotonic() + PATIENCE
    while sum(t.state.is_finished() for t in study.get_trials(deepcopy=False)) < n_finished:
        assert time.monotonic() < deadline, "the workers do not get on"
        time.sleep(0.05)
