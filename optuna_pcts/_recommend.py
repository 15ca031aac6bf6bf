"""The answer of a study: not the luckiest trial, but the one that is most likely good.

Under noise the best of many trials is mostly the luckiest one. Trials near each other tell about
each other, so the value at a trial is estimated from its neighbourhood, by a Gaussian process
over the trials around the best ones. How far a neighbour counts, and how much of the spread is
noise, is read off the data; without noise the estimate is the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import overload

import numpy as np
from numpy.typing import NDArray
import optuna
from optuna.study import StudyDirection

from optuna_pcts._checks import check_integer
from optuna_pcts._fidelity import BiasModel
from optuna_pcts._history import Feedback
from optuna_pcts._history import History
from optuna_pcts._history import Status
from optuna_pcts._policy import FloatArray
from optuna_pcts._space import SearchSpace


# So many of the best trials are candidates ...
_N_CANDIDATES = 60
# ... and so many of the nearest trials, good or bad, tell about them. Only the best ones would be
# only the lucky ones.
_N_NEIGHBOURS = 200
# Length scales in units of the candidates' own spread, and shares of noise, to choose from.
_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NOISES = (1e-6, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Trials closer than this, in spreads of the candidates (root mean square over the parameters) and
# with the same categories, are in the same place and support each other.
_SAME_PLACE = 0.5
# Two categories are as far apart as this many spreads.
_CATEGORY_DISTANCE = 2.0
# Half width of a 95 % interval, in standard deviations.
_Z = 1.96


@dataclass(frozen=True)
class Recommendation:
    """A configuration to use.

    Attributes:
        params:
            The parameters, those of a trial that was evaluated.
        value:
            Estimate of the objective there.
        interval:
            Interval that holds the objective, without noise, with 95 % probability.
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
    """Return the configuration that is most likely good, with an estimate of its value.

    Unlike ``study.best_trial``, which is the luckiest trial where evaluations are noisy.

    Args:
        study:
            Any study with one objective, by whatever sampler.
        top:
            Return a list of up to this many alternatives, best first, each in another place.

    Returns:
        The recommendation; it depends on nothing but what is in the storage.

    Raises:
        ValueError:
            If the study has several objectives or no completed trial.
    """
    if top is not None:
        check_integer("top", top)
        if top < 1:
            raise ValueError(f"`top` must be at least 1, but got {top!r}.")
    if study._is_multi_objective():
        raise ValueError("`recommend` needs a study with one objective.")
    history = History(study)
    history.update(None)
    told = [f for f in history.replay() if f.status is Status.TOLD and np.isfinite(f.value)]
    if not told:
        raise ValueError("`recommend` needs a trial that ended with a finite value.")
    sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
    found = _recommend(SearchSpace(history.space.distributions()), told, sign, top or 1)
    return found[0] if top is None else found


def _recommend(
    space: SearchSpace, trials: list[Feedback], sign: float, top: int
) -> list[Recommendation]:
    fidelity = np.array([t.fidelity for t in trials])
    values, bias = _at_full_fidelity(trials, fidelity)
    located = [space.to_unit(t.params) or [np.nan] * len(space) for t in trials]
    points = np.array(located).reshape(len(trials), len(space))
    # Never one that only looks good from halfway: what was evaluated furthest, as a rule in full.
    best = np.argsort(-values, kind="stable")
    best = best[fidelity[best] == fidelity.max()]
    candidates = best[~np.isnan(points[best]).any(axis=1)][:_N_CANDIDATES]
    if not len(candidates):  # no trial lies in the space that the newest ones have
        candidates, points = best[:_N_CANDIDATES], np.zeros((len(trials), 0))
    rows = _neighbourhood(points, candidates)
    process = _Process(points[rows], values[rows], bias[rows], space, len(candidates))
    mean, std, near = process.mean, process.std, process.is_near
    order = np.argsort(-(mean - std), kind="stable")
    chosen: list[int] = []
    for i in order:
        if len(chosen) < top and not near[i, chosen].any():
            chosen.append(int(i))
    found = []
    for i in chosen:
        ends = sorted(float(sign * (mean[i] + d * std[i])) for d in (-_Z, _Z))
        trial = trials[rows[i]]
        n_trials = int(np.count_nonzero(near[i]))
        value = float(sign * mean[i])
        found.append(
            Recommendation(trial.params, value, (ends[0], ends[1]), n_trials, trial.number)
        )
    return found


def _at_full_fidelity(
    trials: list[Feedback], fidelity: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the value to expect of each trial at full fidelity, and by how much it may be off."""
    values = np.array([t.value for t in trials])
    if (fidelity >= 1).all():
        return values, np.zeros(len(values))
    model = BiasModel()
    for t in trials:
        if t.curve is not None:
            model.observe(t.number, t.curve)
    model.learn(trials[-1].number + 1)
    values = values + np.where(fidelity < 1, model.shift(fidelity), 0.0)
    low = float(np.median(values))
    model.scale(low, float(values.max()) - low, doubt=1.0)
    return values, np.where(fidelity < 1, model.zeta(fidelity), 0.0)


def _neighbourhood(points: FloatArray, candidates: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the candidates, and then the other trials nearest to them."""
    spread = np.maximum(points[candidates].std(axis=0), 1e-3)
    scaled = points / spread
    gaps = np.full(len(points), np.inf)
    for i in candidates:
        gaps = np.minimum(gaps, ((scaled - scaled[i]) ** 2).sum(axis=1))
    gaps[candidates] = -1.0
    gaps[np.isnan(gaps)] = np.inf
    nearest = np.argsort(gaps, kind="stable")[: max(_N_NEIGHBOURS, len(candidates))]
    others = nearest[np.isfinite(gaps[nearest]) & (gaps[nearest] >= 0)]
    return np.concatenate([candidates, others])


class _Process:
    """A Gaussian process with Matern 5/2 kernel, averaged over its settings.

    The bias of a trial is itself smooth: what is biased in one place is so nearby, and many
    biased trials together are as wrong as one. It is a second process with the same kernel, as
    large as zeta says.

    Every pair of length scale and noise counts with its marginal likelihood (the level and the
    scale of the values are integrated out). Where the data do not tell two settings apart, the
    estimate is as uncertain as they differ.
    """

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        bias: FloatArray,
        space: SearchSpace,
        n_candidates: int,
    ) -> None:
        n = len(values)
        relative = bias / max(float(values.std()), 1e-300)
        with_bias = 1 + np.outer(relative, relative)
        spread = np.maximum(points[:n_candidates].std(axis=0), 1e-3)
        unordered = np.array(space.categories[: points.shape[1]], dtype=int) > 0
        squares = np.zeros((n, n))
        differ = np.zeros((n, n))  # in how many categories
        for x, width, is_category in zip(points.T, spread, unordered):
            gap = x[:, None] - x[None, :]
            if is_category:
                differ += gap != 0
            else:
                squares += (gap / width) ** 2
        distance = np.sqrt(squares + _CATEGORY_DISTANCE**2 * differ)
        n_ordered = max(int(np.count_nonzero(~unordered)), 1)
        near = (squares <= _SAME_PLACE**2 * n_ordered) & (differ == 0)
        self.is_near: NDArray[np.bool_] = near[:n_candidates]
        settings = []
        for length in _LENGTHS:
            kernel = _matern(distance / length)
            eigenvalues, vectors = np.linalg.eigh(kernel * with_bias)
            ones, rotated = vectors.T @ np.ones(n), vectors.T @ values
            cross = kernel[:n_candidates] @ vectors
            for noise in _NOISES:
                weight = 1 / (np.maximum(eigenvalues, 0.0) + noise)
                precision = float((ones * weight) @ ones)  # of the level
                level = float((ones * weight) @ rotated) / precision
                rest = rotated - level * ones
                scale = float((rest * weight) @ rest) / max(n - 1, 1)
                likelihood = 0.5 * (
                    np.log(weight).sum() - np.log(precision) - (n - 1) * np.log(max(scale, 1e-300))
                )
                mean = level + cross @ (weight * rest)
                from_level = 1 - cross @ (weight * ones)
                variance = 1 - (cross**2 * weight).sum(axis=1) + from_level**2 / precision
                settings.append((likelihood, mean, scale * np.maximum(variance, 0.0)))
        top = max(likelihood for likelihood, *_ in settings)
        share = np.exp([likelihood - top for likelihood, *_ in settings])
        share /= share.sum()
        means = np.array([mean for _, mean, _ in settings])
        variances = np.array([variance for _, _, variance in settings])
        self.mean: FloatArray = share @ means
        self.std: FloatArray = np.sqrt(share @ (variances + (means - self.mean) ** 2))


def _matern(distance: FloatArray) -> FloatArray:
    r = np.sqrt(5.0) * distance
    kernel: FloatArray = (1 + r + r * r / 3) * np.exp(-r)
    return kernel
