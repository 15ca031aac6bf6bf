"""The answer of a study: not the luckiest trial, but the one that is most likely good.

Each good trial is estimated from its neighbourhood (``_process.py``), at full fidelity.
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
from optuna_pcts._process import gaussian
from optuna_pcts._process import matern
from optuna_pcts._process import Process
from optuna_pcts._space import SearchSpace


# So many of the best trials are candidates ...
_N_CANDIDATES = 60
# ... and so many trials, good or bad, tell about them: under noise the more the better. So many of
# these tell which settings of the process are worth a try on all of them.
_N_DATA = 600
_N_PROBES = 128
# With so many trials per parameter they tell how much each one matters; with fewer the estimate
# would be surer of itself than it can be.
_ENOUGH_PER_DIM = 10
# Settings of the process to choose from.
_LENGTHS = (0.5, 1.0, 2.5, 6.0, 16.0)
_NOISES = (1e-6, 1e-3, 0.03, 0.3, 2.0, 10.0)
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
            If the study has several objectives, or no trial that ended with a finite value.
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
    with np.errstate(all="ignore"):  # values may be as large or as small as floats can be
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
    scale = float(np.median(values)), float(values.max())

    def estimate(usable: NDArray[np.bool_]) -> Process:
        data = points, values, scale, bias, usable, space.categories
        return Process(
            *data,
            candidates=candidates,
            n_data=_N_DATA,
            kernels=(matern, gaussian),
            lengths=_LENGTHS,
            noises=_NOISES,
            n_probes=_N_PROBES,
            has_relevance=len(values) >= _ENOUGH_PER_DIM * len(space),
        )

    # All trials help to choose. What is said of the choice relies on the furthest evaluated alone.
    process = estimate(np.ones(len(values), dtype=bool))
    order = np.argsort(-process.mean, kind="stable")
    if (fidelity < fidelity.max()).any():
        process = estimate(fidelity == fidelity.max())
    mean, std, near = process.mean, process.std, process.is_near
    chosen: list[int] = []
    for i in order:
        if len(chosen) < top and not near[i, chosen].any():
            chosen.append(int(i))
    found = []
    for i in chosen:
        ends = sorted(float(sign * (mean[i] + d * std[i])) for d in (-_Z, _Z))
        trial = trials[candidates[i]]
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
    model.learn(t.number for t in trials)
    values = values + model.shift(fidelity)
    low = float(np.median(values))
    model.scale(low, float(values.max()) - low, doubt=1.0)
    return values, model.zeta(fidelity)
