"""The Gaussian process with one choice of kernel, length scale, noise and ARD weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.kernels import Kernel
from optuna_pcts._gp.linalg import product
from optuna_pcts._gp.linalg import whitening


class Choice(NamedTuple):
    """Hyperparameters of a process."""

    ard: int  # index of the ARD weights: the first are the same for all columns
    kernel: Kernel
    length: float
    noise: float


class Setting:
    """The process with one choice. The level and the scale of the values are integrated out.

    Args:
        choice:
            The choice.
        covariance:
            K, that of the values at the trials, in units of the unknown variance.
        values:
            y.

    Attributes:
        level, scale:
            mu and sigma^2: most likely mean and variance of the process.
        sums, weights:
            u and a.
        precision:
            That of the level: 1' u.
        likelihood:
            The logarithm of the marginal likelihood, up to a constant.
    """

    def __init__(self, choice: Choice, covariance: FloatArray, values: FloatArray) -> None:
        self.choice = choice
        self._whitening, log_det = whitening(covariance)
        n = len(values)
        self.sums = self.solve(np.ones((n, 1)))[:, 0]
        self.precision = max(float(self.sums.sum()), 1e-300)
        self.level = float(self.sums @ values) / self.precision
        rest = values - self.level
        self.weights = self.solve(rest[:, None])[:, 0]
        self.scale = max(float(rest @ self.weights) / max(n - 1, 1), 1e-300)
        self.likelihood = -0.5 * (log_det + np.log(self.precision) + (n - 1) * np.log(self.scale))

    def solve(self, columns: FloatArray) -> FloatArray:
        """Return K^-1 times some columns: W' (W c)."""
        return product(self._whitening.T, product(self._whitening, columns))

    def left_out(self) -> FloatArray:
        """Return the leave-one-out residual of each value.

        a_i / P_ii, where P = K^-1 - u u' / 1'u (Rasmussen and Williams, 2006, eq. 5.12, with the
        level integrated out).
        """
        precision = (self._whitening**2).sum(axis=0) - self.sums**2 / self.precision
        off: FloatArray = self.weights / np.maximum(precision, 1e-300)
        return off

    def slopes(self) -> FloatArray:
        """Return the derivative of the likelihood by each entry of the covariance (n, n).

        (a a' / sigma^2 - K^-1) / 2 (Rasmussen and Williams, 2006, eq. 5.9), not of the level.
        """
        inverse = product(self._whitening.T, self._whitening)
        return 0.5 * (np.outer(self.weights, self.weights) / self.scale - inverse)

    def estimate(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of points (m,), from their distances (m, n) to the trials.

        mu + k a and sigma^2 (1 - |W k'|^2 + (1 - k u)^2 / 1'u); the last is for the level.
        """
        cross = self.choice.kernel(distance / self.choice.length)
        variance = 1 - (product(self._whitening, cross.T) ** 2).sum(axis=0)
        variance += (1 - cross @ self.sums) ** 2 / self.precision
        return self.level + cross @ self.weights, self.scale * np.maximum(variance, 0.0)


def shares_of(settings: Sequence[Setting]) -> FloatArray:
    """Return the probability of each setting."""
    likelihood = np.array([setting.likelihood for setting in settings])
    shares: FloatArray = np.exp(likelihood - likelihood.max())
    shares /= shares.sum()
    return shares


def noise_of(settings: Sequence[Setting]) -> float:
    """Return the share of the variance that is noise."""
    shares_of_noise = [s.choice.noise / (1 + s.choice.noise) for s in settings]
    return float(shares_of(settings) @ np.array(shares_of_noise))
