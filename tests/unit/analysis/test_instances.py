"""Which smoothness instance has done best."""

from __future__ import annotations

import math

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import POOSmoothness
from optuna_pcts import rank_instances
from optuna_pcts import Smoothness
from optuna_pcts import UnknownSmoothness


def loss(trial: optuna.Trial) -> float:
    return (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + trial.suggest_float("y", 0, 1)


def study_of(sampler: PCTSSampler, n_trials: int = 40) -> optuna.Study:
    study = optuna.create_study(sampler=sampler)
    study.optimize(loss, n_trials=n_trials)
    return study


def test_each_instance_has_its_turn_and_the_mean_of_its_own_rewards() -> None:
    space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    sampler = PCTSSampler(reward=(0, 2), local_share=0, search_space=space, seed=0)
    study = study_of(sampler)
    study.enqueue_trial({"x": 0.3, "y": 0.0})  # nobody's
    study.ask()
    study.optimize(loss, n_trials=1)
    study.ask()  # has not ended
    ranked = rank_instances(study)
    assert sorted((one.nu, one.rho) for one in ranked) == sorted(UnknownSmoothness().instances(2))
    for one in ranked:
        turn = UnknownSmoothness().instances(2).index((one.nu, one.rho))
        assert one.numbers == tuple(n for n in (*range(40), 41) if n % 3 == turn)
        rewards = [1 - study.trials[n].values[0] / 2 for n in one.numbers]
        assert one.reward == pytest.approx(np.mean(rewards))
    assert [one.reward for one in ranked] == sorted((o.reward for o in ranked), reverse=True)


def test_a_failure_counts_as_the_worst() -> None:
    def fails(trial: optuna.Trial) -> float:
        value = loss(trial)
        return math.nan if trial.number % 3 == 1 else value

    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.optimize(fails, n_trials=30)
    ranked = rank_instances(study)
    assert ranked[-1].rho == UnknownSmoothness().instances(2)[1][1]
    assert ranked[-1].reward == 0.0


def test_an_instance_that_had_no_turn_comes_last() -> None:
    study = study_of(PCTSSampler(smoothness=POOSmoothness(n_trials=600), seed=0), n_trials=20)
    ranked = rank_instances(study)
    assert len(ranked) == 31
    assert all(one.numbers for one in ranked[:19])
    assert all(not one.numbers and math.isnan(one.reward) for one in ranked[20:])


def test_a_known_smoothness_is_the_best() -> None:
    study = study_of(PCTSSampler(smoothness=Smoothness(nu=1, rho=0.9), seed=0), n_trials=10)
    (only,) = rank_instances(study)
    assert only.rho == 0.9


def test_trials_of_others_are_of_no_instance() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(loss, n_trials=10)
    with pytest.raises(ValueError, match="`rank_instances` needs"):
        rank_instances(study)
