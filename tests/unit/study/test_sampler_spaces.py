"""The spaces that a sampler meets: given, conditional, growing, changing, with odd choices."""

from __future__ import annotations

from collections import Counter
import json
from pathlib import Path
from typing import Any
import warnings

from helpers import mixed
from helpers import new_trial
from helpers import params
from helpers import run_study
from helpers import sphere
from helpers import SQUARE
from helpers import tree_of
from helpers import UNIT
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import report


# ---------------------------------------------------------------------- conditional and growing


def conditional(trial: optuna.Trial) -> float:
    kind = trial.suggest_categorical("kind", ["a", "b"])
    x = trial.suggest_float("x", 0, 1)
    if kind == "a":
        return x + trial.suggest_float("only_a", 0, 1)
    return x + trial.suggest_float("only_b", 0, 1)


def test_a_conditional_parameter_is_searched_without_a_warning(
    optuna_log: pytest.LogCaptureFixture,
) -> None:
    study = run_study(conditional, 100)
    assert {t.state for t in study.trials} == {TrialState.COMPLETE}
    assert optuna_log.text == ""
    last = [t.params.get("only_a", t.params.get("only_b", 1.0)) for t in study.trials[60:]]
    assert np.median(last) < 0.1  # a sixth of them is asked anywhere


def ends_early(trial: optuna.Trial) -> float:
    """A penalty after the first parameter, for a few of its values."""
    x = trial.suggest_float("x", 0, 1)
    if abs(x - 0.5) < 0.1:
        return 1.0
    return (x - 0.3) ** 2 + sum((trial.suggest_float(f"y{i}", 0, 1) - 0.6) ** 2 for i in range(3))


@pytest.mark.parametrize("seed", range(2))
def test_trials_that_return_early_do_not_stop_the_search(seed: int) -> None:
    study = run_study(ends_early, 150, PCTSSampler(seed=seed))
    assert any(len(trial.params) == 1 for trial in study.trials)
    assert study.best_value < 1e-3


def test_a_parameter_that_comes_later_is_searched() -> None:
    study = run_study(sphere, 40)
    study.optimize(lambda t: sphere(t) + (t.suggest_float("z", 0, 1) - 0.2) ** 2, n_trials=60)
    assert np.median([abs(t.params["z"] - 0.2) for t in study.trials[-20:]]) < 0.05


# ---------------------------------------------------------------------- given spaces


def test_a_given_space_may_have_single_values() -> None:
    space: dict[str, BaseDistribution] = {"x": UNIT, "n": IntDistribution(3, 3)}
    study = optuna.create_study(sampler=PCTSSampler(search_space=space, point="center"))
    assert study.ask(space).params == {"x": 0.5, "n": 3}


def test_a_given_space_of_single_values_only() -> None:
    space: dict[str, BaseDistribution] = {"n": IntDistribution(3, 3)}
    study = run_study(lambda t: t.suggest_int("n", 3, 3), 5, PCTSSampler(search_space=space))
    assert params(study) == [{"n": 3}] * 5


def test_an_objective_without_parameters() -> None:
    assert len(run_study(lambda _: 1.0, 5).trials) == 5


def test_native_types_come_back() -> None:
    study = run_study(mixed, 20)
    for found in params(study):
        assert {name: type(value) for name, value in found.items()} == {
            "x": float,
            "n": int,
            "kind": str,
        }


def test_unknown_names_in_split_order_are_warned_of(optuna_log: pytest.LogCaptureFixture) -> None:
    run_study(sphere, 5, PCTSSampler(seed=0, split_order=["y", "nobody"]))
    assert "split_order" in optuna_log.text
    assert "nobody" in optuna_log.text


def test_multi_objective_studies_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=PCTSSampler())
    with pytest.raises(ValueError, match="multi-objective"):
        study.ask(SQUARE)


def test_a_range_beyond_the_given_space_is_an_error() -> None:
    sampler = PCTSSampler(search_space={"x": UNIT})
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(ValueError, match="`search_space`") as caught:
        study.optimize(lambda trial: trial.suggest_float("x", 5, 9), n_trials=1)
    assert "`x`" in str(caught.value)


def test_a_range_other_than_that_of_the_given_space_is_warned_of() -> None:
    sampler = PCTSSampler(search_space={"x": UNIT})
    study = optuna.create_study(sampler=sampler)
    with pytest.warns(UserWarning, match="`search_space`"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 9), n_trials=1)
    assert study.trials[0].state == TrialState.COMPLETE


# ---------------------------------------------------------------------- ranges that change


def test_old_trials_are_located_in_the_tree_of_a_new_range() -> None:
    study = run_study(sphere, 20)

    def wider(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", -1, 2) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(wider, n_trials=10)
    assert isinstance(study.sampler, PCTSSampler)
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (30, 29)
    assert any(not 0 <= t.params["x"] <= 1 for t in study.trials)

    def narrower(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0.4, 0.6) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(narrower, n_trials=10)
    inside = [t for t in study.trials if 0.4 <= t.params["x"] <= 0.6]
    tree = tree_of(study.sampler)
    assert (tree.n_asked, tree.n_told) == (len(inside), len(inside) - 1)


def test_a_range_that_comes_back_is_searched_again() -> None:
    def objective(trial: optuna.Trial) -> float:
        return (trial.suggest_float("x", 0, 2) - 0.3) ** 2 + trial.suggest_float("y", 0, 1)

    sampler = PCTSSampler(seed=0, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=20)
    study.add_trial(
        optuna.create_trial(value=1.0, params={"x": 0.2, "y": 0.1}, distributions=SQUARE)
    )
    study.optimize(objective, n_trials=15)
    trial = study._storage.get_trial(new_trial(study))
    space = sampler.infer_relative_search_space(study, trial)
    assert space == {"x": FloatDistribution(0, 2), "y": UNIT}


# ---------------------------------------------------------------------- odd choices


def test_equal_choices_are_not_asked_for_ever() -> None:
    """Optuna stores 1.0 as the choice 1: the tree must not wait for feedback from 1.0."""

    def objective(trial: optuna.Trial) -> float:
        share = trial.suggest_categorical("share", [1, 1.0, 2])
        return share + (trial.suggest_float("x", 0, 1) - 0.3) ** 2

    study = run_study(objective, 60)
    assert max(Counter(p["x"] for p in params(study)).values()) <= 3  # once for each choice
    assert study.best_value < 1.01


def test_choices_that_a_storage_turns_into_lists(tmp_path: Path) -> None:
    choices: Any = [(1, 2), (3, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's own, of choices that are no plain values
        space = {"pair": CategoricalDistribution(choices), "x": UNIT}
        sampler = PCTSSampler(seed=1, search_space=space)
        study = optuna.create_study(sampler=sampler, storage=f"sqlite:///{tmp_path / 'study.db'}")
        study.optimize(
            lambda t: t.suggest_categorical("pair", choices)[0] * t.suggest_float("x", 0, 1),
            n_trials=12,
        )
        found = params(study)
    assert tree_of(sampler).n_told == 11
    assert len({p["x"] for p in found}) > 6


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize(
    "choices",
    [
        [{1, 2}, {3}, {4}],
        [{"a": {1}}, {"a": {2}}, [{1}]],
        [bytearray(b"a"), {1}, frozenset([2]), 3],
        [np.array([1]), np.array([2]), None],
        ["NaN", float("nan"), 1],
    ],
)
def test_choices_without_a_hash_are_told_apart(choices: Any) -> None:
    """As of Optuna's RandomSampler, in memory."""
    picked: list[int] = []

    def objective(trial: optuna.Trial) -> float:
        choice = trial.suggest_categorical("c", choices)
        picked.append(next(i for i, c in enumerate(choices) if c is choice))
        return (picked[-1] != 1) + trial.suggest_float("x", 0, 1)

    sampler = PCTSSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=40)
    assert tree_of(sampler).n_told == 39
    counts = Counter(picked)
    assert counts.most_common(1)[0][0] == 1
    assert len(counts) >= 3
    assert picked[recommend(study).number] == 1
    json.dumps(report(study).to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_choices_that_cannot_be_told_apart_are_refused() -> None:
    """Optuna's RandomSampler fails too, with a message that names neither."""
    choices: Any = [np.array([1, 2]), np.array([3, 4])]
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    with pytest.raises(ValueError, match="choices of parameter `c` cannot be told apart by `==`"):
        study.optimize(lambda trial: trial.suggest_categorical("c", choices)[0], n_trials=3)
