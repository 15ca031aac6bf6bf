"""The search space as a unit cube, and how its cells are cut.

Each parameter is one axis of the cube (``axes.py``). Where conditions say that a parameter does
not exist (``conditions.py``), its coordinate is 0.5 and means nothing: a cell is never cut across
an axis that is not active everywhere in it, so that it is a box over the axes active in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from optuna_pcts._arrays import FloatArray
from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.axes import PositionAxis
from optuna_pcts._space.axes import text_of
from optuna_pcts._space.conditions import Activity
from optuna_pcts._space.conditions import Condition
from optuna_pcts._space.conditions import described
from optuna_pcts._tree.partition import Split


# A parameter named in `split_order` goes before the others until its side is this short: four
# halvings or three thirds. From then on all parameters take part again, longest side first.
_FIRST_UNTIL_SIDE = 1 / 16
# The coordinate of a parameter that does not exist.
INACTIVE = 0.5


class SearchSpace:
    """Parameters <-> points of the unit cube, and how its cells are cut.

    Args:
        distributions:
            The parameters. Their order does not matter.
        conditions:
            When each conditional parameter is active.
        floating:
            Parameters whose distribution differs from trial to trial: their axis is the position
            within it.
        branching:
            How many children a cut of a continuous side makes: 2 or 3. With 3 the centre of a
            cell is the centre of its middle child, which so keeps its feedback.
        split_order:
            Parameters, or groups of them, to cut before all others. Unknown names are ignored.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        *,
        conditions: Mapping[str, Condition] | None = None,
        floating: frozenset[str] = frozenset(),
        branching: int = 3,
        split_order: Sequence[str | Sequence[str]] = (),
    ) -> None:
        # Sorted, so that every worker has the same axes whatever its objective suggests first.
        self.names = tuple(sorted(distributions))
        self._axes = tuple(
            PositionAxis() if name in floating else axis_of(name, distributions[name])
            for name in self.names
        )
        self._floating = floating
        self._activity = Activity(self.names, self._axes, conditions or {})
        self.is_flat = self._activity.is_flat  # whether all parameters always exist
        # When each conditional parameter is active, as text.
        self.conditions = described(conditions or {}, distributions)
        self._branching = branching
        groups = split_groups(split_order)
        rank = {name: i for i, group in enumerate(groups) for name in group}
        self._ranks = tuple(rank.get(name, len(groups)) for name in self.names)
        self._last_rank = len(groups)
        self.tolerance = tuple(axis.tolerance for axis in self._axes)
        self.slots = tuple(axis.slot for axis in self._axes)
        self.categories = tuple(axis.n_categories for axis in self._axes)

    def __len__(self) -> int:
        return len(self.names)

    def active(self, points: FloatArray) -> NDArray[np.bool_] | None:
        """Return whether each axis is active at each point (n, axes); None if all always are."""
        return None if self.is_flat else self._activity.at(points)

    def new_branches(self, points: FloatArray) -> list[tuple[int, int]]:
        """Return the categories of parents (axis, slot) that none of some points has."""
        active = self.active(points)
        if active is None:
            return []
        found = []
        for dim in self._activity.parents:
            n = self._axes[dim].n_categories
            if n:
                positions = points[active[:, dim], dim]
                slots = (positions[~np.isnan(positions)] * n).astype(int)
                is_new = np.bincount(slots, minlength=n) == 0
                found += [(dim, slot) for slot in np.flatnonzero(is_new).tolist()]
        return found

    def way_to(self, branch: tuple[int, int], rng: np.random.Generator) -> list[float]:
        """Return a point that is in a branch; NaN where it may have any coordinate."""
        known = self._activity.way_to(*branch, rng)
        return [known.get(dim, math.nan) for dim in range(len(self))]

    def active_in(self, lower: Sequence[float], upper: Sequence[float]) -> list[str]:
        """Return the parameters that are active everywhere in a cell."""
        return [self.names[dim] for dim in sorted(self._activity.in_cell(lower, upper).active)]

    def n_active(self, lower: Sequence[float], upper: Sequence[float]) -> int:
        """Return the number of axes that are active in a cell."""
        return len(self) if self.is_flat else len(self._activity.in_cell(lower, upper).active)

    def to_unit(
        self,
        params: Mapping[str, Any],
        proposed: Mapping[str, float] | None = None,
        distributions: Mapping[str, BaseDistribution] | None = None,
    ) -> list[float] | None:
        """Return the point of a trial, or None if it lies outside.

        Where the trial lacks a parameter, the position proposed for it stands; NaN if none was.

        Args:
            params:
                The parameters it has.
            proposed:
                The positions that were proposed.
            distributions:
                Where its floating parameters come from.
        """
        point = []
        for name, axis in zip(self.names, self._axes):
            position = proposed.get(name, math.nan) if proposed else math.nan
            if name in params:
                try:
                    if name not in self._floating:
                        position = axis.to_unit(params[name])
                    elif distributions is not None and name in distributions:
                        position = _floating_position(params[name], distributions[name], position)
                except (TypeError, ValueError, OverflowError):  # a value of another kind
                    return None
                if position != position:
                    return None
            point.append(position)
        if not self.is_flat:
            slots: dict[int, int | None] = {}
            for dim in self._activity.parents:
                axis, x = self._axes[dim], point[dim]
                assert isinstance(axis, DiscreteAxis)
                slots[dim] = None if x != x else axis.slot_at(x)
            for dim in self._activity.at_slots(slots):
                point[dim] = INACTIVE
        return point

    def from_unit(self, point: Sequence[float]) -> dict[str, Any]:
        """Return the parameters at a point: those that exist there and have one range."""
        active = None if self.is_flat else self._activity.at(np.array([point]))[0].tolist()
        return {
            name: axis.from_unit(position)
            for dim, (name, axis, position) in enumerate(zip(self.names, self._axes, point))
            if (active is None or active[dim]) and name not in self._floating
        }

    def existing(self, point: Sequence[float]) -> dict[str, float]:
        """Return the positions of the parameters that exist at a point, by their names."""
        if self.is_flat:
            return dict(zip(self.names, point))
        active = self._activity.at(np.array([point]))[0]
        return {name: x for name, x, exists in zip(self.names, point, active) if exists}

    def describe(self, lower: Sequence[float], upper: Sequence[float]) -> dict[str, str]:
        """Return the values in a cell, for people: of the parameters whose range it narrows."""
        return {
            name: axis.describe(a, b)
            for name, axis, a, b in zip(self.names, self._axes, lower, upper)
            if b - a < 1
        }

    def ticks(self, name: str) -> list[tuple[float, str]]:
        """Return a few round values of a parameter: the position of each, and how to write it."""
        axis = self._axes[self.names.index(name)]
        return [(axis.to_unit(value), text_of(value)) for value in axis.marks()]

    def split(self, lower: Sequence[float], upper: Sequence[float]) -> Split | None:
        """Choose the cut of a cell: longest side first, `split_order` before that.

        A parameter on which the existence of more others depends than there are goes before all
        but those of `split_order`: what is in a branch can only be looked at in there.

        The choice depends on nothing but the cell, so every worker makes the same one.
        """
        best: Split | None = None
        best_key = (self._last_rank + 1, 0.0)
        axes = self._activity.in_cell(lower, upper)
        for dim in axes.active:
            side = upper[dim] - lower[dim]
            # A hair of rounding must not decide between sides that are equally long.
            rank = self._ranks[dim] if side > _FIRST_UNTIL_SIDE else self._last_rank
            if axes.deciding and axes.deciding.get(dim, 0) >= len(axes.active):
                side += 1.0
            if rank > best_key[0] or (rank == best_key[0] and side <= best_key[1] * (1 + 1e-9)):
                continue
            cuts = self._axes[dim].cuts(lower[dim], upper[dim], self._branching)
            if cuts:
                best, best_key = Split(dim, cuts), (rank, side)
        return best


def _floating_position(value: Any, distribution: BaseDistribution, proposed: float) -> float:
    """Return where a value is within its distribution: where it was proposed, if that is it."""
    axis = axis_of("", distribution)
    if proposed == proposed and axis.from_unit(proposed) == value:
        return proposed
    return axis.to_unit(value)


def split_groups(split_order: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Return `split_order` with every entry as a group of names."""
    return [[entry] if isinstance(entry, str) else list(entry) for entry in split_order]


def check_search_space(search_space: Any) -> None:
    """Refuse what is not a mapping of names to distributions that the tree can search."""
    if not isinstance(search_space, Mapping):
        raise TypeError(
            f"`search_space` must map parameter names to distributions, but got {search_space!r}."
        )
    if not search_space:
        raise ValueError("`search_space` must name at least one parameter, but is empty.")
    for name, distribution in search_space.items():
        if not isinstance(name, str) or not isinstance(distribution, BaseDistribution):
            raise TypeError(
                "`search_space` must map parameter names to Optuna distributions, but has "
                f"{name!r}: {distribution!r}."
            )
