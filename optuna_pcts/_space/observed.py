"""The search space that trials have shown."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter

from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState


# So many of the newest trials must agree on a range that went back and forth.
_N_AGREEING = 10
# A parameter with more ranges than this has none.
_MAX_RANGES = 16
# A parameter that so many trials, and this share of all, have been without is not asked any more.
_RECENT = 64
_RECENT_SHARE = 0.25
# From so many trials on, a parameter that only one of them has is that trial's own.
_FEW_TRIALS = 16


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
