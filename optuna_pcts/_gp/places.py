"""Points embedded for the kernel: ordered coordinates and categories."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.linalg import product
from optuna_pcts._tree.prior import slots_at


@dataclass(frozen=True)
class Places:
    """Embedded points, a row each: ordered parameters first, then the categories.

    A category is a corner of a simplex: all categories of a parameter are equally far from each
    other. It is stored as a number, not as one coordinate per corner: there may be hundreds.
    """

    ordered: FloatArray  # coordinates, in spreads
    codes: NDArray[np.intp]  # of the categories; no two parameters have a code in common
    apart: FloatArray  # how far apart two categories of each parameter are
    n_codes: int

    def __len__(self) -> int:
        return len(self.ordered)

    def __getitem__(self, rows: NDArray[np.intp]) -> Places:
        return replace(self, ordered=self.ordered[rows], codes=self.codes[rows])

    def __mul__(self, weights: FloatArray) -> Places:
        """Return the places with each column multiplied by its ARD weight."""
        n = self.ordered.shape[1]
        return replace(self, ordered=self.ordered * weights[:n], apart=self.apart * weights[n:])

    @property
    def n_coordinates(self) -> int:
        """Number of ordered coordinates and of corners."""
        return int(self.ordered.shape[1]) + self.n_codes

    def along(self, vectors: FloatArray) -> FloatArray:
        """Return the inner products with vectors (n_coordinates, m), a column each."""
        n = self.ordered.shape[1]
        far: FloatArray = product(self.ordered, vectors[:n])
        for codes, apart in zip(self.codes.T, self.apart):
            far += apart / np.sqrt(2) * vectors[n + codes]
        return far

    def columns(self, length: float) -> list[Places]:
        """Return the places along each column alone, in units of a length."""
        n_ordered, n_unordered = self.ordered.shape[1], len(self.apart)
        cuts = [(slice(i, i + 1), slice(0, 0)) for i in range(n_ordered)]
        cuts += [(slice(0, 0), slice(i, i + 1)) for i in range(n_unordered)]
        ordered, apart = self.ordered / length, self.apart / length
        return [Places(ordered[:, i], self.codes[:, j], apart[j], self.n_codes) for i, j in cuts]


class Embedding:
    """From points of the cube to places.

    Args:
        points:
            The trials. Categories that none of them has share one code: they are equally far from
            every trial, and may be many more than the trials.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        spread:
            The unit of each axis.
        category_distance:
            How far apart two categories are.

    Attributes:
        spread:
            The unit of each axis.
        is_ordered:
            Whether each axis has an order.
    """

    def __init__(
        self,
        points: FloatArray,
        categories: NDArray[np.intp],
        spread: FloatArray,
        category_distance: float,
    ) -> None:
        self.spread = spread
        self._category_distance = category_distance
        self.is_ordered: NDArray[np.bool_] = categories == 0
        self._codes = _codes(points, categories)

    def __call__(self, points: FloatArray) -> Places:
        """Return points as places."""
        codes = [
            codes[slots_at(points[:, axis], len(codes))]
            for axis, codes in zip(np.flatnonzero(~self.is_ordered), self._codes)
        ]
        return Places(
            (points / self.spread)[:, self.is_ordered],
            np.array(codes, dtype=int).reshape(len(codes), len(points)).T,
            np.full(len(codes), self._category_distance),
            max((int(codes.max()) + 1 for codes in self._codes), default=0),
        )


def _codes(points: FloatArray, categories: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the code of each category, of each parameter that has some."""
    codes, n_codes = [], 0
    for x, n in zip(points.T, categories):
        if n:
            seen = np.zeros(n, dtype=bool)
            seen[slots_at(x, n)] = True
            some = np.where(seen, np.cumsum(seen) - 1, np.count_nonzero(seen))
            codes.append(n_codes + some)
            n_codes += int(some.max()) + 1
    return codes


def squared_distances(a: Places, b: Places) -> tuple[FloatArray, FloatArray]:
    """Return squared distances (len(a), len(b)): of ordered parameters, and of categories."""
    ordered, unordered = np.zeros((2, len(a), len(b)))
    for x, y in zip(a.ordered.T, b.ordered.T):
        ordered += (x[:, None] - y[None, :]) ** 2
    for x, y, apart in zip(a.codes.T, b.codes.T, a.apart):
        unordered += (x[:, None] != y[None, :]) * apart**2
    return ordered, unordered


def distances(a: Places, b: Places) -> FloatArray:
    """Return the distances r (len(a), len(b))."""
    ordered, unordered = squared_distances(a, b)
    return np.sqrt(ordered + unordered)


def spread_of(points: FloatArray) -> FloatArray:
    """Return the standard deviation along each axis, and at least a thousandth of the cube."""
    spread: FloatArray = np.maximum(points.std(axis=0), 1e-3)
    return spread


def some_of_each_distance(
    points: FloatArray, candidates: NDArray[np.intp], count: int
) -> NDArray[np.intp]:
    """Return so many of the points, spread evenly over their distances from the candidates.

    The nearest ones alone would differ by little else than noise. The candidates, whose values
    are biased by selection, are not over-represented.
    """
    scaled = points / spread_of(points[candidates])
    gaps = np.full(len(points), np.inf)
    for i in candidates:
        gaps = np.minimum(gaps, ((scaled - scaled[i]) ** 2).sum(axis=1))
    order: NDArray[np.intp] = np.argsort(gaps, kind="stable")
    if len(order) > count:
        order = order[np.linspace(0, len(order) - 1, count).astype(int)]
    return order


def reflected(points: FloatArray) -> FloatArray:
    """Return points reflected into the cube at its faces."""
    inside: FloatArray = 1 - np.abs(1 - points % 2)
    return inside
