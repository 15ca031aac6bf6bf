"""The four cost models as curves over the depth, and how they are fitted to samples of trials."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace
import math

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


# Least spread of the costs, in logarithms: no model describes measured seconds to within one per
# cent, even if those of one study are more regular.
RESOLUTION = 0.01
# Number of depths at which `maximum` may begin to bind; more make the fit slower, not better.
_MAX_CAPS = 24
# Entries of the largest array in the bootstrap, to bound its memory.
_CHUNK = 2_000_000


@dataclass(frozen=True)
class DepthStatistics:
    """Sufficient statistics of least squares, of one or more samples of the same trials."""

    weight: FloatArray  # (sample, depth): number of trials
    mean: FloatArray  # (sample, depth): of the logarithms of their costs
    within: FloatArray  # (sample,): sum of the squares about these means

    @classmethod
    def of(
        cls, counts: FloatArray, at: NDArray[np.int64], log_costs: FloatArray, n_depths: int
    ) -> DepthStatistics:
        """Return the statistics of samples, given how often each sample has each trial."""
        one_hot = np.zeros((len(at), n_depths))
        one_hot[np.arange(len(at)), at] = 1.0
        centre = log_costs.mean()  # against cancellation
        y = log_costs - centre
        weight = counts @ one_hot
        total = counts @ (one_hot * y[:, None])
        squares = counts @ (y * y)
        mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
        within = np.maximum(squares - (total * mean).sum(axis=1), 0.0)
        return cls(weight, np.where(weight > 0, mean + centre, 0.0), within)


@dataclass(frozen=True)
class CurveFit:
    """Fitted parameters, one entry per sample."""

    intercept: FloatArray
    slope: FloatArray
    log_maximum: FloatArray
    loss: FloatArray
    criterion: FloatArray

    def stretched(self, centre: CurveFit, factor: float, max_slope: float) -> CurveFit:
        """Return the samples with their distance from the fit to all trials enlarged."""
        slope = centre.slope + factor * (self.slope - centre.slope)
        return replace(
            self,
            intercept=centre.intercept + factor * (self.intercept - centre.intercept),
            slope=np.minimum(slope, max_slope),
        )


@dataclass(frozen=True)
class Curve:
    """One of the models as a line: log cost = intercept + offset(h) + slope x(h)."""

    model: Callable[[CurveFit], LinearGrowth | ConstantCost | PolynomialDecay | ExponentialCost]
    beta: Callable[[CurveFit], FloatArray]
    offset: Callable[[FloatArray], FloatArray] = np.zeros_like
    x: Callable[[FloatArray], FloatArray] = np.zeros_like
    has_slope: bool = False
    max_slope: float = math.inf
    caps_deep: bool = False  # `maximum` may bind from some depth on
    caps_shallow: bool = False  # ... or up to some depth


def _level_of(fit: CurveFit) -> FloatArray:
    return np.exp(fit.intercept)


def _decay_of(fit: CurveFit) -> FloatArray:
    return 0.0 - fit.slope


def _base_of(fit: CurveFit) -> FloatArray:
    return np.exp(-fit.slope)


def _maximum_of(fit: CurveFit) -> float:
    return float(np.exp(fit.log_maximum[0]))


CURVES = (
    Curve(
        model=lambda fit: LinearGrowth(float(_level_of(fit)[0]), _maximum_of(fit)),
        beta=_level_of,
        offset=np.log,
        caps_deep=True,
    ),
    Curve(
        model=lambda fit: ConstantCost(float(_level_of(fit)[0])),
        beta=_level_of,
    ),
    Curve(
        model=lambda fit: PolynomialDecay(
            float(_decay_of(fit)[0]), _maximum_of(fit), float(_level_of(fit)[0])
        ),
        beta=_decay_of,
        x=np.log,
        has_slope=True,
        max_slope=0.0,
        caps_shallow=True,
    ),
    Curve(
        model=lambda fit: ExponentialCost(
            float(_base_of(fit)[0]), _maximum_of(fit), float(_level_of(fit)[0])
        ),
        beta=_base_of,
        x=np.array,
        has_slope=True,
        caps_deep=True,
        caps_shallow=True,
    ),
)


def information_criterion(loss: FloatArray, n: float, n_parameters: FloatArray) -> FloatArray:
    """Return the Bayesian information criterion of normal differences of unknown variance."""
    return n * np.log(loss / n + RESOLUTION**2) + math.log(n) * n_parameters


def fit_curve(curve: Curve, h: FloatArray, samples: DepthStatistics) -> CurveFit:
    """Fit one model to every sample, with and without a maximum, and keep the better."""
    x, offset = curve.x(h), curve.offset(h)
    free = _free_depths(curve, len(h))  # (cap, depth)
    weight = samples.weight
    y = samples.mean - offset
    x_centre = x.mean()
    x = x - x_centre

    with np.errstate(divide="ignore", invalid="ignore"):
        w = weight @ free.T  # (sample, cap), and so are all below
        mean_x = (weight * x) @ free.T / w
        mean_y = (weight * y) @ free.T / w
        slope = np.zeros_like(w)
        if curve.has_slope:
            xx = (weight * x * x) @ free.T / w - mean_x**2
            xy = (weight * x * y) @ free.T / w - mean_x * mean_y
            # A sample with all its trials at one depth has no slope.
            slope = np.where(xx > 1e-12, np.minimum(xy / xx, curve.max_slope), 0.0)
        intercept = mean_y - slope * mean_x
        log_maximum = (weight * samples.mean) @ (1 - free).T / (weight @ (1 - free).T)
    log_maximum[:, 0] = math.inf  # the first has no cap

    # The split into free and capped levels only yields candidate parameters; they are compared by
    # the loss of min{curve, maximum} itself.
    line = intercept[:, :, None] + slope[:, :, None] * x + offset
    predicted = np.minimum(line, log_maximum[:, :, None])
    squares = weight[:, None, :] * (samples.mean[:, None, :] - predicted) ** 2
    loss = squares.sum(axis=2) + samples.within[:, None]
    n_parameters = np.full(len(free), 1.0 + curve.has_slope)
    n_parameters[1:] += 1
    criterion = information_criterion(loss, float(weight[0].sum()), n_parameters)
    criterion = np.where(np.isfinite(criterion), criterion, math.inf)

    every, best = np.arange(len(weight)), criterion.argmin(axis=1)
    slope = slope[every, best]
    return CurveFit(
        intercept=intercept[every, best] - slope * x_centre,
        slope=slope,
        log_maximum=log_maximum[every, best],
        loss=loss[every, best],
        criterion=criterion[every, best],
    )


def _free_depths(curve: Curve, n_depths: int) -> FloatArray:
    """Return, row by row, at which depths `maximum` does not bind: first at all of them."""
    # At least two capped depths: one alone may be an outlier. And one free depth more than the
    # curve has parameters, so that these are determined.
    n_free = 3 if curve.has_slope else 2
    sizes = np.arange(n_free, n_depths - 1)
    if len(sizes) > _MAX_CAPS:
        sizes = np.unique(np.linspace(n_free, n_depths - 2, _MAX_CAPS).round().astype(int))
    rows = [np.ones(n_depths)]
    place = np.arange(n_depths)
    if curve.caps_deep:
        rows += [(place < size).astype(float) for size in sizes]
    if curve.caps_shallow:
        rows += [(place >= n_depths - size).astype(float) for size in sizes]
    return np.array(rows)


def bootstrap(
    h: FloatArray, at: NDArray[np.int64], log_costs: FloatArray, n_samples: int, seed: int | None
) -> list[CurveFit]:
    """Fit every model to samples of the trials, drawn with replacement."""
    rng = np.random.default_rng(seed)
    n = len(at)
    largest = max(n, len(h) * (2 * _MAX_CAPS + 1))
    step = max(1, _CHUNK // largest)
    parts: list[list[CurveFit]] = []
    for start in range(0, n_samples, step):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(step, n_samples - start))
        samples = DepthStatistics.of(counts.astype(float), at, log_costs, len(h))
        parts.append([fit_curve(curve, h, samples) for curve in CURVES])
    return [_joined(part) for part in zip(*parts)]


def _joined(parts: Iterable[CurveFit]) -> CurveFit:
    parts = list(parts)
    return CurveFit(
        intercept=np.concatenate([part.intercept for part in parts]),
        slope=np.concatenate([part.slope for part in parts]),
        log_maximum=np.concatenate([part.log_maximum for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        criterion=np.concatenate([part.criterion for part in parts]),
    )
