"""Real processes on one storage."""

from __future__ import annotations

from datetime import timedelta
import multiprocessing
import os
from pathlib import Path
import signal
import time

from helpers import new_trial
from helpers import propose
from helpers import tree_of
import numpy as np
import optuna
from optuna.storages import BaseStorage
from optuna.storages import JournalStorage
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._study.history import History
from optuna_pcts._tree.messages import Status


N_WORKERS = 8
N_TRIALS_EACH = 15
PATIENCE = 60.0  # seconds, for a machine that is busy with something else


def open_storage(path: Path) -> BaseStorage:
    if path.suffix == ".db":
        return RDBStorage(
            f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": PATIENCE}}
        )
    return JournalStorage(JournalFileBackend(str(path)))


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    y = trial.suggest_float("y", 1e-3, 1, log=True)
    time.sleep(0.002 * (trial.number % 4))
    return (x - 0.3) ** 2 + y


def work(path: Path) -> None:
    """Run some trials of a study, as one of many workers with the same seed."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        study_name="s", storage=open_storage(path), sampler=PCTSSampler(seed=0)
    )
    study.optimize(objective, n_trials=N_TRIALS_EACH)


def work_forever(path: Path) -> None:
    """Start a trial that never ends, and say so."""

    def stuck(trial: optuna.Trial) -> float:
        objective(trial)
        path.with_suffix(".started").touch()
        time.sleep(3600)
        return 0.0

    study = optuna.load_study(
        study_name="s", storage=open_storage(path), sampler=PCTSSampler(seed=0)
    )
    study.optimize(stuck, n_trials=1)


@pytest.mark.parametrize("name", ["study.journal", "study.db"])
def test_eight_workers_lose_and_repeat_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    study = optuna.create_study(study_name="s", storage=open_storage(path))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(path,), daemon=True) for _ in range(N_WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert [worker.exitcode for worker in workers] == [0] * N_WORKERS

    n_trials = N_WORKERS * N_TRIALS_EACH
    trials = study.get_trials()
    assert [t.number for t in trials] == list(range(n_trials))
    assert {t.state for t in trials} == {TrialState.COMPLETE}
    assert len({tuple(t.params.values()) for t in trials}) == n_trials

    fresh = PCTSSampler(seed=0)
    propose(fresh, study, new_trial(study))
    tree = tree_of(fresh)
    assert tree.n_told == n_trials
    assert tree.n_asked == n_trials + 1  # with the one just proposed
    assert all(number in tree for number in range(n_trials))


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_corner_is_not_asked_while_another_worker_asks(is_alone: bool) -> None:
    """Two workers that ask at the same moment would evaluate the very same point."""
    study = optuna.create_study()
    rng = np.random.default_rng(0)
    unit = optuna.distributions.FloatDistribution(0, 1)
    for x, y in rng.random((40, 2)).tolist():
        study.add_trial(
            optuna.create_trial(
                params={"x": x, "y": y}, distributions={"x": unit, "y": unit}, value=x + y
            )
        )
    if not is_alone:
        new_trial(study)  # by a worker that has not said yet what it evaluates
    asked = new_trial(study)
    proposed = [
        tuple(propose(PCTSSampler(seed=seed, local_share=0.9), study, asked).values())
        for seed in range(20)
    ]
    assert ((0.0, 0.0) in proposed) == is_alone


@pytest.mark.parametrize("name", ["study.journal", "study.db"])
def test_a_killed_worker_leaves_the_study_usable(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    study = optuna.create_study(
        study_name="s", storage=open_storage(path), sampler=PCTSSampler(seed=0, stale_after=3600)
    )
    study.optimize(objective, n_trials=3)
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=work_forever, args=(path,), daemon=True)
    worker.start()
    assert worker.pid is not None
    deadline = time.monotonic() + PATIENCE
    while not path.with_suffix(".started").exists():
        assert time.monotonic() < deadline
        assert worker.is_alive()
        time.sleep(0.05)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(PATIENCE)
    assert worker.exitcode == -signal.SIGKILL

    study.optimize(objective, n_trials=10)
    trials = study.get_trials()
    states = [t.state for t in trials]
    assert states == [TrialState.COMPLETE] * 3 + [TrialState.RUNNING] + [TrialState.COMPLETE] * 10
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (14, 12)  # told all but the lost and the newest

    # In flight until it is stale.
    started = trials[3].datetime_start
    assert started is not None
    history = History(study, stale_after=3600)
    history.update(started + timedelta(seconds=3599))
    assert list(history.running) == [3]
    (feedback,) = history.update(started + timedelta(seconds=3601))
    assert (feedback.number, feedback.status) == (3, Status.GONE)

    impatient = PCTSSampler(seed=0, stale_after=1e-6)
    propose(impatient, study, new_trial(study))
    tree = tree_of(impatient)
    assert 3 not in tree
    assert (tree.n_asked, tree.n_told) == (14, 13)
