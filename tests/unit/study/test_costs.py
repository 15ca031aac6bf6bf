"""What a trial costs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from trials import ended
from trials import running
from trials import START

from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.costs import trial_cost


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
