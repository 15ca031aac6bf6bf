"""Trials that the tree did not ask for: enqueued, added, fixed in part, of another sampler."""

from __future__ import annotations

import math
from typing import Any

from helpers import assert_all_different
from helpers import assert_same_tree
from helpers import new_trial
from helpers import params
from helpers import propose
from helpers import run_study
from helpers import sphere
from helpers import SQUARE
from helpers import tree_of
from helpers import UNIT
import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.samplers import PartialFixedSampler
from optuna.samplers import TPESampler
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._study.attributes import PROPOSAL_KEY


def test_an_enqueued_trial_keeps_all_its_parameters() -> None:
    study = run_study(sphere, 10)
    study.enqueue_trial({"x": 0.123, "y": 0.456})
    study.optimize(sphere, n_trials=2)
    assert study.trials[10].params == {"x": 0.123, "y": 0.456}
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_asked == 12


def test_an_enqueued_trial_that_fixes_some_leaves_the_rest_to_the_tree() -> None:
    study = run_study(sphere, 30)
    for _ in range(15):
        study.enqueue_trial({"x": 0.9})
    study.optimize(sphere, n_trials=15)
    late = study.trials[30:]
    assert {t.params["x"] for t in late} == {0.9}
    free = [t.params["y"] for t in late]
    assert len(set(free)) == 15
    assert_same_tree(study, PCTSSampler(seed=0), PCTSSampler(seed=0))


def test_an_enqueued_trial_may_lie_outside() -> None:
    study = run_study(sphere, 5)
    study.enqueue_trial({"x": 5.0})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(sphere, n_trials=1)
    study.optimize(sphere, n_trials=3)
    assert study.trials[5].params["x"] == 5.0
    assert len(study.trials) == 9


def test_the_first_trials_may_be_enqueued() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for i in range(5):
        study.enqueue_trial({"x": i / 5, "y": i / 5})
    study.optimize(sphere, n_trials=10)
    assert params(study)[:5] == [{"x": i / 5, "y": i / 5} for i in range(5)]
    assert_all_different(params(study))


def test_added_trials_are_learned_from() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for i in range(9):
        for j in range(9):
            point = {"x": (i + 0.5) / 9, "y": (j + 0.5) / 9}
            value = (point["x"] - 0.5) ** 2 + (point["y"] - 0.5) ** 2
            study.add_trial(optuna.create_trial(params=point, distributions=SQUARE, value=value))
    asked = [study.ask(SQUARE).params for _ in range(3)]
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_told == 81
    for point in asked:
        assert math.dist((point["x"], point["y"]), (0.5, 0.5)) < 0.4


def test_trials_of_another_sampler_count() -> None:
    study = optuna.create_study(sampler=TPESampler(seed=0))
    study.optimize(sphere, n_trials=30)
    study.sampler = PCTSSampler(seed=0)
    study.optimize(sphere, n_trials=30)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (60, 59)
    assert_all_different(params(study))


def test_a_part_of_the_space_can_be_fixed() -> None:
    study = optuna.create_study(sampler=PartialFixedSampler({"x": 0.25}, PCTSSampler(seed=0)))
    study.optimize(sphere, n_trials=30)
    assert {t.params["x"] for t in study.trials} == {0.25}
    assert len({t.params["y"] for t in study.trials}) == 30
    assert min(abs(t.params["y"] - 0.7) for t in study.trials) < 0.02


def test_a_part_of_the_space_can_be_fixed_midway() -> None:
    sampler = PCTSSampler(seed=0)
    study = run_study(sphere, 20, sampler)
    study.sampler = PartialFixedSampler({"x": 0.25}, sampler)
    study.optimize(sphere, n_trials=20)
    assert {t.params["x"] for t in study.trials[20:]} == {0.25}
    study.sampler = sampler
    study.optimize(sphere, n_trials=1)
    assert tree_of(sampler).n_asked == 41


@pytest.mark.parametrize("attribute", ["?", {"depth": -1}, {"depth": 10**20}, [1]])
def test_a_malformed_attribute_does_not_stop_the_study(attribute: Any) -> None:
    study = run_study(sphere, 10)
    study.add_trial(
        optuna.create_trial(
            params={"x": 0.5, "y": 0.5},
            distributions=SQUARE,
            value=1.0,
            system_attrs={PROPOSAL_KEY: attribute},
        )
    )
    study.optimize(sphere, n_trials=5)
    assert len(study.trials) == 16
    assert isinstance(study.sampler, PCTSSampler)
    assert 10 in tree_of(study.sampler)


def test_a_foreign_parameter_does_not_stop_the_search() -> None:
    study = run_study(sphere, 30)
    point = {"x": 0.9, "y": 0.9, "foreign": 0.5}
    study.add_trial(
        optuna.create_trial(params=point, distributions=dict.fromkeys(point, UNIT), value=1.0)
    )
    study.optimize(sphere, n_trials=50)
    gaps = [trial.value or 0.0 for trial in study.trials[-20:]]
    assert np.median(gaps) < 1e-2


def test_a_trial_of_another_kind_under_the_same_name_is_ignored() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=SQUARE))
    study.add_trial(
        optuna.create_trial(
            params={"x": "left", "y": 0.5},
            distributions={"x": CategoricalDistribution(["left", "right"]), "y": UNIT},
            value=1.0,
        )
    )
    assert 0 <= propose(PCTSSampler(search_space=SQUARE), study, new_trial(study))["x"] <= 1
