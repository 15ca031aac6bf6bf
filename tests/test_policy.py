"""The formulas of table 2, the smoothness instances, the prior and the local asks."""

from __future__ import annotations

from collections.abc import Sequence
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.study import StudyDirection
import pytest

from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import NodeStatistics
from optuna_pcts import PCTSSampler
from optuna_pcts import Policy
from optuna_pcts import POOSmoothness
from optuna_pcts import Smoothness
from optuna_pcts import SmoothnessModel
from optuna_pcts import UnknownSmoothness
from optuna_pcts._arrays import FloatArray
from optuna_pcts._local import Elite
from optuna_pcts._local import LocalSearch
from optuna_pcts._process import _Choice
from optuna_pcts._process import _distance
from optuna_pcts._process import _Places
from optuna_pcts._process import _Setting
from optuna_pcts._process import _whitening
from optuna_pcts._process import gaussian
from optuna_pcts._process import Kernel
from optuna_pcts._process import matern
from optuna_pcts._process import matern_slope
from optuna_pcts._process import Process
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.settings import tree_of
from optuna_pcts._tree.prior import AdditiveModel
from optuna_pcts._tree.tree import Tree


def statistics(unit: float = 1.0) -> NodeStatistics:
    return NodeStatistics(
        mean=np.array([0.5, 0.25]),
        variance=np.array([0.04, 0.0]),
        n_told=np.array([8.0, 1.0]),
        n_asked=np.array([10.0, 100.0]),  # never enters a bound
        depth=np.array([3.0, 4.0]),
        log_t=math.log(16),
        unit=unit,
    )


LOG_T = math.log(16)


def test_ducb1() -> None:
    expected = [0.5 + math.sqrt(2 * LOG_T / 8), 0.25 + math.sqrt(2 * LOG_T)]
    assert DUCB1().bound(statistics()) == pytest.approx(expected)


@pytest.mark.parametrize("unit", [1.0, 10.0])
def test_ducb1sigma_takes_the_noise_in_the_unit_of_the_objective(unit: float) -> None:
    sigma = 0.3 / unit
    expected = [
        0.5 + math.sqrt(2 * sigma**2 * LOG_T / 8),
        0.25 + math.sqrt(2 * sigma**2 * LOG_T),
    ]
    assert DUCB1Sigma(noise_std=0.3).bound(statistics(unit)) == pytest.approx(expected)


@pytest.mark.parametrize(("reward_range", "b"), [(None, 1.0), (5.0, 2.5)])
def test_ducbv(reward_range: float | None, b: float) -> None:
    expected = [
        0.5 + math.sqrt(2 * 0.04 * LOG_T / 8) + 3 * 0.1 * b * LOG_T / 8,
        0.25 + 3 * 0.1 * b * LOG_T,
    ]
    policy = DUCBV(reward_range=reward_range, c=0.1)
    assert policy.bound(statistics(unit=2.0)) == pytest.approx(expected)


def test_ducbv_with_c_1_is_the_papers() -> None:
    expected = 0.5 + math.sqrt(2 * 0.04 * LOG_T / 8) + 3 * LOG_T / 8
    assert DUCBV(c=1.0).bound(statistics())[0] == pytest.approx(expected)


def test_the_rho_of_unknown_smoothness_follows_the_dimension() -> None:
    """After one split per parameter the diameter has shrunk by 2^k, whatever the dimension."""
    for n_dims in (1, 2, 10, 50):
        instances = UnknownSmoothness(nu=0.5, exponents=(0.5, 1, 2)).instances(n_dims)
        assert [nu for nu, _ in instances] == [0.5] * 3
        assert [rho**n_dims for _, rho in instances] == pytest.approx([2**-0.5, 0.5, 0.25])


def test_the_grid_of_poo() -> None:
    """D_max = ln 2 / ln 2 = 1 for rho_max = 1/2; by hand for T = 1000, and 13.5 for 0.95."""
    # (1 / 2) ln(1000 / 6.908) = 2.49: two instances, of rho_max^4 and rho_max^(4/3).
    assert POOSmoothness(n_trials=1000, nu_max=0.3, rho_max=0.5).instances(7) == [
        (0.3, 0.5**4),
        (0.3, pytest.approx(0.5 ** (4 / 3))),
    ]
    rhos = [rho for _, rho in POOSmoothness(n_trials=600).instances(3)]
    assert len(rhos) == 31  # 13.513 / 2 * ln(600 / 6.397) = 30.68
    d_max = math.log(2) / math.log(1 / 0.95)
    parts = [math.log(2) / math.log(1 / rho) * 31 / d_max for rho in rhos]
    assert parts == pytest.approx([i + 0.5 for i in range(31)])
    # As printed, 2N / (i + 1) for i = 1 ... N, the upper half would be left out.
    printed = [0.95 ** (2 * 31 / (i + 1)) for i in range(1, 32)]
    assert max(printed) < 0.95**1.9 < max(rhos) < 0.95


@pytest.mark.parametrize("n_trials", [1, 2, 3, 10])
def test_no_instance_of_poo_goes_without_a_trial(n_trials: int) -> None:
    rhos = [rho for _, rho in POOSmoothness(n_trials=n_trials).instances(2)]
    assert 1 <= len(rhos) <= n_trials
    assert rhos == sorted(set(rhos))


def test_known_smoothness_is_one_instance() -> None:
    assert Smoothness(nu=1.0, rho=0.95).instances(7) == [(1.0, 0.95)]


def test_a_policy_and_a_smoothness_of_ones_own() -> None:
    class Greedy:
        def bound(self, cells: NodeStatistics) -> FloatArray:
            return cells.mean

    class Flat:
        def instances(self, n_dims: int) -> list[tuple[float, float]]:
            return [(0.0, 0.5)]

    assert isinstance(Greedy(), Policy)
    assert isinstance(Flat(), SmoothnessModel)
    sampler = PCTSSampler(policy=Greedy(), smoothness=Flat(), seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=50)
    assert study.best_value < 0.01


def test_a_policy_may_divide_by_the_number_of_asked_trials() -> None:
    class Asked:
        def bound(self, cells: NodeStatistics) -> FloatArray:
            return cells.mean + 0.1 * np.sqrt(2 * cells.log_t / cells.n_asked)

    study = optuna.create_study(sampler=PCTSSampler(policy=Asked(), seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=40)
    assert study.best_value < 0.05


def test_ducb1sigma_with_tiny_values() -> None:
    study = optuna.create_study(sampler=PCTSSampler(policy=DUCB1Sigma(noise_std=0.1), seed=0))
    study.optimize(lambda t: -math.exp(-400 - 100 * t.suggest_float("x", 0, 1)), n_trials=30)
    assert len(study.trials) == 30


@pytest.mark.parametrize("returned", [math.nan, np.zeros(99), "high"])
def test_a_policy_that_returns_nonsense_is_named(returned: Any) -> None:
    class Broken:
        def bound(self, cells: NodeStatistics) -> Any:
            return returned if isinstance(returned, (str, np.ndarray)) else cells.mean * returned

    space = {"x": FloatDistribution(0, 1)}
    study = optuna.create_study(sampler=PCTSSampler(policy=Broken(), search_space=space))
    with pytest.raises(ValueError, match="`policy` must return one number per cell"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)


def test_the_additive_model_finds_an_additive_function() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((200, 3))
    points[:, 2] = (np.floor(points[:, 2] * 3) + 0.5) / 3  # three categories

    def f(points: FloatArray) -> FloatArray:
        effect = np.array([0.0, 0.3, 0.1])[np.floor(points[:, 2] * 3).astype(int)]
        return np.asarray(points[:, 0] ** 2 - 0.5 * points[:, 1] + effect)

    model = AdditiveModel(points, f(points), categories=[0, 0, 3])
    fresh = rng.random((50, 3))
    assert model.predict(fresh) == pytest.approx(f(fresh), abs=0.02)
    assert model.std < 0.02
    noisy = AdditiveModel(points, f(points) + rng.normal(0, 0.1, 200), categories=[0, 0, 3])
    assert noisy.std == pytest.approx(0.1, rel=0.2)


def test_the_elite_follows_the_best_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((800, 2))
    values = -((points[:, 0] - points[:, 1]) ** 2) * 100 - (points.sum(axis=1) - 1) ** 2
    best = points[np.argsort(-values)[:20]]
    elite = Elite(best, slots=np.zeros(2))
    drawn = np.array([elite.draw(rng)[0] for _ in range(500)])
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert len(np.unique(drawn, axis=0)) == 500
    assert drawn.mean(axis=0) == pytest.approx(best.mean(axis=0), abs=0.05)
    # It is long and thin, along the valley.
    assert np.corrcoef(drawn.T)[0, 1] > 0.8
    assert elite.draw(rng)[1].tolist() in best.tolist()
    far = np.array([elite.draw(rng, 30.0)[0] for _ in range(500)])
    assert ((far > 0) & (far < 1)).all()  # reflected, however far


def test_the_elite_keeps_neighbouring_values_within_reach() -> None:
    points = np.full((20, 1), 0.55)  # all best trials have one value of ten
    elite = Elite(points, slots=np.array([0.1]))
    rng = np.random.default_rng(0)
    drawn = [elite.draw(rng)[0][0] for _ in range(300)]
    away = np.mean([abs(x - 0.55) > 0.05 for x in drawn])
    assert 0.1 < away < 0.6


def local_search(
    values: Sequence[float], points: FloatArray | None = None
) -> tuple[LocalSearch, FloatArray]:
    """Return a local search over trials, at random points by default, and the points."""
    if points is None:
        points = np.random.default_rng(0).random((len(values), 2))
    space = SearchSpace({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})
    tree = Tree(space, DUCBV(), [(1.0, 0.5)])
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


# Of the others most are at the sides; with many trials the third at the guess alone is near.
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
        lucky = Elite(points[np.argsort(-values)[:20]], slots=np.zeros(2))
        for _ in range(200):
            for regrets, drawn in (
                (by_neighbours, draw(local, rng)),
                (by_luck, lucky.draw(rng)[0]),
            ):
                regrets.append(4 * float(((np.array(drawn) - 0.4) ** 2).sum()))
    nearer = int(near * len(by_luck))
    assert np.mean(sorted(by_neighbours)[:nearer]) < 0.5 * np.mean(sorted(by_luck)[:nearer])


@pytest.mark.parametrize(
    ("noise", "n_trials", "has_sides"), [(0.2, 200, True), (0, 200, False), (0.2, 19, False)]
)
def test_every_third_local_ask_is_at_a_side_once_there_is_only_noise_to_see(
    noise: float, n_trials: int, has_sides: bool
) -> None:
    rng = np.random.default_rng(3)
    points = np.random.default_rng(0).random((n_trials, 2))
    values = -4 * ((points - 0.5) ** 2).sum(axis=1) + rng.normal(0, noise, n_trials)
    local, _ = local_search(values.tolist())
    drawn = np.array([draw(local, rng) for _ in range(400)])
    distance = np.sort(np.linalg.norm(drawn - np.median(drawn, axis=0), axis=1))
    # Two of three are near the middle: without sides the ratio of these quantiles is about 5.
    assert (distance[360] / distance[100] > 8) == has_sides


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_sides_are_as_far_away_as_costs_three_deviations_of_the_noise(noise: float) -> None:
    medians = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = np.random.default_rng(0).random((200, 2))
        values = -4 * ((points - 0.5) ** 2).sum(axis=1) + rng.normal(0, noise, 200)
        local, _ = local_search(values.tolist())
        drawn = np.array([draw(local, rng) for _ in range(400)])
        losses = np.sort(4 * ((drawn - 0.5) ** 2).sum(axis=1)) / noise
        # Every third ask is at a side: of the furthest third, the middle.
        medians.append(losses[333])
    assert 1 < np.median(medians) < 9


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_two_of_three_local_asks_cost_about_a_deviation_where_the_top_is_known(
    noise: float,
) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        near = np.clip(0.5 + 0.1 * rng.standard_normal((300, 2)), 0, 1)
        points = np.concatenate([rng.random((100, 2)), near])
        values = -4 * ((points - 0.5) ** 2).sum(axis=1) + rng.normal(0, noise, 400)
        local, _ = local_search(values.tolist(), points)
        drawn = np.array([draw(local, rng) for _ in range(400)])
        losses = np.sort(4 * ((drawn - 0.5) ** 2).sum(axis=1)) / noise
        # A third at the guess, and the other two exponential with means of 1 and 3 deviations.
        assert losses[66] < 0.05
        assert 0.2 < losses[200] < 1


def test_local_asks_are_on_one_hill_or_the_other_and_not_in_between() -> None:
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
    # (Every third one is at a side, 0.2 away on average.)
    assert np.mean(asked) < 0.15
    assert 0.1 < np.mean(best) < 0.9


def test_a_higher_hill_that_no_good_trial_is_on_is_asked_too() -> None:
    asked = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        around = np.array([0.2, 0.5]) + 0.03 * rng.standard_normal((40, 2))
        points = np.concatenate([around, rng.random((40, 2))])
        gap = np.linalg.norm(points - [0.8, 0.5], axis=1)
        points, gap = points[gap > 0.25], gap[gap > 0.25]
        x, y = points.T
        values = np.cos(2 * np.pi * (x - 0.2) / 0.6) + 0.5 * x - 4 * (y - 0.5) ** 2
        assert gap[np.argsort(-values)[:10]].min() > 0.5  # the best are all on the other hill
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


def process(
    points: FloatArray,
    values: FloatArray,
    bias: float = 0.0,
    kernel: Kernel = matern,
    categories: Sequence[int] = (0, 0),
    lengths: Sequence[float] = (0.5, 2.0, 8.0),
    noises: Sequence[float] = (1e-6, 0.1, 1.0),
    n_probes: int = 1000,
    has_relevance: bool = False,
) -> Process:
    n = len(points)
    return Process(
        points,
        values,
        (float(np.median(values)), float(values.max())),
        np.full(n, bias),
        np.ones(n, dtype=bool),
        categories,
        candidates=np.arange(n),
        n_data=n,
        kernels=(kernel,),
        lengths=lengths,
        noises=noises,
        n_probes=n_probes,
        has_relevance=has_relevance,
    )


def test_what_matters_is_learned() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((80, 4))
    kinds = np.floor(points[:, 3] * 3)  # a category that matters, one that does not, ...
    values = np.sin(6 * points[:, 0]) + (kinds == 1) + rng.normal(0, 0.1, 80)
    fitted = process(points, values, categories=(0, 0, 3, 3), n_probes=60, has_relevance=True)
    _, (first, second, other_kind, kind) = fitted._relevances
    assert first > 3 * second
    assert kind > 3 * other_kind
    unlearned = process(points, values, categories=(0, 0, 3, 3))
    truth = np.sin(6 * points[:, 0]) + (kinds == 1)
    errors = [float(np.std(p.mean - truth)) for p in (fitted, unlearned)]
    assert errors[0] < 0.8 * errors[1]


def test_what_was_learned_counts_only_if_the_data_need_it() -> None:
    """Or else a flat top would be a slope: the end of an axis would always win."""
    rng = np.random.default_rng(0)
    points = rng.random((60, 2))
    shares = []
    for weights in ([1, 1], [1, 0]):
        values = np.sin(6 * points @ weights) + rng.normal(0, 0.1, 60)
        fitted = process(
            points, values, lengths=np.geomspace(0.2, 5, 12).tolist(), has_relevance=True
        )
        learned = np.array([s.choice.relevance for s in fitted._settings]) == 1
        shares.append(float(fitted._shares[learned].sum()))
    assert shares[0] < 0.2
    assert shares[1] > 0.8


def test_the_slope_of_the_likelihood_is_right() -> None:
    rng = np.random.default_rng(0)
    points, values, noise = rng.random((30, 2)), rng.normal(size=30), 0.1
    axes = [(x[:, None] - x[None]) ** 2 for x in points.T]

    def setting(half_weight: float) -> tuple[_Setting, FloatArray]:
        distance = np.sqrt(2 * half_weight * axes[0] + axes[1])
        covariance = matern(distance) + noise * np.eye(30)
        choice = _Choice(0, matern, 1.0, noise)
        return _Setting(choice, covariance, values), distance

    def likelihood(half_weight: float) -> float:
        found, _ = setting(half_weight)
        return float(found.likelihood + 0.5 * np.log(found.precision))  # not of the level

    middle, distance = setting(0.5)
    slope = (middle.slopes() * matern_slope(distance) * axes[0]).sum()
    steps = [likelihood(0.5 + d) for d in (-1e-4, 1e-4)]
    assert slope == pytest.approx((steps[1] - steps[0]) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("kernel", [matern, gaussian])
def test_worlds_are_drawn_with_their_probability(kernel: Kernel) -> None:
    """How often one point beats another, against the closed form."""
    rng = np.random.default_rng(0)
    points, values = rng.random((12, 2)), rng.normal(size=12)
    places = rng.random((2, 2))
    length, noise = 1.0, 0.3
    fitted = process(points, values, kernel=kernel, lengths=(length,), noises=(noise,))
    worlds = [
        fitted.winners(fitted.draw_worlds(100, rng), places, 0, np.zeros(2))[0] for _ in range(40)
    ]
    won = np.mean([(w == places[0]).all(axis=1) for w in worlds])

    scaled = np.concatenate([points, places]) / points.std(axis=0)
    near = kernel(np.linalg.norm(scaled[:, None] - scaled[None], axis=2) / length)
    inverse = np.linalg.inv(near[:12, :12] + noise * np.eye(12))
    level = (inverse @ values).sum() / inverse.sum()
    rest = values - level
    scale = rest @ inverse @ rest / 11
    difference = near[12, :12] - near[13, :12]
    mean = difference @ inverse @ rest
    variance = 2 * (1 - near[12, 13]) - difference @ inverse @ difference
    variance += (difference @ inverse @ np.ones(12)) ** 2 / inverse.sum()
    expected = NormalDist(0, float(np.sqrt(scale * variance))).cdf(float(mean))
    assert 0.1 < expected < 0.9
    assert won == pytest.approx(expected, abs=0.03)


def test_winners_follow_the_data_through_noise_and_doubt_what_is_biased() -> None:
    rng = np.random.default_rng(0)
    points, places = rng.random((60, 2)), rng.random((200, 2))
    values = -4 * ((points - 0.4) ** 2).sum(axis=1) + rng.normal(0, 0.2, 60)
    spreads = []
    for bias in (0.0, 3.0):
        fitted = process(points, values, bias)
        winners, _ = fitted.winners(fitted.draw_worlds(100, rng), places, 0, np.zeros(2))
        spreads.append(float(((winners - 0.4) ** 2).sum(axis=1).mean()))
    assert spreads[0] < 0.02
    assert spreads[1] > 2 * spreads[0]


def at_categories(rng: np.random.Generator, n: int, categories: Sequence[int]) -> FloatArray:
    """Return random points, in the middle of the slots of their categories."""
    points = rng.random((n, len(categories)))
    for axis, k in zip(points.T, categories):
        if k:
            axis[:] = (np.floor(axis * k) + 0.5) / k
    return points


def test_categories_are_corners_that_are_equally_far_apart() -> None:
    rng = np.random.default_rng(0)
    categories = (4, 0, 1000)
    points = at_categories(rng, 50, categories)
    fitted = process(points, rng.normal(size=50), categories=categories)
    relevance = np.array([3.0, 0.5, 0.25])  # what is ordered comes first
    fresh = np.concatenate([points, at_categories(rng, 20, categories)])
    places = fitted._embed(fresh) * relevance
    one_hot = [
        weight * np.sqrt(2) * (np.floor(fresh[:, i, None] * k) == np.arange(k))
        for i, k, weight in ((0, 4, 0.5), (2, 1000, 0.25))
    ]
    unit = points[:, 1].std()
    coordinates = np.concatenate([3 * fresh[:, [1]] / unit, *one_hot], axis=1)
    expected = np.linalg.norm(coordinates[:, None] - coordinates[:50][None], axis=2)
    assert _distance(places, places[np.arange(50)]) == pytest.approx(expected)
    # Random functions look at these corners and not at a thousand, most of which nobody has seen.
    n_codes = len(np.unique(points[:, 0])) + len(np.unique(points[:, 2])) + 1
    assert places.n_codes == n_codes
    corners, vectors = np.eye(n_codes), rng.normal(size=(1 + n_codes, 3))
    there = np.concatenate(
        [
            places.ordered,
            (corners[places.codes] * places.apart[:, None] / np.sqrt(2)).sum(axis=1),
        ],
        axis=1,
    )
    assert places.along(vectors) == pytest.approx(there @ vectors)


def test_the_additive_model_has_many_categories_at_once() -> None:
    """Against the normal equations, with a column for each category."""
    rng = np.random.default_rng(0)
    categories = (3, 0, 40, 0, 7)
    points, fresh = (at_categories(rng, n, categories) for n in (150, 60))
    rewards = rng.random(150)

    def columns(points: FloatArray) -> FloatArray:
        z = 2 * points[:, [1, 3]] - 1
        one_hot = [
            np.floor(points[:, i, None] * k) == np.arange(k) for i, k in enumerate(categories) if k
        ]
        return np.concatenate([z, z * z - 1 / 3, *one_hot], axis=1)

    x = columns(points)
    level = rewards.mean()
    weights = np.linalg.solve(x.T @ x + 0.1 * np.eye(54), x.T @ (rewards - level))
    model = AdditiveModel(points, rewards, categories)
    assert model.predict(fresh) == pytest.approx(level + columns(fresh) @ weights)
    rest = rewards - level - x @ weights
    assert model.std == pytest.approx(np.sqrt((rest**2).sum() / (150 - 54)))


@pytest.mark.parametrize("kernel", [matern, gaussian])
def test_the_slope_of_a_world_is_right(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    values, codes = (
        rng.normal(size=20),
        np.column_stack([np.arange(20) % 3, 3 + np.arange(20) % 2]),
    )

    def places_at(x: FloatArray) -> _Places:
        return _Places(x, codes[: len(x)], np.array([1.5, 0.7]), 5)

    places = places_at(rng.normal(size=(20, 3)))
    choice = _Choice(0, kernel, 1.7, 0.1)
    signal = kernel(_distance(places, places) / 1.7)
    setting = _Setting(choice, signal + 0.1 * np.eye(20), values)
    for functions in (
        setting.draw(places, values, np.full(20, 0.2), 4, rng),
        setting.mean(places),
    ):
        count = functions.values(places).shape[1]
        here = rng.normal(size=(count, 3))
        at_its_own, slopes = functions.at(places_at(here))
        everywhere = functions.values(places_at(here))
        assert at_its_own == pytest.approx(np.diag(everywhere))
        for axis, step in enumerate(1e-5 * np.eye(3)):
            ends = [functions.at(places_at(here + end * step))[0] for end in (-1, 1)]
            assert slopes[:, axis] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-6)


def test_uphill_from_few_places_the_best_point_is_found() -> None:
    """Also in a corner of a cube of many dimensions, where no draw would hit it."""
    rng = np.random.default_rng(0)
    top = np.array([0.3, 0.6, 1.0, 0.0, 1.0, 1.0])
    slope = np.array([0.0, 0.0, 1.0, -1.0, 2.0, 1.0])
    points = rng.random((100, 6))
    values = points @ slope - 4 * ((points[:, :2] - top[:2]) ** 2).sum(axis=1)
    fitted = process(points, values, categories=(0,) * 6)
    places, step = rng.random((10, 6)), np.full(6, 0.05)
    guess = fitted.best_guess(places, 30, step)
    assert guess[2:].tolist() == top[2:].tolist()
    assert guess[:2] == pytest.approx(top[:2], abs=0.05)
    winners, _ = fitted.winners(fitted.draw_worlds(50, rng), places, 30, step)
    assert (winners[:, 2:] == top[2:]).mean() > 0.7  # some of the worlds are curved there
    assert abs(winners[:, :2] - top[:2]).mean() < 0.1
    assert places.min() > 0  # they were not moved
    assert places.max() < 1


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, 257])
def test_a_matrix_is_whitened_by_quarters(n: int) -> None:
    points = np.random.default_rng(0).random((n, 2))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    matrix = gaussian(gaps) + 1e-6 * np.eye(n)  # as badly conditioned as it gets
    whitening, log_det = _whitening(matrix)
    assert whitening @ matrix @ whitening.T == pytest.approx(np.eye(n), abs=1e-4)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-4)


@pytest.mark.parametrize("n_probes", [1000, 16])
def test_the_noise_is_read_off_the_data(n_probes: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((100, 2))
    values = np.sin(3 * points).sum(axis=1)
    assert process(points, values, n_probes=n_probes).noise < 0.01
    noisy = values + rng.normal(0, 2 * values.std(), 100)
    assert process(points, noisy, n_probes=n_probes).noise > 0.3
    alike = process(points, np.zeros(100), n_probes=n_probes)  # every setting is as likely
    assert alike.mean == pytest.approx(np.zeros(100))


def test_winners_tell_categories_apart() -> None:
    rng = np.random.default_rng(0)
    points, places = rng.random((60, 2)), rng.random((100, 2))
    for axis in (points, places):
        axis[:, 1] = (np.floor(axis[:, 1] * 3) + 0.5) / 3
    values = -((points[:, 0] - 0.5) ** 2) + 0.3 * (points[:, 1] == 0.5)
    fitted = process(points, values + rng.normal(0, 0.1, 60), categories=(0, 3))
    winners, _ = fitted.winners(fitted.draw_worlds(50, rng), places, 10, np.full(2, 0.1))
    assert np.mean(winners[:, 1] == 0.5) > 0.9
    assert set(winners[:, 1]) <= set(places[:, 1])  # a category is no slope to go up
    assert not set(winners[:, 0]) & set(places[:, 0])


def test_the_papers_algorithm_is_a_setting() -> None:
    """With no prior and no local ask, every point is the centre of a cell, if so desired."""
    space = {"x": FloatDistribution(0, 1)}
    sampler = PCTSSampler(
        local_share=0, prior_std=None, point="center", search_space=space, seed=0
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=40)
    for trial in study.trials:
        depth = trial.user_attrs["pcts:depth"]
        position = trial.params["x"] * 2 ** (depth + 1)  # odd multiples of half a cell
        assert position == pytest.approx(round(position), abs=1e-6)
        assert round(position) % 2 == 1


@pytest.mark.parametrize("direction", [StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE])
def test_bounds_of_the_objective_are_those_of_its_rewards(direction: StudyDirection) -> None:
    """The paper's rewards are in [0, 1] from the start."""
    study = optuna.create_study(
        direction=direction, sampler=PCTSSampler(reward=(-10, 10), local_share=0, seed=0)
    )
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5), n_trials=20)
    sign = 1 if direction == StudyDirection.MAXIMIZE else -1
    rewards = [(10 + sign * trial.values[0]) / 20 for trial in study.trials]
    _, tree = tree_of(study)
    root = next(tree.cells())
    assert root.mean == pytest.approx(np.mean(rewards))


@pytest.mark.parametrize("reward", ["range", (0.0, 98.0)])
def test_every_scale_of_rewards_finds_the_best(reward: str | tuple[float, float]) -> None:
    regrets = []
    for seed in range(5):
        study = optuna.create_study(sampler=PCTSSampler(reward=reward, seed=seed))
        study.optimize(
            lambda trial: sum((trial.suggest_float(n, -5, 5) - 2) ** 2 for n in "xy"), n_trials=80
        )
        regrets.append(study.best_value)
    assert np.median(regrets) < 1e-3  # without local asks it is 0.007 and 0.017


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


def test_a_discrete_space_is_searched_without_needless_repetition() -> None:
    space = {
        "n": IntDistribution(0, 19),
        "kind": CategoricalDistribution(["a", "b", "c", "d", "e"]),
    }
    study = optuna.create_study(sampler=PCTSSampler(seed=0, search_space=space))
    study.optimize(
        lambda t: (
            abs(t.suggest_int("n", 0, 19) - 13)
            + ["a", "b", "c", "d", "e"].index(t.suggest_categorical("kind", list("abcde")))
        ),
        n_trials=80,
    )
    different = {(t.params["n"], t.params["kind"]) for t in study.trials}
    assert study.best_value == 0
    assert len(different) > 40
