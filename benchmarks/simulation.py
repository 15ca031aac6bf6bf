"""A discrete-event simulation: any Optuna sampler and pruner, asynchronous workers, virtual time.

Each worker evaluates one trial at a time, step by step. A step takes as long as the cost of the
fidelity it adds. The value of a trial may arrive later than its evaluation ends: meanwhile its
worker goes on with another trial, unless the method is one that waits for its feedback. Events are
processed in the order of their virtual time, and the storage stamps trials with it, so that
samplers take it for the real time.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import timedelta
import heapq
import math

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

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


@dataclass(frozen=True)
class ConstantDelay:
    """Every value arrives so many seconds after its evaluation."""

    seconds: float

    def __call__(self, rng: np.random.Generator) -> float:
        return self.seconds

    def __str__(self) -> str:
        return f"constant {self.seconds:g}" if self.seconds else "none"


@dataclass(frozen=True)
class GeometricDelay:
    """A whole number of seconds; each second the value arrives with this probability."""

    probability: float

    def __call__(self, rng: np.random.Generator) -> float:
        return float(rng.geometric(self.probability))

    def __str__(self) -> str:
        return f"geometric {self.probability:g}"


@dataclass(frozen=True)
class HeavyTailedDelay:
    """At least so many seconds, and more than x times as many with probability x^-alpha."""

    alpha: float
    least: float = 1.0

    def __call__(self, rng: np.random.Generator) -> float:
        return self.least * (1.0 + rng.pareto(self.alpha))

    def __str__(self) -> str:
        return f"heavy-tailed {self.alpha:g}"


Delay = ConstantDelay | GeometricDelay | HeavyTailedDelay
NO_DELAY = ConstantDelay(0.0)
_DELAYS: dict[str, Callable[[float], Delay]] = {
    "constant": ConstantDelay,
    "geometric": GeometricDelay,
    "heavy-tailed": HeavyTailedDelay,
}


def parse_delay(text: str) -> Delay:
    """Read a delay as it is printed: "none", "constant 4", "geometric 0.1", "heavy-tailed 1.5"."""
    if text == "none":
        return NO_DELAY
    name, _, number = text.partition(" ")
    try:
        return _DELAYS[name](float(number))
    except (KeyError, ValueError):
        known = ", ".join(_DELAYS)
        raise ValueError(f"A delay is 'none', or {known} and a number; not {text!r}.") from None


@dataclass(order=True)
class _Event:
    """A worker reaches the end of a step; or, if there is an outcome, that arrives."""

    seconds: float
    order: int  # of two at the same time, the one that was planned first
    step: int = field(compare=False)
    fidelity: float = field(compare=False)
    started: float = field(compare=False)
    trial: optuna.Trial = field(compare=False)
    state: TrialState | None = field(compare=False, default=None)
    value: float | None = field(compare=False, default=None)


class Simulation:
    """Workers on one problem.

    Args:
        problem:
            What to optimise. A trial is evaluated in ``n_steps`` steps: step k reports the noisy
            value at fidelity k / n_steps, and by then the trial has cost ``cost(k / n_steps)``;
            if the problem does not resume, it has cost that of each step before, too. With one
            step nothing is reported, and the trial is evaluated at the fidelity that ``fidelity``
            says.
        sampler, pruner:
            What to optimise it with.
        n_workers:
            Number of workers. Unless they wait, all are always busy, so that the cost spent is
            their number times the virtual time.
        n_steps:
            Number of steps of a full evaluation (the pruner's ``max_resource``).
        reports:
            The steps that are taken, up to the last; all by default.
        seed:
            Seed of noise and delays.
        delay:
            How long a value takes to arrive after its evaluation. With several steps, each report
            takes as long, and its worker waits for it.
        fidelity:
            The fidelity of a trial, 1 by default. With one step only.
        noise:
            ``"normal"`` or ``"laplace"``, with the standard deviation of the problem.
        waits:
            Whether a worker waits for its value before it asks anew: as Optuna's workers do, and
            methods that do not support delays (wait and act).
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
        reports: Sequence[int] | None = None,
        delay: Delay = NO_DELAY,
        fidelity: Callable[[optuna.Trial], float] | None = None,
        noise: str = "normal",
        waits: bool = False,
    ) -> None:
        if n_steps > 1 and fidelity is not None:
            raise ValueError("`fidelity` is for evaluations in one step.")
        if noise not in ("normal", "laplace"):
            raise ValueError(f"`noise` must be 'normal' or 'laplace', but got {noise!r}.")
        self.problem = problem
        self._delay, self._fidelity, self._noise, self._waits = delay, fidelity, noise, waits
        self._storage = VirtualStorage()
        self.study = optuna.create_study(
            storage=self._storage, sampler=sampler, pruner=pruner, direction="maximize"
        )
        self._rng = np.random.default_rng(seed)
        self._n_workers, self._n_steps = n_workers, n_steps
        self._steps = range(1, n_steps + 1) if reports is None else reports
        self._n_events = 0
        self._committed = 0.0  # cost of all trials that were asked
        self._limit = math.inf
        self._events: list[_Event] = []
        for _ in range(n_workers):
            self._ask()

    def run(self, cost: float) -> None:
        """Go on until so much cost has been spent in all."""
        while self._events[0].seconds <= cost / self._n_workers:
            self._advance(heapq.heappop(self._events))
        self._storage.seconds = cost / self._n_workers

    def spend(self, cost: float) -> None:
        """Ask for trials of so much cost in all, in one step each, and tell all their values."""
        if self._n_steps > 1:
            raise ValueError("What trials of several steps will cost is not known beforehand.")
        self._limit = cost
        while self._events:
            self._advance(heapq.heappop(self._events))

    def _ask(self) -> None:
        if self._committed > self._limit - 1e-9:
            return
        trial = self.study.ask(self.problem.space)
        self._plan(trial, self._steps[0], self._storage.seconds)

    def _plan(self, trial: optuna.Trial, step: int, started: float) -> None:
        z = step / self._n_steps if self._fidelity is None else self._fidelity(trial)
        cost = self.problem.seconds(self.problem.point(trial.params), z)
        self._committed += cost
        late = self._delay(self._rng) if self._n_steps > 1 else 0.0
        self._push(_Event(started + cost + late, 0, step, z, started + late, trial))

    def _push(self, event: _Event) -> None:
        self._n_events += 1
        event.order = self._n_events
        heapq.heappush(self._events, event)

    def _advance(self, event: _Event) -> None:
        self._storage.seconds = event.seconds
        trial, step = event.trial, event.step
        if event.state is not None:
            self.study.tell(trial, event.value, state=event.state)
            if self._waits:
                self._ask()
            return
        point = self.problem.point(trial.params)
        value = self.problem.function(point, event.fidelity)
        value += self.problem.noise(point, event.fidelity) * self._draw_noise()
        if self._n_steps > 1:
            trial.report(value, step)
        if step == self._n_steps:
            event.state, event.value = TrialState.COMPLETE, value
        elif trial.should_prune():
            event.state = TrialState.PRUNED
        else:
            following = self._steps[self._steps.index(step) + 1]
            started = event.started if self.problem.resumes else event.seconds
            self._plan(trial, following, started)
            return
        if self._n_steps == 1:
            event.seconds += self._delay(self._rng)
        if event.seconds > self._storage.seconds:
            self._push(event)
            if not self._waits:
                self._ask()
        else:
            self.study.tell(trial, event.value, state=event.state)
            self._ask()

    def _draw_noise(self) -> float:
        if self._noise == "laplace":
            return float(self._rng.laplace(scale=math.sqrt(0.5)))
        return float(self._rng.normal())
