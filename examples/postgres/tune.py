"""The study: several trials in flight, asked and told, on any Optuna storage."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from contextlib import suppress
import math
import socket
import sys
import time
from typing import Any
import warnings

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import fail_stale_trials
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from examples.postgres import interrupt
from examples.postgres.evaluator import Evaluator
from examples.postgres.evaluator import Measurement
from examples.postgres.failure import ConfigError
from examples.postgres.flight import FlightLog
from examples.postgres.flight import left_over
from examples.postgres.knobs import Cost
from examples.postgres.storage import HEARTBEAT
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


SAMPLERS = ("pcts", "tpe", "random")

# User attributes of a trial. The first is what fit_cost reads.
COST = "pcts:cost"
RECONFIGURATION = "reconfiguration_seconds"
QUERIES = "query_seconds"
FAILURE = "failure"
WORKER = "worker"  # the host, or container, that ran it

# Of the study: what all workers of one study must have in common.
SPLIT_ORDER = "split_order"

OnTrial = Callable[[FrozenTrial], object]


def split_order(evaluator: Evaluator) -> list[str | Sequence[str]]:
    """Return the expensive knobs, the most expensive one first.

    Trials deep in the tree then share their values, and need not change them.
    """
    heavy = [knob.name for knob in evaluator.knobs if knob.cost is not Cost.SESSION]
    heavy.sort(key=evaluator.change_costs.__getitem__, reverse=True)
    return [*heavy]


def shared_order(study: optuna.Study, evaluator: Evaluator) -> list[str | Sequence[str]]:
    """Return the split order of the worker that was first in this study.

    Every worker measures other costs, but they see the same tree only with the same order. Two
    workers that start at the same time may differ; trials are then located by their point.
    """
    own = split_order(evaluator)
    if SPLIT_ORDER not in study.user_attrs:
        study.set_user_attr(SPLIT_ORDER, own)
    known = study.user_attrs[SPLIT_ORDER]
    return list(known) if set(known) == set(own) else own  # began with other knobs


def make_sampler(
    name: str,
    evaluator: Evaluator,
    *,
    seed: int | None,
    order: Sequence[str | Sequence[str]] | None = None,
) -> BaseSampler:
    """Return a sampler by its name.

    Args:
        name:
            One of :data:`SAMPLERS`.
        evaluator:
            Calibrated.
        seed:
            Seed of the sampler.
        order:
            Split order of PCTS; descending cost by default.
    """
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return PCTSSampler(
        split_order=split_order(evaluator) if order is None else order,
        search_space=evaluator.knobs.distributions,
        seed=seed,
    )


def make_pruner(sampler: str, n_rounds: int) -> BasePruner:
    """Return the pruner that suits a sampler.

    Args:
        sampler:
            One of :data:`SAMPLERS`.
        n_rounds:
            Rounds of the whole workload.
    """
    if sampler == "pcts":
        return PCTSPruner(max_resource=n_rounds, min_resource=min(2, n_rounds))
    return optuna.pruners.MedianPruner(n_warmup_steps=2)  # Optuna's default, but for the warm-up


def spent(study: optuna.Study) -> float:
    """Return the seconds that all trials of a study have cost."""
    trials = study.get_trials(deepcopy=False)
    return math.fsum(seconds(trial, COST) for trial in trials)


def seconds(trial: optuna.trial.FrozenTrial, key: str) -> float:
    """Return the seconds in an attribute; 0 if it is missing or malformed.

    Anybody can write to a shared study.
    """
    value = trial.user_attrs.get(key)
    is_known = isinstance(value, (int, float)) and 0 <= value <= sys.float_info.max
    return float(value) if value is not None and is_known else 0.0


def tune(
    study: optuna.Study,
    evaluator: Evaluator,
    *,
    budget: float = math.inf,
    n_trials: int | None = None,
    in_flight: int = 8,
    fraction: float | None = None,
    on_trial: OnTrial | None = None,
) -> None:
    """Ask for trials, run them in an order that shares reconfigurations, and tell.

    The whole state is in the storage, so that a later call resumes where this one ended.
    Trials that were asked and not run, because of the budget or Ctrl-C, go back into the queue.
    Any number of workers may call this for one study, each with an evaluator of its own. Trials of
    a worker that was killed are run by the next one on its machine, or by another one after two
    minutes.

    Args:
        study:
            Minimises the seconds of the workload.
        evaluator:
            Calibrated.
        budget:
            Seconds that all trials of the study may cost, those of earlier calls included.
        n_trials:
            Number of trials that the study may have.
        in_flight:
            How many trials are asked and not told. None waits for more than twice as many others.
        fraction:
            Share of the workload that each trial runs; None leaves the end to the pruner.
        on_trial:
            Called with each trial that was told.

    Raises:
        ServerLostError:
            If the server does not come back after a failure. That trial is told.
    """
    flight: list[optuna.Trial] = []
    next_beat = -math.inf

    def pulse(*running: optuna.Trial) -> None:
        nonlocal next_beat
        if time.monotonic() > next_beat:
            next_beat = time.monotonic() + HEARTBEAT
            _beat(study, (*flight, *running))
            _take_over(study)

    def started(trial: FrozenTrial) -> None:
        log.note((*flight, trial))
        _beat(study, [trial])

    with interrupt.held(), FlightLog() as log:
        for lost in left_over(study):
            _end(study, lost)
        try:
            while (n_left := _n_left(study, n_trials)) > 0 and (cost := spent(study)) < budget:
                if isinstance(study.sampler, PCTSSampler):
                    study.sampler.finish(cost >= 0.9 * budget)
                while len(flight) < min(in_flight, n_left):
                    with suppress(UpdateFinishedTrialError):  # as below
                        flight.append(_ask(study, evaluator, started))
                pulse()
                trial = _next(flight, evaluator, in_flight)
                flight.remove(trial)
                try:
                    _evaluate(study, trial, evaluator, fraction, pulse)
                except UpdateFinishedTrialError:
                    # This process stood still for so long that another one took the trial over, or
                    # the storage went away just when it had been told.
                    evaluator.recover()
                    continue
                if on_trial is not None:
                    on_trial(study.get_trials(deepcopy=False)[trial.number])
                interrupt.heed()
        finally:
            for trial in flight:
                _put_back(study, trial)
            log.forget_ended(study)


def _ask(
    study: optuna.Study, evaluator: Evaluator, started: Callable[[FrozenTrial], object]
) -> optuna.Trial:
    """Do what study.ask does, but note at once which trial it is: a worker can die within."""
    study._thread_local.cached_all_trials = None
    trial_id = study._pop_waiting_trial_id()
    if trial_id is None:
        trial_id = study._storage.create_new_trial(study._study_id)
    started(study._storage.get_trial(trial_id))
    trial = optuna.Trial(study, trial_id)
    for name, distribution in evaluator.knobs.distributions.items():
        trial._suggest(name, distribution)
    return trial


def _beat(study: optuna.Study, trials: Iterable[optuna.Trial | FrozenTrial]) -> None:
    """Let other workers know that these trials are not lost."""
    storage = study._storage
    if isinstance(storage, BaseHeartbeat) and storage.get_heartbeat_interval() is not None:
        for trial in trials:
            storage.record_heartbeat(trial._trial_id)


def _take_over(study: optuna.Study) -> None:
    """Fail trials of dead workers, and queue each again: the retry replaces it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        fail_stale_trials(study)


def _n_left(study: optuna.Study, n_trials: int | None) -> float:
    if n_trials is None:
        return math.inf
    return n_trials - sum(t.state.is_finished() for t in study.get_trials(deepcopy=False))


def _next(flight: Sequence[optuna.Trial], evaluator: Evaluator, in_flight: int) -> optuna.Trial:
    """Return the trial that costs least to switch to, unless the first one has waited for long."""
    first, last = flight[0], flight[-1]
    if last.number - first.number > 2 * in_flight:
        return first
    return min(flight, key=lambda trial: evaluator.switch_cost(trial.params))


def _evaluate(
    study: optuna.Study,
    trial: optuna.Trial,
    evaluator: Evaluator,
    fraction: float | None,
    pulse: Callable[[optuna.Trial], None],
) -> None:
    """Run one trial and tell it, whatever happens."""
    n_rounds = evaluator.workload.n_rounds
    last = n_rounds if fraction is None else max(round(fraction * n_rounds), 1)
    start = time.perf_counter()
    measurement: Measurement | None = None
    try:
        for measurement in evaluator.measure(trial.params):
            trial.report(measurement.estimate, measurement.n_done)
            if measurement.n_done == last:
                _tell(study, trial, measurement, TrialState.COMPLETE)
                return
            if trial.should_prune():
                _tell(study, trial, measurement, TrialState.PRUNED)
                return
            pulse(trial)
            interrupt.heed()
    except ConfigError as failure:
        trial.set_user_attr(FAILURE, str(failure))
        try:
            evaluator.recover()
        finally:
            queries = 0.0 if measurement is None else measurement.query_seconds
            lost = time.perf_counter() - start - queries  # with the way back to the defaults
            measurement = measurement or Measurement(n_rounds, 0.0)
            measurement.reconfiguration_seconds = lost
            _tell(study, trial, measurement, TrialState.FAIL)
    except KeyboardInterrupt:
        if measurement is None:
            _put_back(study, trial)
        else:  # what was reported is known
            trial.set_user_attr(FAILURE, "interrupted")
            _tell(study, trial, measurement, TrialState.PRUNED)
        evaluator.recover()  # it was in the middle of something
        raise


def _tell(
    study: optuna.Study, trial: optuna.Trial, measurement: Measurement, state: TrialState
) -> None:
    queries, reconfiguration = measurement.query_seconds, measurement.reconfiguration_seconds
    trial.set_user_attr(WORKER, socket.gethostname())
    trial.set_user_attr(QUERIES, queries)
    trial.set_user_attr(RECONFIGURATION, reconfiguration)
    trial.set_user_attr(COST, queries + reconfiguration)
    value = measurement.estimate if state is TrialState.COMPLETE else None
    study.tell(trial, value, state=state)


def _put_back(study: optuna.Study, trial: optuna.Trial | FrozenTrial) -> None:
    """Queue a trial that was not run: if it failed, that would count against its cell."""
    with suppress(UpdateFinishedTrialError):  # another worker took it over
        study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)


def _end(study: optuna.Study, trial: FrozenTrial) -> None:
    """Tell a trial of a killed worker as pruned with what it has reported, or queue it."""
    if not trial.intermediate_values:
        _put_back(study, trial)
        return
    with suppress(UpdateFinishedTrialError):
        study._storage.set_trial_user_attr(trial._trial_id, FAILURE, "killed")
        study.tell(trial.number, state=TrialState.PRUNED)


def best_configuration(study: optuna.Study, evaluator: Evaluator) -> dict[str, Any] | None:
    """Return the configuration with the best estimate, or None if no trial completed."""
    try:
        params = recommend(study).params
    except ValueError:
        return None
    # A study that began with other options may lack a knob.
    return {**evaluator.knobs.defaults, **params}
