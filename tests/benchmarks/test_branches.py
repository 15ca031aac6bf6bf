"""Objectives with conditional parameters: their optimum, and which parameters a trial has."""

from __future__ import annotations

import math

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.samplers import RandomSampler
from optuna.trial import FixedTrial
import pytest


pytest.importorskip("sklearn")

from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Params
from benchmarks.branches.problem import value_at
from benchmarks.branches.ranges import from_static
from benchmarks.branches.ranges import NAME
from benchmarks.branches.ranges import to_static
from benchmarks.branches.synthetic import DESCRIPTIONS
from benchmarks.branches.synthetic import SYNTHETIC
from benchmarks.conditional import PROBLEMS


def make(name: str, seed: int = 0) -> Branched:
    return PROBLEMS[name](np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_optimum_is_0_where_it_is_said_to_be(name: str, seed: int) -> None:
    problem = make(name, seed)
    rng = np.random.default_rng(seed + 1)
    for form in {problem.name: problem, "static": problem.as_static}.values():
        assert form.ask(lambda n, _, best=form.best: best[n]) == form.best  # type: ignore[misc]
        assert form.regret(form.best) == pytest.approx(0, abs=1e-12)
        losses = [form.regret(form.draw(rng)) for _ in range(400)]
        assert min(losses) > 0
        assert np.median(losses) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_step_away_from_the_optimum_is_worse(name: str) -> None:
    problem = make(name).as_static
    parents = {parent for condition in problem.conditions.values() for parent in condition}
    steps = [
        {**problem.best, param: value_at(problem.space[param], end)}
        for param in problem.best.keys() - parents
        for end in (0.0, 1.0)
        if not isinstance(problem.space[param], CategoricalDistribution)
    ]
    assert len(steps) >= 4
    assert min(problem.regret(params) for params in steps) > 1e-4


@pytest.mark.parametrize("name", SYNTHETIC)
def test_each_seed_has_another_instance(name: str) -> None:
    assert make(name, 0).best == make(name, 0).best != make(name, 1).best
    assert DESCRIPTIONS[name].strip()


def is_there(problem: Branched, name: str, params: Params) -> bool:
    """Say whether a parameter should be there, from its parents' parents on."""
    return all(
        is_there(problem, parent, params) and params.get(parent) in values
        for parent, values in problem.conditions.get(name, {}).items()
    )


@pytest.mark.parametrize(
    ("name", "is_static"), [*((name, False) for name in PROBLEMS), (NAME, True)]
)
def test_a_trial_has_the_parameters_whose_conditions_hold(name: str, is_static: bool) -> None:
    problem = make(name).as_static if is_static else make(name)
    study = optuna.create_study(sampler=RandomSampler(seed=1))
    n_there = dict.fromkeys(problem.space, 0)
    for _ in range(200):
        trial = study.ask()
        params = problem.suggest(trial)
        assert params == trial.params
        assert set(params) == {n for n in problem.space if is_there(problem, n, params)}
        assert math.isfinite(problem.loss(params))
        if problem.has_static_space:
            assert trial.distributions == {n: problem.space[n] for n in params}
        for n in params:
            n_there[n] += 1
    assert {n for n, found in n_there.items() if found == 200} == set(problem.space) - set(
        problem.conditions
    )
    assert min(n_there.values()) > 0


@pytest.mark.parametrize("name", PROBLEMS)
def test_conditions_name_parents_that_come_first_and_values_that_they_have(name: str) -> None:
    problem = make(name).as_static
    order = list(problem.space)
    assert problem.conditions
    for child, parents in problem.conditions.items():
        for parent, values in parents.items():
            assert order.index(parent) < order.index(child)
            assert values
            distribution = problem.space[parent]
            assert all(distribution._contains(distribution.to_internal_repr(v)) for v in values)


def test_the_static_form_has_the_same_loss() -> None:
    problem = make(NAME)
    static = problem.static
    assert static is not None
    assert not problem.has_static_space
    assert static.has_static_space
    rng = np.random.default_rng(2)
    for _ in range(200):
        drawn = static.draw(rng)
        params = from_static(drawn)
        # The objective itself would have asked for these.
        assert problem.ask(lambda n, d, p=params: _checked(d, p[n])) == params  # type: ignore[misc]
        assert problem.suggest(FixedTrial(params)) == params  # type: ignore[arg-type]
        assert static.loss(drawn) == problem.loss(params)
    for _ in range(200):  # and all that it may ask for is there
        params = problem.draw(rng)
        drawn = to_static(params)
        assert static.ask(lambda n, d, p=drawn: _checked(d, p[n])) == drawn  # type: ignore[misc]
        assert static.loss(drawn) == pytest.approx(problem.loss(params), abs=1e-9)


def _checked(distribution: optuna.distributions.BaseDistribution, value: object) -> object:
    assert distribution._contains(distribution.to_internal_repr(value))
    return value


def test_the_name_of_one_parameter_means_several() -> None:
    problem = make(NAME)
    found = {
        (params["mode"], str(d))
        for params in (problem.draw(np.random.default_rng(i)) for i in range(50))
        for d in [_asked(problem, params)["rate"]]
    }
    assert len({mode for mode, _ in found}) == len({d for _, d in found}) == 3


def _asked(problem: Branched, params: Params) -> dict[str, object]:
    found: dict[str, object] = {}

    def ask(name: str, distribution: object) -> object:
        found[name] = distribution
        return params[name]

    problem.ask(ask)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_best_learner_is_not_the_best_on_average(seed: int) -> None:
    problem = make("Learners", seed)
    rng = np.random.default_rng(0)
    losses: dict[str, list[float]] = {}
    for _ in range(1000):
        params = problem.draw(rng)
        losses.setdefault(params["learner"], []).append(problem.loss(params))
    assert min(losses, key=lambda name: np.mean(losses[name])) != problem.best["learner"]


@pytest.mark.parametrize("seed", range(5))
def test_a_part_helps_if_it_is_tuned_and_hurts_otherwise(seed: int) -> None:
    problem = make("Parts", seed)
    useful = [n for n in problem.conditions if n in problem.best]
    parts = {name for n in useful for name in problem.conditions[n]}
    assert len(parts) == 4
    rng = np.random.default_rng(0)
    for part in parts:
        own = {n for n, parents in problem.conditions.items() if part in parents}
        without = {n: v for n, v in problem.best.items() if n not in own} | {part: False}
        assert problem.loss(without) > problem.noise_std
        untuned = [
            {**problem.best, **{n: value_at(problem.space[n], rng.random()) for n in own}}
            for _ in range(200)
        ]
        assert np.mean([problem.loss(params) for params in untuned]) > problem.loss(without)
