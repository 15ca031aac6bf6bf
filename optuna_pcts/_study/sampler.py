"""PCTSSampler: Optuna's hooks over the tree."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
import os
import secrets
import threading
from typing import Any
import warnings
import zlib

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._checks import check_integer
from optuna_pcts._search.engine import Engine
from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.parameters import Parameters
from optuna_pcts._space.parameters import UNKNOWN
from optuna_pcts._study.attributes import enqueued_params
from optuna_pcts._study.attributes import record
from optuna_pcts._study.attributes import record_delay
from optuna_pcts._study.attributes import recorded_proposal
from optuna_pcts._study.history import History
from optuna_pcts._study.notices import Notices
from optuna_pcts._study.pruner import fidelity_of
from optuna_pcts._study.pruner import PCTSPruner
from optuna_pcts._study.settings import SearchSettings
from optuna_pcts._study.unwrap import fixed_params_of
from optuna_pcts._study.unwrap import pruner_of
from optuna_pcts._tree.fidelity import DepthFidelity
from optuna_pcts._tree.messages import ProposalRecord
from optuna_pcts._tree.policies import DUCBV
from optuna_pcts._tree.policies import Policy
from optuna_pcts._tree.smoothness import SmoothnessModel
from optuna_pcts._tree.smoothness import UnknownSmoothness


# A space that changes, or parts of it that somebody fixes, has a tree each; old ones are dropped.
_MAX_ENGINES = 4

# What a copy of the sampler does not take with it.
_CACHE = ("_pid", "_lock", "_history", "_engines", "_read_for", "_full_step", "_positions")
# Of so many of the newest trials the positions of all axes are kept.
_MAX_POSITIONS = 4096

# So many middles are asked before the first feedback. They are a good start, but not a good grid.
_MANY_BLIND = 16


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
            trials are evaluated at full fidelity.
        local_share:
            Share of the asks that are local (Thompson samples of a Gaussian process around the
            best trials) instead of the tree's. They count in the tree like any other trial. 0 is
            the paper's algorithm.
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
            The parameters and their distributions, if they are known up front, also as a
            ``ConfigurationSpace`` of the package ConfigSpace with its conditions. Otherwise they
            are learned from the trials, unfinished ones included, and the very first trial is
            random. An objective that suggests one of them from another range raises ValueError
            when it cannot have the proposed value, and is warned of otherwise.
        conditions:
            When the conditional parameters of ``search_space`` exist: for each of them its
            parents, and the values of each under which it does, such as
            ``{"gamma": {"kernel": ["rbf", "poly"]}}``. All of a parameter's parents must have one
            of these; parents may be conditional themselves. ``{}`` says that none is conditional.
            By default conditions are learned from the trials.
        n_startup_trials:
            Number of first trials left to ``independent_sampler``. The tree needs none.
        independent_sampler:
            Samples what the tree does not: the first trials, and parameters that no trial has had
            so far. By default uniformly at random.
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

    # Whether to store with each trial, for display, how many seconds its feedback took: the
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
        conditions: Mapping[str, Mapping[str, Collection[Any]]] | None = None,
        n_startup_trials: int = 0,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
        stale_after: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.settings = SearchSettings(
            policy=DUCBV() if policy is None else policy,
            smoothness=UnknownSmoothness() if smoothness is None else smoothness,
            point=point,
            branching=branching,
            fidelity=DepthFidelity() if fidelity is None else fidelity,
            local_share=local_share,
            prior_std=prior_std,
            reward=reward,
            split_order=() if split_order is None else split_order,
            search_space=search_space,
            conditions=conditions,
            stale_after=stale_after,
        )
        self._n_startup_trials = n_startup_trials
        self._independent_sampler = independent_sampler
        self._warn_independent_sampling = warn_independent_sampling
        self._seed = seed
        self._check_arguments()
        self._is_finishing = False
        self._notices = Notices()
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

    # ------------------------------------------------------------------ Optuna's hooks

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        self._raise_error_if_multi_objective(study)
        if trial.number < self._n_startup_trials:
            return {}
        with self._exclusive():
            parameters = self.settings.parameters(self._read(study, trial))
        return parameters.with_one_range()

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        self._raise_error_if_multi_objective(study)
        if trial.number < self._n_startup_trials and not search_space:
            return {}
        with self._exclusive():
            history = self._read(study, trial)
            parameters = self._parameters(study, search_space, history)
            if not parameters.distributions:
                return {}
            engine = self._engine_over(parameters, history, trial)
            # An enqueued trial may fix some parameters.
            fixed = {**enqueued_params(trial), **trial.params}
            has_fidelity = history.is_sized or isinstance(pruner_of(study), PCTSPruner)
            is_last = has_fidelity and (
                self._is_finishing or self.settings.fidelity.is_last(trial.number)
            )
            others = [n for n in (*history.unfinished, *history.unseen) if n != trial.number]
            is_blind = len(others) == trial.number >= _MANY_BLIND
            knows_all = all(engine.knows(n) for n in others)
            local_share = self.settings.local_share
            params, proposal = engine.ask(
                trial.number,
                fixed,
                self._rng(trial),
                spread=self.settings.spread(is_blind, knows_all),
                local_share=1.0 if is_last and local_share else local_share,
                knows_all=knows_all,
            )
        positions = dict(zip(engine.space.names, proposal.point))
        self._remember(trial, positions)
        if proposal.asked is not None:
            fidelity, resource = fidelity_of(
                trial,
                proposal,
                pruner_of(study),
                self.settings.fidelity,
                is_fixed=bool(fixed),
                is_last=is_last,
            )
            point = engine.space.existing(proposal.asked)
            record(study, trial, ProposalRecord(proposal.depth, point, fidelity, resource))
        return params

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        self._raise_error_if_multi_objective(study)
        expected = (self.settings.search_space or {}).get(param_name, param_distribution)
        if expected is not param_distribution and expected != param_distribution:
            raise ValueError(
                f"The objective suggests `{param_name}` from {param_distribution}, but "
                f"`search_space` says {expected}."
            )
        if trial.number >= self._n_startup_trials:
            position = self._position(trial, param_name)
            if position is not None:
                return axis_of(param_name, param_distribution).from_unit(position)
            if self._warn_independent_sampling and self._is_known(study, trial, param_name):
                sampler = self._independent_sampler
                self._notices.of_independence(trial, param_name, sampler)
        if self._independent_sampler is not None:
            return self._independent_sampler.sample_independent(
                study, trial, param_name, param_distribution
            )
        position = self._rng(trial, param_name).random()
        return axis_of(param_name, param_distribution).from_unit(position)

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
        for name, expected in (self.settings.search_space or {}).items():
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
        self._engines: list[Engine] = []
        self._read_for: int | None = None
        self._full_step: int | None = None
        self._positions: dict[int, dict[str, float]] = {}

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
        for name in _CACHE:
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
            history = self._history = History(study, self.settings.stale_after)
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
                    for engine in self._engines:
                        if feedback.number != trial.number:  # it is about to be asked
                            engine.fold(feedback)
            except BaseException:  # interrupted, say: half of what was read would be lost
                self._forget()
                raise
            if history.full_step != self._full_step:  # the fidelities of all trials with it
                self._full_step, self._engines = history.full_step, []
            self._engines = [engine for engine in self._engines if engine.is_valid]
            self._read_for = trial.number
        return history

    def _parameters(
        self, study: optuna.Study, search_space: dict[str, BaseDistribution], history: History
    ) -> Parameters:
        """Return what is searched, without what somebody else decides."""
        parameters = self.settings.parameters(history)
        expected = parameters.with_one_range()
        fixed = fixed_params_of(study)
        if not fixed and expected == search_space:
            return parameters
        parameters = parameters.without(
            {n: fixed.get(n, UNKNOWN) for n in {*fixed, *expected} if n not in search_space}
        )
        if parameters.with_one_range() == search_space:
            return parameters
        others = {n: d for n, d in parameters.distributions.items() if n in parameters.floating}
        return parameters.over({**others, **search_space})

    def _engine_over(self, parameters: Parameters, history: History, trial: FrozenTrial) -> Engine:
        """Return the engine of a space, built from all trials if it is new."""
        for i, engine in enumerate(self._engines):
            if engine.parameters == parameters:
                self._engines.append(self._engines.pop(i))  # the last one is dropped last
                return engine
        engine = self.settings.engine(
            parameters, history, on_failure=self._notices.of_failure, without=trial.number
        )
        self._engines = [*self._engines[1 - _MAX_ENGINES :], engine]
        return engine

    # ------------------------------------------------------------------ points

    def _remember(self, trial: FrozenTrial, positions: dict[str, float]) -> None:
        """Keep the position of every axis for parameters that turn out to exist after all."""
        self._positions[trial.number] = positions
        if len(self._positions) > _MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]

    def _position(self, trial: FrozenTrial, param_name: str) -> float | None:
        """Return where a parameter was to be, if it was proposed by position."""
        positions: Mapping[str, float] | None = self._positions.get(trial.number)
        if positions is None:  # asked by another process
            proposal = recorded_proposal(trial)
            positions = {} if proposal is None else proposal.point
        return positions.get(param_name)

    def _rng(self, trial: FrozenTrial, purpose: str = "") -> np.random.Generator:
        """Return the generator of one trial.

        One for each number: workers that share a seed, or forked from one process, must not
        draw the same numbers.
        """
        if self._seed is None:
            self._seed = secrets.randbits(64)
        return np.random.default_rng([self._seed, trial.number, zlib.crc32(purpose.encode())])

    # ------------------------------------------------------------------ errors and warnings

    def _check_arguments(self) -> None:
        check_integer("n_startup_trials", self._n_startup_trials)
        if self._seed is not None:
            check_integer("seed", self._seed)
            self._seed = int(self._seed)
        sampler = self._independent_sampler
        if sampler is not None and not isinstance(sampler, BaseSampler):
            raise TypeError(f"`independent_sampler` must be an Optuna sampler, got {sampler!r}.")
        if not isinstance(self._warn_independent_sampling, bool):
            raise TypeError(
                "`warn_independent_sampling` must be True or False, but got "
                f"{self._warn_independent_sampling!r}."
            )

    def _is_known(self, study: optuna.Study, trial: FrozenTrial, param_name: str) -> bool:
        """Whether a parameter could have been searched."""
        if self.settings.search_space is not None:
            return True
        with self._exclusive():
            space = self._read(study, trial).space
            return space.is_settled and space.knows(param_name)
