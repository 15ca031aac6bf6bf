"""The search space that trials have shown."""

from __future__ import annotations

from bisect import bisect_left
from bisect import insort
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
import math
from operator import attrgetter
from typing import Any
from typing import NamedTuple

from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.conditions import Clause
from optuna_pcts._space.conditions import Condition
from optuna_pcts._space.learning import learn_conditions
from optuna_pcts._space.parameters import Parameters
from optuna_pcts._space.parameters import POSITION
from optuna_pcts._tree.refit import Checkpoint


# So many of the newest trials must agree on a range that went back and forth.
_N_AGREEING = 10
# ... and all since this part of the study.
_AGREEING_SHARE = 0.25
# A parameter with more ranges than this has none of its own.
_MAX_RANGES = 16
# A parameter that so many trials, and this share of all, have been without is not asked any more.
_RECENT = 64
_RECENT_SHARE = 0.25
# From so many trials on, a parameter that only one of them has is that trial's own.
_FEW_TRIALS = 16
# Conditions are learned anew when the number of ended trials has grown by this factor; from the
# newest of them, so that what has changed is seen.
_GROWTH = 1.25
_N_ROWS = 2048
# While fewer have ended, running ones count as well, and they are learned for each trial.
_FEW_ENDED = 16


class ObservedSpace:
    """The parameters that trials have, learned from finished and unfinished ones.

    Trials need not have all of them in common: one that returned early or failed lacks some, and
    somebody else's may have others. A parameter belongs to the space if two trials have had it
    (one, while there are few), and one of them not long ago. When it exists is learned
    (``learning.py``) from the trials that ended first, up to a checkpoint, and while there are few
    from running ones, too. A trial that has it elsewhere widens its condition at once.

    A parameter whose range changed between two runs has the range of the newest trial. One whose
    range goes back and forth (it depends on another parameter, say) is searched by position, until
    the newest trials agree on it.
    """

    def __init__(self) -> None:
        self._used: dict[str, list[_Use]] = {}
        self._newest = -1  # number of the newest trial with parameters
        # Whether a trial has ended that shows all its parameters.
        self.is_settled = False
        self._rows: dict[int, Mapping[str, Any]] = {}  # parameters of trials that did not fail
        self._ended: list[tuple[float, int]] = []  # when, and which; sorted
        self._open: set[int] = set()  # those of the rows that have not ended
        self._checkpoint = Checkpoint(_GROWTH)
        self._learned: _Learned | None = None
        self._parameters: Parameters | None = None
        self._has_changed = True  # since it was made
        self._current: dict[str, _Current] = {}  # how each parameter is used now
        self._touched: set[str] = set()  # those for which that must be looked up anew

    def names(self) -> set[str]:
        """Return every parameter that any trial had."""
        return set(self._used)

    def knows(self, name: str) -> bool:
        """Whether a parameter could have been in the space: several trials have had it."""
        return sum(len(use.newest) for use in self._used.get(name, ())) > 1

    def observe(self, trial: FrozenTrial) -> None:
        """Learn from the parameters a trial has so far."""
        self._has_changed = True
        self._newest = max(self._newest, trial.number if trial.distributions else -1)
        self._touched.update(trial.distributions)
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
        if trial.params and trial.state != TrialState.WAITING:
            self._rows[trial.number] = trial.params
            self._open.add(trial.number)
            if self._learned is not None:
                if trial.number in self._learned.running:
                    self._learned = None  # it had not shown all its parameters
                else:
                    self._learned.widen(trial.params)

    def finish(self, trial: FrozenTrial, ended_at: float) -> None:
        """Learn that a trial will get no more parameters."""
        self._has_changed = True
        self._open.discard(trial.number)
        learned = self._learned
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.distributions:
            self.is_settled = True
            self._rows[trial.number] = trial.params
            insort(self._ended, (ended_at, trial.number))
            if learned is not None and (ended_at, trial.number) < learned.last:
                self._learned = None  # it ended before some of those that were learned from
        else:
            # One that failed may have lacked a parameter because it failed.
            self._rows.pop(trial.number, None)
            if learned is not None and trial.number in learned.running:
                self._learned = None

    def parameters(self) -> Parameters:
        """Return the space, without parameters that have a single value."""
        if self._parameters is not None and not self._has_changed:
            return self._parameters
        self._has_changed = False
        found, floating = self._found()
        learned = self._learn(found, floating)
        oldest = self._newest - max(_RECENT, int(self._newest * _RECENT_SHARE))
        distributions = {
            name: POSITION if name in floating else use.distribution
            for name, use in found.items()
            if (
                name not in learned.given_up
                if name in learned.conditions
                else use.last >= oldest and not self._is_alone(name)
            )
        }
        conditions = {n: c for n, c in learned.conditions.items() if n in distributions}
        parameters = Parameters(distributions, conditions, floating & set(distributions))
        if parameters != self._parameters:
            self._parameters = parameters
        assert self._parameters is not None
        return self._parameters

    def _is_alone(self, name: str) -> bool:
        """Whether only one of many trials has a parameter."""
        uses = self._used[name]
        return len(uses) == 1 and len(uses[0].newest) == 1 and self._newest >= _FEW_TRIALS

    def _found(self) -> tuple[dict[str, _Use], frozenset[str]]:
        """Return how each parameter is used now, and those whose range goes back and forth."""
        for name in self._touched:
            self._current[name] = _current(self._used[name])
        self._touched.clear()
        found = {
            name: current.use
            for name, current in sorted(self._current.items())
            if not current.use.distribution.single()
        }
        return found, frozenset(n for n in found if self._current[n].is_floating)

    def _learn(self, found: Mapping[str, _Use], floating: frozenset[str]) -> _Learned:
        """Return the conditions, learned anew if it is time or the parents' ranges are others."""
        distributions = {name: use.distribution for name, use in found.items()}
        few = len(self._ended) < _FEW_ENDED
        n_rows = self._checkpoint.below(len(self._rows) if few else len(self._ended))
        learned = self._learned
        if (
            learned is not None
            and learned.key == (few, n_rows)
            and learned.parents == {n: distributions.get(n) for n in learned.parents}
        ):
            return learned
        if few:
            numbers, last = sorted(self._rows)[:n_rows], (-math.inf, -1)
        else:
            ended = self._ended[:n_rows]
            numbers, last = sorted(number for _, number in ended[-_N_ROWS:]), ended[-1]
        known = {n: d for n, d in distributions.items() if n not in floating}
        # A floating parameter may depend on others, but nothing on it.
        rows = [self._rows[number] for number in numbers]
        conditions = learn_conditions(rows, known, sorted(floating))
        running = self._open.intersection(numbers)
        learned = self._learned = _Learned((few, n_rows), last, running, conditions, known)
        learned.give_up(rows)
        later = () if few else (number for _, number in self._ended[n_rows:])
        for number in {*self._open, *later, *(sorted(self._rows)[n_rows:] if few else ())}:
            learned.widen(self._rows[number])
        return learned

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


class _Current(NamedTuple):
    """How a parameter is used now."""

    use: _Use
    is_floating: bool  # its range goes back and forth


def _current(uses: Sequence[_Use]) -> _Current:
    newest = max(uses, key=attrgetter("last"))
    if len(uses) == 1:
        return _Current(newest, False)
    others = max(use.last for use in uses if use is not newest)
    by_first = sorted(uses, key=attrgetter("first"))
    in_turn = all(a.last < b.first for a, b in pairwise(by_first))
    # Each came after all others, or at least the newest trials have no other.
    n_agreeing = max(_N_AGREEING, int(newest.last * _AGREEING_SHARE))
    agrees = newest.n_after(others) >= _N_AGREEING and newest.last - others >= n_agreeing
    if len(uses) <= _MAX_RANGES and (in_turn or agrees):
        return _Current(newest, False)
    wide = max(uses, key=lambda use: (not use.distribution.single(), use.last))
    return _Current(wide, True)


class _Learned:
    """Conditions, and what they were learned from.

    Attributes:
        key:
            Whether they were few, and how many.
        last:
            Which was the last of them to end, and when.
        running:
            Those of them that were running.
        conditions:
            The conditions.
        parents:
            The distributions of all parents.
        given_up:
            Parameters that no trial has had for long, where they should have been.
    """

    def __init__(
        self,
        key: tuple[bool, int],
        last: tuple[float, int],
        running: set[int],
        conditions: dict[str, Condition],
        distributions: Mapping[str, BaseDistribution],
    ) -> None:
        self.key, self.last, self.running = key, last, running
        self.conditions = conditions
        parents = {clause.parent for condition in conditions.values() for clause in condition}
        self.parents = {name: distributions[name] for name in sorted(parents)}
        self._axes = {name: axis_of(name, d) for name, d in self.parents.items()}
        self.given_up: set[str] = set()

    def widen(self, params: Mapping[str, Any]) -> None:
        """Let conditions hold for the parameters that a trial has."""
        for name in params:
            condition = self.conditions.get(name)
            if condition is not None and not self._holds(condition, params):
                self.conditions[name] = tuple(
                    Clause(parent, slots | {slot})
                    if (slot := self._slot(parent, params)) is not None
                    else Clause(parent, slots)
                    for parent, slots in condition
                )

    def give_up(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Note which parameters no trial has had for long, though their conditions hold."""
        least = max(_RECENT, int(len(rows) * _RECENT_SHARE))
        for name, condition in self.conditions.items():
            missing = 0
            for params in reversed(rows):
                if name in params:
                    break
                missing += self._holds(condition, params)
                if missing > least:
                    self.given_up.add(name)
                    break

    def _holds(self, condition: Condition, params: Mapping[str, Any]) -> bool:
        return all(self._slot(parent, params) in slots for parent, slots in condition)

    def _slot(self, parent: str, params: Mapping[str, Any]) -> int | None:
        axis = self._axes[parent]
        assert isinstance(axis, DiscreteAxis), "only what is discrete can be a parent"
        return axis.index(params[parent]) if parent in params else None
