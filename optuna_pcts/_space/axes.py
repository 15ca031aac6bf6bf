"""One parameter as one axis of the unit cube, and where its side may be cut.

A continuous axis is the (log-)linear scale of the parameter. A discrete axis is a row of slots,
one per value: equally wide, or, for a log integer, as wide as the value is on the log scale. A
value sits at the centre of its slot, and cuts fall only between slots, so that a cell always holds
whole values and the smallest cell is one value.

::

    float 0..1      |-------------------------------|      cut into thirds (or halves)
    int 0..4        |  0  |  1  |  2  |  3  |  4  |        cut in two, between values
    log int 1..8    |    1    |   2   |  3  | 4 |5|6|7|8|  the same, slots as wide as log(v) is
"""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from functools import cached_property
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from optuna_pcts._arrays import FloatArray


# All NaN are one choice, though none is equal to itself.
_NAN = object()


class Axis(ABC):
    """One parameter <-> [0, 1]."""

    # Two positions closer than this are the same one: a value that went through the parameter's
    # own scale comes back with a rounding error.
    tolerance = 0.0
    # Width of the slot of one value; 0 on a continuous axis.
    slot = 0.0
    # Number of unordered values; 0 if the values have an order.
    n_categories = 0

    @abstractmethod
    def to_unit(self, value: Any) -> float:
        """Return the position of a value; NaN when the axis does not hold it."""

    @abstractmethod
    def from_unit(self, position: float) -> Any:
        """Return the value at a position, in Python's own types."""

    @abstractmethod
    def cuts(self, lower: float, upper: float, branching: int) -> tuple[float, ...]:
        """Return where to cut a side into children; empty when it cannot be cut any more."""

    @abstractmethod
    def describe(self, lower: float, upper: float) -> str:
        """Return the values on a side, for people."""

    @abstractmethod
    def marks(self) -> list[Any]:
        """Return a few values to write beside the axis."""


class _ContinuousAxis(Axis):
    def __init__(self, distribution: FloatDistribution) -> None:
        self._low, self._high = distribution.low, distribution.high
        self._log = distribution.log
        # Halved, so that a range up to the largest float does not overflow.
        self._start = (math.log(self._low) if self._log else self._low) / 2
        self._length = (math.log(self._high) if self._log else self._high) / 2 - self._start
        ends = (abs(self._start), abs(self._start + self._length))
        self.tolerance = 4 * np.finfo(float).eps * max(1.0, max(ends) / (self._length or 1.0))

    def to_unit(self, value: Any) -> float:
        if not self._low <= value <= self._high:
            return math.nan
        if not self._length:  # a single value, or as good as one on the log scale
            return 0.5
        position = ((math.log(value) if self._log else value) / 2 - self._start) / self._length
        return min(max(position, 0.0), 1.0)

    def from_unit(self, position: float) -> float:
        value = 2 * (self._start + position * self._length)
        return float(min(max(math.exp(value) if self._log else value, self._low), self._high))

    def cuts(self, lower: float, upper: float, branching: int) -> tuple[float, ...]:
        side = upper - lower
        if side < 32 * self.tolerance or not self._length:
            return ()
        return tuple(lower + side * i / branching for i in range(1, branching))

    def describe(self, lower: float, upper: float) -> str:
        return f"{self.from_unit(lower):.4g} to {self.from_unit(upper):.4g}"

    def marks(self) -> list[Any]:
        if self._log:
            first, last = math.ceil(math.log10(self._low)), math.floor(math.log10(self._high))
            if last - first >= 1:
                return [10.0**i for i in range(first, last + 1, (last - first) // 6 + 1)]
            return [self.from_unit(i / 4) for i in range(5)]
        step = _round_step(2 * self._length)
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        # Whole multiples: a sum of steps would be off by its rounding.
        return [i * step for i in range(first, last + 1)]


class PositionAxis(_ContinuousAxis):
    """A parameter whose range differs from trial to trial: where in that range its value is."""

    def __init__(self) -> None:
        super().__init__(FloatDistribution(0.0, 1.0))

    def describe(self, lower: float, upper: float) -> str:
        return f"{100 * lower:.4g} to {100 * upper:.4g} % of its range"


class DiscreteAxis(Axis):
    """Slots 0 .. n_values - 1. Subclasses say what stands in a slot."""

    def __init__(self, n_values: int) -> None:
        self.n_values = n_values
        self.slot = 1 / n_values

    @abstractmethod
    def index(self, value: Any) -> int | None:
        """Return the slot of a value; None when the axis does not hold it."""

    def slots_in(self, lower: float, upper: float) -> tuple[int, int]:
        """Return the first slot of a side of a cell, and the one behind its last."""
        inside = (upper - lower) * 1e-6  # its ends are edges of slots
        return self._slot(lower + inside), self._slot(upper - inside) + 1

    def slots_at(self, positions: FloatArray) -> NDArray[np.intp]:
        """Return the slot that holds each position."""
        slots = np.searchsorted(self._edges, positions, side="right") - 1
        return np.clip(slots, 0, self.n_values - 1)

    def slot_at(self, position: float) -> int:
        """Return the slot that holds a position."""
        return min(max(self._slot(position), 0), self.n_values - 1)

    @cached_property
    def _edges(self) -> FloatArray:
        return np.array([self._edge(i) for i in range(self.n_values + 1)])

    @abstractmethod
    def value(self, index: int) -> Any:
        """Return the value in a slot."""

    def _edge(self, index: int) -> float:
        """Return the left edge of a slot."""
        return index / self.n_values

    def _slot(self, position: float) -> int:
        return int(position * self.n_values)

    def describe(self, lower: float, upper: float) -> str:
        # Just inside of the cell, whose bounds are edges of slots.
        inside = (upper - lower) * 1e-6
        first, last = self.from_unit(lower + inside), self.from_unit(upper - inside)
        return f"{text_of(first)}" if first == last else f"{text_of(first)} to {text_of(last)}"

    def marks(self) -> list[Any]:
        step = max(int(_round_step(self.n_values - 1)), 1)
        return [self.value(i) for i in range(0, self.n_values, step)]

    def to_unit(self, value: Any) -> float:
        index = self.index(value)
        return math.nan if index is None else (self._edge(index) + self._edge(index + 1)) / 2

    def from_unit(self, position: float) -> Any:
        return self.value(self.slot_at(position))

    def cuts(self, lower: float, upper: float, branching: int) -> tuple[float, ...]:
        # In two, whatever the branching: thirds of a few values waste trials on neighbours.
        middle = (lower + upper) / 2
        slot = self._slot(middle)
        inside = [
            edge
            for edge in (self._edge(slot), self._edge(slot + 1))
            # The bounds of a cell are edges themselves, computed by the same formula.
            if lower < edge < upper
        ]
        return (min(inside, key=lambda edge: abs(edge - middle)),) if inside else ()


class _SteppedAxis(DiscreteAxis):
    """Integers and stepped floats."""

    def __init__(self, distribution: FloatDistribution | IntDistribution) -> None:
        self._low, self._high = distribution.low, distribution.high
        self._step = distribution.step or 1
        self._type: type[int] | type[float] = (
            int if isinstance(distribution, IntDistribution) else float
        )
        super().__init__(round((self._high - self._low) / self._step) + 1)

    def index(self, value: Any) -> int | None:
        if not self._low <= value <= self._high:
            return None
        index: int = round((value - self._low) / self._step)
        return index

    def value(self, index: int) -> int | float:
        return self._type(min(self._low + index * self._step, self._high))


class _LogIntAxis(_SteppedAxis):
    def __init__(self, distribution: IntDistribution) -> None:
        super().__init__(distribution)
        self._start = math.log(self._low - 0.5)
        self._length = math.log(self._high + 0.5) - self._start

    def _edge(self, index: int) -> float:
        if index in (0, self.n_values):  # exact, where the logarithm would round
            return float(index > 0)
        return (math.log(self._low - 0.5 + index) - self._start) / self._length

    def _slot(self, position: float) -> int:
        return int(math.exp(self._start + position * self._length) - self._low + 0.5)

    def marks(self) -> list[Any]:
        steps = [self.from_unit(i / 6) for i in range(7)]
        return sorted(set(steps))


class _CategoricalAxis(DiscreteAxis):
    def __init__(self, distribution: CategoricalDistribution) -> None:
        # Of choices that are equal (1, 1.0 and True) Optuna can only tell the first.
        self._slots: dict[Any, int] = {}
        self._choices: list[Any] = []
        self._has_unhashable = False
        for choice in distribution.choices:
            if self.index(choice) is not None:
                continue
            try:
                self._slots[self._key(choice)] = len(self._choices)
            except TypeError:
                self._has_unhashable = True
            self._choices.append(choice)
        self.n_categories = len(self._choices)
        super().__init__(self.n_categories)

    def _key(self, choice: Any) -> Any:
        """Return what is equal for equal choices, also after a storage has turned it to JSON."""
        if isinstance(choice, (list, tuple)):
            return tuple(map(self._key, choice))
        if isinstance(choice, dict):
            return tuple((key, self._key(value)) for key, value in choice.items())
        return _NAN if choice != choice else choice

    def index(self, value: Any) -> int | None:
        try:
            slot = self._slots.get(self._key(value))
        except TypeError:  # a set, say
            slot = None
        if slot is None and self._has_unhashable:
            return next((i for i, c in enumerate(self._choices) if c is value or c == value), None)
        return slot

    def value(self, index: int) -> Any:
        return self._choices[index]

    def describe(self, lower: float, upper: float) -> str:
        n = self.n_values
        first, last = round(lower * n), round(upper * n)
        return ", ".join(map(text_of, self._choices[first:last]))


def _round_step(length: float) -> float:
    """Return the smallest step such as 0.1, 0.2, 0.5, 1 with up to ten in a length."""
    if not 0 < length < math.inf:
        return 1e308
    power = 10.0 ** math.floor(math.log10(length / 10))
    return next(power * i for i in (1, 2, 5, 10) if power * i * 10 >= length * (1 - 1e-9))


def text_of(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def axis_of(name: str, distribution: BaseDistribution) -> Axis:
    if isinstance(distribution, CategoricalDistribution):
        try:
            return _CategoricalAxis(distribution)
        except ValueError as error:  # as of arrays, which are equal in some elements only
            raise ValueError(
                f"The choices of parameter `{name}` cannot be told apart by `==`. Use None, bool, "
                "int, float or str, and in memory also tuples, lists, dicts and sets of them; or "
                "the names of what is to be chosen."
            ) from error
    if isinstance(distribution, IntDistribution):
        return _LogIntAxis(distribution) if distribution.log else _SteppedAxis(distribution)
    if isinstance(distribution, FloatDistribution):
        if distribution.step is not None:
            return _SteppedAxis(distribution)
        return _ContinuousAxis(distribution)
    raise TypeError(f"The distribution of parameter `{name}` is not supported: {distribution!r}.")
