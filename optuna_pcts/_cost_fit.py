"""Which cost model a study supports: all of them fitted to its measured costs by depth."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace
import math
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
import optuna
from optuna.trial import TrialState

from optuna_pcts._arrays import FloatArray
from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._study.costs import known_cost
from optuna_pcts._study.costs import level_of_trial
from optuna_pcts._study.costs import warn_of_malformed_cost
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


# With fewer trials the bootstrap knows nothing of the spread; with fewer depths a power law and
# an exponential are the same curve.
_MIN_TRIALS = 10
_MIN_DEPTHS = 3
# A trial counts as at most this many standard deviations away from the others of its depth, and
# not at all beyond twice as many.
_OUTLIER = 3.0
# Depths with at least so many trials have a median of their own.
_MEDIAN_OF = 5
# Costs closer than one per cent are not told apart, however regular they are: a model that says
# so much about real seconds would be wrong.
_RESOLUTION = 0.01
# Depths at which `maximum` may begin to bind; more would make the fit slower, not better.
_MAX_CAPS = 24
# Entries of the largest array in the bootstrap, to bound its memory.
_CHUNK = 2_000_000

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


@dataclass(frozen=True)
class FittedCost:
    """One cost model, fitted to the trials of a study.

    Attributes:
        model:
            The fitted model. Its cost at a depth is the geometric mean of the trials there, the
            typical one; their arithmetic mean is about ``exp(error**2 / 2)`` times larger.
        beta_interval:
            Bootstrap confidence interval of ``model.beta``.
        scale_interval:
            The same of ``model.scale``; :obj:`None` if the model has none, because its ``beta``
            is a cost already.
        error:
            Root mean square of the differences between the logarithms of the measured and of
            the modelled costs, trial by trial: 0.1 is about ten per cent.
        criterion:
            The Bayesian information criterion of the same differences. Comparable between the
            models, the smaller the better.
        support:
            Share of the bootstrap samples in which this model has the smallest criterion.
    """

    model: LinearGrowth | ConstantCost | PolynomialDecay | ExponentialCost
    beta_interval: tuple[float, float]
    scale_interval: tuple[float, float] | None
    error: float
    criterion: float
    support: float

    @property
    def name(self) -> str:
        """The name of the model."""
        return type(self.model).__name__


@dataclass(frozen=True)
class CostFit:
    """Which cost model the trials of a study support. Print it to read it.

    Attributes:
        models:
            All four models, the best first.
        n_trials:
            Number of trials that were fitted: those with a depth and a cost.
        n_outliers:
            How many more there are, left out for being far off from the others of their depth.
        depths:
            The depths they are at, as h, counted from 1.
        confidence:
            Level of the intervals, and the support from which on a model is separated.
        adequate:
            Whether the best model describes how costs depend on depth: it is :obj:`False` if a
            mean of its own for each depth does so clearly better, and then none of the four is
            the truth, whatever their order.
    """

    models: tuple[FittedCost, ...]
    n_trials: int
    n_outliers: int
    depths: tuple[int, ...]
    confidence: float
    adequate: bool

    @property
    def best(self) -> FittedCost:
        """The model with the smallest criterion."""
        return self.models[0]

    @property
    def separated(self) -> bool:
        """Whether the trials tell the best model from the others."""
        return self.best.support >= self.confidence

    @property
    def rivals(self) -> tuple[FittedCost, ...]:
        """The other models that the trials do not rule out, the best first."""
        if self.separated:
            return ()
        # The others have more than 1 - confidence together, so that one has its share of it.
        share = (1 - self.confidence) / (len(self.models) - 1)
        return tuple(fitted for fitted in self.models[1:] if fitted.support > share)

    def __getitem__(self, kind: type[Any]) -> FittedCost:
        """Return the fit of one of the four models, by its class."""
        for fitted in self.models:
            if type(fitted.model) is kind:
                return fitted
        raise KeyError(kind)

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        rows = [
            ("model", f"beta ({percent})", f"scale ({percent})", "maximum", "error", "support")
        ]
        for fitted in self.models:
            model = fitted.model
            scale = "-"
            if fitted.scale_interval is not None:
                assert isinstance(model, (PolynomialDecay, ExponentialCost))
                scale = _with_interval(model.scale, fitted.scale_interval)
            rows.append(
                (
                    fitted.name,
                    _with_interval(model.beta, fitted.beta_interval),
                    scale,
                    "-" if math.isinf(model.maximum) else f"{model.maximum:.4g}",
                    f"{fitted.error:.3f}",
                    f"{100 * fitted.support:.0f} %",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows
        ]
        head = (
            f"Cost of {self.n_trials} trials at {len(self.depths)} depths "
            f"(h = {self.depths[0]} to {self.depths[-1]}), {self.n_outliers} outliers left out"
        )
        if self.separated:
            verdict = f"The trials support {self.best.name}."
        else:
            others = ", ".join(fitted.name for fitted in self.rivals)
            verdict = f"{self.best.name} fits best, but is not separated from {others}."
        if not self.adequate:
            verdict += " None of the four describes all differences between the depths."
        return "\n".join([head, *table, verdict])


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"


def fit_cost(
    study: optuna.Study,
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int | None = 0,
) -> CostFit:
    """Fit the four cost models to what the trials of a study cost at their depths.

    All models are fitted to the logarithms of the costs by least squares, as costs vary by
    factors rather than by differences: 1 s in 10 s counts like 1 h in 10 h. Trials that are far
    off from the others of their depth are drawn in or left out first, so that a machine that
    hung once does not decide. ``maximum`` is estimated as well where the costs level off; it is
    infinite where it would not improve the criterion.

    A constant cost is a special case of the polynomial and of the exponential one, so it takes
    many trials to separate it from a change with depth that is too slow to see.

    Args:
        study:
            A study sampled by :class:`~optuna_pcts.PCTSSampler`, which stores the depth of each
            trial. Completed and pruned trials count, with :func:`trial_cost`; failed ones do
            not, as they may have ended at any point.
        confidence:
            Level of the intervals, between 0 and 1, and the share of the bootstrap samples that
            a model must win to count as separated from the others.
        n_bootstrap:
            Number of bootstrap samples, at least 20.
        seed:
            Seed of the bootstrap; :obj:`None` for a new one at each call.

    Returns:
        The four fits, the best first, and whether the trials separate it from the others.

    Raises:
        ValueError:
            If fewer than ten trials have both a depth and a cost, or these are at fewer than
            three depths.
    """
    if not isinstance(study, optuna.Study):
        raise TypeError(f"`study` must be an optuna.Study, but got {study!r}.")
    check_number("confidence", confidence, low=0.0, high=1.0)
    check_integer("n_bootstrap", n_bootstrap)
    if n_bootstrap < 20:
        raise ValueError(f"`n_bootstrap` must be at least 20, but got {n_bootstrap!r}.")
    if seed is not None:
        check_integer("seed", seed)

    levels, log_costs = _measured(study)
    depths, at = np.unique(levels, return_inverse=True)
    log_costs, kept = _without_outliers(depths.astype(float), at, log_costs)
    n_outliers = int(np.count_nonzero(~kept))
    at, log_costs = at[kept], log_costs[kept]

    measured = _DepthStatistics.of(np.ones((1, len(at))), at, log_costs, len(depths))
    fits = [_fit(curve, depths.astype(float), measured) for curve in _CURVES]
    resampled = _bootstrap(depths.astype(float), at, log_costs, n_bootstrap, seed)
    wins = np.argmin([sample.criterion for sample in resampled], axis=0)
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    # The bootstrap takes the spread of few trials for smaller than it is. This is the usual
    # correction for two fitted parameters, with Student's t for the normal distribution.
    stretch = math.sqrt(len(at) / (len(at) - 2)) * (1 + 1.2 / (len(at) - 2))

    models = []
    for i, (curve, fit, sample) in enumerate(zip(_CURVES, fits, resampled)):
        sample = sample.stretched(fit, stretch, curve.max_slope)
        low, high = np.quantile(curve.beta(sample), edges)
        scale_interval = None
        if curve.has_slope:
            scale_low, scale_high = np.quantile(np.exp(sample.intercept), edges)
            scale_interval = (float(scale_low), float(scale_high))
        models.append(
            FittedCost(
                model=curve.model(fit),
                beta_interval=(float(low), float(high)),
                scale_interval=scale_interval,
                error=float(np.sqrt(fit.loss[0] / len(at))),
                criterion=float(fit.criterion[0]),
                support=float(np.mean(wins == i)),
            )
        )
    models.sort(key=attrgetter("criterion"))

    # With hardly more trials than depths, a mean for each depth says nothing.
    adequate = True
    if len(at) >= 2 * len(depths):
        free = _criterion(measured.within, float(len(at)), np.array([float(len(depths))]))
        adequate = bool(models[0].criterion <= free[0])
    return CostFit(
        models=tuple(models),
        n_trials=len(at),
        n_outliers=n_outliers,
        depths=tuple(map(int, depths)),
        confidence=confidence,
        adequate=adequate,
    )


def _measured(study: optuna.Study) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the level h and the logarithm of the cost of each trial that has both."""
    levels, costs, n_ended, n_free = [], [], 0, 0
    malformed, has_warned = [], False
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)):
        n_ended += 1
        level = level_of_trial(trial)
        if level is None:
            if DEPTH_KEY in trial.user_attrs:
                malformed.append(trial.number)
            continue
        has_warned = has_warned or warn_of_malformed_cost(trial)
        cost = known_cost(trial)
        if cost is None:
            continue
        if cost == 0:
            n_free += 1  # has no logarithm
            continue
        levels.append(level)
        costs.append(cost)
    if malformed:
        _logger.warning(
            f"{len(malformed)} trials have a malformed attribute `{DEPTH_KEY}` and are ignored, "
            f"such as trial {malformed[0]}: it must be an integer of at least 0."
        )
    if n_free:
        _logger.warning(f"{n_free} trials cost nothing and are left out of the fit.")
    n_depths = len(set(levels))
    if not levels:
        raise ValueError(
            f"A cost model needs trials with a depth (user attribute `{DEPTH_KEY}`, written by "
            f"PCTSSampler) and a cost, but none of the {n_ended} completed or pruned trials of "
            "this study has both."
        )
    if len(levels) < _MIN_TRIALS or n_depths < _MIN_DEPTHS:
        raise ValueError(
            f"A cost model needs at least {_MIN_TRIALS} trials at {_MIN_DEPTHS} different "
            f"depths, but this study has {len(levels)} with a depth and a cost, at {n_depths} "
            "different depths."
        )
    return np.array(levels), np.log(costs)


def _without_outliers(
    depths: FloatArray, at: NDArray[np.int64], log_costs: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Draw in what is far off from the other trials of its depth, and say what to keep."""
    # A curve that contains all four models stands for the depths with few trials. Huber's
    # weights, so that the outliers do not draw it to themselves.
    basis = np.stack([np.ones_like(depths), np.log(depths), depths / depths[-1]], axis=1)[at]
    weights = np.ones(len(at))
    for _ in range(20):
        root = np.sqrt(weights)
        coefficients = np.linalg.lstsq(basis * root[:, None], log_costs * root, rcond=None)[0]
        distance = np.abs(log_costs - basis @ coefficients)
        spread = max(1.4826 * float(np.median(distance)), _RESOLUTION)
        weights = 1 / np.maximum(distance / (1.345 * spread), 1.0)
    centre = basis @ coefficients
    has_median = np.bincount(at) >= _MEDIAN_OF
    for i in np.flatnonzero(has_median):
        centre[at == i] = np.median(log_costs[at == i])
    distance = np.abs(log_costs - centre)
    limit = _OUTLIER * max(1.4826 * float(np.median(distance)), _RESOLUTION)
    # Where the curve stands for the depth, it may be the curve that is wrong: nothing is left out.
    kept = (distance <= 2 * limit) | ~has_median[at]
    return np.clip(log_costs, centre - limit, centre + limit), kept


@dataclass(frozen=True)
class _DepthStatistics:
    """All that least squares need of one or more samples of the same trials."""

    weight: FloatArray  # (sample, depth): number of trials
    mean: FloatArray  # (sample, depth): of the logarithms of their costs
    within: FloatArray  # (sample,): sum of the squares about these means

    @classmethod
    def of(
        cls, counts: FloatArray, at: NDArray[np.int64], log_costs: FloatArray, n_depths: int
    ) -> _DepthStatistics:
        """Sum up samples, given how often each has each trial."""
        one_hot = np.zeros((len(at), n_depths))
        one_hot[np.arange(len(at)), at] = 1.0
        centre = log_costs.mean()  # squares of large numbers would cancel badly
        y = log_costs - centre
        weight = counts @ one_hot
        total = counts @ (one_hot * y[:, None])
        squares = counts @ (y * y)
        mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
        within = np.maximum(squares - (total * mean).sum(axis=1), 0.0)
        return cls(weight, np.where(weight > 0, mean + centre, 0.0), within)


@dataclass(frozen=True)
class _CurveFit:
    """Fitted parameters, one entry per sample."""

    intercept: FloatArray
    slope: FloatArray
    log_maximum: FloatArray
    loss: FloatArray
    criterion: FloatArray

    def stretched(self, centre: _CurveFit, factor: float, max_slope: float) -> _CurveFit:
        """Return the samples with their distance from the fit to all trials enlarged."""
        slope = centre.slope + factor * (self.slope - centre.slope)
        return replace(
            self,
            intercept=centre.intercept + factor * (self.intercept - centre.intercept),
            slope=np.minimum(slope, max_slope),
        )


@dataclass(frozen=True)
class _Curve:
    """One of the models as a line: log cost = intercept + offset(h) + slope x(h)."""

    model: Callable[[_CurveFit], LinearGrowth | ConstantCost | PolynomialDecay | ExponentialCost]
    beta: Callable[[_CurveFit], FloatArray]
    offset: Callable[[FloatArray], FloatArray] = np.zeros_like
    x: Callable[[FloatArray], FloatArray] = np.zeros_like
    has_slope: bool = False
    max_slope: float = math.inf
    caps_deep: bool = False  # `maximum` may bind from some depth on
    caps_shallow: bool = False  # ... or up to some depth


def _level_of(fit: _CurveFit) -> FloatArray:
    return np.exp(fit.intercept)


def _decay_of(fit: _CurveFit) -> FloatArray:
    return 0.0 - fit.slope


def _base_of(fit: _CurveFit) -> FloatArray:
    return np.exp(-fit.slope)


def _maximum_of(fit: _CurveFit) -> float:
    return float(np.exp(fit.log_maximum[0]))


_CURVES = (
    _Curve(
        model=lambda fit: LinearGrowth(float(_level_of(fit)[0]), _maximum_of(fit)),
        beta=_level_of,
        offset=np.log,
        caps_deep=True,
    ),
    _Curve(
        model=lambda fit: ConstantCost(float(_level_of(fit)[0])),
        beta=_level_of,
    ),
    _Curve(
        model=lambda fit: PolynomialDecay(
            float(_decay_of(fit)[0]), _maximum_of(fit), float(_level_of(fit)[0])
        ),
        beta=_decay_of,
        x=np.log,
        has_slope=True,
        max_slope=0.0,
        caps_shallow=True,
    ),
    _Curve(
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


def _criterion(loss: FloatArray, n: float, n_parameters: FloatArray) -> FloatArray:
    """Return the Bayesian information criterion of normal differences of unknown variance."""
    return n * np.log(loss / n + _RESOLUTION**2) + math.log(n) * n_parameters


def _fit(curve: _Curve, h: FloatArray, samples: _DepthStatistics) -> _CurveFit:
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
            # A sample may have all its trials at one depth, and then no slope.
            slope = np.where(xx > 1e-12, np.minimum(xy / xx, curve.max_slope), 0.0)
        intercept = mean_y - slope * mean_x
        log_maximum = (weight * samples.mean) @ (1 - free).T / (weight @ (1 - free).T)
    log_maximum[:, 0] = math.inf  # the first has no cap

    # The levels taken as free or capped only suggest the parameters: what counts is the loss of
    # min{curve, maximum} itself.
    line = intercept[:, :, None] + slope[:, :, None] * x + offset
    predicted = np.minimum(line, log_maximum[:, :, None])
    squares = weight[:, None, :] * (samples.mean[:, None, :] - predicted) ** 2
    loss = squares.sum(axis=2) + samples.within[:, None]
    n_parameters = np.full(len(free), 1.0 + curve.has_slope)
    n_parameters[1:] += 1
    criterion = _criterion(loss, float(weight[0].sum()), n_parameters)
    criterion = np.where(np.isfinite(criterion), criterion, math.inf)

    every, best = np.arange(len(weight)), criterion.argmin(axis=1)
    slope = slope[every, best]
    return _CurveFit(
        intercept=intercept[every, best] - slope * x_centre,
        slope=slope,
        log_maximum=log_maximum[every, best],
        loss=loss[every, best],
        criterion=criterion[every, best],
    )


def _free_depths(curve: _Curve, n_depths: int) -> FloatArray:
    """Return, row by row, at which depths `maximum` does not bind: first at all of them."""
    # Two capped depths at least: one alone would be an outlier. And one free depth more than
    # the curve has parameters, so that these are not made up.
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


def _bootstrap(
    h: FloatArray, at: NDArray[np.int64], log_costs: FloatArray, n_samples: int, seed: int | None
) -> list[_CurveFit]:
    """Fit every model to samples of the trials, drawn with replacement."""
    rng = np.random.default_rng(seed)
    n = len(at)
    largest = max(n, len(h) * (2 * _MAX_CAPS + 1))
    step = max(1, _CHUNK // largest)
    parts: list[list[_CurveFit]] = []
    for start in range(0, n_samples, step):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(step, n_samples - start))
        samples = _DepthStatistics.of(counts.astype(float), at, log_costs, len(h))
        parts.append([_fit(curve, h, samples) for curve in _CURVES])
    return [_joined(part) for part in zip(*parts)]


def _joined(parts: Iterable[_CurveFit]) -> _CurveFit:
    parts = list(parts)
    return _CurveFit(
        intercept=np.concatenate([part.intercept for part in parts]),
        slope=np.concatenate([part.slope for part in parts]),
        log_maximum=np.concatenate([part.log_maximum for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        criterion=np.concatenate([part.criterion for part in parts]),
    )
