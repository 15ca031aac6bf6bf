"""The fit of the cost models to studies."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState
import pytest
from trials import ended
from trials import Model
from trials import running
from trials import START
from trials import study_of

from optuna_pcts import PCTSSampler
from optuna_pcts._analysis.cost_fit import CostFit
from optuna_pcts._analysis.cost_fit import fit_cost
from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay


def costly_study(
    model: Model, *, n: int = 300, noise: float = 0.2, n_depths: int = 8, seed: int = 0
) -> optuna.Study:
    """Return a study whose trials took what a model says, times some noise."""
    rng = np.random.default_rng(seed)
    depths = rng.integers(0, n_depths, n)
    seconds = model.cost(depths + 1) * np.exp(noise * rng.standard_normal(n))
    return study_of(*(ended(float(s), depth=int(d)) for s, d in zip(seconds, depths)))


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
