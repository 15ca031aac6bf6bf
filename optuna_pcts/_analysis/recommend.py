"""The recommendation of a study: the trial with the best estimate, not the best observed value.

Each good trial is estimated with a Gaussian process (``_gp/fit.py``), at full fidelity.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
import sys
from typing import Any
from typing import overload

import numpy as np
from numpy.typing import NDArray
import optuna
from optuna.study import StudyDirection

from optuna_pcts._arrays import FloatArray
from optuna_pcts._checks import check_integer
from optuna_pcts._gp.config import GPConfig
from optuna_pcts._gp.fit import GaussianProcess
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.history import History
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import Status
from optuna_pcts._tree.repeats import believable
from optuna_pcts._tree.repeats import neighbours_of
from optuna_pcts._tree.repeats import places_of
from optuna_pcts._tree.repeats import real_share


# Number of candidates, the best trials.
_N_CANDIDATES = 60
# Largest number of trials, good or bad, that the process is fitted to: under noise the more the
# better. Settings of the process are preselected on so many of them.
_N_DATA = 600
_N_PROBES = 128
# ARD weights are learned from so many trials per parameter on; with fewer, intervals would be too
# narrow.
_ENOUGH_PER_DIM = 10
# Length scales and noise variances of the process to choose from.
_LENGTHS = (0.5, 1.0, 2.5, 6.0, 16.0)
_NOISES = (1e-9, 1e-6, 1e-3, 0.03, 0.3, 2.0, 10.0)
# The process fits if it explains this share of the variance of held-out trials. If it does not,
# its residuals count as part of the objective, not as noise.
_FITS = 0.4
# If it fits, this share of the residual variance counts as part of the objective: without
# replicates a rugged function cannot be told from noise. 0.2 to 0.3 lose least on both
# (`python -m benchmarks.answers`: less is better under noise, more on Rastrigin's function).
_REAL = 0.3
# Up to this share of the variance, noise counts as none.
_NO_NOISE = 1e-7
# Values are log-transformed by their distance to the best, in units of this quantile of the
# distances; only if the share of explained variance increases by so much, or the unexplained share
# decreases to this fraction.
_TOP = 0.1
_CLEARLY_BETTER = 0.05
_MUCH_LESS = 0.25
# The probability that an interval does not contain the true value.
_MISS = 0.05
_LARGEST_HALF = sys.float_info.max / 2


@dataclass(frozen=True)
class Recommendation:
    """A configuration to use.

    Attributes:
        params:
            The parameters, those of a trial that was evaluated.
        value:
            Estimate of the objective there.
        interval:
            Interval that contains the objective, without noise, with 95 % probability.
        n_trials:
            Number of trials that support the estimate: it and those close to it.
        number:
            Number of the trial.
    """

    params: Mapping[str, Any]
    value: float
    interval: tuple[float, float]
    n_trials: int
    number: int


@overload
def recommend(study: optuna.Study, top: None = None) -> Recommendation: ...


@overload
def recommend(study: optuna.Study, top: int) -> list[Recommendation]: ...


def recommend(
    study: optuna.Study, top: int | None = None
) -> Recommendation | list[Recommendation]:
    """Return the configuration with the best estimated value.

    Unlike ``study.best_trial``, the trial with the best observed value, which under noise is
    biased (winner's curse). Trials that violate a constraint are left out.

    Args:
        study:
            Any study with one objective, by whatever sampler.
        top:
            Return a list of up to this many alternatives, best first, well apart from each other.

    Returns:
        The recommendation; it depends only on what is in the storage.

    Raises:
        ValueError:
            If the study has several objectives, or no feasible trial that ended with a finite
            value.
    """
    if top is not None:
        check_integer("top", top)
        if top < 1:
            raise ValueError(f"`top` must be at least 1, but got {top!r}.")
    if study._is_multi_objective():
        raise ValueError("`recommend` needs a study with one objective.")
    history = History(study, trials=study.get_trials(deepcopy=False))
    history.update(None)
    sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
    found = recommend_from(history, sign, top or 1)
    return found[0] if top is None else found


def recommend_from(history: History, sign: float, top: int = 1) -> list[Recommendation]:
    """Return up to so many recommendations from trials that were read already.

    Args:
        history:
            The trials.
        sign:
            1 if the study maximizes, and -1 if it minimizes.
        top:
            How many, as for :func:`recommend`.
    """
    told = [f for f in history.replay() if f.status is Status.TOLD and np.isfinite(f.value)]
    if not told:
        raise ValueError("`recommend` needs a trial that ended with a finite value.")
    told = [f for f in told if f.is_feasible]
    if not told:
        raise ValueError(
            "`recommend` needs a feasible trial: each one that ended with a finite value violates "
            "a constraint."
        )
    with np.errstate(all="ignore"):  # values may be as large or as small as floats can be
        return _recommend(SearchSpace(history.space.all_distributions()), told, sign, top)


def _recommend(
    space: SearchSpace, trials: list[Feedback], sign: float, top: int
) -> list[Recommendation]:
    # Only trials at the highest fidelity, as a rule full fidelity.
    furthest = max(t.fidelity for t in trials)
    trials = [t for t in trials if t.fidelity == furthest]
    scale = _Scale(np.array([t.value for t in trials]))
    values = scale.of(np.array([t.value for t in trials]))
    found_at = [space.to_unit(t.params) or [np.nan] * len(space) for t in trials]
    points = np.array(found_at).reshape(len(trials), len(space))
    places = places_of(points, space.tolerance)
    believed, is_outlier = believable(values, places)
    candidates = np.lexsort((is_outlier, -believed))[:_N_CANDIDATES]
    located = np.flatnonzero(~np.isnan(points).all(axis=1) | (not len(space)))[-_N_DATA:]
    points, categories = _with_what_is_missing(points, space.categories)

    config = GPConfig(
        n_data=_N_DATA,
        n_probes=_N_PROBES,
        lengths=_LENGTHS,
        noises=_NOISES,
        learns_ard=len(trials) >= _ENOUGH_PER_DIM * len(space),
    )

    def estimate(of: FloatArray) -> GaussianProcess:
        return GaussianProcess(
            points,
            of,
            (float(np.median(of)), float(of.max())),
            np.zeros(len(of)),
            categories,
            candidates=candidates,
            config=config,
        )

    # The logarithm fits better if values span decades, or if their noise grows with them.
    warp = _Warp(believed)
    process, warped = estimate(believed), estimate(warp.of(believed))
    fits = process.explained, warped.explained
    rests = 1 - fits[0], 1 - fits[1]
    is_warped = rests[1] < max(rests[0] - _CLEARLY_BETTER, _MUCH_LESS * rests[0])
    if is_warped:
        process, believed, values = warped, warp.of(believed), warp.of(values)
    own = believed[candidates]
    one, other = (located[i] for i in neighbours_of(points[located]))
    real = real_share(process.noise_variance, values[one] - values[other])
    if process.noise < _NO_NOISE:
        real = 1.0
    elif real is None:
        real = _REAL if max(fits) >= _FITS else 1.0
    mean = process.mean + real * (own - process.mean)
    # If the residuals are all noise, the estimate is the process's; if they are all part of the
    # objective, it is the observed value.
    std = np.sqrt(process.std**2 + real * process.noise_variance)
    if len(trials) == 1:
        std[:] = 1.0  # the only scale there is: the size of the value
    near = process.is_near
    by_mean = np.argsort(-mean, kind="stable")
    # The best of several estimates is biased by selection: the interval holds for any choice among
    # the places that may be the best (Bonferroni).
    may_be_best = [i for i in by_mean if mean[i] + _half_width(1) * std[i] >= mean.max()]
    half = _half_width(len(_apart(may_be_best, near))) * std
    low, high = np.minimum(process.mean - half, own), np.maximum(process.mean + half, own)
    chosen = _apart(by_mean, near)[:top]
    found = []
    for i in chosen:
        value, *ends = (
            sign * scale.back(warp.back(x) if is_warped else x) for x in (mean[i], low[i], high[i])
        )
        ends.sort()
        trial = trials[candidates[i]]
        found.append(
            Recommendation(
                trial.params,
                value,
                (ends[0], ends[1]),
                int(np.count_nonzero(near[i])),
                trial.number,
            )
        )
    return found


def _half_width(n: int) -> float:
    """Return the half width of n simultaneous intervals, in standard deviations."""
    return NormalDist().inv_cdf(1 - _MISS / 2 / n)


def _apart(candidates: Iterable[int], near: NDArray[np.bool_]) -> list[int]:
    """Return those of some candidates that are not in the place of one before them."""
    apart: list[int] = []
    for i in candidates:
        if not near[i, apart].any():
            apart.append(int(i))
    return apart


class _Scale:
    """A scale of values: 0 is the median, 1 the best. Halved inside, against overflow."""

    def __init__(self, values: FloatArray) -> None:
        halves = values / 2
        self.half_low = float(np.median(halves))
        self.half_unit = float(halves.max()) - self.half_low
        if not self.half_unit:
            self.half_unit = float(halves.max() - halves.min()) or max(abs(self.half_low), 1.0)

    def of(self, values: FloatArray) -> FloatArray:
        scaled: FloatArray = (values / 2 - self.half_low) / self.half_unit
        return scaled

    def back(self, scaled: float) -> float:
        """Return a value of the objective, limited to what a float can hold."""
        half = self.half_low + float(scaled) * self.half_unit
        return 2 * min(max(half, -_LARGEST_HALF), _LARGEST_HALF)


class _Warp:
    """The logarithm of the distance to the best value, in units of its 0.1 quantile."""

    def __init__(self, values: FloatArray) -> None:
        self._best = float(values.max())
        gaps = self._best - values
        near = float(np.quantile(gaps, _TOP)) or float(gaps[gaps > 0].min(initial=1.0))
        self._near = near

    def of(self, values: FloatArray) -> FloatArray:
        warped: FloatArray = -np.log1p(np.maximum(self._best - values, 0.0) / self._near)
        return warped

    def back(self, warped: float) -> float:
        return self._best - self._near * float(np.expm1(-warped))


def _with_what_is_missing(
    points: FloatArray, categories: Sequence[int]
) -> tuple[FloatArray, list[int]]:
    """Return points with missing coordinates filled in, and the categories of their axes.

    Whether a trial lacks a parameter becomes a category of its own; the missing coordinate is the
    mean of the known ones.
    """
    missing = np.isnan(points)
    if not missing.any():
        return points, list(categories)
    known = np.where(missing, 0.0, points).sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
    patterns = np.unique(missing[:, missing.any(axis=0)], axis=1)
    has_not = np.where(patterns, 0.75, 0.25)
    filled = np.concatenate([np.where(missing, known, points), has_not], axis=1)
    return filled, [*categories, *[2] * patterns.shape[1]]
