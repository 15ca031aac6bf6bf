"""Outliers, and what replicates (evaluations of the same point) say about noise.

A sensor that fails, or a run that ends too soon, may report a value far better than the objective
can be. It must not set the scale of the rewards, nor be the answer. But a narrow optimum looks the
same, and a rugged function looks like a smooth one with noise. One replicate tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


# At most this share of the values are outliers, and none of fewer trials than this.
_SHARE = 0.1
_LEAST_TRIALS = 8
# Values are outliers if the gap below them is so many times the distance from the median to the
# best of the others.
_GAP = 2.0
# Points count as replicates if they are no further apart along any axis of the cube.
_NEAR = 0.01
# The 0.9 quantile of the standard normal distribution.
_NINE_IN_TEN = 1.2816


def places_of(points: FloatArray, tolerance: Sequence[float] | FloatArray) -> NDArray[np.intp]:
    """Return the number of each point's place: equal points have the same number.

    Points that lack the same coordinates may be equal; those that lack all are all different.
    """
    unit = np.maximum(np.asarray(tolerance, dtype=float), 1e-12) * 4
    is_unknown = np.isnan(points)
    rounded = np.round(np.where(is_unknown, -1.0, points) / unit)
    _, place = np.unique(rounded, axis=0, return_inverse=True)
    numbers: NDArray[np.intp] = np.asarray(place, dtype=np.intp).reshape(len(points))
    nowhere = is_unknown.any(axis=1) & is_unknown.all(axis=1)
    numbers[nowhere] = len(points) + np.arange(np.count_nonzero(nowhere))
    return numbers


def believable(
    values: FloatArray, places: NDArray[np.intp]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return values with outliers replaced, and which of them were outliers.

    Args:
        values:
            Larger is better; all finite.
        places:
            The place of each value: two equally good values of the same place are no outliers.

    Returns:
        The values, with outliers replaced by the best of the others; and whether each of them is
        an outlier.
    """
    if len(values) < _LEAST_TRIALS:
        return values, np.zeros(len(values), dtype=bool)
    n_most = int(len(values) * _SHARE)
    order = np.argsort(-values, kind="stable")[: n_most + 1]
    halves = values[order] / 2  # against overflow
    median = float(np.median(values / 2))
    for k in range(n_most, 0, -1):
        above = halves[k] - median  # 0 where most are equal: then there is no scale
        is_apart = halves[k - 1] - halves[k] > _GAP * above > 0
        if is_apart and len(np.unique(places[order[:k]])) == k:
            is_outlier = values > values[order[k]]
            return np.minimum(values, values[order[k]]), is_outlier
    return values, np.zeros(len(values), dtype=bool)


def repeats_of(places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of trials of the same place."""
    order = np.argsort(places, kind="stable")
    is_repeat = places[order][1:] == places[order][:-1]
    return order[1:][is_repeat], order[:-1][is_repeat]


def neighbours_of(points: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of trials that are nearly in the same place, each trial in one at most.

    Differences of the objective over so short a distance count as noise.
    """
    n = len(points)
    gaps = np.zeros((n, n))
    for x in points.T:
        np.maximum(gaps, np.abs(x[:, None] - x), out=gaps)
    first, second = np.nonzero(np.triu(gaps <= _NEAR, 1))
    is_free = np.ones(n, dtype=bool)
    pairs = []
    for k in np.argsort(gaps[first, second], kind="stable"):
        i, j = first[k], second[k]
        if is_free[i] and is_free[j]:
            is_free[i] = is_free[j] = False
            pairs.append((i, j))
    both = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def real_share(unexplained: float, differences: FloatArray) -> float | None:
    """Return the share of a model's residual variance that is reproducible, not noise.

    Args:
        unexplained:
            Residual variance of the model, which it takes for noise.
        differences:
            Differences between the two values of each pair of replicates.

    Returns:
        A lower bound of the share with a confidence of 90 %; None without replicates.
    """
    n = len(differences)
    if not n:
        return None
    # Upper confidence bound of the noise variance (chi-square quantile by Wilson and Hilferty).
    quantile = n * (1 - 2 / (9 * n) - _NINE_IN_TEN * math.sqrt(2 / (9 * n))) ** 3
    noise = float((differences**2).sum()) / 2 / quantile
    return max(1 - noise / max(unexplained, 1e-300), 0.0)
