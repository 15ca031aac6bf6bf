"""A virtual clock: any Optuna sampler and pruner, asynchronous workers, and no waiting.

Each worker evaluates one trial at a time, step by step. A step takes as long as the cost of the
fidelity it adds, and the next thing that happens is whatever has the earliest virtual time. The
storage stamps trials with the virtual time, so that samplers see it as the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import timedelta
import heapq
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from benchmarks.problems import FloatArray
from benchmarks.problems import Problem


_START = datetime(2000, 1, 1)


class VirtualStorage(InMemoryStorage):
    """Optuna's in-memory storage with the time of a virtual clock."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    @property
    def now(self) -> datetime:
        return _START + timedelta(seconds=self.seconds)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        if template_trial is None:
            self._get_trial(trial_id).datetime_start = self.now
        return trial_id

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        done = super().set_trial_state_values(trial_id, state, values)
        trial = self._get_trial(trial_id)
        if state == TrialState.RUNNING:
            trial.datetime_start = self.now
        if state.is_finished():
            trial.datetime_complete = self.now
        return done


@dataclass(order=True)
class _Event:
    """A worker reaches the end of a step."""

    seconds: float
    order: int  # of two at the same time, the one that was planned first
    step: int = field(compare=False)
    started: float = field(compare=False)
    trial: optuna.Trial = field(compare=False)


class Simulation:
    """Workers on one problem.

    Args:
        problem:
            What to optimise. A trial is evaluated in ``n_steps`` steps: step k reports the noisy
            value at fidelity k / n_steps, and by then the trial has cost ``cost(k / n_steps)``.
        sampler, pruner:
            What to optimise it with.
        n_workers:
            Number of workers. All are always busy, so that the cost spent is their number times
            the virtual time.
        n_steps:
            Number of steps of a whole evaluation (the pruner's ``max_resource``).
        seed:
            Seed of the noise.
    """

    def __init__(
        self,
        problem: Problem,
        sampler: BaseSampler,
        pruner: BasePruner,
        *,
        n_workers: int,
        n_steps: int,
        seed: int,
    ) -> None:
        self.problem = problem
        self._storage = VirtualStorage()
        self.study = optuna.create_study(
            storage=self._storage, sampler=sampler, pruner=pruner, direction="maximize"
        )
        self._space: dict[str, Any] = {
            f"x{i}": FloatDistribution(low, high)
            for i, (low, high) in enumerate(zip(problem.low, problem.high))
        }
        self._rng = np.random.default_rng(seed)
        self._n_workers, self._n_steps = n_workers, n_steps
        self._n_events = 0
        self._events: list[_Event] = []
        for _ in range(n_workers):
            self._ask()

    def point(self, params: dict[str, Any]) -> FloatArray:
        """Return parameters as a point of the problem."""
        return np.array([params[name] for name in self._space])

    def run(self, cost: float) -> None:
        """Go on until so much cost has been spent in all."""
        while self._events[0].seconds <= cost / self._n_workers:
            self._advance(heapq.heappop(self._events))
        self._storage.seconds = cost / self._n_workers

    def _ask(self) -> None:
        trial = self.study.ask(self._space)
        self._plan(trial, 1, self._storage.seconds)

    def _plan(self, trial: optuna.Trial, step: int, started: float) -> None:
        self._n_events += 1
        seconds = started + self.problem.cost(step / self._n_steps)
        heapq.heappush(self._events, _Event(seconds, self._n_events, step, started, trial))

    def _advance(self, event: _Event) -> None:
        self._storage.seconds = event.seconds
        trial, step = event.trial, event.step
        value = self.problem.function(self.point(trial.params), step / self._n_steps)
        value += self.problem.noise_std * self._rng.normal()
        trial.report(value, step)
        if step == self._n_steps:
            self.study.tell(trial, value)
        elif trial.should_prune():
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            self._plan(trial, step + 1, event.started)
            return
        self._ask()
