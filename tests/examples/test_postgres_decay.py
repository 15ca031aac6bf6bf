"""The verdict about decay, on studies whose costs are known."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest

from examples.postgres.decay import Arm
from examples.postgres.decay import beta_verdict
from examples.postgres.decay import describe
from examples.postgres.decay import draw
from examples.postgres.decay import exponential
from examples.postgres.decay import power_law
from examples.postgres.decay import Result


def known(beta: float, *, n_seeds: int = 3) -> Result:
    """Trials at depths 0 to 14 that cost 2 h^-beta, give or take a third."""
    studies = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        study = optuna.create_study()
        for depth in rng.integers(15, size=100):
            cost = 2 * (1.0 + depth) ** -beta * math.exp(rng.normal(0, 0.3))
            attributes = {
                "pcts:depth": int(depth),
                "pcts:cost": cost,
                "query_seconds": cost / 2,
                "reconfiguration_seconds": cost / 2,
            }
            study.add_trial(optuna.create_trial(value=1.0, user_attrs=attributes))
        studies.append(study)
    return Result(Arm("known", [], 0.25), studies)


@pytest.mark.parametrize("beta", [0.8, 0.0, -0.5])
def test_beta_is_found_with_its_interval(beta: float) -> None:
    slope = power_law(known(beta))
    assert slope.low < beta < slope.high
    assert slope.high - slope.low < 0.2
    said = {0.8: "decay exhibited", 0.0: "contains 0", -0.5: "grow with depth"}[beta]
    assert said in beta_verdict(slope)


def test_the_exponential_is_per_level() -> None:
    slope = exponential(known(0.8))
    assert 0 < slope.low < slope.value < slope.high < 0.8


def test_failed_trials_are_left_out() -> None:
    result = known(0.8)
    before = power_law(result)
    attributes = {"pcts:depth": 14, "pcts:cost": 1000.0}
    failed = optuna.create_trial(state=optuna.trial.TrialState.FAIL, user_attrs=attributes)
    result.studies[0].add_trials([failed] * 50)
    assert power_law(result) == before


def test_the_text_and_the_picture_have_it_all() -> None:
    result = known(0.8)
    text = describe(result)
    assert text.startswith("known: decay exhibited\n")
    assert f"power law h^-beta: beta {power_law(result)}; by seed 0." in text
    assert "PolynomialDecay" in text
    (axes,) = draw([result]).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"known: beta {power_law(result)}"]
