"""Workers die, servers go away, clocks are wrong: nothing is lost, and the study goes on.

The tests marked slow do the same for minutes, and print what was survived::

    python -m pytest -m slow -s tests/integration/test_faults.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from datetime import timedelta
import math
import os
from pathlib import Path
import random
import signal
import time
from typing import Any

from faults import check
from faults import Crew
from faults import distance
from faults import Job
from faults import objective
from faults import Phase
from faults import SAMPLERS
from faults import STUDY
from faults import wait_for
from helpers import new_trial
from helpers import propose
from helpers import tree_of
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import create_trial
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from benchmarks.storages import address_of
from examples.postgres.server import EmbeddedServer
from optuna_pcts import PCTSSampler


N_WORKERS = 4


@pytest.fixture
def address(database: EmbeddedServer) -> Iterator[str]:
    """An empty storage in it."""
    yield address_of(database)
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")


def survived(study: optuna.Study, crew: Crew, faults: int, what: str) -> None:
    """Check that nothing was lost, and print a line of the table in docs/scale-out.md."""
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    left, losses = states.count(TrialState.RUNNING), crew.losses(study)
    print(f"\n| {what} | {faults} | {len(states)} | {len(crew.told)} | {left} | {losses} |")
    assert losses == 0
    assert crew.told


# ---------------------------------------------------------------------- kill -9


def kill_for(seconds: float, job: Job, n_workers: int = N_WORKERS) -> None:
    rng = random.Random(0)
    study = job.load()
    with Crew([job] * n_workers) as crew:
        wait_for(study, n_workers)
        deadline = time.monotonic() + seconds
        # Each phase at least once, however slow the machine is.
        while time.monotonic() < deadline or not all(crew.killed[p] for p in list(Phase)[1:]):
            crew.kill(rng, min(list(Phase)[1:], key=lambda phase: crew.killed[phase]))
            assert time.monotonic() < deadline + 120
    phases = ", ".join(f"{n} in {phase.name}" for phase, n in crew.killed.items() if n)
    how = f"heartbeat {job.heartbeat}, retry {job.retries}, {job.address.partition(':')[0]}"
    survived(study, crew, sum(crew.killed.values()), f"kill -9 ({phases}; {how})")
    states = {trial.state for trial in study.get_trials(deepcopy=False)}
    assert TrialState.COMPLETE in states
    if job.heartbeat is not None:
        # Dead workers are detected, and their trials are failed.
        time.sleep(2 * job.heartbeat + 1)
    check(study)


RECOVERY = {
    "nothing": Job(""),
    "heartbeat": Job("", heartbeat=1),
    "retry": Job("", heartbeat=1, retries=True),
}


@pytest.mark.parametrize("recovery", RECOVERY)
def test_killed_workers_lose_nothing(address: str, recovery: str) -> None:
    kill_for(4.0, replace(RECOVERY[recovery], address=address))


@pytest.mark.slow
@pytest.mark.parametrize("recovery", RECOVERY)
def test_killed_workers_lose_nothing_for_minutes(address: str, recovery: str) -> None:
    kill_for(60.0, replace(RECOVERY[recovery], address=address), n_workers=8)


@pytest.mark.slow
def test_killed_workers_lose_nothing_in_sqlite(tmp_path: Path) -> None:
    kill_for(60.0, Job(f"sqlite:///{tmp_path}/study.db"))


# ---------------------------------------------------------------------- the server goes away


def cut_off(database: EmbeddedServer) -> None:
    """End every connection, as a network does."""
    with closing(database.connect("postgres")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def crash(database: EmbeddedServer) -> None:
    """End the server as a power failure does, and start it again."""
    assert database.pid is not None
    os.kill(database.pid, signal.SIGKILL)
    while database.pid is not None:
        time.sleep(0.01)
    time.sleep(0.3)
    database.start()


def restart(database: EmbeddedServer) -> None:
    database.restart({})


def disturb_for(n: int, database: EmbeddedServer, job: Job) -> None:
    study = job.load()
    with Crew([job] * N_WORKERS) as crew:
        for i in range(n):
            wait_for(study, 4 * (i + 1))
            (cut_off, restart, crash)[i % 3](database)
            _until_back(study)
        wait_for(study, 4 * (n + 1))
    assert not any(crew.killed.values())
    survived(study, crew, n, "server cut off, restarted, killed in turn")
    check(study)


def _until_back(study: optuna.Study) -> None:
    """Wait until this process, too, has a connection again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            study.get_trials(deepcopy=False)
            return
        except optuna.exceptions.StorageInternalError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_server_that_goes_away_loses_nothing(database: EmbeddedServer, address: str) -> None:
    disturb_for(3, database, Job(address))


@pytest.mark.slow
def test_a_server_that_goes_away_for_minutes(database: EmbeddedServer, address: str) -> None:
    disturb_for(30, database, Job(address))


def test_a_sampler_outlives_its_connection(database: EmbeddedServer, address: str) -> None:
    study = Job(address).load()
    study.optimize(objective, n_trials=10)
    cut_off(database)
    for _ in range(3):
        try:
            study.optimize(objective, n_trials=5)
            break
        except Exception as error:
            print(f"as expected: {type(error).__name__}")
    assert len(study.trials) >= 15
    check(study)


# ---------------------------------------------------------------------- clocks


def test_workers_with_wrong_clocks_lose_nothing(address: str) -> None:
    skews = (0.0, 3600.0, -3600.0, 30 * 86400.0)
    study = Job(address).load()
    with Crew([Job(address, skew=skew) for skew in skews]) as crew:
        wait_for(study, 60)
        for _ in range(2):
            crew.kill(random.Random(0), Phase.OBJECTIVE)
        wait_for(study, 80)
    starts = [t.datetime_start for t in study.trials if t.datetime_start is not None]
    assert max(starts) - min(starts) > timedelta(days=30)
    survived(study, crew, len(skews) - 1 + 2, f"clocks off by {skews} seconds, 2 workers killed")
    check(study)


# ---------------------------------------------------------------------- others on the same study


def test_workers_with_other_samplers_and_settings_share_a_study(address: str) -> None:
    study = Job(address).load()
    with Crew([Job(address, sampler=name) for name in SAMPLERS]) as crew:
        wait_for(study, 100)
    survived(study, crew, len(SAMPLERS) - 1, f"workers with {', '.join(SAMPLERS)}")
    check(study)


# ---------------------------------------------------------------------- values


@pytest.mark.parametrize("value", [None, 7.0, 1e300, -1e-300, math.inf])
def test_a_study_of_one_value_or_of_failures_goes_on(value: float | None) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=1))

    def unhelpful(trial: optuna.Trial) -> float:
        objective(trial)
        if value is None:
            raise RuntimeError
        return value

    study.optimize(unhelpful, n_trials=12, catch=RuntimeError)
    assert len({tuple(t.params.values()) for t in study.trials}) == 12
    check(study, n_more=200)  # failures near the optimum hide it for a while


@pytest.mark.parametrize("exponent", [6, 12, 100])
def test_a_million_fold_range_of_values(exponent: float) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=1))

    def steep(trial: optuna.Trial) -> float:
        return 10 ** (exponent * objective(trial))

    study.optimize(steep, n_trials=20)
    values = [t.values[0] for t in study.trials]
    assert max(values) / min(values) > 1e3
    check(study, objective=steep)


# ---------------------------------------------------------------------- resumed


@pytest.mark.parametrize("first", ["xy", "x"])
def test_a_study_resumed_with_another_space(first: str) -> None:
    space: dict[str, BaseDistribution] = dict.fromkeys("xy", FloatDistribution(0, 1))
    # A parameter that some trials lack is not common to all, unless somebody says so.
    known = None if first == "xy" else space
    storage = InMemoryStorage()

    def resume(low: float, high: float, names: str, n_trials: int, **options: Any) -> optuna.Study:
        study = optuna.create_study(
            study_name=STUDY,
            storage=storage,
            load_if_exists=True,
            sampler=PCTSSampler(seed=1, warn_independent_sampling=False, **options),
        )

        def changed(trial: optuna.Trial) -> float:
            params = {name: trial.suggest_float(name, low, high) for name in names}
            return distance({"x": 0.0, "y": 0.0, **params})

        study.optimize(changed, n_trials=n_trials)
        return study

    resume(0, 0.5, first, 10)  # a range that does not hold the optimum
    resume(-5, 5, "xyz", 10)  # one that is too large, and a parameter too many
    study = resume(0, 1, "xy", 60, search_space=known)
    assert min(t.values[0] for t in study.trials[20:] if t.values) < 1e-3
    expected = sum(_may_lie_in(t, space) for t in study.trials)
    assert expected >= 60 + 10
    for _ in range(2):
        fresh = PCTSSampler(seed=0, search_space=known)
        propose(fresh, study, new_trial(study))
        assert tree_of(fresh).n_told == expected


def _may_lie_in(trial: FrozenTrial, space: dict[str, BaseDistribution]) -> bool:
    """Whether no parameter of a trial is outside, and one at least is known."""
    known = [(d, trial.params[name]) for name, d in space.items() if name in trial.params]
    inside = [d._contains(value) for d, value in known]
    return trial.state.is_finished() and bool(inside) and all(inside)


# ---------------------------------------------------------------------- lost trials


@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_a_thousand_stale_trials_hold_nothing_back(kind: str, tmp_path: Path) -> None:
    url = None if kind == "memory" else f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, sampler=PCTSSampler(seed=1, stale_after=60))
    space: dict[str, BaseDistribution] = {
        "x": FloatDistribution(0, 1),
        "y": FloatDistribution(0, 1),
    }
    rng = random.Random(0)
    lost = create_trial(state=TrialState.RUNNING, params={}, distributions={})
    for i in range(1000):
        lost.datetime_start = datetime.now() - timedelta(days=1)
        lost.params = {"x": rng.random(), "y": rng.random()} if i % 2 else {}
        lost.distributions = space if i % 2 else {}
        study.add_trial(lost)
    study.optimize(objective, n_trials=40)
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_told, tree.n_asked) == (39, 40)  # all but the newest, and none of the lost
    assert not any(number in tree for number in range(1000))
    check(study)
