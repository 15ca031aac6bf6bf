"""What a search finds that is elsewhere, and what misleads it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import optuna
import pytest

from benchmarks.exploration import execute
from benchmarks.exploration import LANDSCAPES
from benchmarks.exploration import Run
from benchmarks.problems import HARTMANN6
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


HAVE_BASINS = [name for name in LANDSCAPES if "basins" in name]


def search(
    value: Callable[[list[float]], float], n_dims: int, n_trials: int, seed: int
) -> optuna.Study:
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    study.optimize(
        lambda trial: value([trial.suggest_float(f"x{i}", 0, 1) for i in range(n_dims)]),
        n_trials=n_trials,
    )
    return study


@pytest.mark.parametrize("landscape", HAVE_BASINS)
def test_the_deepest_of_several_basins_is_found(landscape: str) -> None:
    """Also if it is the narrowest one, and with noise."""
    found = 0
    for seed in range(6):
        (result,) = execute(Run(landscape, "PCTS", seed)).values()
        found += result.is_found
    assert found >= 3


@pytest.mark.slow
@pytest.mark.parametrize("landscape", HAVE_BASINS)
def test_most_searches_find_the_deepest_basin(landscape: str) -> None:
    runs = [Run(landscape, "PCTS", seed) for seed in range(100, 110)]
    found = sum(execute(run)[run].is_found for run in runs)
    # In this one they are found by seven of ten, over more seeds than these; by TPE three.
    assert found >= (6 if landscape == "two basins, 2-D, noise" else 8)


def test_where_nothing_is_left_to_gain_the_search_goes_elsewhere() -> None:
    study = search(lambda x: (x[0] - 0.37) ** 2 + (x[1] - 0.61) ** 2, 2, 500, seed=0)
    values = [trial.values[0] for trial in study.trials]
    assert study.best_value < 1e-8
    near = np.mean(np.sqrt(values[-200:]) < 1e-3)
    assert near < 0.3
    points = np.array([list(trial.params.values()) for trial in study.trials[-200:]])
    assert {(x > 0.5, y > 0.5) for x, y in points} == {(a, b) for a in (0, 1) for b in (0, 1)}


def test_no_region_is_left_for_ever() -> None:
    """Three of four quarters are much worse, and are asked all the same, now and then."""
    rng = np.random.default_rng(0)

    def corner(x: list[float]) -> float:
        bowl = x[0] ** 2 + x[1] ** 2 + 10 * (x[0] + x[1] > 0.5)
        return float(bowl + 0.02 * rng.standard_normal())

    study = search(corner, 2, 300, seed=0)
    last = np.array([list(trial.params.values()) for trial in study.trials[150:]])
    assert 0.03 < (last.max(axis=1) > 0.5).mean() < 0.3


def n_repeated(study: optuna.Study) -> int:
    points = [tuple(trial.params.values()) for trial in study.trials]
    return len(points) - len(set(points))


def test_points_are_asked_again_only_where_there_may_be_noise() -> None:
    rng = np.random.default_rng(0)

    def bowl(x: list[float]) -> float:
        return float(sum((a - 0.4) ** 2 for a in x))

    assert n_repeated(search(bowl, 3, 100, seed=0)) == 0
    noisy = search(lambda x: bowl(x) + 0.05 * rng.standard_normal(), 3, 100, seed=0)
    assert 1 <= n_repeated(noisy) <= 4


def test_a_rugged_function_is_searched_along_its_axes() -> None:
    """Ten parameters, each with bumps ten times as high as what they hide: TPE ends at 65."""

    def rastrigin(x: list[float]) -> float:
        y = 10.24 * np.array(x) - 5.12 - 1.3
        return float((y**2 + 10 - 10 * np.cos(2 * np.pi * y)).sum())

    ends = [search(rastrigin, 10, 300, seed).best_value for seed in range(3)]
    assert np.median(ends) < 50


@pytest.mark.parametrize(("share", "spurious"), [(0.03, -10.0), (0.02, -1e30)])
def test_values_that_are_too_good_mislead_nobody(share: float, spurious: float) -> None:
    """A sensor that fails now and then. The optimum is -3.32, TPE ends at -3.08 and -0.97."""
    ends = []
    for seed in range(4):
        rng = np.random.default_rng(seed)

        def value(x: list[float], rng: np.random.Generator = rng) -> float:
            truth = -HARTMANN6.function(np.array(x), 1.0)
            return truth + spurious if rng.random() < share else truth

        study = search(value, 6, 150, seed)
        point = np.array(list(recommend(study).params.values()))
        ends.append(-HARTMANN6.function(point, 1.0))
    assert np.median(ends) < -3.1
