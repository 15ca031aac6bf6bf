"""The cost models of table 3, their fit to studies, and the budget."""

from __future__ import annotations

import copy
from datetime import datetime
from datetime import timedelta
from datetime import timezone
from fractions import Fraction
import math
import multiprocessing
from pathlib import Path
import pickle
import re
import time
from typing import Any

from helpers import new_trial
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._analysis.cost_fit import CostFit
from optuna_pcts._analysis.cost_fit import fit_cost
from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._study.budget import CostBudget
from optuna_pcts._study.costs import trial_cost
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import CostModel
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


Model = LinearGrowth | ConstantCost | PolynomialDecay | ExponentialCost

START = datetime(2024, 5, 1, 12, 0, 0)
PATIENCE = 60.0  # seconds, for a machine that is busy with something else
WORKERS_BUDGET = 3.75  # thirty trials at an eighth, which is exact


def ended(
    seconds: float | None,
    *,
    depth: Any = None,
    cost: Any = None,
    start: datetime | None = START,
    state: TrialState = TrialState.COMPLETE,
) -> FrozenTrial:
    """Return a finished trial that took some seconds."""
    attrs = {DEPTH_KEY: depth, COST_KEY: cost}
    trial = optuna.create_trial(
        state=state,
        value=0.0 if state == TrialState.COMPLETE else None,
        user_attrs={key: value for key, value in attrs.items() if value is not None},
    )
    trial.datetime_start = start
    trial.datetime_complete = (
        None if seconds is None or start is None else start + timedelta(seconds=seconds)
    )
    return trial


def running(start: datetime, **attrs: Any) -> FrozenTrial:
    """Return a trial in flight."""
    trial = optuna.create_trial(state=TrialState.RUNNING, user_attrs=attrs)
    trial.datetime_start = start
    return trial


def study_of(*trials: FrozenTrial) -> optuna.Study:
    study = optuna.create_study()
    study.add_trials(trials)
    return study


def costly_study(
    model: Model, *, n: int = 300, noise: float = 0.2, n_depths: int = 8, seed: int = 0
) -> optuna.Study:
    """Return a study whose trials took what a model says, times some noise."""
    rng = np.random.default_rng(seed)
    depths = rng.integers(0, n_depths, n)
    seconds = model.cost(depths + 1) * np.exp(noise * rng.standard_normal(n))
    return study_of(*(ended(float(s), depth=int(d)) for s, d in zip(seconds, depths)))


# Models.

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


# Costs of trials.


def test_a_trial_costs_its_duration_unless_the_objective_says_otherwise() -> None:
    assert trial_cost(ended(12.5)) == 12.5
    assert trial_cost(ended(12.5, cost=3)) == 3.0
    assert trial_cost(ended(12.5, cost=0)) == 0.0
    assert trial_cost(running(START)) is None
    assert trial_cost(running(START, **{COST_KEY: 4.5})) == 4.5
    assert trial_cost(ended(5, start=None)) is None
    assert trial_cost(ended(-3)) is None  # a clock was set back


@pytest.mark.parametrize("cost", ["7", True, -1, math.nan, math.inf, [1], {"cost": 1}])
def test_a_malformed_cost_is_ignored_with_a_warning(
    cost: Any, optuna_log: pytest.LogCaptureFixture
) -> None:
    assert trial_cost(ended(12.5, cost=cost)) == 12.5
    (record,) = optuna_log.records
    assert record.levelname == "WARNING"
    assert f"`{COST_KEY}`" in record.message
    assert repr(cost) in record.message


def test_trial_cost_wants_a_trial() -> None:
    trial: Any = 3
    with pytest.raises(TypeError, match="`trial` must be a FrozenTrial, but got 3"):
        trial_cost(trial)


# Fits.


@pytest.mark.parametrize(
    "model",
    [
        LinearGrowth(beta=2.0),
        PolynomialDecay(beta=0.7, scale=20.0),
        ExponentialCost(beta=0.7, scale=2.0),
        ExponentialCost(beta=1.4, scale=20.0),
    ],
)
def test_a_fit_finds_the_model_and_its_parameters(model: Model) -> None:
    study = costly_study(model)
    fit = fit_cost(study)
    assert type(fit.best.model) is type(model)
    assert fit.separated
    assert fit.adequate
    assert fit.rivals == ()
    assert fit.best.support > 0.95
    assert fit.best.model.beta == pytest.approx(model.beta, rel=0.1)
    assert fit.best.model.maximum == math.inf
    low, high = fit.best.beta_interval
    assert high - low < 0.3 * model.beta
    # A single interval of 95 % may miss: how often they do is counted below.
    sure = fit_cost(study, confidence=0.999)[type(model)]
    low, high = sure.beta_interval
    assert low < model.beta < high
    if isinstance(model, (PolynomialDecay, ExponentialCost)):
        assert sure.scale_interval is not None
        low, high = sure.scale_interval
        assert low < model.scale < high
    else:
        assert sure.scale_interval is None
    assert fit.best.error == pytest.approx(0.2, rel=0.15)
    assert "support " + type(model).__name__ in str(fit)


def test_a_constant_cost_is_found_and_the_decays_say_the_same() -> None:
    fit = fit_cost(costly_study(ConstantCost(beta=3.0)), confidence=0.999)
    assert isinstance(fit.best.model, ConstantCost)
    low, high = fit.best.beta_interval
    assert low < 3 < high
    low, high = fit[ExponentialCost].beta_interval
    assert low < 1 < high
    assert fit[PolynomialDecay].beta_interval[0] == 0
    assert fit[LinearGrowth].support == 0


@pytest.mark.parametrize(
    "model",
    [
        LinearGrowth(beta=2.0, maximum=9.0),
        PolynomialDecay(beta=1.5, maximum=10.0, scale=60.0),
        ExponentialCost(beta=0.6, maximum=15.0),
    ],
)
def test_a_fit_finds_the_maximum(model: Model) -> None:
    fit = fit_cost(costly_study(model, n=600, n_depths=12, noise=0.15))
    assert type(fit.best.model) is type(model)
    assert fit.adequate
    assert fit.best.model.maximum == pytest.approx(model.maximum, rel=0.05)
    low, high = fit.best.beta_interval
    assert low < model.beta < high


@pytest.mark.parametrize(
    "model",
    [
        LinearGrowth(beta=2.0),
        ConstantCost(beta=2.0),
        PolynomialDecay(beta=0.7, scale=20.0),
        ExponentialCost(beta=0.7, scale=2.0),
        ExponentialCost(beta=1.4, scale=20.0),
    ],
)
def test_intervals_cover_the_truth_about_as_often_as_they_say(model: Model) -> None:
    covered = 0
    for seed in range(40):
        fit = fit_cost(costly_study(model, n=60, noise=0.4, seed=seed), n_bootstrap=200)
        low, high = fit[type(model)].beta_interval
        covered += low <= model.beta <= high
    assert covered >= 34  # of 40 intervals of 95 %, fewer than 34 cover in 0.3 % of cases


def test_intervals_widen_with_the_confidence() -> None:
    study = costly_study(PolynomialDecay(beta=0.7, scale=20.0))
    wide = fit_cost(study, confidence=0.99)[PolynomialDecay].beta_interval
    narrow = fit_cost(study, confidence=0.5)[PolynomialDecay].beta_interval
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_few_noisy_trials_do_not_separate_the_models() -> None:
    for seed in range(5):
        fit = fit_cost(
            costly_study(ConstantCost(beta=3.0), n=12, n_depths=4, noise=1.0, seed=seed)
        )
        assert not fit.separated
        assert fit.rivals
        assert "not separated from " + fit.rivals[0].name in str(fit)
        assert sum(fitted.support for fitted in fit.models) == pytest.approx(1)


def test_machines_that_hang_do_not_move_the_fit() -> None:
    model = LinearGrowth(beta=2.0)
    study = costly_study(model)
    study.add_trials([ended(3600.0, depth=i % 8) for i in range(15)])
    study.add_trials([ended(0.001, depth=7) for _ in range(3)])
    fit = fit_cost(study)
    assert isinstance(fit.best.model, LinearGrowth)
    assert fit.separated
    assert (fit.n_trials, fit.n_outliers) == (300, 18)
    low, high = fit.best.beta_interval
    assert low < 2 < high


def test_a_fit_says_if_none_of_the_models_is_true() -> None:
    rng = np.random.default_rng(0)
    depths = rng.integers(0, 6, 300)
    seconds = np.array([1, 10, 1, 10, 1, 10])[depths] * np.exp(0.1 * rng.standard_normal(300))
    fit = fit_cost(study_of(*(ended(float(s), depth=int(d)) for s, d in zip(seconds, depths))))
    assert not fit.adequate
    assert "None of the four" in str(fit)


def test_costs_without_noise_are_fitted_exactly() -> None:
    for model in (LinearGrowth(2.0), ConstantCost(3.0), ExponentialCost(0.5)):
        fit = fit_cost(costly_study(model, noise=0.0))
        assert type(fit.best.model) is type(model)
        assert fit.separated
        assert fit.adequate
        assert fit.best.model.beta == pytest.approx(model.beta, rel=1e-5)


def test_the_cost_that_the_objective_sets_is_fitted() -> None:
    trials = [ended(1.0, depth=i % 6, cost=2.0 ** (i % 6)) for i in range(60)]
    fit = fit_cost(study_of(*trials))
    assert isinstance(fit.best.model, ExponentialCost)
    assert fit.best.model.beta == pytest.approx(0.5)
    assert fit.best.model.cost(1) == pytest.approx(1.0)  # depth 0 is h = 1
    assert fit.depths == (1, 2, 3, 4, 5, 6)


def test_a_fit_is_printed_as_a_table() -> None:
    fit = fit_cost(costly_study(LinearGrowth(beta=2.0)))
    head, columns, *rows, verdict = str(fit).splitlines()
    assert head == "Cost of 300 trials at 8 depths (h = 1 to 8), 0 outliers left out"
    titles = ["model", "beta (95 %)", "scale (95 %)", "maximum", "error", "support"]
    assert re.split(r" {2,}", columns) == titles
    assert [row.split()[0] for row in rows] == [fitted.name for fitted in fit.models]
    assert len(rows) == 4
    assert verdict == "The trials support LinearGrowth."
    with pytest.raises(KeyError):
        fit[int]


def test_a_fit_depends_on_the_seed_alone() -> None:
    study = costly_study(LinearGrowth(beta=2.0), n=30)
    assert fit_cost(study, seed=3) == fit_cost(study, seed=3)
    assert fit_cost(study, seed=3) != fit_cost(study, seed=4)
    assert isinstance(fit_cost(study, seed=None), CostFit)


def test_what_cannot_be_fitted_is_left_out(optuna_log: pytest.LogCaptureFixture) -> None:
    study = costly_study(LinearGrowth(beta=2.0))
    expected = fit_cost(study)
    study.add_trials(
        [
            ended(100.0, depth=2, state=TrialState.FAIL),  # may have ended at any point
            ended(100.0),
            ended(100.0, depth="2"),
            ended(100.0, depth=-1),
            ended(100.0, depth=True),
            ended(0.0, depth=2),
            ended(-5.0, depth=2),
            running(START, **{DEPTH_KEY: 3}),
        ]
    )
    assert fit_cost(study) == expected
    messages = [record.message for record in optuna_log.records if record.levelname == "WARNING"]
    assert any(f"3 trials have a malformed attribute `{DEPTH_KEY}`" in m for m in messages)
    assert any("1 trials cost nothing" in m for m in messages)


def test_pruned_trials_are_fitted() -> None:
    study = costly_study(LinearGrowth(beta=2.0))
    study.add_trials([ended(2.0, depth=0, state=TrialState.PRUNED) for _ in range(5)])
    assert fit_cost(study).n_trials == 305


def test_a_study_of_the_sampler_can_be_fitted() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        # A `Trial` does not show what the sampler stored with it meanwhile.
        stored = study.get_trials(deepcopy=False)[trial.number]
        trial.set_user_attr(COST_KEY, 3.0 * (stored.user_attrs.get(DEPTH_KEY, 0) + 1))
        return x

    study.optimize(objective, n_trials=80)
    fit = fit_cost(study)
    assert isinstance(fit.best.model, LinearGrowth)
    assert fit.best.model.beta == pytest.approx(3.0)
    assert fit.separated


def test_fits_that_cannot_be_made() -> None:
    with pytest.raises(ValueError, match=f"`{DEPTH_KEY}`.* none of the 20 completed"):
        fit_cost(study_of(*(ended(1.0) for _ in range(20))))
    with pytest.raises(ValueError, match=r"at least 10 trials .* this study has 9 "):
        fit_cost(study_of(*(ended(1.0, depth=i) for i in range(9))))
    with pytest.raises(ValueError, match=r"3 different depths, .* at 2 different depths"):
        fit_cost(study_of(*(ended(1.0, depth=i % 2) for i in range(50))))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"confidence": 1.0}, ValueError),
        ({"confidence": "0.9"}, TypeError),
        ({"n_bootstrap": 5}, ValueError),
        ({"n_bootstrap": 50.0}, TypeError),
        ({"seed": -1}, ValueError),
        ({"study": []}, TypeError),
    ],
)
def test_fits_refuse_bad_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    (name,) = arguments
    with pytest.raises(error, match=f"`{name}`"):
        fit_cost(**{"study": optuna.create_study(), **arguments})


# Budgets.


def declare(cost: float) -> Any:
    """Return an objective whose trials say what they cost."""

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr(COST_KEY, cost)
        return trial.suggest_float("x", 0, 1)

    return objective


def test_a_study_stops_when_the_budget_is_spent() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=10)
    study.optimize(declare(2.5), n_trials=100, callbacks=[budget])
    assert len(study.trials) == 4
    assert budget.spent(study) == 10
    assert budget.remaining(study) == 0


def test_the_trials_of_an_earlier_run_count() -> None:
    study = optuna.create_study()
    study.optimize(declare(2.5), n_trials=3)
    assert CostBudget(budget=10).remaining(study) == 2.5
    study.optimize(declare(2.5), n_trials=100, callbacks=[CostBudget(budget=10)])
    assert len(study.trials) == 4
    study.optimize(declare(2.5), n_trials=100, callbacks=[CostBudget(budget=5)])
    assert len(study.trials) == 5  # a callback has a say only when a trial has ended


def test_every_finished_trial_counts() -> None:
    study = study_of(
        ended(1.0),
        ended(2.0, state=TrialState.PRUNED),
        ended(4.0, state=TrialState.FAIL),
        ended(100.0, cost=8),
        ended(-16.0),  # a clock was set back: not known
    )
    study.enqueue_trial({"x": 1.0})
    assert CostBudget(budget=50).spent(study) == 15
    assert CostBudget(budget=50).remaining(study) == 35
    assert CostBudget(budget=10).remaining(study) == 0
    assert CostBudget(budget=10).spent(optuna.create_study()) == 0


def test_durations_are_counted_in_seconds() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=0.05)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.01)
        return 0.0

    study.optimize(objective, n_trials=1000, callbacks=[budget])
    assert 1 <= len(study.trials) <= 6
    assert budget.spent(study) >= 0.05
    assert budget.spent(study) == pytest.approx(sum(trial_cost(t) or 0 for t in study.trials))


def test_trials_in_flight_count_with_the_time_they_have_run() -> None:
    study = study_of(
        ended(30.0),
        running(START + timedelta(seconds=10)),
        running(START + timedelta(seconds=25)),
        running(START + timedelta(seconds=28), **{COST_KEY: 7}),  # it has said so already
        running(START + timedelta(seconds=29), **{COST_KEY: "?"}),
    )
    # The newest stamp is the end of the first trial, at 30 s.
    assert CostBudget(budget=100).spent(study) == 30 + 20 + 5 + 7 + 1


def test_trials_in_flight_count_in_full_if_their_cost_is_known() -> None:
    study = study_of(
        ended(30.0, depth=1), running(START, **{DEPTH_KEY: 3}), running(START), ended(1.0)
    )
    by_depth = CostBudget(budget=100, cost=LinearGrowth(beta=10, maximum=25))
    assert by_depth.spent(study) == 20 + 25 + 10 + 10  # without a depth: as at the root
    states = {TrialState.COMPLETE: 3.0, TrialState.RUNNING: 5}
    by_function = CostBudget(budget=100, cost=lambda trial: states[trial.state])
    assert by_function.spent(study) == 3 + 5 + 5 + 3
    not_yet = CostBudget(budget=100, cost=lambda trial: trial.values and 1.0)
    assert not_yet.spent(study) == 2


def test_what_is_in_flight_stops_a_study_before_it_is_overrun() -> None:
    study = optuna.create_study()
    for _ in range(3):
        new_trial(study)  # another worker's
    budget = CostBudget(budget=10, cost=lambda trial: 2.0)
    study.optimize(lambda trial: 0.0, n_trials=100, callbacks=[budget])
    assert len(study.trials) == 5


def test_lost_trials_stop_counting() -> None:
    lost = running(START)
    after = [ended(2.0, start=START + timedelta(seconds=s)) for s in (10, 57, 59)]
    study = study_of(lost, *after[:2])
    assert CostBudget(budget=100).spent(study) == 59 + 4  # younger than a minute
    assert CostBudget(budget=100, stale_after=58).spent(study) == 4
    study.add_trial(after[2])
    assert CostBudget(budget=100).spent(study) == 6
    assert CostBudget(budget=100, stale_after=62).spent(study) == 61 + 6
    assert CostBudget(budget=100, cost=lambda trial: 1.0).spent(study) == 3
    # Ten times the longest trial is more than a minute here.
    study.add_trial(ended(7.0))
    assert CostBudget(budget=100).spent(study) == 61 + 13


def test_a_lost_trial_counts_if_it_ends_after_all() -> None:
    study = optuna.create_study()
    lost = study.ask()
    budget = CostBudget(budget=1e9, stale_after=60)
    later = datetime.now() + timedelta(hours=1)
    study.add_trial(ended(1.0, start=later))
    assert budget.spent(study) == 1
    lost.set_user_attr(COST_KEY, 5)
    study.tell(lost, 0.0)
    assert budget.spent(study) == 6


def test_each_finished_trial_is_looked_at_once() -> None:
    seen: list[int] = []

    def cost(trial: FrozenTrial) -> float:
        seen.append(trial.number)
        return 1.0

    study = study_of(ended(1.0), ended(1.0))
    budget = CostBudget(budget=100, cost=cost)
    open_trial = study.ask()
    assert budget.spent(study) == 3
    assert budget.spent(study) == 3
    study.tell(open_trial, 0.0)
    study.add_trial(ended(1.0))
    assert budget.spent(study) == 4
    assert budget.spent(study) == 4
    assert seen == [0, 1, 2, 2, 2, 3]


def test_one_budget_for_several_studies() -> None:
    first, second = study_of(ended(1.0)), study_of(ended(2.0), ended(3.0))
    budget = CostBudget(budget=100)
    assert [budget.spent(study) for study in (first, second, first)] == [1, 5, 1]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_a_copy_of_a_budget_counts_the_same(copied: Any) -> None:
    study = study_of(ended(1.0), ended(2.0))
    budget = CostBudget(budget=100, cost=LinearGrowth(beta=2.0), stale_after=9)
    assert budget.spent(study) == 4
    other = copied(budget)
    assert other.spent(study) == 4
    assert repr(other) == repr(budget)
    assert "budget=100.0" in repr(budget)


def test_a_malformed_cost_is_warned_of_once(optuna_log: pytest.LogCaptureFixture) -> None:
    study = study_of(ended(2.0, cost="much"))
    budget = CostBudget(budget=100)
    assert budget.spent(study) == 2
    assert budget.spent(study) == 2
    assert len(optuna_log.records) == 1


def test_threads_share_one_budget() -> None:
    study = optuna.create_study()
    budget = CostBudget(budget=40, cost=lambda trial: 1.0)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.002)
        return 0.0

    study.optimize(objective, n_trials=1000, n_jobs=4, callbacks=[budget])
    # Those in flight are counted, but four threads can see the last free place at once.
    assert 40 <= len(study.trials) <= 44
    assert budget.spent(study) == len(study.trials)


def open_storage(path: Path) -> RDBStorage:
    return RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": PATIENCE}})


def work(path: Path) -> None:
    """Run trials of an eighth each until the budget of all workers is spent."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name="s", storage=open_storage(path))

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr(COST_KEY, 0.125)
        time.sleep(0.01)
        return trial.suggest_float("x", 0, 1)

    study.optimize(objective, n_trials=1000, callbacks=[CostBudget(budget=WORKERS_BUDGET)])


def test_two_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = optuna.create_study(study_name="s", storage=open_storage(path))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(path,), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert [worker.exitcode for worker in workers] == [0, 0]
    # Each overruns by one trial at most, and the one that starts late has one of its own.
    n_trials = len(study.trials)
    assert 30 <= n_trials <= 32
    spent = CostBudget(budget=WORKERS_BUDGET).spent(study)
    assert spent == 0.125 * n_trials


def test_trials_that_another_worker_commits_late_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = optuna.create_study(study_name="s", storage=open_storage(path))
    other = optuna.load_study(study_name="s", storage=open_storage(path))
    budget = CostBudget(budget=100)
    open_trial = other.ask()
    study.optimize(declare(2.0), n_trials=3, callbacks=[budget])
    open_trial.set_user_attr(COST_KEY, 7.0)
    assert budget.spent(study) == 13
    other.tell(open_trial, 0.0)
    other.optimize(declare(1.0), n_trials=2)
    assert budget.spent(study) == 15
    assert budget.spent(study) == CostBudget(budget=100).spent(other)


def test_numbers_that_are_missing_at_first_are_counted_when_they_come() -> None:
    class Delayed(optuna.Study):
        """A storage in which one transaction is seen late."""

        hidden = True

        def get_trials(self, *args: Any, **kwargs: Any) -> list[FrozenTrial]:
            trials = super().get_trials(*args, **kwargs)
            return [t for t in trials if not (self.hidden and t.number == 1)]

    study = study_of(ended(1.0), ended(2.0), ended(4.0))
    study.__class__ = Delayed
    assert isinstance(study, Delayed)
    budget = CostBudget(budget=100)
    assert budget.spent(study) == 5
    study.hidden = False
    assert budget.spent(study) == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"budget": 0}, ValueError),
        ({"budget": math.inf}, ValueError),
        ({"budget": "10"}, TypeError),
        ({"cost": 3.0}, TypeError),
        ({"cost": LinearGrowth}, TypeError),
        ({"stale_after": 0}, ValueError),
        ({"stale_after": "1h"}, TypeError),
    ],
)
def test_budgets_refuse_bad_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    (name,) = arguments
    with pytest.raises(error, match=f"`{name}` must be"):
        CostBudget(**{"budget": 1.0, **arguments})


def test_budgets_refuse_what_is_not_a_study_or_a_cost() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="`study`"):
        CostBudget(budget=1).spent(nothing)
    study = study_of(ended(1.0))
    with pytest.raises(ValueError, match=r"`cost of trial 0` .* at least 0, but got -1"):
        CostBudget(budget=1, cost=lambda trial: -1).spent(study)
    bad: Any = lambda trial: "much"  # noqa: E731
    with pytest.raises(TypeError, match="`cost of trial 0` must be a number, but got 'much'"):
        CostBudget(budget=1, cost=bad).spent(study)


def test_time_zones_may_be_mixed_in_a_budget() -> None:
    study = optuna.create_study()
    for start in (START, START.astimezone(timezone.utc)):
        study.add_trial(ended(2.0, start=start))
    study.ask()
    assert CostBudget(budget=100.0, stale_after=1.0).spent(study) == pytest.approx(4.0)
