"""Where the best point may be, as a normal distribution."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.places import reflected


class SearchDistribution:
    """A normal distribution over where the best point may be, fitted to good points.

    Args:
        points:
            Positions in the unit cube, one row each.
        slots:
            Width of the slot of one value on each axis. The distribution never gets so narrow
            that a neighbouring value is out of reach.
        weights:
            How much each of them counts; all the same by default.

    Attributes:
        std:
            Its standard deviation along each axis.
        face, on_face:
            For each axis the face of the cube, 0 or 1, that more of the points lie on, and their
            share.
    """

    def __init__(
        self, points: FloatArray, slots: FloatArray, weights: FloatArray | None = None
    ) -> None:
        size, n_dims = points.shape
        self._hold(points, np.ones(size) if weights is None else weights)
        shift = (self._points - self._mean) * np.sqrt(self._weights)[:, None]
        covariance = shift.T @ shift
        # Few points say little about how two parameters go together.
        trust = size / (size + n_dims)
        variance = np.diag(covariance)
        covariance = trust * covariance + (1 - trust) * np.diag(variance)
        floor = np.maximum((slots / 2) ** 2, 1e-12 + 1e-9 * variance.sum())
        covariance[np.diag_indices(n_dims)] += np.maximum(floor - variance, 1e-9 * floor)
        self._factor = np.linalg.cholesky(covariance)
        self.std: FloatArray = np.sqrt(np.diag(covariance))

    def _hold(self, points: FloatArray, weights: FloatArray) -> None:
        self._points = points
        self._weights = weights / weights.sum()
        self._mean = self._weights @ points
        on_low, on_high = (points == 0).mean(axis=0), (points == 1).mean(axis=0)
        self.face: FloatArray = np.where(on_high > on_low, 1.0, 0.0)
        self.on_face: FloatArray = np.maximum(on_low, on_high)

    def moved_to(self, point: FloatArray) -> SearchDistribution:
        """Return the same distribution around one point."""
        moved = copy.copy(self)
        moved._hold(point[None, :], np.ones(1))
        return moved

    def gap(self, points: FloatArray) -> FloatArray:
        """Return how far away points are, in standard deviations (root mean square)."""
        gaps: FloatArray = np.sqrt((((points - self._mean) / self.std) ** 2).mean(axis=1))
        return gaps

    def steps(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw so many steps from the mean (size, axes)."""
        drawn: FloatArray = rng.standard_normal((size, len(self._mean))) @ self._factor.T
        return drawn

    def draw(self, rng: np.random.Generator, width: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Draw a point of the cube, so many times as wide, and one of those it was fitted to."""
        # Reflected at the faces of the cube: clipped, many points would be the same corner.
        point = reflected(self._mean + width * self.steps(1, rng)[0])
        return point, self._points[rng.choice(len(self._points), p=self._weights)]

    def cloud(
        self, size: int, width: float, rng: np.random.Generator, unordered: NDArray[np.intp]
    ) -> FloatArray:
        """Return the points it is fitted to and others around them, some on faces of the cube."""
        points = np.clip(self._mean + width * self.steps(size, rng), 0.0, 1.0)
        donors = self._points[rng.choice(len(self._points), size, p=self._weights)]
        points[:, unordered] = donors[:, unordered]
        return np.concatenate([self._points, points])
