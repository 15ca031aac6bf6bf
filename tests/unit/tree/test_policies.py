"""The bandits of table 2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
import pytest

from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import NodeStatistics
from optuna_pcts import PCTSSampler
from optuna_pcts import Policy
from optuna_pcts import SmoothnessModel
from optuna_pcts._arrays import FloatArray


LOG_T = math.log(16)


def statistics(unit: float = 1.0) -> NodeStatistics:
    return NodeStatistics(
        mean=np.array([0.5, 0.25]),
        variance=np.array([0.04, 0.0]),
        n_told=np.array([8.0, 1.0]),
        n_asked=np.array([10.0, 100.0]),  # never enters a bound
        depth=np.array([3.0, 4.0]),
        log_t=math.log(16),
        unit=unit,
    )


def test_ducb1() -> None:
    expected = [0.5 + math.sqrt(2 * LOG_T / 8), 0.25 + math.sqrt(2 * LOG_T)]
    assert DUCB1().bound(statistics()) == pytest.approx(expected)


@pytest.mark.parametrize("unit", [1.0, 10.0])
def test_ducb1sigma_takes_the_noise_in_the_unit_of_the_objective(unit: float) -> None:
    sigma = 0.3 / unit
    expected = [
        0.5 + math.sqrt(2 * sigma**2 * LOG_T / 8),
        0.25 + math.sqrt(2 * sigma**2 * LOG_T),
    ]
    assert DUCB1Sigma(noise_std=0.3).bound(statistics(unit)) == pytest.approx(expected)


@pytest.mark.parametrize(("reward_range", "b"), [(None, 1.0), (5.0, 2.5)])
def test_ducbv(reward_range: float | None, b: float) -> None:
    expected = [
        0.5 + math.sqrt(2 * 0.04 * LOG_T / 8) + 3 * 0.1 * b * LOG_T / 8,
        0.25 + 3 * 0.1 * b * LOG_T,
    ]
    policy = DUCBV(reward_range=reward_range, c=0.1)
    assert policy.bound(statistics(unit=2.0)) == pytest.approx(expected)


def test_ducbv_with_c_1_is_the_papers() -> None:
    expected = 0.5 + math.sqrt(2 * 0.04 * LOG_T / 8) + 3 * LOG_T / 8
    assert DUCBV(c=1.0).bound(statistics())[0] == pytest.approx(expected)


def test_ducb1sigma_with_tiny_values() -> None:
    study = optuna.create_study(sampler=PCTSSampler(policy=DUCB1Sigma(noise_std=0.1), seed=0))
    study.optimize(lambda t: -math.exp(-400 - 100 * t.suggest_float("x", 0, 1)), n_trials=30)
    assert len(study.trials) == 30


def test_a_policy_and_a_smoothness_of_ones_own() -> None:
    class Greedy:
        def bound(self, cells: NodeStatistics) -> FloatArray:
            return cells.mean

    class Flat:
        def instances(self, n_dims: int) -> list[tuple[float, float]]:
            return [(0.0, 0.5)]

    assert isinstance(Greedy(), Policy)
    assert isinstance(Flat(), SmoothnessModel)
    sampler = PCTSSampler(policy=Greedy(), smoothness=Flat(), seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=50)
    assert study.best_value < 0.01


def test_a_policy_may_divide_by_the_number_of_asked_trials() -> None:
    class Asked:
        def bound(self, cells: NodeStatistics) -> FloatArray:
            return cells.mean + 0.1 * np.sqrt(2 * cells.log_t / cells.n_asked)

    study = optuna.create_study(sampler=PCTSSampler(policy=Asked(), seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=40)
    assert study.best_value < 0.05


@pytest.mark.parametrize("returned", [math.nan, np.zeros(99), "high"])
def test_a_policy_that_returns_nonsense_is_named(returned: Any) -> None:
    class Broken:
        def bound(self, cells: NodeStatistics) -> Any:
            return returned if isinstance(returned, (str, np.ndarray)) else cells.mean * returned

    space = {"x": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=PCTSSampler(policy=Broken(), search_space=space))
    with pytest.raises(ValueError, match="`policy` must return one number per cell"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
