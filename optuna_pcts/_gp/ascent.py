"""Gradient ascent from many starts at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optuna_pcts._arrays import FloatArray


def ascend(
    evaluate: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    first_step: FloatArray,
    n_iterations: int,
    *,
    longest: float = np.inf,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> FloatArray:
    """Return the best point on the path from each row of ``start`` (n, d).

    Rprop (Riedmiller and Braun, 1993): along each axis the step grows by a fifth while the slope
    keeps its sign, and is halved when it does not. ``evaluate`` returns values (n,) and slopes
    (n, d).
    """
    here, best, highest = start, start, np.full(len(start), -np.inf)
    step, sign = first_step, np.zeros_like(start)
    for _ in range(n_iterations):
        value, slope = evaluate(here)
        best = np.where((value > highest)[:, None], here, best)
        highest = np.maximum(value, highest)
        step = np.minimum(np.where(np.sign(slope) == -sign, 0.5, 1.2) * step, longest)
        sign = np.sign(slope)
        here = np.clip(here + step * sign, *bounds)
    return best
