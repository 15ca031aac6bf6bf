"""The cube cut into cells, and which trial lies in which of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
import math
from typing import NamedTuple
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.columns import Nodes
from optuna_pcts._tree.columns import Scalars
from optuna_pcts._tree.columns import Trials


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

    def n_active(self, lower: Sequence[float], upper: Sequence[float]) -> int:
        """Return the number of axes that exist everywhere in a cell."""
        ...

    def active(self, points: FloatArray) -> NDArray[np.bool_] | None:
        """Return whether each axis exists at each point; None if all always do."""
        ...


class Partition:
    """Cells of the unit cube, each cut into its children, and the trials inside them.

    Args:
        splitter:
            How cells are cut.
        n_bounds:
            How many bounds a cell has.
    """

    def __init__(self, splitter: Splitter, n_bounds: int) -> None:
        self._splitter = splitter
        self._tolerance = tuple(splitter.tolerance)
        self._n_dims = len(self._tolerance)
        self._nodes = Nodes(
            parent=(np.int32, -1, ()),
            depth=(np.int32, 0, ()),
            n_active=(np.int32, 0, ()),
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
            b_min=(np.float64, math.inf, (n_bounds,)),
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
        self._nodes.n_active[0] = splitter.n_active(*root)

    @property
    def n_nodes(self) -> int:
        return self._nodes.length

    @property
    def depth(self) -> int:
        """Depth of the deepest cell."""
        return int(self._nodes.depth[: self.n_nodes].max())

    def __contains__(self, number: int) -> bool:
        return number < self._trials.length and self._trials.node[number] >= 0

    def n_at(self, number: int) -> int:
        """Return how many trials were asked at the point of a trial, itself among them."""
        trials = self._trials
        point, count = trials.point[:, number], 0
        other = int(self._nodes.first_trial[trials.node[number]])
        while other >= 0:
            count += bool((np.abs(trials.point[:, other] - point) <= self._tolerance).all())
            other = int(trials.next[other])
        return count

    def asked_points(self) -> FloatArray:
        """Return where the trials in the tree are, a row each."""
        trials = self._trials
        rows = np.flatnonzero(trials.node[: trials.length] >= 0)
        points: FloatArray = trials.point[:, rows].T
        return points

    def point(self, number: int) -> list[float]:
        """Return where a trial is."""
        found: list[float] = self._trials.point[:, number].tolist()
        return found

    def locate(self, point: Sequence[float]) -> tuple[int, int, bool]:
        """Return depth and number of axes of a point's smallest cell, and whether it is taken.

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
        return int(nodes.depth[node]), int(nodes.n_active[node]), is_taken

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
            nodes.n_active[child] = self._splitter.n_active(*cell)
            nodes.center[:, child] = [(a + b) / 2 for a, b in zip(*cell)]
        number = int(nodes.first_trial[node])
        nodes.first_trial[node] = -1
        while number >= 0:
            following = int(trials.next[number])
            child = self._descend([node], trials.point[:, number].tolist())[-1]
            self._link(number, child)
            if child != node:
                nodes.n_asked[child] += 1
                self._hand_down(number, child)
            number = following

    def _hand_down(self, number: int, child: int) -> None:
        """Count what a trial has told in a cell that it has come to lie in."""

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
