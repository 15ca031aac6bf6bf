"""Trials that started and ended when a test says so, and cost what it says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from datetime import timedelta
from typing import Any

from helpers import UNIT
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


Model = LinearGrowth | ConstantCost | PolynomialDecay | ExponentialCost

START = datetime(2024, 5, 1, 12, 0, 0)


def at(seconds: float) -> datetime:
    """Return when so many seconds have passed."""
    return START + timedelta(seconds=seconds)


def add_trial(
    study: optuna.Study,
    state: TrialState,
    *,
    value: float | None = None,
    start: float = 0.0,
    end: float = 0.0,
    params: Mapping[str, Any] | None = None,
    distributions: Mapping[str, BaseDistribution] | None = None,
    system_attrs: Mapping[str, Any] | None = None,
) -> None:
    """Add a trial with given time stamps."""
    params = {"x": 0.5} if params is None else params
    study.add_trial(
        FrozenTrial(
            number=-1,
            trial_id=-1,
            state=state,
            value=value,
            datetime_start=None if state == TrialState.WAITING else at(start),
            datetime_complete=at(end) if state.is_finished() else None,
            params=dict(params),
            distributions=dict(distributions or dict.fromkeys(params, UNIT)),
            user_attrs={},
            system_attrs=dict(system_attrs or {}),
            intermediate_values={},
        )
    )


def ended(
    seconds: float | None,
    *,
    depth: Any = None,
    cost: Any = None,
    start: datetime | None = START,
    state: TrialState = TrialState.COMPLETE,
) -> FrozenTrial:
    """Return a finished trial that took some seconds."""
    attrs = {DEPTH_KEY: depth, COST_KEY: cost}
    trial = optuna.create_trial(
        state=state,
        value=0.0 if state == TrialState.COMPLETE else None,
        user_attrs={key: value for key, value in attrs.items() if value is not None},
    )
    trial.datetime_start = start
    trial.datetime_complete = (
        None if seconds is None or start is None else start + timedelta(seconds=seconds)
    )
    return trial


def running(start: datetime, **attrs: Any) -> FrozenTrial:
    """Return a trial in flight."""
    trial = optuna.create_trial(state=TrialState.RUNNING, user_attrs=attrs)
    trial.datetime_start = start
    return trial


def study_of(*trials: FrozenTrial) -> optuna.Study:
    """Return a study of these trials."""
    study = optuna.create_study()
    study.add_trials(trials)
    return study
