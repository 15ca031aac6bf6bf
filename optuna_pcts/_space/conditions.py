"""Which parameters exist where: conditions on discrete parameters, and what follows from them.

A parameter's condition is a conjunction of clauses. Each says which values of a parent it may
have; the parents may be conditional themselves, to any depth. In a cell of the cube a parameter is
active, inactive, or undecided: a cell that holds values of a parent on both sides of a condition.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from optuna_pcts._arrays import FloatArray
from optuna_pcts._space.axes import Axis
from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.axes import text_of


# An integer with more values than this is no parent: a condition on it is one on a quantity.
MAX_PARENT_VALUES = 4096


class Clause(NamedTuple):
    """A parent, and which of its values allow the parameter, by their slots."""

    parent: str
    slots: frozenset[int]


# All clauses hold where the parameter is active.
Condition = tuple[Clause, ...]


class _Group(NamedTuple):
    """Axes with the same condition, their parents' conditions included."""

    dims: tuple[int, ...]
    # Of each parent: its axis, and how many of its first slots are allowed, for 0, 1, ... slots.
    clauses: tuple[tuple[int, DiscreteAxis, list[int]], ...]


@dataclass(frozen=True)
class CellAxes:
    """The axes of a cell.

    Attributes:
        active:
            Those that exist everywhere in it.
        deciding:
            For those on which it depends whether others exist: on how many others.
    """

    active: list[int]
    deciding: dict[int, int]


class Activity:
    """Which axes are active in a cell, or at a point.

    Args:
        names:
            The parameters, one for each axis.
        axes:
            Their axes.
        conditions:
            The conditions. Clauses on a parent that is not among the parameters are left out.

    Attributes:
        is_flat:
            Whether all axes are always active.
        parents:
            The axes that conditions depend on.
    """

    def __init__(
        self, names: Sequence[str], axes: Sequence[Axis], conditions: Mapping[str, Condition]
    ) -> None:
        dim_of = {name: dim for dim, name in enumerate(names)}
        closures = {name: _closure(name, conditions, dim_of) for name in names}
        n_dependents = [0] * len(names)
        members: dict[Condition, list[int]] = {}
        for dim, name in enumerate(names):
            members.setdefault(closures[name], []).append(dim)
            for clause in closures[name]:
                n_dependents[dim_of[clause.parent]] += 1
        # Of sides that are equally long the one is cut first that decides most: what is in a
        # branch can only be looked at in there.
        self._groups = [
            _Group(
                tuple(sorted(dims, key=lambda dim: -n_dependents[dim])),
                tuple(_compiled(clause, dim_of, axes) for clause in closure),
            )
            for closure, dims in sorted(members.items(), key=lambda item: len(item[0]))
        ]
        # Of each group, for each of its parents: whether a slot allows it. What is not known
        # forbids nothing: its slot is -1, the last one.
        self._masks = [
            [(dim, np.append(np.diff(allowed) > 0, True)) for dim, _, allowed in group.clauses]
            for group in self._groups
        ]
        self._group_of = np.zeros(len(names), dtype=np.intp)
        for i, group in enumerate(self._groups):
            self._group_of[list(group.dims)] = i
        self._axes = axes
        self.parents = sorted({dim for group in self._groups for dim, _, _ in group.clauses})
        self.is_flat = not any(closures.values())
        self._all = CellAxes(list(range(len(names))), {})

    def in_cell(self, lower: Sequence[float], upper: Sequence[float]) -> CellAxes:
        """Return the axes of a cell."""
        if self.is_flat:
            return self._all
        active: list[int] = []
        deciding: dict[int, int] = {}
        for dims, clauses in self._groups:
            open_parents = []
            for dim, axis, allowed in clauses:
                first, end = axis.slots_in(lower[dim], upper[dim])
                n_allowed = allowed[end] - allowed[first]
                if not n_allowed:
                    break
                if n_allowed < end - first:
                    open_parents.append(dim)
            else:
                if not open_parents:
                    active.extend(dims)
                for dim in open_parents:
                    deciding[dim] = deciding.get(dim, 0) + len(dims)
        return CellAxes(active, deciding)

    def at(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return whether each axis is active at each point (n, axes)."""
        slots = {dim: self._slots_at(dim, points[:, dim]) for dim in self.parents}
        holds = np.ones((len(points), len(self._groups)), dtype=bool)
        for column, clauses in zip(holds.T, self._masks):
            for dim, mask in clauses:
                column &= mask[slots[dim]]
        return holds[:, self._group_of]

    def _slots_at(self, dim: int, x: FloatArray) -> NDArray[np.intp]:
        """Return the slot at each position; -1 where it is not known."""
        axis = self._axes[dim]
        assert isinstance(axis, DiscreteAxis), "only what is discrete can be a parent"
        unknown = np.isnan(x)
        if not unknown.any():
            return axis.slots_at(x)
        return np.where(unknown, -1, axis.slots_at(np.where(unknown, 0.0, x)))

    def way_to(self, dim: int, slot: int, rng: np.random.Generator) -> dict[int, float]:
        """Return positions of an axis and its parents at which it exists and has a value."""
        slots = {dim: slot}
        for parent, mask in self._masks[self._group_of[dim]]:
            slots[parent] = int(rng.choice(np.flatnonzero(mask[:-1])))
        return {
            dim: self._axes[dim].to_unit(self._value(dim, slot)) for dim, slot in slots.items()
        }

    def _value(self, dim: int, slot: int) -> Any:
        axis = self._axes[dim]
        assert isinstance(axis, DiscreteAxis), "only what is discrete can be a parent"
        return axis.value(slot)

    def at_slots(self, slots: Mapping[int, int | None]) -> Iterator[int]:
        """Yield the axes that are inactive where parents have these slots; None: unknown."""
        for dims, clauses in self._groups:
            for dim, _, allowed in clauses:
                slot = slots.get(dim)
                if slot is not None and allowed[slot + 1] == allowed[slot]:
                    yield from dims
                    break


def _closure(
    name: str,
    conditions: Mapping[str, Condition],
    dim_of: Mapping[str, int],
    below: tuple[str, ...] = (),
) -> Condition:
    """Return a parameter's condition together with those of its parents."""
    if name in below:
        around = " -> ".join([*below[below.index(name) :], name])
        raise ValueError(f"The conditions of parameters depend on each other: {around}.")
    found: dict[str, frozenset[int]] = {}
    for clause in conditions.get(name, ()):
        # A parent that is not searched has conditions nevertheless.
        own = (clause,) if clause.parent in dim_of else ()
        for other in (*own, *_closure(clause.parent, conditions, dim_of, (*below, name))):
            found[other.parent] = found.get(other.parent, other.slots) & other.slots
    return tuple(Clause(parent, found[parent]) for parent in sorted(found))


def _compiled(
    clause: Clause, dim_of: Mapping[str, int], axes: Sequence[Axis]
) -> tuple[int, DiscreteAxis, list[int]]:
    dim = dim_of[clause.parent]
    axis = axes[dim]
    assert isinstance(axis, DiscreteAxis), "only what is discrete can be a parent"
    is_allowed = (int(slot in clause.slots) for slot in range(axis.n_values))
    return dim, axis, list(accumulate(is_allowed, initial=0))


def is_parent(name: str, distribution: BaseDistribution) -> bool:
    """Whether conditions may depend on a parameter."""
    axis = axis_of(name, distribution)
    return isinstance(axis, DiscreteAxis) and axis.n_values <= MAX_PARENT_VALUES


def checked_conditions(
    conditions: Any, search_space: Mapping[str, BaseDistribution]
) -> dict[str, Condition]:
    """Return conditions that somebody has given, by slots.

    Args:
        conditions:
            For each conditional parameter its parents, and the values of each under which it is
            active: ``{"gamma": {"kernel": ["rbf", "poly"]}}``.
        search_space:
            The parameters.

    Raises:
        TypeError, ValueError:
            If they are not that, name what is not in the search space, or contradict each other.
    """
    if not isinstance(conditions, Mapping):
        raise TypeError(
            "`conditions` must map parameter names to their parents and the values of these, "
            f'such as {{"gamma": {{"kernel": ["rbf"]}}}}, but got {conditions!r}.'
        )
    found = {
        name: _checked(name, parents, search_space)
        for name, parents in conditions.items()
        if _is_known(name, search_space, "parameter")
    }
    names = sorted(search_space)
    axes = [axis_of(name, search_space[name]) for name in names]
    closures = {n: _closure(n, found, {name: i for i, name in enumerate(names)}) for n in names}
    for name, closure in closures.items():
        for parent, slots in closure:
            if not slots:
                raise ValueError(
                    f"By `conditions`, parameter `{name}` is never active: no value of `{parent}` "
                    "allows it and its parents."
                )
    Activity(names, axes, found)
    return found


def _is_known(name: object, search_space: Mapping[str, BaseDistribution], what: str) -> bool:
    if name not in search_space:
        raise ValueError(
            f"`conditions` has a {what} {name!r}, but `search_space` has only "
            f"{sorted(search_space)}."
        )
    return True


def _checked(
    name: str, parents: object, search_space: Mapping[str, BaseDistribution]
) -> Condition:
    if not isinstance(parents, Mapping) or not parents:
        raise TypeError(
            f"The condition of parameter `{name}` must map its parents to their values, but is "
            f"{parents!r}."
        )
    clauses = []
    for parent, values in parents.items():
        _is_known(parent, search_space, "parent")
        if not is_parent(parent, search_space[parent]):
            raise ValueError(
                f"Parameter `{name}` cannot depend on `{parent}`: {search_space[parent]} is not "
                f"discrete, or has more than {MAX_PARENT_VALUES} values."
            )
        axis = axis_of(parent, search_space[parent])
        assert isinstance(axis, DiscreteAxis)
        if isinstance(values, (str, bytes)) or not isinstance(values, Collection):
            raise TypeError(
                f"The condition of parameter `{name}` must have a list of values of `{parent}`, "
                f"but has {values!r}."
            )
        slots = [axis.index(value) for value in values]
        if not slots or None in slots:
            raise ValueError(
                f"The condition of parameter `{name}` has values {list(values)!r} of `{parent}`, "
                f"which must be some of {search_space[parent]}."
            )
        clauses.append(Clause(parent, frozenset(slot for slot in slots if slot is not None)))
    return tuple(clauses)


def described(
    conditions: Mapping[str, Condition], search_space: Mapping[str, BaseDistribution]
) -> dict[str, str]:
    """Return conditions as text: the parents of each parameter and their values."""
    return {
        name: "; ".join(
            f"{parent}: {_values_text(parent, slots, search_space)}" for parent, slots in condition
        )
        for name, condition in sorted(conditions.items())
    }


def _values_text(
    parent: str, slots: frozenset[int], search_space: Mapping[str, BaseDistribution]
) -> str:
    axis = axis_of(parent, search_space[parent])
    assert isinstance(axis, DiscreteAxis), "only what is discrete can be a parent"
    ordered = sorted(slots)
    values = [text_of(axis.value(slot)) for slot in ordered]
    if not axis.n_categories and len(values) > 2 and ordered[-1] - ordered[0] < len(values):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(values)
