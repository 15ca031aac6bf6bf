"""Kernels: the correlation of two values, by the distance of their points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optuna_pcts._arrays import FloatArray


# Of distances r in length scales; the result has the same shape.
Kernel = Callable[[FloatArray], FloatArray]


def matern(distance: FloatArray) -> FloatArray:
    """Return the Matern 5/2 kernel, of functions with two derivatives.

    k(r) = (1 + s + s^2 / 3) exp(-s), s = sqrt(5) r
    """
    s = np.sqrt(5.0) * distance
    # In place: most of the time would go into allocating memory.
    kernel: FloatArray = s * s
    kernel /= 3
    kernel += 1 + s
    np.negative(s, out=s)
    kernel *= np.exp(s, out=s)
    return kernel


def matern_slope(distance: FloatArray) -> FloatArray:
    """Return the derivative of the Matern kernel by r^2 / 2: -5/3 (1 + s) exp(-s)."""
    s = np.sqrt(5.0) * distance
    slope: FloatArray = -5 / 3 * (1 + s) * np.exp(-s)
    return slope


def gaussian(distance: FloatArray) -> FloatArray:
    """Return the squared exponential kernel, of infinitely smooth functions: exp(-r^2 / 2)."""
    kernel: FloatArray = np.exp(-0.5 * distance**2)
    return kernel


# The derivative of each kernel by r^2 / 2: it needs no division by r, which may be 0.
SLOPES: dict[Kernel, Kernel] = {matern: matern_slope, gaussian: lambda d: -gaussian(d)}
