"""What to expect of a cell without feedback: an additive model of all feedback so far.

In HOO a cell without feedback has an infinite bound, so every child of a good cell is evaluated.
Here cells share what they know: a constant plus a linear and a quadratic term per parameter (a
term for each category) is fitted to all rewards by ridge regression. It is crude, and need not be
more: it only ranks children without feedback, and the first feedback of a cell replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


# Weight of the ridge, in trials: shrinks terms supported by few trials.
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
        active:
            Whether each parameter exists at each point. One that does not adds nothing. None: all
            always do.
    """

    def __init__(
        self,
        points: FloatArray,
        rewards: FloatArray,
        categories: Sequence[int],
        active: NDArray[np.bool_] | None = None,
    ) -> None:
        self._categories = np.array(categories, dtype=int)
        self._ordered = np.flatnonzero(self._categories == 0)
        # The one with the most categories first.
        unordered = np.argsort(-self._categories, kind="stable")
        self._unordered = unordered[: len(categories) - len(self._ordered)]
        self._mean = float(rewards.mean())
        self._weights, self._by_category = self._fit(points, rewards - self._mean, active)
        residuals = rewards - self.predict(points, active)
        n_weights = len(self._weights) + sum(map(len, self._by_category))
        if active is not None:  # of those that do not exist none is used
            n_weights = round(n_weights * active.mean())
        self.std = float(np.sqrt(np.sum(residuals**2) / max(len(rewards) - n_weights, 1)))

    @staticmethod
    def n_trials_needed(n_dims: int) -> int:
        """Return the number of trials below which the model says nothing."""
        return 3 * n_dims + 5

    def predict(self, points: FloatArray, active: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return the expected reward at each point."""
        predicted: FloatArray = self._mean + self._features(points, active) @ self._weights
        for weights, codes in zip(self._by_category, self._codes(points, active)):
            predicted += np.append(weights, 0.0)[codes]
        return predicted

    def _fit(
        self, points: FloatArray, rest: FloatArray, active: NDArray[np.bool_] | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return the weights of the features, and of each category."""
        codes, sizes = self._codes(points, active), self._categories[self._unordered]
        one_hot = [c[:, None] == np.arange(n) for c, n in zip(codes[1:], sizes[1:])]
        features = np.concatenate([self._features(points, active), *one_hot], axis=1)
        gram, target = features.T @ features, features.T @ rest
        gram[np.diag_indices_from(gram)] += _RIDGE
        if not len(codes):
            return np.linalg.solve(gram, target), []
        # No trial has two of the first parameter's categories: in the equations they stand alone
        # on the diagonal, and are solved for by hand, however many they are.
        n_first = sizes[0] + 1  # the last one stands for where it does not exist
        counts = np.bincount(codes[0], minlength=n_first) + _RIDGE
        sums = np.zeros((n_first, features.shape[1]))
        np.add.at(sums, codes[0], features)
        totals = np.bincount(codes[0], weights=rest, minlength=n_first)
        counts, sums, totals = counts[:-1], sums[:-1], totals[:-1]
        means = sums / counts[:, None]
        weights = np.linalg.solve(gram - sums.T @ means, target - means.T @ totals)
        first = (totals - sums @ weights) / counts
        n = 2 * len(self._ordered)
        others = np.split(weights[n:], np.cumsum(sizes[1:])[:-1]) if len(sizes) > 1 else []
        return weights[:n], [first, *others]

    def _features(self, points: FloatArray, active: NDArray[np.bool_] | None) -> FloatArray:
        z = 2 * points[:, self._ordered] - 1
        features = np.concatenate([z, z * z - 1 / 3], axis=1)  # both orthogonal to 1
        if active is not None:
            features *= np.tile(active[:, self._ordered], 2)
        return features

    def _codes(
        self, points: FloatArray, active: NDArray[np.bool_] | None
    ) -> list[NDArray[np.intp]]:
        """Return which category points have, of each unordered parameter.

        Where it does not exist that is one more than there are.
        """
        codes = [slots_at(points[:, dim], self._categories[dim]) for dim in self._unordered]
        if active is None:
            return codes
        return [
            np.where(active[:, dim], code, self._categories[dim])
            for dim, code in zip(self._unordered, codes)
        ]


def slots_at(x: FloatArray, n: int) -> NDArray[np.intp]:
    """Return which of so many values, in slots of equal width, stands at each position."""
    slots: NDArray[np.intp] = np.minimum((x * n).astype(int), n - 1)
    return slots
