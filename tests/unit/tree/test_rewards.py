"""From values to rewards: the scales."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.study import StudyDirection
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._study.settings import tree_of


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
