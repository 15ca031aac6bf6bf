"""Workers of the example whose storage, or who themselves, are killed: nothing is left running."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import closing
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time

from helpers import start
import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest
from sqlalchemy.exc import OperationalError

from examples.postgres.flight import PREFIX
from examples.postgres.server import EmbeddedServer
from examples.postgres.storage import open_storage
from examples.postgres.storage import PatientStorage
from examples.postgres.tune import FAILURE


PATIENCE = 60.0  # seconds, for a machine that is busy with something else
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Start]:
    """Start a worker that tunes until it is stopped; none outlives the test."""
    workers: list[subprocess.Popen[str]] = []

    def start_worker(url: str) -> subprocess.Popen[str]:
        arguments = ["--scale", 0.02, "--in-flight", 4, "--budget", 10**6, "--only", "tune"]
        command = [sys.executable, "-m", "examples.postgres", *arguments, "--storage", url]
        workers.append(start(tmp_path, *command))
        return workers[-1]

    yield start_worker
    for each in workers:
        each.kill()
        each.communicate()


def new_database(server: EmbeddedServer, name: str) -> str:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    url = f"postgresql+psycopg2://postgres@/{name}?host={server.folder / 'socket'}"
    open_storage(url)  # makes the tables
    return url


def trials(url: str) -> list[FrozenTrial]:
    return optuna.load_study(study_name="postgres", storage=url).trials


def n_ended(url: str) -> int:
    return sum(t.state in (TrialState.COMPLETE, TrialState.PRUNED) for t in trials(url))


def running(url: str) -> set[tuple[int, object]]:
    """Return what runs: one that was put back and asked again is another."""
    return {(t.number, t.datetime_start) for t in trials(url) if t.state == TrialState.RUNNING}


def given_up(url: str) -> list[int]:
    """Return the trials that failed, and not because of their configuration."""
    failed = (t for t in trials(url) if t.state == TrialState.FAIL)
    return [t.number for t in failed if FAILURE not in t.user_attrs]


def wait_for_trials(url: str, n: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if n_ended(url) >= n:
                return
        except KeyError:  # the first worker has not made the study yet
            pass
        assert time.monotonic() < deadline, "the workers do not get on"
        time.sleep(0.1)


def stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return err


def logs_of_flights() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"*{PREFIX}*"))


def test_workers_wait_for_a_storage_that_is_killed_and_lose_nothing(
    database: EmbeddedServer, worker: Start
) -> None:
    url = new_database(database, "killed")
    logs = logs_of_flights()
    workers = [worker(url), worker(url)]
    wait_for_trials(url, 5)
    for _ in range(3):  # whatever they are just doing
        assert database.pid is not None
        os.kill(database.pid, signal.SIGKILL)
        time.sleep(1.5)
        database.start()
        wait_for_trials(url, n_ended(url) + 10)
    said = [stop(each) for each in workers]
    assert all("The storage is away" in err for err in said)
    assert not running(url)
    assert not given_up(url)
    assert logs_of_flights() <= logs


def test_a_killed_worker_that_comes_back_ends_what_it_had_in_flight(
    tmp_path: Path, worker: Start
) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    open_storage(url)
    first = worker(url)
    wait_for_trials(url, 5)
    first.kill()
    first.wait()
    lost = running(url)
    assert 1 <= len(lost) <= 4
    second = worker(url)
    wait_for_trials(url, n_ended(url) + 8)
    assert not lost & running(url)  # long before two minutes are over
    stop(second)
    assert not running(url)
    assert not given_up(url)


def test_a_worker_whose_storage_stays_away_ends_soon_when_told_to(
    database: EmbeddedServer, worker: Start
) -> None:
    url = new_database(database, "away")
    process = worker(url)
    wait_for_trials(url, 3)
    assert database.pid is not None
    os.kill(database.pid, signal.SIGKILL)
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "The storage cannot be used: " in err
    assert "Traceback" not in err
    database.start()
    lost = running(url)
    assert lost
    second = worker(url)
    wait_for_trials(url, n_ended(url) + 8)
    assert not lost & running(url)
    stop(second)
    assert not running(url)
    assert not given_up(url)


def test_a_new_worker_does_not_make_a_dead_one_seem_alive(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    study = optuna.create_study(storage=storage)
    silent, dead = (storage.create_new_trial(study._study_id) for _ in range(2))

    def beats() -> dict[int, str]:
        with storage.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT trial_id, heartbeat FROM trial_heartbeats")
            return {row[0]: str(row[1]) for row in rows}

    storage.record_heartbeat(dead)
    with storage.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE trial_heartbeats SET heartbeat = '2000-01-01 00:00:00'")
    # Whoever has no sign of life at all gets one, once.
    assert storage._get_stale_trial_ids(study._study_id) == [dead]
    assert beats().keys() == {silent, dead}
    assert beats()[dead] == "2000-01-01 00:00:00"
    before = beats()
    time.sleep(1.1)  # the resolution of SQLite's clock
    assert storage._get_stale_trial_ids(study._study_id) == [dead]
    assert beats() == before


def test_errors_of_the_caller_are_raised_at_once(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    begin = time.monotonic()
    with pytest.raises(KeyError):
        storage.get_trial(17)
    with pytest.raises(OperationalError):
        PatientStorage(f"sqlite:///{tmp_path}/no/such/folder/study.db")
    assert time.monotonic() - begin < 10
