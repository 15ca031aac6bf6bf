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

from optuna_pcts import PCTSPruner
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
def test_it_beats_the_best_trial_under_noise(sampler: Callable[[int], BaseSampler]) -> None:
    recommended, best, covered = [], [], []
    for seed in range(16):
        study = noisy_study(sampler(seed), noise=0.2, n_trials=120, seed=seed)
        answer = recommend(study)
        value = truth(**answer.params)
        recommended.append(value)
        best.append(truth(**study.best_params))
        covered.append(answer.interval[0] <= value <= answer.interval[1])
        # Where the process does not fit, the estimate is the observed value, which may be one end.
        assert answer.interval[0] <= answer.value < answer.interval[1]
        assert answer.params == study.trials[answer.number].params
    assert np.mean(recommended) < 0.8 * np.mean(best)
    assert sum(covered) >= 13
    # The best observed value is far below the minimum of the objective; the estimate is not.
    assert study.best_value < -0.1 < answer.value


def test_without_noise_it_is_the_best_trial() -> None:
    study = noisy_study(PCTSSampler(seed=0), noise=0.0, n_trials=60)
    answer = recommend(study)
    assert truth(**answer.params) == pytest.approx(study.best_value, abs=1e-3)
    assert answer.value == pytest.approx(truth(**answer.params), abs=1e-3)
    assert answer.interval[1] - answer.interval[0] < 0.02


@pytest.mark.parametrize("diverges", [False, True], ids=["smooth", "plateau"])
def test_far_worse_values_help_and_plateaus_do_not_harm(diverges: bool) -> None:
    """Far values of a smooth bowl locate its minimum; those of a plateau say nothing about it."""
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


def test_maximising_mirrors_minimising() -> None:
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


def test_alternatives_are_far_apart_and_worse() -> None:
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
    """A configuration with one outlier loses to one whose replicates have a better mean."""
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


def test_a_fresh_process_recommends_the_same(tmp_path: Path) -> None:
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


def rastrigin(trial: optuna.Trial) -> float:
    x = np.array([trial.suggest_float(f"x{i}", -5.12, 5.12) for i in range(5)])
    return float((x**2 + 10 - 10 * np.cos(2 * np.pi * x)).sum())


@pytest.mark.parametrize(
    ("sampler", "most"),
    [(lambda s: PCTSSampler(seed=s), 1.01), (lambda s: RandomSampler(seed=s), 1.15)],
    ids=["pcts", "random"],
)
def test_on_a_rugged_function_it_is_hardly_worse_than_the_best_trial(
    sampler: Callable[[int], BaseSampler], most: float
) -> None:
    """Its local minima look like noise; only replicates tell the two apart."""
    ratios, covered = [], []
    for seed in range(8):
        study = optuna.create_study(sampler=sampler(seed))
        study.optimize(rastrigin, n_trials=150)
        answer = recommend(study)
        value = study.trials[answer.number].value
        assert value is not None
        ratios.append(value / study.best_value)
        covered.append(answer.interval[0] <= value <= answer.interval[1])
    assert np.exp(np.mean(np.log(ratios))) < most
    assert sum(covered) >= 7


def test_a_range_that_changes_all_the_time() -> None:
    """More ranges than the space tells apart: trials outside the last range have positions too."""

    def objective(trial: optuna.Trial) -> float:
        high = 2.0 + trial.number // 4
        x, y = (trial.suggest_float(name, 0, high) for name in "xy")
        return (x - 1.5) ** 2 + (y - 2.2) ** 2

    for seed in range(3):
        study = optuna.create_study(sampler=RandomSampler(seed=seed))
        study.optimize(objective, n_trials=120)
        answer = recommend(study)
        assert answer.number == study.best_trial.number
        assert answer.interval[0] <= study.best_value <= answer.interval[1] < 20


@pytest.mark.parametrize("factor", [1e300, 1e-300, -1e-12])
def test_the_scale_of_values_does_not_matter(factor: float) -> None:
    def scaled(factor: float) -> optuna.Study:
        rng = np.random.default_rng(0)
        study = optuna.create_study(
            sampler=RandomSampler(seed=1), direction="minimize" if factor > 0 else "maximize"
        )
        study.optimize(
            lambda trial: (
                factor
                * ((trial.suggest_float("x", 0, 1) - 0.4) ** 2 + 0.1 * rng.standard_normal())
            ),
            n_trials=60,
        )
        return study

    as_it_is, answer = recommend(scaled(1.0)), recommend(scaled(factor))
    assert answer.number == as_it_is.number
    assert answer.value / factor == pytest.approx(as_it_is.value)
    ends = sorted(end / factor for end in answer.interval)
    assert ends == pytest.approx(list(as_it_is.interval))


@pytest.mark.parametrize("value", [0.0, 0.67, -3e5])
def test_one_trial_does_not_determine_the_noise(value: float) -> None:
    study = optuna.create_study()
    study.optimize(lambda trial: value + 0 * trial.suggest_float("x", 0, 1), n_trials=1)
    answer = recommend(study)
    assert answer.value == pytest.approx(value)
    assert answer.interval[0] <= value - max(abs(value), 1)
    assert answer.interval[1] >= value + max(abs(value), 1)


def test_an_outlier_is_not_trusted_before_a_replicate_confirms_it() -> None:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.optimize(lambda t: (t.suggest_float("x", 0, 1) - 0.4) ** 2, n_trials=40)
    unit = optuna.distributions.FloatDistribution(0, 1)
    broken = optuna.create_trial(params={"x": 0.9}, distributions={"x": unit}, value=-10.0)
    study.add_trial(broken)
    assert recommend(study).params["x"] == pytest.approx(0.4, abs=0.05)
    study.add_trial(broken)
    assert recommend(study).params["x"] == 0.9


def test_one_better_value_among_equal_ones_is_no_outlier() -> None:
    """Where all other values are equal, there is no scale on which it could be one."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) * 0 - float(t.number == 17), n_trials=30)
    assert recommend(study).number == 17


def test_partial_evaluations_do_not_worsen_the_recommendation() -> None:
    """Loss curves with an offset, and little noise."""
    ratios, covered = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)

        def objective(trial: optuna.Trial, rng: np.random.Generator = rng) -> float:
            x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
            for step in range(1, 10):
                loss = 0.1 + truth(x, y) + 0.5 / step + 0.005 * rng.standard_normal()
                trial.report(loss, step)
                if trial.should_prune():
                    raise optuna.TrialPruned
            return float(loss)

        study = optuna.create_study(sampler=PCTSSampler(seed=seed), pruner=PCTSPruner(9))
        study.optimize(objective, n_trials=80)
        answer = recommend(study)
        offset = 0.1 + 0.5 / 9
        complete = study.get_trials(states=[TrialState.COMPLETE])
        best = min(complete, key=lambda trial: trial.value or math.inf)
        ratios.append((truth(**answer.params) + 1e-3) / (truth(**best.params) + 1e-3))
        covered.append(answer.interval[0] <= offset + truth(**answer.params) <= answer.interval[1])
    assert np.exp(np.mean(np.log(ratios))) < 1.05
    assert sum(covered) >= 5
