"""Local asks: points drawn around the best trials so far, for a share of the asks.

A tree of cells finds the right region and then narrows it one side at a time. A normal
distribution fitted to the best trials narrows all sides at once, along whatever direction the
objective is flat. Its points are located in the tree like any other trial's, so the statistics
stay those of the cells; the rest of the asks keeps the tree's guarantee, at a fixed share of its
trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._policy import FloatArray
from optuna_pcts._tree import Checkpoint
from optuna_pcts._tree import Tree


# The trials that the distribution is fitted to: the best eighth, at least two per parameter.
_ELITE_SHARE = 1 / 8
_ELITE_PER_DIM = 2
# It is fitted anew when the number of trials has grown by this factor.
_GROWTH = 33 / 32


class LocalSearch:
    """Draws points around the best trials of a tree."""

    def __init__(self, tree: Tree, categories: Sequence[int]) -> None:
        self._tree = tree
        self._n_needed = _ELITE_PER_DIM * len(categories)
        self._unordered = np.array(categories) > 0
        self._checkpoint = Checkpoint(_GROWTH)
        self._fitted_to = (0, 0)
        self._elite: Elite | None = None

    def draw(self, rng: np.random.Generator) -> list[float] | None:
        """Return a point of the cube, or None while there are too few trials to go by."""
        reference = self._tree.reference(self._checkpoint)
        if reference != self._fitted_to:
            self._fitted_to = reference
            points, values = self._tree.told(reference[0])
            self._elite = Elite(points, values) if len(points) >= self._n_needed else None
        return None if self._elite is None else self._elite.draw(rng, self._unordered)


class Elite:
    """A normal distribution over the best points.

    Args:
        points:
            Positions in the unit cube, one row per trial.
        values:
            Their values; larger is better.
    """

    def __init__(self, points: FloatArray, values: FloatArray) -> None:
        n, n_dims = points.shape
        size = min(n, max(int(n * _ELITE_SHARE), _ELITE_PER_DIM * n_dims))
        best = np.argsort(-values, kind="stable")[:size]
        self._points = points[best]
        weights = np.log(size + 0.5) - np.log(np.arange(1, size + 1))
        self._weights = weights / weights.sum()
        self._mean = self._weights @ self._points
        shift = (self._points - self._mean) * np.sqrt(self._weights)[:, None]
        covariance = shift.T @ shift
        # Few points say little about how two parameters go together.
        trust = size / (size + n_dims)
        covariance = trust * covariance + (1 - trust) * np.diag(np.diag(covariance))
        covariance[np.diag_indices(n_dims)] += 1e-12 + 1e-9 * np.trace(covariance)
        self._factor = np.linalg.cholesky(covariance)

    def draw(self, rng: np.random.Generator, unordered: NDArray[np.bool_]) -> list[float]:
        """Draw a point of the cube; an unordered coordinate is that of one of the best."""
        point = self._mean + self._factor @ rng.standard_normal(len(self._mean))
        # Reflected at the faces of the cube: clipped, many points would be the same corner.
        point = np.clip(1 - np.abs(1 - np.abs(point)), 0.0, 1.0)
        donor = self._points[rng.choice(len(self._points), p=self._weights)]
        drawn: list[float] = np.where(unordered, donor, point).tolist()
        return drawn
