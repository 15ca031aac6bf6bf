"""Which cost model a study supports: all of them fitted to its measured costs by depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
import math
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._analysis.cost_curves import bootstrap
from optuna_pcts._analysis.cost_curves import CURVES
from optuna_pcts._analysis.cost_curves import DepthStatistics
from optuna_pcts._analysis.cost_curves import fit_curve
from optuna_pcts._analysis.cost_curves import information_criterion
from optuna_pcts._analysis.cost_curves import RESOLUTION
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


# With fewer trials the bootstrap underestimates the spread; with fewer depths a power law and an
# exponential cannot be told apart.
_MIN_TRIALS = 10
_MIN_DEPTHS = 3
# Costs are winsorised at so many standard deviations from the others of their depth, and left out
# beyond twice as many.
_OUTLIER = 3.0
# Depths with at least so many trials have a median of their own.
_MEDIAN_OF = 5

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
            Number of trials left out as outliers among those of their depth.
        depths:
            The depths they are at, as h, counted from 1.
        confidence:
            Level of the intervals, and the support from which on a model is separated.
        adequate:
            Whether the best model describes how costs depend on depth. :obj:`False` if a separate
            mean for each depth has a smaller criterion; then none of the four fits.
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
        # The others together have more than 1 - confidence: a rival has at least an equal part.
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

    All models are fitted to the logarithms of the costs by least squares: relative errors count,
    1 s in 10 s like 1 h in 10 h. Outliers among the trials of a depth are winsorised or left out
    first, so that a machine that hung once does not affect the fit. ``maximum`` is estimated too
    where the costs level off; it is infinite where it would not improve the criterion.

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
    return fit_cost_of(
        study.get_trials(deepcopy=False),
        confidence=confidence,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )


def fit_cost_of(
    trials: Iterable[FrozenTrial],
    *,
    confidence: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int | None = 0,
) -> CostFit:
    """Return what :func:`fit_cost` does, from the trials of one moment."""
    check_number("confidence", confidence, low=0.0, high=1.0)
    check_integer("n_bootstrap", n_bootstrap)
    if n_bootstrap < 20:
        raise ValueError(f"`n_bootstrap` must be at least 20, but got {n_bootstrap!r}.")
    if seed is not None:
        check_integer("seed", seed)

    levels, log_costs = _measured(trials)
    depths, at = np.unique(levels, return_inverse=True)
    log_costs, kept = _without_outliers(depths.astype(float), at, log_costs)
    n_outliers = int(np.count_nonzero(~kept))
    at, log_costs = at[kept], log_costs[kept]

    measured = DepthStatistics.of(np.ones((1, len(at))), at, log_costs, len(depths))
    fits = [fit_curve(curve, depths.astype(float), measured) for curve in CURVES]
    resampled = bootstrap(depths.astype(float), at, log_costs, n_bootstrap, seed)
    wins = np.argmin([sample.criterion for sample in resampled], axis=0)
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    # The bootstrap underestimates the spread of few trials. This is the usual correction for two
    # fitted parameters, with Student's t instead of the normal distribution.
    stretch = math.sqrt(len(at) / (len(at) - 2)) * (1 + 1.2 / (len(at) - 2))

    models = []
    for i, (curve, fit, sample) in enumerate(zip(CURVES, fits, resampled)):
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

    # With hardly more trials than depths, separate means always fit.
    adequate = True
    if len(at) >= 2 * len(depths):
        free = information_criterion(
            measured.within, float(len(at)), np.array([float(len(depths))])
        )
        adequate = bool(models[0].criterion <= free[0])
    return CostFit(
        models=tuple(models),
        n_trials=len(at),
        n_outliers=n_outliers,
        depths=tuple(map(int, depths)),
        confidence=confidence,
        adequate=adequate,
    )


def _measured(trials: Iterable[FrozenTrial]) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the level h and the logarithm of the cost of each trial that has both."""
    levels, costs, n_ended, n_free = [], [], 0, 0
    malformed, has_warned = [], False
    for trial in trials:
        if trial.state not in (TrialState.COMPLETE, TrialState.PRUNED):
            continue
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
            n_free += 1  # its cost has no logarithm
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
    """Winsorise costs far from those of other trials of their depth; return which to keep."""
    # The centre at depths with few trials is a robust fit (Huber's weights) of a curve that
    # contains all four models.
    basis = np.stack([np.ones_like(depths), np.log(depths), depths / depths[-1]], axis=1)[at]
    weights = np.ones(len(at))
    for _ in range(20):
        root = np.sqrt(weights)
        coefficients = np.linalg.lstsq(basis * root[:, None], log_costs * root, rcond=None)[0]
        distance = np.abs(log_costs - basis @ coefficients)
        spread = max(1.4826 * float(np.median(distance)), RESOLUTION)
        weights = 1 / np.maximum(distance / (1.345 * spread), 1.0)
    centre = basis @ coefficients
    has_median = np.bincount(at) >= _MEDIAN_OF
    for i in np.flatnonzero(has_median):
        centre[at == i] = np.median(log_costs[at == i])
    distance = np.abs(log_costs - centre)
    limit = _OUTLIER * max(1.4826 * float(np.median(distance)), RESOLUTION)
    # Where the centre is the curve's, the curve may be wrong: nothing is left out.
    kept = (distance <= 2 * limit) | ~has_median[at]
    return np.clip(log_costs, centre - limit, centre + limit), kept
