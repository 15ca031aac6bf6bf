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

The fidelity of a report is its step, divided by the steps of a whole evaluation. Their number is
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
import enum
from functools import partial
from functools import reduce
import math
from numbers import Real
from operator import attrgetter
import time
from typing import Any
from typing import TypeGuard

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.storages import InMemoryStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._policy import FloatArray


# Everything this package writes into a storage stands under one of these keys.
CELL_KEY = "optuna_pcts:cell"  # system attribute: what the tree needs
SIZED_KEY = "optuna_pcts:sized"  # system attribute: the objective has sized itself by it
# User attributes: what people want to see in the dashboard.
DEPTH_KEY = "pcts:depth"
FIDELITY_KEY = "pcts:fidelity"
DELAY_KEY = "pcts:delay"  # seconds from its start to its feedback
# Study attribute: who drew the figures of the dashboard last, and when.
FIGURES_KEY = "optuna_pcts:figures"
# Written by Optuna: a list by samplers with constraints_func, or a key for each constraint.
_CONSTRAINTS_KEY = "constraints"
# Written by Optuna's own retry callback.
_RETRY_KEY = "retry_history"
# Written by Optuna with an enqueued trial, whose number says nothing about when it started.
_ENQUEUED_KEY = "fixed_params"

# With no `stale_after`, a trial is given up when it takes this many times longer than the longest
# one that ended, but never sooner than in a minute.
_STALE_FACTOR = 10
_STALE_AT_LEAST = 60.0
# ... and not before so many have ended: the first may have been much faster than the rest.
_STALE_NEEDS = 5

# A trial that seems to have taken longer has a start from another clock: a simulation's, say.
_MAX_DELAY = 366 * 24 * 3600.0
# No cell is asked deeper than that, and no trial's attribute can have it split any deeper: each
# level costs memory and time, for everybody who reads the study.
MAX_DEPTH = 256
# Nor has a trial more parameters, or a whole evaluation more steps (which floats can tell apart).
_MAX_PARAMS = 10_000
_MAX_STEP = 2**53

# So many of the newest trials must agree on a range that went back and forth.
_N_AGREEING = 10
# A parameter with more ranges than this has none.
_MAX_RANGES = 16
# A parameter that so many trials, and this share of all, have been without is not asked any more.
_RECENT = 64
_RECENT_SHARE = 0.25
# From so many trials on, a parameter that only one of them has is that trial's own.
_FEW_TRIALS = 16
# Of trials that wait to be started, so many are looked at in vain in one update; all of them in
# one of so many updates.
_N_WAITING = 64

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


class Status(enum.Enum):
    """Where a trial stands between question and answer."""

    ASKED = enum.auto()
    TOLD = enum.auto()
    GONE = enum.auto()


@dataclass(frozen=True)
class Cell:
    """What is stored with a trial that the tree asked for.

    The point is what was proposed. Optuna stores each parameter only when the objective asks for
    it; until then, and for good if the objective fails before, this tells where the trial is.
    """

    depth: int
    point: Mapping[str, float]  # position in the unit cube, by parameter
    fidelity: float = 1.0  # at which the trial is to be evaluated
    max_resource: int | None = None  # steps of a whole evaluation, if the pruner knows


@dataclass(frozen=True)
class Feedback:
    """One trial as the tree sees it."""

    number: int
    status: Status
    params: Mapping[str, Any]
    # Larger is better, whatever the direction of the study. NaN: failed, or nothing reported yet.
    value: float
    cell: Cell | None  # None if the tree did not ask
    fidelity: float = 1.0  # of the value
    curve: FloatArray | None = None  # fidelities passed and values there, once it has ended
    ended_at: float = 0.0  # seconds; 0 if it has not, or nobody knows
    is_feasible: bool = True  # as far as it has said


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
        self._longest_run = _LongestRun()
        self.is_sized = False  # whether objectives go by the fidelity they are given
        self.has_constraints = False  # whether any trial says something of them
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
            if trial.datetime_start is not None and _ENQUEUED_KEY not in trial.system_attrs:
                start = max(self._latest_start[-1], clock(trial.datetime_start))
                self._latest_start[-1] = start
            self._n_seen = max(self._n_seen, trial.number + 1)
        # What was retried must be known to have failed.
        self._find_started(find, look_at_all=any(_RETRY_KEY in t.system_attrs for t in new))
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
        than the first ones are seldom worth a look.
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
        """Steps of a whole evaluation, as far as trials have shown. Fidelities depend on it."""
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
            and seen.has_cell == (CELL_KEY in trial.system_attrs)
            and seen.n_reports == len(trial.intermediate_values)
            and not trial.state.is_finished()
        ):
            return  # nothing new, as of most trials in flight
        if len(trial.params) != seen.n_params:
            self.space.observe(trial)
        yield self._feedback(trial, status)
        if trial.state.is_finished():
            self.space.finish(trial)
            del self._open[number]
            if trial.state == TrialState.FAIL:
                self._failed.add(number)
        else:
            self._open[number] = _Progress(
                status,
                len(trial.params),
                has_cell=CELL_KEY in trial.system_attrs,
                n_reports=len(trial.intermediate_values),
                is_running=trial.state == TrialState.RUNNING,
            )
            if trial.state == TrialState.WAITING:
                self._waiting[number] = self._open.pop(number)

    def _retire_retried(self, retry: FrozenTrial) -> Iterator[Feedback]:
        """Take out of the count the trials that a new trial stands for."""
        history = retry.system_attrs.get(_RETRY_KEY)
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
        cell = recorded_cell(trial)
        if cell is None and CELL_KEY in trial.system_attrs and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                f"Trial {trial.number} has a malformed attribute `{CELL_KEY}`, which is ignored; "
                "so are all others of this study."
            )
        value, fidelity, curve = math.nan, 1.0, None
        if status is Status.TOLD and trial.state != TrialState.FAIL and trial.values:
            value = self._sign * trial.values[0]
        is_sized = SIZED_KEY in trial.system_attrs
        self.is_sized |= is_sized
        if trial.intermediate_values or is_sized:
            full_step = (cell and cell.max_resource) or self.full_step
            reported, fidelity, curve = progress(trial, cell, full_step)
            if status is Status.ASKED:
                value = self._sign * reported
            if curve is not None:
                curve = curve[:, np.isfinite(curve[1])]  # what diverged on the way has no line
                curve[1] *= self._sign
                curve = curve if curve.size else None
        constraints = _constraints(trial)
        self.has_constraints |= bool(constraints)
        return Feedback(
            trial.number,
            status,
            trial.params,
            value,
            cell,
            fidelity,
            curve,
            self._ended_at(trial),
            _hold(constraints),
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
        longest = self._longest if self._n_delays >= _STALE_NEEDS else 0.0
        return now - clock(trial.datetime_start) > stale_limit(self._stale_after, longest)

    def _check_heartbeats(self, now: datetime | None) -> None:
        """Ask the storage, once per heartbeat, whose heart has stopped."""
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
    has_cell: bool = False
    n_reports: int = 0
    is_running: bool = False


class _LongestRun:
    """The largest step that trials have reported: of completed ones, if there are any."""

    def __init__(self) -> None:
        self._completed, self._pruned = 0, 0

    @property
    def step(self) -> int | None:
        return self._completed or self._pruned or None

    def observe(self, trial: FrozenTrial) -> None:
        if trial.intermediate_values and trial.state.is_finished():
            step = min(max(trial.intermediate_values), _MAX_STEP)
            if trial.state == TrialState.COMPLETE:
                self._completed = max(self._completed, step)
            elif trial.state == TrialState.PRUNED:
                self._pruned = max(self._pruned, step)


class ObservedSpace:
    """The parameters that trials have, learned from finished and unfinished ones.

    Trials need not have all of them in common: one that returned early or failed lacks some, and
    somebody else's may have others. A parameter belongs to the space if two trials have had it
    (one, while there are few), and one of them not long ago.

    A parameter whose range changed between two runs has the range of the newest trial. One whose
    range goes back and forth (it depends on another parameter, say) has none, and is left out
    until the newest trials agree on it.
    """

    def __init__(self) -> None:
        self._used: dict[str, list[_Use]] = {}
        self._newest = -1  # number of the newest trial with parameters
        # Whether a trial has ended that shows all its parameters.
        self.is_settled = False

    def names(self) -> set[str]:
        """Return every parameter that any trial had."""
        return set(self._used)

    def knows(self, name: str) -> bool:
        """Whether a parameter could have been in the space: several trials have had it."""
        return sum(len(use.newest) for use in self._used.get(name, ())) > 1

    def observe(self, trial: FrozenTrial) -> None:
        """Learn from the parameters a trial has so far."""
        self._newest = max(self._newest, trial.number if trial.distributions else -1)
        for name, distribution in trial.distributions.items():
            uses = self._used.setdefault(name, [])
            for use in reversed(uses):
                if use.distribution == distribution:
                    use.note(trial.number)
                    break
            else:
                if len(uses) <= _MAX_RANGES:
                    uses.append(_Use(distribution, trial.number, [trial.number]))
                else:  # the last one stands for all that follow
                    uses[-1].distribution = _widened(uses[-1].distribution, distribution)
                    uses[-1].note(trial.number)

    def finish(self, trial: FrozenTrial) -> None:
        """Learn that a trial will get no more parameters."""
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.distributions:
            self.is_settled = True

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the space, without parameters that have a single value."""
        space = {}
        oldest = self._newest - max(_RECENT, int(self._newest * _RECENT_SHARE))
        for name, uses in sorted(self._used.items()):
            newest = max(uses, key=attrgetter("last"))
            is_alone = len(uses) == 1 and len(newest.newest) == 1 and self._newest >= _FEW_TRIALS
            if newest.last < oldest or is_alone:
                continue
            others = max((use.last for use in uses if use is not newest), default=-1)
            # It came after all others, or at least the newest trials have no other.
            steady = others < newest.first or newest.n_after(others) >= _N_AGREEING
            if steady and len(uses) <= _MAX_RANGES and not newest.distribution.single():
                space[name] = newest.distribution
        return space

    def all_distributions(self) -> dict[str, BaseDistribution]:
        """Return every parameter that trials had, each wide enough to hold all its values.

        Of one that was of several kinds, the newest counts.
        """
        space = {}
        for name, uses in sorted(self._used.items()):
            found = [use.distribution for use in sorted(uses, key=attrgetter("last"))]
            space[name] = reduce(_widened, found)
        return {name: d for name, d in space.items() if not d.single()}


def _widened(old: BaseDistribution, new: BaseDistribution) -> BaseDistribution:
    """Return a distribution that holds the values of both if they are of a kind, else the new."""
    for kind in (IntDistribution, FloatDistribution):
        if isinstance(old, kind) and isinstance(new, kind) and old.log == new.log:
            low, high = min(old.low, new.low), max(old.high, new.high)
            if isinstance(new, IntDistribution):
                return IntDistribution(int(low), int(high), log=new.log)
            return FloatDistribution(low, high, log=new.log)
    return new


@dataclass
class _Use:
    """The trials that had a parameter with one certain distribution."""

    distribution: BaseDistribution
    first: int
    newest: list[int]  # the largest numbers, ascending

    @property
    def last(self) -> int:
        return self.newest[-1]

    def n_after(self, number: int) -> int:
        """Return how many came after a number; more than some are not counted."""
        return len(self.newest) - bisect_left(self.newest, number + 1)

    def note(self, number: int) -> None:
        self.first = min(self.first, number)
        i = bisect_left(self.newest, number)
        if i == len(self.newest) or self.newest[i] != number:
            self.newest.insert(i, number)
            del self.newest[:-_N_AGREEING]


def sampler_of(study: optuna.Study) -> BaseSampler:
    """Return the sampler of a study, without others around it such as PartialFixedSampler."""
    sampler = study.sampler
    while isinstance(inner := getattr(sampler, "_base_sampler", None), BaseSampler):
        sampler = inner
    return sampler


def pruner_of(study: optuna.Study) -> BasePruner:
    """Return the pruner of a study, without others around it such as PatientPruner."""
    pruner = study.pruner
    while isinstance(inner := getattr(pruner, "_wrapped_pruner", None), BasePruner):
        pruner = inner
    return pruner


def find_trial(trials: Sequence[FrozenTrial], number: int) -> FrozenTrial | None:
    """Return the trial of a number from trials that are sorted by it."""
    if number < len(trials) and trials[number].number == number:
        return trials[number]
    i = bisect_left(trials, number, key=attrgetter("number"))
    return trials[i] if i < len(trials) and trials[i].number == number else None


def clock(stamp: datetime) -> float:
    """Return a time stamp in seconds. Those of a study may be of different time zones."""
    return stamp.timestamp()


def duration(trial: FrozenTrial) -> float | None:
    """Return the seconds from the start of a trial to its end; None if it has no time stamps."""
    if trial.datetime_start is None or trial.datetime_complete is None:
        return None
    return clock(trial.datetime_complete) - clock(trial.datetime_start)


def stale_limit(stale_after: float | None, longest: float) -> float:
    """Return the age in seconds at which a running trial is given up for lost.

    Args:
        stale_after:
            What the user said, if anything.
        longest:
            The longest time that a finished trial took; 0 if there is none.
    """
    if stale_after is not None:
        return stale_after
    return max(longest * _STALE_FACTOR, _STALE_AT_LEAST) if longest else math.inf


def progress(
    trial: FrozenTrial, cell: Cell | None, full_step: int | None
) -> tuple[float, float, FloatArray | None]:
    """Return the last value a trial reported, the fidelity of its value, and its curve.

    Args:
        trial:
            The trial.
        cell:
            What is stored with it.
        full_step:
            Steps of a whole evaluation; None if that is not known.

    Returns:
        The last report that is a number (NaN if there is none, or if nobody can know what
        fidelity it has); the fidelity of that report, or of the trial's value once it has ended;
        and the fidelities and values on the way of a trial that has ended.
    """
    is_complete = trial.state == TrialState.COMPLETE
    is_sized = SIZED_KEY in trial.system_attrs and cell is not None
    sized = cell.fidelity if cell is not None and is_sized else 1.0
    reports = sorted(
        (min(step, _MAX_STEP), value)
        for step, value in trial.intermediate_values.items()
        if value == value
    )
    if not reports or full_step is None:
        # Of a pruned trial, nobody knows how far it went.
        return math.nan, 0.0 if trial.state == TrialState.PRUNED else sized, None
    steps, values = np.array(reports, dtype=float).T
    reached = np.clip(steps / full_step, 0.0, 1.0)
    # What was not completed is not quite a whole evaluation, even at its last step.
    reached = np.minimum(reached, full_step / (full_step + 1))
    if is_complete and sized >= 1:
        curve = np.array([[*reached, 1.0], [*values, trial.values[0]]])
        return float(values[-1]), 1.0, curve
    # An objective that sized itself may still be halfway, or have gone further.
    fidelity = max(sized, reached[-1]) if is_complete else min(sized, reached[-1])
    has_curve = trial.state == TrialState.PRUNED and sized >= 1
    return float(values[-1]), float(fidelity), np.array([reached, values]) if has_curve else None


def record(study: optuna.Study, trial: FrozenTrial, cell: Cell) -> None:
    """Store with a trial the cell it was asked for."""
    storage, trial_id = study._storage, trial._trial_id
    depth = min(cell.depth, MAX_DEPTH)
    attribute: dict[str, Any] = {"depth": depth, "point": dict(cell.point)}
    if cell.fidelity < 1:
        attribute["fidelity"] = cell.fidelity
    if cell.max_resource is not None:
        attribute["max_resource"] = cell.max_resource
    storage.set_trial_system_attr(trial_id, CELL_KEY, attribute)
    storage.set_trial_user_attr(trial_id, DEPTH_KEY, depth)
    if cell.max_resource is not None:  # otherwise only if the objective makes use of it
        storage.set_trial_user_attr(trial_id, FIDELITY_KEY, cell.fidelity)


def record_use_of_fidelity(storage: BaseStorage, trial: FrozenTrial, fidelity: float) -> None:
    """Store with a trial that its objective goes by the fidelity: its value counts at that."""
    if SIZED_KEY not in trial.system_attrs:
        storage.set_trial_system_attr(trial._trial_id, SIZED_KEY, True)
        storage.set_trial_user_attr(trial._trial_id, FIDELITY_KEY, fidelity)


def record_delay(study: optuna.Study, trial: FrozenTrial) -> None:
    """Store with a trial that is about to end how many seconds its feedback took.

    For people to see: what is computed goes by the time stamps (:func:`delays`). Optuna refuses
    to write to a finished trial, so the last moment is just before.
    """
    if trial.datetime_start is not None:
        seconds = time.time() - clock(trial.datetime_start)
        if 0 <= seconds <= _MAX_DELAY:
            study._storage.set_trial_user_attr(trial._trial_id, DELAY_KEY, round(seconds, 3))


def recorded_cell(trial: FrozenTrial) -> Cell | None:
    """Return the cell stored with a trial; None if there is none, or something else there.

    Anybody can write to a shared storage, so the attribute may be anything.
    """
    attribute = trial.system_attrs.get(CELL_KEY)
    if isinstance(attribute, dict):
        depth, point = attribute.get("depth"), attribute.get("point")
        fidelity, resource = attribute.get("fidelity", 1.0), attribute.get("max_resource")
        if (
            is_integer(depth, 0, MAX_DEPTH)
            and isinstance(point, dict)
            and len(point) <= _MAX_PARAMS
            and all(isinstance(x, float) and 0 <= x <= 1 for x in point.values())
            and (isinstance(fidelity, (int, float)) and 0 <= fidelity <= 1)
            and (resource is None or is_integer(resource, 1, _MAX_STEP))
        ):
            return Cell(depth, point, float(fidelity), resource)
    return None


def is_feasible(trial: FrozenTrial) -> bool:
    """Whether a trial violates none of its constraints; one without any is feasible."""
    return _hold(_constraints(trial))


def _hold(constraints: Mapping[str, object]) -> bool:
    # What is no number cannot be known to hold; nor does NaN.
    return all(isinstance(value, Real) and value <= 0 for value in constraints.values())


def _constraints(trial: FrozenTrial) -> dict[str, object]:
    """Return what a trial says of its constraints, as Optuna reads it. It may be anything."""
    attributes = trial.system_attrs
    values = attributes.get(_CONSTRAINTS_KEY)
    found: dict[str, object] = {}
    if isinstance(values, (list, tuple)):
        found.update((str(i), value) for i, value in enumerate(values))
    prefix = f"{_CONSTRAINTS_KEY}:"
    found.update(
        (k.removeprefix(prefix), attributes[k]) for k in attributes if k.startswith(prefix)
    )
    return found


def is_integer(x: object, low: int, high: int) -> TypeGuard[int]:
    """Whether something that anybody may have written is a whole number in a range."""
    return isinstance(x, int) and not isinstance(x, bool) and low <= x <= high
