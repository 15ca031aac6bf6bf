"""The study: always several trials in flight, told whatever happens, resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
import sqlite3

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.pruners import BasePruner
from optuna.pruners import NopPruner
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from examples.postgres.database import Connection
from examples.postgres.evaluator import Evaluator
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import Cost
from examples.postgres.knobs import Knob
from examples.postgres.knobs import Knobs
from examples.postgres.server import EmbeddedServer
from examples.postgres.storage import open_storage
from examples.postgres.tune import best_configuration
from examples.postgres.tune import COST
from examples.postgres.tune import FAILURE
from examples.postgres.tune import make_pruner
from examples.postgres.tune import make_sampler
from examples.postgres.tune import QUERIES
from examples.postgres.tune import RECONFIGURATION
from examples.postgres.tune import SAMPLERS
from examples.postgres.tune import shared_order
from examples.postgres.tune import split_order
from examples.postgres.tune import tune
from examples.postgres.tune import WORKER
from examples.postgres.workload import Shop


class PruneAt(BasePruner):
    def __init__(self, step: int) -> None:
        self.step = step

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        return (trial.last_step or 0) >= self.step


def new_study(evaluator: Evaluator, name: str = "pcts", seed: int = 0) -> optuna.Study:
    return optuna.create_study(
        sampler=make_sampler(name, evaluator, seed=seed), pruner=NopPruner()
    )


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_trial_is_told_with_its_costs(evaluator: Evaluator, name: str) -> None:
    study = new_study(evaluator, name)
    told: list[int] = []
    tune(study, evaluator, n_trials=10, in_flight=4, on_trial=lambda t: told.append(t.number))
    assert sorted(told) == list(range(10))
    for trial in study.trials:
        assert trial.state == TrialState.COMPLETE
        assert list(trial.intermediate_values) == [1, 2, 3, 4]
        costs = trial.user_attrs
        assert costs[COST] == pytest.approx(costs[QUERIES] + costs[RECONFIGURATION])
        assert trial.value == pytest.approx(costs[QUERIES])
        assert FAILURE not in costs
    found = best_configuration(study, evaluator)
    assert found is not None
    assert found.keys() == evaluator.knobs.distributions.keys()


def test_the_nearest_is_next_and_none_waits_for_ever(evaluator: Evaluator) -> None:
    evaluator.change_costs = dict.fromkeys(evaluator.change_costs, 0.0)
    index = "index sales(day)"
    evaluator.change_costs[index] = 1.0
    study = new_study(evaluator, "random")
    told: list[FrozenTrial] = []
    tune(study, evaluator, n_trials=40, in_flight=3, fraction=0.25, on_trial=told.append)
    waits = [position - trial.number for position, trial in enumerate(told)]
    assert 3 < max(waits) <= 7
    switches = sum(a.params[index] != b.params[index] for a, b in pairwise(told))
    by_number = pairwise(sorted(told, key=lambda trial: trial.number))
    assert switches < sum(a.params[index] != b.params[index] for a, b in by_number) / 1.5


def test_heavy_knobs_are_split_in_the_order_of_their_cost(evaluator: Evaluator) -> None:
    evaluator.calibrate()
    order = split_order(evaluator)
    costs = [evaluator.change_costs[str(name)] for name in order]
    assert costs == sorted(costs, reverse=True)
    heavy = {knob.name for knob in evaluator.knobs if knob.cost is not Cost.SESSION}
    assert set(order) == heavy


def test_all_workers_of_a_study_have_the_order_of_the_first(evaluator: Evaluator) -> None:
    study = optuna.create_study()
    names = list(evaluator.change_costs)
    evaluator.change_costs = {name: float(i) for i, name in enumerate(names)}
    first = shared_order(study, evaluator)
    assert first == split_order(evaluator)
    evaluator.change_costs = {name: -float(i) for i, name in enumerate(names)}
    assert split_order(evaluator) != first
    assert shared_order(study, evaluator) == first
    study.set_user_attr("split_order", first[1:])  # of a worker with other knobs
    assert shared_order(study, evaluator) == split_order(evaluator)


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_another_worker_runs_what_a_dead_one_had_in_flight(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    study = optuna.create_study(
        storage=open_storage(f"sqlite:///{path}"),
        sampler=make_sampler("pcts", evaluator, seed=0),
    )
    lost = study.ask(evaluator.knobs.distributions)  # killed before any sign of life
    tune(study, evaluator, n_trials=1, in_flight=1, fraction=0.25)
    assert study.trials[lost.number].state == TrialState.RUNNING
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute("UPDATE trial_heartbeats SET heartbeat = '2000-01-01'")
        assert changed.rowcount == 2
    tune(study, evaluator, n_trials=5, in_flight=2, fraction=0.25)
    assert study.trials[lost.number].state == TrialState.FAIL
    assert WORKER not in study.trials[lost.number].user_attrs
    done = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(done) == 4
    assert lost.params in [trial.params for trial in done]


def test_a_trial_that_another_worker_took_over_is_dropped(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    study = optuna.create_study(
        storage=open_storage(f"sqlite:///{tmp_path / 'study.db'}"),
        sampler=make_sampler("random", evaluator, seed=0),
    )
    taken: list[int] = []

    def take(_: FrozenTrial) -> None:
        if not taken:  # as if this process had stood still for minutes
            running = [t for t in study.trials if t.state == TrialState.RUNNING]
            taken.extend(trial.number for trial in running)
            for trial in running:
                study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    tune(study, evaluator, n_trials=5, in_flight=3, fraction=0.25, on_trial=take)
    assert len(taken) == 2
    states = [trial.state for trial in study.trials]
    assert [states[number] for number in taken] == [TrialState.FAIL] * 2
    assert states.count(TrialState.COMPLETE) == 3


def test_a_fixed_fraction_of_the_workload(evaluator: Evaluator) -> None:
    study = new_study(evaluator)
    tune(study, evaluator, n_trials=3, fraction=0.5)
    for trial in study.trials:
        assert list(trial.intermediate_values) == [1, 2]
        assert trial.value == pytest.approx(2 * trial.user_attrs[QUERIES])


def test_the_pruner_ends_a_trial(evaluator: Evaluator) -> None:
    study = optuna.create_study(
        sampler=make_sampler("pcts", evaluator, seed=0), pruner=PruneAt(step=2)
    )
    tune(study, evaluator, n_trials=3)
    assert {trial.state for trial in study.trials} == {TrialState.PRUNED}
    assert {len(trial.intermediate_values) for trial in study.trials} == {2}
    assert all(trial.user_attrs[COST] > 0 for trial in study.trials)


def test_the_budget_ends_the_search_and_a_larger_one_resumes_it(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"

    def study() -> optuna.Study:
        return optuna.create_study(
            storage=open_storage(url),
            study_name="s",
            load_if_exists=True,
            sampler=make_sampler("pcts", evaluator, seed=0),
            pruner=make_pruner("pcts", evaluator.workload.n_rounds),
        )

    first = study()
    tune(first, evaluator, budget=0.2, in_flight=30)
    ended = [trial for trial in first.trials if trial.state.is_finished()]
    waiting = [trial for trial in first.trials if trial.state == TrialState.WAITING]
    assert 1 <= len(ended) < 30
    assert len(waiting) == 29  # 30 in flight, the last one told
    assert len(ended) + len(waiting) == len(first.trials)
    spent = sum(trial.user_attrs[COST] for trial in ended)
    assert 0.2 <= spent < 0.2 + max(trial.user_attrs[COST] for trial in ended)
    assert sum(t.user_attrs[COST] for t in ended[:-1]) < 0.2

    second = study()
    params = {trial.number: trial.params for trial in waiting}
    tune(second, evaluator, n_trials=len(first.trials))
    assert len(second.trials) == len(ended) + len(waiting)
    assert all(trial.state.is_finished() for trial in second.trials)
    for number, before in params.items():
        assert second.trials[number].params == before
    tune(second, evaluator, budget=0.2)  # spent already
    tune(second, evaluator, n_trials=len(first.trials))
    assert len(second.trials) == len(ended) + len(waiting)


def failing_knobs(shop: Shop) -> Knobs:
    """Knobs of which one often keeps the server from starting, and one fails in the session."""
    start = CategoricalDistribution([3, 100])
    session = CategoricalDistribution(["nonsense", "4MB"])
    return Knobs(
        [
            *Knobs.of(shop.indexes),
            Knob("max_connections", Cost.RESTART, start, "max_connections"),
            Knob("temp_buffers", Cost.SESSION, session, "temp_buffers"),
        ]
    )


def test_failures_are_told_with_their_reason_and_the_study_goes_on(
    server: EmbeddedServer,
) -> None:
    shop = Shop(scale=0.02, n_rounds=2)
    evaluator = Evaluator(server, shop, failing_knobs(shop))
    study = new_study(evaluator, "random")
    tune(study, evaluator, n_trials=16)
    for trial in study.trials:
        refused = trial.params["max_connections"] == 3
        failed = refused or trial.params["temp_buffers"] == "nonsense"
        assert trial.state == (TrialState.FAIL if failed else TrialState.COMPLETE)
        assert trial.user_attrs[COST] > 0
        if refused:
            assert "superuser_reserved_connections" in trial.user_attrs[FAILURE]
        if failed:
            assert trial.user_attrs[FAILURE].startswith("refused: ")
            assert trial.user_attrs[QUERIES] == 0
    assert {trial.state for trial in study.trials} == {TrialState.FAIL, TrialState.COMPLETE}
    evaluator.recover()
    evaluator.close()


class Interrupted(Shop):
    """A shop in which somebody presses Ctrl-C, or worse."""

    def __init__(self, at: int, action: str) -> None:
        super().__init__(scale=0.02, n_rounds=2)
        self.at = at
        self.action = action
        self.n_runs = 0

    def run(self, connection: Connection, number: int) -> Iterator[str]:
        if number < self.n_rounds:
            self.n_runs += 1
            if self.n_runs == self.at:
                if self.action == "ctrl-c":
                    raise KeyboardInterrupt
                else:
                    Path(self.action).write_text("nonsense = 1\n")
                    raise_crash(connection)
        yield from super().run(connection, number)


def raise_crash(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@pytest.mark.parametrize("at", [5, 6])
def test_ctrl_c_keeps_what_is_known_and_puts_back_the_rest(
    server: EmbeddedServer, at: int, tmp_path: Path
) -> None:
    shop = Interrupted(at, "ctrl-c")
    evaluator = Evaluator(server, shop, Knobs.of(shop.indexes))
    study = optuna.create_study(
        storage=open_storage(f"sqlite:///{tmp_path / 'study.db'}"),
        sampler=make_sampler("pcts", evaluator, seed=0),
        pruner=NopPruner(),
    )
    with pytest.raises(KeyboardInterrupt):
        tune(study, evaluator, n_trials=20)
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == 2
    assert states.count(TrialState.PRUNED) == (1 if at == 6 else 0)  # in its second round
    assert states.count(TrialState.WAITING) == 8 - states.count(TrialState.PRUNED)
    evaluator.close()
    evaluator = Evaluator(server, shop, Knobs.of(shop.indexes))
    evaluator.recover()
    tune(study, evaluator, n_trials=20)
    assert len(study.trials) == 20
    assert all(trial.state.is_finished() for trial in study.trials)
    evaluator.close()


def test_a_server_that_is_lost_ends_the_search_and_keeps_the_study(
    server: EmbeddedServer,
) -> None:
    conf = server.folder / "data" / "postgresql.conf"
    text = conf.read_text()
    shop = Interrupted(3, str(conf))
    evaluator = Evaluator(server, shop, Knobs.of(shop.indexes))
    study = new_study(evaluator)
    with pytest.raises(ServerLostError):
        tune(study, evaluator, n_trials=20)
    conf.write_text(text)
    (failed,) = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    assert "division by zero" in failed.user_attrs[FAILURE]
    assert not [trial for trial in study.trials if trial.state == TrialState.RUNNING]
    evaluator.recover()
    evaluator.close()


def test_without_a_trial_there_is_no_configuration(evaluator: Evaluator) -> None:
    assert best_configuration(optuna.create_study(), evaluator) is None
