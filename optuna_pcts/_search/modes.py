"""Points in groups that lie apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


def modes_of(
    points: FloatArray, slots: FloatArray, ordered: NDArray[np.intp], apart: float
) -> list[FloatArray]:
    """Return points in groups that lie apart, along a parameter or where they differ most.

    Args:
        points:
            Positions in the unit cube, one row each.
        slots:
            For each axis the width of the slot of one value, or 0 if it is continuous.
        ordered:
            The axes that have an order.
        apart:
            Groups lie apart if the gap between them is so many times as wide as they spread.
    """
    if len(points) < 3 or not len(ordered):
        return [points]
    unit = np.maximum(points[:, ordered].std(axis=0), 1e-9)
    scaled = (points[:, ordered] - points[:, ordered].mean(axis=0)) / unit
    main = np.linalg.svd(scaled, full_matrices=False)[2][0]
    lines = np.column_stack([scaled, scaled @ main])
    widest, parts = apart, None
    for x, slot in zip(lines.T, np.append(slots[ordered] / unit, 0.0)):
        order = np.argsort(x, kind="stable")
        k = int(np.argmax(np.diff(x[order]))) + 1
        halves = x[order[:k], None], x[order[k:], None]
        gap = (x[order[k]] - x[order[k - 1]]) / max(std_within(halves)[0], slot, 1e-9)
        if gap > widest:
            widest, parts = gap, (np.sort(order[:k]), np.sort(order[k:]))
    if parts is None:
        return [points]
    return [mode for part in parts for mode in modes_of(points[part], slots, ordered, apart)]


def std_within(groups: Sequence[FloatArray]) -> FloatArray:
    """Return the standard deviation along each axis from the means of the groups."""
    squares = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups)
    std: FloatArray = np.sqrt(squares / sum(map(len, groups)))
    return std


def far_apart(points: FloatArray, first: FloatArray, count: int) -> FloatArray:
    """Return so many of the points, each as far as can be from those before it and a first one."""
    gaps = ((points - first) ** 2).sum(axis=1)
    chosen = []
    for _ in range(min(count, len(points))):
        chosen.append(int(np.argmax(gaps)))
        gaps = np.minimum(gaps, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen]
