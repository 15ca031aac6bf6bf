"""What is searched: the parameters, and when they exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution

from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.conditions import Condition


# What stands for the distribution of a parameter that has another one in each trial.
POSITION = FloatDistribution(0.0, 1.0)
# A parameter that somebody fixes at a value that is not known.
UNKNOWN = object()


@dataclass(frozen=True)
class Parameters:
    """The parameters of a search space.

    Attributes:
        distributions:
            Each with its distribution.
        conditions:
            When each conditional one is active.
        floating:
            Those whose distribution differs from trial to trial: what is searched is the position
            of their value within it.
    """

    distributions: Mapping[str, BaseDistribution]
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    floating: frozenset[str] = frozenset()

    def with_one_range(self) -> dict[str, BaseDistribution]:
        """Return the parameters whose distribution is the same in all trials."""
        return {n: d for n, d in self.distributions.items() if n not in self.floating}

    def over(self, distributions: Mapping[str, BaseDistribution]) -> Parameters:
        """Return other distributions with the conditions that hold for them, too."""
        conditions = {
            name: condition
            for name, condition in self.conditions.items()
            if name in distributions
            and all(
                distributions.get(clause.parent) == self.distributions.get(clause.parent)
                for clause in condition
            )
        }
        floating = frozenset(n for n, d in distributions.items() if d is POSITION)
        return Parameters(distributions, conditions, floating)

    def without(self, fixed: Mapping[str, Any]) -> Parameters:
        """Return what is left if somebody fixes some parameters.

        Those whose condition does not hold then are left out, too.
        """
        fixed = {name: value for name, value in fixed.items() if name in self.distributions}
        if not fixed:
            return self
        conditions: dict[str, Condition] = {}
        left_out = set(fixed)
        for name, condition in self.conditions.items():
            kept = tuple(clause for clause in condition if clause.parent not in fixed)
            if kept:
                conditions[name] = kept
            for parent, slots in condition:
                value = fixed.get(parent, UNKNOWN)
                if value is not UNKNOWN and self._slot(parent, value) not in slots:
                    left_out.add(name)
        while lost := {  # what depends on what is not there
            name
            for name, condition in self.conditions.items()
            if name not in left_out
            and any(clause.parent in left_out - set(fixed) for clause in condition)
        }:
            left_out |= lost
        return Parameters(
            {n: d for n, d in self.distributions.items() if n not in left_out},
            {n: c for n, c in conditions.items() if n not in left_out},
            self.floating - left_out,
        )

    def _slot(self, parent: str, value: Any) -> int | None:
        axis = axis_of(parent, self.distributions[parent])
        assert isinstance(axis, DiscreteAxis)
        try:
            return axis.index(value)
        except (TypeError, ValueError, OverflowError):  # of another kind
            return None
