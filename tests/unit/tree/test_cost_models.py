"""The cost models of table 3 and their horizons."""

from __future__ import annotations

from fractions import Fraction
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from trials import Model

from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import CostModel
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


maxima = st.one_of(st.just(math.inf), st.floats(0.01, 100))
scales = st.one_of(st.just(1.0), st.floats(0.01, 100))
models = st.one_of(
    st.builds(LinearGrowth, beta=st.floats(0.01, 10), maximum=maxima),
    st.builds(ConstantCost, beta=st.floats(0.01, 10), maximum=maxima),
    st.builds(
        PolynomialDecay,
        beta=st.one_of(st.sampled_from([0.0, 1.0, 1 + 1e-9]), st.floats(0, 60)),
        maximum=maxima,
        scale=scales,
    ),
    st.builds(
        ExponentialCost,
        beta=st.one_of(st.sampled_from([1.0, 1 + 1e-9, 1 - 1e-9]), st.floats(0.1, 10)),
        maximum=maxima,
        scale=scales,
    ),
)

ALL_KINDS: list[type[Model]] = [LinearGrowth, ConstantCost, PolynomialDecay, ExponentialCost]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (LinearGrowth(beta=2, maximum=5), [2, 4, 5, 5]),
        (ConstantCost(beta=3), [3, 3, 3, 3]),
        (ConstantCost(beta=3, maximum=2), [2, 2, 2, 2]),
        (PolynomialDecay(beta=1), [1, 1 / 2, 1 / 3, 1 / 4]),
        (PolynomialDecay(beta=2, maximum=3, scale=36), [3, 3, 3, 2.25]),
        (ExponentialCost(beta=0.5, maximum=6), [2, 4, 6, 6]),
        (ExponentialCost(beta=2, scale=8, maximum=3), [3, 2, 1, 0.5]),
        (ExponentialCost(beta=1, scale=8), [8, 8, 8, 8]),
    ],
)
def test_costs_are_those_of_table_3(model: Model, expected: list[float]) -> None:
    assert isinstance(model, CostModel)
    assert model.cost(np.arange(1, 5)) == pytest.approx(expected)
    assert model.cost([1, 2, 3, 4]).shape == (4,)
    one_by_one = [model.cost(h) for h in range(1, 5)]
    assert one_by_one == pytest.approx(expected)
    assert all(isinstance(cost, float) for cost in one_by_one)


def test_a_cost_too_large_for_a_float_is_capped() -> None:
    assert ExponentialCost(beta=0.5, maximum=7).cost(np.array([1, 5000])).tolist() == [2, 7]
    assert ExponentialCost(beta=0.5).cost(5000) == math.inf
    assert ExponentialCost(beta=2).cost(5000) == 0


@given(model=models, budget=st.floats(0, 200))
def test_the_horizon_is_that_of_summing_level_by_level(model: Model, budget: float) -> None:
    n = 400
    horizon = model.horizon(budget)
    # A cost beyond every budget may be infinite, which no fraction can be.
    costs = [Fraction(min(float(cost), 1e9)) for cost in model.cost(np.arange(1, n + 1))]
    limit = Fraction(budget)
    # As many levels as fit, except where they fit or fail to by rounding alone.
    slack = Fraction(1, 10**14)
    total = Fraction(0)
    surely, perhaps = 0, 0
    for cost in costs:
        total += cost
        if total <= limit * (1 - slack):
            surely += 1
        if total <= limit * (1 + slack):
            perhaps += 1
    if perhaps == n:
        assert horizon >= surely
    else:
        assert surely <= horizon <= perhaps
        assert isinstance(horizon, int)


@pytest.mark.parametrize(
    "model",
    [
        PolynomialDecay(beta=0.5),
        PolynomialDecay(beta=0.6, scale=2.0, maximum=0.5),
        LinearGrowth(beta=1e-6, maximum=1e-3),
        ConstantCost(beta=1e-3),
        ExponentialCost(beta=1 - 1e-6, scale=1e-4, maximum=2e-3),
    ],
)
def test_the_horizon_is_exact_over_many_levels(model: Model) -> None:
    budget = 1234.5
    horizon = model.horizon(budget)
    assert 10**5 < horizon < 10**7
    costs = model.cost(np.arange(1, horizon + 2))
    assert math.fsum(costs[:-1]) <= budget * (1 + 1e-14)
    assert math.fsum(costs) > budget


def test_the_horizon_is_infinite_only_if_the_sum_never_exceeds_the_budget() -> None:
    limit = math.pi**2 / 6
    assert PolynomialDecay(beta=2).horizon(limit) == math.inf
    assert PolynomialDecay(beta=2).horizon(limit - 1e-6) == pytest.approx(1e6, rel=1e-3)
    assert ExponentialCost(beta=2).horizon(1.0) == math.inf
    assert ExponentialCost(beta=2).horizon(1 - 2**-10) == 10
    assert ExponentialCost(beta=2).horizon(1 - 2**-10 - 1e-9) == 9
    # The harmonic series has no limit; this one passes 30 after 6 * 10^12 levels.
    assert PolynomialDecay(beta=1).horizon(30) == pytest.approx(math.exp(30 - np.euler_gamma))
    for model in (LinearGrowth(1.0, 2.0), ConstantCost(1.0), ExponentialCost(0.9)):
        assert model.horizon(1e6) < math.inf


def test_rounding_does_not_cost_a_level() -> None:
    assert 3 * 0.1 > 0.3
    assert ConstantCost(beta=0.1).horizon(0.3) == 3
    assert LinearGrowth(beta=0.1).horizon(0.6) == 3
    assert ConstantCost(beta=0.1).horizon(0.0) == 0


@pytest.mark.parametrize(
    ("model", "closed_form"),
    [
        (LinearGrowth(beta=2, maximum=10), math.sqrt(2 * 190 / 2)),
        (ConstantCost(beta=2, maximum=10), 2 * 190 / 2),
        (PolynomialDecay(beta=0.5, maximum=10), (1 + 0.5 * 190) ** 2),
        (PolynomialDecay(beta=0.5, maximum=10, scale=19), (1 + 0.5 * 10) ** 2),
        (PolynomialDecay(beta=1, maximum=10, scale=19), math.exp(10)),
        (PolynomialDecay(beta=2, maximum=10), math.inf),
        (ExponentialCost(beta=0.5, maximum=10), math.log2(1 + 0.5 * 190)),
        (ExponentialCost(beta=1, maximum=10), 190),
        (ExponentialCost(beta=2, maximum=10), math.inf),
        (ExponentialCost(beta=2, maximum=10, scale=380), math.log(1 - 0.5) / math.log(0.5)),
    ],
)
def test_the_closed_forms_are_those_of_table_3(model: Model, closed_form: float) -> None:
    assert model.paper_horizon(100) == pytest.approx(closed_form)
    assert model.paper_horizon(1) == 0  # the budget is below half of lambda(1)


def test_where_the_closed_forms_differ_from_the_sum() -> None:
    # Table 3 prints twice what the appendix derives; both pay for more than there is.
    constant = ConstantCost(beta=2, maximum=2)
    assert constant.horizon(1000) == 500
    assert constant.paper_horizon(1000) == 2 * (2 * 1000 - 2) / 2
    # Without a maximum that binds, the linear one is too large by the square root of two.
    linear = LinearGrowth(beta=2, maximum=2000)
    assert linear.paper_horizon(10**6) / linear.horizon(10**6) == pytest.approx(
        math.sqrt(2), rel=0.01
    )
    # The two continuous limits at beta = 1.
    for kind in (PolynomialDecay, ExponentialCost):
        at_one = kind(beta=1.0, maximum=1.0).paper_horizon(3)
        assert kind(beta=1 + 1e-7, maximum=1.0).paper_horizon(3) == pytest.approx(at_one, rel=1e-5)


def test_the_closed_forms_need_a_maximum() -> None:
    for kind in ALL_KINDS:
        with pytest.raises(ValueError, match="finite `maximum`"):
            kind(beta=0.5).paper_horizon(1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in ALL_KINDS for name in ("beta", "maximum")),
        (PolynomialDecay, "scale"),
        (ExponentialCost, "scale"),
    ],
)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("1", TypeError),
        (True, TypeError),
        (None, TypeError),
        (-1, ValueError),
        (math.nan, ValueError),
    ],
)
def test_models_refuse_bad_arguments(
    kind: type[Model], name: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"`{name}`"):
        kind(**{"beta": 1.0, name: value})


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_models_refuse_bad_depths_and_budgets(kind: type[Model]) -> None:
    model: Any = kind(beta=0.5)
    for depth in (0, -1, math.inf, np.array([1, 0]), [1.0, math.nan]):
        with pytest.raises(ValueError, match="`depth`"):
            model.cost(depth)
    for no_depth in ("2", None, True, ["a"], np.array([True])):
        with pytest.raises(TypeError, match="`depth`"):
            model.cost(no_depth)
    with pytest.raises(ValueError, match="`budget`"):
        model.horizon(-1)
    with pytest.raises(TypeError, match="`budget`"):
        model.horizon("10")
