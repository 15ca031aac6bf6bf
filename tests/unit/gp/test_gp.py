"""The Gaussian process: fit, posterior mean and samples, linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from helpers import at_categories
import numpy as np
import pytest

from benchmarks.linear_algebra import by_inverse
from benchmarks.linear_algebra import by_numpy
from benchmarks.linear_algebra import by_substitution
from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.config import GPConfig
from optuna_pcts._gp.fit import GaussianProcess
from optuna_pcts._gp.fit import winsorised
from optuna_pcts._gp.kernels import gaussian
from optuna_pcts._gp.kernels import Kernel
from optuna_pcts._gp.kernels import matern
from optuna_pcts._gp.kernels import matern_slope
from optuna_pcts._gp.linalg import whitening
from optuna_pcts._gp.places import distances
from optuna_pcts._gp.places import Places
from optuna_pcts._gp.posterior import Functions
from optuna_pcts._gp.posterior import Posterior
from optuna_pcts._gp.setting import Choice
from optuna_pcts._gp.setting import Setting


def process(
    points: FloatArray,
    values: FloatArray,
    bias: float = 0.0,
    kernel: Kernel = matern,
    categories: Sequence[int] = (0, 0),
    lengths: Sequence[float] = (0.5, 2.0, 8.0),
    noises: Sequence[float] = (1e-6, 0.1, 1.0),
    n_probes: int = 1000,
    learns_ard: bool = False,
) -> GaussianProcess:
    n = len(points)
    return GaussianProcess(
        points,
        values,
        (float(np.median(values)), float(values.max())),
        np.full(n, bias),
        categories,
        candidates=np.arange(n),
        config=GPConfig(
            n_data=n,
            kernels=(kernel,),
            lengths=tuple(lengths),
            noises=tuple(noises),
            n_probes=n_probes,
            learns_ard=learns_ard,
        ),
    )


def test_ard_weights_are_learned() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((80, 4))
    kinds = np.floor(points[:, 3] * 3)  # a category that matters, one that does not, ...
    values = np.sin(6 * points[:, 0]) + (kinds == 1) + rng.normal(0, 0.1, 80)
    fitted = process(points, values, categories=(0, 0, 3, 3), n_probes=60, learns_ard=True)
    _, (first, second, other_kind, kind) = fitted.ard_weights
    assert first > 3 * second
    assert kind > 3 * other_kind
    unlearned = process(points, values, categories=(0, 0, 3, 3))
    truth = np.sin(6 * points[:, 0]) + (kinds == 1)
    errors = [float(np.std(p.mean - truth)) for p in (fitted, unlearned)]
    assert errors[0] < 0.8 * errors[1]


def test_learned_ard_weights_count_only_if_the_data_need_it() -> None:
    """Otherwise a flat top is fitted as a slope, whose maximum is at the end of an axis."""
    rng = np.random.default_rng(0)
    points = rng.random((60, 2))
    shares = []
    for weights in ([1, 1], [1, 0]):
        values = np.sin(6 * points @ weights) + rng.normal(0, 0.1, 60)
        fitted = process(
            points, values, lengths=np.geomspace(0.2, 5, 12).tolist(), learns_ard=True
        )
        learned = np.array([s.choice.ard for s in fitted.settings]) == 1
        shares.append(float(fitted.shares[learned].sum()))
    assert shares[0] < 0.2
    assert shares[1] > 0.8


def test_values_far_below_may_be_winsorised() -> None:
    values, config = np.array([1.0, 0.0, -4.0, -9.0, -1e4]), GPConfig(far=5.0)
    alone, step = winsorised(values[:3], 0.0, 1.0, config), 1e-3
    assert [taken.tolist() for taken, _ in alone] == [values[:3].tolist()]
    (same, no_slope), (taken, log_slope) = winsorised(values, 0.0, 1.0, config)
    assert same.tolist() == values.tolist()
    assert not no_slope.any()
    assert taken[:3].tolist() == values[:3].tolist()
    assert -6 < taken[4] < taken[3] < -5  # in their order, by one range more at most
    ends = [winsorised(values + d, 0.0, 1.0, config)[1][0] for d in (-step, step)]
    slope = (ends[1] - ends[0])[:4] / (2 * step)
    assert np.log(slope) == pytest.approx(log_slope[:4], abs=1e-4)
    # What is too far is winsorised in any case, and cut off where the best is the median.
    assert len(winsorised(np.array([1.0, -1e9]), 0.0, 1.0, config)) == 1
    assert winsorised(values, 1.0, 1.0, config)[0][0].tolist() == [1.0] * 5


def test_the_slope_of_the_likelihood_is_right() -> None:
    rng = np.random.default_rng(0)
    points, values, noise = rng.random((30, 2)), rng.normal(size=30), 0.1
    axes = [(x[:, None] - x[None]) ** 2 for x in points.T]

    def setting(half_weight: float) -> tuple[Setting, FloatArray]:
        distance = np.sqrt(2 * half_weight * axes[0] + axes[1])
        covariance = matern(distance) + noise * np.eye(30)
        choice = Choice(0, matern, 1.0, noise)
        return Setting(choice, covariance, values), distance

    def likelihood(half_weight: float) -> float:
        found, _ = setting(half_weight)
        return float(found.likelihood + 0.5 * np.log(found.precision))  # not of the level

    middle, distance = setting(0.5)
    slope = (middle.slopes() * matern_slope(distance) * axes[0]).sum()
    steps = [likelihood(0.5 + d) for d in (-1e-4, 1e-4)]
    assert slope == pytest.approx((steps[1] - steps[0]) / 2e-4, rel=1e-3)


@pytest.mark.parametrize("kernel", [matern, gaussian])
def test_posterior_samples_are_drawn_with_their_probability(kernel: Kernel) -> None:
    """How often one point beats another, against the closed form."""
    rng = np.random.default_rng(0)
    points, values = rng.random((12, 2)), rng.normal(size=12)
    places = rng.random((2, 2))
    length, noise = 1.0, 0.3
    fitted = process(points, values, kernel=kernel, lengths=(length,), noises=(noise,))
    posterior, zero = Posterior(fitted), np.zeros(2)
    found = [
        posterior.maximizers(posterior.draw_samples(100, rng), places, 0, zero)[0]
        for _ in range(40)
    ]
    won = np.mean([(best == places[0]).all(axis=1) for best in found])

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


def test_maximizers_allow_for_noise_and_bias() -> None:
    rng = np.random.default_rng(0)
    points, places = rng.random((60, 2)), rng.random((200, 2))
    values = -4 * ((points - 0.4) ** 2).sum(axis=1) + rng.normal(0, 0.2, 60)
    spreads = []
    for bias in (0.0, 3.0):
        posterior = Posterior(process(points, values, bias))
        samples = posterior.draw_samples(100, rng)
        maximizers, _ = posterior.maximizers(samples, places, 0, np.zeros(2))
        spreads.append(float(((maximizers - 0.4) ** 2).sum(axis=1).mean()))
    assert spreads[0] < 0.02
    assert spreads[1] > 2 * spreads[0]


def test_categories_are_corners_that_are_equally_far_apart() -> None:
    rng = np.random.default_rng(0)
    categories = (4, 0, 1000)
    points = at_categories(rng, 50, categories)
    fitted = process(points, rng.normal(size=50), categories=categories)
    weights = np.array([3.0, 0.5, 0.25])  # what is ordered comes first
    fresh = np.concatenate([points, at_categories(rng, 20, categories)])
    places = fitted.embed(fresh) * weights
    one_hot = [
        weight * np.sqrt(2) * (np.floor(fresh[:, i, None] * k) == np.arange(k))
        for i, k, weight in ((0, 4, 0.5), (2, 1000, 0.25))
    ]
    unit = points[:, 1].std()
    coordinates = np.concatenate([3 * fresh[:, [1]] / unit, *one_hot], axis=1)
    expected = np.linalg.norm(coordinates[:, None] - coordinates[:50][None], axis=2)
    assert distances(places, places[np.arange(50)]) == pytest.approx(expected)
    # Fourier features have coordinates for these corners, not for all thousand categories.
    n_codes = len(np.unique(points[:, 0])) + len(np.unique(points[:, 2])) + 1
    assert places.n_codes == n_codes
    corners, vectors = np.eye(n_codes), rng.normal(size=(places.n_coordinates, 3))
    there = np.concatenate(
        [
            places.ordered,
            (corners[places.codes] * places.apart[:, None] / np.sqrt(2)).sum(axis=1),
        ],
        axis=1,
    )
    assert places.along(vectors) == pytest.approx(there @ vectors)


@pytest.mark.parametrize("kernel", [matern, gaussian])
def test_the_slope_of_a_posterior_sample_is_right(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    values, codes = (
        rng.normal(size=20),
        np.column_stack([np.arange(20) % 3, 3 + np.arange(20) % 2]),
    )

    def places_at(x: FloatArray) -> Places:
        return Places(x, codes[: len(x)], np.array([1.5, 0.7]), 5)

    places = places_at(rng.normal(size=(20, 3)))
    choice = Choice(0, kernel, 1.7, 0.1)
    signal = kernel(distances(places, places) / 1.7)
    setting = Setting(choice, signal + 0.1 * np.eye(20), values)
    for functions in (
        Functions.draw(setting, places, values, np.full(20, 0.2), 128, 4, rng),
        Functions.mean(setting, places),
    ):
        count = functions.values(places).shape[1]
        here = rng.normal(size=(count, 3))
        at_its_own, slopes = functions.at(places_at(here))
        everywhere = functions.values(places_at(here))
        assert at_its_own == pytest.approx(np.diag(everywhere))
        for axis, step in enumerate(1e-5 * np.eye(3)):
            ends = [functions.at(places_at(here + end * step))[0] for end in (-1, 1)]
            assert slopes[:, axis] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-6)


def test_gradient_ascent_from_few_places_finds_the_best_point() -> None:
    """Also in a corner of a cube of many dimensions, where random points never are."""
    rng = np.random.default_rng(0)
    top = np.array([0.3, 0.6, 1.0, 0.0, 1.0, 1.0])
    slope = np.array([0.0, 0.0, 1.0, -1.0, 2.0, 1.0])
    points = rng.random((100, 6))
    values = points @ slope - 4 * ((points[:, :2] - top[:2]) ** 2).sum(axis=1)
    posterior = Posterior(process(points, values, categories=(0,) * 6))
    places, step = rng.random((10, 6)), np.full(6, 0.05)
    argmax = posterior.mean_argmax(places, 30, step)
    assert argmax[2:].tolist() == top[2:].tolist()
    assert argmax[:2] == pytest.approx(top[:2], abs=0.05)
    maximizers, _ = posterior.maximizers(posterior.draw_samples(50, rng), places, 30, step)
    assert (maximizers[:, 2:] == top[2:]).mean() > 0.7  # some of the samples are curved there
    assert abs(maximizers[:, :2] - top[:2]).mean() < 0.1
    assert places.min() > 0  # they were not moved
    assert places.max() < 1


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, 257])
def test_a_matrix_is_whitened_by_quarters(n: int) -> None:
    points = np.random.default_rng(0).random((n, 2))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    matrix = gaussian(gaps) + 1e-6 * np.eye(n)  # as badly conditioned as it gets
    w, log_det = whitening(matrix)
    assert w @ matrix @ w.T == pytest.approx(np.eye(n), abs=1e-4)
    assert log_det == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-4)


@pytest.mark.parametrize("n", [64, 150])
def test_the_alternatives_in_the_benchmark_solve_the_same_systems(n: int) -> None:
    points, columns = np.random.default_rng(0).random((2, n, 3))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    matrix = matern(gaps) + 0.1 * np.eye(n)
    for way in (by_inverse, by_substitution, by_numpy):
        whiten, solve = way(matrix)
        assert matrix @ solve(columns) == pytest.approx(columns)
        assert whiten(columns) == pytest.approx(whitening(matrix)[0] @ columns)


@pytest.mark.parametrize("n_probes", [1000, 16])
def test_the_noise_is_estimated_from_the_data(n_probes: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((100, 2))
    values = np.sin(3 * points).sum(axis=1)
    assert process(points, values, n_probes=n_probes).noise < 0.01
    noisy = values + rng.normal(0, 2 * values.std(), 100)
    assert process(points, noisy, n_probes=n_probes).noise > 0.3
    alike = process(points, np.zeros(100), n_probes=n_probes)  # every setting is as likely
    assert alike.mean == pytest.approx(np.zeros(100))


def test_maximizers_tell_categories_apart() -> None:
    rng = np.random.default_rng(0)
    points, places = rng.random((60, 2)), rng.random((100, 2))
    for axis in (points, places):
        axis[:, 1] = (np.floor(axis[:, 1] * 3) + 0.5) / 3
    values = -((points[:, 0] - 0.5) ** 2) + 0.3 * (points[:, 1] == 0.5)
    posterior = Posterior(process(points, values + rng.normal(0, 0.1, 60), categories=(0, 3)))
    samples = posterior.draw_samples(50, rng)
    maximizers, _ = posterior.maximizers(samples, places, 10, np.full(2, 0.1))
    assert np.mean(maximizers[:, 1] == 0.5) > 0.9
    assert set(maximizers[:, 1]) <= set(places[:, 1])  # a category has no slope
    assert not set(maximizers[:, 0]) & set(places[:, 0])
