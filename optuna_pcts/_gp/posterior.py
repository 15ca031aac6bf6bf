"""The posterior mean, posterior samples, and their maximizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.ascent import ascend
from optuna_pcts._gp.fit import GaussianProcess
from optuna_pcts._gp.kernels import matern
from optuna_pcts._gp.kernels import SLOPES
from optuna_pcts._gp.linalg import product
from optuna_pcts._gp.places import distances
from optuna_pcts._gp.places import Places
from optuna_pcts._gp.places import reflected
from optuna_pcts._gp.setting import Choice
from optuna_pcts._gp.setting import Setting


class Features(NamedTuple):
    """Prior samples, as sums of p random Fourier features (Rahimi and Recht, 2007).

    f(x) = sum_p amplitude_p cos(frequency_p' x + phase_p)
    """

    frequencies: FloatArray  # (n_coordinates, p): for the rows see :meth:`Places.along`
    phases: FloatArray  # (p,)
    amplitudes: FloatArray  # (p, number of functions)

    @classmethod
    def none(cls, n_coordinates: int) -> Features:
        """Return one function that is 0."""
        return cls(np.zeros((n_coordinates, 0)), np.zeros(0), np.zeros((0, 1)))

    @classmethod
    def draw(
        cls, setting: Setting, n_coordinates: int, p: int, count: int, rng: np.random.Generator
    ) -> Features:
        """Draw so many prior samples of a process."""
        frequencies = rng.standard_normal((n_coordinates, p)) / setting.choice.length
        # The spectrum of the Matern kernel is Student's t, that of the other is normal.
        if setting.choice.kernel is matern:
            frequencies /= np.sqrt(rng.chisquare(5, p) / 5)
        phases = rng.uniform(0, 2 * np.pi, p)
        amplitudes = rng.standard_normal((p, count))
        return cls(frequencies, phases, np.sqrt(2 * setting.scale / p) * amplitudes)

    def values(self, places: Places) -> FloatArray:
        """Return the value at each place (row) of each function (column)."""
        return product(np.cos(places.along(self.frequencies) + self.phases), self.amplitudes)


class Functions:
    """Sums of features, and of kernels around trials; up to a constant, since they are maximized.

    Args:
        choice:
            Kernel and length scale.
        places:
            The trials.
        features:
            The random Fourier features.
        weights:
            The weight of each trial's kernel (row) in each function (column).
    """

    def __init__(
        self, choice: Choice, places: Places, features: Features, weights: FloatArray
    ) -> None:
        self._choice, self._places = choice, places
        self._features, self._weights = features, weights

    @classmethod
    def mean(cls, setting: Setting, places: Places) -> Functions:
        """Return the posterior mean, from the places of the trials."""
        nothing = Features.none(places.n_coordinates)
        return cls(setting.choice, places, nothing, setting.weights[:, None])

    @classmethod
    def draw(
        cls,
        setting: Setting,
        places: Places,
        values: FloatArray,
        relative_bias: FloatArray,
        n_features: int,
        count: int,
        rng: np.random.Generator,
    ) -> Functions:
        """Draw posterior samples by Matheron's rule.

        A prior sample f is corrected by its residuals e at the trials:
        g(x) = f(x) + k(x, X) K^-1 (e - mu_e), e = y - f(X) - b h(X) - noise,
        where h is a second prior sample, for the bias b, and mu_e the level of e.
        """
        features = Features.draw(setting, places.n_coordinates, n_features, count, rng)
        seen = features.values(places)
        if relative_bias.any():
            others = Features.draw(setting, places.n_coordinates, n_features, count, rng)
            seen += relative_bias[:, None] * others.values(places)
        seen += np.sqrt(setting.scale * setting.choice.noise) * rng.standard_normal(seen.shape)
        error = values[:, None] - seen
        weights = setting.solve(error - setting.sums @ error / setting.precision)
        return cls(setting.choice, places, features, weights)

    def values(self, places: Places) -> FloatArray:
        """Return the value at each place (row) of each function (column)."""
        kernel = self._choice.kernel(distances(places, self._places) / self._choice.length)
        values: FloatArray = self._features.values(places) + product(kernel, self._weights)
        return values

    def at(self, places: Places) -> tuple[FloatArray, FloatArray]:
        """Return value and slope of each function at its own place, or of one at all places.

        The slope is that along the ordered columns.
        """
        choice = self._choice
        frequencies, phases, amplitudes = self._features
        angles = places.along(frequencies) + phases
        gaps = distances(places, self._places) / choice.length
        values: FloatArray = (np.cos(angles) * amplitudes.T).sum(axis=1)
        values += (choice.kernel(gaps) * self._weights.T).sum(axis=1)
        here, there = places.ordered, self._places.ordered
        slopes = -product(np.sin(angles) * amplitudes.T, frequencies[: here.shape[1]].T)
        pull = SLOPES[choice.kernel](gaps) * self._weights.T / choice.length**2
        slopes += here * pull.sum(axis=1, keepdims=True) - product(pull, there)
        return values, slopes


# Functions, and the ARD weights of their places.
Sample = tuple[Functions, FloatArray]


class Posterior:
    """Posterior mean and samples of a fitted process, over the cube.

    Args:
        process:
            The process.

    Arguments ``first_step`` (along each axis of the cube) and ``n_iterations`` are those of the
    gradient ascent. Categories are not changed by it.
    """

    def __init__(self, process: GaussianProcess) -> None:
        self._process = process
        self._config = process.config
        self._likeliest = process.settings[int(np.argmax(process.shares))]
        weights = process.ard_weights[self._likeliest.choice.ard]
        self._mean: Sample = Functions.mean(self._likeliest, process.places * weights), weights

    def mean_argmax(
        self, points: FloatArray, n_iterations: int, first_step: FloatArray
    ) -> FloatArray:
        """Return where the posterior mean of the likeliest setting is highest.

        Found as in :meth:`maximizers`.
        """
        best: FloatArray = self._maximize(self._mean, points, n_iterations, first_step)[0]
        return best

    def modes(self, points: FloatArray, n_iterations: int, first_step: FloatArray) -> FloatArray:
        """Return the mode of the posterior mean that the ascent from each point leads to."""
        return self._ascend(self._mean, points, n_iterations, first_step)

    def reach(self, point: FloatArray, steps: FloatArray, loss: float) -> float:
        """Return the factor for some steps from a point at which their mean loss is as given.

        The loss is in standard deviations of the noise. Steps are reflected at the faces of the
        cube.
        """
        top = self._mean_in_noise(point[None, :])
        low, high = self._config.reach
        for _ in range(self._config.n_halvings):
            middle = np.sqrt(low * high)
            there = self._mean_in_noise(reflected(point + middle * steps))
            # Clipped, so that a few steps with a large loss do not dominate the mean.
            losses = np.minimum(top - there, 4 * loss)
            low, high = (low, middle) if losses.mean() > loss else (middle, high)
        return float(np.sqrt(low * high))

    def _mean_in_noise(self, points: FloatArray) -> FloatArray:
        """Return the posterior mean in standard deviations of the noise, up to a constant."""
        mean, weights = self._mean
        unit = np.sqrt(self._likeliest.scale * self._likeliest.choice.noise)
        values: FloatArray = mean.values(self._process.embed(points) * weights)[:, 0] / unit
        return values

    def draw_samples(self, count: int, rng: np.random.Generator) -> list[Sample]:
        """Draw so many posterior samples; settings are drawn with their probability."""
        process, samples = self._process, []
        for setting, n_draws in zip(process.settings, rng.multinomial(count, process.shares)):
            if n_draws:
                weights = process.ard_weights[setting.choice.ard]
                functions = Functions.draw(
                    setting,
                    process.places * weights,
                    process.values,
                    process.relative_bias,
                    self._config.n_features,
                    n_draws,
                    rng,
                )
                samples.append((functions, weights))
        return samples

    def maximizers(
        self,
        samples: Sequence[Sample],
        points: FloatArray,
        n_iterations: int,
        first_step: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the maximizer of each sample (Thompson sampling), and its value there.

        The ascent starts at the best of some points. Values are comparable within a sample only.
        """
        found = [self._maximize(sample, points, n_iterations, first_step) for sample in samples]
        values = [
            functions.at(self._process.embed(best) * weights)[0]
            for (functions, weights), best in zip(samples, found)
        ]
        return np.concatenate(found), np.concatenate(values)

    def _maximize(
        self, sample: Sample, points: FloatArray, n_iterations: int, first_step: FloatArray
    ) -> FloatArray:
        """Return the best point of each function."""
        functions, weights = sample
        start = np.argmax(functions.values(self._process.embed(points) * weights), axis=0)
        return self._ascend(sample, points[start], n_iterations, first_step)

    def _ascend(
        self, sample: Sample, points: FloatArray, n_iterations: int, first_step: FloatArray
    ) -> FloatArray:
        """Return the end of the ascent from each point, on its own function or all on one."""
        functions, weights = sample
        embed = self._process.embed
        ordered, active = embed.is_ordered, embed.active(points)
        n_ordered = int(np.count_nonzero(ordered))
        unit = weights[:n_ordered] / embed.spread[ordered]
        points = embed.filled(points)
        start = embed(points) * weights
        # What does not exist stays where it is.
        slope_unit = unit if active is None else unit * active[:, ordered]

        def evaluate(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            values, slopes = functions.at(replace(start, ordered=x * unit))
            return values, slopes * slope_unit

        best: FloatArray = points.copy()
        if n_ordered:
            best[:, ordered] = ascend(
                evaluate, best[:, ordered], first_step[ordered], n_iterations, bounds=(0.0, 1.0)
            )
        return best
