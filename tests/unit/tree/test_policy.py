"""The formulas of table 2, the smoothness instances and the prior."""

from __future__ import annotations

import math
from typing import Any

from helpers import at_categories
import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.study import StudyDirection
import pytest

from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import NodeStatistics
from optuna_pcts import PCTSSampler
from optuna_pcts import Policy
from optuna_pcts import POOSmoothness
from optuna_pcts import Smoothness
from optuna_pcts import SmoothnessModel
from optuna_pcts import UnknownSmoothness
from optuna_pcts._arrays import FloatArray
from optuna_pcts._study.settings import tree_of
from optuna_pcts._tree.prior import AdditiveModel


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


LOG_T = math.log(16)


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


def test_the_rho_of_unknown_smoothness_follows_the_dimension() -> None:
    """After one split per parameter the diameter has shrunk by 2^k, whatever the dimension."""
    for n_dims in (1, 2, 10, 50):
        instances = UnknownSmoothness(nu=0.5, exponents=(0.5, 1, 2)).instances(n_dims)
        assert [nu for nu, _ in instances] == [0.5] * 3
        assert [rho**n_dims for _, rho in instances] == pytest.approx([2**-0.5, 0.5, 0.25])


def test_the_grid_of_poo() -> None:
    """D_max = ln 2 / ln 2 = 1 for rho_max = 1/2; by hand for T = 1000, and 13.5 for 0.95."""
    # (1 / 2) ln(1000 / 6.908) = 2.49: two instances, of rho_max^4 and rho_max^(4/3).
    assert POOSmoothness(n_trials=1000, nu_max=0.3, rho_max=0.5).instances(7) == [
        (0.3, 0.5**4),
        (0.3, pytest.approx(0.5 ** (4 / 3))),
    ]
    rhos = [rho for _, rho in POOSmoothness(n_trials=600).instances(3)]
    assert len(rhos) == 31  # 13.513 / 2 * ln(600 / 6.397) = 30.68
    d_max = math.log(2) / math.log(1 / 0.95)
    parts = [math.log(2) / math.log(1 / rho) * 31 / d_max for rho in rhos]
    assert parts == pytest.approx([i + 0.5 for i in range(31)])
    # As printed, 2N / (i + 1) for i = 1 ... N, the upper half would be left out.
    printed = [0.95 ** (2 * 31 / (i + 1)) for i in range(1, 32)]
    assert max(printed) < 0.95**1.9 < max(rhos) < 0.95


@pytest.mark.parametrize("n_trials", [1, 2, 3, 10])
def test_no_instance_of_poo_goes_without_a_trial(n_trials: int) -> None:
    rhos = [rho for _, rho in POOSmoothness(n_trials=n_trials).instances(2)]
    assert 1 <= len(rhos) <= n_trials
    assert rhos == sorted(set(rhos))


def test_known_smoothness_is_one_instance() -> None:
    assert Smoothness(nu=1.0, rho=0.95).instances(7) == [(1.0, 0.95)]


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


def test_ducb1sigma_with_tiny_values() -> None:
    study = optuna.create_study(sampler=PCTSSampler(policy=DUCB1Sigma(noise_std=0.1), seed=0))
    study.optimize(lambda t: -math.exp(-400 - 100 * t.suggest_float("x", 0, 1)), n_trials=30)
    assert len(study.trials) == 30


@pytest.mark.parametrize("returned", [math.nan, np.zeros(99), "high"])
def test_a_policy_that_returns_nonsense_is_named(returned: Any) -> None:
    class Broken:
        def bound(self, cells: NodeStatistics) -> Any:
            return returned if isinstance(returned, (str, np.ndarray)) else cells.mean * returned

    space = {"x": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=PCTSSampler(policy=Broken(), search_space=space))
    with pytest.raises(ValueError, match="`policy` must return one number per cell"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)


def test_the_additive_model_finds_an_additive_function() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((200, 3))
    points[:, 2] = (np.floor(points[:, 2] * 3) + 0.5) / 3  # three categories

    def f(points: FloatArray) -> FloatArray:
        effect = np.array([0.0, 0.3, 0.1])[np.floor(points[:, 2] * 3).astype(int)]
        return np.asarray(points[:, 0] ** 2 - 0.5 * points[:, 1] + effect)

    model = AdditiveModel(points, f(points), categories=[0, 0, 3])
    fresh = rng.random((50, 3))
    assert model.predict(fresh) == pytest.approx(f(fresh), abs=0.02)
    assert model.std < 0.02
    noisy = AdditiveModel(points, f(points) + rng.normal(0, 0.1, 200), categories=[0, 0, 3])
    assert noisy.std == pytest.approx(0.1, rel=0.2)


def test_the_additive_model_has_many_categories_at_once() -> None:
    """Against the normal equations, with a column for each category."""
    rng = np.random.default_rng(0)
    categories = (3, 0, 40, 0, 7)
    points, fresh = (at_categories(rng, n, categories) for n in (150, 60))
    rewards = rng.random(150)

    def columns(points: FloatArray) -> FloatArray:
        z = 2 * points[:, [1, 3]] - 1
        one_hot = [
            np.floor(points[:, i, None] * k) == np.arange(k) for i, k in enumerate(categories) if k
        ]
        return np.concatenate([z, z * z - 1 / 3, *one_hot], axis=1)

    x = columns(points)
    level = rewards.mean()
    weights = np.linalg.solve(x.T @ x + 0.1 * np.eye(54), x.T @ (rewards - level))
    model = AdditiveModel(points, rewards, categories)
    assert model.predict(fresh) == pytest.approx(level + columns(fresh) @ weights)
    rest = rewards - level - x @ weights
    assert model.std == pytest.approx(np.sqrt((rest**2).sum() / (150 - 54)))


def test_the_papers_algorithm_is_a_setting() -> None:
    """With no prior and no local ask, every point is the centre of a cell, if so desired."""
    space = {"x": FloatDistribution(0, 1)}
    sampler = PCTSSampler(
        local_share=0, prior_std=None, point="center", search_space=space, seed=0
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=40)
    for trial in study.trials:
        depth = trial.user_attrs["pcts:depth"]
        position = trial.params["x"] * 2 ** (depth + 1)  # odd multiples of half a cell
        assert position == pytest.approx(round(position), abs=1e-6)
        assert round(position) % 2 == 1


@pytest.mark.parametrize("direction", [StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE])
def test_bounds_of_the_objective_are_those_of_its_rewards(direction: StudyDirection) -> None:
    """The paper's rewards are in [0, 1] from the start."""
    study = optuna.create_study(
        direction=direction, sampler=PCTSSampler(reward=(-10, 10), local_share=0, seed=0)
    )
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5), n_trials=20)
    sign = 1 if direction == StudyDirection.MAXIMIZE else -1
    rewards = [(10 + sign * trial.values[0]) / 20 for trial in study.trials]
    _, tree = tree_of(study)
    root = next(tree.cells())
    assert root.mean == pytest.approx(np.mean(rewards))


@pytest.mark.parametrize("reward", ["range", (0.0, 98.0)])
def test_every_scale_of_rewards_finds_the_best(reward: str | tuple[float, float]) -> None:
    regrets = []
    for seed in range(5):
        study = optuna.create_study(sampler=PCTSSampler(reward=reward, seed=seed))
        study.optimize(
            lambda trial: sum((trial.suggest_float(n, -5, 5) - 2) ** 2 for n in "xy"), n_trials=80
        )
        regrets.append(study.best_value)
    assert np.median(regrets) < 1e-3  # without local asks it is 0.007 and 0.017


def test_a_discrete_space_is_searched_without_needless_repetition() -> None:
    space = {
        "n": IntDistribution(0, 19),
        "kind": CategoricalDistribution(["a", "b", "c", "d", "e"]),
    }
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=space))
    study.optimize(
        lambda t: (
            abs(t.suggest_int("n", 0, 19) - 13)
            + ["a", "b", "c", "d", "e"].index(t.suggest_categorical("kind", list("abcde")))
        ),
        n_trials=80,
    )
    different = {(t.params["n"], t.params["kind"]) for t in study.trials}
    assert study.best_value == 0
    assert len(different) > 40
