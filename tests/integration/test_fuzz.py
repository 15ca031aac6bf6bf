"""Random sequences of what can happen to a study, against a simple model of the tree."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from helpers import cells
from helpers import RetryCallback
from helpers import tree_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle
from hypothesis.stateful import consumes
from hypothesis.stateful import initialize
from hypothesis.stateful import invariant
from hypothesis.stateful import precondition
from hypothesis.stateful import rule
from hypothesis.stateful import RuleBasedStateMachine
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.trial import create_trial
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._space.parameters import Parameters


SPACE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "n": IntDistribution(1, 8, log=True),
    "c": CategoricalDistribution(["a", "b", "c"]),
}
VALUES = st.one_of(
    st.floats(-10, 10), st.sampled_from([0.0, 1e300, -1e300, float("inf"), float("-inf")])
)
PARAMS = st.fixed_dictionaries(
    {"x": st.floats(0, 1), "n": st.integers(1, 8), "c": st.sampled_from("abc")}
)


class Study(RuleBasedStateMachine):
    """The model: the numbers of the trials that the tree must hold, and of those told for good."""

    running = Bundle("running")

    @initialize(seed=st.integers(0, 3))
    def create(self, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=PCTSSampler(seed=seed, search_space=SPACE))
        self.in_flight: set[int] = set()
        self.told: set[int] = set()
        self.failed: list[int] = []
        self.n_waiting = 0
        self.dead: set[int] = set()

    # -------------------------------------------------------------- one trial

    @rule(target=running)
    def ask(self) -> optuna.Trial:
        trial = self.study.ask(SPACE)
        self.in_flight.add(trial.number)
        self.n_waiting = max(self.n_waiting - 1, 0)
        return trial

    @rule(trial=running, step=st.integers(0, 9), value=VALUES)
    def report(self, trial: optuna.Trial, step: int, value: float) -> None:
        reported = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        if step not in reported:  # Optuna takes the first only, and warns
            trial.report(value, step)

    @rule(trial=consumes(running), value=VALUES)
    def tell(self, trial: optuna.Trial, value: float) -> None:
        self._end(trial, value=value)

    @rule(trial=consumes(running))
    def prune(self, trial: optuna.Trial) -> None:
        self._end(trial, state=TrialState.PRUNED)

    @rule(trial=consumes(running))
    def fail(self, trial: optuna.Trial) -> None:
        self._end(trial, state=TrialState.FAIL)
        self.failed.append(trial.number)

    @rule(trial=consumes(running))
    def kill(self, trial: optuna.Trial) -> None:
        """Its worker is gone; the trial stays in flight, since nothing tells that."""
        self.dead.add(trial.number)

    def _end(self, trial: optuna.Trial, **how: Any) -> None:
        self.study.tell(trial, how.get("value"), how.get("state"))
        self.in_flight.remove(trial.number)
        self.told.add(trial.number)

    # -------------------------------------------------------------- others' trials

    @rule(params=PARAMS, is_part=st.booleans())
    def enqueue(self, params: dict[str, Any], is_part: bool) -> None:
        self.study.enqueue_trial({"x": params["x"]} if is_part else params)
        self.n_waiting += 1

    @rule(params=PARAMS, value=VALUES)
    def add(self, params: dict[str, Any], value: float) -> None:
        self.study.add_trial(create_trial(params=params, distributions=SPACE, value=value))
        self.told.add(len(self.study.trials) - 1)

    @precondition(lambda self: self.failed)
    @rule()
    def retry(self) -> None:
        """As Optuna's callback does for a trial whose heartbeat was lost."""
        number = self.failed.pop()
        RetryCallback()(self.study, self.study.get_trials()[number])
        self.told.discard(number)
        self.n_waiting += 1

    # -------------------------------------------------------------- the sampler comes and goes

    @rule(how=st.sampled_from(["fresh", "pickled", "copied"]))
    def resume(self, how: str) -> None:
        sampler = self.study.sampler
        if how == "fresh":
            self.study.sampler = PCTSSampler(seed=9, search_space=SPACE)
        elif how == "pickled":
            self.study.sampler = pickle.loads(pickle.dumps(sampler))
        else:
            self.study.sampler = copy.deepcopy(sampler)

    # -------------------------------------------------------------- what must hold

    @precondition(lambda self: len(self.study.trials) > self.n_waiting)
    @invariant()
    def the_tree_is_what_the_storage_says(self) -> None:
        asked = self._look(self.study.sampler)
        fresh = self._look(PCTSSampler(seed=0, search_space=SPACE))
        assert asked.keys() == fresh.keys() or asked.keys() > fresh.keys()

    def _look(self, sampler: Any) -> dict[Any, Any]:
        """Have a sampler read the study for a trial that does not exist, and compare its tree."""
        assert isinstance(sampler, PCTSSampler)
        ghost = _ghost(len(self.study.trials))
        with sampler._exclusive():
            sampler._engine_over(Parameters(SPACE), sampler._read(self.study, ghost), ghost)
        sampler._read_for = None
        tree = tree_of(sampler)
        trials = range(len(self.study.trials))
        assert {n for n in trials if n in tree and tree._trials.ended[n]} == self.told
        assert {n for n in trials if n in tree} == self.told | self.in_flight
        found = cells(tree)
        n_asked, n_told, _ = found[(0.0,) * 3, (1.0,) * 3]
        assert n_asked == len(self.told | self.in_flight)
        assert len(self.told) <= n_told <= n_asked
        return found


def _ghost(number: int) -> FrozenTrial:
    trial = create_trial(state=TrialState.RUNNING)
    trial.number, trial.datetime_start = number, None
    return trial


TestStudy = Study.TestCase
TestStudy.settings = settings(max_examples=20, stateful_step_count=30)


@pytest.mark.slow
class TestLongStudy(TestStudy):  # type: ignore[misc, valid-type]
    """The same, for minutes."""

    settings = settings(max_examples=500, stateful_step_count=60)
