"""What trials near each other tell about each other: a small Gaussian process.

Under noise the best of many trials are mostly the luckiest ones. So the value at a trial is
estimated from its neighbourhood. How far a neighbour counts, and how much of the spread is noise,
is read off the data; without noise the estimate is the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._policy import FloatArray


LENGTHS = (0.5, 1.0, 2.5, 6.0, 16.0)
NOISES = (1e-6, 1e-3, 0.03, 0.3, 2.0, 10.0)
# Trials closer than this, in spreads of the candidates (root mean square over the parameters) and
# with the same categories, are in the same place and support each other.
_SAME_PLACE = 0.5
# Two categories are as far apart as this many spreads.
_CATEGORY_DISTANCE = 2.0


class Process:
    """A Gaussian process with Matern 5/2 kernel, averaged over its settings.

    The bias of a trial is itself smooth: what is biased in one place is so nearby, and many
    biased trials together are as wrong as one. It is a second process with the same kernel, as
    large as zeta says.

    Every pair of length scale and noise counts with its marginal likelihood (the level and the
    scale of the values are integrated out). Where the data do not tell two settings apart, the
    estimate is as uncertain as they differ.

    Args:
        points:
            Positions in the unit cube, one row per trial; NaN where it is not known.
        values:
            Their values.
        bias:
            By how much each may be off for its fidelity.
        usable:
            Which of the trials may tell about the candidates.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        candidates:
            The trials to be estimated.
        n_neighbours:
            How many trials, the candidates among them, tell about them: the nearest.
        lengths, noises:
            Length scales in units of the candidates' own spread, and shares of noise, to choose
            from.

    Attributes:
        mean, std:
            The estimate of each candidate, and its standard deviation.
        is_near:
            Whether a candidate (row) and a trial (column, the candidates first) are in the same
            place.
    """

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        bias: FloatArray,
        usable: NDArray[np.bool_],
        categories: Sequence[int],
        *,
        candidates: NDArray[np.intp],
        n_neighbours: int,
        lengths: Sequence[float] = LENGTHS,
        noises: Sequence[float] = NOISES,
    ) -> None:
        rows = _neighbourhood(points, usable, candidates, n_neighbours)
        points, values, bias = points[rows], values[rows], bias[rows]
        n, n_candidates = len(rows), len(candidates)
        relative = bias / max(float(values.std()), 1e-300)
        with_bias = 1 + np.outer(relative, relative)
        spread = np.maximum(points[:n_candidates].std(axis=0), 1e-3)
        unordered = np.array(categories[: points.shape[1]], dtype=int) > 0
        squares = np.zeros((n, n))
        differ = np.zeros((n, n))  # in how many categories
        for x, width, is_category in zip(points.T, spread, unordered):
            gap = x[:, None] - x[None, :]
            if is_category:
                differ += gap != 0
            else:
                squares += (gap / width) ** 2
        distance = np.sqrt(squares + _CATEGORY_DISTANCE**2 * differ)
        n_ordered = max(int(np.count_nonzero(~unordered)), 1)
        near = (squares <= _SAME_PLACE**2 * n_ordered) & (differ == 0)
        self.is_near: NDArray[np.bool_] = near[:n_candidates]
        eye, ones = np.eye(n), np.ones(n)
        settings = []
        for length in lengths:
            kernel = _matern(distance / length)
            cross = kernel[:n_candidates]
            covariances = kernel * with_bias + np.multiply.outer(noises, eye)
            # Inverted and not decomposed: for an eigendecomposition of this size BLAS starts
            # threads, which are slower by orders of magnitude where cores are busy.
            inverses = np.linalg.inv(covariances)
            for inverse, log_det in zip(inverses, np.linalg.slogdet(covariances)[1]):
                sums = inverse @ ones
                precision = max(float(sums.sum()), 1e-300)  # of the level
                level = float(sums @ values) / precision
                rest = values - level
                weights = inverse @ rest
                scale = max(float(rest @ weights) / max(n - 1, 1), 1e-300)
                likelihood = -0.5 * (log_det + np.log(precision) + (n - 1) * np.log(scale))
                mean = level + cross @ weights
                projected = cross @ inverse
                variance = 1 - (projected * cross).sum(axis=1)
                variance += (1 - projected @ ones) ** 2 / precision
                settings.append((likelihood, mean, scale * np.maximum(variance, 0.0)))
        top = max(likelihood for likelihood, *_ in settings)
        share = np.exp([likelihood - top for likelihood, *_ in settings])
        share /= share.sum()
        means = np.array([mean for _, mean, _ in settings])
        variances = np.array([variance for _, _, variance in settings])
        self.mean: FloatArray = share @ means
        self.std: FloatArray = np.sqrt(share @ (variances + (means - self.mean) ** 2))


def _neighbourhood(
    points: FloatArray,
    usable: NDArray[np.bool_],
    candidates: NDArray[np.intp],
    n_neighbours: int,
) -> NDArray[np.intp]:
    """Return the candidates, and then the usable trials nearest to them, good or bad.

    Only the best ones would be only the lucky ones.
    """
    spread = np.maximum(points[candidates].std(axis=0), 1e-3)
    scaled = points / spread
    gaps = np.full(len(points), np.inf)
    for i in candidates:
        gaps = np.minimum(gaps, ((scaled - scaled[i]) ** 2).sum(axis=1))
    gaps[candidates] = -1.0
    gaps[np.isnan(gaps) | ~usable] = np.inf
    nearest = np.argsort(gaps, kind="stable")[: max(n_neighbours, len(candidates))]
    others = nearest[np.isfinite(gaps[nearest]) & (gaps[nearest] >= 0)]
    return np.concatenate([candidates, others])


def _matern(distance: FloatArray) -> FloatArray:
    r = np.sqrt(5.0) * distance
    kernel: FloatArray = (1 + r + r * r / 3) * np.exp(-r)
    return kernel
