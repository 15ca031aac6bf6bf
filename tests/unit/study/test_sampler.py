"""PCTSSampler as its users meet it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
import copy
import json
import math
import os
from pathlib import Path
import pickle
import signal
import threading
import time
from typing import Any
import warnings

from helpers import cells
from helpers import new_trial
from helpers import propose
from helpers import tree_of
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.samplers import PartialFixedSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
import pytest

from benchmarks.simulation import VirtualStorage
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import PCTSSampler
from optuna_pcts import POOSmoothness
from optuna_pcts import recommend
from optuna_pcts import report
from optuna_pcts import Smoothness
from optuna_pcts import UnknownSmoothness
from optuna_pcts._search.engine import Engine
from optuna_pcts._study.attributes import PROPOSAL_KEY
from optuna_pcts._tree.messages import Feedback


Objective = Callable[[optuna.Trial], float]

UNIT = FloatDistribution(0.0, 1.0)
SQUARE: dict[str, BaseDistribution] = {"x": UNIT, "y": UNIT}


def sphere(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    y = trial.suggest_float("y", 0, 1)
    return (x - 0.3) ** 2 + (y - 0.7) ** 2


def mixed(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 1e-3, 1.0, log=True)
    n = trial.suggest_int("n", 1, 20)
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    return x * n + (kind == "b")


def run(
    objective: Objective = sphere,
    n_trials: int = 30,
    sampler: PCTSSampler | None = None,
    **options: Any,
) -> optuna.Study:
    study = optuna.create_study(sampler=sampler or PCTSSampler(seed=0), **options)
    study.optimize(objective, n_trials=n_trials)
    return study


def params(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def assert_all_different(points: list[dict[str, Any]], but_for: int = 0) -> None:
    repeated = [p for p, n in Counter(tuple(sorted(p.items())) for p in points).items() if n > 1]
    assert len(repeated) <= but_for


def assert_same_tree(study: optuna.Study, first: PCTSSampler, second: PCTSSampler) -> None:
    """Ask both for the same trial, and compare what they propose and every cell."""
    trial_id = new_trial(study)
    proposals = [propose(sampler, study, trial_id) for sampler in (first, second)]
    assert proposals[0] == proposals[1]
    ours, theirs = cells(tree_of(first)), cells(tree_of(second))
    assert ours.keys() == theirs.keys()
    for cell, statistics in ours.items():
        assert statistics == pytest.approx(theirs[cell], abs=1e-9)


# ---------------------------------------------------------------------- seeds


@pytest.mark.parametrize("objective", [sphere, mixed])
@pytest.mark.parametrize("point", ["middle", "center", "uniform"])
def test_the_same_seed_gives_the_same_sequence(objective: Objective, point: str) -> None:
    first = run(objective, 40, PCTSSampler(seed=7, point=point))
    second = run(objective, 40, PCTSSampler(seed=7, point=point))
    assert params(first) == params(second)


def test_different_seeds_give_different_sequences() -> None:
    assert params(run(sampler=PCTSSampler(seed=1))) != params(run(sampler=PCTSSampler(seed=2)))


def test_no_seed_gives_a_different_sequence_each_time() -> None:
    assert params(run(sampler=PCTSSampler())) != params(run(sampler=PCTSSampler()))


def test_maximising_mirrors_minimising() -> None:
    down = run(sphere, 60, direction="minimize")
    up = run(lambda trial: -sphere(trial), 60, direction="maximize")
    assert params(down) == params(up)


def test_it_searches() -> None:
    assert run(sphere, 100).best_value < 5e-3


# ---------------------------------------------------------------------- one tree for all


@pytest.mark.parametrize("objective", [sphere, mixed])
def test_two_fresh_samplers_see_the_same_tree(objective: Objective) -> None:
    study = run(objective, 50)
    assert_same_tree(study, PCTSSampler(seed=3), PCTSSampler(seed=3))


@pytest.mark.parametrize("objective", [sphere, mixed])
@pytest.mark.parametrize("branching", [2, 3])
def test_a_live_and_a_fresh_sampler_see_the_same_tree(
    objective: Objective, branching: int
) -> None:
    live = PCTSSampler(seed=3, branching=branching)
    study = run(objective, 50, live)
    assert_same_tree(study, live, PCTSSampler(seed=3, branching=branching))


@pytest.mark.parametrize("reward", ["range", (0.0, 0.5)])
def test_so_they_do_whatever_a_reward_is(reward: str | tuple[float, float]) -> None:
    live = PCTSSampler(seed=3, reward=reward)
    study = run(mixed, 50, live)
    assert_same_tree(study, live, PCTSSampler(seed=3, reward=reward))


def test_a_live_and_a_fresh_sampler_agree_with_feedback_of_every_kind() -> None:
    live = PCTSSampler(seed=3, search_space=SQUARE)
    study = optuna.create_study(sampler=live)
    running = [study.ask(SQUARE) for _ in range(10)]
    for i in range(60):
        trial = running.pop((7 * i) % len(running))  # answers come in another order
        running.append(study.ask(SQUARE))
        if i % 5 == 0:
            study.tell(trial, state=TrialState.FAIL)
        elif i % 5 == 1:
            trial.report(trial.params["x"], step=0)
            study.tell(trial, state=TrialState.PRUNED)
        elif i % 5 == 2:
            study.tell(trial, math.inf)
        else:
            study.tell(trial, trial.params["x"])
    study.add_trial(
        optuna.create_trial(params={"x": 0.1, "y": 0.1}, distributions=SQUARE, value=0.1)
    )
    assert_same_tree(study, live, PCTSSampler(seed=3, search_space=SQUARE))
    tree = tree_of(live)
    assert (tree.n_asked, tree.n_told) == (10 + 61 + 1, 61)  # in flight, told, just proposed


def test_a_live_and_a_fresh_sampler_agree_on_trials_that_failed_early() -> None:
    def fragile(trial: optuna.Trial) -> float:
        if trial.number % 7 == 3:
            raise RuntimeError
        return raises_early(trial)

    live = PCTSSampler(seed=3)
    study = optuna.create_study(sampler=live)
    study.optimize(fragile, n_trials=60, catch=(RuntimeError,))
    assert_same_tree(study, live, PCTSSampler(seed=3))


@pytest.mark.parametrize("seed", range(5))
def test_a_live_and_a_fresh_sampler_agree_after_trials_that_stopped_halfway(seed: int) -> None:
    """What would have been the rest of their parameters is in no storage, so it must not count."""
    live = PCTSSampler(seed=seed, search_space=SQUARE)
    study = optuna.create_study(sampler=live)
    halfway = [study.ask({"x": UNIT}) for _ in range(6)]
    for trial in halfway:
        study.tell(trial, state=TrialState.FAIL)
    fresh = PCTSSampler(seed=seed, search_space=SQUARE)
    for _ in range(6):
        trial_id = new_trial(study)
        expected = propose(fresh, study, trial_id)
        assert propose(live, study, trial_id) == expected
        for name, value in expected.items():
            study._storage.set_trial_param(trial_id, name, value, UNIT)


def test_a_clock_that_is_behind_has_nothing_learned_anew() -> None:
    """Its trials seem to have ended before those that something was learned from."""
    storage = VirtualStorage()
    study = optuna.create_study(sampler=PCTSSampler(seed=0), storage=storage)
    for number in range(60):
        storage.seconds = 1000.0 + number - 60 * (number % 2)
        trial = study.ask()
        sphere(trial)
        storage.seconds += 0.5
        study.tell(trial, float(number % 7))
    propose(sampler := PCTSSampler(seed=0), study, new_trial(study))
    assert tree_of(sampler)._ended.n_revisions == 0
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler)._ended.n_revisions == 0


def test_a_live_and_a_fresh_sampler_agree_on_stale_trials() -> None:
    live = PCTSSampler(seed=3, search_space=SQUARE, stale_after=0.5)
    study = optuna.create_study(sampler=live)
    lost = [study.ask(SQUARE) for _ in range(5)]
    study.optimize(sphere, n_trials=10)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(live).n_asked == 15
    time.sleep(0.6)
    study.optimize(sphere, n_trials=10)
    assert tree_of(live).n_asked == 20
    study.tell(lost[0], 0.1)  # it was only slow
    assert_same_tree(study, live, PCTSSampler(seed=3, search_space=SQUARE, stale_after=0.5))
    assert (tree_of(live).n_asked, tree_of(live).n_told) == (22, 21)


def test_a_study_goes_on_the_same_after_a_pause(tmp_path: Path) -> None:
    """A fresh sampler continues as the old one would have."""
    whole = run(sphere, 40, PCTSSampler(seed=5))
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.journal")))
    first = run(sphere, 20, PCTSSampler(seed=5), storage=storage, study_name="s")
    again = optuna.load_study(study_name="s", storage=storage, sampler=PCTSSampler(seed=5))
    again.optimize(sphere, n_trials=20)
    assert len(first.trials) == 40
    for resumed, expected in zip(params(again), params(whole)):
        assert resumed == pytest.approx(expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_of_the_sampler_goes_on_the_same(
    copied: Callable[[PCTSSampler], PCTSSampler],
) -> None:
    whole = run(sphere, 40, PCTSSampler(seed=5))
    study = run(sphere, 20, PCTSSampler(seed=5))
    assert isinstance(study.sampler, PCTSSampler)
    study.sampler = copied(study.sampler)
    study.optimize(sphere, n_trials=20)
    assert params(study) == params(whole)


def test_a_study_with_its_sampler_can_be_pickled_and_go_on() -> None:
    study = run(sphere, 20)
    again = pickle.loads(pickle.dumps(study))
    study.optimize(sphere, n_trials=20)
    again.optimize(sphere, n_trials=20)
    assert params(again) == params(study)


def test_one_sampler_can_serve_two_studies() -> None:
    sampler = PCTSSampler(seed=0)
    studies = [optuna.create_study(sampler=sampler) for _ in range(2)]
    for _ in range(20):
        for study in studies:
            study.optimize(sphere, n_trials=1)
    expected = params(run(sphere, 20))
    assert params(studies[0]) == expected
    assert params(studies[1]) == expected


# ---------------------------------------------------------------------- many at once


def test_threads() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.optimize(sphere, n_trials=100, n_jobs=4)
    assert [t.number for t in study.trials] == list(range(100))
    assert {t.state for t in study.trials} == {TrialState.COMPLETE}
    assert_all_different(params(study))
    assert_same_tree(study, PCTSSampler(seed=0), PCTSSampler(seed=0))


def test_many_in_flight_are_told_in_any_order() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    asked = [study.ask(SQUARE) for _ in range(50)]
    assert_all_different([t.params for t in asked])
    for trial in reversed(asked):
        study.tell(trial, trial.params["x"])
    study.optimize(sphere, n_trials=1)
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (51, 50)


def assert_well_spread(points: list[dict[str, Any]]) -> None:
    for name in SQUARE:
        thirds = {min(int(3 * p[name]), 2) for p in points}
        assert thirds == {0, 1, 2}, f"{name} of {points}"
    assert_all_different(points)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_wave_is_spread_when_the_space_is_given(seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed, search_space=SQUARE))
    assert_well_spread([study.ask(SQUARE).params for _ in range(9)])


@pytest.mark.parametrize("seed", range(5))
def test_the_first_wave_is_spread_once_one_trial_runs(seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    study.ask(SQUARE)
    assert_well_spread([study.ask(SQUARE).params for _ in range(9)])


@pytest.mark.parametrize("point", ["middle", "center", "uniform"])
@pytest.mark.parametrize("branching", [2, 3])
def test_two_workers_that_look_at_once_do_not_ask_the_same_point(
    point: str, branching: int
) -> None:
    study = optuna.create_study()
    workers = [
        PCTSSampler(seed=0, point=point, branching=branching, search_space=SQUARE)
        for _ in range(2)
    ]
    asked = []
    for _ in range(25):
        # Both trials exist before either sampler has looked.
        ids = [new_trial(study) for _ in workers]
        for trial_id, sampler in zip(ids, workers):
            asked.append(propose(sampler, study, trial_id))
        for trial_id, point_ in zip(ids, asked[-2:]):
            for name, value in point_.items():
                study._storage.set_trial_param(trial_id, name, value, UNIT)
            study._storage.set_trial_state_values(trial_id, TrialState.COMPLETE, [point_["x"]])
    assert len(asked) == 50
    assert_all_different(asked)


# ---------------------------------------------------------------------- trials from elsewhere


def test_an_enqueued_trial_keeps_all_its_parameters() -> None:
    study = run(sphere, 10)
    study.enqueue_trial({"x": 0.123, "y": 0.456})
    study.optimize(sphere, n_trials=2)
    assert study.trials[10].params == {"x": 0.123, "y": 0.456}
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_asked == 12


def test_an_enqueued_trial_that_fixes_some_leaves_the_rest_to_the_tree() -> None:
    study = run(sphere, 30)
    for _ in range(15):
        study.enqueue_trial({"x": 0.9})
    study.optimize(sphere, n_trials=15)
    late = study.trials[30:]
    assert {t.params["x"] for t in late} == {0.9}
    free = [t.params["y"] for t in late]
    assert len(set(free)) == 15
    assert_same_tree(study, PCTSSampler(seed=0), PCTSSampler(seed=0))


def test_an_enqueued_trial_may_lie_outside() -> None:
    study = run(sphere, 5)
    study.enqueue_trial({"x": 5.0})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(sphere, n_trials=1)
    study.optimize(sphere, n_trials=3)
    assert study.trials[5].params["x"] == 5.0
    assert len(study.trials) == 9


def test_the_first_wave_may_be_enqueued() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for i in range(5):
        study.enqueue_trial({"x": i / 5, "y": i / 5})
    study.optimize(sphere, n_trials=10)
    assert params(study)[:5] == [{"x": i / 5, "y": i / 5} for i in range(5)]
    assert_all_different(params(study))


def test_added_trials_are_learned_from() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for i in range(9):
        for j in range(9):
            point = {"x": (i + 0.5) / 9, "y": (j + 0.5) / 9}
            value = (point["x"] - 0.5) ** 2 + (point["y"] - 0.5) ** 2
            study.add_trial(optuna.create_trial(params=point, distributions=SQUARE, value=value))
    asked = [study.ask(SQUARE).params for _ in range(3)]
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_told == 81
    for point in asked:
        assert math.dist((point["x"], point["y"]), (0.5, 0.5)) < 0.4


def test_trials_of_another_sampler_count() -> None:
    study = optuna.create_study(sampler=TPESampler(seed=0))
    study.optimize(sphere, n_trials=30)
    study.sampler = PCTSSampler(seed=0)
    study.optimize(sphere, n_trials=30)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)
    assert_all_different(params(study))


def test_a_part_of_the_space_can_be_fixed() -> None:
    study = optuna.create_study(sampler=PartialFixedSampler({"x": 0.25}, PCTSSampler(seed=0)))
    study.optimize(sphere, n_trials=30)
    assert {t.params["x"] for t in study.trials} == {0.25}
    assert len({t.params["y"] for t in study.trials}) == 30
    assert min(abs(t.params["y"] - 0.7) for t in study.trials) < 0.02


def test_a_part_of_the_space_can_be_fixed_midway() -> None:
    sampler = PCTSSampler(seed=0)
    study = run(sphere, 20, sampler)
    study.sampler = PartialFixedSampler({"x": 0.25}, sampler)
    study.optimize(sphere, n_trials=20)
    assert {t.params["x"] for t in study.trials[20:]} == {0.25}
    study.sampler = sampler
    study.optimize(sphere, n_trials=1)
    assert tree_of(sampler).n_asked == 41


@pytest.mark.parametrize("attribute", ["?", {"depth": -1}, {"depth": 10**20}, [1]])
def test_a_malformed_attribute_does_not_stop_the_study(attribute: Any) -> None:
    study = run(sphere, 10)
    study.add_trial(
        optuna.create_trial(
            params={"x": 0.5, "y": 0.5},
            distributions=SQUARE,
            value=1.0,
            system_attrs={PROPOSAL_KEY: attribute},
        )
    )
    study.optimize(sphere, n_trials=5)
    assert len(study.trials) == 16
    assert isinstance(study.sampler, PCTSSampler)
    assert 10 in tree_of(study.sampler)


# ---------------------------------------------------------------------- pruners


def curve(trial: optuna.Trial) -> float:
    end = sphere(trial)
    for step in range(1, 10):
        trial.report(end + 1 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return end


@pytest.mark.parametrize(
    "pruner",
    [
        optuna.pruners.MedianPruner(n_startup_trials=3),
        optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9),
    ],
)
def test_pruned_trials_count(pruner: optuna.pruners.BasePruner) -> None:
    study = run(curve, 60, pruner=pruner)
    states = Counter(t.state for t in study.trials)
    assert states[TrialState.PRUNED] > 0
    assert states[TrialState.COMPLETE] + states[TrialState.PRUNED] == 60
    assert isinstance(study.sampler, PCTSSampler)
    # All of Hyperband's brackets are in the one tree.
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)
    assert study.best_value < 0.05


# ---------------------------------------------------------------------- spaces


def conditional(trial: optuna.Trial) -> float:
    kind = trial.suggest_categorical("kind", ["a", "b"])
    x = trial.suggest_float("x", 0, 1)
    if kind == "a":
        return x + trial.suggest_float("only_a", 0, 1)
    return x + trial.suggest_float("only_b", 0, 1)


def test_a_conditional_parameter_is_searched_without_a_warning(
    optuna_log: pytest.LogCaptureFixture,
) -> None:
    study = run(conditional, 100)
    assert {t.state for t in study.trials} == {TrialState.COMPLETE}
    assert optuna_log.text == ""
    last = [t.params.get("only_a", t.params.get("only_b", 1.0)) for t in study.trials[60:]]
    assert np.median(last) < 0.1  # a sixth of them is asked anywhere


def ends_early(trial: optuna.Trial) -> float:
    """A penalty after the first parameter, for a few of its values."""
    x = trial.suggest_float("x", 0, 1)
    if abs(x - 0.5) < 0.1:
        return 1.0
    return (x - 0.3) ** 2 + sum((trial.suggest_float(f"y{i}", 0, 1) - 0.6) ** 2 for i in range(3))


@pytest.mark.parametrize("seed", range(2))
def test_trials_that_return_early_blind_nobody(seed: int) -> None:
    study = run(ends_early, 150, PCTSSampler(seed=seed))
    assert any(len(trial.params) == 1 for trial in study.trials)
    assert study.best_value < 1e-3


def test_a_foreign_parameter_blinds_nobody() -> None:
    study = run(sphere, 30)
    point = {"x": 0.9, "y": 0.9, "foreign": 0.5}
    study.add_trial(
        optuna.create_trial(params=point, distributions=dict.fromkeys(point, UNIT), value=1.0)
    )
    study.optimize(sphere, n_trials=50)
    gaps = [trial.value or 0.0 for trial in study.trials[-20:]]
    assert np.median(gaps) < 1e-2


def test_a_parameter_that_comes_later_is_searched() -> None:
    study = run(sphere, 40)
    study.optimize(lambda t: sphere(t) + (t.suggest_float("z", 0, 1) - 0.2) ** 2, n_trials=60)
    assert np.median([abs(t.params["z"] - 0.2) for t in study.trials[-20:]]) < 0.05


def changing(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0.5, 1)
    return x + trial.suggest_float("depends", 0, x)


def test_a_range_that_changes_is_sampled_independently_with_a_warning(
    optuna_log: pytest.LogCaptureFixture,
) -> None:
    run(changing, 40)
    assert "depends" in optuna_log.text
    assert "PCTSSampler" in optuna_log.text
    assert "`x`" not in optuna_log.text


def test_the_warning_can_be_switched_off(optuna_log: pytest.LogCaptureFixture) -> None:
    run(changing, 40, PCTSSampler(seed=0, warn_independent_sampling=False))
    assert optuna_log.text == ""


def test_a_usual_space_gives_no_warning(optuna_log: pytest.LogCaptureFixture) -> None:
    run(mixed, 20)
    assert optuna_log.text == ""


class Lowest(RandomSampler):
    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        assert isinstance(param_distribution, FloatDistribution)
        return param_distribution.low


def test_the_independent_sampler_is_used() -> None:
    sampler = PCTSSampler(
        seed=0,
        search_space={"x": UNIT},
        independent_sampler=Lowest(),
        warn_independent_sampling=False,
    )
    found = params(run(sphere, 20, sampler))
    assert {p["y"] for p in found} == {0.0}
    assert len({p["x"] for p in found}) == 20


def test_startup_trials_are_left_to_the_independent_sampler() -> None:
    study = run(sphere, 10, PCTSSampler(n_startup_trials=10, independent_sampler=RandomSampler(1)))
    expected = optuna.create_study(sampler=RandomSampler(1))
    expected.optimize(sphere, n_trials=10)
    assert params(study) == params(expected)


def test_a_given_space_starts_in_its_middle() -> None:
    space: dict[str, BaseDistribution] = {"x": UNIT, "y": FloatDistribution(1e-4, 1.0, log=True)}
    study = optuna.create_study(sampler=PCTSSampler(search_space=space))
    first = study.ask(space).params
    assert 0.25 <= first["x"] <= 0.75
    assert 1e-3 <= first["y"] <= 1e-1
    study = optuna.create_study(sampler=PCTSSampler(search_space=space, point="center"))
    assert study.ask(space).params == pytest.approx({"x": 0.5, "y": 1e-2})


def test_early_trials_tell_about_every_parameter() -> None:
    space: dict[str, BaseDistribution] = {f"x{i}": UNIT for i in range(20)}
    space |= {f"c{i}": CategoricalDistribution(["a", "b", "c"]) for i in range(5)}

    study = optuna.create_study(sampler=PCTSSampler(search_space=space, seed=0))
    for _ in range(12):
        trial = study.ask(space)
        study.tell(trial, sum(trial.params[f"x{i}"] for i in range(20)))
    values = {name: [t.params[name] for t in study.trials] for name in space}
    # Few sides of a cell have been cut, and the others are as long as those of the cube.
    for i in range(20):
        assert len(set(values[f"x{i}"])) == 12
        assert sum(0.25 <= x <= 0.75 for x in values[f"x{i}"]) > 5
    assert all(len(set(values[f"c{i}"])) > 1 for i in range(5))


def test_a_given_space_may_have_single_values() -> None:
    space: dict[str, BaseDistribution] = {"x": UNIT, "n": IntDistribution(3, 3)}
    study = optuna.create_study(sampler=PCTSSampler(search_space=space, point="center"))
    assert study.ask(space).params == {"x": 0.5, "n": 3}


def test_a_given_space_of_single_values_only() -> None:
    space: dict[str, BaseDistribution] = {"n": IntDistribution(3, 3)}
    study = run(lambda t: t.suggest_int("n", 3, 3), 5, PCTSSampler(search_space=space))
    assert params(study) == [{"n": 3}] * 5


def test_an_objective_without_parameters() -> None:
    assert len(run(lambda _: 1.0, 5).trials) == 5


def test_native_types_come_back() -> None:
    study = run(mixed, 20)
    for found in params(study):
        assert {name: type(value) for name, value in found.items()} == {
            "x": float,
            "n": int,
            "kind": str,
        }


def test_old_trials_are_located_in_the_tree_of_a_new_range() -> None:
    study = run(sphere, 20)

    def wider(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", -1, 2) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(wider, n_trials=10)
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (30, 29)
    assert any(not 0 <= t.params["x"] <= 1 for t in study.trials)

    def narrower(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0.4, 0.6) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(narrower, n_trials=10)
    inside = [t for t in study.trials if 0.4 <= t.params["x"] <= 0.6]
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (len(inside), len(inside) - 1)


def test_a_trial_of_another_kind_under_the_same_name_is_ignored() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=SQUARE))
    study.add_trial(
        optuna.create_trial(
            params={"x": "left", "y": 0.5},
            distributions={"x": CategoricalDistribution(["left", "right"]), "y": UNIT},
            value=1.0,
        )
    )
    assert 0 <= propose(PCTSSampler(search_space=SQUARE), study, new_trial(study))["x"] <= 1


def test_split_order_is_followed() -> None:
    space: dict[str, BaseDistribution] = {"fast": UNIT, "slow": IntDistribution(0, 3)}
    sampler = PCTSSampler(seed=0, search_space=space, split_order=["slow"])
    study = optuna.create_study(sampler=sampler)
    for _ in range(30):
        trial = study.ask(space)
        study.tell(trial, trial.params["slow"] + trial.params["fast"])
    for lower, upper in cells(tree_of(sampler)):
        if upper[0] - lower[0] < 1:  # once `fast` is cut, `slow` has one value
            assert upper[1] - lower[1] == 0.25


def test_many_points_before_any_feedback_are_random_and_then_centres() -> None:
    options: dict[str, Any] = {"search_space": SQUARE, "local_share": 0.0, "seed": 0}
    study = optuna.create_study(sampler=PCTSSampler(point="center", **options))
    trials = [study.ask(SQUARE) for _ in range(48)]
    first, later = (
        [value for trial in part for value in trial.params.values()]
        for part in (trials[:16], trials[16:])
    )
    assert all(value * 64 % 1 == 0 for value in first)
    assert sum(value * 64 % 1 == 0 for value in later) == 0
    for trial in trials:
        study.tell(trial, sum(trial.params.values()))
    centre = study.ask(SQUARE)
    assert all(value * 64 % 1 == 0 for value in centre.params.values())
    ordered = optuna.create_study(sampler=PCTSSampler(split_order=["x", "y"], **options))
    for _ in range(48):
        assert all(value * 64 % 1 == 0 for value in ordered.ask(SQUARE).params.values())


def test_what_waits_for_its_turn_in_the_split_order_is_varied_meanwhile() -> None:
    space: dict[str, BaseDistribution] = {"fast": UNIT, "slow": FloatDistribution(0, 16)}
    options: dict[str, Any] = {"search_space": space, "local_share": 0.0, "seed": 0}
    sampler = PCTSSampler(split_order=["slow"], **options)
    study = optuna.create_study(sampler=sampler)
    for _ in range(8):
        trial = study.ask(space)
        study.tell(trial, trial.params["slow"])
    values = [trial.params["fast"] for trial in study.trials]
    assert len(set(values)) == 8
    assert max(values) - min(values) > 0.5
    assert study.trials[0].params["slow"] == 8.0  # the centre
    without = PCTSSampler(point="center", **options)
    assert optuna.create_study(sampler=without).ask(space).params["fast"] == 0.5


def test_unknown_names_in_split_order_are_warned_of(optuna_log: pytest.LogCaptureFixture) -> None:
    run(sphere, 5, PCTSSampler(seed=0, split_order=["y", "nobody"]))
    assert "split_order" in optuna_log.text
    assert "nobody" in optuna_log.text


def test_multi_objective_studies_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=PCTSSampler())
    with pytest.raises(ValueError, match="multi-objective"):
        study.ask(SQUARE)


# ---------------------------------------------------------------------- bad feedback


def raises_left(trial: optuna.Trial) -> float:
    """Fail in half of the space, to the left and below of the optimum."""
    value = sphere(trial)
    if trial.params["x"] < 0.25 or trial.params["y"] < 1 / 3:
        raise RuntimeError
    return value


def nan_left(trial: optuna.Trial) -> float:
    try:
        return raises_left(trial)
    except RuntimeError:
        return math.nan


def raises_early(trial: optuna.Trial) -> float:
    """Fail in half of the space before all parameters are known."""
    x = trial.suggest_float("x", 0, 1)
    if x > 0.5:
        raise RuntimeError
    return (x - 0.3) ** 2 + (trial.suggest_float("y", 0, 1) - 0.7) ** 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("objective", [raises_left, nan_left, raises_early])
def test_failing_trials_become_rare(objective: Objective, seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    study.optimize(objective, n_trials=150, catch=(RuntimeError,))
    failed = [t.state == TrialState.FAIL for t in study.trials]
    assert any(failed[:50])
    assert sum(failed[-50:]) < 12
    assert study.best_value < 0.01


@pytest.mark.parametrize("seed", range(3))
def test_what_failed_halfway_is_not_asked_again_and_again(seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    study.optimize(raises_early, n_trials=60, catch=(RuntimeError,))
    failed = [t.params["x"] for t in study.trials if t.state == TrialState.FAIL]
    assert max(Counter(failed).values()) <= 5
    assert len(failed) < 30


@pytest.mark.parametrize("value", [1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0])
def test_a_constant_objective_goes_on(value: float) -> None:
    study = run(lambda trial: sphere(trial) * 0 + value, 40)
    assert len(study.trials) == 40
    assert_all_different(params(study))
    assert_well_spread(params(study))


def test_a_study_in_which_everything_fails_goes_on() -> None:
    def broken(trial: optuna.Trial) -> float:
        sphere(trial)
        raise RuntimeError

    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.optimize(broken, n_trials=40, catch=(RuntimeError,))
    assert {t.state for t in study.trials} == {TrialState.FAIL}
    assert_all_different(params(study))
    assert_well_spread(params(study))


@pytest.mark.parametrize("factor", [1e308, -1e308, 1e-308])
@pytest.mark.parametrize("reward", ["clipped", "range", (-1.7e308, 1.7e308)])
def test_values_of_any_size(factor: float, reward: str | tuple[float, float]) -> None:
    def huge(trial: optuna.Trial) -> float:
        return factor * max(-1.0, min(1.0, 4 * sphere(trial) - 1))

    study = run(huge, 60, PCTSSampler(seed=0, reward=reward))
    assert len(study.trials) == 60
    assert_all_different(params(study), but_for=4)  # what is cut off may be noise


def test_a_scale_beyond_the_largest_float() -> None:
    """Half of the values are at the one end of what a float can be, half at the other."""
    study = run(lambda trial: math.copysign(1.7e308, sphere(trial) - 0.1), 60)
    assert len(study.trials) == 60
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)


def infinite_right(trial: optuna.Trial, value: float) -> float:
    finite = sphere(trial)
    return value if trial.params["x"] > 0.5 else finite


def test_the_worst_infinity_is_as_bad_as_a_failure() -> None:
    study = run(lambda trial: infinite_right(trial, math.inf), 150)
    assert sum(t.value == math.inf for t in study.trials[-50:]) < 12
    assert study.best_value < 0.01


def test_the_best_infinity_is_as_good_as_the_best() -> None:
    n_infinite = 0
    for seed in range(3):
        sampler = PCTSSampler(seed=seed)
        study = run(lambda trial: infinite_right(trial, -math.inf), 150, sampler)
        n_infinite += sum(t.value == -math.inf for t in study.trials[-50:])
        assert_all_different(params(study), but_for=4)  # what is cut off may be noise
    assert n_infinite > 100


# ---------------------------------------------------------------------- tiny discrete spaces


TINY: dict[str, BaseDistribution] = {
    "flag": CategoricalDistribution([False, True]),
    "n": IntDistribution(0, 1),
}


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_tiny_space_is_replicated(noise: float) -> None:
    """The best most of all; without noise, only when all the others have been tried."""
    rng = np.random.default_rng(0)

    def objective(trial: optuna.Trial) -> float:
        value = trial.suggest_int("n", 0, 1) + trial.suggest_categorical("flag", [False, True])
        return value + noise * rng.standard_normal()

    study = run(objective, 100)
    seen = Counter((p["n"], p["flag"]) for p in params(study))
    assert len(seen) == 4
    assert seen.most_common(1)[0][0] == (0, False)
    if not noise:
        assert len({(p["n"], p["flag"]) for p in params(study)[:8]}) == 4


def test_a_tiny_space_in_flight_is_not_piled_up() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=TINY))
    asked = [tuple(sorted(study.ask(TINY).params.items())) for _ in range(12)]
    assert len(set(asked[:4])) == 4
    assert set(Counter(asked).values()) == {3}


def test_a_tiny_space_with_all_but_one_in_flight() -> None:
    """The one configuration that nobody is evaluating is asked next, good or bad."""
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=TINY))
    asked = [study.ask(TINY) for _ in range(4)]
    study.tell(asked[2], 1.0)
    assert study.ask(TINY).params == asked[2].params


def test_choices_that_are_equal_are_no_trap() -> None:
    """Optuna stores 1.0 as the choice 1: the tree must not wait for an answer from 1.0."""

    def objective(trial: optuna.Trial) -> float:
        share = trial.suggest_categorical("share", [1, 1.0, 2])
        return share + (trial.suggest_float("x", 0, 1) - 0.3) ** 2

    study = run(objective, 60)
    assert max(Counter(p["x"] for p in params(study)).values()) <= 3  # once for each choice
    assert study.best_value < 1.01


# ---------------------------------------------------------------------- bad input


EITHER = (TypeError, ValueError)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("policy", "ducbv", TypeError),
        ("policy", DUCBV, TypeError),
        ("policy", 3, TypeError),
        ("smoothness", 0.5, TypeError),
        ("smoothness", Smoothness, TypeError),
        ("point", "corner", ValueError),
        ("point", None, EITHER),
        ("point", ["center"], EITHER),
        ("branching", 4, ValueError),
        ("branching", 0, ValueError),
        ("branching", True, EITHER),
        ("branching", 2.5, EITHER),
        ("branching", 3.0, EITHER),
        ("branching", "3", EITHER),
        ("branching", None, EITHER),
        ("branching", [3], EITHER),
        ("reward", "median", ValueError),
        ("reward", 1.0, TypeError),
        ("reward", (0.0, 1.0, 2.0), TypeError),
        ("reward", (1.0, 0.0), ValueError),
        ("split_order", "x", TypeError),
        ("split_order", 3, TypeError),
        ("split_order", {"x"}, TypeError),
        ("search_space", "x", TypeError),
        ("search_space", ["x"], TypeError),
        ("n_startup_trials", -1, ValueError),
        ("n_startup_trials", 1.5, TypeError),
        ("n_startup_trials", True, TypeError),
        ("n_startup_trials", None, TypeError),
        ("independent_sampler", "random", TypeError),
        ("independent_sampler", RandomSampler, TypeError),
        ("warn_independent_sampling", 1, TypeError),
        ("warn_independent_sampling", "yes", TypeError),
        ("stale_after", 0, ValueError),
        ("stale_after", -1.0, ValueError),
        ("stale_after", math.nan, ValueError),
        ("stale_after", math.inf, ValueError),
        ("stale_after", "1h", TypeError),
        ("stale_after", True, TypeError),
        ("seed", -1, ValueError),
        ("seed", 1.5, TypeError),
        ("seed", "0", TypeError),
        ("seed", True, TypeError),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_given(
    argument: str, value: Any, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(error) as caught:
        run(sampler=PCTSSampler(**arguments), n_trials=3)
    assert f"`{argument}`" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "error", "part"),
    [
        ("reward", (0.0, "1"), TypeError, "'1'"),
        ("reward", (0.0, math.inf), ValueError, "inf"),
        ("split_order", ["x", 3], TypeError, "3"),
        ("split_order", ["x", ["y", None]], TypeError, "None"),
        ("split_order", ["x", ["y", "x"]], ValueError, "'x'"),
        ("split_order", ["x", "x"], ValueError, "'x'"),
        ("search_space", {}, ValueError, "empty"),
        ("search_space", {"x": (0, 1)}, TypeError, "'x': (0, 1)"),
        ("search_space", {1: UNIT}, TypeError, "1: "),
        ("search_space", {"y": UNIT, "x": None}, TypeError, "'x': None"),
    ],
)
def test_a_wrong_part_of_an_argument_is_named(
    argument: str, value: Any, error: type[Exception], part: str
) -> None:
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(error) as caught:
        PCTSSampler(**arguments)
    assert f"`{argument}`" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("make", "argument", "value", "error"),
    [
        (lambda v: DUCB1Sigma(noise_std=v), "noise_std", 0.0, ValueError),
        (lambda v: DUCB1Sigma(noise_std=v), "noise_std", "1", TypeError),
        (lambda v: DUCBV(reward_range=v), "reward_range", -1.0, ValueError),
        (lambda v: DUCBV(reward_range=v), "reward_range", [1], TypeError),
        (lambda v: DUCBV(c=v), "c", -0.1, ValueError),
        (lambda v: DUCBV(c=v), "c", None, TypeError),
        (lambda v: Smoothness(nu=v, rho=0.5), "nu", -1.0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", 1.0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", 0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", "x", TypeError),
        (lambda v: UnknownSmoothness(nu=v), "nu", math.inf, ValueError),
        (lambda v: POOSmoothness(n_trials=v), "n_trials", 0, ValueError),
        (lambda v: POOSmoothness(n_trials=v), "n_trials", 1.5, TypeError),
        (lambda v: POOSmoothness(n_trials=9, nu_max=v), "nu_max", -1.0, ValueError),
        (lambda v: POOSmoothness(n_trials=9, rho_max=v), "rho_max", 1.0, ValueError),
        (lambda v: UnknownSmoothness(exponents=v), "exponents", 2.0, TypeError),
        (lambda v: UnknownSmoothness(exponents=v), "exponents", "12", TypeError),
        (lambda v: UnknownSmoothness(exponents=(1.0, v)), "exponents", -3.0, ValueError),
        (lambda v: UnknownSmoothness(exponents=(1.0, v)), "exponents", "a", TypeError),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_given(
    make: Callable[[Any], object], argument: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        make(value)
    assert f"`{argument}`" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_no_instance_of_smoothness_is_refused() -> None:
    with pytest.raises(ValueError, match="`exponents`"):
        UnknownSmoothness(exponents=())


def test_split_order_must_name_parameters_of_the_given_space() -> None:
    with pytest.raises(ValueError, match=r"`split_order` names \['z'\].*'x', 'y'"):
        PCTSSampler(search_space=SQUARE, split_order=["x", "z"])


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        PCTSSampler(DUCBV())  # type: ignore[call-arg]


def test_a_range_beyond_the_given_space_is_an_error() -> None:
    sampler = PCTSSampler(search_space={"x": UNIT})
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(ValueError, match="`search_space`") as caught:
        study.optimize(lambda trial: trial.suggest_float("x", 5, 9), n_trials=1)
    assert "`x`" in str(caught.value)


def test_a_range_other_than_that_of_the_given_space_is_warned_of() -> None:
    sampler = PCTSSampler(search_space={"x": UNIT})
    study = optuna.create_study(sampler=sampler)
    with pytest.warns(UserWarning, match="`search_space`"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 9), n_trials=1)
    assert study.trials[0].state == TrialState.COMPLETE


# ---------------------------------------------------------------------- traps


def test_failures_become_rare_where_every_success_is_alike() -> None:
    def objective(trial: optuna.Trial) -> float:
        x, _ = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if x > 0.3:
            raise RuntimeError
        return 0.0

    failures = []
    for seed in range(4):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed))
        study.optimize(objective, n_trials=150, catch=(RuntimeError,))
        failures.append(sum(t.state == TrialState.FAIL for t in study.trials[100:]))
    assert np.mean(failures) <= 12  # at random 35


def test_coins_are_told_apart() -> None:
    """Twenty arms that give 0 or 1: the good ones are asked most."""
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(4):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed), direction="maximize")
        study.optimize(
            lambda t: float(rng.random() < 0.1 + 0.04 * t.suggest_int("arm", 0, 19)), n_trials=300
        )
        shares.append(np.mean([0.1 + 0.04 * t.params["arm"] for t in study.trials[-50:]]))
    assert np.mean(shares) > 0.6  # at random 0.48


def test_a_plateau_is_left() -> None:
    """Steps of one for every coordinate that is right: nothing tells the way."""

    def objective(trial: optuna.Trial) -> float:
        return -sum(0.8 < trial.suggest_float(f"x{i}", 0, 1) < 0.95 for i in range(4))

    best = []
    for seed in range(5):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed))
        study.optimize(objective, n_trials=200)
        best.append(study.best_value)
    assert np.mean(best) <= -2.6


@pytest.mark.parametrize("branching", [2, 3])
def test_a_parameter_that_is_fixed_on_a_cut_leaves_the_others_free(branching: int) -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(-1, 1), "y": UNIT}
    sampler = PCTSSampler(seed=0, search_space=space, branching=branching)
    study = optuna.create_study(sampler=sampler)
    for _ in range(10):
        study.enqueue_trial({"x": 0.0})
    study.optimize(
        lambda t: t.suggest_float("x", -1, 1) ** 2 + t.suggest_float("y", 0, 1), n_trials=10
    )
    assert {p["x"] for p in params(study)} == {0.0}
    assert len({p["y"] for p in params(study)}) == 10


def test_a_trial_that_seems_lost_is_not_asked_again_to_the_letter() -> None:
    sampler = PCTSSampler(seed=0, search_space=SQUARE, stale_after=1e-9)
    study = optuna.create_study(sampler=sampler)
    asked = [study.ask(SQUARE).params for _ in range(30)]  # each is stale when the next comes
    assert_all_different(asked)


def test_choices_that_a_storage_turns_into_lists(tmp_path: Path) -> None:
    choices: Any = [(1, 2), (3, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's own, of choices that are no plain values
        space = {"pair": CategoricalDistribution(choices), "x": UNIT}
        sampler = PCTSSampler(seed=1, search_space=space)
        study = optuna.create_study(sampler=sampler, storage=f"sqlite:///{tmp_path / 'study.db'}")
        study.optimize(
            lambda t: t.suggest_categorical("pair", choices)[0] * t.suggest_float("x", 0, 1),
            n_trials=12,
        )
        found = params(study)
    assert tree_of(sampler).n_told == 11
    assert len({p["x"] for p in found}) > 6


def test_a_range_that_came_back_is_forgiven() -> None:
    def objective(trial: optuna.Trial) -> float:
        return (trial.suggest_float("x", 0, 2) - 0.3) ** 2 + trial.suggest_float("y", 0, 1)

    sampler = PCTSSampler(seed=0, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=20)
    study.add_trial(
        optuna.create_trial(value=1.0, params={"x": 0.2, "y": 0.1}, distributions=SQUARE)
    )
    study.optimize(objective, n_trials=15)
    trial = study._storage.get_trial(new_trial(study))
    space = sampler.infer_relative_search_space(study, trial)
    assert space == {"x": FloatDistribution(0, 2), "y": UNIT}


def test_an_interruption_loses_nothing() -> None:
    sampler = PCTSSampler(seed=0, search_space=SQUARE)
    study = run(sphere, 10, sampler)
    with pytest.MonkeyPatch.context() as patch:

        def interrupted(self: Engine, feedback: Feedback) -> None:
            raise KeyboardInterrupt

        patch.setattr(Engine, "fold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            propose(sampler, study, new_trial(study))
    propose(sampler, study, new_trial(study))
    assert tree_of(sampler).n_told == 10


def test_a_fork_does_not_inherit_the_lock() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    sampler = PCTSSampler(seed=0, search_space=SQUARE)
    study = run(sphere, 5, sampler)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sampler._exclusive():
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, since 3.12
        child = os.fork()
    if child == 0:
        study.optimize(sphere, n_trials=2)
        os._exit(7)
    deadline = time.monotonic() + 30
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    done.set()
    thread.join()
    if status == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status[1]) == 7


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize(
    "choices",
    [
        [{1, 2}, {3}, {4}],
        [{"a": {1}}, {"a": {2}}, [{1}]],
        [bytearray(b"a"), {1}, frozenset([2]), 3],
        [np.array([1]), np.array([2]), None],
        ["NaN", float("nan"), 1],
    ],
)
def test_choices_without_a_hash_are_told_apart(choices: Any) -> None:
    """As of Optuna's RandomSampler, in memory."""
    picked: list[int] = []

    def objective(trial: optuna.Trial) -> float:
        choice = trial.suggest_categorical("c", choices)
        picked.append(next(i for i, c in enumerate(choices) if c is choice))
        return (picked[-1] != 1) + trial.suggest_float("x", 0, 1)

    sampler = PCTSSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=40)
    assert tree_of(sampler).n_told == 39
    counts = Counter(picked)
    assert counts.most_common(1)[0][0] == 1
    assert len(counts) >= 3
    assert picked[recommend(study).number] == 1
    json.dumps(report(study).to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_choices_that_nobody_can_tell_apart_are_refused() -> None:
    """Optuna's RandomSampler fails too, with a message that names neither."""
    choices: Any = [np.array([1, 2]), np.array([3, 4])]
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    with pytest.raises(ValueError, match="choices of parameter `c` cannot be told apart by `==`"):
        study.optimize(lambda trial: trial.suggest_categorical("c", choices)[0], n_trials=3)
