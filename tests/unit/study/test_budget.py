"""The budget of a study."""

from __future__ import annotations

import copy
from datetime import datetime
from datetime import timedelta
from datetime import timezone
import math
import multiprocessing
from pathlib import Path
import pickle
import time
from typing import Any

from helpers import new_trial
import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest
from trials import ended
from trials import running
from trials import START
from trials import study_of

from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._study.budget import CostBudget
from optuna_pcts._study.costs import trial_cost
from optuna_pcts._tree.cost_models import LinearGrowth


PATIENCE = 60.0  # seconds, for a machine that is busy with something else
WORKERS_BUDGET = 3.75  # thirty trials at an eighth, which is exact


def declare(cost: float) -> Any:
    """Return an objective whose trials say what they cost."""

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr(COST_KEY, cost)
        return trial.suggest_float("x", 0, 1)

    return objective


def test_a_study_stops_when_the_budget_is_spent() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=10)
    study.optimize(declare(2.5), n_trials=100, callbacks=[budget])
    assert len(study.trials) == 4
    assert budget.spent(study) == 10
    assert budget.remaining(study) == 0


def test_the_trials_of_an_earlier_run_count() -> None:
    study = optuna.create_study()
    study.optimize(declare(2.5), n_trials=3)
    assert CostBudget(budget=10).remaining(study) == 2.5
    study.optimize(declare(2.5), n_trials=100, callbacks=[CostBudget(budget=10)])
    assert len(study.trials) == 4
    study.optimize(declare(2.5), n_trials=100, callbacks=[CostBudget(budget=5)])
    assert len(study.trials) == 5  # a callback has a say only when a trial has ended


def test_every_finished_trial_counts() -> None:
    study = study_of(
        ended(1.0),
        ended(2.0, state=TrialState.PRUNED),
        ended(4.0, state=TrialState.FAIL),
        ended(100.0, cost=8),
        ended(-16.0),  # a clock was set back: not known
    )
    study.enqueue_trial({"x": 1.0})
    assert CostBudget(budget=50).spent(study) == 15
    assert CostBudget(budget=50).remaining(study) == 35
    assert CostBudget(budget=10).remaining(study) == 0
    assert CostBudget(budget=10).spent(optuna.create_study()) == 0


def test_durations_are_counted_in_seconds() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=0.05)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.01)
        return 0.0

    study.optimize(objective, n_trials=1000, callbacks=[budget])
    assert 1 <= len(study.trials) <= 6
    assert budget.spent(study) >= 0.05
    assert budget.spent(study) == pytest.approx(sum(trial_cost(t) or 0 for t in study.trials))


def test_trials_in_flight_count_with_the_time_they_have_run() -> None:
    study = study_of(
        ended(30.0),
        running(START + timedelta(seconds=10)),
        running(START + timedelta(seconds=25)),
        running(START + timedelta(seconds=28), **{COST_KEY: 7}),  # it has said so already
        running(START + timedelta(seconds=29), **{COST_KEY: "?"}),
    )
    # The newest stamp is the end of the first trial, at 30 s.
    assert CostBudget(budget=100).spent(study) == 30 + 20 + 5 + 7 + 1


def test_trials_in_flight_count_in_full_if_their_cost_is_known() -> None:
    study = study_of(
        ended(30.0, depth=1), running(START, **{DEPTH_KEY: 3}), running(START), ended(1.0)
    )
    by_depth = CostBudget(budget=100, cost=LinearGrowth(beta=10, maximum=25))
    assert by_depth.spent(study) == 20 + 25 + 10 + 10  # without a depth: as at the root
    states = {TrialState.COMPLETE: 3.0, TrialState.RUNNING: 5}
    by_function = CostBudget(budget=100, cost=lambda trial: states[trial.state])
    assert by_function.spent(study) == 3 + 5 + 5 + 3
    not_yet = CostBudget(budget=100, cost=lambda trial: trial.values and 1.0)
    assert not_yet.spent(study) == 2


def test_what_is_in_flight_stops_a_study_before_it_is_overrun() -> None:
    study = optuna.create_study()
    for _ in range(3):
        new_trial(study)  # another worker's
    budget = CostBudget(budget=10, cost=lambda trial: 2.0)
    study.optimize(lambda trial: 0.0, n_trials=100, callbacks=[budget])
    assert len(study.trials) == 5


def test_lost_trials_stop_counting() -> None:
    lost = running(START)
    after = [ended(2.0, start=START + timedelta(seconds=s)) for s in (10, 57, 59)]
    study = study_of(lost, *after[:2])
    assert CostBudget(budget=100).spent(study) == 59 + 4  # younger than a minute
    assert CostBudget(budget=100, stale_after=58).spent(study) == 4
    study.add_trial(after[2])
    assert CostBudget(budget=100).spent(study) == 6
    assert CostBudget(budget=100, stale_after=62).spent(study) == 61 + 6
    assert CostBudget(budget=100, cost=lambda trial: 1.0).spent(study) == 3
    # Ten times the longest trial is more than a minute here.
    study.add_trial(ended(7.0))
    assert CostBudget(budget=100).spent(study) == 61 + 13


def test_a_lost_trial_counts_if_it_ends_after_all() -> None:
    study = optuna.create_study()
    lost = study.ask()
    budget = CostBudget(budget=1e9, stale_after=60)
    later = datetime.now() + timedelta(hours=1)
    study.add_trial(ended(1.0, start=later))
    assert budget.spent(study) == 1
    lost.set_user_attr(COST_KEY, 5)
    study.tell(lost, 0.0)
    assert budget.spent(study) == 6


def test_each_finished_trial_is_read_once() -> None:
    seen: list[int] = []

    def cost(trial: FrozenTrial) -> float:
        seen.append(trial.number)
        return 1.0

    study = study_of(ended(1.0), ended(1.0))
    budget = CostBudget(budget=100, cost=cost)
    open_trial = study.ask()
    assert budget.spent(study) == 3
    assert budget.spent(study) == 3
    study.tell(open_trial, 0.0)
    study.add_trial(ended(1.0))
    assert budget.spent(study) == 4
    assert budget.spent(study) == 4
    assert seen == [0, 1, 2, 2, 2, 3]


def test_one_budget_for_several_studies() -> None:
    first, second = study_of(ended(1.0)), study_of(ended(2.0), ended(3.0))
    budget = CostBudget(budget=100)
    assert [budget.spent(study) for study in (first, second, first)] == [1, 5, 1]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_a_copy_of_a_budget_counts_the_same(copied: Any) -> None:
    study = study_of(ended(1.0), ended(2.0))
    budget = CostBudget(budget=100, cost=LinearGrowth(beta=2.0), stale_after=9)
    assert budget.spent(study) == 4
    other = copied(budget)
    assert other.spent(study) == 4
    assert repr(other) == repr(budget)
    assert "budget=100.0" in repr(budget)


def test_a_malformed_cost_is_warned_of_once(optuna_log: pytest.LogCaptureFixture) -> None:
    study = study_of(ended(2.0, cost="much"))
    budget = CostBudget(budget=100)
    assert budget.spent(study) == 2
    assert budget.spent(study) == 2
    assert len(optuna_log.records) == 1


def test_threads_share_one_budget() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=40, cost=lambda trial: 1.0)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.002)
        return 0.0

    study.optimize(objective, n_trials=1000, n_jobs=4, callbacks=[budget])
    # Those in flight are counted, but four threads can see the last free place at once.
    assert 40 <= len(study.trials) <= 44
    assert budget.spent(study) == len(study.trials)


def open_storage(path: Path) -> RDBStorage:
    return RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": PATIENCE}})


def work(path: Path) -> None:
    """Run trials of an eighth each until the budget of all workers is spent."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name="s", storage=open_storage(path))

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr(COST_KEY, 0.125)
        time.sleep(0.01)
        return trial.suggest_float("x", 0, 1)

    study.optimize(objective, n_trials=1000, callbacks=[CostBudget(budget=WORKERS_BUDGET)])


def test_two_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = optuna.create_study(study_name="s", storage=open_storage(path))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(path,), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert [worker.exitcode for worker in workers] == [0, 0]
    # Each overruns by one trial at most, and the one that starts late has one of its own.
    n_trials = len(study.trials)
    assert 30 <= n_trials <= 32
    spent = CostBudget(budget=WORKERS_BUDGET).spent(study)
    assert spent == 0.125 * n_trials


def test_trials_that_another_worker_commits_late_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = optuna.create_study(study_name="s", storage=open_storage(path))
    other = optuna.load_study(study_name="s", storage=open_storage(path))
    budget = CostBudget(budget=100)
    open_trial = other.ask()
    study.optimize(declare(2.0), n_trials=3, callbacks=[budget])
    open_trial.set_user_attr(COST_KEY, 7.0)
    assert budget.spent(study) == 13
    other.tell(open_trial, 0.0)
    other.optimize(declare(1.0), n_trials=2)
    assert budget.spent(study) == 15
    assert budget.spent(study) == CostBudget(budget=100).spent(other)


def test_numbers_that_are_missing_at_first_are_counted_when_they_come() -> None:
    class Delayed(optuna.Study):
        """A storage in which one transaction is seen late."""

        hidden = True

        def get_trials(self, *args: Any, **kwargs: Any) -> list[FrozenTrial]:
            trials = super().get_trials(*args, **kwargs)
            return [t for t in trials if not (self.hidden and t.number == 1)]

    study = study_of(ended(1.0), ended(2.0), ended(4.0))
    study.__class__ = Delayed
    assert isinstance(study, Delayed)
    budget = CostBudget(budget=100)
    assert budget.spent(study) == 5
    study.hidden = False
    assert budget.spent(study) == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"budget": 0}, ValueError),
        ({"budget": math.inf}, ValueError),
        ({"budget": "10"}, TypeError),
        ({"cost": 3.0}, TypeError),
        ({"cost": LinearGrowth}, TypeError),
        ({"stale_after": 0}, ValueError),
        ({"stale_after": "1h"}, TypeError),
    ],
)
def test_budgets_refuse_bad_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    (name,) = arguments
    with pytest.raises(error, match=f"`{name}` must be"):
        CostBudget(**{"budget": 1.0, **arguments})


def test_budgets_refuse_what_is_not_a_study_or_a_cost() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="`study`"):
        CostBudget(budget=1).spent(nothing)
    study = study_of(ended(1.0))
    with pytest.raises(ValueError, match=r"`cost of trial 0` .* at least 0, but got -1"):
        CostBudget(budget=1, cost=lambda trial: -1).spent(study)
    bad: Any = lambda trial: "much"  # noqa: E731
    with pytest.raises(TypeError, match="`cost of trial 0` must be a number, but got 'much'"):
        CostBudget(budget=1, cost=bad).spent(study)


def test_time_zones_may_be_mixed_in_a_budget() -> None:
    study = optuna.create_study()
    for start in (START, START.astimezone(timezone.utc)):
        study.add_trial(ended(2.0, start=start))
    study.ask()
    assert CostBudget(budget=100.0, stale_after=1.0).spent(study) == pytest.approx(4.0)
