"""Statistics of the cells: rewards summed up the path, and from them the bounds and Bmin."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.feasibility import Feasibility
from optuna_pcts._tree.fidelity import BiasModel
from optuna_pcts._tree.messages import Told
from optuna_pcts._tree.partition import Partition
from optuna_pcts._tree.partition import Splitter
from optuna_pcts._tree.policies import NodeStatistics
from optuna_pcts._tree.policies import Policy
from optuna_pcts._tree.prior import AdditiveModel
from optuna_pcts._tree.refit import Checkpoint
from optuna_pcts._tree.refit import Ended
from optuna_pcts._tree.refit import Reference
from optuna_pcts._tree.rewards import Reward
from optuna_pcts._tree.rewards import Rewards


# What is taken from all trials at once (the reward scale, the prior) is taken anew when their
# number has grown by this factor.
_GROWTH = 1.25
# What is subtracted from a bound to put it after all others, without losing their order.
_LAST = 1e6


class Statistics(Partition):
    """Cells with the statistics of the trials inside them, and their bounds.

    Args:
        splitter:
            How cells are cut.
        policy:
            The bandit that bounds each cell's reward.
        instances:
            Returns (nu, rho) of each smoothness instance, for a number of axes.
        prior_std:
            How many standard deviations above the prior a cell without feedback is taken to be.
            None: infinitely many, as in the paper.
        bias:
            What values at less than full fidelity are worth.
        reward:
            How values become rewards: "clipped", "range", or the values of rewards 0 and 1.
    """

    def __init__(
        self,
        splitter: Splitter,
        policy: Policy,
        instances: Callable[[int], Sequence[tuple[float, float]]],
        prior_std: float | None = None,
        bias: BiasModel | None = None,
        reward: str | tuple[float, float] = "clipped",
    ) -> None:
        n_dims = len(splitter.tolerance)
        is_flat = splitter.active(np.empty((0, n_dims))) is None
        # A column for each number of axes that a cell may have; where all always exist, one.
        found = [instances(max(n, 1)) for n in range(n_dims + 1)] if not is_flat else []
        found = found or [instances(n_dims)]
        if len(set(map(len, found))) > 1:
            raise ValueError(
                "With conditional parameters `smoothness` must have as many instances for any "
                f"number of parameters, but has {sorted(set(map(len, found)))}."
            )
        table = np.array(found)
        super().__init__(splitter, table.shape[1])
        self._policy = policy
        self._nu, self._rho = table.transpose(2, 1, 0)
        self._dirty: set[int] = set()  # nodes whose b_min must be computed anew
        self._partial: set[int] = set()  # trials with unknown coordinates
        self._log_t = 0.0
        self._rewards = Rewards(reward, BiasModel() if bias is None else bias)
        self._prior_std = prior_std
        self._prior: AdditiveModel | None = None
        self._checkpoint = Checkpoint(_GROWTH)
        self._learned_from: Reference | None = None
        self._ended = Ended()
        self._feasibility = Feasibility()
        self._is_exact = False  # as far as replicates can tell
        self._replicated = False  # since that was decided

    @property
    def n_asked(self) -> int:
        """Number of trials in the tree, told back or not (the paper's t)."""
        return int(self._nodes.n_asked[0])

    @property
    def n_told(self) -> int:
        return int(self._nodes.n_told[0])

    def reference(self, checkpoint: Checkpoint) -> Reference:
        """Return which of the trials to learn from: those that ended first, up to a checkpoint."""
        return Reference(
            checkpoint.below(int(self._nodes.n_ended[0])),
            self._ended.n_revisions,
            self._feasibility.is_wanting,
        )

    def _rows(self, reference: Reference) -> NDArray[np.intp]:
        """Return the numbers of the trials of a reference, ascending."""
        return self._ended.first(reference, self._trials.ended, self._trials.ended_at)

    def learned_from(self) -> Reference:
        """Return the trials that the scale, the prior and the bias are learned from."""
        reference = self.reference(self._checkpoint)
        if reference != self._learned_from:
            self.refresh()
        return reference

    def told(self, reference: Reference) -> Told:
        """Return what the trials of a reference tell.

        The rewards are those to be expected at full fidelity, which may be off by the bias. Here
        the median is 0 and the best 1 in any case; what is worse is less than 0, and a failure
        minus infinity.
        """
        rows, rewards = self._located(reference), self._rewards
        points, fidelity = self._trials.point[:, rows].T, self._fidelities(rows)
        values = self._feasibility.worths(rows, self._trials.value[rows])
        expected, is_outlier = rewards.believable(values, fidelity, points, self._tolerance)
        return Told(
            rows, points, rewards.local(expected), rewards.local_zeta(fidelity), is_outlier
        )

    @property
    def has_nothing_left(self) -> bool:
        """Whether many trials are as good as the best, up to rounding."""
        self.learned_from()
        return self._rewards.has_nothing_left

    def _located(self, reference: Reference) -> NDArray[np.intp]:
        """Return the trials of a reference that are known with every coordinate."""
        rows = self._rows(reference)
        return rows[~np.isnan(self._trials.point[:, rows]).any(axis=0)]

    def rewards(self) -> dict[int, float]:
        """Return the reward of each trial that has ended, by its number."""
        self.refresh()
        rows = np.flatnonzero(self._trials.ended[: self._trials.length])
        return dict(zip(rows.tolist(), self._rewards.of(self._expected(rows)).tolist()))

    def fidelity(self, depth: int, n_active: int) -> float:
        """Return the fidelity z_h of a cell: the lowest whose bias is within the diameter."""
        diameter = self._diameter(np.array([depth]), np.array([n_active]))[0]
        return self._rewards.fidelity(float(diameter))

    def _diameter(self, depth: Any, n_active: Any) -> Any:
        """Return the diameter, in rewards, that the fidelity goes by: that of one instance."""
        nu, rho = self._smoothness(n_active)
        i = len(nu) // 2
        return nu[i] * rho[i] ** depth

    def _smoothness(self, n_active: Any) -> tuple[FloatArray, FloatArray]:
        """Return nu and rho of cells with some numbers of axes, a row per instance."""
        if self._nu.shape[1] == 1:
            return self._nu, self._rho
        return self._nu[:, n_active], self._rho[:, n_active]

    def _count_told(self, number: int, sign: int) -> None:
        nodes = self._nodes
        reward, bias, merit = self._reward(number)
        path = self._path(int(self._trials.node[number]))
        self._replicated |= bool(nodes.final[path[0]])
        rows = np.array(path)
        nodes.n_told[rows] += sign
        nodes.n_ended[rows] += sign * int(self._trials.ended[number])
        nodes.total[rows] += sign * reward
        nodes.square[rows] += sign * reward * reward
        nodes.merit[rows] += sign * merit
        if bias:
            nodes.bias[rows] += sign * bias
        self._dirty.update(path)

    def _split(self, node: int, lower: list[float], upper: list[float]) -> None:
        super()._split(node, lower, upper)
        first = int(self._nodes.first_child[node])
        end = first + int(self._nodes.n_children[node])
        self._dirty.update(range(first, end), self._path(node))

    def _hand_down(self, number: int, child: int) -> None:
        nodes, trials = self._nodes, self._trials
        if trials.told[number]:
            reward, bias, merit = self._reward(number)
            nodes.n_told[child] += 1
            nodes.n_ended[child] += trials.ended[number]
            nodes.total[child] += reward
            nodes.square[child] += reward * reward
            nodes.bias[child] += bias
            nodes.merit[child] += merit

    def _reward(self, number: int) -> Reward:
        """Return what a trial tells its cells."""
        trials = self._trials
        fidelity = 1.0 if self._feasibility.is_wanting else float(trials.fidelity[number])
        return self._rewards.of_one(float(trials.believed[number]), fidelity)

    def _expected(self, rows: NDArray[np.intp]) -> FloatArray:
        """Return the values that trials would have at full fidelity, as far as is known."""
        return self._rewards.expected(self._trials.believed[rows], self._fidelities(rows))

    def _fidelities(self, rows: NDArray[np.intp]) -> FloatArray:
        """Return those of trials' values; how much they violate constraints has none."""
        fidelities: FloatArray = self._trials.fidelity[rows]
        return np.ones(len(rows)) if self._feasibility.is_wanting else fidelities

    def _learn(self) -> bool:
        """Take the reward scale and the prior anew, if it is time; return whether they moved.

        A scale that followed every value would change every statistic with every trial.
        """
        reference = self.reference(self._checkpoint)
        if reference == self._learned_from:
            return False
        self._learned_from = reference
        rows, trials = self._rows(reference), self._trials
        self._feasibility.learn(rows.tolist())
        everybody = np.arange(trials.length)
        values = self._feasibility.worths(everybody, trials.value[: trials.length])
        trials.believed[: trials.length] = values
        trials.believed[rows] = self._rewards.learn(
            rows,
            values[rows],
            self._fidelities(rows),
            trials.point[:, rows].T,
            self._tolerance,
            np.argsort(trials.ended_at[rows], kind="stable"),
            are_values=not reference.is_wanting,
        )
        if self._prior_std is not None:
            rows = self._located(reference)
            points, rewards = trials.point[:, rows].T, self._rewards.of(self._expected(rows))
            active = self._splitter.active(points)
            n_dims = self._n_dims
            if active is not None and len(points):
                n_dims = math.ceil(active.sum() / len(points))
            enough = len(points) >= AdditiveModel.n_trials_needed(n_dims)
            self._prior = (
                AdditiveModel(points, rewards, self._splitter.categories, active)
                if enough
                else None
            )
        return True

    def refresh(self) -> None:
        """Bring every b_min up to date: along the changed paths, or all in one pass."""
        # log t is that of the last power of two, so that time alone changes no bound: an ask and
        # a tell touch one path.
        log_t = math.log(2) * (max(self.n_asked, 1).bit_length() - 1)
        moved = self._learn()
        if moved:
            self._accumulate()
        if moved or self._replicated:
            self._replicated = False
            is_exact = self._replicates_agree()
            moved |= is_exact != self._is_exact
            self._is_exact = is_exact
        if moved or log_t != self._log_t or len(self._dirty) * 8 > self.n_nodes:
            self._log_t = log_t
            self._update_all_b_min()
        elif self._dirty:
            # Children stand after their parents, so descending order is bottom-up.
            self._update_b_min(sorted(self._dirty, reverse=True))
        self._dirty.clear()

    def _accumulate(self) -> None:
        """Sum the rewards up the tree, level by level."""
        nodes, trials = self._nodes, self._trials
        rows = np.flatnonzero(trials.told[: trials.length])
        expected = self._expected(rows)
        rewards, merits = self._rewards.of(expected), self._rewards.merits(expected)
        at = trials.node[rows]
        n = self.n_nodes
        nodes.total[:n] = np.bincount(at, weights=rewards, minlength=n)
        nodes.square[:n] = np.bincount(at, weights=rewards * rewards, minlength=n)
        nodes.merit[:n] = np.bincount(at, weights=merits, minlength=n)
        columns = [nodes.total, nodes.square, nodes.merit]
        nodes.bias[:n] = 0.0
        fidelity = self._fidelities(rows)
        if (fidelity < 1).any():
            finite = np.isfinite(trials.value[rows])
            bias = np.where(finite, self._rewards.zeta(fidelity), 0.0)
            nodes.bias[:n] = np.bincount(at, weights=bias, minlength=n)
            columns.append(nodes.bias)
        for level, starts, parents in self._levels():
            for column in columns:
                column[parents] += np.add.reduceat(column[level], starts)

    def _replicates_agree(self) -> bool:
        """Whether single values were asked again and gave the same reward each time."""
        nodes, n = self._nodes, self.n_nodes
        n_told, total, square = nodes.n_told[:n], nodes.total[:n], nodes.square[:n]
        repeated = nodes.final[:n] & (n_told > 1) & (total > 0)  # a reward of 0 says little
        m = n_told[repeated]
        variance = square[repeated] / m - (total[repeated] / m) ** 2
        # A value at less than full fidelity is not all there is to know.
        return not self._rewards.is_partial and bool(len(m)) and bool((variance < 1e-12).all())

    def _update_all_b_min(self) -> None:
        nodes = self._nodes
        bound = self._bounds(slice(0, self.n_nodes))
        nodes.b_min[:, : self.n_nodes] = bound
        for level, starts, parents in self._levels():
            best_child = np.maximum.reduceat(nodes.b_min[:, level], starts, axis=1)
            best_child[:, nodes.n_asked[parents] == 0] = math.inf  # empty: as good as a leaf
            nodes.b_min[:, parents] = np.minimum(bound[:, parents], best_child)  # eq. 3

    def _update_b_min(self, changed: Sequence[int]) -> None:
        """Compute b_min of nodes given children first."""
        nodes = self._nodes
        columns = nodes.scalars()
        bounds = self._bounds(np.array(changed)).tolist()
        rows = [(bound, b_min.data) for bound, b_min in zip(bounds, nodes.b_min)]
        for i, node in enumerate(changed):
            first = columns.first_child[node]
            end = first + columns.n_children[node]
            leaf = first < 0 or not columns.n_asked[node]  # a cell that is empty again is a leaf
            for bound, b_min in rows:  # eq. 3
                b_min[node] = bound[i] if leaf else min(bound[i], max(b_min[first:end]))

    def _bounds(self, rows: slice | NDArray[np.int64]) -> FloatArray:
        """Return bound + diameter of nodes, a row per instance."""
        nodes = self._nodes
        n_told = nodes.n_told[rows].astype(float)
        told = n_told > 0
        n = np.maximum(n_told, 1.0)
        mean = nodes.total[rows] / n
        variance = np.maximum(nodes.square[rows] / n - mean * mean, 0.0)
        depth, n_active = nodes.depth[rows].astype(float), nodes.n_active[rows]
        if self._prior is not None and not told.all():
            # As wide as it would be after one feedback.
            assert self._prior_std is not None
            centers = nodes.center[:, rows][:, ~told].T.astype(float)
            predicted = self._prior.predict(centers, self._splitter.active(centers))
            mean[~told] = predicted + self._prior_std * self._prior.std
        bound = self._policy.bound(
            NodeStatistics(
                mean=mean,
                variance=variance,
                n_told=n,
                n_asked=np.maximum(nodes.n_asked[rows], n),
                depth=depth,
                log_t=self._log_t,
                unit=self._rewards.unit,
            )
        )
        if np.shape(bound) != np.shape(mean) or np.isnan(bound).any():
            raise ValueError(
                f"`policy` must return one number per cell, but {self._policy!r} returned "
                f"{bound!r} for {len(mean)} cells."
            )
        # eq. 9, with the mean bias of the feedback that is in the cell. For a cell without any,
        # that of the fidelity it would be asked at.
        bias = nodes.bias[rows] / n
        if self._rewards.is_partial:
            at_most = float(self._rewards.zeta(0.0))
            bias = np.where(told, bias, np.minimum(self._diameter(depth, n_active), at_most))
        bound = bound + bias
        if self._prior is None:
            bound = np.where(told, bound, math.inf)
        final = nodes.final[rows]
        # A single value has no diameter. It is closed while it is in flight: to ask again could
        # only repeat the question. And once it is told, where replicates have shown no noise:
        # then it comes after all others.
        bound = np.where(final & told & self._is_exact, bound - _LAST, bound)
        bound = np.where(final & (nodes.n_asked[rows] > nodes.n_ended[rows]), -math.inf, bound)
        nu, rho = self._smoothness(n_active)
        diameter: FloatArray = np.where(final, 0.0, nu * rho**depth)
        return bound + diameter

    def _levels(self) -> Iterable[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]]:
        """Yield, from the deepest level up: its nodes, where each family starts, the parents."""
        nodes = self._nodes
        depth = nodes.depth[: self.n_nodes]
        order = np.argsort(depth, kind="stable")
        ends = np.cumsum(np.bincount(depth))
        for h in range(len(ends) - 1, 0, -1):
            level = order[ends[h - 1] : ends[h]]
            parent = nodes.parent[level]
            starts = np.flatnonzero(np.r_[True, parent[1:] != parent[:-1]])
            yield level, starts, parent[starts]
