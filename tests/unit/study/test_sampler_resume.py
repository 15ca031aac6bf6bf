"""Every sampler sees the same tree: live, fresh, copied, resumed, interrupted, forked."""

from __future__ import annotations

from collections.abc import Callable
import copy
import math
import os
from pathlib import Path
import pickle
import signal
import threading
import time
import warnings

from helpers import assert_same_tree
from helpers import mixed
from helpers import new_trial
from helpers import Objective
from helpers import params
from helpers import propose
from helpers import raises_early
from helpers import run_study
from helpers import sphere
from helpers import SQUARE
from helpers import tree_of
from helpers import UNIT
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
import pytest

from benchmarks.simulation import VirtualStorage
from optuna_pcts import PCTSSampler
from optuna_pcts._search.engine import Engine
from optuna_pcts._tree.messages import Feedback


# ---------------------------------------------------------------------- live and fresh


@pytest.mark.parametrize("objective", [sphere, mixed])
def test_two_fresh_samplers_see_the_same_tree(objective: Objective) -> None:
    study = run_study(objective, 50)
    assert_same_tree(study, PCTSSampler(seed=3), PCTSSampler(seed=3))


@pytest.mark.parametrize("objective", [sphere, mixed])
@pytest.mark.parametrize("branching", [2, 3])
def test_a_live_and_a_fresh_sampler_see_the_same_tree(
    objective: Objective, branching: int
) -> None:
    live = PCTSSampler(seed=3, branching=branching)
    study = run_study(objective, 50, live)
    assert_same_tree(study, live, PCTSSampler(seed=3, branching=branching))


@pytest.mark.parametrize("reward", ["range", (0.0, 0.5)])
def test_they_see_the_same_tree_on_every_scale(reward: str | tuple[float, float]) -> None:
    live = PCTSSampler(seed=3, reward=reward)
    study = run_study(mixed, 50, live)
    assert_same_tree(study, live, PCTSSampler(seed=3, reward=reward))


def test_a_live_and_a_fresh_sampler_agree_with_feedback_of_every_kind() -> None:
    live = PCTSSampler(seed=3, search_space=SQUARE)
    study = optuna.create_study(sampler=live)
    running = [study.ask(SQUARE) for _ in range(10)]
    for i in range(60):
        trial = running.pop((7 * i) % len(running))  # answers come in another order
        running.append(study.ask(SQUARE))
        if i % 5 == 0:
            study.tell(trial, state=TrialState.FAIL)
        elif i % 5 == 1:
            trial.report(trial.params["x"], step=0)
            study.tell(trial, state=TrialState.PRUNED)
        elif i % 5 == 2:
            study.tell(trial, math.inf)
        else:
            study.tell(trial, trial.params["x"])
    study.add_trial(
        optuna.create_trial(params={"x": 0.1, "y": 0.1}, distributions=SQUARE, value=0.1)
    )
    assert_same_tree(study, live, PCTSSampler(seed=3, search_space=SQUARE))
    tree = tree_of(live)
    assert (tree.n_asked, tree.n_told) == (10 + 61 + 1, 61)  # in flight, told, just proposed


def test_a_live_and_a_fresh_sampler_agree_on_trials_that_failed_early() -> None:
    def fragile(trial: optuna.Trial) -> float:
        if trial.number % 7 == 3:
            raise RuntimeError
        return raises_early(trial)

    live = PCTSSampler(seed=3)
    study = optuna.create_study(sampler=live)
    study.optimize(fragile, n_trials=60, catch=(RuntimeError,))
    assert_same_tree(study, live, PCTSSampler(seed=3))


@pytest.mark.parametrize("seed", range(5))
def test_a_live_and_a_fresh_sampler_agree_after_trials_that_stopped_halfway(seed: int) -> None:
    """The parameters they did not get to are in no storage, so they must not count."""
    live = PCTSSampler(seed=seed, search_space=SQUARE)
    study = optuna.create_study(sampler=live)
    halfway = [study.ask({"x": UNIT}) for _ in range(6)]
    for trial in halfway:
        study.tell(trial, state=TrialState.FAIL)
    fresh = PCTSSampler(seed=seed, search_space=SQUARE)
    for _ in range(6):
        trial_id = new_trial(study)
        expected = propose(fresh, study, trial_id)
        assert propose(live, study, trial_id) == expected
        for name, value in expected.items():
            study._storage.set_trial_param(trial_id, name, value, UNIT)


def test_a_clock_that_is_behind_causes_no_refit() -> None:
    """By their time stamps, its trials ended before those of the last refit."""
    storage = VirtualStorage()
    study = optuna.create_study(sampler=PCTSSampler(seed=0), storage=storage)
    for number in range(60):
        storage.seconds = 1000.0 + number - 60 * (number % 2)
        trial = study.ask()
        sphere(trial)
        storage.seconds += 0.5
        study.tell(trial, float(number % 7))
    propose(sampler := PCTSSampler(seed=0), study, new_trial(study))
    assert tree_of(sampler)._ended.n_revisions == 0
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler)._ended.n_revisions == 0


def test_a_live_and_a_fresh_sampler_agree_on_stale_trials() -> None:
    live = PCTSSampler(seed=3, search_space=SQUARE, stale_after=0.5)
    study = optuna.create_study(sampler=live)
    lost = [study.ask(SQUARE) for _ in range(5)]
    study.optimize(sphere, n_trials=10)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(live).n_asked == 15
    time.sleep(0.6)
    study.optimize(sphere, n_trials=10)
    assert tree_of(live).n_asked == 20
    study.tell(lost[0], 0.1)  # it was only slow
    assert_same_tree(study, live, PCTSSampler(seed=3, search_space=SQUARE, stale_after=0.5))
    assert (tree_of(live).n_asked, tree_of(live).n_told) == (22, 21)


# ---------------------------------------------------------------------- resumed and copied


def test_a_study_goes_on_the_same_after_a_pause(tmp_path: Path) -> None:
    """A fresh sampler continues as the old one would have."""
    whole = run_study(sphere, 40, PCTSSampler(seed=5))
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.journal")))
    first = run_study(sphere, 20, PCTSSampler(seed=5), storage=storage, study_name="s")
    again = optuna.load_study(study_name="s", storage=storage, sampler=PCTSSampler(seed=5))
    again.optimize(sphere, n_trials=20)
    assert len(first.trials) == 40
    for resumed, expected in zip(params(again), params(whole)):
        assert resumed == pytest.approx(expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_of_the_sampler_goes_on_the_same(
    copied: Callable[[PCTSSampler], PCTSSampler],
) -> None:
    whole = run_study(sphere, 40, PCTSSampler(seed=5))
    study = run_study(sphere, 20, PCTSSampler(seed=5))
    assert isinstance(study.sampler, PCTSSampler)
    study.sampler = copied(study.sampler)
    study.optimize(sphere, n_trials=20)
    assert params(study) == params(whole)


def test_a_study_with_its_sampler_can_be_pickled_and_go_on() -> None:
    study = run_study(sphere, 20)
    again = pickle.loads(pickle.dumps(study))
    study.optimize(sphere, n_trials=20)
    again.optimize(sphere, n_trials=20)
    assert params(again) == params(study)


def test_one_sampler_can_serve_two_studies() -> None:
    sampler = PCTSSampler(seed=0)
    studies = [optuna.create_study(sampler=sampler) for _ in range(2)]
    for _ in range(20):
        for study in studies:
            study.optimize(sphere, n_trials=1)
    expected = params(run_study(sphere, 20))
    assert params(studies[0]) == expected
    assert params(studies[1]) == expected


# ---------------------------------------------------------------------- interrupted and forked


def test_an_interruption_loses_nothing() -> None:
    sampler = PCTSSampler(seed=0, search_space=SQUARE)
    study = run_study(sphere, 10, sampler)
    with pytest.MonkeyPatch.context() as patch:

        def interrupted(self: Engine, feedback: Feedback) -> None:
            raise KeyboardInterrupt

        patch.setattr(Engine, "fold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            propose(sampler, study, new_trial(study))
    propose(sampler, study, new_trial(study))
    assert tree_of(sampler).n_told == 10


def test_a_fork_does_not_inherit_the_lock() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    sampler = PCTSSampler(seed=0, search_space=SQUARE)
    study = run_study(sphere, 5, sampler)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sampler._exclusive():
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, since 3.12
        child = os.fork()
    if child == 0:
        study.optimize(sphere, n_trials=2)
        os._exit(7)
    deadline = time.monotonic() + 30
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    done.set()
    thread.join()
    if status == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status[1]) == 7
