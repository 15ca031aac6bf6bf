"""PCTSSampler: Optuna's hooks over the tree."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
import os
import secrets
import threading
from typing import Any
import warnings
import zlib

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.samplers._base import _INDEPENDENT_SAMPLING_WARNING_TEMPLATE
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._checks import check_has_method
from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number
from optuna_pcts._checks import checked_names
from optuna_pcts._checks import checked_reward
from optuna_pcts._fidelity import BiasModel
from optuna_pcts._fidelity import DepthFidelity
from optuna_pcts._history import Cell
from optuna_pcts._history import Feedback
from optuna_pcts._history import History
from optuna_pcts._history import pruner_of
from optuna_pcts._history import record
from optuna_pcts._history import record_delay
from optuna_pcts._history import recorded_cell
from optuna_pcts._history import sampler_of
from optuna_pcts._history import Status
from optuna_pcts._policy import DUCBV
from optuna_pcts._policy import Policy
from optuna_pcts._pruner import PCTSPruner
from optuna_pcts._search.local import Drawn
from optuna_pcts._search.local import LocalSearch
from optuna_pcts._smoothness import SmoothnessModel
from optuna_pcts._smoothness import UnknownSmoothness
from optuna_pcts._space import check_search_space
from optuna_pcts._space import SearchSpace
from optuna_pcts._tree import Leaf
from optuna_pcts._tree import Tree


# A space that changes, or parts of it that somebody fixes, has a tree each; old ones are dropped.
_MAX_SEARCHES = 4

# The part of a cell's side that is its middle, and the one that is as good as its centre.
_MIDDLE = 0.5
_NEAR_CENTER = 0.1
# So many middles are asked before the first feedback. They are a good start, but not a good grid.
_MANY_BLIND = 16

# This share of the asks that are the tree's goes level by level, whatever the bounds say; and this
# one where nothing is left to gain. With less, a narrow basin under noise is missed (with 0.25 by
# 6 of 10 studies of `benchmarks.exploration`); with more, regret grows where there is one basin.
_LEVEL_SHARE = 0.35
_NOTHING_LEFT_SHARE = 0.9

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


class PCTSSampler(BaseSampler):
    """Procrastinated Tree Search: for feedback that is delayed, noisy and expensive.

    The search space is a cube, cut into smaller and smaller cells. Every trial counts in each
    cell that contains its point; a bandit turns the counts, means and variances into an upper
    bound for every cell; each ask follows the largest bound down to one small cell and evaluates
    a point of its middle. Nothing waits: the cell is split at once, and feedback is folded in
    whenever it arrives, from whichever worker.

    The tree is a function of what is in Optuna's storage and nothing else. Any number of workers
    may share a study, come and go, and be killed; each one sees the same tree.

    Rewards: the policy's constants are made for rewards in [0, 1]. Values are turned so that
    larger is better, then scaled so that 0 is their median and 1 their best; whatever is worse
    than the median counts as 0, and so does a failed trial. The scale is taken anew whenever the
    number of trials has grown by a quarter. ``reward`` has other scales.

    Args:
        policy:
            The bandit: :class:`DUCBV` (default), :class:`DUCB1Sigma`, :class:`DUCB1`, or any
            object with a method like theirs (:class:`Policy`).
        smoothness:
            How fast the objective may vary: :class:`UnknownSmoothness` (default), POO's own
            :class:`POOSmoothness`, or a known :class:`Smoothness`.
        point:
            Which point of the chosen cell to evaluate: one drawn from the ``"middle"`` half of
            each side (default), its ``"center"``, or any one (``"uniform"``). It is any one while
            many trials run and none has ended; and values without an order have no middle. With a
            ``split_order``, the middle is the centre, so that trials share the values that are
            expensive to change.
        branching:
            How many children a split of a continuous parameter makes: 2 (default) or 3. With 3,
            the middle child keeps its parent's centre and so most of its feedback. Discrete
            parameters are always split in two.
        fidelity:
            How far trials are evaluated, by their depth, if the study has a :class:`PCTSPruner`
            or the objective reads :func:`fidelity`: a :class:`DepthFidelity`. Otherwise all
            trials are evaluated as a whole.
        local_share:
            Share of the asks that are drawn around the best trials so far instead of by the
            tree. They count in the tree like any other trial. 0 is the paper's algorithm.
        prior_std:
            A cell without feedback has the bound that an additive model of all feedback gives
            it, plus this many of the model's residual standard deviations. None is the paper's
            algorithm: the bound is infinite, and every child of a good cell is tried.
        reward:
            How values become rewards: ``"clipped"`` (default, above); ``"range"``, 0 is the
            worst value so far and 1 the best (a worse one has 0 too, until the scale is taken
            anew); or a pair of numbers in the unit of the objective, the lowest and the highest
            value that it can have, if that is known, as the paper takes it to be: what lies
            outside counts as the end next to it. A failed trial has reward 0 in any case.
        split_order:
            Names of parameters, or groups of names, to split before all others, in this order:
            ``["shared_buffers", ["work_mem", "jit"]]``. Useful where changing one parameter
            costs more than changing another: trials deep in the tree then share its value. A
            parameter goes first until its side of the cell is a sixteenth of its range (or one
            value); meanwhile the parameters not named are drawn at random from theirs. By
            default the longest side is split first.
        search_space:
            The parameters and their distributions, if they are known up front. Otherwise they
            are learned from the trials, unfinished ones included, and the very first trial is
            random. An objective that suggests one of them from another range raises ValueError
            when it cannot have the proposed value, and is warned of otherwise.
        n_startup_trials:
            Number of first trials left to ``independent_sampler``. The tree needs none.
        independent_sampler:
            Samples what the tree does not: the first trials, parameters that no trial has had so
            far, and those whose range goes back and forth. By default uniformly at random.
        warn_independent_sampling:
            Whether to warn when a parameter is sampled independently.
        stale_after:
            Seconds after which a running trial no longer counts as in flight. By default, once
            five have ended, ten times the longest of them, at least a minute. Trials whose
            heartbeat is lost stop counting in any case.
        seed:
            Seed of the random generator. Workers may share it: what is drawn also depends on
            the number of the trial.

    Raises:
        TypeError, ValueError:
            If an argument is not what it should be. The message names it.
    """

    # Whether to store with each trial, for people to see, how many seconds its feedback took: the
    # user attribute `pcts:delay`. A dashboard's LiveFigures sees to that, for all samplers of its
    # process. Not otherwise: on a database each attribute costs a twentieth of what a trial costs.
    shows_delays = False

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        smoothness: SmoothnessModel | None = None,
        point: str = "middle",
        branching: int = 2,
        fidelity: DepthFidelity | None = None,
        local_share: float = 0.5,
        prior_std: float | None = 2.0,
        reward: str | tuple[float, float] = "clipped",
        split_order: Sequence[str | Sequence[str]] | None = None,
        search_space: Mapping[str, BaseDistribution] | None = None,
        n_startup_trials: int = 0,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        stale_after: float | None = None,
        seed: int | None = None,
    ) -> None:
        self._policy = DUCBV() if policy is None else policy
        self._smoothness = UnknownSmoothness() if smoothness is None else smoothness
        self._point = point
        self._branching = branching
        self._fidelity = DepthFidelity() if fidelity is None else fidelity
        self._local_share = local_share
        self._prior_std = prior_std
        self._reward = reward
        self._split_order = () if split_order is None else split_order
        self._search_space = search_space
        self._n_startup_trials = n_startup_trials
        self._independent_sampler = independent_sampler
        self._warn_independent_sampling = warn_independent_sampling
        self._stale_after = stale_after
        self._seed = seed
        self._check_arguments()
        self._is_finishing = False
        self._has_warned_of_failure = False
        self._warned_of_constraints: set[str] = set()
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._forget()

    def finish(self, finishing: bool = True) -> None:
        """Evaluate at full fidelity from now on, around the best: the study is about to end.

        :class:`CostBudget` calls this when a tenth of the budget is left. Call it yourself, from
        a callback say, if a study ends for another reason that you know beforehand.

        Args:
            finishing:
                False to take it back: the study goes on.
        """
        self._is_finishing = finishing

    def read_history(self, study: optuna.Study, trials: list[FrozenTrial]) -> History:
        """Read all trials of a study at one moment, apart from what this sampler has read."""
        self._raise_error_if_multi_objective(study)
        history = History(study, self._stale_after, trials)
        history.update(datetime.now())
        return history

    def read_tree(self, history: History) -> tuple[SearchSpace, Tree]:
        """Build the tree of a history, with the settings of this sampler, that nobody searches.

        Raises:
            ValueError:
                If no trial shows a parameter.
        """
        distributions = self._search_space or history.space.distributions()
        distributions = {n: d for n, d in distributions.items() if not d.single()}
        if not distributions:
            raise ValueError(
                "There is no tree yet: no trial shows a parameter that could be searched."
            )
        with np.errstate(all="ignore"):
            search = self._new_search(distributions, history)
        return search.space, search._tree

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        """Return (nu, rho) of each smoothness instance, in the order of their turns."""
        return self._smoothness.instances(n_dims)

    # ------------------------------------------------------------------ Optuna's hooks

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        self._raise_error_if_multi_objective(study)
        if trial.number < self._n_startup_trials:
            return {}
        if self._search_space is not None:
            return {n: d for n, d in self._search_space.items() if not d.single()}
        with self._exclusive():
            return self._read(study, trial).space.distributions()

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with self._exclusive():
            history = self._read(study, trial)
            search = self._search_over(search_space, history, trial)
            # An enqueued trial may fix some parameters.
            enqueued = trial.system_attrs.get("fixed_params")
            fixed = {**(enqueued if isinstance(enqueued, dict) else {}), **trial.params}
            has_fidelity = history.is_sized or isinstance(pruner_of(study), PCTSPruner)
            is_last = has_fidelity and (self._is_finishing or self._fidelity.is_last(trial.number))
            is_full = is_last or self._fidelity.is_full(trial.number)
            others = [n for n in (*history.unfinished, *history.unseen) if n != trial.number]
            is_blind = len(others) == trial.number >= _MANY_BLIND
            knows_all = all(search.knows(n) for n in others)
            params, cell = search.ask(
                trial.number,
                fixed,
                self._rng(trial),
                spread=self._spread(is_blind, knows_all),
                local_share=1.0 if is_last and self._local_share else self._local_share,
                knows_all=knows_all,
            )
            if cell is None:
                return params
            if fixed:
                retried = recorded_cell(trial)
                z = 1.0 if retried is None else retried.fidelity
            else:
                z = 1.0 if is_full else cell.fidelity
        record(study, trial, self._with_fidelity(cell, z, pruner_of(study)))
        return params

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        self._raise_error_if_multi_objective(study)
        expected = (self._search_space or {}).get(param_name, param_distribution)
        if expected is not param_distribution and expected != param_distribution:
            raise ValueError(
                f"The objective suggests `{param_name}` from {param_distribution}, but "
                f"`search_space` says {expected}."
            )
        if self._warn_independent_sampling and trial.number >= self._n_startup_trials:
            self._warn_of_independence(study, trial, param_name)
        if self._independent_sampler is not None:
            return self._independent_sampler.sample_independent(
                study, trial, param_name, param_distribution
            )
        space = SearchSpace({param_name: param_distribution})
        return space.from_unit([self._rng(trial, param_name).random()])[param_name]

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)
        if len(study.directions) == 1:
            with self._exclusive():
                if self._history_of(study).knows_from_cache(trial):
                    self._read(study, trial, is_created=True)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)
        if self.shows_delays:
            record_delay(study, trial)
        for name, expected in (self._search_space or {}).items():
            actual = trial.distributions.get(name, expected)
            if actual != expected:
                # The trial has been evaluated, so it is kept; an error here would lose it.
                warnings.warn(
                    f"Trial {trial.number} suggested `{name}` from {actual}, but `search_space` "
                    f"says {expected}; values outside of the latter are never proposed.",
                    stacklevel=2,
                )

    def reseed_rng(self) -> None:
        # Our own draws depend on the number of the trial, so that copies of the sampler differ.
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    # ------------------------------------------------------------------ the cache

    def _forget(self) -> None:
        """Drop all that was read from the storage. It is only a cache."""
        self._history: History | None = None
        self._searches: list[_Search] = []
        self._read_for: int | None = None
        self._full_step: int | None = None

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock that the threads of this process share."""
        if self._pid != os.getpid():
            # Forked, perhaps while a thread of the parent held the lock and changed the tree.
            self._pid, self._lock = os.getpid(), threading.RLock()
            self._forget()
        # Values may be as large or as small as floats can be. What comes of it is dealt with where
        # it matters, also for somebody who has numpy raise errors.
        with self._lock, np.errstate(all="ignore"):
            yield

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_pid", "_lock", "_history", "_searches", "_read_for", "_full_step"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._forget()

    def _history_of(self, study: optuna.Study) -> History:
        """Return what was read of a study so far."""
        history = self._history
        if history is None or not history.belongs_to(study):
            self._forget()
            history = self._history = History(study, self._stale_after)
        return history

    def _read(
        self, study: optuna.Study, trial: FrozenTrial, *, is_created: bool = False
    ) -> History:
        """Fold what is new in the storage into the trees, once per trial."""
        history = self._history_of(study)
        if self._read_for != trial.number:
            created = trial if is_created else None
            try:
                for feedback in history.update(trial.datetime_start, created):
                    for search in self._searches:
                        if feedback.number != trial.number:  # it is about to be asked
                            search.fold(feedback)
            except BaseException:  # interrupted, say: half of what was read would be lost
                self._forget()
                raise
            if history.full_step != self._full_step:  # the fidelities of all trials with it
                self._full_step, self._searches = history.full_step, []
            if history.has_constraints:
                self._warn_of_constraints(study)
            self._searches = [search for search in self._searches if search.is_valid]
            self._read_for = trial.number
        return history

    def _search_over(
        self, distributions: dict[str, BaseDistribution], history: History, trial: FrozenTrial
    ) -> _Search:
        """Return the search over a space, built from all trials if it is new."""
        for i, search in enumerate(self._searches):
            if search.distributions == distributions:
                self._searches.append(self._searches.pop(i))  # the last one is dropped last
                return search
        search = self._new_search(distributions, history, without=trial.number)
        self._searches = [*self._searches[1 - _MAX_SEARCHES :], search]
        return search

    def _new_search(
        self,
        distributions: Mapping[str, BaseDistribution],
        history: History,
        without: int | None = None,
    ) -> _Search:
        """Build the search over a space from all trials, but for one that is about to be asked."""
        self._check_split_order(history)
        space = SearchSpace(
            distributions, branching=self._branching, split_order=self._split_order
        )
        instances = self.instances(len(space))
        bias = BiasModel(self._fidelity.bias)
        reward = self._reward
        if not isinstance(reward, str):
            reward = history.oriented(reward)
        tree = Tree(space, self._policy, instances, self._prior_std, bias, reward)
        ordered = checked_names(self._split_order)
        search = _Search(distributions, space, tree, ordered, self._warn_of_failure)
        for feedback in history.replay():
            if feedback.number != without:
                search.fold(feedback)
        return search

    # ------------------------------------------------------------------ points

    def _rng(self, trial: FrozenTrial, purpose: str = "") -> np.random.Generator:
        """Return the generator of one trial.

        One for each number: workers that share a seed, or forked from one process, must not
        draw the same numbers.
        """
        if self._seed is None:
            self._seed = secrets.randbits(64)
        return np.random.default_rng([self._seed, trial.number, zlib.crc32(purpose.encode())])

    def _spread(self, is_blind: bool, knows_all: bool) -> float:
        """Return the part of a cell's side from which to draw the point: 0 is its centre.

        Args:
            is_blind:
                Whether many trials are in flight and none has ended.
            knows_all:
                Whether it is known what all other trials in flight ask.
        """
        if self._point == "uniform":
            return 1.0
        if not self._split_order:  # centres share a value that is expensive to change
            # Before the first feedback there is no cell to tell about, and a grid of centres gets
            # no nearer to the faces of the cube.
            if is_blind:
                return 1.0
            # A cell speaks for the sides that it has been split along. On the others all centres
            # are the same, and trials would say nothing about the parameter.
            if self._point == "middle":
                return _MIDDLE
        # Somebody may be about to ask the same centre. Stay around it, but not on it.
        return 0.0 if knows_all else _NEAR_CENTER

    def _with_fidelity(self, cell: Cell, fidelity: float, pruner: BasePruner) -> Cell:
        """Return a cell with the fidelity it is to be evaluated at, as far as it can be."""
        minimum = self._fidelity.minimum
        if not isinstance(pruner, PCTSPruner):
            return replace(cell, fidelity=max(fidelity, 0.05 if minimum is None else minimum))
        fidelity = pruner.last_step(max(fidelity, minimum or 0.0)) / pruner.max_resource
        return replace(cell, fidelity=fidelity, max_resource=pruner.max_resource)

    # ------------------------------------------------------------------ errors and warnings

    def _check_arguments(self) -> None:
        check_has_method("policy", self._policy, "bound", "DUCBV()")
        check_has_method("smoothness", self._smoothness, "instances", "UnknownSmoothness()")
        if self._point not in ("middle", "center", "uniform"):
            raise ValueError(
                f"`point` must be 'middle', 'center' or 'uniform', but got {self._point!r}."
            )
        check_integer("branching", self._branching)
        if self._branching not in (2, 3):
            raise ValueError(f"`branching` must be 2 or 3, but got {self._branching!r}.")
        if not isinstance(self._fidelity, DepthFidelity):
            raise TypeError(f"`fidelity` must be a DepthFidelity, but got {self._fidelity!r}.")
        check_number("local_share", self._local_share, low=0.0, high=1.0, open_low=False)
        if self._prior_std is not None:
            check_number("prior_std", self._prior_std, low=0.0, open_low=False)
        self._reward = checked_reward(self._reward)
        check_integer("n_startup_trials", self._n_startup_trials)
        if self._seed is not None:
            check_integer("seed", self._seed)
            self._seed = int(self._seed)
        if self._stale_after is not None:
            check_number("stale_after", self._stale_after, low=0.0)
        sampler = self._independent_sampler
        if sampler is not None and not isinstance(sampler, BaseSampler):
            raise TypeError(f"`independent_sampler` must be an Optuna sampler, got {sampler!r}.")
        if not isinstance(self._warn_independent_sampling, bool):
            raise TypeError(
                "`warn_independent_sampling` must be True or False, but got "
                f"{self._warn_independent_sampling!r}."
            )
        if self._search_space is not None:
            check_search_space(self._search_space)
        names = checked_names(self._split_order)
        unknown = sorted(set(names) - set(self._search_space or names))
        if unknown:
            raise ValueError(
                f"`split_order` names {unknown}, but `search_space` has only "
                f"{sorted(self._search_space or ())}."
            )

    def _check_split_order(self, history: History) -> None:
        """Warn of names that no trial has, once it can be known."""
        unknown = set(checked_names(self._split_order)) - history.space.names()
        if unknown and self._search_space is None:
            _logger.warning(
                f"`split_order` names {sorted(unknown)}, which no trial has had so far; the "
                f"parameters seen are {sorted(history.space.names())}."
            )

    def _warn_of_failure(self, error: Exception) -> None:
        """Warn, once, that asks around the best trials cannot be had from these values."""
        if not self._has_warned_of_failure:
            self._has_warned_of_failure = True
            _logger.warning(
                f"No point could be drawn from where the best one may be ({error!r}). The tree "
                "asks instead. This is a bug: please report it, with the values of the study."
            )

    def _warn_of_constraints(self, study: optuna.Study) -> None:
        """Say once that constraints are not searched: not to know is worse than to have none."""
        if study.study_name not in self._warned_of_constraints:
            self._warned_of_constraints.add(study.study_name)
            _logger.warning(
                f"The study `{study.study_name}` has constraints, which PCTSSampler does not use "
                "yet: it searches where values are good, feasible or not. `recommend` leaves "
                "infeasible trials out."
            )

    def _warn_of_independence(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str
    ) -> None:
        with self._exclusive():
            space = self._read(study, trial).space
            if self._search_space is None and not (space.is_settled and space.knows(param_name)):
                return  # nobody could know of it
        sampler = self._independent_sampler
        _logger.warning(
            _INDEPENDENT_SAMPLING_WARNING_TEMPLATE.format(
                param_name=param_name,
                trial_number=trial.number,
                independent_sampler_name=(
                    "uniform sampling" if sampler is None else type(sampler).__name__
                ),
                sampler_name=type(self).__name__,
                fallback_reason="its range is another one from trial to trial",
            )
        )


def settings_of(study: optuna.Study) -> PCTSSampler:
    """Return a sampler with the settings to see any study with.

    Its own if that is a :class:`PCTSSampler`, also within another one such as
    ``PartialFixedSampler``, and the default ones otherwise: what is in the storage makes the tree,
    whoever put it there.
    """
    sampler = sampler_of(study)
    return sampler if isinstance(sampler, PCTSSampler) else PCTSSampler()


class _Search:
    """One search space: its cube, its tree, and the points asked of them."""

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        space: SearchSpace,
        tree: Tree,
        ordered: Sequence[str],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.distributions = dict(distributions)
        self.space = space
        # Parameters that are split after others. Until then their centre is nothing special, and
        # a whole study might pass without another value of them.
        self._waits = np.array([bool(ordered) and name not in ordered for name in space.names])
        # Values without an order have no middle.
        self._has_middle = np.array(
            [n == 0 or name in ordered for name, n in zip(space.names, space.categories)]
        )
        self._tree = tree
        self._local = LocalSearch(tree, space.categories, space.slots)
        self._on_failure = on_failure
        self.is_valid = True

    def fold(self, feedback: Feedback) -> None:
        """Bring one trial of the tree up to date."""
        number, status, cell = feedback.number, feedback.status, feedback.cell
        tree = self._tree
        proposed, depth = (cell.point, cell.depth) if cell is not None else (None, None)
        point = self.space.to_unit(feedback.params, proposed)
        n_unknown = len(self.space) if point is None else sum(x != x for x in point)
        if status is not Status.ASKED and n_unknown:
            tree.remove(number)  # it will never have more coordinates than it has now
        if point is None or n_unknown == len(self.space):
            return
        if tree.place(number, point, depth):
            self.is_valid = False  # split for a point that was not evaluated
        if status is Status.TOLD:
            tree.tell(
                number,
                feedback.value,
                feedback.fidelity,
                ended_at=feedback.ended_at,
                curve=feedback.curve,
            )
        elif status is Status.ASKED and feedback.value == feedback.value:
            tree.tell(number, feedback.value, feedback.fidelity, ended=False)
        elif status is Status.GONE:
            tree.remove(number)

    def knows(self, number: int) -> bool:
        """Whether the whole point of a trial is known."""
        return self._tree.knows_point(number)

    def ask(
        self,
        number: int,
        fixed: Mapping[str, Any],
        rng: np.random.Generator,
        *,
        spread: float,
        local_share: float,
        knows_all: bool,
    ) -> tuple[dict[str, Any], Cell | None]:
        """Choose the parameters of a trial, and count it as asked.

        Args:
            number:
                Trial number.
            fixed:
                Parameters that are not to be chosen.
            rng:
                The generator of this trial.
            spread:
                The part of a cell's side from which to draw the point: 0 is its centre.
            local_share:
                Probability of an ask around the best trials instead of one by the tree.
            knows_all:
                Whether it is known what all other trials in flight ask. If not, one of them may be
                about to ask the same corner of the cube.
        """
        space, tree = self.space, self._tree
        tree.remove(number)  # in case it was asked before
        is_taken, at_guess = True, False
        if self._local.is_rugged and local_share:
            local_share = (1 + local_share) / 2  # cells tell little about each other
        is_local = rng.random() < local_share and not fixed
        # Where nothing is left to gain, something better can only be elsewhere.
        has_nothing_left = local_share < 1 and tree.has_nothing_left and not fixed
        is_local &= not has_nothing_left
        for off_corners in (not knows_all, True) if is_local else ():
            drawn = self._draw(rng, off_corners)
            if drawn is None:
                break
            params, at_guess = space.from_unit(drawn.point), drawn.at_guess
            point = space.to_unit(params)
            assert point is not None, "a value of the space lies in it"
            depth, is_taken = tree.locate(point)
            if drawn.is_repeat or not is_taken:
                is_taken = False
                break
        if is_taken:
            at_guess = False
            share = _LEVEL_SHARE if not has_nothing_left else _NOTHING_LEFT_SHARE
            by_level = local_share > 0 and not fixed and tree.n_told and rng.random() < share
            leaf = tree.select_level(rng) if by_level else None
            if leaf is None:
                leaf = tree.select(number, rng, space.to_unit(fixed) if fixed else None)
            if fixed and not leaf.is_empty:
                spread = 1.0  # its centre has been asked
            params = space.from_unit(self._point_in(leaf, spread, rng)) | {
                name: value for name, value in fixed.items() if name in space.names
            }
            depth, point = leaf.depth, space.to_unit(params)
        if point is None:  # somebody fixed a parameter at a value outside of its range
            return params, None
        tree.place(number, point, depth)
        # Where the answer may be, nothing is left half done.
        fidelity = 1.0 if at_guess else tree.fidelity(depth)
        return params, Cell(depth, dict(zip(space.names, point)), fidelity)

    def _draw(self, rng: np.random.Generator, off_corners: bool) -> Drawn | None:
        """Return a local ask if there is one: where its numerics fail, it is the tree's turn."""
        try:
            return self._local.draw(rng, off_corners)
        except (ArithmeticError, ValueError) as error:  # also those of linear algebra
            self._on_failure(error)
            return None

    def _point_in(self, leaf: Leaf, spread: float, rng: np.random.Generator) -> list[float]:
        """Return a point of the middle of a cell, as wide as given; anywhere if there is none."""
        lower, upper = np.array(leaf.lower), np.array(leaf.upper)
        is_middle = self._has_middle & ~(self._waits & (upper - lower >= 1))
        shift = (rng.random(len(lower)) - 0.5) * np.where(is_middle, spread, 1.0)
        point: list[float] = ((lower + upper) / 2 + shift * (upper - lower)).tolist()
        return point
