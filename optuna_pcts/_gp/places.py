"""Points embedded for the kernel: ordered coordinates and categories."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.linalg import product
from optuna_pcts._tree.prior import slots_at


# Whether each axis exists at each of some points; None if all always do.
Active = Callable[[FloatArray], NDArray[np.bool_] | None]


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
        active:
            Whether each axis exists at each of some points; None if all always do.
        fill:
            The coordinate that stands where an axis does not exist. Not having a category is one
            more category.
        used:
            Which axes count; by default all.

    Attributes:
        spread:
            The unit of each axis.
        is_ordered:
            Whether each axis counts and has an order.
    """

    def __init__(
        self,
        points: FloatArray,
        categories: NDArray[np.intp],
        spread: FloatArray,
        category_distance: float,
        active: Active | None = None,
        fill: FloatArray | None = None,
        used: NDArray[np.bool_] | None = None,
    ) -> None:
        self.spread = spread
        self._category_distance = category_distance
        if used is None:
            used = np.ones(len(categories), dtype=bool)
        self.is_ordered: NDArray[np.bool_] = (categories == 0) & used
        self._active, self._fill = active, fill
        self._unordered = np.flatnonzero((categories > 0) & used).tolist()
        self._sizes = categories[self._unordered].tolist()
        self._codes = _codes(points, self._unordered, self._sizes, self.active(points))

    @property
    def n_columns(self) -> int:
        """Number of axes that count."""
        return int(np.count_nonzero(self.is_ordered)) + len(self._unordered)

    def active(self, points: FloatArray) -> NDArray[np.bool_] | None:
        """Return whether each axis exists at each point; None if all always do."""
        return None if self._active is None else self._active(points)

    def filled(self, points: FloatArray) -> FloatArray:
        """Return points with the same coordinate for all that do not have it."""
        active = self.active(points)
        if active is None:
            return points
        assert self._fill is not None
        return np.where(active | ~self.is_ordered, points, self._fill)

    def __call__(self, points: FloatArray) -> Places:
        """Return points as places."""
        active = self.active(points)
        points = self.filled(points)
        codes = [
            codes[_slots(points, axis, n, active)]
            for axis, n, codes in zip(self._unordered, self._sizes, self._codes)
        ]
        return Places(
            (points / self.spread)[:, self.is_ordered],
            np.array(codes, dtype=int).reshape(len(codes), len(points)).T,
            np.full(len(codes), self._category_distance),
            max((int(codes.max()) + 1 for codes in self._codes), default=0),
        )


def _slots(
    points: FloatArray, axis: int, n: int, active: NDArray[np.bool_] | None
) -> NDArray[np.intp]:
    """Return which category points have along an axis; one more than there are if none."""
    slots = slots_at(points[:, axis], n)
    return slots if active is None else np.where(active[:, axis], slots, n)


def _codes(
    points: FloatArray,
    unordered: Sequence[int],
    sizes: Sequence[int],
    active: NDArray[np.bool_] | None,
) -> list[NDArray[np.intp]]:
    """Return the code of each category, of each parameter that has some, and of having none."""
    codes, n_codes = [], 0
    for axis, n in zip(unordered, sizes):
        seen = np.zeros(n + (active is not None), dtype=bool)
        seen[_slots(points, axis, n, active)] = True
        some = np.where(seen, np.cumsum(seen) - 1, np.count_nonzero(seen))
        codes.append(n_codes + some)
        n_codes += int(some.max()) + 1
    return codes


def squared_distances(a: Places, b: Places) -> tuple[FloatArray, FloatArray]:
    """Return squared distances (len(a), len(b)): of ordered parameters, and of categories."""
    ordered, unordered, gap = np.zeros((3, len(a), len(b)))
    for x, y in zip(a.ordered.T, b.ordered.T):
        np.subtract.outer(x, y, out=gap)
        gap *= gap
        ordered += gap
    for x, y, apart in zip(a.codes.T, b.codes.T, a.apart):
        unordered += (x[:, None] != y[None, :]) * apart**2
    return ordered, unordered


def distances(a: Places, b: Places) -> FloatArray:
    """Return the distances r (len(a), len(b))."""
    ordered, unordered = squared_distances(a, b)
    return np.sqrt(ordered + unordered)


def spread_of(points: FloatArray, active: NDArray[np.bool_] | None = None) -> FloatArray:
    """Return the standard deviation along each axis, and at least a thousandth of the cube.

    It is that of the points where the axis exists; where it exists at one of them at most, it is
    that of a point anywhere.
    """
    if active is None:
        spread: FloatArray = np.maximum(points.std(axis=0), 1e-3)
        return spread
    mean = mean_of(points, active)
    n = active.sum(axis=0)
    variance = np.where(active, (points - mean) ** 2, 0.0).sum(axis=0) / np.maximum(n, 1)
    spread = np.where(n > 1, np.maximum(np.sqrt(variance), 1e-3), np.sqrt(1 / 12))
    return spread


def mean_of(points: FloatArray, active: NDArray[np.bool_]) -> FloatArray:
    """Return the mean along each axis of the points where it exists; the middle if none."""
    n = active.sum(axis=0)
    mean: FloatArray = np.where(
        n > 0, np.where(active, points, 0.0).sum(axis=0) / np.maximum(n, 1), 0.5
    )
    return mean


def some_of_each_distance(
    points: FloatArray, candidates: NDArray[np.intp], spread: FloatArray, count: int
) -> NDArray[np.intp]:
    """Return so many of the points, spread evenly over their distances from the candidates.

    The nearest ones alone would differ by little else than noise. The candidates, whose values
    are biased by selection, are not over-represented.
    """
    scaled = points / spread
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
