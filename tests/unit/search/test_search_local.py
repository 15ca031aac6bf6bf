"""The local search: distributions over where the best point may be, and what is drawn of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
import pytest

from optuna_pcts import DUCBV
from optuna_pcts import PCTSSampler
from optuna_pcts import Smoothness
from optuna_pcts._arrays import FloatArray
from optuna_pcts._search.distribution import SearchDistribution
from optuna_pcts._search.local import LocalSearch
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.tree import Tree


def test_the_search_distribution_follows_the_best_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((800, 2))
    values = -((points[:, 0] - points[:, 1]) ** 2) * 100 - (points.sum(axis=1) - 1) ** 2
    best = points[np.argsort(-values)[:20]]
    distribution = SearchDistribution(best, slots=np.zeros(2))
    drawn = np.array([distribution.draw(rng)[0] for _ in range(500)])
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert len(np.unique(drawn, axis=0)) == 500
    assert drawn.mean(axis=0) == pytest.approx(best.mean(axis=0), abs=0.05)
    # It is long and thin, along the valley.
    assert np.corrcoef(drawn.T)[0, 1] > 0.8
    assert distribution.draw(rng)[1].tolist() in best.tolist()
    far = np.array([distribution.draw(rng, 30.0)[0] for _ in range(500)])
    assert ((far > 0) & (far < 1)).all()  # reflected, however far


def test_the_search_distribution_keeps_neighbouring_values_within_reach() -> None:
    points = np.full((20, 1), 0.55)  # all best trials have one value of ten
    distribution = SearchDistribution(points, slots=np.array([0.1]))
    rng = np.random.default_rng(0)
    drawn = [distribution.draw(rng)[0][0] for _ in range(300)]
    away = np.mean([abs(x - 0.55) > 0.05 for x in drawn])
    assert 0.1 < away < 0.6


def local_search(
    values: Sequence[float], points: FloatArray | None = None
) -> tuple[LocalSearch, FloatArray]:
    """Return a local search over trials, at random points by default, and the points."""
    if points is None:
        points = np.random.default_rng(0).random((len(values), 2))
    space = SearchSpace({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})
    tree = Tree(space, DUCBV(), Smoothness(1.0, 0.5).instances)
    for number, (point, value) in enumerate(zip(points, values)):
        tree.place(number, point.tolist())
        tree.tell(number, value)
    return LocalSearch(tree, space.categories, space.slots), points


def draw(local: LocalSearch, rng: np.random.Generator, off_corners: bool = False) -> list[float]:
    """Draw a point that is new; what is to be asked once more counts as asked."""
    while True:
        drawn = local.draw(rng, off_corners)
        assert drawn is not None
        if not drawn.is_repeat:
            return drawn.point
        local._tree.place(local._tree._trials.length, drawn.point)


@pytest.mark.parametrize(
    "values", [[np.nan] * 10, [1.0] * 40, [np.inf] * 20, [1e308, -1e308] * 9, [np.nan, 1.0] * 9]
)
def test_local_asks_of_strange_values(values: list[float]) -> None:
    local, _ = local_search(values)
    for seed in range(20):
        drawn = local.draw(np.random.default_rng(seed))
        assert drawn is not None
        assert all(0 <= x <= 1 for x in drawn.point)


# Of the others most are at the flanks; with many trials the third at the argmax alone is near.
@pytest.mark.parametrize(("n_trials", "near"), [(140, 1 / 2), (400, 1 / 3)])
def test_local_asks_are_around_the_best_and_not_around_the_luckiest(
    n_trials: int, near: float
) -> None:
    points = np.random.default_rng(0).random((n_trials, 2))
    truth = -4 * ((points - 0.4) ** 2).sum(axis=1)
    by_neighbours: list[float] = []
    by_luck: list[float] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = truth + rng.normal(0, 0.2, n_trials)
        local, _ = local_search(values.tolist())
        lucky = SearchDistribution(points[np.argsort(-values)[:20]], slots=np.zeros(2))
        for _ in range(200):
            for regrets, drawn in (
                (by_neighbours, draw(local, rng)),
                (by_luck, lucky.draw(rng)[0]),
            ):
                regrets.append(4 * float(((np.array(drawn) - 0.4) ** 2).sum()))
    nearer = int(near * len(by_luck))
    assert np.mean(sorted(by_neighbours)[:nearer]) < 0.5 * np.mean(sorted(by_luck)[:nearer])


@pytest.mark.parametrize(
    ("noise", "n_trials", "has_flanks"), [(0.2, 200, True), (0, 200, False), (0.2, 19, False)]
)
def test_every_third_local_ask_is_at_a_flank_once_there_is_only_noise_to_see(
    noise: float, n_trials: int, has_flanks: bool
) -> None:
    rng = np.random.default_rng(3)
    points = np.random.default_rng(0).random((n_trials, 2))
    values = -4 * ((points - 0.5) ** 2).sum(axis=1) + rng.normal(0, noise, n_trials)
    local, _ = local_search(values.tolist())
    drawn = np.array([draw(local, rng) for _ in range(400)])
    distance = np.sort(np.linalg.norm(drawn - np.median(drawn, axis=0), axis=1))
    # Two of three are near the middle: without flanks the ratio of these quantiles is about 5.
    assert (distance[360] / distance[100] > 8) == has_flanks


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_flanks_are_as_far_away_as_costs_three_deviations_of_the_noise(noise: float) -> None:
    medians = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = np.random.default_rng(0).random((200, 2))
        values = -4 * ((points - 0.5) ** 2).sum(axis=1) + rng.normal(0, noise, 200)
        local, _ = local_search(values.tolist())
        drawn = np.array([draw(local, rng) for _ in range(400)])
        losses = np.sort(4 * ((drawn - 0.5) ** 2).sum(axis=1)) / noise
        # Every third ask is at a flank: of the furthest third, the middle.
        medians.append(losses[333])
    assert 1 < np.median(medians) < 9


def test_local_asks_are_on_one_mode_or_the_other_and_not_in_between() -> None:
    points = np.random.default_rng(0).random((120, 2))
    tops = np.array([[0.2, 0.5], [0.8, 0.5]])
    gaps = ((points[:, None, :] - tops) ** 2).sum(axis=2)
    asked, best = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = np.exp(-20 * gaps).max(axis=1) + rng.normal(0, 0.1, 120)
        local, _ = local_search(values.tolist())
        drawn = np.array([draw(local, rng) for _ in range(200)])
        asked.append(np.mean(np.abs(drawn[:, 0] - 0.5) < 0.15))
        best.append(np.mean(drawn[:, 0] < 0.5))
    # (Every third one is at a flank, 0.2 away on average.)
    assert np.mean(asked) < 0.15
    assert 0.1 < np.mean(best) < 0.9


def test_a_higher_mode_that_no_good_trial_is_on_is_asked_too() -> None:
    asked = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        around = np.array([0.2, 0.5]) + 0.03 * rng.standard_normal((40, 2))
        points = np.concatenate([around, rng.random((40, 2))])
        gap = np.linalg.norm(points - [0.8, 0.5], axis=1)
        points, gap = points[gap > 0.25], gap[gap > 0.25]
        x, y = points.T
        values = np.cos(2 * np.pi * (x - 0.2) / 0.6) + 0.5 * x - 4 * (y - 0.5) ** 2
        assert gap[np.argsort(-values)[:10]].min() > 0.5  # the best are all on the other mode
        local, _ = local_search(values.tolist(), points)
        drawn = np.array([draw(local, rng) for _ in range(100)])
        asked.append(np.mean(np.linalg.norm(drawn - [0.8, 0.5], axis=1) < 0.15))
    assert 0.05 < np.mean(asked) < 0.5


def test_local_asks_reach_an_optimum_in_a_corner() -> None:
    points = np.random.default_rng(0).random((60, 2))
    local, _ = local_search(points.sum(axis=1).tolist())
    rng = np.random.default_rng(1)
    drawn = np.array([draw(local, rng) for _ in range(100)])
    assert points.min(axis=1).max() < np.median(drawn.min(axis=1))  # nearer than any trial
    assert [1.0, 1.0] in drawn.tolist()
    drawn = np.array([draw(local, rng, off_corners=True) for _ in range(100)])
    assert points.min(axis=1).max() < np.median(drawn.min(axis=1))
    assert len(np.unique(drawn, axis=0)) == 100  # and never the same point twice


def test_local_asks_try_other_categories() -> None:
    """The best trials all have one category; the better one must still be found."""

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -2, 2)
        n = trial.suggest_int("n", 1, 12)
        kind = trial.suggest_categorical("kind", ["a", "b", "c"])
        return (x - 0.3) ** 2 + abs(n - 5) / 20 + {"a": 0.0, "b": 0.1, "c": 0.2}[kind]

    for seed in range(5):
        study = optuna.create_study(sampler=PCTSSampler(seed=seed))
        study.optimize(objective, n_trials=150)
        assert study.best_params["kind"] == "a"
        assert study.best_params["n"] == 5
        assert study.best_value < 0.01
