"""How late feedback is: the delays of trials, their tail and their regime."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from datetime import timedelta
import math
import time

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial
from optuna.trial import TrialState
import pytest

from optuna_pcts import Delay
from optuna_pcts import delays
from optuna_pcts import PCTSSampler
from optuna_pcts import report
from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.delay_info import tail_exponent
from optuna_pcts._analysis.snapshot import Snapshot


START = datetime(2024, 1, 1)


def add(
    study: optuna.Study,
    state: TrialState,
    *,
    value: float | None = None,
    start: float = 0.0,
    end: float = 0.0,
) -> None:
    """Add a trial with given time stamps."""
    trial = create_trial(state=state, value=value)
    trial.datetime_start = None
    if state != TrialState.WAITING:
        trial.datetime_start = START + timedelta(seconds=start)
    if state.is_finished():
        trial.datetime_complete = START + timedelta(seconds=end)
    study.add_trial(trial)


def with_delays(starts: Sequence[float], seconds: Sequence[float]) -> optuna.Study:
    """Return a study whose trials started then and took so long."""
    study = optuna.create_study()
    origin = datetime.now() - timedelta(days=30)
    for start, delay in zip(starts, seconds):
        trial = create_trial(
            params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)}, value=delay
        )
        trial.datetime_start = origin + timedelta(seconds=start)
        trial.datetime_complete = trial.datetime_start + timedelta(seconds=delay)
        study.add_trial(trial)
    return study


# ---------------------------------------------------------------------- of each trial


def test_delays_in_seconds_and_in_trials(study: optuna.Study) -> None:
    # 0: |---------------|            starts of 1 and 2 lie within
    # 1:     |---|                    none
    # 2:             |---------|      start of 3
    # 3:                     |------  still running
    add(study, TrialState.COMPLETE, value=1.0, start=0, end=40)
    add(study, TrialState.FAIL, start=10, end=20)
    add(study, TrialState.PRUNED, start=30, end=55.5)
    add(study, TrialState.RUNNING, start=50)
    add(study, TrialState.WAITING)
    assert delays(study) == [Delay(0, 40.0, 2), Delay(1, 10.0, 0), Delay(2, 25.5, 1)]


def test_delays_do_not_depend_on_the_order_of_the_starts(memory_study: optuna.Study) -> None:
    add(memory_study, TrialState.COMPLETE, value=1.0, start=20, end=30)
    add(memory_study, TrialState.COMPLETE, value=1.0, start=0, end=25)
    assert delays(memory_study) == [Delay(0, 10.0, 0), Delay(1, 25.0, 1)]


def test_delays_of_an_empty_study(study: optuna.Study) -> None:
    assert delays(study) == []
    study.ask()
    assert delays(study) == []


def test_delays_of_a_sequential_study_are_of_no_trials(study: optuna.Study) -> None:
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
    found = delays(study)
    assert [d.trials for d in found] == [0] * 5
    assert all(d.seconds >= 0 for d in found)


def test_a_clock_that_ran_backwards_gives_no_negative_count(memory_study: optuna.Study) -> None:
    add(memory_study, TrialState.COMPLETE, value=1.0, start=10, end=5)
    (delay,) = delays(memory_study)
    assert delay.trials == 0


def test_the_delay_of_a_trial_is_one_of_its_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.tell(study.ask(), 1.0)
    assert "pcts:delay" not in study.trials[0].user_attrs  # unless somebody is there to see it
    monkeypatch.setattr(PCTSSampler, "shows_delays", True)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.03)
        if trial.number == 1:
            raise RuntimeError
        return trial.suggest_float("x", 0, 1)

    study.optimize(objective, n_trials=3, catch=RuntimeError)
    for trial, delay in zip(study.trials[1:], delays(study)[1:], strict=True):
        assert 0.03 <= trial.user_attrs["pcts:delay"] <= delay.seconds + 2e-3
    # A start from another clock than this machine's says nothing.
    old = study.ask()
    study._storage.get_trial(old._trial_id).datetime_start = datetime(2000, 1, 1)
    study.tell(old, 1.0)
    assert "pcts:delay" not in study.trials[-1].user_attrs


# ---------------------------------------------------------------------- tail and regime


@pytest.mark.parametrize("alpha", [0.5, 0.8, 2.0])
def test_the_tail_exponent_of_a_power_law_is_found(alpha: float) -> None:
    inside = 0
    for seed in range(20):
        sample = np.random.default_rng(seed).pareto(alpha, 1000) + 1
        _, interval, _ = tail_exponent(sample.tolist())
        assert interval is not None
        inside += interval[0] <= alpha <= interval[1]
    assert inside >= 15


def test_delays_that_are_not_over_count_in_the_tail() -> None:
    sample = np.random.default_rng(0).pareto(0.5, 1000) + 1
    limit = float(np.quantile(sample, 0.97))
    ended = sample[sample < limit].tolist()
    alpha, interval, _ = tail_exponent(ended, [limit] * (1000 - len(ended)))
    assert interval is not None
    assert interval[0] < 0.5 < interval[1]
    without, _, _ = tail_exponent(ended)
    assert without is not None
    assert alpha is not None
    assert without > 1.3 * alpha


def test_few_or_equal_delays_have_no_tail() -> None:
    assert tail_exponent([1.0] * 10)[:2] == (None, None)
    assert tail_exponent([2.0] * 100)[0] == math.inf


def test_regimes_of_delay() -> None:
    rng = np.random.default_rng(0)
    n = 200
    alone = with_delays([2.0 * i for i in range(n)], [1.0] * n)
    info = delay_info(Snapshot(alone))
    assert (info.regime, info.mean_trials, info.price) == ("benign", 0.0, 1.0)
    assert info.mean_seconds == pytest.approx(1.0)
    assert info.log_t == pytest.approx(math.log(n))

    # A hundred at a time, all equally long: more than log T, but without a tail.
    together = with_delays([float(i) for i in range(n)], [100.0] * n)
    info = delay_info(Snapshot(together))
    assert info.regime == "long"
    assert info.mean_trials > info.log_t

    heavy = with_delays([float(i) for i in range(n)], (rng.pareto(0.4, n) + 0.01).tolist())
    info = delay_info(Snapshot(heavy))
    assert info.regime == "adversarial"
    assert info.tail_interval is not None
    assert info.tail_interval[1] < 1
    assert "adversarial" in str(report(heavy))
