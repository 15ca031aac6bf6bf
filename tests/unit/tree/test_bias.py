"""The bias at low fidelity, learned from learning curves."""

from __future__ import annotations

from helpers import UNIT
import numpy as np
import pytest

from optuna_pcts import DUCBV
from optuna_pcts import LinearBias
from optuna_pcts import Smoothness
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.fidelity import BiasModel
from optuna_pcts._tree.tree import Tree


STEPS = 27  # of each curve


def test_the_bound_carries_the_mean_bias_of_its_feedback() -> None:
    """Eq. 9."""
    bounds = []
    for fidelities in ((1.0, 1.0, 1.0), (1.0, 0.5, 0.75)):
        bias = BiasModel(LinearBias(scale=2.0))
        tree = Tree(SearchSpace({"x": UNIT}), DUCBV(), Smoothness(0.5, 0.8).instances, bias=bias)
        for number, (value, z) in enumerate(zip((0.0, 1.0, 3.0), fidelities)):
            tree.place(number, [number / 3 + 0.1])
            tree.tell(number, value, z)
        tree.refresh()
        bounds.append(tree._bounds(np.array([0]))[0, 0])
    mean_bias = (0 + 2 * 0.5 + 2 * 0.25) / 3 / 2  # one reward is 2
    assert bounds[1] - bounds[0] == pytest.approx(mean_bias)


def curves(n: int, seed: int = 0, noise: float = 0.0) -> BiasModel:
    """Curves that lack (3 + b) (1 - z) of their end, with b normal: the shift is 3, the bias 1."""
    rng = np.random.default_rng(seed)
    model = BiasModel()
    z = np.arange(1, STEPS + 1) / STEPS
    for number in range(n):
        values = rng.normal() - (3 + rng.normal()) * (1 - z) + noise * rng.normal(size=STEPS)
        model.observe(number, np.array([z, values]))
    model.learn(range(n))
    model.scale(-99.0, 10.0)
    return model


def test_shift_and_bias_are_learned() -> None:
    for noise in (0.0, 0.3):
        model = curves(500, noise=noise)
        for z in (0.1, 0.3, 0.5, 0.9):
            assert model.shift(z) == pytest.approx(3 * (1 - z), abs=0.25)
            assert model.zeta(z) == pytest.approx(1 - z, abs=0.25)


def test_bias_is_monotone_and_its_inverse_too() -> None:
    for n in (0, 1, 3, 10, 100):
        model = curves(n, seed=n, noise=0.2)
        z = np.linspace(0, 1, 101)
        assert (np.diff(model.zeta(z)) <= 0).all()
        assert (np.diff([model.fidelity(d) for d in np.linspace(0, 5, 50)]) <= 0).all()
        assert model.zeta(1.0) == 0


def test_until_there_are_curves_the_prior_holds() -> None:
    model = curves(0)
    assert model.zeta(0.0) == pytest.approx(3.0)  # 0.3 of a reward, which is 10
    assert model.zeta(0.5) == pytest.approx(1.5)
    assert model.shift(0.2) == 0


def test_incomplete_curves_count_as_far_as_they_go() -> None:
    rng = np.random.default_rng(0)
    z = np.arange(1, STEPS + 1) / STEPS
    model = BiasModel()
    for number in range(300):
        end = STEPS if number < 20 else int(rng.integers(5, STEPS))
        values = rng.normal() - (3 + rng.normal()) * (1 - z)
        model.observe(number, np.array([z[:end], values[:end]]))
    model.learn(range(300))
    model.scale(-99.0, 1.0)
    assert model.shift(0.1) == pytest.approx(2.7, abs=0.4)
    assert model.zeta(0.1) == pytest.approx(0.9, abs=0.4)


def test_values_whose_squares_no_float_holds_are_not_learned_from() -> None:
    model = curves(20)
    z = np.linspace(0.1, 1, 9)
    expected = model.shift(0.5), model.zeta(0.5)
    model.observe(99, np.array([z, 1e300 * np.cos(9 * z)]))
    model.learn(range(100))
    model.scale(-99.0, 10.0)
    assert (model.shift(0.5), model.zeta(0.5)) == expected


def test_what_was_observed_can_be_taken_back() -> None:
    model = curves(30)
    for number in range(30):
        model.forget(number)
    model.forget(99)
    model.learn(range(30))
    model.scale(-99.0, 10.0)
    assert model.shift(0.1) == 0
