"""Local asks: points drawn from where the best one may be, for a share of the asks.

A tree of cells finds the right region and then narrows it one side at a time. A normal
distribution over where the best point may be narrows all sides at once, along whatever direction
the objective is flat. Its points are located in the tree like any other trial's, so the
statistics stay those of the cells; the rest of the asks keeps the tree's guarantee, at a fixed
share of its trials.
"""

from __future__ import annotations

from collections.abc import Sequence
import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._process import gaussian
from optuna_pcts._process import matern
from optuna_pcts._process import Process
from optuna_pcts._process import reflected
from optuna_pcts._tree.refit import Checkpoint
from optuna_pcts._tree.refit import Reference
from optuna_pcts._tree.repeats import places_of
from optuna_pcts._tree.repeats import real_share
from optuna_pcts._tree.repeats import repeats_of
from optuna_pcts._tree.tree import Told
from optuna_pcts._tree.tree import Tree


# The trials that the distribution is fitted to: the best eighth, two to ten per parameter. More
# would not be local any more in a study that has many trials of others.
_ELITE_SHARE = 1 / 8
_ELITE_PER_DIM = (2, 10)
# How many of the unordered coordinates of a point are drawn from all their values, on average:
# the best trials may all have the same one, and never try another.
_MUTATIONS = 0.5
# How the best are told from the lucky ones: so many of the best values are candidates, so many
# trials tell about them, with a coarse choice of settings. It is done often.
_N_CANDIDATES = 40
_N_DATA = 256
_N_PROBES = 128
_LENGTHS = (1.5, 5.0, 16.0)
_NOISES = (1e-6, 1e-4, 3e-3, 0.03, 0.3, 3.0)
# A failure says to keep away. How bad it is relative to values is not known; this is as far below
# the median as the best is above it.
_FAILED = -1.0
# The best point is sought among so many, drawn around the best trials wider than these lie, in so
# many worlds that the data allow. It may be on a face of the cube. The more of what is seen is
# noise, the further away it may be: so much wider without noise, and if there is nothing else.
# From there it is uphill: with many parameters draws are sparse. So many looks at the slope, the
# first step this part of the best trials' spread.
_N_PLACES = 150
_CLOUD = (1.5, 3.5)
_N_WORLDS = 24
_N_LOOKS = 16
_FIRST_STEP = 0.2
# If more than this share of the winners lies on a face of the cube, points are drawn on it.
_ON_FACE = 0.5
# The distribution of where it is stays so wide at least, relative to that of the best trials.
_LEAST_SPREAD = 0.1
# Every other point is drawn so much more closely, around the best guess: that distribution is as
# wide as what is not known.
_AT_GUESS = 0.3
# Under noise a top is found from its sides, not from its middle: after so many trials per
# parameter every third point is drawn from as far away as costs this much on average, in standard
# deviations of the noise. So many steps tell how far that is.
_AT_SIDE = 1 / 3
_SETTLED_PER_DIM = 10
_SIDE = 3.0
_N_SIDES = 32
# With so many trials per parameter a draw of the distribution costs next to nothing, and tells as
# little: it is stretched until a draw costs this much on average.
_SURE_PER_DIM = 75
_LEAST_LOSS = 1.0
# If so much of what is seen may be noise, the best trials are asked again: one after so many
# trials, up to so many. What of it is real after all makes a function rugged, if it is so much.
_NOISY = 0.01
_TRIALS_PER_REPEAT = 12
_N_REPEATS = 4
_RUGGED = 0.5
# Then this share of the local asks moves one of so many best trials, mostly the first, a step so
# long: along one axis with this probability, otherwise along a second one with the same, and so
# on.
_AT_BASES = 0.9
_ONE_AXIS = 0.6
_N_BASES = 4
_BASE_RANK = 0.5
_FAR_STEP = 0.2
# Points are on two hills if the gap between them is so many times as wide as they spread.
_APART = 4.0
# The best trials may all be on one hill, and another one be higher. From so many trials all over
# the cube it is uphill to other hills, with a first step this part of how far trials spread.
_N_STARTS = 32
_FIRST_STEP_AFAR = 0.1
# It is fitted anew when the number of ended trials has grown by this factor; once there are more
# than it can take in, by the second one: every worker fits it for itself.
_GROWTH = 17 / 16
_LATE_GROWTH = 9 / 8


class Drawn(NamedTuple):
    """A point to ask."""

    point: list[float]  # of the cube
    at_guess: bool  # where the answer would be if it were given now
    is_repeat: bool = False  # the very point of a trial, once more


class _Where(NamedTuple):
    """Where the best point may be."""

    hills: list[Elite]  # one if the data leave no doubt on which one it is
    shares: FloatArray  # how probable each of them is
    guess: Elite
    width: float  # how many times as wide as these hills points are drawn
    side: float | None  # how many times as far away as the guess may be off its sides are
    bases: FloatArray  # the best trials, if the function is rugged; none otherwise


class LocalSearch:
    """Draws points around the best trials of a tree.

    Args:
        tree:
            The tree.
        categories:
            For each axis the number of its unordered values, or 0 if it is ordered.
        slots:
            For each axis the width of the slot of one value, or 0 if it is continuous.
    """

    def __init__(self, tree: Tree, categories: Sequence[int], slots: Sequence[float]) -> None:
        self._tree = tree
        self._categories = np.array(categories)
        self._slots = np.array(slots)
        self._checkpoint = Checkpoint(_GROWTH, late=_N_DATA, late_growth=_LATE_GROWTH)
        self._fitted_to: tuple[Reference, Reference] | None = None
        self._where: _Where | None = None
        self._again: list[int] = []  # trials whose values nothing else speaks for

    def draw(self, rng: np.random.Generator, off_corners: bool = False) -> Drawn | None:
        """Return a point of the cube, or None while there are too few trials to go by.

        Args:
            rng:
                A generator.
            off_corners:
                Whether to keep off the corners of the cube, and off what is to be asked again:
                somebody else may be asking the same.
        """
        reference = self._tree.reference(self._checkpoint)
        # Which values are the best also depends on what their fidelities are worth.
        fitted_to = (reference, self._tree.learned_from())
        if fitted_to != self._fitted_to:
            self._fitted_to = fitted_to
            self._where = None  # if this fails, it does so once for the same trials
            told = self._tree.told(reference)
            self._again = told.numbers[told.is_outlier].tolist()
            enough = len(told.points) >= _ELITE_PER_DIM[0] * len(self._slots)
            if enough:
                self._where = self._fit(told)
        again = self._to_repeat()
        if again is not None and not off_corners:
            return Drawn(again, at_guess=True, is_repeat=True)
        if self._where is None:
            return None
        hills, shares, guess, width, side, bases = self._where
        if len(bases) and rng.random() < _AT_BASES:
            return Drawn(self._along_some_axes(bases, rng).tolist(), at_guess=False)
        at_side = side is not None and rng.random() < _AT_SIDE
        at_guess = not at_side and rng.random() < 0.5
        if at_side or at_guess:
            elite, width = guess, _AT_GUESS if side is None or at_guess else side
        else:
            elite = hills[rng.choice(len(hills), p=shares)]
        point, donor = elite.draw(rng, width)
        if not at_side:
            point = self._on_faces(point, elite, rng, off_corners or not at_guess)
        unordered = self._categories > 0
        if unordered.any():
            chance = _MUTATIONS / np.count_nonzero(unordered)
            mutant = rng.random(len(point)) < min(chance, _MUTATIONS / 2)
            point = np.where(unordered, np.where(mutant, rng.random(len(point)), donor), point)
        return Drawn(point.tolist(), at_guess)

    def _along_some_axes(self, bases: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one of the best points moved far along few axes (as DDS: Tolson, 2007).

        Where neighbours say nothing, what is good about a point is most of its coordinates.
        """
        n_dims = len(self._slots)
        rank = min(int(rng.exponential(_BASE_RANK)), len(bases) - 1)
        n_moved = min(int(rng.geometric(_ONE_AXIS)), n_dims)
        moved = np.isin(np.arange(n_dims), rng.choice(n_dims, n_moved, replace=False))
        step = np.maximum(_FAR_STEP, self._slots) * rng.standard_normal(n_dims)
        point = np.where(moved, reflected(bases[rank] + step), bases[rank])
        return np.where(moved & (self._categories > 0), rng.random(n_dims), point)

    @property
    def is_rugged(self) -> bool:
        """Whether neighbours say little about a point, and it is not noise."""
        return self._where is not None and len(self._where.bases) > 0

    def _to_repeat(self) -> list[float] | None:
        """Return the point of a trial that is to be evaluated once more, if there is one."""
        for number in self._again:
            if number in self._tree and self._tree.n_at(number) == 1:
                return self._tree.point(number)
        return None

    def _on_faces(
        self, point: FloatArray, elite: Elite, rng: np.random.Generator, off_corners: bool
    ) -> FloatArray:
        """Return a point moved onto the faces that most of the best points lie on."""
        moved = (elite.on_face > _ON_FACE) & (rng.random(len(point)) < elite.on_face)
        continuous = np.flatnonzero(self._slots == 0)
        if off_corners and len(continuous) and moved[continuous].all():
            moved[rng.choice(continuous)] = False
        return np.where(moved, elite.face, point)

    def _fit(self, told: Told) -> _Where:
        """Fit distributions to where the best point may be, and around the best guess.

        Under noise the best values are the luckiest ones, and a distribution fitted to them is as
        wide as the noise, however many trials there are. A Gaussian process tells them apart, and
        says where around them it may be better still.
        """
        points, rewards, bias = told.points, told.rewards, told.bias
        n, n_dims = points.shape
        least, most = (per_dim * n_dims for per_dim in _ELITE_PER_DIM)
        size = min(max(int(n * _ELITE_SHARE), least), most, n)
        # What may be biased is not among the best unless it is clearly better. Of equals the
        # newest: on a plateau the oldest would hold the distribution where it is.
        best = np.lexsort((-np.arange(n), -(rewards - 2 * bias)))
        has_value = rewards > -np.inf
        candidates = best[has_value[best]][: max(min(_N_CANDIDATES, n // 2), size)]
        weights = np.log(size + 0.5) - np.log(np.arange(1, size + 1))
        if len(candidates) < size:
            elite = Elite(points[best[:size]], self._slots, weights)
            return _Where([elite], np.ones(1), elite, 1.0, None, points[:0])
        # Of a function as smooth as can be, and of what is far away, few trials say more than is
        # true.
        settled = n >= _SETTLED_PER_DIM * n_dims
        process = Process(
            points,
            np.where(has_value, rewards, _FAILED),
            (0.0, 1.0),  # the median and the best, by the scale of rewards
            bias,
            np.ones(n, dtype=bool),
            self._categories.tolist(),
            candidates=candidates,
            n_data=_N_DATA,
            kernels=(matern, gaussian) if settled else (matern,),
            lengths=_LENGTHS,
            noises=_NOISES,
            n_probes=_N_PROBES,
            has_relevance=True,
        )
        order = np.argsort(-process.mean, kind="stable")[:size]
        valued = np.flatnonzero(has_value)
        at = places_of(points[valued], np.maximum(self._slots, 1e-9) / 4)
        again, before = repeats_of(at)
        if process.noise > _NOISY:
            n_due = max(min(n // _TRIALS_PER_REPEAT, _N_REPEATS) - len(again), 0)
            repeated = valued[np.concatenate([again, before])]
            fresh = candidates[order][~np.isin(candidates[order], repeated)]
            self._again += told.numbers[fresh[:n_due]].tolist()
        differences = rewards[valued[again]] - rewards[valued[before]]
        real = real_share(process.noise_variance, differences)
        is_rugged = process.noise > _NOISY and real is not None and real > _RUGGED
        best_points = points[candidates[order]]
        elite = Elite(best_points, self._slots, weights)
        rng = np.random.default_rng(n)  # the same in all workers
        cloud = _CLOUD[0] + (_CLOUD[1] - _CLOUD[0]) * process.noise
        unordered = np.flatnonzero(self._categories)
        places = elite.cloud(_N_PLACES, cloud, rng, unordered)
        step = _FIRST_STEP * elite.std
        worlds = process.draw_worlds(_N_WORLDS, rng)
        winners, heights = process.winners(worlds, places, _N_LOOKS, step)
        guess = process.best_guess(places, _N_LOOKS, step)
        hills = self._hills(winners)
        # What few winners say about how wide a hill is, is little: it is not narrower than others.
        spread = np.maximum(_within(hills), _LEAST_SPREAD * _within(self._hills(best_points)))
        slots = np.maximum(self._slots, 2 * spread)
        elites = [Elite(hill, slots) for hill in hills]
        gaps = [(((hill - guess) / elite.std) ** 2).sum(axis=1).min() for hill in hills]
        around = elites[int(np.argmin(gaps))].moved_to(guess)
        shares = np.array([len(hill) for hill in hills]) / _N_WORLDS
        width, side = 1.0, None
        if settled:
            starts = _far_apart(points[has_value], guess, _N_STARTS)
            tops = process.tops(starts, _N_LOOKS, _FIRST_STEP_AFAR * points.std(axis=0))
            others, their_heights = process.winners(worlds, tops, _N_LOOKS, step)
            rivals = others[(their_heights > heights) & (elite.gap(others) > _APART)]
            elites += [around.moved_to(rival) for rival in rivals]
            shares = (1 - len(rivals) / _N_WORLDS) * shares
            shares = np.append(shares, np.full(len(rivals), 1 / _N_WORLDS))
            steps = around.steps(_N_SIDES, rng)
            steps[:, unordered] = 0.0
            side = process.reach(guess, steps, _SIDE)
            if n >= _SURE_PER_DIM * n_dims:
                width = max(1.0, process.reach(guess, steps, _LEAST_LOSS))
        best_few = points[candidates[:_N_BASES]] if is_rugged else points[:0]
        return _Where(elites, shares, around, width, side, best_few)

    def _hills(self, points: FloatArray) -> list[FloatArray]:
        """Return points in groups that lie apart, along a parameter or where they differ most."""
        ordered = np.flatnonzero(self._categories == 0)
        if len(points) < 3 or not len(ordered):
            return [points]
        unit = np.maximum(points[:, ordered].std(axis=0), 1e-9)
        scaled = (points[:, ordered] - points[:, ordered].mean(axis=0)) / unit
        main = np.linalg.svd(scaled, full_matrices=False)[2][0]
        lines = np.column_stack([scaled, scaled @ main])
        slots = np.append(self._slots[ordered] / unit, 0.0)
        widest, parts = _APART, None
        for x, slot in zip(lines.T, slots):
            order = np.argsort(x, kind="stable")
            k = int(np.argmax(np.diff(x[order]))) + 1
            halves = x[order[:k], None], x[order[k:], None]
            gap = (x[order[k]] - x[order[k - 1]]) / max(_within(halves)[0], slot, 1e-9)
            if gap > widest:
                widest, parts = gap, (np.sort(order[:k]), np.sort(order[k:]))
        if parts is None:
            return [points]
        return [hill for part in parts for hill in self._hills(points[part])]


def _within(groups: Sequence[FloatArray]) -> FloatArray:
    """Return the standard deviation along each axis from the means of the groups."""
    squares = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups)
    std: FloatArray = np.sqrt(squares / sum(map(len, groups)))
    return std


def _far_apart(points: FloatArray, first: FloatArray, count: int) -> FloatArray:
    """Return so many of the points, each as far as can be from those before it and a first one."""
    gaps = ((points - first) ** 2).sum(axis=1)
    chosen = []
    for _ in range(min(count, len(points))):
        chosen.append(int(np.argmax(gaps)))
        gaps = np.minimum(gaps, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen]


class Elite:
    """A normal distribution over the best points.

    Args:
        points:
            Positions in the unit cube, one row each.
        slots:
            Width of the slot of one value on each axis. The distribution never gets so narrow
            that a neighbouring value is out of reach.
        weights:
            How much each of them counts; all the same by default.

    Attributes:
        std:
            Its standard deviation along each axis.
        face, on_face:
            For each axis the face of the cube, 0 or 1, that more of the points lie on, and their
            share.
    """

    def __init__(
        self, points: FloatArray, slots: FloatArray, weights: FloatArray | None = None
    ) -> None:
        size, n_dims = points.shape
        self._hold(points, np.ones(size) if weights is None else weights)
        shift = (self._points - self._mean) * np.sqrt(self._weights)[:, None]
        covariance = shift.T @ shift
        # Few points say little about how two parameters go together.
        trust = size / (size + n_dims)
        variance = np.diag(covariance)
        covariance = trust * covariance + (1 - trust) * np.diag(variance)
        floor = np.maximum((slots / 2) ** 2, 1e-12 + 1e-9 * variance.sum())
        covariance[np.diag_indices(n_dims)] += np.maximum(floor - variance, 1e-9 * floor)
        self._factor = np.linalg.cholesky(covariance)
        self.std: FloatArray = np.sqrt(np.diag(covariance))

    def _hold(self, points: FloatArray, weights: FloatArray) -> None:
        self._points = points
        self._weights = weights / weights.sum()
        self._mean = self._weights @ points
        on_low, on_high = (points == 0).mean(axis=0), (points == 1).mean(axis=0)
        self.face: FloatArray = np.where(on_high > on_low, 1.0, 0.0)
        self.on_face: FloatArray = np.maximum(on_low, on_high)

    def moved_to(self, point: FloatArray) -> Elite:
        """Return the same distribution around one point."""
        moved = copy.copy(self)
        moved._hold(point[None, :], np.ones(1))
        return moved

    def gap(self, points: FloatArray) -> FloatArray:
        """Return how far away points are, in standard deviations (root mean square)."""
        gaps: FloatArray = np.sqrt((((points - self._mean) / self.std) ** 2).mean(axis=1))
        return gaps

    def steps(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ways from the middle."""
        drawn: FloatArray = rng.standard_normal((size, len(self._mean))) @ self._factor.T
        return drawn

    def draw(self, rng: np.random.Generator, width: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Draw a point of the cube, so many times as far away, and one of the best points."""
        # Reflected at the faces of the cube: clipped, many points would be the same corner.
        point = reflected(self._mean + width * self.steps(1, rng)[0])
        return point, self._points[rng.choice(len(self._points), p=self._weights)]

    def cloud(
        self, size: int, width: float, rng: np.random.Generator, unordered: NDArray[np.intp]
    ) -> FloatArray:
        """Return the best points and others around them, some on the faces of the cube."""
        points = np.clip(self._mean + width * self.steps(size, rng), 0.0, 1.0)
        donors = self._points[rng.choice(len(self._points), size, p=self._weights)]
        points[:, unordered] = donors[:, unordered]
        return np.concatenate([self._points, points])
