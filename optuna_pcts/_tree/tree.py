r"""The tree of cells: statistics up the path, Bmin down to a leaf.

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

Here is the algorithm. What it stands on is in two files below: ``partition.py`` cuts the cells
and knows which trial lies where, ``statistics.py`` sums up rewards and computes the bounds (eqs. 3
and 9).

Two rules make the tree a function of the *set* of trials, whatever the order they come in:

1. A trial counts in every cell that contains its point. A point on a cut lies in neither child
   (so the centre of a cell that is halved counts in that cell alone, as in HOO, and the centre of
   a cell cut in three counts in its middle child too).
2. A trial that was asked at depth h splits the cells down to depth h that contain its point,
   at once, without waiting for its feedback.

A cell is asked while it is empty. A leaf that holds a trial (the middle child above, or one where
a foreign trial fell) is split and the walk goes on. Only a cell of one single value is
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

The tests compute every number of this tree by hand (``tests/unit/tree/test_tree.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import math

import numpy as np

from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.messages import CellView
from optuna_pcts._tree.messages import Leaf
from optuna_pcts._tree.statistics import Statistics


# Where there is nothing but failures is asked level by level with this probability only, when it
# is its turn.
_FAILED_SHARE = 0.25


class Tree(Statistics):
    """The cells, and the walks down to where to ask next: see :class:`Statistics`."""

    # ------------------------------------------------------------------ what is in the tree

    def knows_point(self, number: int) -> bool:
        """Whether the trial is in the tree with every coordinate."""
        return number in self and number not in self._partial

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
                n_active=int(nodes.n_active[node]),
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

        They count as asked from then on, so this is only for a tree that no search uses.
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
        return self._leaf(node, lower, upper)

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
        return self._leaf(node, *cell)

    def _leaf(self, node: int, lower: list[float], upper: list[float]) -> Leaf:
        nodes = self._nodes
        depth, n_active = int(nodes.depth[node]), int(nodes.n_active[node])
        return Leaf(depth, n_active, lower, upper, not nodes.n_asked[node])

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
        violations: Mapping[str, float] | None = None,
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
            violations:
                By how much it violates each constraint that it does.
        """
        trials = self._trials
        self._take_back(number)
        self._feasibility.observe(number, value, violations or {}, ended=ended)
        trials.value[number] = value
        trials.believed[number] = self._feasibility.worth(number, value)
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
            ended = bool(trials.ended[number])
            if ended:
                self._ended.note_change()
            self._feasibility.forget(number, float(trials.value[number]), ended=ended)
            trials.told[number] = trials.ended[number] = False
            self._rewards.bias.forget(number)


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
