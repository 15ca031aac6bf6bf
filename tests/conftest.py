"""Settings for all tests."""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
import optuna
from optuna.storages import BaseStorage
from optuna.storages import InMemoryStorage
from optuna.storages import JournalStorage
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend
import pytest

from optuna_pcts import PCTSSampler


if TYPE_CHECKING:  # the other tests run without a database
    from examples.postgres.evaluator import Evaluator
    from examples.postgres.server import EmbeddedServer


# No deadline: a busy machine must not fail a property. Continuous integration tries the same
# examples each time; on other machines they are new ones.
settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out a line of log per trial."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(autouse=True)
def _unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that an earlier test had something for people to see."""
    monkeypatch.setattr(PCTSSampler, "shows_delays", False)


@pytest.fixture
def optuna_log(
    caplog: pytest.LogCaptureFixture,
) -> Iterator[pytest.LogCaptureFixture]:
    """Capture what Optuna's logger says."""
    optuna.logging.enable_propagation()
    yield caplog
    optuna.logging.disable_propagation()


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStorage:
    """Each kind of storage in turn."""
    if request.param == "memory":
        return InMemoryStorage()
    if request.param == "sqlite":
        return RDBStorage(f"sqlite:///{tmp_path}/study.db")
    return JournalStorage(JournalFileBackend(str(tmp_path / "study.journal")))


@pytest.fixture
def study(storage: BaseStorage) -> optuna.Study:
    """A study in each kind of storage in turn."""
    return optuna.create_study(storage=storage)


@pytest.fixture
def memory_study() -> optuna.Study:
    """A study where the storage makes no difference."""
    return optuna.create_study()


@pytest.fixture(scope="module")
def database() -> Iterator[EmbeddedServer]:
    """An empty PostgreSQL, for tests that are rude to it."""
    from examples.postgres.server import EmbeddedServer

    with EmbeddedServer() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A PostgreSQL with the tables of a small shop."""
    from examples.postgres.server import EmbeddedServer
    from examples.postgres.workload import Shop

    with EmbeddedServer() as server:
        connection = server.connect()
        assert list(Shop(scale=0.02).load(connection))[-1] == 1.0
        connection.close()
        yield server


@pytest.fixture
def evaluator(server: EmbeddedServer) -> Iterator[Evaluator]:
    """An evaluator on the small shop, with the server at its defaults."""
    from examples.postgres.evaluator import Evaluator
    from examples.postgres.knobs import Knobs
    from examples.postgres.workload import Shop

    server.reset()
    workload = Shop(scale=0.02, n_rounds=4)
    evaluator = Evaluator(server, workload, Knobs.of(workload.indexes))
    yield evaluator
    if server.pid is None:
        server.start()
    evaluator.close()
