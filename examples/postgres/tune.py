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
from optuna.storages import RetryFailedTrialCallback
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from examples.postgres import interrupt
from examples.postgres.evaluator import Evaluator
from examples.postgres.evaluator import Measurement
from examples.postgres.failure import ConfigError
from examples.postgres.knobs import Cost
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

# Seconds between two signs of life of a trial in flight, and after how many without one its worker
# counts as dead. Longer than any round: a worker gives signs between rounds.
_HEARTBEAT = 15
_GRACE = 120

OnTrial = Callable[[FrozenTrial], object]


def split_order(evaluator: Evaluator) -> list[str | Sequence[str]]:
    """Return the heavy knobs, the one that costs most to change first.

    Cells deep in the tree then share the values of these, and pay nothing for them.
    """
    heavy = [knob.name for knob in evaluator.knobs if knob.cost is not Cost.SESSION]
    heavy.sort(key=evaluator.change_costs.__getitem__, reverse=True)
    return [*heavy]


def shared_order(study: optuna.Study, evaluator: Evaluator) -> list[str | Sequence[str]]:
    """Return the split order of the worker that was first in this study.

    Every worker measures other costs, but only with one order do all of them see one tree. Two
    that are first at the same moment may differ; trials are then located by their point.
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
    """Return what ends a trial when it has shown enough: what suits the sampler.

    Args:
        sampler:
            One of :data:`SAMPLERS`.
        n_rounds:
            Rounds of the whole workload.
    """
    if sampler == "pcts":
        return PCTSPruner(max_resource=n_rounds, min_resource=min(2, n_rounds))
    return optuna.pruners.MedianPruner(n_warmup_steps=2)  # Optuna's default, but for the warm-up


def open_storage(url: str) -> optuna.storages.RDBStorage:
    """Return a storage in which trials of a worker that died are given to another one.

    SQLite in a mode that does not wait for the disk at every report: a crash of the machine may
    lose the last reports, but not the file.
    """
    try:
        storage = _connect(url)
    except SQLAlchemyError:  # perhaps another run was just making the tables
        time.sleep(1.0)
        storage = _connect(url)
    if storage.engine.dialect.name == "sqlite":

        @event.listens_for(storage.engine, "connect")
        def relax(connection: Any, _: object) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

        storage.engine.dispose()  # the connections that were made before
    return storage


def _connect(url: str) -> optuna.storages.RDBStorage:
    with warnings.catch_warnings():
        # Experimental, and by the one name that all supported versions of Optuna know.
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return optuna.storages.RDBStorage(
            url,
            engine_kwargs={"pool_pre_ping": True},  # the storage may have been restarted
            heartbeat_interval=_HEARTBEAT,
            grace_period=_GRACE,
            failed_trial_callback=RetryFailedTrialCallback(),
        )


def spent(study: optuna.Study) -> float:
    """Return the seconds that all trials of a study have cost."""
    trials = study.get_trials(deepcopy=False)
    return math.fsum(seconds(trial, COST) for trial in trials)


def seconds(trial: optuna.trial.FrozenTrial, key: str) -> float:
    """Return the seconds that an attribute says; 0 if there is none, or something else there.

    Anybody can write to a study that others share.
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

    Everything that matters is in the storage, so that a later call goes on where this one ended.
    Trials that were asked and not run, because of the budget or Ctrl-C, go back into the queue.
    Any number of workers may call this for one study, each with an evaluator of its own; trials
    of a worker that was killed are run by another one after two minutes.

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
    next_beat, seen = -math.inf, set[int]()

    def pulse(*running: optuna.Trial) -> None:
        nonlocal next_beat
        if time.monotonic() > next_beat:
            next_beat = time.monotonic() + _HEARTBEAT
            _beat(study, (*flight, *running))
            _take_over(study, seen)

    with interrupt.held():
        try:
            while (n_left := _n_left(study, n_trials)) > 0 and (cost := spent(study)) < budget:
                if isinstance(study.sampler, PCTSSampler):
                    study.sampler.finish(cost >= 0.9 * budget)
                while len(flight) < min(in_flight, n_left):
                    flight.append(_ask(study, evaluator))
                pulse()
                trial = _next(flight, evaluator, in_flight)
                flight.remove(trial)
                try:
                    _evaluate(study, trial, evaluator, fraction, pulse)
                except UpdateFinishedTrialError:
                    # This process stood still for so long that another one took the trial over.
                    evaluator.recover()
                    continue
                if on_trial is not None:
                    on_trial(study.get_trials(deepcopy=False)[trial.number])
                interrupt.heed()
        finally:
            for trial in flight:
                _put_back(study, trial)


def _ask(study: optuna.Study, evaluator: Evaluator) -> optuna.Trial:
    with warnings.catch_warnings():
        # Optuna gives signs of life only in its own loop; here this one does.
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        trial = study.ask(evaluator.knobs.distributions)
    _beat(study, [trial])
    return trial


def _beat(study: optuna.Study, trials: Iterable[optuna.Trial | FrozenTrial]) -> None:
    """Let other workers know that these trials are not lost."""
    storage = study._storage
    if isinstance(storage, BaseHeartbeat) and storage.get_heartbeat_interval() is not None:
        for trial in trials:
            storage.record_heartbeat(trial._trial_id)


def _take_over(study: optuna.Study, seen: set[int]) -> None:
    """Fail trials of dead workers, and queue each again: the retry stands for it.

    Args:
        study:
            With heartbeats; without, nothing is done.
        seen:
            Numbers of the running trials that this worker knows of.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        fail_stale_trials(study)
    # Optuna takes a trial without a sign of life, of a worker that was killed within ask, for
    # alive. So whoever sees a trial for the first time gives one.
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    _beat(study, (trial for trial in running if trial.number not in seen))
    seen.update(trial.number for trial in running)


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


def _put_back(study: optuna.Study, trial: optuna.Trial) -> None:
    """Queue a trial that was not run: if it failed, that would count against its cell."""
    with suppress(UpdateFinishedTrialError):  # another worker took it over
        study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)


def best_configuration(study: optuna.Study, evaluator: Evaluator) -> dict[str, Any] | None:
    """Return the configuration that is most likely the fastest, or None if no trial completed."""
    try:
        params = recommend(study).params
    except ValueError:
        return None
    # A study that began with other options may lack a knob.
    return {**evaluator.knobs.defaults, **params}
