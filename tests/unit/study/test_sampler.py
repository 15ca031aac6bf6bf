"""PCTSSampler's hooks: seeds, the independent sampler, pruners, several workers at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from helpers import assert_all_different
from helpers import assert_same_tree
from helpers import assert_well_spread
from helpers import mixed
from helpers import new_trial
from helpers import Objective
from helpers import params
from helpers import propose
from helpers import run_study
from helpers import sphere
from helpers import SQUARE
from helpers import tree_of
from helpers import UNIT
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler


# ---------------------------------------------------------------------- seeds


@pytest.mark.parametrize("objective", [sphere, mixed])
@pytest.mark.parametrize("point", ["middle", "center", "uniform"])
def test_the_same_seed_gives_the_same_sequence(objective: Objective, point: str) -> None:
    first = run_study(objective, 40, PCTSSampler(seed=7, point=point))
    second = run_study(objective, 40, PCTSSampler(seed=7, point=point))
    assert params(first) == params(second)


def test_different_seeds_give_different_sequences() -> None:
    assert params(run_study(sampler=PCTSSampler(seed=1))) != params(
        run_study(sampler=PCTSSampler(seed=2))
    )


def test_no_seed_gives_a_different_sequence_each_time() -> None:
    assert params(run_study(sampler=PCTSSampler())) != params(run_study(sampler=PCTSSampler()))


def test_maximising_mirrors_minimising() -> None:
    down = run_study(sphere, 60, direction="minimize")
    up = run_study(lambda trial: -sphere(trial), 60, direction="maximize")
    assert params(down) == params(up)


def test_it_finds_the_optimum_of_a_sphere() -> None:
    assert run_study(sphere, 100).best_value < 5e-3


# ---------------------------------------------------------------------- the independent sampler


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
    found = params(run_study(sphere, 20, sampler))
    assert {p["y"] for p in found} == {0.0}
    assert len({p["x"] for p in found}) == 20


def test_startup_trials_are_left_to_the_independent_sampler() -> None:
    study = run_study(
        sphere, 10, PCTSSampler(n_startup_trials=10, independent_sampler=RandomSampler(1))
    )
    expected = optuna.create_study(sampler=RandomSampler(1))
    expected.optimize(sphere, n_trials=10)
    assert params(study) == params(expected)


def changing(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0.5, 1)
    return x + trial.suggest_float("depends", 0, x)


def test_a_range_that_depends_on_another_parameter_is_searched_without_a_warning(
    optuna_log: pytest.LogCaptureFixture,
) -> None:
    study = run_study(lambda t: (changing(t) - 0.9) ** 2, 80)
    assert optuna_log.text == ""
    assert np.median([t.value for t in study.trials[40:]]) < 0.01  # of a random point: 0.05


def test_what_is_sampled_blindly_is_warned_of(optuna_log: pytest.LogCaptureFixture) -> None:
    run_study(changing, 5, PCTSSampler(seed=0, search_space={"x": FloatDistribution(0.5, 1)}))
    assert "depends" in optuna_log.text
    assert "PCTSSampler" in optuna_log.text
    assert "`x`" not in optuna_log.text


def test_the_warning_can_be_switched_off(optuna_log: pytest.LogCaptureFixture) -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(0.5, 1)}
    sampler = PCTSSampler(seed=0, search_space=space, warn_independent_sampling=False)
    run_study(changing, 5, sampler)
    assert optuna_log.text == ""


def test_a_usual_space_gives_no_warning(optuna_log: pytest.LogCaptureFixture) -> None:
    run_study(mixed, 20)
    assert optuna_log.text == ""


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
    study = run_study(curve, 60, pruner=pruner)
    states = Counter(t.state for t in study.trials)
    assert states[TrialState.PRUNED] > 0
    assert states[TrialState.COMPLETE] + states[TrialState.PRUNED] == 60
    assert isinstance(study.sampler, PCTSSampler)
    # All of Hyperband's brackets are in the one tree.
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)
    assert study.best_value < 0.05


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


@pytest.mark.parametrize("seed", range(5))
def test_the_first_batch_is_spread_when_the_space_is_given(seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed, search_space=SQUARE))
    assert_well_spread([study.ask(SQUARE).params for _ in range(9)])


@pytest.mark.parametrize("seed", range(5))
def test_the_first_batch_is_spread_once_one_trial_runs(seed: int) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    study.ask(SQUARE)
    assert_well_spread([study.ask(SQUARE).params for _ in range(9)])


@pytest.mark.parametrize("point", ["middle", "center", "uniform"])
@pytest.mark.parametrize("branching", [2, 3])
def test_two_workers_that_ask_at_once_do_not_get_the_same_point(
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


def test_the_exact_point_of_a_stale_trial_is_not_asked_again() -> None:
    sampler = PCTSSampler(seed=0, search_space=SQUARE, stale_after=1e-9)
    study = optuna.create_study(sampler=sampler)
    asked = [study.ask(SQUARE).params for _ in range(30)]  # each is stale when the next comes
    assert_all_different(asked)
