r"""The tree of cells: statistics up the path, Bmin down to a leaf. The whole algorithm is here.

==========================  =====================================================================
paper                       here
==========================  =====================================================================
node (h, l), X_(h,l)        a row of the node columns; its ``depth``; its ``lower``/``upper``
T, S                        ``n_asked``, ``n_told`` of a node and all that lies in its cell
mu, sigma^2                 mean and variance of the rewards told back from its cell
B_(h,l),s,t + nu rho^h      ``bound``, one row per smoothness instance
Bmin                        ``b_min`` = min(bound, max over children of b_min)            (eq. 3)
algorithm 1, lines 4-5      :meth:`Tree.select`
algorithm 1, lines 7 and 9  :meth:`Tree.place`
algorithm 1, line 8         :meth:`Tree.tell`
==========================  =====================================================================

Two rules make the tree a function of the *set* of trials, whatever the order they come in:

1. A trial counts in every cell that contains its point. A point on a cut lies in neither child
   (so the centre of a cell that is halved counts in that cell alone, as in HOO, and the centre of
   a cell cut in three counts in its middle child too).
2. A trial that was asked at depth h splits the cells down to depth h that contain its point,
   at once, without waiting for its feedback.

A cell is asked while it is empty. A leaf that holds a trial (the middle child above, or one where
somebody else's trial fell) is split and the walk goes on. Only a cell of one single value is
asked again: that is a replicate.

A cell without feedback has an infinite bound, as in HOO, or what a model of all feedback expects
of it (``prior.py``), if the tree is given ``prior_std``.

Worked example: one parameter, three children, all rewards already scaled. Trial 0 asked the root
at 0.5, trial 1 the left third at 1/6, trial 2 the right third at 5/6 and is still in flight::

    depth 0              [0, 1]  asked 3, told 2: rewards 0.2 and 0.6
                   /        |         \
    depth 1   [0,1/3]   [1/3,2/3]   [2/3,1]
              told 1:   told 1:     asked 1, told 0:
              0.6       0.2         bound infinite
               /|\                    /|\
    depth 2   . o .                 . o .          o: holds its parent's trial, .: empty

The tests compute every number of this tree by hand (``tests/test_tree.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
import math
from typing import Any
from typing import NamedTuple
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.columns import Nodes
from optuna_pcts._tree.columns import Scalars
from optuna_pcts._tree.columns import Trials
from optuna_pcts._tree.fidelity import BiasModel
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
# Where there is nothing but failures is asked level by level with this probability only, when it
# is its turn.
_FAILED_SHARE = 0.25
# What is subtracted from a bound to put it after all others, without losing their order.
_LAST = 1e6


class Split(NamedTuple):
    """A cut of a cell across one axis; ``cuts`` are positions in the unit cube."""

    dim: int
    cuts: tuple[float, ...]  # one or two


class Splitter(Protocol):
    """How the cells of a space are cut. Must depend on the cell alone."""

    @property
    def tolerance(self) -> Sequence[float]:
        """Rounding error of a position, for each axis."""
        ...

    @property
    def categories(self) -> Sequence[int]:
        """Number of unordered values, for each axis; 0 if its values have an order."""
        ...

    def split(self, lower: Sequence[float], upper: Sequence[float]) -> Split | None:
        """Return the cut of a cell, or None when it cannot be cut any more."""
        ...


@dataclass(frozen=True)
class Leaf:
    """The cell chosen to be asked."""

    depth: int
    lower: list[float]
    upper: list[float]
    is_empty: bool  # False: a single value, or a cell that fixed coordinates let nobody leave


class CellView(NamedTuple):
    """A cell as people want to see it."""

    node: int
    parent: int  # -1 at the root
    depth: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    is_leaf: bool
    n_asked: int
    n_told: int
    n_in_flight: int  # asked, and not yet told for good
    mean: float  # reward; NaN without feedback
    bound: float  # Bmin of the instance in the middle


class Told(NamedTuple):
    """What trials tell, an entry or a row each."""

    numbers: NDArray[np.intp]
    points: FloatArray
    rewards: FloatArray
    bias: FloatArray
    is_outlier: NDArray[np.bool_]


class Tree:
    """Cells of the unit cube with the statistics of the trials inside them.

    Args:
        splitter:
            How cells are cut.
        policy:
            The bandit that bounds each cell's reward.
        instances:
            (nu, rho) of each smoothness instance.
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
        instances: Sequence[tuple[float, float]],
        prior_std: float | None = None,
        bias: BiasModel | None = None,
        reward: str | tuple[float, float] = "clipped",
    ) -> None:
        self._splitter = splitter
        self._policy = policy
        self._nu = np.array([[nu] for nu, _ in instances])
        self._rho = np.array([[rho] for _, rho in instances])
        self._tolerance = tuple(splitter.tolerance)
        self._n_dims = len(self._tolerance)
        self._nodes = Nodes(
            parent=(np.int32, -1, ()),
            depth=(np.int32, 0, ()),
            first_child=(np.int32, -1, ()),
            n_children=(np.int32, 0, ()),
            dim=(np.int32, -1, ()),
            cuts=(np.float64, math.inf, (2,)),
            final=(np.bool_, False, ()),
            n_asked=(np.int32, 0, ()),
            n_told=(np.int32, 0, ()),
            n_ended=(np.int32, 0, ()),
            total=(np.float64, 0.0, ()),
            square=(np.float64, 0.0, ()),
            bias=(np.float64, 0.0, ()),
            merit=(np.float64, 0.0, ()),
            center=(np.float32, 0.5, (self._n_dims,)),
            first_trial=(np.int32, -1, ()),
            b_min=(np.float64, math.inf, (len(instances),)),
        )
        self._trials = Trials(
            node=(np.int32, -1, ()),
            next=(np.int32, -1, ()),
            told=(np.bool_, False, ()),
            ended=(np.bool_, False, ()),
            ended_at=(np.float64, 0.0, ()),
            value=(np.float64, math.nan, ()),
            believed=(np.float64, math.nan, ()),
            fidelity=(np.float64, 1.0, ()),
            point=(np.float64, math.nan, (self._n_dims,)),
        )
        self._nodes.extend(1)
        root = self._root_cell()
        self._nodes.final[0] = splitter.split(*root) is None
        self._dirty: set[int] = set()  # nodes whose b_min must be computed anew
        self._partial: set[int] = set()  # trials with unknown coordinates
        self._log_t = 0.0
        self._rewards = Rewards(reward, BiasModel() if bias is None else bias)
        self._prior_std = prior_std
        self._prior: AdditiveModel | None = None
        self._checkpoint = Checkpoint(_GROWTH)
        self._learned_from: Reference | None = None
        self._ended = Ended()
        self._is_exact = False  # as far as replicates can tell
        self._replicated = False  # since that was decided

    # ------------------------------------------------------------------ what is in the tree

    @property
    def n_nodes(self) -> int:
        return self._nodes.length

    @property
    def n_asked(self) -> int:
        """Number of trials in the tree, told back or not (the paper's t)."""
        return int(self._nodes.n_asked[0])

    @property
    def n_told(self) -> int:
        return int(self._nodes.n_told[0])

    @property
    def depth(self) -> int:
        """Depth of the deepest cell."""
        return int(self._nodes.depth[: self.n_nodes].max())

    def __contains__(self, number: int) -> bool:
        return number < self._trials.length and self._trials.node[number] >= 0

    def knows_point(self, number: int) -> bool:
        """Whether the trial is in the tree with every coordinate."""
        return number in self and number not in self._partial

    def reference(self, checkpoint: Checkpoint) -> Reference:
        """Return which of the trials to learn from: those that ended first, up to a checkpoint."""
        return Reference(checkpoint.below(int(self._nodes.n_ended[0])), self._ended.n_revisions)

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
        points, fidelity = self._trials.point[:, rows].T, self._trials.fidelity[rows]
        expected, is_outlier = rewards.believable(
            self._trials.value[rows], fidelity, points, self._tolerance
        )
        return Told(
            rows, points, rewards.local(expected), rewards.local_zeta(fidelity), is_outlier
        )

    def n_at(self, number: int) -> int:
        """Return how many trials were asked at the point of a trial, itself among them."""
        trials = self._trials
        point, count = trials.point[:, number], 0
        other = int(self._nodes.first_trial[trials.node[number]])
        while other >= 0:
            count += bool((np.abs(trials.point[:, other] - point) <= self._tolerance).all())
            other = int(trials.next[other])
        return count

    def point(self, number: int) -> list[float]:
        """Return where a trial is."""
        found: list[float] = self._trials.point[:, number].tolist()
        return found

    @property
    def has_nothing_left(self) -> bool:
        """Whether many trials are as good as the best, as far as anybody cares."""
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

    def fidelity(self, depth: int) -> float:
        """Return the fidelity z_h of a depth: the lowest whose bias is within the diameter."""
        return self._rewards.fidelity(float(self._diameter(depth)))

    def _diameter(self, depth: Any) -> Any:
        """Return the diameter, in rewards, that the fidelity goes by: that of one instance."""
        i = len(self._nu) // 2
        return self._nu[i, 0] * self._rho[i, 0] ** depth

    def locate(self, point: Sequence[float]) -> tuple[int, bool]:
        """Return the depth of the deepest cell that contains a point, and whether it is taken.

        It is if a trial was asked there, or in a cell of one single value: the same again would
        be a replicate.
        """
        nodes, trials = self._nodes, self._trials
        node = self._descend([0], point)[-1]
        is_taken = bool(nodes.final[node] and nodes.n_asked[node])
        number = int(nodes.first_trial[node])
        while number >= 0 and not is_taken:
            is_taken = bool((np.abs(trials.point[:, number] - point) <= self._tolerance).all())
            number = int(trials.next[number])
        return int(nodes.depth[node]), is_taken

    def cells(self) -> Iterator[CellView]:
        """Yield every cell, parents before their children."""
        self.refresh()
        nodes, columns = self._nodes, self._nodes.scalars()
        b_min = nodes.b_min[len(nodes.b_min) // 2]
        found: list[tuple[list[float], list[float]]] = []
        for node in range(self.n_nodes):
            parent = int(nodes.parent[node])
            if parent < 0:
                cell = self._root_cell()
            else:
                lower, upper = found[parent]
                cell = lower.copy(), upper.copy()
                self._narrow(cell, columns, parent, node)
            found.append(cell)
            n_asked, n_told = int(nodes.n_asked[node]), int(nodes.n_told[node])
            yield CellView(
                node=node,
                parent=parent,
                depth=int(nodes.depth[node]),
                lower=tuple(cell[0]),
                upper=tuple(cell[1]),
                is_leaf=bool(nodes.first_child[node] < 0),
                n_asked=n_asked,
                n_told=n_told,
                n_in_flight=n_asked - int(nodes.n_ended[node]),
                mean=float(nodes.total[node]) / n_told if n_told else math.nan,
                bound=float(b_min[node]),
            )

    # ------------------------------------------------------------------ ask

    def ask_ahead(self, n: int) -> list[Leaf]:
        """Ask for the next cells, as if centres were asked and no feedback came in the meantime.

        They count as asked from then on, so this is for a tree that nobody searches with.
        """
        rng = np.random.default_rng(0)
        leaves = []
        for number in range(self._trials.length, self._trials.length + n):
            leaf = self.select(number, rng)
            center = [(a + b) / 2 for a, b in zip(leaf.lower, leaf.upper)]
            self.place(number, center, leaf.depth)
            leaves.append(leaf)
        return leaves

    def select(
        self,
        instance: int,
        rng: np.random.Generator,
        fixed: Sequence[float] | None = None,
    ) -> Leaf:
        """Follow the optimistic path to a leaf (algorithm 1, lines 4 and 5).

        Args:
            instance:
                The smoothness instance whose turn it is.
            rng:
                Breaks ties that the number of asked trials does not break.
            fixed:
                A point whose known coordinates the leaf must contain; NaN where it is free.
        """
        self.refresh()
        nodes = self._nodes
        cell = lower, upper = self._root_cell()
        node = 0
        columns = nodes.scalars()
        b_min = nodes.b_min[instance % len(nodes.b_min)].data
        while columns.n_asked[node]:
            first, only_empty = columns.first_child[node], False
            if first < 0:
                if nodes.final[node]:
                    break
                self._split(node, lower, upper)
                self.refresh()
                columns = nodes.scalars()
                b_min = nodes.b_min[instance % len(nodes.b_min)].data
                # Its empty children first, or the walk could follow one trial without end.
                first, only_empty = columns.first_child[node], True
            dim, end = columns.dim[node], first + columns.n_children[node]
            if fixed is not None and fixed[dim] == fixed[dim]:
                path = self._descend([node], fixed, 1)
                if len(path) == 1:
                    break
                child = path[1]
            else:
                scores = b_min[first:end].tolist()
                asked = columns.n_asked[first:end].tolist()
                child = first + _argmax(scores, asked, rng, only_empty and 0 in asked)
            self._narrow(cell, columns, node, child)
            node = child
        return Leaf(int(nodes.depth[node]), lower, upper, not columns.n_asked[node])

    def select_level(self, rng: np.random.Generator) -> Leaf | None:
        """Return an empty cell of one depth next to where it is best, or None if there is none.

        As a rule there is none where all has failed.

        Each depth has its turn, down to where a tree that is cut everywhere alike would end, so
        that no region is left for ever. Of each, the leaf with the best mean is cut (after SOO:
        Munos, 2011); for one without feedback its parent's mean stands.
        """
        self.refresh()
        nodes = self._nodes
        deepest = max(self.n_asked, 1).bit_length()
        n = self.n_nodes
        is_open = (nodes.first_child[:n] < 0) & (nodes.depth[:n] <= deepest)
        leaves = np.flatnonzero(is_open & ((nodes.n_asked[:n] == 0) | ~nodes.final[:n]))
        # Those that hold a trial are cut to have an empty one.
        depths = nodes.depth[leaves] + (nodes.n_asked[leaves] > 0)
        leaves, depths = leaves[depths <= deepest], depths[depths <= deepest]
        if not len(leaves):
            return None
        leaves = leaves[depths == rng.choice(np.unique(depths))]
        told = np.where(nodes.n_told[leaves] > 0, leaves, np.maximum(nodes.parent[leaves], 0))
        merits = nodes.merit[told] / np.maximum(nodes.n_told[told], 1)
        if merits.max() < 1e-12 and rng.random() >= _FAILED_SHARE:
            return None
        node = int(rng.choice(leaves[merits >= merits.max() - 1e-12]))
        cell = self._cell_at(self._path(node)[::-1])
        if nodes.n_asked[node]:
            self._split(node, *cell)
            first = int(nodes.first_child[node])
            children = np.arange(first, first + int(nodes.n_children[node]))
            fewest = nodes.n_asked[children]
            child = int(rng.choice(children[fewest == fewest.min()]))
            self._narrow(cell, nodes.scalars(), node, child)
            node = child
        return Leaf(int(nodes.depth[node]), *cell, not nodes.n_asked[node])

    # ------------------------------------------------------------------ trials come and go

    def place(self, number: int, point: Sequence[float], depth: int | None = None) -> bool:
        """Count a trial as asked in every cell that contains its point.

        Args:
            number:
                Trial number.
            point:
                Its position in the unit cube. NaN where a coordinate is unknown: the trial then
                counts down to the last cell that certainly contains it.
            depth:
                Depth of the cell it was asked for, which is split at once; None for a trial
                that the tree did not ask for.

        Returns:
            Whether the trial has moved: it stood, with every coordinate, somewhere else.
        """
        trials, nodes = self._trials, self._nodes
        trials.extend(number + 1)
        has_moved = False
        if trials.node[number] >= 0:
            at = trials.node[number]
            is_split = nodes.first_child[at] >= 0 or nodes.final[at]
            done = depth is None or is_split or nodes.depth[at] > depth
            is_there = self._same_point(number, point)
            if done and is_there:
                return False
            has_moved = not is_there and number not in self._partial
            self.remove(number)
        trials.point[:, number] = point
        if any(x != x for x in point):
            self._partial.add(number)
        path = self._descend([0], point)
        while depth is not None and len(path) - 1 <= depth:
            node = path[-1]
            if nodes.first_child[node] >= 0 or nodes.final[node]:
                break  # on a cut, or a single value
            self._split(node, *self._cell_at(path))
            path = self._descend(path, point)
        self._link(number, path[-1])
        nodes.n_asked[path] += 1
        self._dirty.update(path)
        return has_moved

    def tell(
        self,
        number: int,
        value: float,
        fidelity: float = 1.0,
        *,
        ended: bool = True,
        ended_at: float = 0.0,
        curve: FloatArray | None = None,
    ) -> None:
        """Fold in the feedback of a trial in the tree. It replaces what the trial told before.

        Args:
            number:
                Trial number.
            value:
                Its value: larger is better, NaN is a failure.
            fidelity:
                The fidelity of the value.
            ended:
                Whether that was all: a trial that still runs may tell more.
            ended_at:
                When it ended, in seconds of whatever clock.
            curve:
                The fidelities that it has passed, ascending, and its values there.
        """
        trials = self._trials
        self._take_back(number)
        trials.value[number] = trials.believed[number] = value
        trials.fidelity[number] = fidelity
        trials.told[number] = True
        trials.ended[number] = ended
        trials.ended_at[number] = ended_at
        if ended:
            self._ended.note(number, ended_at)
        if curve is not None and math.isfinite(value):
            self._rewards.bias.observe(number, curve)
        self._count_told(number, 1)

    def remove(self, number: int) -> None:
        """Take a trial out of every count. What it split stays split."""
        if number not in self:
            return
        trials = self._trials
        self._take_back(number)
        path = self._path(int(trials.node[number]))
        self._nodes.n_asked[path] -= 1
        self._dirty.update(path)
        self._unlink(number)
        self._partial.discard(number)

    def _take_back(self, number: int) -> None:
        """Undo what a trial told, if it did."""
        trials = self._trials
        if trials.told[number]:
            self._count_told(number, -1)
            if trials.ended[number]:
                self._ended.note_change()
            trials.told[number] = trials.ended[number] = False
            self._rewards.bias.forget(number)

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

    # ------------------------------------------------------------------ cells

    def _root_cell(self) -> tuple[list[float], list[float]]:
        return [0.0] * self._n_dims, [1.0] * self._n_dims

    def _cell_at(self, path: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the cell at the end of a path from the root."""
        columns = self._nodes.scalars()
        cell = self._root_cell()
        for node, child in pairwise(path):
            self._narrow(cell, columns, node, child)
        return cell

    @staticmethod
    def _narrow(
        cell: tuple[list[float], list[float]], columns: Scalars, node: int, child: int
    ) -> None:
        """Turn the cell of a node into that of its child."""
        dim = columns.dim[node]
        i = child - columns.first_child[node]
        if i > 0:
            cell[0][dim] = columns.cuts[i - 1][node]
        if i < columns.n_children[node] - 1:
            cell[1][dim] = columns.cuts[i][node]

    def _descend(self, path: list[int], point: Sequence[float], steps: int = -1) -> list[int]:
        """Continue a path to the deepest cell that contains a point, or some steps towards it."""
        columns = self._nodes.scalars()
        first_child, dims, (first_cut, second_cut) = columns.first_child, columns.dim, columns.cuts
        node = path[-1]
        while steps and (first := first_child[node]) >= 0:
            dim = dims[node]
            x, tolerance = point[dim], self._tolerance[dim]
            beyond = x - first_cut[node]
            if beyond < -tolerance:
                node = first
            elif beyond > tolerance:
                beyond = x - second_cut[node]  # minus infinity where there are two children
                if -tolerance <= beyond <= tolerance:
                    break
                node = first + (1 if beyond < 0 else 2)
            else:  # on a cut, or unknown
                break
            path.append(node)
            steps -= 1
        return path

    def _split(self, node: int, lower: list[float], upper: list[float]) -> None:
        """Give a leaf its children, and hand its trials down to them."""
        nodes, trials = self._nodes, self._trials
        split = self._splitter.split(lower, upper)
        assert split is not None, "a final cell is never split"
        first, n_children = nodes.length, len(split.cuts) + 1
        children = slice(first, first + n_children)
        nodes.extend(first + n_children)
        nodes.first_child[node] = first
        nodes.n_children[node] = n_children
        nodes.dim[node] = split.dim
        nodes.cuts[: len(split.cuts), node] = split.cuts
        nodes.parent[children] = node
        nodes.depth[children] = nodes.depth[node] + 1
        for child in range(first, first + n_children):
            cell = (lower.copy(), upper.copy())
            self._narrow(cell, nodes.scalars(), node, child)
            nodes.final[child] = self._splitter.split(*cell) is None
            nodes.center[:, child] = [(a + b) / 2 for a, b in zip(*cell)]
        number = int(nodes.first_trial[node])
        nodes.first_trial[node] = -1
        while number >= 0:
            following = int(trials.next[number])
            child = self._descend([node], trials.point[:, number].tolist())[-1]
            self._link(number, child)
            if child != node:
                nodes.n_asked[child] += 1
                if trials.told[number]:
                    reward, bias, merit = self._reward(number)
                    nodes.n_told[child] += 1
                    nodes.n_ended[child] += trials.ended[number]
                    nodes.total[child] += reward
                    nodes.square[child] += reward * reward
                    nodes.bias[child] += bias
                    nodes.merit[child] += merit
            number = following
        self._dirty.update(range(first, first + n_children), self._path(node))

    def _path(self, node: int) -> list[int]:
        """Return a node and its ancestors."""
        parent = self._nodes.parent.data
        path = []
        while node >= 0:
            path.append(node)
            node = parent[node]
        return path

    def _link(self, number: int, node: int) -> None:
        trials, nodes = self._trials, self._nodes
        trials.node[number] = node
        trials.next[number] = nodes.first_trial[node]
        nodes.first_trial[node] = number

    def _unlink(self, number: int) -> None:
        trials, nodes = self._trials, self._nodes
        node = int(trials.node[number])
        following = trials.next[number]
        if nodes.first_trial[node] == number:
            nodes.first_trial[node] = following
        else:
            before = int(nodes.first_trial[node])
            while trials.next[before] != number:
                before = int(trials.next[before])
            trials.next[before] = following
        trials.node[number] = trials.next[number] = -1

    def _same_point(self, number: int, point: Sequence[float]) -> bool:
        """Whether a trial already stands at a point, as far as the point is known."""
        known = self._trials.point[:, number].tolist()
        return all(
            y != y or abs(x - y) <= tolerance
            for x, y, tolerance in zip(known, point, self._tolerance)
        )

    # ------------------------------------------------------------------ rewards and bounds

    def _reward(self, number: int) -> Reward:
        """Return what a trial tells its cells."""
        trials = self._trials
        return self._rewards.of_one(float(trials.believed[number]), float(trials.fidelity[number]))

    def _expected(self, rows: NDArray[np.intp]) -> FloatArray:
        """Return the values that trials would have at full fidelity, as far as is known."""
        return self._rewards.expected(self._trials.believed[rows], self._trials.fidelity[rows])

    def _learn(self) -> bool:
        """Take the reward scale and the prior anew, if it is time; return whether they moved.

        A scale that followed every value would change every statistic with every trial.
        """
        reference = self.reference(self._checkpoint)
        if reference == self._learned_from:
            return False
        self._learned_from = reference
        rows, trials = self._rows(reference), self._trials
        trials.believed[: trials.length] = trials.value[: trials.length]
        trials.believed[rows] = self._rewards.learn(
            rows,
            trials.value[rows],
            trials.fidelity[rows],
            trials.point[:, rows].T,
            self._tolerance,
            np.argsort(trials.ended_at[rows], kind="stable"),
        )
        if self._prior_std is not None:
            rows = self._located(reference)
            points, rewards = trials.point[:, rows].T, self._rewards.of(self._expected(rows))
            enough = len(points) >= AdditiveModel.n_trials_needed(self._n_dims)
            self._prior = (
                AdditiveModel(points, rewards, self._splitter.categories) if enough else None
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
        fidelity = trials.fidelity[rows]
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
        depth = nodes.depth[rows].astype(float)
        if self._prior is not None and not told.all():
            # As wide as it would be after one feedback.
            assert self._prior_std is not None
            centers = nodes.center[:, rows][:, ~told].T.astype(float)
            mean[~told] = self._prior.predict(centers) + self._prior_std * self._prior.std
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
            bias = np.where(told, bias, np.minimum(self._diameter(depth), at_most))
        bound = bound + bias
        if self._prior is None:
            bound = np.where(told, bound, math.inf)
        final = nodes.final[rows]
        # A single value has no diameter. It is closed while it is in flight: to ask again could
        # only repeat the question. And once it is told, where replicates have shown no noise:
        # then it comes after all others.
        bound = np.where(final & told & self._is_exact, bound - _LAST, bound)
        bound = np.where(final & (nodes.n_asked[rows] > nodes.n_ended[rows]), -math.inf, bound)
        diameter: FloatArray = np.where(final, 0.0, self._nu * self._rho**depth)
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


def _argmax(
    scores: list[float], asked: list[int], rng: np.random.Generator, only_empty: bool
) -> int:
    """Return the child with the largest score; of equals the one with the fewest asked trials.

    Two children are equal when both bounds are infinite, typically. The fewest asked trials keep
    those in flight from clumping, which a coin alone would not.
    """
    top = max(scores)
    if not only_empty and scores.count(top) == 1:  # the usual case
        return scores.index(top)
    candidates = [i for i, n in enumerate(asked) if n == 0 or not only_empty]
    top = max(scores[i] for i in candidates)
    candidates = [i for i in candidates if scores[i] == top]
    fewest = min(asked[i] for i in candidates)
    candidates = [i for i in candidates if asked[i] == fewest]
    return candidates[int(rng.integers(len(candidates)))] if len(candidates) > 1 else candidates[0]
