"""Local asks where some parameters exist in some branches only.

A branch is the set of axes that exist. The process compares points of all branches (along an axis
that one of them lacks it takes the mean of the best ones that have it); but what is drawn is drawn
in one branch, from what is good in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._search.config import LocalSearchConfig


BoolArray = NDArray[np.bool_]


class Branches:
    """The branches that some trials are in.

    Args:
        points:
            Where the trials are, the best first.
        active:
            Which axes exist there.
        config:
            The constants.
    """

    def __init__(self, points: FloatArray, active: BoolArray, config: LocalSearchConfig) -> None:
        self._points, self._active, self._config = points, active, config

    def filled(self, point: FloatArray, known: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Return a point with positions for axes of which nothing is known in its branch.

        They come from one of the best trials that have all or most of them.
        """
        missing = ~known
        if not missing.any():
            return point
        filled = np.where(missing, rng.random(len(point)), point)
        step = self._config.donor_step * rng.standard_normal(len(point))
        if rng.random() < self._config.anywhere:
            return filled
        n_had = self._active[:, missing].sum(axis=1)
        donors = np.flatnonzero(n_had == n_had.max(initial=0))[: self._config.n_donors]
        donor = donors[rng.integers(len(donors))]
        taken = missing & self._active[donor]
        near: FloatArray = np.clip(self._points[donor] + step, 0.0, 1.0)
        return np.where(taken, near, filled)


def in_branches(points: FloatArray, active: BoolArray) -> list[tuple[FloatArray, BoolArray]]:
    """Return points in groups, one for each branch, with the axes that exist there."""
    axes, branch = np.unique(active, axis=0, return_inverse=True)
    branch = branch.reshape(len(points))
    return [(points[branch == i], axes[i]) for i in range(len(axes))]


def around(
    donors: FloatArray,
    weights: FloatArray,
    std: FloatArray,
    size: int,
    rng: np.random.Generator,
    unordered: NDArray[np.intp],
) -> FloatArray:
    """Return donors, and points around them with the same categories, some on faces."""
    chosen = donors[rng.choice(len(donors), size, p=weights / weights.sum())]
    points = np.clip(chosen + std * rng.standard_normal(chosen.shape), 0.0, 1.0)
    points[:, unordered] = chosen[:, unordered]
    return np.concatenate([donors, points])
