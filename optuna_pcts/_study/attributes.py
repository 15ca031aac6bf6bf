"""Every key in Optuna's storage that this package writes or reads.

Anybody can write to a shared storage, so what is read is checked first.
"""

from __future__ import annotations

import math
from numbers import Real
import sys
import time
from typing import Any
from typing import TypeGuard

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from optuna_pcts._study.stamps import clock
from optuna_pcts._tree.messages import ProposalRecord


# Everything that this package writes into a storage has one of these keys.
PROPOSAL_KEY = "optuna_pcts:cell"  # system attribute: what the tree needs
SIZED_KEY = "optuna_pcts:sized"  # system attribute: the objective has read its fidelity
# User attributes, for the dashboard.
DEPTH_KEY = "pcts:depth"
FIDELITY_KEY = "pcts:fidelity"
DELAY_KEY = "pcts:delay"  # seconds from its start to its feedback
# User attribute in which an objective may say what its trial costs.
COST_KEY = "pcts:cost"
# Study attribute: who drew the figures of the dashboard last, and when.
FIGURES_KEY = "optuna_pcts:figures"
# Written by Optuna: a list by samplers with constraints_func, or a key for each constraint.
CONSTRAINTS_KEY = "constraints"
# Written by Optuna's own retry callback.
RETRY_KEY = "retry_history"
# Written by Optuna with an enqueued trial, which may start long after it got its number.
ENQUEUED_KEY = "fixed_params"


# A trial that seems to have taken longer has its start from another clock, such as a simulation's.
_MAX_DELAY = 366 * 24 * 3600.0
# Largest depth of a cell, also for attributes written by others: each level costs memory and time
# in every process that reads the study.
MAX_DEPTH = 256
# Largest number of parameters of a trial, and of steps of a full evaluation (exact as floats).
_MAX_PARAMS = 10_000
MAX_STEP = 2**53


def record(study: optuna.Study, trial: FrozenTrial, proposal: ProposalRecord) -> None:
    """Store with a trial what was proposed."""
    storage, trial_id = study._storage, trial._trial_id
    depth = min(proposal.depth, MAX_DEPTH)
    attribute: dict[str, Any] = {"depth": depth, "point": dict(proposal.point)}
    if proposal.fidelity < 1:
        attribute["fidelity"] = proposal.fidelity
    if proposal.max_resource is not None:
        attribute["max_resource"] = proposal.max_resource
    storage.set_trial_system_attr(trial_id, PROPOSAL_KEY, attribute)
    storage.set_trial_user_attr(trial_id, DEPTH_KEY, depth)
    if proposal.max_resource is not None:  # otherwise only if the objective makes use of it
        storage.set_trial_user_attr(trial_id, FIDELITY_KEY, proposal.fidelity)


def record_use_of_fidelity(storage: BaseStorage, trial: FrozenTrial, fidelity: float) -> None:
    """Store with a trial that its objective has read the fidelity: its value counts at that."""
    if SIZED_KEY not in trial.system_attrs:
        storage.set_trial_system_attr(trial._trial_id, SIZED_KEY, True)
        storage.set_trial_user_attr(trial._trial_id, FIDELITY_KEY, fidelity)


def record_delay(study: optuna.Study, trial: FrozenTrial) -> None:
    """Store with a trial that is about to end how many seconds its feedback took.

    For display only: computations use the time stamps (:func:`delays`). Optuna refuses to write
    to a finished trial, so the last moment is just before.
    """
    if trial.datetime_start is not None:
        seconds = time.time() - clock(trial.datetime_start)
        if 0 <= seconds <= _MAX_DELAY:
            study._storage.set_trial_user_attr(trial._trial_id, DELAY_KEY, round(seconds, 3))


def recorded_proposal(trial: FrozenTrial) -> ProposalRecord | None:
    """Return what was proposed for a trial; None if nothing is stored, or something malformed."""
    attribute = trial.system_attrs.get(PROPOSAL_KEY)
    if isinstance(attribute, dict):
        depth, point = attribute.get("depth"), attribute.get("point")
        fidelity, resource = attribute.get("fidelity", 1.0), attribute.get("max_resource")
        if (
            is_integer(depth, 0, MAX_DEPTH)
            and isinstance(point, dict)
            and len(point) <= _MAX_PARAMS
            and all(isinstance(x, float) and 0 <= x <= 1 for x in point.values())
            and (isinstance(fidelity, (int, float)) and 0 <= fidelity <= 1)
            and (resource is None or is_integer(resource, 1, MAX_STEP))
        ):
            return ProposalRecord(depth, point, float(fidelity), resource)
    return None


def is_enqueued(trial: FrozenTrial) -> bool:
    """Whether a trial was enqueued."""
    return ENQUEUED_KEY in trial.system_attrs


def enqueued_params(trial: FrozenTrial) -> dict[str, Any]:
    """Return the parameters that an enqueued trial is to have."""
    params = trial.system_attrs.get(ENQUEUED_KEY)
    return params if isinstance(params, dict) else {}


def is_feasible(trial: FrozenTrial) -> bool:
    """Whether a trial violates none of its constraints; one without any is feasible."""
    return not violations_of(trial)


def violations_of(trial: FrozenTrial) -> dict[str, float]:
    """Return by how much a trial violates each constraint that it does.

    What is no number cannot be known to hold, nor does NaN: these are infinite.
    """
    return {
        name: _amount(value)
        for name, value in constraints_of(trial).items()
        if not (isinstance(value, Real) and value <= 0)
    }


def _amount(value: object) -> float:
    try:
        amount = float(value) if isinstance(value, Real) else math.inf
    except OverflowError:  # a whole number that is larger than a float can be
        amount = math.inf
    return math.inf if amount != amount else max(amount, sys.float_info.min)


def constraints_of(trial: FrozenTrial) -> dict[str, object]:
    """Return the constraints of a trial, as Optuna reads them. The values are not checked."""
    attributes = trial.system_attrs
    values = attributes.get(CONSTRAINTS_KEY)
    found: dict[str, object] = {}
    if isinstance(values, (list, tuple)):
        found.update((str(i), value) for i, value in enumerate(values))
    prefix = f"{CONSTRAINTS_KEY}:"
    found.update(
        (k.removeprefix(prefix), attributes[k]) for k in attributes if k.startswith(prefix)
    )
    return found


def is_integer(x: object, low: int, high: int) -> TypeGuard[int]:
    """Whether something from a storage is an integer in a range."""
    return isinstance(x, int) and not isinstance(x, bool) and low <= x <= high
