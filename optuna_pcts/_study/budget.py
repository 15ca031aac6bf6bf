"""A budget for a study: an Optuna callback that stops it when what the trials cost is spent."""

from __future__ import annotations

from collections.abc import Callable
import math
import threading
from typing import Any

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._checks import check_number
from optuna_pcts._study.costs import declared_cost
from optuna_pcts._study.costs import known_cost
from optuna_pcts._study.costs import level_of_trial
from optuna_pcts._study.costs import warn_of_malformed_cost
from optuna_pcts._study.stamps import clock
from optuna_pcts._study.stamps import duration
from optuna_pcts._study.stamps import find_trial
from optuna_pcts._study.stamps import stale_limit
from optuna_pcts._study.unwrap import sampler_of
from optuna_pcts._tree.cost_models import CostModel
from optuna_pcts._tree.fidelity import LAST_SHARE


_logger = optuna.logging.get_logger(f"optuna.{__name__}")

CostOf = Callable[[FrozenTrial], "float | None"]


class CostBudget:
    """Stops a study when its budget is spent: an Optuna callback.

    Everything is read from the storage, so that all workers on it count alike, and a worker that
    joins later counts what was spent before. Optuna's ``study.stop()`` ends the loop of its own
    process only: give the callback to every worker. It is called when a trial ends, so each
    worker overruns the budget by at most one trial, and trials in flight are never interrupted.

    What counts: every finished trial, also failed, pruned and added ones; and every trial in
    flight, with its known cost so far (see ``cost``). Otherwise eight workers would each start
    one more trial on the last second of a budget.

    When a tenth of the budget is left, :class:`PCTSSampler` is told to evaluate what remains at
    full fidelity, around the best trials.

    Example:

        .. code-block:: python

            study.optimize(objective, callbacks=[CostBudget(budget=3600)])  # an hour of work

    Args:
        budget:
            What all trials together may cost (Lambda). In seconds, unless the objective or
            ``cost`` uses another unit.
        cost:
            By default, finished trials cost what :func:`trial_cost` says (nothing if that is not
            known), and trials in flight what the objective has set in ``pcts:cost``, or else the
            time from their start to the newest time stamp in the storage.

            A function of a trial that returns its cost. It is called once for each finished
            trial, and also for those in flight, which count with all of what it returns;
            :obj:`None` means that nothing is known yet, and counts as nothing.

            Or a :class:`CostModel`: each trial, finished or in flight, costs what the model says
            of its depth. Trials without a depth (other samplers', added ones) count as at the
            root of the tree.
        stale_after:
            Seconds after which a trial that still runs counts as lost and costs nothing more. By
            default ten times the longest finished trial, at least a minute.
    """

    def __init__(
        self,
        *,
        budget: float,
        cost: CostOf | CostModel | None = None,
        stale_after: float | None = None,
    ) -> None:
        check_number("budget", budget, low=0.0)
        if isinstance(cost, type) or not (
            cost is None or callable(cost) or callable(getattr(cost, "cost", None))
        ):
            raise TypeError(
                "`cost` must be a function of a trial, or a cost model such as "
                f"LinearGrowth(beta=1.0), or None, but got {cost!r}."
            )
        if stale_after is not None:
            check_number("stale_after", stale_after, low=0.0)
        self.budget = float(budget)
        self._cost = cost
        self._stale_after = stale_after
        self._has_warned = False
        self._ledger: _Ledger | None = None
        self._lock = threading.Lock()  # the threads of `n_jobs` share this object

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Stop the study if the budget is spent; start its last phase shortly before."""
        spent = self.spent(study)
        finish = getattr(sampler_of(study), "finish", None)  # that of PCTSSampler
        if finish is not None:
            finish(spent >= (1 - LAST_SHARE) * self.budget)
        if spent >= self.budget:
            _logger.info(f"The budget of {self.budget:g} is spent ({spent:g}): stopping.")
            study.stop()

    def spent(self, study: optuna.Study) -> float:
        """Return what all trials in the storage cost, with those in flight."""
        if not isinstance(study, optuna.Study):
            raise TypeError(f"`study` must be an optuna.Study, but got {study!r}.")
        trials = study.get_trials(deepcopy=False)
        with self._lock:
            ledger = self._ledger
            if ledger is None or not ledger.belongs_to(study) or len(trials) < ledger.n_trials:
                ledger = self._ledger = _Ledger(study)
            running = ledger.update(trials, self._finished_cost)
            return ledger.total + sum(
                self._running_cost(trial, ledger.newest)
                for trial in running
                if not self._is_stale(trial, ledger)
            )

    def remaining(self, study: optuna.Study) -> float:
        """Return what is left of the budget, 0 if it is overrun."""
        return max(self.budget - self.spent(study), 0.0)

    def __repr__(self) -> str:
        return (
            f"CostBudget(budget={self.budget!r}, cost={self._cost!r}, "
            f"stale_after={self._stale_after!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # The ledger is a cache, and a lock cannot be copied: the copy starts with new ones.
        return {**self.__dict__, "_ledger": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def _finished_cost(self, trial: FrozenTrial) -> float:
        if self._cost is None:
            # One warning for all malformed costs.
            self._has_warned = self._has_warned or warn_of_malformed_cost(trial)
            return known_cost(trial) or 0.0
        return self._expected_cost(trial)

    def _running_cost(self, trial: FrozenTrial, newest: float | None) -> float:
        if self._cost is not None:
            return self._expected_cost(trial)
        declared = declared_cost(trial)
        if declared is not None:
            return declared
        return _age(trial, newest)

    def _expected_cost(self, trial: FrozenTrial) -> float:
        by_depth = getattr(self._cost, "cost", None)
        if callable(by_depth):
            cost = by_depth(level_of_trial(trial) or 1)
        else:
            assert callable(self._cost)
            cost = self._cost(trial)
        if cost is None:
            return 0.0
        check_number(f"cost of trial {trial.number}", cost, low=0.0, open_low=False)
        return float(cost)

    def _is_stale(self, trial: FrozenTrial, ledger: _Ledger) -> bool:
        return _age(trial, ledger.newest) > stale_limit(self._stale_after, ledger.longest)


def _age(trial: FrozenTrial, newest: float | None) -> float:
    # Against the newest stamp in the storage and not this machine's clock, so that all workers
    # count alike. In a callback that is the end of a trial a moment ago.
    if newest is None or trial.datetime_start is None:
        return 0.0
    return max(newest - clock(trial.datetime_start), 0.0)


class _Ledger:
    """What the finished trials of one study cost; each is read once.

    Only a cache: trials that other workers add or finish are found at the next call, and a new
    ledger has the same sum.
    """

    def __init__(self, study: optuna.Study) -> None:
        self._storage = study._storage
        self._study_id = study._study_id
        self._open: set[int] = set()
        self._n_seen = 0
        self.n_trials = 0
        self.total = 0.0
        self.longest = 0.0
        self.newest: float | None = None

    def belongs_to(self, study: optuna.Study) -> bool:
        return self._storage is study._storage and self._study_id == study._study_id

    def update(self, trials: list[FrozenTrial], cost: CostOf) -> list[FrozenTrial]:
        """Enter the trials that finished since the last call, and return those that run."""
        self.n_trials = len(trials)
        if trials:
            # Also numbers that are missing below the newest: committed late by another worker.
            self._open.update(range(self._n_seen, trials[-1].number + 1))
            self._n_seen = max(self._n_seen, trials[-1].number + 1)
        running = []
        for number in sorted(self._open):
            trial = find_trial(trials, number)
            if trial is None:
                continue
            if trial.state.is_finished():
                self.total += cost(trial) or 0.0
                self.longest = max(self.longest, duration(trial) or 0.0)
                self._open.remove(number)
            elif trial.state == TrialState.RUNNING:
                running.append(trial)
            for stamp in (trial.datetime_start, trial.datetime_complete):
                if stamp is not None:
                    self.newest = max(clock(stamp), self.newest or -math.inf)
        return running
