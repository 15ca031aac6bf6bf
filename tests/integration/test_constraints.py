"""Trials that violate a constraint: never an answer, and marked wherever they are shown."""

from __future__ import annotations

import json
import math
from pathlib import Path
import pickle
from typing import Any

from helpers import assert_same_tree
from helpers import constrained_study
from helpers import infeasible
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import create_trial
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import report
from optuna_pcts._analysis.regret_info import regret_info
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._study.attributes import is_feasible
from optuna_pcts.cli import main


SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    study = constrained_study(60, PCTSSampler(seed=0))
    study.ask(SPACE)
    return study


@pytest.mark.parametrize(
    ("attributes", "holds"),
    [
        ({}, True),
        ({"constraints": None}, True),
        ({"constraints": []}, True),
        ({"constraints": [0, -1.5]}, True),
        ({"constraints": (0.0, 1e-9)}, False),
        ({"constraints": [math.nan]}, False),
        ({"constraints": [-math.inf, math.inf]}, False),
        ({"constraints:a": -1, "constraints:b": 0.0}, True),
        ({"constraints:a": -1, "constraints:b": 2}, False),
        ({"constraints:a": math.nan}, False),
        ({"constraints": [1.0], "constraints:0": -1.0}, True),  # the newer one stands
        ({"constraints": [-1.0], "constraints:a": 1.0}, False),
        # What is no number cannot be known to hold; what is no list is none of Optuna's.
        ({"constraints": [None]}, False),
        ({"constraints": ["-1"]}, False),
        ({"constraints:a": {"b": [1]}}, False),
        ({"constraints": "none"}, True),
        ({"constraints": {"a": 1}}, True),
        ({"constraints": 10**400}, True),
        ({"constraints": [-(10**400)]}, True),
        ({"constraint": [1.0]}, True),
    ],
)
def test_whether_a_trial_is_feasible(
    attributes: dict[str, Any], holds: bool, storage: BaseStorage
) -> None:
    study = optuna.create_study(storage=storage, sampler=PCTSSampler(seed=0))
    trial = create_trial(
        params={"x": 0.5, "y": 0.5}, distributions=SPACE, value=1.0, system_attrs=attributes
    )
    study.add_trial(trial)
    assert is_feasible(study.trials[0]) == holds
    study.ask(SPACE)  # whatever it is, the search goes on
    if holds:
        assert recommend(study).number == 0
    else:
        with pytest.raises(ValueError, match="violates a constraint"):
            recommend(study)


@pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="needs Optuna 5")
def test_optuna_reads_the_same() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for x in (0.1, 0.7, 0.9):
        trial = study.ask({"x": FloatDistribution(x, x)})
        trial.set_constraint("x", 0.6 - x)
        study.tell(trial, x)
    assert [is_feasible(trial) for trial in study.trials] == [False, True, True]
    assert study.best_trial.number == 1
    found = report(study)
    assert found.best == (1, 0.7)
    assert found.infeasible == (0,)


@pytest.mark.parametrize("sampler", [PCTSSampler(seed=1), RandomSampler(seed=1)])
def test_no_infeasible_trial_is_recommended(sampler: optuna.samplers.BaseSampler) -> None:
    study = constrained_study(60, sampler)
    found = recommend(study, top=3)
    assert all(one.params["x"] >= 0.6 for one in found)
    n_feasible = len(study.trials) - len(infeasible(study))
    assert n_feasible < 60
    assert all(one.n_trials <= n_feasible for one in found)


def test_the_search_is_where_constraints_hold() -> None:
    """The best values are at 0.2, and feasible only from 0.6 on."""
    for seed in range(3):
        study = constrained_study(80, PCTSSampler(seed=seed))
        late = [trial.params["x"] for trial in study.trials[40:]]
        assert np.mean([x >= 0.6 for x in late]) > 0.6
        assert abs(recommend(study).params["x"] - 0.6) < 0.03


def ring(trial: optuna.Trial) -> float:
    """Feasible in a small disc far from where values are best; two scales of violation."""
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    gap = {"near_x": abs(x - 0.8) - 0.03, "near_y": 1e6 * (abs(y - 0.3) - 0.03)}
    for key, value in gap.items():
        trial.storage.set_trial_system_attr(trial._trial_id, f"constraints:{key}", value)
    return x + y


def test_until_something_is_feasible_less_violation_is_sought() -> None:
    found = []
    for seed in range(4):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed))
        study.optimize(ring, n_trials=80)
        feasible = [t for t in study.trials if is_feasible(t)]
        found.append(len(feasible) > 10)
        if feasible:
            best = min(t.value for t in feasible if t.value is not None)
            assert best < 1.06 + 0.06  # of 1.04 at the corner of the feasible square
    assert sum(found) >= 3  # at random, 0.3 of 80 trials are feasible


def test_two_samplers_agree_whether_anything_is_feasible() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    for _ in range(12):
        study.optimize(ring, n_trials=5)
        live = study.sampler
        assert isinstance(live, PCTSSampler)
        assert_same_tree(study, live, pickle.loads(pickle.dumps(live)))


def test_the_report_counts_them_and_names_a_feasible_best_trial(study: optuna.Study) -> None:
    out = infeasible(study)
    found = report(study)
    assert found.infeasible == tuple(out)
    assert found.best is not None
    feasible = [t for t in study.trials[:60] if t.number not in out]
    assert found.best[0] == min(feasible, key=lambda t: t.values[0]).number
    assert f"Infeasible   {len(out)} (trials {out[0]}, " in str(found)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["infeasible"] == out
    assert data["recommendation"]["params"]["x"] >= 0.6
    assert "infeasible" not in data["cost"]
    assert "Infeasible" not in str(report(optuna.create_study()))


def test_where_nothing_is_feasible_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    constrained_study(8, RandomSampler(seed=0), least=2.0, storage=url)
    assert main(["recommend", url]) == 1
    assert "needs a feasible trial" in capsys.readouterr().err
    assert main(["report", url]) == 0
    out = capsys.readouterr().out
    assert "no completed trial is feasible" in out
    assert "Recommended" not in out
    assert "Best trial" not in out


def test_the_regret_figure_is_of_feasible_trials(study: optuna.Study) -> None:
    info = regret_info(Snapshot(study))
    out = infeasible(study)
    values = [t.values[0] for t in study.trials[:60] if t.number not in out]
    assert list(info.values) == values
    assert info.best[-1] == min(values) > min(t.values[0] for t in study.trials[:60])
    assert [number for _, _, number in info.infeasible] == out
    assert all(study.trials[made.number].params["x"] >= 0.6 for made in info.recommended)
