"""Local asks: points drawn from where the best one may be, for a share of the asks.

A tree of cells finds the right region and then narrows it one side at a time. A normal
distribution over where the best point may be narrows all sides at once, along whatever direction
the objective is flat. Its points are located in the tree like any other trial's, so the
statistics stay those of the cells; the rest of the asks keeps the tree's guarantee, at a fixed
share of its trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._gp.fit import GaussianProcess
from optuna_pcts._gp.places import Active
from optuna_pcts._gp.places import reflected
from optuna_pcts._gp.places import spread_of
from optuna_pcts._gp.posterior import Posterior
from optuna_pcts._search.branches import around
from optuna_pcts._search.branches import Branches
from optuna_pcts._search.branches import in_branches
from optuna_pcts._search.config import LocalSearchConfig
from optuna_pcts._search.distribution import SearchDistribution
from optuna_pcts._search.modes import far_apart
from optuna_pcts._search.modes import modes_of
from optuna_pcts._search.modes import std_within
from optuna_pcts._tree.messages import Told
from optuna_pcts._tree.refit import Checkpoint
from optuna_pcts._tree.refit import Reference
from optuna_pcts._tree.repeats import places_of
from optuna_pcts._tree.repeats import real_share
from optuna_pcts._tree.repeats import repeats_of
from optuna_pcts._tree.tree import Tree


class Drawn(NamedTuple):
    """A point to ask."""

    point: list[float]  # of the cube
    at_guess: bool  # around the posterior mean argmax
    is_repeat: bool = False  # the very point of a trial, once more


class _Where(NamedTuple):
    """Where the best point may be."""

    modes: list[SearchDistribution]  # one if the data leave no doubt on which one it is
    shares: FloatArray  # how probable each of them is
    at_argmax: SearchDistribution  # around the argmax of the posterior mean
    flank: float | None  # the same for flanks, as wide as `at_argmax`
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
        active:
            Whether each axis exists at each of some points.
        config:
            The constants.
    """

    def __init__(
        self,
        tree: Tree,
        categories: Sequence[int],
        slots: Sequence[float],
        *,
        active: Active = lambda _: None,
        config: LocalSearchConfig | None = None,
    ) -> None:
        self._tree = tree
        self._active = active
        self._categories = np.array(categories)
        self._slots = np.array(slots)
        self._config = config or LocalSearchConfig()
        self._checkpoint = Checkpoint(
            self._config.growth, late=self._config.gp.n_data, late_growth=self._config.late_growth
        )
        self._fitted_to: tuple[Reference, Reference] | None = None
        self._where: _Where | None = None
        self._branches: Branches | None = None  # None: all axes always exist
        self._n_dims = len(self._slots)  # that a point has
        self._again: list[int] = []  # trials to be evaluated again: outliers, and the best

    def draw(self, rng: np.random.Generator, off_corners: bool = False) -> Drawn | None:
        """Return a point of the cube, or None while there are too few trials to go by.

        Args:
            rng:
                A generator.
            off_corners:
                Whether to keep off the corners of the cube, and off what is to be asked again:
                somebody else may be asking the same.
        """
        config = self._config
        self._refresh()
        again = self._to_repeat()
        if again is not None and not off_corners:
            return Drawn(again, at_guess=True, is_repeat=True)
        if self._where is None:
            return None
        modes, shares, at_argmax, flank, bases = self._where
        if len(bases) and rng.random() < config.at_bases:
            base = bases[min(int(rng.exponential(config.base_rank)), len(bases) - 1)]
            point = self._complete(self._along_some_axes(base, rng), base, rng)
            return Drawn(point.tolist(), at_guess=False)
        is_flank = flank is not None and rng.random() < config.flank_share
        at_guess = not is_flank and rng.random() < 0.5
        if is_flank or at_guess:
            drawn_from = at_argmax
            width = config.at_argmax if flank is None or at_guess else flank
        else:
            drawn_from, width = modes[rng.choice(len(modes), p=shares)], 1.0
        point, donor = drawn_from.draw(rng, width)
        if not is_flank:
            point = self._on_faces(point, drawn_from, rng, off_corners or not at_guess)
        unordered = self._categories > 0
        if unordered.any():
            existing = self._active(donor[None, :])
            n_unordered = int(np.sum(unordered if existing is None else unordered & existing[0]))
            chance = config.mutations / max(n_unordered, 1)
            mutant = rng.random(len(point)) < min(chance, config.mutations / 2)
            point = np.where(unordered, np.where(mutant, rng.random(len(point)), donor), point)
        return Drawn(self._complete(point, donor, rng).tolist(), at_guess)

    def _refresh(self) -> None:
        """Fit anew if it is time."""
        config, reference = self._config, self._tree.reference(self._checkpoint)
        # Which values are the best also depends on what their fidelities are worth.
        fitted_to = (reference, self._tree.learned_from())
        if fitted_to != self._fitted_to:
            self._fitted_to = fitted_to
            self._where = None  # if this fails, it does so once for the same trials
            told = self._tree.told(reference)
            self._again = told.numbers[told.is_outlier].tolist()
            self._branches = self._branches_of(told)
            if len(told.points) >= config.elite_per_dim[0] * self._n_dims:
                self._where = self._fit(told)

    def _complete(
        self, point: FloatArray, donor: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return a point with a position along axes that do not exist at its donor."""
        known = self._active(donor[None, :])
        if known is None or self._branches is None:
            return point
        return self._branches.filled(point, known[0], rng)

    def _along_some_axes(self, base: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one of the best points moved far along few axes (as DDS: Tolson, 2007).

        Where neighbours say nothing, what is good about a point is most of its coordinates.
        """
        config, n_dims = self._config, len(self._slots)
        existing = self._active(base[None, :])
        axes = np.arange(n_dims) if existing is None else np.flatnonzero(existing[0])
        n_moved = min(int(rng.geometric(config.one_axis)), len(axes))
        moved = np.isin(np.arange(n_dims), rng.choice(axes, n_moved, replace=False))
        step = np.maximum(config.far_step, self._slots) * rng.standard_normal(n_dims)
        point = np.where(moved, reflected(base + step), base)
        return np.where(moved & (self._categories > 0), rng.random(n_dims), point)

    @property
    def is_rugged(self) -> bool:
        """Whether the function is rugged, not noisy: neighbours carry little information."""
        self._refresh()
        return self._where is not None and len(self._where.bases) > 0

    def _to_repeat(self) -> list[float] | None:
        """Return the point of a trial that is to be evaluated once more, if there is one."""
        for number in self._again:
            if number in self._tree and self._tree.n_at(number) == 1:
                return self._tree.point(number)
        return None

    def _on_faces(
        self,
        point: FloatArray,
        drawn_from: SearchDistribution,
        rng: np.random.Generator,
        off_corners: bool,
    ) -> FloatArray:
        """Return a point moved onto the faces that most of the best points lie on."""
        on_face = drawn_from.on_face
        moved = (on_face > self._config.on_face) & (rng.random(len(point)) < on_face)
        continuous = np.flatnonzero(self._slots == 0)
        if off_corners and len(continuous) and moved[continuous].all():
            moved[rng.choice(continuous)] = False
        return np.where(moved, drawn_from.face, point)

    def _fit(self, told: Told) -> _Where:
        """Fit distributions to where the best point may be, and around the posterior mean argmax.

        Under noise the best observed values are biased by selection, and a distribution fitted to
        them is as wide as the noise, however many trials there are. A Gaussian process corrects
        for that, and says where around them it may be better still.
        """
        config = self._config
        points, rewards, bias = told.points, told.rewards, told.bias
        n, n_dims = len(points), self._n_dims
        least, most = (per_dim * n_dims for per_dim in config.elite_per_dim)
        size = min(max(int(n * config.elite_share), least), most, n)
        # What may be biased is not among the best unless it is clearly better. Of equals the
        # newest: on a plateau the oldest would hold the distribution where it is.
        best = np.lexsort((-np.arange(n), -(rewards - 2 * bias)))
        has_value = rewards > -np.inf
        candidates = best[has_value[best]][: max(min(config.n_candidates, n // 2), size)]
        weights = np.log(size + 0.5) - np.log(np.arange(1, size + 1))
        if len(candidates) < size:
            elite = SearchDistribution(points[best[:size]], self._slots, weights)
            return _Where([elite], np.ones(1), elite, None, points[:0])
        settled = n >= config.settled_per_dim * n_dims
        process = GaussianProcess(
            points,
            np.where(has_value, rewards, config.failed),
            (0.0, 1.0),  # the median and the best, by the scale of rewards
            bias,
            self._categories.tolist(),
            candidates=candidates,
            config=config.gp,
            active=self._active,
        )
        points = process.embed.filled(points)
        order = np.argsort(-process.mean, kind="stable")[:size]
        is_rugged = self._ask_again(told, candidates[order], process)
        elite = SearchDistribution(points[candidates[order]], self._slots, weights)
        rng = np.random.default_rng(n)  # the same in all workers
        posterior, unordered = Posterior(process), np.flatnonzero(self._categories)
        cloud = config.cloud[0] + (config.cloud[1] - config.cloud[0]) * process.noise
        if self._branches is None:
            starts = elite.cloud(config.n_starts, cloud, rng, unordered)
        else:
            starts = self._starts(
                points, best[has_value[best]], candidates[order], weights, cloud, rng
            )
        ascent = config.n_iterations, config.first_step * elite.std
        samples = posterior.draw_samples(config.n_samples, rng)
        maximizers, maxima = posterior.maximizers(samples, starts, *ascent)
        argmax = posterior.mean_argmax(starts, *ascent)
        groups = self._modes_of(maximizers)
        # What few samples say about how wide a mode is, is little: it is not narrower than others.
        elite_spread = std_within(self._modes_of(points[candidates[order]]))
        spread = np.maximum(std_within(groups), config.least_spread * elite_spread)
        slots = np.maximum(self._slots, 2 * spread)
        modes = [SearchDistribution(group, slots) for group in groups]
        at_argmax = self._nearest(modes, groups, argmax, elite).moved_to(argmax)
        shares = np.array([len(group) for group in groups]) / config.n_samples
        flank = None
        if settled:
            far_starts = far_apart(points[has_value], argmax, config.n_far_starts)
            far_step = config.far_first_step * points.std(axis=0)
            tops = posterior.modes(far_starts, config.n_iterations, far_step)
            others, their_maxima = posterior.maximizers(samples, tops, *ascent)
            rivals = others[(their_maxima > maxima) & (elite.gap(others) > config.apart)]
            modes += [at_argmax.moved_to(rival) for rival in rivals]
            shares = (1 - len(rivals) / config.n_samples) * shares
            shares = np.append(shares, np.full(len(rivals), 1 / config.n_samples))
            steps = at_argmax.steps(config.n_flank_steps, rng)
            steps[:, unordered] = 0.0
            flank = posterior.reach(argmax, steps, config.flank_loss)
        bases = points[candidates[: config.n_bases]] if is_rugged else points[:0]
        return _Where(modes, shares, at_argmax, flank, bases)

    def _ask_again(self, told: Told, best: NDArray[np.intp], process: GaussianProcess) -> bool:
        """Note which of the best trials are to be asked again; return whether it is rugged.

        What the process takes for noise may be ruggedness: replicates tell these apart.
        """
        config = self._config
        if process.noise <= config.noisy:
            return False
        valued = np.flatnonzero(told.rewards > -np.inf)
        at = places_of(told.points[valued], np.maximum(self._slots, 1e-9) / 4)
        again, before = (valued[rows] for rows in repeats_of(at))
        n_most = min(len(told.points) // config.trials_per_repeat, config.n_repeats)
        fresh = best[~np.isin(best, np.concatenate([again, before]))]
        self._again += told.numbers[fresh[: max(n_most - len(again), 0)]].tolist()
        real = real_share(process.noise_variance, told.rewards[again] - told.rewards[before])
        return real is not None and real > config.rugged

    def _modes_of(self, points: FloatArray) -> list[FloatArray]:
        is_ordered, active = self._categories == 0, self._active(points)
        if active is None:
            return modes_of(points, self._slots, np.flatnonzero(is_ordered), self._config.apart)
        modes = []
        for group, axes in in_branches(points, active):
            ordered = np.flatnonzero(is_ordered & axes)
            modes += modes_of(group, self._slots, ordered, self._config.apart)
        return modes

    # ------------------------------------------------------------------ branches

    def _branches_of(self, told: Told) -> Branches | None:
        """Return the branches of trials, and note how many axes a point has."""
        self._n_dims = len(self._slots)
        active = self._active(told.points)
        if active is None or not len(active):
            return None
        self._n_dims = int(np.ceil(active.sum() / len(active)))
        best = np.lexsort((-np.arange(len(active)), -told.rewards))[: self._config.n_known]
        return Branches(told.points[best], active[best], self._config)

    def _starts(
        self,
        points: FloatArray,
        best: NDArray[np.intp],
        elite: NDArray[np.intp],
        weights: FloatArray,
        cloud: float,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Return where ascents begin: around the elite, and around the best of each branch."""
        active = self._active(points)
        assert active is not None
        _, first = np.unique(active[best], axis=0, return_index=True)
        others = np.setdiff1d(best[first], elite)
        donors = np.concatenate([elite, others])
        shares = np.full(len(donors), weights.sum() / 4 / max(len(others), 1))
        shares[: len(elite)] = weights
        std = cloud / np.sqrt(2) * spread_of(points[elite], active[elite])
        unordered = np.flatnonzero(self._categories)
        return around(points[donors], shares, std, self._config.n_starts, rng, unordered)

    def _nearest(
        self,
        modes: Sequence[SearchDistribution],
        groups: Sequence[FloatArray],
        argmax: FloatArray,
        elite: SearchDistribution,
    ) -> SearchDistribution:
        """Return the mode that is nearest to a point, and in its branch."""
        gaps = [(((group - argmax) / elite.std) ** 2).sum(axis=1).min() for group in groups]
        all_points = np.concatenate([argmax[None, :], *(group[:1] for group in groups)])
        active = self._active(all_points)
        if active is not None:
            is_apart = (active[1:] != active[0]).any(axis=1)
            if is_apart.all():
                return elite
            gaps = np.where(is_apart, np.inf, gaps).tolist()
        return modes[int(np.argmin(gaps))]
