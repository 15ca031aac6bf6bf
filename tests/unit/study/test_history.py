"""What is read from real storages: the feedback."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from datetime import timedelta
from datetime import timezone
import math
from pathlib import Path
import sqlite3
from typing import Any

from helpers import RetryCallback
from helpers import UNIT
import optuna
from optuna.storages import BaseStorage
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest
from trials import add_trial
from trials import at

from optuna_pcts._study.attributes import PROPOSAL_KEY
from optuna_pcts._study.attributes import record
from optuna_pcts._study.history import History
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import ProposalRecord
from optuna_pcts._tree.messages import Status


def latest(feedback: Iterable[Feedback]) -> dict[int, Feedback]:
    """Return the last that is said of each trial."""
    return {f.number: f for f in feedback}


def statuses(feedback: Iterable[Feedback]) -> dict[int, Status]:
    return {number: f.status for number, f in latest(feedback).items()}


def read(study: optuna.Study, **options: Any) -> dict[int, Feedback]:
    """Return what a fresh reader sees."""
    return latest(History(study, **options).update(datetime.now()))


def ended_at(study: optuna.Study) -> float:
    """Return when the first trial ended, in seconds."""
    end = study.trials[0].datetime_complete
    assert end is not None
    return end.timestamp()


def test_a_clock_that_is_behind_is_corrected_by_the_order_of_the_starts(
    study: optuna.Study,
) -> None:
    """Two workers, one trial after the other; the clock of the second is a minute behind."""
    for number in range(6):
        skew = 60.0 * (number % 2)
        add_trial(
            study,
            TrialState.COMPLETE,
            value=1.0,
            start=100 + 10 * number - skew,
            end=105 + 10 * number - skew,
        )
    ends = [feedback.ended_at for feedback in read(study).values()]
    assert ends == sorted(ends)
    # The best estimate there is: between the start of the trial before it and its own.
    assert [end - at(0).timestamp() for end in ends] == [105, 105, 125, 125, 145, 145]


def test_an_enqueued_trial_corrects_no_clock(study: optuna.Study) -> None:
    """It got its number long before it started."""
    enqueued = {"fixed_params": {"x": 0.5}}
    add_trial(study, TrialState.COMPLETE, value=1.0, start=500, end=510, system_attrs=enqueued)
    add_trial(study, TrialState.COMPLETE, value=1.0, start=20, end=30)
    ends = [feedback.ended_at - at(0).timestamp() for feedback in read(study).values()]
    assert ends == [510, 30]


# ---------------------------------------------------------------------- states and values


def test_a_running_trial_is_asked(study: optuna.Study) -> None:
    trial = study.ask({"x": UNIT})
    (feedback,) = read(study).values()
    assert (feedback.number, feedback.status) == (0, Status.ASKED)
    assert feedback.params == trial.params
    assert feedback.proposal is None


@pytest.mark.parametrize(
    ("direction", "sign"), [(StudyDirection.MINIMIZE, -1.0), (StudyDirection.MAXIMIZE, 1.0)]
)
def test_a_complete_trial_is_told_and_larger_is_better(
    storage: BaseStorage, direction: StudyDirection, sign: float
) -> None:
    study = optuna.create_study(storage=storage, direction=direction)
    trial = study.ask({"x": UNIT})
    study.tell(trial, 2.5)
    told = Feedback(0, Status.TOLD, trial.params, sign * 2.5, None, ended_at=ended_at(study))
    assert read(study) == {0: told}


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_value_is_told_as_it_is(study: optuna.Study, value: float) -> None:
    study.tell(study.ask({"x": UNIT}), value)
    assert read(study)[0].value == -value


def test_a_failed_trial_is_told_without_value(study: optuna.Study) -> None:
    study.tell(study.ask({"x": UNIT}), state=TrialState.FAIL)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) * math.nan, n_trials=1)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 2
    for feedback in read(study).values():
        assert feedback.status is Status.TOLD
        assert math.isnan(feedback.value)


def test_a_trial_pruned_before_a_report_is_told_without_value(study: optuna.Study) -> None:
    study.tell(study.ask({"x": UNIT}), state=TrialState.PRUNED)
    feedback = read(study)[0]
    assert feedback.status is Status.TOLD
    assert math.isnan(feedback.value)


def test_a_trial_pruned_after_a_report_is_told_with_its_last_value(study: optuna.Study) -> None:
    trial = study.ask({"x": UNIT})
    trial.report(7.0, step=0)
    trial.report(4.0, step=1)
    study.tell(trial, state=TrialState.PRUNED)
    feedback = read(study)[0]
    assert feedback.status is Status.TOLD
    assert feedback.value == -4.0


def test_a_trial_pruned_after_it_reported_nan_is_told_without_value(study: optuna.Study) -> None:
    trial = study.ask({"x": UNIT})
    trial.report(math.nan, step=0)
    study.tell(trial, state=TrialState.PRUNED)
    feedback = read(study)[0]
    assert feedback.status is Status.TOLD
    assert math.isnan(feedback.value)


def test_an_enqueued_trial_counts_once_it_runs(study: optuna.Study) -> None:
    study.enqueue_trial({"x": 0.25})
    history = History(study)
    assert statuses(history.update(datetime.now())) == {0: Status.GONE}
    assert history.running == []
    trial = study.ask({"x": UNIT})
    (feedback,) = history.update(datetime.now())
    assert (feedback.number, feedback.status) == (trial.number, Status.ASKED)
    assert feedback.params == {"x": 0.25}
    assert history.running == [0]


def test_many_waiting_trials_are_not_all_read_but_none_is_missed(
    memory_study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(500):
        memory_study.enqueue_trial({"x": 0.25})
    history = History(memory_study)
    history.update(datetime.now())
    storage = memory_study._storage
    looks: list[int] = []
    get_trial = storage.get_trial

    def counted(trial_id: int) -> FrozenTrial:
        looks.append(trial_id)
        return get_trial(trial_id)

    monkeypatch.setattr(storage, "get_trial", counted)
    started = [memory_study.ask({"x": UNIT}).number for _ in range(100)]
    assert started == list(range(100))  # in the order of their numbers
    looks.clear()
    assert statuses(history.update(datetime.now())) == dict.fromkeys(started, Status.ASKED)
    assert len(looks) < 300
    # Nobody but Optuna has to heed the order.
    storage.set_trial_state_values(400, TrialState.RUNNING)
    n_updates, looks[:] = 0, []
    while 400 not in history.running:
        history.update(datetime.now())
        n_updates += 1
        assert n_updates <= 100
    assert len(looks) / n_updates < 250


def test_added_trials_are_told(study: optuna.Study) -> None:
    add_trial(study, TrialState.COMPLETE, value=3.0, params={"x": 0.125})
    add_trial(study, TrialState.FAIL)
    told = Feedback(0, Status.TOLD, {"x": 0.125}, -3.0, None, ended_at=ended_at(study))
    assert read(study)[0] == told
    assert read(study)[1].status is Status.TOLD


def test_the_cell_is_stored_with_the_trial(study: optuna.Study) -> None:
    trial = study.ask({"x": UNIT})
    record(study, study._storage.get_trial(trial._trial_id), ProposalRecord(7, {"x": 0.25}))
    assert read(study)[0].proposal == ProposalRecord(7, {"x": 0.25})
    assert study.trials[0].user_attrs == {"pcts:depth": 7}


@pytest.mark.parametrize(
    "attribute",
    [
        "?",
        3,
        [],
        {},
        {"depth": 2},
        {"depth": -1, "point": {}},
        {"depth": "2", "point": {}},
        {"depth": 1.5, "point": {}},
        {"depth": True, "point": {}},
        {"depth": 2, "point": [0.5]},
        {"depth": 2, "point": {"x": "0.5"}},
        {"depth": 2, "point": {"x": 1.5}},
        {"depth": 2, "point": {"x": math.nan}},
    ],
)
def test_a_malformed_attribute_is_ignored_with_a_warning(
    memory_study: optuna.Study, attribute: Any, optuna_log: pytest.LogCaptureFixture
) -> None:
    add_trial(memory_study, TrialState.COMPLETE, value=1.0, system_attrs={PROPOSAL_KEY: attribute})
    feedback = read(memory_study)[0]
    assert (feedback.proposal, feedback.value) == (None, -1.0)
    assert PROPOSAL_KEY in optuna_log.text


# ---------------------------------------------------------------------- only what is new


def test_an_update_returns_only_what_changed(study: optuna.Study) -> None:
    history = History(study)
    first, second = study.ask({"x": UNIT}), study.ask({"x": UNIT})
    assert statuses(history.update(datetime.now())) == {0: Status.ASKED, 1: Status.ASKED}
    assert history.update(datetime.now()) == []

    study.tell(second, 1.0)
    third = study.ask({"x": UNIT})
    assert statuses(history.update(datetime.now())) == {1: Status.TOLD, 2: Status.ASKED}
    assert history.update(datetime.now()) == []
    assert history.running == [0, 2]

    study.tell(first, 1.0)
    study.tell(third, state=TrialState.FAIL)
    assert statuses(history.update(datetime.now())) == {0: Status.TOLD, 2: Status.TOLD}
    assert history.update(datetime.now()) == []
    assert history.running == []


def test_parameters_that_come_one_by_one_are_reported(study: optuna.Study) -> None:
    history = History(study)
    trial = study.ask()
    assert history.update(datetime.now())[0].params == {}
    x = trial.suggest_float("x", 0, 1)
    assert history.update(datetime.now())[0].params == {"x": x}
    n = trial.suggest_int("n", 0, 9)
    assert history.update(datetime.now())[0].params == {"x": x, "n": n}
    assert history.update(datetime.now()) == []


def test_replay_repeats_what_was_seen_and_nothing_newer(study: optuna.Study) -> None:
    history = History(study, stale_after=10)
    add_trial(study, TrialState.RUNNING, start=0)
    add_trial(study, TrialState.COMPLETE, value=2.0, start=0, end=1)
    add_trial(study, TrialState.FAIL)
    add_trial(study, TrialState.WAITING)
    add_trial(study, TrialState.RUNNING, start=15)
    seen = latest(history.update(at(20)))
    study.ask()
    replayed = latest(history.replay())
    assert {n: f.status for n, f in replayed.items()} == {n: f.status for n, f in seen.items()}
    assert replayed[1] == seen[1]
    assert statuses(seen.values()) == {
        0: Status.GONE,
        1: Status.TOLD,
        2: Status.TOLD,
        3: Status.GONE,
        4: Status.ASKED,
    }


def test_a_trial_committed_late_fills_its_gap(tmp_path: Path) -> None:
    """Another worker's trial may get a lower number and still appear after a higher one."""
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db")
    elsewhere = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db")
    # Past Optuna's cache, which would not look for it again.
    study._storage = getattr(study._storage, "_backend")  # noqa: B009
    for value in (0.0, 1.0, 2.0):
        add_trial(study, TrialState.COMPLETE, value=value)

    def move(number: int, target: optuna.Study) -> None:
        with sqlite3.connect(tmp_path / "study.db") as connection:
            connection.execute(
                "UPDATE trials SET study_id = ? WHERE number = ?", (target._study_id, number)
            )

    move(1, elsewhere)
    history = History(study)
    assert sorted(statuses(history.update(at(0)))) == [0, 2]
    assert history.update(at(0)) == []
    move(1, study)
    assert [(f.number, f.value) for f in history.update(at(0))] == [(1, -1.0)]
    assert history.update(at(0)) == []


def test_trials_of_another_study_are_not_read(study: optuna.Study) -> None:
    other = optuna.create_study(storage=study._storage)
    add_trial(other, TrialState.COMPLETE, value=1.0)
    history = History(study)
    assert history.update(datetime.now()) == []
    assert history.belongs_to(study)
    assert not history.belongs_to(other)


# ---------------------------------------------------------------------- retries


def fail_and_retry(study: optuna.Study) -> None:
    """Run one trial that fails, and let Optuna's callback enqueue its retry."""
    trial = study.ask({"x": UNIT})
    study.tell(trial, state=TrialState.FAIL)
    failed = study.get_trials(deepcopy=True)[trial.number]
    RetryCallback()(study, failed)


def test_a_retried_trial_counts_once(study: optuna.Study) -> None:
    history = History(study)
    fail_and_retry(study)
    assert statuses(history.update(datetime.now())) == {0: Status.GONE, 1: Status.GONE}

    fail_and_retry(study)  # the retry fails as well
    assert len(study.trials) == 3
    assert Status.TOLD not in statuses(history.update(datetime.now())).values()

    study.tell(study.ask({"x": UNIT}), 5.0)
    feedback = latest(history.update(datetime.now()))
    assert statuses(feedback.values()) == {2: Status.TOLD}
    assert feedback[2].value == -5.0

    everything = {0: Status.GONE, 1: Status.GONE, 2: Status.TOLD}
    assert statuses(history.replay()) == everything
    assert statuses(read(study).values()) == everything


def test_a_trial_seen_failed_is_taken_back_when_it_is_retried(study: optuna.Study) -> None:
    history = History(study)
    trial = study.ask({"x": UNIT})
    study.tell(trial, state=TrialState.FAIL)
    assert statuses(history.update(datetime.now())) == {0: Status.TOLD}
    RetryCallback()(study, study.trials[0])
    assert statuses(history.update(datetime.now())) == {0: Status.GONE, 1: Status.GONE}


def test_a_trial_that_is_not_retried_any_more_stays_told(memory_study: optuna.Study) -> None:
    memory_study.tell(memory_study.ask({"x": UNIT}), state=TrialState.FAIL)
    RetryCallback(max_retry=0)(memory_study, memory_study.trials[0])
    assert statuses(read(memory_study).values()) == {0: Status.TOLD}


def test_only_what_failed_can_be_retried(memory_study: optuna.Study) -> None:
    """A retry that was added from another study has the numbers of that one."""
    for _ in range(3):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0)
    add_trial(
        memory_study, TrialState.COMPLETE, value=1.0, system_attrs={"retry_history": [0, 1, 2]}
    )
    assert set(statuses(read(memory_study).values()).values()) == {Status.TOLD}


@pytest.mark.parametrize("history", ["?", 7, [None], [-1], [99], [[0]], {"0": 0}])
def test_a_malformed_retry_history_is_ignored(memory_study: optuna.Study, history: Any) -> None:
    add_trial(memory_study, TrialState.COMPLETE, value=1.0)
    add_trial(
        memory_study, TrialState.COMPLETE, value=1.0, system_attrs={"retry_history": history}
    )
    assert statuses(read(memory_study).values()) == {0: Status.TOLD, 1: Status.TOLD}


# ---------------------------------------------------------------------- stale trials


def test_stale_after(study: optuna.Study) -> None:
    history = History(study, stale_after=10)
    add_trial(study, TrialState.RUNNING, start=0)
    assert statuses(history.update(at(9))) == {0: Status.ASKED}
    assert statuses(history.update(at(11))) == {0: Status.GONE}
    assert history.running == []
    assert history.update(at(12)) == []
    study.tell(0, 1.0)
    assert statuses(history.update(at(13))) == {0: Status.TOLD}


@pytest.mark.parametrize("running_first", [True, False])
@pytest.mark.parametrize(("longest", "limit"), [(30.0, 300.0), (1.0, 60.0)])
def test_by_default_ten_times_the_longest_and_at_least_a_minute(
    study: optuna.Study, running_first: bool, longest: float, limit: float
) -> None:
    if running_first:
        add_trial(study, TrialState.RUNNING, start=0)
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        add_trial(study, TrialState.COMPLETE, value=1.0, start=0, end=longest * share)
    if not running_first:
        add_trial(study, TrialState.RUNNING, start=0)
    number = 0 if running_first else 5
    # The same for a reader that has been there all the time and for a fresh one.
    history = History(study)
    assert statuses(history.update(at(limit - 1)))[number] is Status.ASKED
    assert statuses(history.update(at(limit + 1))) == {number: Status.GONE}
    assert statuses(History(study).update(at(limit - 1)))[number] is Status.ASKED
    assert statuses(History(study).update(at(limit + 1)))[number] is Status.GONE


def test_no_trial_is_stale_before_some_have_been_evaluated(memory_study: optuna.Study) -> None:
    """One that failed at once or was added tells nothing of how long an evaluation takes."""
    add_trial(memory_study, TrialState.RUNNING, start=0)
    for _ in range(4):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0, start=0, end=1)
    for _ in range(9):
        add_trial(memory_study, TrialState.FAIL, start=0, end=1)
        add_trial(memory_study, TrialState.COMPLETE, value=1.0, start=0, end=0)
    history = History(memory_study)
    assert statuses(history.update(at(1e7)))[0] is Status.ASKED
    assert history.running == history.unfinished == [0]


def test_time_zones_may_be_mixed(memory_study: optuna.Study) -> None:
    """Somebody else wrote the time stamps."""
    add_trial(memory_study, TrialState.RUNNING, start=0)
    for _ in range(5):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0, start=0, end=1)
    trial = memory_study.trials[1]
    trial.datetime_complete = datetime.now(timezone.utc)
    memory_study.add_trial(trial)
    assert len(History(memory_study, stale_after=1).update(datetime.now(timezone.utc))) == 7


def test_a_lost_heartbeat(tmp_path: Path) -> None:
    storage = RDBStorage(f"sqlite:///{tmp_path}/study.db", heartbeat_interval=1, grace_period=2)
    study = optuna.create_study(storage=storage)
    for _ in range(3):
        add_trial(study, TrialState.RUNNING)
    lost, alive, _ = study.trials
    for trial in (lost, alive):  # the third has none, as with ask-and-tell
        storage.record_heartbeat(trial._trial_id)
    now = datetime.now()
    history = History(study)
    assert set(statuses(history.update(now)).values()) == {Status.ASKED}

    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute(
            "UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 hour') "
            "WHERE trial_id = ?",
            (lost._trial_id,),
        )
    assert statuses(history.update(now + timedelta(seconds=2))) == {lost.number: Status.GONE}
    assert history.running == [1, 2]
    fresh = read(study)
    assert [fresh[i].status for i in range(3)] == [Status.GONE, Status.ASKED, Status.ASKED]

    study.tell(lost.number, 1.0)
    assert statuses(history.update(now + timedelta(seconds=4))) == {lost.number: Status.TOLD}
