"""The noise-robust answer."""

from __future__ import annotations

from collections.abc import Callable
import math
from pathlib import Path
import subprocess
import sys
from typing import Literal

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import Recommendation


def truth(x: float, y: float) -> float:
    return (x - 0.3) ** 2 + (y - 0.6) ** 2


def noisy_study(
    sampler: BaseSampler,
    noise: float,
    n_trials: int,
    seed: int = 0,
    direction: Literal["minimize", "maximize"] = "minimize",
) -> optuna.Study:
    rng = np.random.default_rng(seed)
    sign = 1 if direction == "minimize" else -1

    def objective(trial: optuna.Trial) -> float:
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        return sign * truth(x, y) + noise * rng.standard_normal()

    study = optuna.create_study(sampler=sampler, direction=direction)
    study.optimize(objective, n_trials=n_trials)
    return study


@pytest.mark.parametrize(
    "sampler",
    [lambda s: PCTSSampler(seed=s), lambda s: RandomSampler(seed=s), lambda s: TPESampler(seed=s)],
    ids=["pcts", "random", "tpe"],
)
def test_it_is_better_than_the_luckiest_trial(sampler: Callable[[int], BaseSampler]) -> None:
    recommended, lucky, covered = [], [], []
    for seed in range(8):
        study = noisy_study(sampler(seed), noise=0.2, n_trials=120, seed=seed)
        answer = recommend(study)
        value = truth(**answer.params)
        recommended.append(value)
        lucky.append(truth(**study.best_params))
        covered.append(answer.interval[0] <= value <= answer.interval[1])
        # Where the process does not fit, the value is the trial's own: it may well be one end.
        assert answer.interval[0] <= answer.value < answer.interval[1]
        assert answer.params == study.trials[answer.number].params
    assert np.mean(recommended) < 0.8 * np.mean(lucky)
    assert sum(covered) >= 6
    # The best measured value is far below anything that is there; the estimate is not.
    assert study.best_value < -0.1 < answer.value


def test_without_noise_it_is_the_best_trial() -> None:
    study = noisy_study(PCTSSampler(seed=0), noise=0.0, n_trials=60)
    answer = recommend(study)
    assert truth(**answer.params) == pytest.approx(study.best_value, abs=1e-3)
    assert answer.value == pytest.approx(truth(**answer.params), abs=1e-3)
    assert answer.interval[1] - answer.interval[0] < 0.02


@pytest.mark.parametrize("diverges", [False, True], ids=["one smooth function", "a wall"])
def test_what_is_far_worse_helps_and_does_not_harm(diverges: bool) -> None:
    """A bowl says where its bottom is from far up its sides; what diverges says nothing."""
    regrets = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.random((60, 2)), rng.normal((0.3, 0.6), 0.05, (60, 2))])
        values = 500 * ((x - (0.3, 0.6)) ** 2).sum(axis=1) + rng.standard_normal(120)
        if diverges:
            values = np.where(x[:, 0] > 0.5, 1e4 * (1 + rng.random(120)), values)
        study = optuna.create_study()
        unit = optuna.distributions.FloatDistribution(0, 1)
        for (a, b), value in zip(np.clip(x, 0, 1), values):
            study.add_trial(
                optuna.create_trial(
                    params={"x": float(a), "y": float(b)},
                    distributions={"x": unit, "y": unit},
                    value=value,
                )
            )
        regrets.append(500 * truth(**recommend(study).params))
    assert np.median(regrets) < (0.2 if diverges else 0.03)


def test_it_mirrors_with_the_direction() -> None:
    down = recommend(noisy_study(RandomSampler(seed=0), 0.2, 80))
    study = noisy_study(RandomSampler(seed=0), 0.2, 80, direction="maximize")
    flipped = optuna.create_study()
    for trial in study.trials:
        flipped.add_trial(
            optuna.create_trial(
                params=trial.params, distributions=trial.distributions, value=-trial.values[0]
            )
        )
    up, again = recommend(study), recommend(flipped)
    assert up.params == again.params
    assert up.value == pytest.approx(-again.value)
    assert up.interval == pytest.approx((-again.interval[1], -again.interval[0]))
    assert isinstance(down, Recommendation)


def test_alternatives_are_in_other_places_and_worse() -> None:
    study = noisy_study(RandomSampler(seed=0), noise=0.1, n_trials=200)
    answers = recommend(study, top=5)
    assert answers[0] == recommend(study)
    assert 2 <= len(answers) <= 5
    assert len({answer.number for answer in answers}) == len(answers)
    values = [answer.value for answer in answers]
    assert values[0] <= min(values) + 0.01
    assert all(1 < answer.n_trials < 60 for answer in answers)
    places = [(answer.params["x"], answer.params["y"]) for answer in answers]
    gaps = [math.dist(a, b) for i, a in enumerate(places) for b in places[:i]]
    assert min(gaps) > 0.03


def test_replicates_are_pooled() -> None:
    """Of three configurations the one with a lucky value loses to the one that is good."""
    study = optuna.create_study()
    distribution = optuna.distributions.CategoricalDistribution(["a", "b", "c"])
    rng = np.random.default_rng(0)
    for kind, level, n in (("a", 1.0, 30), ("b", 0.5, 30), ("c", 1.0, 3)):
        for _ in range(n):
            study.add_trial(
                optuna.create_trial(
                    params={"kind": kind},
                    distributions={"kind": distribution},
                    value=level + 0.3 * rng.standard_normal(),
                )
            )
    study.add_trial(
        optuna.create_trial(params={"kind": "c"}, distributions={"kind": distribution}, value=-0.5)
    )
    assert study.best_params == {"kind": "c"}
    answer = recommend(study)
    assert answer.params == {"kind": "b"}
    assert answer.n_trials == 30
    assert answer.value == pytest.approx(0.5, abs=0.15)


def test_pruned_failed_and_infinite_trials_are_never_recommended() -> None:
    study = noisy_study(RandomSampler(seed=0), noise=0.1, n_trials=30)
    for value in (-100.0, -math.inf):
        trial = study.ask()
        trial.suggest_float("x", 0, 1)
        trial.suggest_float("y", 0, 1)
        trial.report(-100.0, step=0)
        if value == -100.0:
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, value)
    study.tell(study.ask(), state=TrialState.FAIL)
    assert recommend(study).number < 30


def test_conditional_and_changing_spaces() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0, warn_independent_sampling=False))

    def objective(trial: optuna.Trial, high: float) -> float:
        x = trial.suggest_float("x", 0, high)
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return x + trial.suggest_float("extra", 0, 1)
        return x + 1

    study.optimize(lambda trial: objective(trial, 1), n_trials=30)
    study.optimize(lambda trial: objective(trial, 2), n_trials=30)
    answer = recommend(study)
    assert answer.params["kind"] == "a"
    assert set(answer.params) == {"x", "kind", "extra"}


@pytest.mark.parametrize("n_trials", [1, 2, 3])
def test_a_few_trials_are_enough(n_trials: int) -> None:
    study = noisy_study(RandomSampler(seed=0), noise=0.0, n_trials=n_trials)
    answer = recommend(study)
    assert answer.number < n_trials
    assert math.isfinite(answer.value)
    assert answer.interval[0] <= answer.value <= answer.interval[1]


def test_a_constant_objective_and_no_parameter() -> None:
    study = optuna.create_study()
    study.optimize(lambda trial: 1.0, n_trials=5)
    assert recommend(study).value == pytest.approx(1.0)


def test_a_fresh_process_says_the_same(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = noisy_study(PCTSSampler(seed=0), noise=0.2, n_trials=50)
    optuna.copy_study(
        from_study_name=study.study_name, from_storage=study._storage, to_storage=storage
    )
    code = (
        "import optuna; from optuna_pcts import recommend; "
        f"r = recommend(optuna.load_study(study_name=None, storage={storage!r})); "
        "print(r.number, r.value)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    answer = recommend(study)
    assert int(out[0]) == answer.number
    assert float(out[1]) == pytest.approx(answer.value)


def test_errors() -> None:
    study = optuna.create_study()
    with pytest.raises(ValueError, match="a trial that ended"):
        recommend(study)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    with pytest.raises(ValueError, match=r"`top`.*0"):
        recommend(study, top=0)
    with pytest.raises(TypeError, match=r"`top`.*'3'"):
        recommend(study, top="3")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="one objective"):
        recommend(optuna.create_study(directions=["minimize", "minimize"]))
