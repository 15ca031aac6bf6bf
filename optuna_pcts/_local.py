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

from optuna_pcts._policy import FloatArray
from optuna_pcts._process import Process
from optuna_pcts._tree import Checkpoint
from optuna_pcts._tree import Reference
from optuna_pcts._tree import Tree


# The trials that the distribution is fitted to: the best eighth, two to ten per parameter. More
# would not be local any more in a study that has many trials of others.
_ELITE_SHARE = 1 / 8
_ELITE_PER_DIM = (2, 10)
# How many of the unordered coordinates of a point are drawn from all their values, on average:
# the best trials may all have the same one, and never try another.
_MUTATIONS = 0.5
# How the best are told from the lucky ones: so many of the best values are candidates, so many of
# the trials nearest to them tell about them, with a coarse choice of settings. It is done often.
_N_CANDIDATES = 40
_N_NEIGHBOURS = 64
_LENGTHS = (1.5, 5.0, 16.0)
_NOISES = (1e-6, 0.03, 0.3, 3.0)
# ... where worse than this is all the same: one value far off must not set the scale.
_WORST = -5.0
# It is fitted anew when the number of trials has grown by this factor.
_GROWTH = 33 / 32


class LocalSearch:
    """Draws points around the best trials of a tree.

    Args:
        tree:
            The tree.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        slots:
            For each axis the width of the slot of one value, or 0 if it is continuous.
    """

    def __init__(self, tree: Tree, categories: Sequence[int], slots: Sequence[float]) -> None:
        self._tree = tree
        self._categories = np.array(categories)
        self._slots = np.array(slots)
        self._checkpoint = Checkpoint(_GROWTH)
        self._fitted_to: tuple[Reference, Reference] | None = None
        self._elite: Elite | None = None

    def draw(self, rng: np.random.Generator) -> list[float] | None:
        """Return a point of the cube, or None while there are too few trials to go by."""
        reference = self._tree.reference(self._checkpoint)
        # Which values are the best also depends on what their fidelities are worth.
        fitted_to = (reference, self._tree.learned_from())
        if fitted_to != self._fitted_to:
            self._fitted_to = fitted_to
            points, rewards, bias = self._tree.told(reference.below)
            enough = len(points) >= _ELITE_PER_DIM[0] * len(self._slots)
            self._elite = self._fit(points, rewards, bias) if enough else None
        if self._elite is None:
            return None
        point, donor = self._elite.draw(rng)
        unordered = self._categories > 0
        if unordered.any():
            chance = _MUTATIONS / np.count_nonzero(unordered)
            mutant = rng.random(len(point)) < min(chance, _MUTATIONS / 2)
            point = np.where(unordered, np.where(mutant, rng.random(len(point)), donor), point)
        drawn: list[float] = point.tolist()
        return drawn

    def _fit(self, points: FloatArray, rewards: FloatArray, bias: FloatArray) -> Elite:
        """Fit the distribution to the best trials: those that their neighbours make best.

        Under noise the best values are the luckiest ones, and a distribution fitted to them is as
        wide as the noise, however many trials there are.
        """
        n, n_dims = points.shape
        least, most = (per_dim * n_dims for per_dim in _ELITE_PER_DIM)
        size = min(max(int(n * _ELITE_SHARE), least), most, n)
        # What may be biased is not among the best unless it is clearly better. Of equals the
        # newest: on a plateau the oldest would hold the distribution where it is.
        best = np.lexsort((-np.arange(n), -(rewards - 2 * bias)))
        has_value = rewards > -np.inf
        candidates = best[has_value[best]][: max(min(_N_CANDIDATES, n // 2), size)]
        if len(candidates) < size:
            return Elite(points[best[:size]], self._slots)
        process = Process(
            points,
            np.maximum(rewards, _WORST),
            bias,
            has_value,
            self._categories.tolist(),
            candidates=candidates,
            n_neighbours=_N_NEIGHBOURS,
            lengths=_LENGTHS,
            noises=_NOISES,
        )
        order = np.argsort(-process.mean, kind="stable")[:size]
        return Elite(points[candidates[order]], self._slots)


class Elite:
    """A normal distribution over the best points.

    Args:
        points:
            Positions in the unit cube, one row per trial, best first.
        slots:
            Width of the slot of one value on each axis. The distribution never gets so narrow
            that a neighbouring value is out of reach.
    """

    def __init__(self, points: FloatArray, slots: FloatArray) -> None:
        size, n_dims = points.shape
        self._points = points
        weights = np.log(size + 0.5) - np.log(np.arange(1, size + 1))
        self._weights = weights / weights.sum()
        self._mean = self._weights @ self._points
        shift = (self._points - self._mean) * np.sqrt(self._weights)[:, None]
        covariance = shift.T @ shift
        # Few points say little about how two parameters go together.
        trust = size / (size + n_dims)
        variance = np.diag(covariance)
        covariance = trust * covariance + (1 - trust) * np.diag(variance)
        floor = np.maximum((slots / 2) ** 2, 1e-12 + 1e-9 * variance.sum())
        covariance[np.diag_indices(n_dims)] += np.maximum(floor - variance, 1e-9 * floor)
        self._factor = np.linalg.cholesky(covariance)

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw a point of the cube, and one of the best points."""
        point = self._mean + self._factor @ rng.standard_normal(len(self._mean))
        # Reflected at the faces of the cube: clipped, many points would be the same corner.
        point = np.clip(1 - np.abs(1 - np.abs(point)), 0.0, 1.0)
        return point, self._points[rng.choice(len(self._points), p=self._weights)]
