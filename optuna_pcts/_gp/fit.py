"""The fit: settings of the Gaussian process, weighted by their marginal likelihood.

Under noise the best observed values are biased by selection. So the value at a trial is estimated
from the trials around it. Length scale and noise variance are estimated from the data; without
noise the estimate is the observed value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.ascent import ascend
from optuna_pcts._gp.config import GPConfig
from optuna_pcts._gp.kernels import matern
from optuna_pcts._gp.kernels import matern_slope
from optuna_pcts._gp.places import Active
from optuna_pcts._gp.places import distances
from optuna_pcts._gp.places import Embedding
from optuna_pcts._gp.places import mean_of
from optuna_pcts._gp.places import some_of_each_distance
from optuna_pcts._gp.places import spread_of
from optuna_pcts._gp.places import squared_distances
from optuna_pcts._gp.setting import Choice
from optuna_pcts._gp.setting import noise_of
from optuna_pcts._gp.setting import Setting
from optuna_pcts._gp.setting import shares_of


class GaussianProcess:
    """A Gaussian process, averaged over its settings.

    The bias of values at low fidelity is a second process with the same kernel and with zeta as
    its standard deviation: it is alike at trials near each other, so that it does not average out
    over them.

    Every choice of kernel, length scale, noise and ARD weights is weighted by its marginal
    likelihood (level and scale of the values are integrated out), with a penalty for learned ARD
    weights (BIC). The variance of an estimate includes the differences between the settings.

    Args:
        points:
            Positions in the unit cube, one row per trial.
        values:
            Their values.
        scale:
            Their median and the best of them. Values far below are used as they are or
            winsorised, whichever is likelier: if they belong to the same smooth function, the
            kink from winsorising makes the fit too rough; if they do not, they must not set the
            scale.
        bias:
            The bias of each, due to its fidelity.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        candidates:
            The trials to be estimated.
        config:
            The constants; kept as an attribute.
        active:
            Whether each axis exists at each of some points. Where it does not, the mean of the
            candidates that have it stands for the coordinate.

    Attributes:
        mean, std:
            The estimate of each candidate, and its standard deviation.
        noise, noise_variance:
            The share of the values' variance that is noise, and this variance.
        is_near:
            Whether a candidate (row) and a trial (column, the candidates first) are in the same
            place.
        settings, shares:
            The fitted settings, and the probability of each.
        embed:
            From points of the cube to places.
        places, values, relative_bias:
            The trials that the settings are fitted to: their places (without ARD weights),
            values, and bias in standard deviations of the values.
        ard_weights:
            ARD weights of the columns of the places: all 1, and the learned ones.
    """

    values: FloatArray
    relative_bias: FloatArray

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        scale: tuple[float, float],
        bias: FloatArray,
        categories: Sequence[int],
        *,
        candidates: NDArray[np.intp],
        config: GPConfig,
        active: Active | None = None,
    ) -> None:
        self.config = config
        exists = None if active is None else active(points)
        if exists is None:
            active = fill = used = None
            spread = spread_of(points[candidates])
        else:
            fill = mean_of(points[candidates], exists[candidates])
            points = np.where(exists, points, fill)
            spread = spread_of(points[candidates], exists[candidates])
            used = exists[candidates].sum(axis=0) >= config.few_have
        data = some_of_each_distance(points, candidates, spread, config.n_data)
        rows = np.concatenate([candidates, data[~np.isin(data, candidates)]])
        points, values, bias = points[rows], values[rows], bias[rows]
        n, n_candidates = len(rows), len(candidates)
        self.embed = Embedding(
            points,
            np.array(categories[: points.shape[1]], dtype=int),
            spread,
            config.category_distance,
            active,
            fill,
            used,
        )
        self.places = self.embed(points)
        n_ordered = int(np.count_nonzero(self.embed.is_ordered))
        gap, category_gap = (np.sqrt(part) for part in squared_distances(self.places, self.places))
        near = (gap <= config.same_place * np.sqrt(max(n_ordered, 1))) & (category_gap == 0)
        self.is_near: NDArray[np.bool_] = near[:n_candidates]
        self.ard_weights: list[FloatArray] = [np.ones(self.embed.n_columns)]
        gaps = [np.hypot(gap, category_gap)]  # distances, for each vector of ARD weights
        choices = [
            Choice(0, kernel, length, noise)
            for kernel in config.kernels
            for length in config.lengths
            for noise in config.noises
        ]
        used = np.flatnonzero(np.isin(rows, data))
        probes = used[np.linspace(0, len(used) - 1, min(len(used), config.n_probes)).astype(int)]
        choice = self._begin(values, scale, bias, choices, gaps, probes)
        if config.learns_ard and self.embed.n_columns:
            self.ard_weights.append(self._learn_ard_weights(choice, probes))
            places = self.places * self.ard_weights[1]
            gaps.append(distances(places, places))
            choices += [choice._replace(ard=1) for choice in choices]
        if n > config.n_probes:
            tried = self._fit(choices, gaps, probes)
            choices = _worth_trying(tried, config.least_share)
            if noise_of(tried) < config.noisy:
                used = np.arange(n)
        self.settings = self._fit(choices, gaps, used)
        self.values = self.values[used]
        self.relative_bias = self.relative_bias[used]
        self.places = self.places[used]
        self.shares = shares_of(self.settings)
        self.noise = noise_of(self.settings)
        self.noise_variance = float(
            self.shares @ [setting.scale * setting.choice.noise for setting in self.settings]
        )
        crosses = [gap[:n_candidates, used] for gap in gaps]
        means, variances = zip(*(s.estimate(crosses[s.choice.ard]) for s in self.settings))
        self.mean: FloatArray = self.shares @ np.array(means)
        spreads = (np.array(means) - self.mean) ** 2
        self.std: FloatArray = np.sqrt(self.shares @ (np.array(variances) + spreads))

    @property
    def explained(self) -> float:
        """Share of the values' variance that leave-one-out predictions explain."""
        n = len(self.values)
        if n < 3:
            return 0.0
        off = self.shares @ np.array([setting.left_out() for setting in self.settings])
        rest = (self.values - self.values.mean()) * n / (n - 1)
        return 1.0 - float(off @ off) / max(float(rest @ rest), 1e-300)

    def _begin(
        self,
        values: FloatArray,
        scale: tuple[float, float],
        bias: FloatArray,
        choices: Sequence[Choice],
        gaps: Sequence[FloatArray],
        probes: NDArray[np.intp],
    ) -> Choice:
        """Use the values as they are or winsorised, and return the likeliest choice."""
        some = probes[:: 1 + (len(probes) > self.config.few)]
        begun: list[tuple[float, Choice, FloatArray]] = []
        alternatives = winsorised(values, *scale, self.config)
        for doubt, (taken, log_slope) in zip((0.0, self.config.clearly), alternatives):
            self._take(taken, bias)
            best = max(self._fit(choices, gaps, some), key=lambda s: s.likelihood)
            likelihood = best.likelihood + float(log_slope[some].sum()) - doubt
            begun.append((likelihood, best.choice, taken))
        _, choice, values = max(begun, key=lambda b: b[0])
        self._take(values, bias)
        return choice

    def _take(self, values: FloatArray, bias: FloatArray) -> None:
        self.values = values
        # Limited, since the standard deviation may be 0.
        largest = float(bias.max(initial=0.0)) / self.config.largest_bias
        self.relative_bias = bias / max(float(values.std()), largest, 1e-300)

    def _learn_ard_weights(self, choice: Choice, rows: NDArray[np.intp]) -> FloatArray:
        """Return the ARD weight of each column of the places: the MAP estimate from some trials.

        The kernel is Matern's at r^2 = sum_a w_a^2 d_a^2, where d_a are the distances along column
        a in length scales. log w_a has a normal prior; the ascent is in log w.
        """
        config = self.config
        columns = self.places[rows].columns(choice.length)
        squares = np.array([distances(x, x) ** 2 for x in columns])
        values, bias = self.values[rows], self.relative_bias[rows]
        with_bias, noise = 1 + np.outer(bias, bias), choice.noise * np.eye(len(rows))
        learned = Choice(1, matern, 1.0, choice.noise)

        def evaluate(log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
            weights = np.exp(2 * log_weights[0])
            # (Sums by einsum: BLAS would start threads, see `linalg.product`.)
            distance = np.sqrt(np.einsum("a,axy->xy", weights, squares))
            covariance = matern(distance) * with_bias + noise
            tried = Setting(learned, covariance, values)
            penalty = 0.5 * float((log_weights**2).sum()) / config.ard_std**2
            slopes = tried.slopes() * matern_slope(distance) * with_bias
            slope = weights * np.einsum("axy,xy->a", squares, slopes)
            return (
                np.array([tried.likelihood - penalty]),
                slope[None, :] - log_weights / config.ard_std**2,
            )

        log_weights = ascend(
            evaluate,
            np.zeros((1, len(squares))),
            np.full(len(squares), config.ard_first_step),
            config.ard_iterations,
            longest=config.ard_longest_step,
        )
        weights: FloatArray = np.exp(log_weights[0])
        return weights

    def _fit(
        self,
        choices: Sequence[Choice],
        gaps: Sequence[FloatArray],
        rows: NDArray[np.intp],
    ) -> list[Setting]:
        """Return the settings of some choices, fitted to some trials.

        K = k(r / length) * (1 + b b') + noise, where b is the relative bias.
        """
        values, bias = self.values[rows], self.relative_bias[rows]
        with_bias, diagonal = 1 + np.outer(bias, bias), np.diag_indices(len(rows))
        n_learned = (0, len(self.ard_weights[0]))
        fitted = []
        for (ard, kernel, length), group in groupby(choices, lambda choice: choice[:3]):
            signal = kernel(gaps[ard][np.ix_(rows, rows)] / length)
            signal *= with_bias
            for choice in group:
                covariance = signal.copy()
                covariance[diagonal] += choice.noise
                setting = Setting(choice, covariance, values)
                setting.likelihood -= 0.5 * n_learned[ard] * np.log(len(rows))
                fitted.append(setting)
        return fitted


def winsorised(
    values: FloatArray, median: float, best: float, config: GPConfig
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the candidate transformations of values, each with log dt/dy at each value.

    Values are used as they are, or those far below are winsorised: t = low - unit * z / (1 + z),
    where z is how many units they are below low. The slope dt/dy makes likelihoods comparable.
    """
    unit = best - median
    low, same = median - config.far * unit, np.zeros(len(values))
    if values.min() >= low:
        return [(values, same)]
    if unit == 0:
        return [(np.maximum(values, low), same)]
    below = np.clip((low - values) / unit, 0.0, config.too_far)
    near = np.maximum(values, low) - unit * below / (1 + below), -2 * np.log1p(below)
    if below.max() == config.too_far:
        return [near]
    return [(values, same), near]


def _worth_trying(settings: Sequence[Setting], least_share: float) -> list[Choice]:
    """Return the choices that are not improbable, for each vector of ARD weights."""
    worth: list[Choice] = []
    for _, group in groupby(settings, lambda s: s.choice.ard):
        some = list(group)
        shares = shares_of(some)
        count = shares >= least_share * shares.max()
        worth += [s.choice for s, counts in zip(some, count) if counts]
    return worth
