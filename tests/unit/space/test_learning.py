"""Conditions learned from which trials have which parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest

from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.learning import learn_conditions


Row = dict[str, Any]
UNIT = FloatDistribution(0, 1)


def learned(
    rows: list[Row], space: dict[str, BaseDistribution]
) -> dict[str, dict[str, list[Any]]]:
    """Return conditions as values of parents."""
    found: dict[str, dict[str, list[Any]]] = {}
    for name, condition in learn_conditions(rows, space).items():
        found[name] = {}
        for parent, slots in condition:
            axis = axis_of(parent, space[parent])
            assert isinstance(axis, DiscreteAxis)
            found[name][parent] = [axis.value(slot) for slot in sorted(slots)]
    return found


def rows_of(walk: Any, n: int, seed: int = 0) -> tuple[list[Row], dict[str, BaseDistribution]]:
    """Return the parameters of random trials, and all that there are."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    study.optimize(walk, n_trials=n)
    space: dict[str, BaseDistribution] = {}
    for trial in study.trials:
        space |= trial.distributions
    return [trial.params for trial in study.trials], space


def learners(trial: optuna.Trial) -> float:
    model = trial.suggest_categorical("model", ["svm", "rf", "net", "knn"])
    trial.suggest_categorical("scaler", ["a", "b", "c"])
    if model == "svm":
        trial.suggest_float("C", 0, 1)
        if trial.suggest_categorical("kernel", ["linear", "rbf", "poly"]) != "linear":
            trial.suggest_float("gamma", 0, 1)
    elif model == "net":
        for i in range(trial.suggest_int("n_layers", 1, 4)):
            trial.suggest_int(f"units_{i}", 4, 64)
    return 0.0


@pytest.mark.parametrize("seed", range(3))
def test_nested_branches_and_loops(seed: int) -> None:
    found = learned(*rows_of(learners, 150, seed))
    assert found["C"] == found["kernel"] == {"model": ["svm"]}
    assert found["gamma"] == {"kernel": ["rbf", "poly"]}
    assert found["n_layers"] == found["units_0"] == {"model": ["net"]}
    for i in range(1, 4):
        assert found[f"units_{i}"] == {"n_layers": list(range(i + 1, 5))}
    assert found.keys() == {"C", "kernel", "gamma", "n_layers", *(f"units_{i}" for i in range(4))}


def test_a_number_that_was_never_seen_goes_with_the_next_larger_one() -> None:
    space: dict[str, BaseDistribution] = {"n": IntDistribution(1, 9), "x": UNIT}
    rows: list[Row] = [{"n": n, "x": 0.5} if n >= 5 else {"n": n} for n in (1, 2, 5, 7) * 5]
    assert learned(rows, space)["x"] == {"n": [3, 4, 5, 6, 7, 8, 9]}


def test_a_category_that_was_never_seen_has_nothing_of_others() -> None:
    space: dict[str, BaseDistribution] = {"k": CategoricalDistribution("abcd"), "x": UNIT}
    rows: list[Row] = [{"k": k, "x": 0.5} if k == "a" else {"k": k} for k in "abc" * 5]
    assert learned(rows, space)["x"] == {"k": ["a"]}


def test_conjunctions() -> None:
    def walk(trial: optuna.Trial) -> float:
        deep = trial.suggest_int("n", 1, 4) >= 3
        if trial.suggest_categorical("dropout", [True, False]) and deep:
            trial.suggest_float("rate", 0, 1)
        return trial.suggest_float("x", 0, 1)

    assert learned(*rows_of(walk, 100))["rate"] == {"dropout": [True], "n": [3, 4]}


@pytest.mark.parametrize("seed", range(5))
def test_what_no_discrete_parameter_explains_is_optional(seed: int) -> None:
    def walk(trial: optuna.Trial) -> float:
        for i in range(6):
            trial.suggest_categorical(f"c{i}", ["a", "b", "c"])
        if trial.suggest_float("x", 0, 1) > 0.4:
            trial.suggest_float("y", 0, 1)
        return 0.0

    assert learned(*rows_of(walk, 100, seed)) == {}


def test_trials_that_return_early_hide_no_condition() -> None:
    def walk(trial: optuna.Trial) -> float:
        model = trial.suggest_categorical("model", ["svm", "rf", "net"])
        if trial.suggest_float("x", 0, 1) < 0.1:
            return 1.0
        return trial.suggest_float("C" if model == "svm" else "depth", 0, 1)

    found = learned(*rows_of(walk, 200))
    assert found == {"C": {"model": ["svm"]}, "depth": {"model": ["rf", "net"]}}


def test_one_odd_trial_hides_no_condition() -> None:
    rows, space = rows_of(learners, 150)
    odd: list[Row] = [{"C": 0.5, "model": "rf"}, {"gamma": 0.5}, {}]
    assert learned([*rows, *odd], space) == learned(rows, space)


def test_what_all_trials_have_depends_on_nothing() -> None:
    rows: list[Row] = [{"k": "ab"[i % 2], "x": i / 9} for i in range(9)]
    assert learned(rows, {"k": CategoricalDistribution("ab"), "x": UNIT}) == {}
    assert learned([], {"x": UNIT}) == {}


def test_two_hundred_parameters_are_explained_by_the_right_ones() -> None:
    rng = np.random.default_rng(0)
    space: dict[str, BaseDistribution] = {
        f"k{i}": CategoricalDistribution("abcde") for i in range(20)
    }
    rows = []
    for _ in range(300):
        row: Row = {f"k{i}": "abcde"[rng.integers(5)] for i in range(20)}
        row |= {f"x{i}{row[f'k{i}']}{j}": 0.5 for i in range(12) for j in range(3)}
        rows.append(row)
        space |= {name: UNIT for name in row if name[0] == "x"}
    assert len(space) == 200
    expected = {n: {f"k{n[1:-2]}": [n[-2]]} for n in space if n[0] == "x"}
    assert learned(rows, space) == expected
