"""What trials near each other tell about each other: a small Gaussian process.

Under noise the best of many trials are mostly the luckiest ones. So the value at a trial is
estimated from those around it. How far a neighbour counts, and how much of the spread is noise,
is read off the data; without noise the estimate is the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.prior import slots_at


# The correlation of two values, from the distance of their points in length scales.
Kernel = Callable[[FloatArray], FloatArray]

# Trials closer than this, in spreads of the candidates (root mean square over the parameters) and
# with the same categories, are in the same place and support each other.
_SAME_PLACE = 0.5
# Two categories are as far apart as this many spreads.
_CATEGORY_DISTANCE = 2.0
# A random function is a sum of so many waves.
_N_WAVES = 128
# Multiplications of a matrix product up to which BLAS does not start threads. They are slower by
# orders of magnitude where the cores are busy with other workers.
_SMALL = 64**3
# With less noise than this, as a share of the variance, nobody was lucky.
_NOISY = 0.01
# A trial that may be off by so many deviations of the values tells nothing. More would only make
# the covariance singular.
_LARGEST_BIAS = 1e3
# Settings that count for less than this part of the best one are not tried on all trials.
_LEAST_SHARE = 0.1
# Trials whose matrices cost next to nothing.
_FEW = 64
# Values this many ranges below the median may be another world: a plateau, or what diverges. Then
# they are drawn in to one range more; in any case if one is further away than the second bound.
_FAR = 5.0
_TOO_FAR = 1e6
# ... and only if it is so much likelier (its logarithm): a few trials do not show how smooth a
# function is.
_CLEARLY = 10.0
# How much each parameter matters is sought in so many steps up the likelihood. Beforehand it is
# the same for all, give or take a factor of e to the power of this. The first step is this long,
# and none longer than that, in logarithms.
_N_STEPS = 10
_RELEVANCE_STD = 1.5
_FIRST_STEP = 0.5
_LONGEST_STEP = 1.0
# How far it is to where the value is lower is sought between these, by so many halvings (of the
# logarithm).
_REACH = (1e-2, 1e3)
_N_HALVINGS = 8


def matern(distance: FloatArray) -> FloatArray:
    """Return the Matern 5/2 kernel: of functions with two derivatives."""
    r = np.sqrt(5.0) * distance
    # In place: most of the time would go into fresh memory.
    kernel: FloatArray = r * r
    kernel /= 3
    kernel += 1 + r
    np.negative(r, out=r)
    kernel *= np.exp(r, out=r)
    return kernel


def matern_slope(distance: FloatArray) -> FloatArray:
    """Return the derivative of the Matern kernel by half the squared distance."""
    r = np.sqrt(5.0) * distance
    slope: FloatArray = -5 / 3 * (1 + r) * np.exp(-r)
    return slope


def gaussian(distance: FloatArray) -> FloatArray:
    """Return the squared exponential kernel: of functions as smooth as can be."""
    kernel: FloatArray = np.exp(-0.5 * distance**2)
    return kernel


# By half the squared distance.
_SLOPES: dict[Kernel, Kernel] = {matern: matern_slope, gaussian: lambda d: -gaussian(d)}


class Process:
    """A Gaussian process, averaged over its settings.

    The bias of a trial is itself smooth: what is biased in one place is so nearby, and many
    biased trials together are as wrong as one. It is a second process with the same kernel, as
    large as zeta says.

    Every choice of kernel, length scale, noise and relevance counts with its marginal likelihood
    (the level and the scale of the values are integrated out), less what was learned for it (BIC).
    Where the data do not tell two settings apart, the estimate is as uncertain as they differ.

    Args:
        points:
            Positions in the unit cube, one row per trial; NaN where it is not known.
        values:
            Their values.
        scale:
            Their median and the best of them. What is worse by far is taken as it is, or drawn
            in, whichever is likelier: one smooth function may well reach that far down, and then
            a kink in it is taken for roughness everywhere; but what has nothing to do with the
            good ones must not set the scale.
        bias:
            By how much each may be off for its fidelity.
        usable:
            Which of the trials may tell about the candidates.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        candidates:
            The trials to be estimated.
        n_data:
            How many of the usable trials tell about them. If there are more, it is some from
            every distance. The nearest ones alone would differ by little else than noise; and of
            the candidates, which are the luckiest, no more than of the others, unless there is
            no noise.
        kernels, lengths, noises:
            Kernels, length scales in units of the candidates' own spread, and shares of noise, to
            choose from.
        n_probes:
            So many of the trials tell which of these are worth a try on all of them.
        has_relevance:
            Whether to learn, from as many trials, how much each parameter matters, as an
            alternative: beforehand it matters as much as the candidates are close together along
            it, and that is right for a top whose surroundings look different.

    Attributes:
        mean, std:
            The estimate of each candidate, and its standard deviation.
        noise, noise_variance:
            The share of the values' variance that is noise, and this variance.
        is_near:
            Whether a candidate (row) and a trial (column, the candidates first) are in the same
            place.
    """

    _values: FloatArray
    _relative_bias: FloatArray

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        scale: tuple[float, float],
        bias: FloatArray,
        usable: NDArray[np.bool_],
        categories: Sequence[int],
        *,
        candidates: NDArray[np.intp],
        n_data: int,
        kernels: Sequence[Kernel],
        lengths: Sequence[float],
        noises: Sequence[float],
        n_probes: int,
        has_relevance: bool = False,
    ) -> None:
        data = _some_of_each_distance(points, usable, candidates, n_data)
        rows = np.concatenate([candidates, data[~np.isin(data, candidates)]])
        points, values, bias = points[rows], values[rows], bias[rows]
        n, n_candidates = len(rows), len(candidates)
        self._spread = np.maximum(points[:n_candidates].std(axis=0), 1e-3)
        self._categories = np.array(categories[: points.shape[1]], dtype=int)
        self._codes = _codes(points, self._categories)
        self._places = self._embed(points)
        n_ordered = int(np.count_nonzero(self._categories == 0))
        gap, category_gap = (np.sqrt(part) for part in _squares(self._places, self._places))
        near = (gap <= _SAME_PLACE * np.sqrt(max(n_ordered, 1))) & (category_gap == 0)
        self.is_near: NDArray[np.bool_] = near[:n_candidates]
        self._relevances: list[FloatArray] = [np.ones(len(self._categories))]
        distances = [np.hypot(gap, category_gap)]
        choices = [_Choice(0, k, length, s) for k in kernels for length in lengths for s in noises]
        used = np.flatnonzero(np.isin(rows, data))
        probes = used[np.linspace(0, len(used) - 1, min(len(used), n_probes)).astype(int)]
        some = probes[:: 1 + (len(probes) > _FEW)]  # enough for where to begin
        begun: list[tuple[float, _Choice, FloatArray]] = []
        for doubt, (taken, log_slope) in zip((0.0, _CLEARLY), _alternatives(values, *scale)):
            self._take(taken, bias)
            best = max(self._fit(choices, distances, some), key=lambda s: s.likelihood)
            likelihood = best.likelihood + float(log_slope[some].sum()) - doubt
            begun.append((likelihood, best.choice, taken))
        _, choice, values = max(begun, key=lambda b: b[0])
        self._take(values, bias)
        if has_relevance and points.shape[1]:
            self._relevances.append(self._relevance_of(choice, probes))
            places = self._places * self._relevances[1]
            distances.append(_distance(places, places))
            choices += [choice._replace(relevance=1) for choice in choices]
        if n > n_probes:
            tried = self._fit(choices, distances, probes)
            choices = _worth_trying(tried)
            if _noise(tried) < _NOISY:
                used = np.arange(n)
        settings = self._fit(choices, distances, used)
        self._values = self._values[used]
        self._relative_bias = self._relative_bias[used]
        self._places = self._places[used]
        self._settings = settings
        self._shares = _shares(settings)
        self.noise = _noise(settings)
        self.noise_variance = float(
            self._shares @ [setting.scale * setting.choice.noise for setting in settings]
        )
        crosses = [distance[:n_candidates, used] for distance in distances]
        means, variances = zip(*(s.estimate(crosses[s.choice.relevance]) for s in settings))
        self.mean: FloatArray = self._shares @ np.array(means)
        spreads = (np.array(means) - self.mean) ** 2
        self.std: FloatArray = np.sqrt(self._shares @ (np.array(variances) + spreads))

    @property
    def fit(self) -> float:
        """Share of the values' variance that is explained by the other trials alone."""
        n = len(self._values)
        if n < 3:
            return 0.0
        off = self._shares @ np.array([setting.left_out() for setting in self._settings])
        rest = (self._values - self._values.mean()) * n / (n - 1)
        return 1.0 - float(off @ off) / max(float(rest @ rest), 1e-300)

    def _take(self, values: FloatArray, bias: FloatArray) -> None:
        self._values = values
        # Where all values are equal, any bias is too large to say more than that.
        std = max(float(values.std()), float(bias.max(initial=0.0)) / _LARGEST_BIAS, 1e-300)
        self._relative_bias = bias / std

    def _relevance_of(self, choice: _Choice, rows: NDArray[np.intp]) -> FloatArray:
        """Return how much each column of the places matters, with one choice on some trials."""
        columns = self._places[rows].columns(choice.length)
        axes = np.array([_distance(x, x) ** 2 for x in columns])
        values, bias = self._values[rows], self._relative_bias[rows]
        with_bias, noise = 1 + np.outer(bias, bias), choice.noise * np.eye(len(rows))
        learned = _Choice(1, matern, 1.0, choice.noise)

        def look(relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
            weights = np.exp(2 * relevance[0])
            # (Sums by einsum: BLAS would start threads, see _SMALL.)
            distance = np.sqrt(np.einsum("a,axy->xy", weights, axes))
            covariance = matern(distance) * with_bias + noise
            tried = _Setting(learned, covariance, values)
            penalty = 0.5 * float((relevance**2).sum()) / _RELEVANCE_STD**2
            slopes = tried.slopes() * matern_slope(distance) * with_bias
            slope = weights * np.einsum("axy,xy->a", axes, slopes)
            return (
                np.array([tried.likelihood - penalty]),
                slope[None, :] - relevance / _RELEVANCE_STD**2,
            )

        same = np.zeros((1, len(axes)))  # logarithms
        best = _uphill(
            look, same, np.full(len(axes), _FIRST_STEP), _N_STEPS, longest=_LONGEST_STEP
        )
        learned_relevance: FloatArray = np.exp(best[0])
        return learned_relevance

    def _fit(
        self,
        choices: Sequence[_Choice],
        distances: Sequence[FloatArray],
        rows: NDArray[np.intp],
    ) -> list[_Setting]:
        values, bias = self._values[rows], self._relative_bias[rows]
        with_bias, diagonal = 1 + np.outer(bias, bias), np.diag_indices(len(rows))
        n_learned = (0, len(self._categories))
        fitted = []
        for (relevance, kernel, length), group in groupby(choices, lambda choice: choice[:3]):
            signal = kernel(distances[relevance][np.ix_(rows, rows)] / length)
            signal *= with_bias
            for choice in group:
                covariance = signal.copy()
                covariance[diagonal] += choice.noise
                setting = _Setting(choice, covariance, values)
                setting.likelihood -= 0.5 * n_learned[relevance] * np.log(len(rows))
                fitted.append(setting)
        return fitted

    def best_guess(self, points: FloatArray, n_looks: int, first_step: FloatArray) -> FloatArray:
        """Return the point of the best estimate, with the likeliest setting.

        It is sought as in :meth:`winners`.
        """
        best: FloatArray = self._climb(*self._expected(), points, n_looks, first_step)[0]
        return best

    def tops(self, points: FloatArray, n_looks: int, first_step: FloatArray) -> FloatArray:
        """Return the best estimate of the hill that each point is on, found as the best guess."""
        return self._uphill_from(*self._expected(), points, n_looks, first_step)

    def _heights(self, points: FloatArray) -> FloatArray:
        """Return the estimate at points, in standard deviations of the noise, up to a constant.

        It is that of the likeliest setting.
        """
        mean, relevance = self._expected()
        likeliest = self._likeliest()
        unit = np.sqrt(likeliest.scale * likeliest.choice.noise)
        heights: FloatArray = mean.values(self._embed(points) * relevance)[:, 0] / unit
        return heights

    def reach(self, point: FloatArray, steps: FloatArray, loss: float) -> float:
        """Return how many times as long some steps from a point lose so much on average.

        The loss is in standard deviations of the noise. At the faces of the cube steps are
        reflected.
        """
        top = self._heights(point[None, :])
        low, high = _REACH
        for _ in range(_N_HALVINGS):
            middle = np.sqrt(low * high)
            # A few long steps into the deep do not make up for the others.
            losses = np.minimum(top - self._heights(reflected(point + middle * steps)), 4 * loss)
            low, high = (low, middle) if losses.mean() > loss else (middle, high)
        return float(np.sqrt(low * high))

    def _likeliest(self) -> _Setting:
        return self._settings[int(np.argmax(self._shares))]

    def _expected(self) -> World:
        """Return the estimate of the likeliest setting."""
        likeliest = self._likeliest()
        relevance = self._relevances[likeliest.choice.relevance]
        return likeliest.mean(self._places * relevance), relevance

    def draw_worlds(self, count: int, rng: np.random.Generator) -> list[World]:
        """Draw so many functions that the data allow, each with its probability (Thompson)."""
        worlds = []
        for setting, n_draws in zip(self._settings, rng.multinomial(count, self._shares)):
            if n_draws:
                relevance = self._relevances[setting.choice.relevance]
                data = self._places * relevance, self._values, self._relative_bias
                worlds.append((setting.draw(*data, n_draws, rng), relevance))
        return worlds

    def winners(
        self, worlds: Sequence[World], points: FloatArray, n_looks: int, first_step: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return where the best point is in each of some worlds, and how high it is.

        From the best of some points on it is uphill, with so many looks at the slope, and a first
        step so long along each axis. Categories stay what they are. Heights are comparable within
        a world.
        """
        found = [self._climb(*world, points, n_looks, first_step) for world in worlds]
        heights = [
            functions.at(self._embed(best) * relevance)[0]
            for (functions, relevance), best in zip(worlds, found)
        ]
        return np.concatenate(found), np.concatenate(heights)

    def _climb(
        self,
        functions: _Functions,
        relevance: FloatArray,
        points: FloatArray,
        n_looks: int,
        first_step: FloatArray,
    ) -> FloatArray:
        """Return the best point of each function."""
        start = np.argmax(functions.values(self._embed(points) * relevance), axis=0)
        return self._uphill_from(functions, relevance, points[start], n_looks, first_step)

    def _uphill_from(
        self,
        functions: _Functions,
        relevance: FloatArray,
        points: FloatArray,
        n_looks: int,
        first_step: FloatArray,
    ) -> FloatArray:
        """Return where it is uphill from each point, on its own function or all on the same."""
        ordered = self._categories == 0
        n_ordered = int(np.count_nonzero(ordered))
        unit = relevance[:n_ordered] / self._spread[ordered]
        start = self._embed(points) * relevance

        def look(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            values, slopes = functions.at(replace(start, ordered=x * unit))
            return values, slopes * unit

        best: FloatArray = points.copy()
        if n_ordered:
            best[:, ordered] = _uphill(
                look, best[:, ordered], first_step[ordered], n_looks, bounds=(0.0, 1.0)
            )
        return best

    def _embed(self, points: FloatArray) -> _Places:
        """Return where points lie for the kernel."""
        ordered = self._categories == 0
        codes = [
            codes[slots_at(points[:, axis], len(codes))]
            for axis, codes in zip(np.flatnonzero(~ordered), self._codes)
        ]
        return _Places(
            (points / self._spread)[:, ordered],
            np.array(codes, dtype=int).reshape(len(codes), len(points)).T,
            np.full(len(codes), _CATEGORY_DISTANCE),
            max((int(codes.max()) + 1 for codes in self._codes), default=0),
        )


@dataclass(frozen=True)
class _Places:
    """Where points lie for the kernel, a row each: what has an order first, then what has none.

    A category is a corner: all of a parameter are equally far from each other. It stands as a
    number and not as a coordinate for each corner, of which there may be hundreds.
    """

    ordered: FloatArray  # coordinates, in spreads
    codes: NDArray[np.intp]  # of the categories; no two parameters have a code in common
    apart: FloatArray  # how far apart two categories of each parameter are
    n_codes: int

    def __len__(self) -> int:
        return len(self.ordered)

    def __getitem__(self, rows: NDArray[np.intp]) -> _Places:
        return replace(self, ordered=self.ordered[rows], codes=self.codes[rows])

    def __mul__(self, relevance: FloatArray) -> _Places:
        """Return the places where each column matters more or less."""
        n = self.ordered.shape[1]
        return replace(
            self, ordered=self.ordered * relevance[:n], apart=self.apart * relevance[n:]
        )

    def along(self, vectors: FloatArray) -> FloatArray:
        """Return how far out the places are along vectors (columns).

        They have a row for each ordered coordinate and for each corner.
        """
        n = self.ordered.shape[1]
        far: FloatArray = _product(self.ordered, vectors[:n])
        for codes, apart in zip(self.codes.T, self.apart):
            far += apart / np.sqrt(2) * vectors[n + codes]
        return far

    def columns(self, length: float) -> list[_Places]:
        """Return the places along each column alone, in units of a length."""
        n_ordered, n_unordered = self.ordered.shape[1], len(self.apart)
        cuts = [(slice(i, i + 1), slice(0, 0)) for i in range(n_ordered)]
        cuts += [(slice(0, 0), slice(i, i + 1)) for i in range(n_unordered)]
        ordered, apart = self.ordered / length, self.apart / length
        return [_Places(ordered[:, i], self.codes[:, j], apart[j], self.n_codes) for i, j in cuts]


def _codes(points: FloatArray, categories: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the codes of the categories of each parameter that has some.

    All those that no point has share one: they are equally far from every point, and there may
    be many more than points.
    """
    codes, n_codes = [], 0
    for x, n in zip(points.T, categories):
        if n:
            seen = np.zeros(n, dtype=bool)
            seen[slots_at(x, n)] = True
            some = np.where(seen, np.cumsum(seen) - 1, np.count_nonzero(seen))
            codes.append(n_codes + some)
            n_codes += int(some.max()) + 1
    return codes


class _Choice(NamedTuple):
    """What a process may be like."""

    relevance: int  # which one of those that the process has: the first is the same for all
    kernel: Kernel
    length: float
    noise: float


class _Setting:
    """The process with one choice."""

    def __init__(self, choice: _Choice, covariance: FloatArray, values: FloatArray) -> None:
        self.choice = choice
        self._whitening, log_det = _whitening(covariance)
        n = len(values)
        self.sums = self.solve(np.ones((n, 1)))[:, 0]
        self.precision = max(float(self.sums.sum()), 1e-300)  # of the level
        self.level = float(self.sums @ values) / self.precision
        rest = values - self.level
        self._weights = self.solve(rest[:, None])[:, 0]
        self.scale = max(float(rest @ self._weights) / max(n - 1, 1), 1e-300)
        self.likelihood = -0.5 * (log_det + np.log(self.precision) + (n - 1) * np.log(self.scale))

    def solve(self, columns: FloatArray) -> FloatArray:
        """Return the inverse of the covariance times some columns."""
        return _product(self._whitening.T, _product(self._whitening, columns))

    def left_out(self) -> FloatArray:
        """Return by how much each value is off the estimate that all others give."""
        precision = (self._whitening**2).sum(axis=0) - self.sums**2 / self.precision
        off: FloatArray = self._weights / np.maximum(precision, 1e-300)
        return off

    def slopes(self) -> FloatArray:
        """Return by how much the likelihood grows with each entry of the covariance."""
        inverse = _product(self._whitening.T, self._whitening)
        return 0.5 * (np.outer(self._weights, self._weights) / self.scale - inverse)

    def estimate(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of points, from their distance to the trials."""
        cross = self.choice.kernel(distance / self.choice.length)
        variance = 1 - (_product(self._whitening, cross.T) ** 2).sum(axis=0)
        variance += (1 - cross @ self.sums) ** 2 / self.precision
        return self.level + cross @ self._weights, self.scale * np.maximum(variance, 0.0)

    def mean(self, places: _Places) -> _Functions:
        """Return the estimate at any place, from the places of the trials."""
        nothing = np.zeros((_n_rows(places), 0)), np.zeros(0), np.zeros((0, 1))
        return _Functions(self.choice, places, nothing, self._weights[:, None])

    def draw(
        self,
        places: _Places,
        values: FloatArray,
        relative_bias: FloatArray,
        count: int,
        rng: np.random.Generator,
    ) -> _Functions:
        """Draw functions that the data allow.

        Each is a random function, corrected by what the data say about its error (Matheron's
        rule).
        """
        waves = self._draw_waves(_n_rows(places), count, rng)
        seen = _sum_of(waves, places)
        if relative_bias.any():
            others = self._draw_waves(_n_rows(places), count, rng)
            seen += relative_bias[:, None] * _sum_of(others, places)
        seen += np.sqrt(self.scale * self.choice.noise) * rng.standard_normal(seen.shape)
        error = values[:, None] - seen
        weights = self.solve(error - self.sums @ error / self.precision)
        return _Functions(self.choice, places, waves, weights)

    def _draw_waves(self, n_rows: int, count: int, rng: np.random.Generator) -> _Waves:
        """Draw functions as they are before any data."""
        vectors = rng.standard_normal((n_rows, _N_WAVES)) / self.choice.length
        # The spectrum of the Matern kernel is Student's t, that of the other is normal.
        if self.choice.kernel is matern:
            vectors /= np.sqrt(rng.chisquare(5, _N_WAVES) / 5)
        phases = rng.uniform(0, 2 * np.pi, _N_WAVES)
        amplitudes = rng.standard_normal((_N_WAVES, count))
        return vectors, phases, np.sqrt(2 * self.scale / _N_WAVES) * amplitudes


# Functions that are sums of waves: vectors and phases, one column for each wave, and how high it
# (row) is in each function (column). For the rows of the vectors see :meth:`_Places.along`.
_Waves = tuple[FloatArray, FloatArray, FloatArray]


def _n_rows(places: _Places) -> int:
    """Return how many rows the vectors of waves have."""
    return int(places.ordered.shape[1]) + places.n_codes


def _sum_of(waves: _Waves, places: _Places) -> FloatArray:
    vectors, phases, amplitudes = waves
    return _product(np.cos(places.along(vectors) + phases), amplitudes)


class _Functions:
    """Sums of waves, and of kernels around trials. Up to a constant: only the best matters.

    Args:
        choice:
            Where the kernel comes from.
        places:
            The trials.
        waves:
            The waves.
        weights:
            The weight of each trial's kernel (row) in each function (column).
    """

    def __init__(
        self, choice: _Choice, places: _Places, waves: _Waves, weights: FloatArray
    ) -> None:
        self._choice, self._places = choice, places
        self._waves, self._weights = waves, weights

    def values(self, places: _Places) -> FloatArray:
        """Return the value at each place (row) of each function (column)."""
        kernel = self._choice.kernel(_distance(places, self._places) / self._choice.length)
        values: FloatArray = _sum_of(self._waves, places) + _product(kernel, self._weights)
        return values

    def at(self, places: _Places) -> tuple[FloatArray, FloatArray]:
        """Return value and slope of each function at its own place, or of one at all places.

        The slope is that along the ordered columns.
        """
        choice = self._choice
        vectors, phases, amplitudes = self._waves
        angles = places.along(vectors) + phases
        gaps = _distance(places, self._places) / choice.length
        values: FloatArray = (np.cos(angles) * amplitudes.T).sum(axis=1)
        values += (choice.kernel(gaps) * self._weights.T).sum(axis=1)
        here, there = places.ordered, self._places.ordered
        slopes = -_product(np.sin(angles) * amplitudes.T, vectors[: here.shape[1]].T)
        pull = _SLOPES[choice.kernel](gaps) * self._weights.T / choice.length**2
        slopes += here * pull.sum(axis=1, keepdims=True) - _product(pull, there)
        return values, slopes


# Functions, and how much each column of the places matters to them.
World = tuple[_Functions, FloatArray]


def _alternatives(
    values: FloatArray, median: float, best: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Return what values may be taken for, and the logarithm of its slope at each of them.

    That is as they are, or with those far below drawn in. The slope makes their likelihoods
    comparable.
    """
    unit = best - median
    low, same = median - _FAR * unit, np.zeros(len(values))
    if values.min() >= low:
        return [(values, same)]
    if unit == 0:
        return [(np.maximum(values, low), same)]
    below = np.clip((low - values) / unit, 0.0, _TOO_FAR)
    drawn_in = np.maximum(values, low) - unit * below / (1 + below), -2 * np.log1p(below)
    if below.max() == _TOO_FAR:
        return [drawn_in]
    return [(values, same), drawn_in]


def _some_of_each_distance(
    points: FloatArray,
    usable: NDArray[np.bool_],
    candidates: NDArray[np.intp],
    n_data: int,
) -> NDArray[np.intp]:
    """Return so many of the usable trials, evenly by their distance from the candidates."""
    spread = np.maximum(points[candidates].std(axis=0), 1e-3)
    scaled = points / spread
    gaps = np.full(len(points), np.inf)
    for i in candidates:
        gaps = np.minimum(gaps, ((scaled - scaled[i]) ** 2).sum(axis=1))
    order: NDArray[np.intp] = np.argsort(gaps, kind="stable")
    order = order[usable[order] & np.isfinite(gaps[order])]
    if len(order) > n_data:
        order = order[np.linspace(0, len(order) - 1, n_data).astype(int)]
    return order


def reflected(points: FloatArray) -> FloatArray:
    """Return points moved into the cube: what is beyond a face is as far on this side of it."""
    inside: FloatArray = 1 - np.abs(1 - points % 2)
    return inside


def _uphill(
    look: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    first_step: FloatArray,
    n_looks: int,
    *,
    longest: float = np.inf,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> FloatArray:
    """Return the best places found by going uphill, one in each row.

    Rprop: along each axis the step grows while the slope keeps its sign, and is halved when it
    does not. ``look`` returns the values and the slopes.
    """
    here, best, highest = start, start, np.full(len(start), -np.inf)
    step, sign = first_step, np.zeros_like(start)
    for _ in range(n_looks):
        value, slope = look(here)
        best = np.where((value > highest)[:, None], here, best)
        highest = np.maximum(value, highest)
        step = np.minimum(np.where(np.sign(slope) == -sign, 0.5, 1.2) * step, longest)
        sign = np.sign(slope)
        here = np.clip(here + step * sign, *bounds)
    return best


def _squares(a: _Places, b: _Places) -> tuple[FloatArray, FloatArray]:
    """Return squared distances, by what has an order and by what has none."""
    ordered, unordered = np.zeros((2, len(a), len(b)))
    for x, y in zip(a.ordered.T, b.ordered.T):
        ordered += (x[:, None] - y[None, :]) ** 2
    for x, y, apart in zip(a.codes.T, b.codes.T, a.apart):
        unordered += (x[:, None] != y[None, :]) * apart**2
    return ordered, unordered


def _distance(a: _Places, b: _Places) -> FloatArray:
    ordered, unordered = _squares(a, b)
    return np.sqrt(ordered + unordered)


def _shares(settings: Sequence[_Setting]) -> FloatArray:
    likelihood = np.array([setting.likelihood for setting in settings])
    shares: FloatArray = np.exp(likelihood - likelihood.max())
    shares /= shares.sum()
    return shares


def _noise(settings: Sequence[_Setting]) -> float:
    """Return the share of the variance that is noise."""
    shares_of_noise = [s.choice.noise / (1 + s.choice.noise) for s in settings]
    return float(_shares(settings) @ np.array(shares_of_noise))


def _worth_trying(settings: Sequence[_Setting]) -> list[_Choice]:
    """Return the choices that count for something, among those of the same relevance."""
    worth: list[_Choice] = []
    for _, group in groupby(settings, lambda s: s.choice.relevance):
        some = list(group)
        shares = _shares(some)
        count = shares >= _LEAST_SHARE * shares.max()
        worth += [s.choice for s, counts in zip(some, count) if counts]
    return worth


def _whitening(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return W with W matrix W' = 1, lower triangular, and the logarithm of the determinant.

    The matrix is positive definite. By quarters: see :data:`_SMALL`.
    """
    n = len(matrix)
    if n**3 <= _SMALL:
        factor = np.linalg.cholesky(matrix)
        return np.linalg.inv(factor), 2 * float(np.log(np.diag(factor)).sum())
    half = n // 2
    whitening = np.zeros_like(matrix)
    first, log_det = _whitening(matrix[:half, :half])
    side = _product(first, matrix[:half, half:])
    last, last_log_det = _whitening(matrix[half:, half:] - _product(side.T, side))
    whitening[:half, :half] = first
    whitening[half:, half:] = last
    whitening[half:, :half] = -_product(_product(last, side.T), first)
    return whitening, log_det + last_log_det


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a matrix product in pieces that are too small for BLAS to start its threads."""
    rows = max(_SMALL // max(a.shape[1] * b.shape[1], 1), 1)
    return np.concatenate([a[i : i + rows] @ b for i in range(0, len(a), rows)])
