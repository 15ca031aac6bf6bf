"""The space that trials have shown."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime

from helpers import UNIT
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.trial import TrialState
import pytest
from trials import add_trial

from optuna_pcts._study.history import History


def observed(study: optuna.Study) -> dict[str, BaseDistribution]:
    history = History(study)
    history.update(datetime.now())
    return history.space.parameters().with_one_range()


def test_a_study_without_trials_has_no_space(memory_study: optuna.Study) -> None:
    assert observed(memory_study) == {}


def test_the_space_is_what_trials_have_whether_all_have_it_or_not(study: optuna.Study) -> None:
    add_trial(study, TrialState.COMPLETE, value=1.0, params={"x": 0.5, "y": 0.5})
    add_trial(study, TrialState.PRUNED, params={"z": 0.5, "x": 0.5})
    history = History(study)
    history.update(datetime.now())
    assert history.space.parameters().distributions == dict.fromkeys("xyz", UNIT)
    assert history.space.names() == {"x", "y", "z"}
    assert history.space.is_settled


@pytest.mark.parametrize("n_foreign", [1, 2])
def test_what_only_one_of_many_trials_has_is_its_own(
    memory_study: optuna.Study, n_foreign: int
) -> None:
    for number in range(50):
        is_foreign = number in (30, 40)[:n_foreign]
        add_trial(
            memory_study, TrialState.COMPLETE, value=1.0, params={"z" if is_foreign else "x": 0.5}
        )
    assert set(observed(memory_study)) == ({"x"} if n_foreign == 1 else {"x", "z"})


def test_a_parameter_that_no_recent_trial_has_is_given_up(memory_study: optuna.Study) -> None:
    for _ in range(10):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0, params={"x": 0.5, "y": 0.5})
    for _ in range(60):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0)
    assert set(observed(memory_study)) == {"x", "y"}
    for _ in range(10):
        add_trial(memory_study, TrialState.COMPLETE, value=1.0)
    assert set(observed(memory_study)) == {"x"}


def test_a_failed_trial_does_not_narrow_the_space(memory_study: optuna.Study) -> None:
    add_trial(memory_study, TrialState.COMPLETE, value=1.0, params={"x": 0.5, "y": 0.5})
    add_trial(memory_study, TrialState.FAIL, params={"x": 0.5})
    assert observed(memory_study) == {"x": UNIT, "y": UNIT}


def test_a_trial_without_parameters_does_not_narrow_the_space(memory_study: optuna.Study) -> None:
    add_trial(memory_study, TrialState.COMPLETE, value=1.0, params={"x": 0.5})
    add_trial(memory_study, TrialState.COMPLETE, value=1.0, params={})
    assert observed(memory_study) == {"x": UNIT}


def test_a_single_valued_parameter_is_left_out(memory_study: optuna.Study) -> None:
    trial = memory_study.ask({"x": UNIT, "one": IntDistribution(1, 1)})
    memory_study.tell(trial, 1.0)
    assert observed(memory_study) == {"x": UNIT}


@pytest.mark.parametrize("state", [TrialState.RUNNING, TrialState.WAITING])
def test_the_space_is_learned_before_any_trial_is_finished(
    study: optuna.Study, state: TrialState
) -> None:
    add_trial(study, state, params={"x": 0.5})
    assert observed(study) == {"x": UNIT}
    add_trial(study, state, params={"x": 0.5, "y": 0.5})
    add_trial(study, TrialState.RUNNING, params={"y": 0.5})
    assert observed(study) == {"x": UNIT, "y": UNIT}


def test_the_space_grows_with_the_first_running_trial(study: optuna.Study) -> None:
    history = History(study)
    trial = study.ask()
    history.update(datetime.now())
    assert history.space.parameters().distributions == {}
    trial.suggest_float("x", 0, 1)
    history.update(datetime.now())
    assert history.space.parameters().distributions == {"x": UNIT}
    trial.suggest_float("y", 0, 1)
    history.update(datetime.now())
    assert history.space.parameters().distributions == {"x": UNIT, "y": UNIT}
    assert not history.space.is_settled


def test_a_range_that_changed_once_is_that_of_the_newest_trial(study: optuna.Study) -> None:
    wide = FloatDistribution(-5.0, 5.0)
    history = History(study)
    for distribution in (UNIT, UNIT, wide, wide):
        study.tell(study.ask({"x": distribution}), 1.0)
        history.update(datetime.now())
        assert history.space.parameters().distributions == {"x": distribution}
    assert observed(study) == {"x": wide}


@pytest.mark.parametrize("highs", [(1.0, 2.0, 1.0), range(1, 30)])
def test_a_range_that_differs_from_trial_to_trial_is_searched_by_position(
    memory_study: optuna.Study, highs: Sequence[float]
) -> None:
    for high in highs:
        memory_study.tell(memory_study.ask({"x": FloatDistribution(0.0, high), "y": UNIT}), 1.0)
    history = History(memory_study)
    history.update(datetime.now())
    parameters = history.space.parameters()
    assert parameters.floating == {"x"}
    assert parameters.with_one_range() == {"y": UNIT}


# ---------------------------------------------------------------------- conditions

KINDS = CategoricalDistribution(["a", "b", "c"])


def add(
    study: optuna.Study, kind: str, *names: str, state: TrialState = TrialState.COMPLETE
) -> None:
    """Add a trial of a kind that has some parameters."""
    distributions: dict[str, BaseDistribution] = {"kind": KINDS, **dict.fromkeys(names, UNIT)}
    params = {"kind": kind, **dict.fromkeys(names, 0.5)}
    value = 1.0 if state == TrialState.COMPLETE else None
    add_trial(study, state, value=value, params=params, distributions=distributions)


def conditions(study: optuna.Study) -> Mapping[str, Sequence[object]]:
    """Return the kinds under which each conditional parameter exists."""
    history = History(study)
    history.update(datetime.now())
    found: dict[str, Sequence[object]] = {}
    for name, condition in history.space.parameters().conditions.items():
        (clause,) = condition
        assert clause.parent == "kind"
        found[name] = [KINDS.choices[slot] for slot in sorted(clause.slots)]
    return found


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.RUNNING])
def test_conditions_are_learned_from_finished_and_from_running_trials(
    study: optuna.Study, state: TrialState
) -> None:
    for _ in range(4):
        add(study, "a", "x", "y", state=state)
        add(study, "b", "x", "z", state=state)
        add(study, "c", "x", state=state)
    assert conditions(study) == {"y": ["a"], "z": ["b"]}


def test_a_failed_trial_does_not_say_where_parameters_are_not(memory_study: optuna.Study) -> None:
    for _ in range(6):
        add(memory_study, "a", "y")
        add(memory_study, "b")
        for _ in range(4):
            add(memory_study, "a", state=TrialState.FAIL)
    assert conditions(memory_study) == {"y": ["a"]}


def test_a_trial_that_has_it_elsewhere_widens_a_condition_at_once(
    memory_study: optuna.Study,
) -> None:
    for _ in range(10):
        add(memory_study, "a", "y")
        add(memory_study, "b")
        add(memory_study, "c")
    history = History(memory_study)
    history.update(datetime.now())
    assert [c.slots for c in history.space.parameters().conditions["y"]] == [{0}]
    add(memory_study, "b", "y", state=TrialState.RUNNING)
    history.update(datetime.now())
    assert [c.slots for c in history.space.parameters().conditions["y"]] == [{0, 1}]
    assert conditions(memory_study) == {"y": ["a", "b"]}  # also of one that reads all at once


def test_what_its_branch_has_lost_is_given_up_and_a_branch_that_is_not_asked_is_not(
    memory_study: optuna.Study,
) -> None:
    for _ in range(10):
        add(memory_study, "a", "y")
        add(memory_study, "b", "z")
    for _ in range(150):
        add(memory_study, "a")
    found = observed(memory_study)
    assert "y" not in found
    assert "z" in found
