"""Bad feedback: failures, NaN, infinity, values that are all alike or beyond any scale."""

from __future__ import annotations

from collections import Counter
import math

from helpers import assert_all_different
from helpers import assert_well_spread
from helpers import Objective
from helpers import params
from helpers import raises_early
from helpers import run_study
from helpers import sphere
from helpers import tree_of
import numpy as np
import optuna
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler


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


@pytest.mark.parametrize("value", [1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0])
def test_a_constant_objective_goes_on(value: float) -> None:
    study = run_study(lambda trial: sphere(trial) * 0 + value, 40)
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

    study = run_study(huge, 60, PCTSSampler(seed=0, reward=reward))
    assert len(study.trials) == 60
    assert_all_different(params(study), but_for=4)  # what is cut off may be noise


def test_a_scale_beyond_the_largest_float() -> None:
    """Half of the values are near the largest float, half near the smallest."""
    study = run_study(lambda trial: math.copysign(1.7e308, sphere(trial) - 0.1), 60)
    assert len(study.trials) == 60
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)


def infinite_right(trial: optuna.Trial, value: float) -> float:
    finite = sphere(trial)
    return value if trial.params["x"] > 0.5 else finite


def test_the_worst_infinity_is_as_bad_as_a_failure() -> None:
    study = run_study(lambda trial: infinite_right(trial, math.inf), 150)
    assert sum(t.value == math.inf for t in study.trials[-50:]) < 12
    assert study.best_value < 0.01


def test_the_best_infinity_is_as_good_as_the_best() -> None:
    n_infinite = 0
    for seed in range(3):
        sampler = PCTSSampler(seed=seed)
        study = run_study(lambda trial: infinite_right(trial, -math.inf), 150, sampler)
        n_infinite += sum(t.value == -math.inf for t in study.trials[-50:])
        assert_all_different(params(study), but_for=4)  # what is cut off may be noise
    assert n_infinite > 100
