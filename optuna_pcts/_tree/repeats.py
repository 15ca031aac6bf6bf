"""What it tells to evaluate a point once more.

A sensor that fails, or a run that ends too soon, may report what is far better than the objective
can be. One such value must not set the scale of the rewards, nor be the answer. But a needle in a
haystack looks the same. And a rugged function looks like a smooth one with noise. To ask the same
point once more tells them apart, and costs one trial.
"""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


# Only so large a part of the values can be outliers, and only of so many.
_SHARE = 0.1
_LEAST_TRIALS = 8
# Values are outliers if the gap below them is so many times as wide as the best of the others is
# above the median.
_GAP = 2.0
# Points are as good as the same if they are no further apart along any side of the cube.
_NEAR = 0.01
# Of the standard normal distribution.
_NINE_IN_TEN = 1.2816


def places_of(points: FloatArray, tolerance: Sequence[float] | FloatArray) -> NDArray[np.intp]:
    """Return the number of each point's place: points that are the same have the same one.

    Those that lack the same coordinates may be the same; nobody knows it of those that lack all.
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
    """Return values without outliers, and which of them were some.

    Args:
        values:
            Larger is better; all finite.
        places:
            Values of the same place are of the same point: if two of them are as good, they are
            believed.

    Returns:
        The values, those that are not believed as good as the best of the others; and whether
        each of them is not believed.
    """
    if len(values) < _LEAST_TRIALS:
        return values, np.zeros(len(values), dtype=bool)
    n_most = int(len(values) * _SHARE)
    order = np.argsort(-values, kind="stable")[: n_most + 1]
    halves = values[order] / 2  # the range of floats is larger than a float can be
    median = float(np.median(values / 2))
    for k in range(n_most, 0, -1):
        above = halves[k] - median  # where most are equal, nothing says what is far
        is_apart = halves[k - 1] - halves[k] > _GAP * above > 0
        if is_apart and len(np.unique(places[order[:k]])) == k:
            is_outlier = values > values[order[k]]
            return np.minimum(values, values[order[k]]), is_outlier
    return values, np.zeros(len(values), dtype=bool)


def repeats_of(places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of trials of the same place, from the number of each one's place."""
    order = np.argsort(places, kind="stable")
    is_repeat = places[order][1:] == places[order][:-1]
    return order[1:][is_repeat], order[:-1][is_repeat]


def neighbours_of(points: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of trials that are nearly in the same place, each trial in one at most.

    What makes a difference so near is as good as noise.
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
    """Return how much of what a model does not explain is there if it is evaluated again.

    Args:
        unexplained:
            Variance of what it does not explain, which it takes for noise.
        differences:
            Differences between two values of the same point.

    Returns:
        At least this share is real, with a probability of nine in ten. None if there are none.
    """
    n = len(differences)
    if not n:
        return None
    # The largest variance that they may well come from (Wilson and Hilferty).
    quantile = n * (1 - 2 / (9 * n) - _NINE_IN_TEN * math.sqrt(2 / (9 * n))) ** 3
    noise = float((differences**2).sum()) / 2 / quantile
    return max(1 - noise / max(unexplained, 1e-300), 0.0)
