"""The prior: what to expect of a cell without feedback."""

from __future__ import annotations

from helpers import at_categories
import numpy as np
import pytest

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.prior import AdditiveModel


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
