"""Where the engine asks: the paper's algorithm, the first points, tiny spaces, hard landscapes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from helpers import cells
from helpers import params
from helpers import run_study
from helpers import SQUARE
from helpers import tree_of
from helpers import UNIT
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest

from optuna_pcts import PCTSSampler


# ---------------------------------------------------------------------- points of the tree


def test_the_papers_algorithm_is_a_setting() -> None:
    """With no prior and no local ask, every point is the centre of a cell, if so desired."""
    space = {"x": FloatDistribution(0, 1)}
    sampler = PCTSSampler(
        local_share=0, prior_std=None, point="center", search_space=space, seed=0
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=40)
    for trial in study.trials:
        depth = trial.user_attrs["pcts:depth"]
        position = trial.params["x"] * 2 ** (depth + 1)  # odd multiples of half a cell
        assert position == pytest.approx(round(position), abs=1e-6)
        assert round(position) % 2 == 1


def test_a_given_space_starts_in_its_middle() -> None:
    space: dict[str, BaseDistribution] = {"x": UNIT, "y": FloatDistribution(1e-4, 1.0, log=True)}
    study = optuna.create_study(sampler=PCTSSampler(search_space=space))
    first = study.ask(space).params
    assert 0.25 <= first["x"] <= 0.75
    assert 1e-3 <= first["y"] <= 1e-1
    study = optuna.create_study(sampler=PCTSSampler(search_space=space, point="center"))
    assert study.ask(space).params == pytest.approx({"x": 0.5, "y": 1e-2})


def test_early_trials_tell_about_every_parameter() -> None:
    space: dict[str, BaseDistribution] = {f"x{i}": UNIT for i in range(20)}
    space |= {f"c{i}": CategoricalDistribution(["a", "b", "c"]) for i in range(5)}

    study = optuna.create_study(sampler=PCTSSampler(search_space=space, seed=0))
    for _ in range(12):
        trial = study.ask(space)
        study.tell(trial, sum(trial.params[f"x{i}"] for i in range(20)))
    values = {name: [t.params[name] for t in study.trials] for name in space}
    # Few sides of a cell have been cut, and the others are as long as those of the cube.
    for i in range(20):
        assert len(set(values[f"x{i}"])) == 12
        assert sum(0.25 <= x <= 0.75 for x in values[f"x{i}"]) > 5
    assert all(len(set(values[f"c{i}"])) > 1 for i in range(5))


def test_many_points_before_any_feedback_are_random_and_then_centres() -> None:
    options: dict[str, Any] = {"search_space": SQUARE, "local_share": 0.0, "seed": 0}
    study = optuna.create_study(sampler=PCTSSampler(point="center", **options))
    trials = [study.ask(SQUARE) for _ in range(48)]
    first, later = (
        [value for trial in part for value in trial.params.values()]
        for part in (trials[:16], trials[16:])
    )
    assert all(value * 64 % 1 == 0 for value in first)
    assert sum(value * 64 % 1 == 0 for value in later) == 0
    for trial in trials:
        study.tell(trial, sum(trial.params.values()))
    centre = study.ask(SQUARE)
    assert all(value * 64 % 1 == 0 for value in centre.params.values())
    ordered = optuna.create_study(sampler=PCTSSampler(split_order=["x", "y"], **options))
    for _ in range(48):
        assert all(value * 64 % 1 == 0 for value in ordered.ask(SQUARE).params.values())


def test_split_order_is_followed() -> None:
    space: dict[str, BaseDistribution] = {"fast": UNIT, "slow": IntDistribution(0, 3)}
    sampler = PCTSSampler(seed=0, search_space=space, split_order=["slow"])
    study = optuna.create_study(sampler=sampler)
    for _ in range(30):
        trial = study.ask(space)
        study.tell(trial, trial.params["slow"] + trial.params["fast"])
    for lower, upper in cells(tree_of(sampler)):
        if upper[0] - lower[0] < 1:  # once `fast` is cut, `slow` has one value
            assert upper[1] - lower[1] == 0.25


def test_what_waits_for_its_turn_in_the_split_order_is_varied_meanwhile() -> None:
    space: dict[str, BaseDistribution] = {"fast": UNIT, "slow": FloatDistribution(0, 16)}
    options: dict[str, Any] = {"search_space": space, "local_share": 0.0, "seed": 0}
    sampler = PCTSSampler(split_order=["slow"], **options)
    study = optuna.create_study(sampler=sampler)
    for _ in range(8):
        trial = study.ask(space)
        study.tell(trial, trial.params["slow"])
    values = [trial.params["fast"] for trial in study.trials]
    assert len(set(values)) == 8
    assert max(values) - min(values) > 0.5
    assert study.trials[0].params["slow"] == 8.0  # the centre
    without = PCTSSampler(point="center", **options)
    assert optuna.create_study(sampler=without).ask(space).params["fast"] == 0.5


# ---------------------------------------------------------------------- tiny discrete spaces


TINY: dict[str, BaseDistribution] = {
    "flag": CategoricalDistribution([False, True]),
    "n": IntDistribution(0, 1),
}


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_tiny_space_is_replicated(noise: float) -> None:
    """The best most of all; without noise, only when all the others have been tried."""
    rng = np.random.default_rng(0)

    def objective(trial: optuna.Trial) -> float:
        value = trial.suggest_int("n", 0, 1) + trial.suggest_categorical("flag", [False, True])
        return value + noise * rng.standard_normal()

    study = run_study(objective, 100)
    seen = Counter((p["n"], p["flag"]) for p in params(study))
    assert len(seen) == 4
    assert seen.most_common(1)[0][0] == (0, False)
    if not noise:
        assert len({(p["n"], p["flag"]) for p in params(study)[:8]}) == 4


def test_a_tiny_space_in_flight_is_not_piled_up() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=TINY))
    asked = [tuple(sorted(study.ask(TINY).params.items())) for _ in range(12)]
    assert len(set(asked[:4])) == 4
    assert set(Counter(asked).values()) == {3}


def test_a_tiny_space_with_all_but_one_in_flight() -> None:
    """The one configuration that nobody is evaluating is asked next, good or bad."""
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=TINY))
    asked = [study.ask(TINY) for _ in range(4)]
    study.tell(asked[2], 1.0)
    assert study.ask(TINY).params == asked[2].params


def test_a_discrete_space_is_searched_without_needless_repetition() -> None:
    space = {
        "n": IntDistribution(0, 19),
        "kind": CategoricalDistribution(["a", "b", "c", "d", "e"]),
    }
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=space))
    study.optimize(
        lambda t: (
            abs(t.suggest_int("n", 0, 19) - 13)
            + ["a", "b", "c", "d", "e"].index(t.suggest_categorical("kind", list("abcde")))
        ),
        n_trials=80,
    )
    different = {(t.params["n"], t.params["kind"]) for t in study.trials}
    assert study.best_value == 0
    assert len(different) > 40


# ---------------------------------------------------------------------- traps


def test_coins_are_told_apart() -> None:
    """Twenty arms that give 0 or 1: the good ones are asked most."""
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(4):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed), direction="maximize")
        study.optimize(
            lambda t: float(rng.random() < 0.1 + 0.04 * t.suggest_int("arm", 0, 19)), n_trials=300
        )
        shares.append(np.mean([0.1 + 0.04 * t.params["arm"] for t in study.trials[-50:]]))
    assert np.mean(shares) > 0.6  # at random 0.48


def test_a_plateau_is_left() -> None:
    """Steps of one for every coordinate that is right: nothing tells the way."""

    def objective(trial: optuna.Trial) -> float:
        return -sum(0.8 < trial.suggest_float(f"x{i}", 0, 1) < 0.95 for i in range(4))

    best = []
    for seed in range(5):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed))
        study.optimize(objective, n_trials=200)
        best.append(study.best_value)
    assert np.mean(best) <= -2.6


@pytest.mark.parametrize("branching", [2, 3])
def test_a_parameter_that_is_fixed_on_a_cut_leaves_the_others_free(branching: int) -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(-1, 1), "y": UNIT}
    sampler = PCTSSampler(seed=0, search_space=space, branching=branching)
    study = optuna.create_study(sampler=sampler)
    for _ in range(10):
        study.enqueue_trial({"x": 0.0})
    study.optimize(
        lambda t: t.suggest_float("x", -1, 1) ** 2 + t.suggest_float("y", 0, 1), n_trials=10
    )
    assert {p["x"] for p in params(study)} == {0.0}
    assert len({p["y"] for p in params(study)}) == 10
