"""What to expect of a cell without feedback: an additive model of all feedback so far.

In HOO a cell without feedback has an infinite bound, so every child of a good cell is paid for,
however hopeless. Here cells share what they know: a constant plus a linear and a quadratic term
per parameter (one-hot for categories) is fitted to all rewards by ridge regression. It is crude,
and need not be more: it only ranks children that nobody has tried, and the first feedback of a
cell replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optuna_pcts._policy import FloatArray


# Weight of the ridge, in trials: keeps terms small that few trials speak for.
_RIDGE = 0.1


class AdditiveModel:
    """Reward as a sum of one function per parameter.

    Args:
        points:
            Positions in the unit cube, one row per trial.
        rewards:
            Their rewards.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
    """

    def __init__(self, points: FloatArray, rewards: FloatArray, categories: Sequence[int]) -> None:
        self._categories = tuple(categories)
        self._ordered = [dim for dim, n in enumerate(self._categories) if not n]
        features = self._features(points)
        self._mean = float(rewards.mean())
        gram = features.T @ features
        gram[np.diag_indices_from(gram)] += _RIDGE
        self._weights = np.linalg.solve(gram, features.T @ (rewards - self._mean))
        residuals = rewards - self.predict(points)
        freedom = max(len(rewards) - len(self._weights), 1)
        self.std = float(np.sqrt(np.sum(residuals**2) / freedom))

    @staticmethod
    def n_trials_needed(n_dims: int) -> int:
        """Return the number of trials below which the model says nothing."""
        return 3 * n_dims + 5

    def predict(self, points: FloatArray) -> FloatArray:
        """Return the expected reward at each point."""
        predicted: FloatArray = self._mean + self._features(points) @ self._weights
        return predicted

    def _features(self, points: FloatArray) -> FloatArray:
        z = 2 * points[:, self._ordered] - 1
        one_hot = [
            np.floor(points[:, dim, None] * n) == np.arange(n)
            for dim, n in enumerate(self._categories)
            if n
        ]
        return np.concatenate([z, z * z - 1 / 3, *one_hot], axis=1)  # both orthogonal to 1
