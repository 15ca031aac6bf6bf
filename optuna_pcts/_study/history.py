"""Optuna's storage as a stream of feedback. The only module that knows states, signs and keys.

The storage is the feed, not Optuna's callbacks: those are not called for added trials, for trials
that a heartbeat failed, or for what another process tells. What is read:

==========================================  =======================================
trial                                       counts as
==========================================  =======================================
RUNNING                                     asked, not told: it is the delayed one
RUNNING after a report                      told for now, at the fidelity of its last report
RUNNING, stale                              gone; told after all if it ever ends
PRUNED after a report                       told with its value, at the fidelity of that report
COMPLETE                                    told with its value at full fidelity
COMPLETE, and it read :func:`fidelity`      told with its value at that fidelity
FAIL; PRUNED before any report              told with the worst reward (value NaN)
FAIL, and retried                           gone: its retry stands for it
WAITING                                     not yet; but its parameters are known
==========================================  =======================================

The fidelity of a report is its step, divided by the steps of a full evaluation. Their number is
stored with each trial if the pruner says it (``max_resource``); otherwise it is the largest step
that a completed trial has reported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
import math
from operator import attrgetter

import numpy as np
import optuna
from optuna.storages import InMemoryStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._space.observed import ObservedSpace
from optuna_pcts._study.attributes import is_enqueued
from optuna_pcts._study.attributes import is_integer
from optuna_pcts._study.attributes import PROPOSAL_KEY
from optuna_pcts._study.attributes import recorded_proposal
from optuna_pcts._study.attributes import RETRY_KEY
from optuna_pcts._study.attributes import SIZED_KEY
from optuna_pcts._study.attributes import violations_of
from optuna_pcts._study.progress import LongestRun
from optuna_pcts._study.progress import progress
from optuna_pcts._study.stamps import clock
from optuna_pcts._study.stamps import duration
from optuna_pcts._study.stamps import find_trial
from optuna_pcts._study.stamps import stale_limit
from optuna_pcts._study.stamps import STALE_NEEDS
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import Status


# Of trials that wait to be started, so many are looked at in vain in one update; all of them in
# one of so many updates.
_N_WAITING = 64

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


class History:
    """Reads what is new in a study: trials that appeared, and unfinished ones that moved on.

    Args:
        study:
            The study, or Hyperband's view of it: trials of all brackets are read.
        stale_after:
            Seconds after which a RUNNING trial no longer counts as in flight. By default, once
            five have ended, ten times the longest of them, at least a minute.
        trials:
            All trials of the study at one moment, sorted, to be read instead of its storage.
    """

    def __init__(
        self,
        study: optuna.Study,
        stale_after: float | None = None,
        trials: list[FrozenTrial] | None = None,
    ) -> None:
        self.storage = study._storage
        self._trials = trials
        self.study_id = study._study_id
        self.space = ObservedSpace()
        self._sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
        self._stale_after = stale_after
        self._longest, self._n_delays = 0.0, 0
        self._n_seen = 0
        self._latest_start: list[float] = []  # of the trials up to each number
        self._open: dict[int, _Progress] = {}
        self._waiting: dict[int, _Progress] = {}  # those of them that nobody has started
        self._n_updates = 0
        self._longest_run = LongestRun()
        self.is_sized = False  # whether objectives go by the fidelity they are given
        self._failed: set[int] = set()
        self._retried: set[int] = set()
        self._heartbeat_checked: float | None = None
        self._heartbeat_lost: set[int] = set()
        self._has_warned = False  # of attributes that are not what they should be

    def belongs_to(self, study: optuna.Study) -> bool:
        return self.storage is study._storage and self.study_id == study._study_id

    def oriented(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return bounds of the objective as bounds of values of which larger are better."""
        low, high = sorted(self._sign * value for value in bounds)
        return low, high

    @property
    def running(self) -> list[int]:
        """Numbers of the trials that are in flight."""
        return [n for n, seen in self._open.items() if seen.status is Status.ASKED]

    @property
    def unfinished(self) -> list[int]:
        """Numbers of the trials that run, also of those that seem lost."""
        return [n for n, seen in self._open.items() if seen.is_running]

    @property
    def unseen(self) -> list[int]:
        """Numbers of trials of other workers that must be there, but were not yet to be seen."""
        return [n for n, seen in self._open.items() if seen.status is None]

    def knows_from_cache(self, trial: FrozenTrial) -> bool:
        """Whether :meth:`update` can do without the database, just after a trial was created.

        To create a trial, ``study.ask`` looks for waiting ones, and so reads all that is new into
        Optuna's cache. To read it once more would be the most expensive part of an ask.
        """
        cache = self._cache()
        return cache is not None and trial.number in cache

    def _cache(self) -> Mapping[int, FrozenTrial] | None:
        """Return the trials that Optuna's cache of a database holds, by their number."""
        storage = self.storage
        if isinstance(storage, _CachedStorage) and self.study_id in storage._studies:
            return storage._studies[self.study_id].trials
        return None

    def update(self, now: datetime | None, created: FrozenTrial | None = None) -> list[Feedback]:
        """Return the feedback of every trial that changed since the last call.

        Args:
            now:
                The start of the trial about to be asked. Ages are taken against it and not
                against this machine's clock, so that the result depends on the storage alone.
            created:
                A trial just created, if :meth:`knows_from_cache` says so of it.
        """
        find, new = self._read() if created is None else self._read_cache(created)
        for trial in new:
            # Numbers not seen yet below the newest: committed late by another worker.
            for number in range(self._n_seen, trial.number + 1):
                self._open[number] = _Progress()
                self._latest_start.append(self._latest_start[-1] if number else -math.inf)
            if trial.datetime_start is not None and not is_enqueued(trial):
                start = max(self._latest_start[-1], clock(trial.datetime_start))
                self._latest_start[-1] = start
            self._n_seen = max(self._n_seen, trial.number + 1)
        # What was retried must be known to have failed.
        self._find_started(find, look_at_all=any(RETRY_KEY in t.system_attrs for t in new))
        self._check_heartbeats(now)
        trials = [trial for trial in map(find, sorted(self._open)) if trial is not None]
        for trial in trials:
            self._note_delay(trial)
            self._longest_run.observe(trial)
        seconds = None if now is None else clock(now)
        return [feedback for trial in trials for feedback in self._advance(trial, seconds)]

    def _find_started(
        self, find: Callable[[int], FrozenTrial | None], *, look_at_all: bool
    ) -> None:
        """Find those of the waiting trials that somebody has started.

        There may be thousands. Optuna starts them in the order of their numbers, so that others
        than the first ones are seldom checked.
        """
        self._n_updates += 1
        look_at_all |= self._n_updates % _N_WAITING == 0
        patience = len(self._waiting) if look_at_all else _N_WAITING
        started = []
        for number in self._waiting:
            trial = find(number)
            if trial is None or trial.state == TrialState.WAITING:
                patience -= 1
                if patience <= 0:
                    break
            else:
                started.append(number)
        for number in started:
            self._open[number] = self._waiting.pop(number)

    @property
    def full_step(self) -> int | None:
        """Steps of a full evaluation, as far as trials have shown. Fidelities depend on it."""
        return self._longest_run.step

    def replay(self) -> Iterator[Feedback]:
        """Return the feedback of every trial seen so far."""
        for trial in self._all_trials():
            if trial.number < self._n_seen:
                seen = self._open.get(trial.number) or self._waiting.get(trial.number)
                stale = seen is not None and seen.status is Status.GONE
                yield self._feedback(trial, Status.GONE if stale else self._status(trial))

    def _read(self) -> tuple[Callable[[int], FrozenTrial | None], Sequence[FrozenTrial]]:
        """Return a way to find a trial by its number, and the trials that are new."""
        storage, study_id = self.storage, self.study_id
        if isinstance(storage, InMemoryStorage) and self._trials is None:
            # Here `get_all_trials` would copy a list of all trials for every ask, and looking
            # them up one by one is free.
            def find(number: int) -> FrozenTrial | None:
                try:
                    trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, number)
                except KeyError:
                    return None
                return storage.get_trial(trial_id)

            new: list[FrozenTrial] = []
            while (trial := find(self._n_seen + len(new))) is not None:
                new.append(trial)
            return find, new

        trials = self._all_trials()
        new_from = bisect_left(trials, self._n_seen, key=attrgetter("number"))
        return partial(find_trial, trials), trials[new_from:]

    def _all_trials(self) -> list[FrozenTrial]:
        """Return the trials, sorted by number."""
        if self._trials is not None:
            return self._trials
        return self.storage.get_all_trials(self.study_id, deepcopy=False)

    def _read_cache(
        self, created: FrozenTrial
    ) -> tuple[Callable[[int], FrozenTrial | None], Sequence[FrozenTrial]]:
        """Return the same from Optuna's cache, which was brought up to date for a trial."""
        cache = self._cache()
        assert cache is not None, "somebody asked whether it is there"
        new = map(cache.get, range(self._n_seen, created.number + 1))
        return cache.get, [trial for trial in new if trial is not None]

    def _note_delay(self, trial: FrozenTrial) -> None:
        """Learn how long trials take, from those that were really evaluated to their end."""
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            seconds = duration(trial)
            if seconds is not None and seconds > 0:
                self._n_delays += 1
                self._longest = max(self._longest, seconds)

    def _advance(self, trial: FrozenTrial, now: float | None) -> Iterator[Feedback]:
        """Yield what a trial's progress means, if it made any."""
        number = trial.number
        seen = self._open[number]
        if seen.n_params < 0:
            yield from self._retire_retried(trial)
        status = self._status(trial)
        if status is Status.ASKED and self._is_stale(trial, now):
            status = Status.GONE
        if (
            status is seen.status
            and len(trial.params) == seen.n_params
            and seen.has_proposal == (PROPOSAL_KEY in trial.system_attrs)
            and seen.n_reports == len(trial.intermediate_values)
            and not trial.state.is_finished()
        ):
            return  # nothing new, as of most trials in flight
        if len(trial.params) != seen.n_params:
            self.space.observe(trial)
        feedback = self._feedback(trial, status)
        yield feedback
        if trial.state.is_finished():
            self.space.finish(trial, feedback.ended_at)
            del self._open[number]
            if trial.state == TrialState.FAIL:
                self._failed.add(number)
        else:
            self._open[number] = _Progress(
                status,
                len(trial.params),
                has_proposal=PROPOSAL_KEY in trial.system_attrs,
                n_reports=len(trial.intermediate_values),
                is_running=trial.state == TrialState.RUNNING,
            )
            if trial.state == TrialState.WAITING:
                self._waiting[number] = self._open.pop(number)

    def _retire_retried(self, retry: FrozenTrial) -> Iterator[Feedback]:
        """Take out of the count the trials that a new trial stands for."""
        history = retry.system_attrs.get(RETRY_KEY)
        for number in history if isinstance(history, list) else ():
            # Only what failed is retried: in a trial added from elsewhere the numbers are others.
            if is_integer(number, 0, self._n_seen) and number in self._failed:
                self._retried.add(number)
                yield Feedback(number, Status.GONE, {}, math.nan, None)

    def _status(self, trial: FrozenTrial) -> Status:
        if trial.state == TrialState.RUNNING:
            return Status.ASKED
        if trial.state == TrialState.WAITING or trial.number in self._retried:
            return Status.GONE
        return Status.TOLD

    def _feedback(self, trial: FrozenTrial, status: Status) -> Feedback:
        proposal = recorded_proposal(trial)
        if proposal is None and PROPOSAL_KEY in trial.system_attrs and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                f"Trial {trial.number} has a malformed attribute `{PROPOSAL_KEY}`, which is "
                "ignored; so are all others of this study."
            )
        value, fidelity, curve = math.nan, 1.0, None
        if status is Status.TOLD and trial.state != TrialState.FAIL and trial.values:
            value = self._sign * trial.values[0]
        is_sized = SIZED_KEY in trial.system_attrs
        self.is_sized |= is_sized
        if trial.intermediate_values or is_sized:
            full_step = (proposal and proposal.max_resource) or self.full_step
            reported, fidelity, curve = progress(trial, proposal, full_step)
            if status is Status.ASKED:
                value = self._sign * reported
            if curve is not None:
                curve = curve[:, np.isfinite(curve[1])]  # non-finite reports are left out
                curve[1] *= self._sign
                curve = curve if curve.size else None
        return Feedback(
            trial.number,
            status,
            trial.params,
            value,
            proposal,
            fidelity,
            curve,
            self._ended_at(trial),
            violations_of(trial),
            trial.distributions,
        )

    def _ended_at(self, trial: FrozenTrial) -> float:
        """Return when a trial ended, by the clock that is furthest ahead.

        Numbers are given in the order of the starts. If one with a smaller number started later,
        it did so by another clock, and this trial's is behind by at least the difference. Without
        that, each trial of such a worker would seem to have ended before what was learned from.
        """
        if trial.datetime_complete is None:
            return 0.0
        ended_at = clock(trial.datetime_complete)
        if trial.datetime_start is None:
            return ended_at
        behind = self._latest_start[trial.number] - clock(trial.datetime_start)
        return ended_at + max(behind, 0.0)

    def _is_stale(self, trial: FrozenTrial, now: float | None) -> bool:
        if trial._trial_id in self._heartbeat_lost:
            return True
        if now is None or trial.datetime_start is None:
            return False
        longest = self._longest if self._n_delays >= STALE_NEEDS else 0.0
        return now - clock(trial.datetime_start) > stale_limit(self._stale_after, longest)

    def _check_heartbeats(self, now: datetime | None) -> None:
        """Ask the storage, once per heartbeat, which trials have lost theirs."""
        storage = self.storage
        interval = storage.get_heartbeat_interval() if isinstance(storage, BaseHeartbeat) else None
        if interval is None or now is None:
            return
        last = self._heartbeat_checked
        if last is None or abs(clock(now) - last) >= interval:
            assert isinstance(storage, BaseHeartbeat)
            self._heartbeat_checked = clock(now)
            self._heartbeat_lost = set(storage._get_stale_trial_ids(self.study_id))


@dataclass(frozen=True)
class _Progress:
    """What was last seen of an unfinished trial."""

    status: Status | None = None
    n_params: int = -1
    has_proposal: bool = False
    n_reports: int = 0
    is_running: bool = False
