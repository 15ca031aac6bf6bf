"""Search spaces of the package ConfigSpace, which need not be installed."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeGuard

from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from optuna_pcts._space.conditions import MAX_PARENT_VALUES


def is_configuration_space(search_space: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether something is a ``ConfigurationSpace``."""
    return any(
        kind.__name__ == "ConfigurationSpace" and kind.__module__.startswith("ConfigSpace")
        for kind in type(search_space).__mro__
    )


def converted(
    space: Any,
) -> tuple[dict[str, BaseDistribution], dict[str, dict[str, list[Any]]]]:
    """Return the parameters of a ``ConfigurationSpace``, and their conditions.

    Ordinal parameters become categories. Default values are not used.

    Raises:
        ValueError:
            If it says what cannot be used: forbidden clauses, priors and weights, conditions with
            alternatives on several parents or on a float.
    """
    if space.forbidden_clauses:
        raise ValueError(
            f"The forbidden clauses of a ConfigurationSpace cannot be used: "
            f"{space.forbidden_clauses}. Have the objective raise `optuna.TrialPruned` there."
        )
    distributions = {name: _distribution(space[name]) for name in space}
    conditions: dict[str, dict[str, list[Any]]] = {}
    for condition in space.conditions:
        clauses = conditions.setdefault(condition.child.name, {})
        for parent, values in _clauses(condition, distributions):
            known = clauses.get(parent, values)
            clauses[parent] = [value for value in values if value in known]
    return distributions, conditions


def _distribution(parameter: Any) -> BaseDistribution:
    kind = type(parameter).__name__
    if kind == "UniformFloatHyperparameter":
        return FloatDistribution(parameter.lower, parameter.upper, log=parameter.log)
    if kind == "UniformIntegerHyperparameter":
        return IntDistribution(int(parameter.lower), int(parameter.upper), log=parameter.log)
    if kind == "CategoricalHyperparameter" and parameter.weights is None:
        return CategoricalDistribution(tuple(parameter.choices))
    if kind == "OrdinalHyperparameter":
        return CategoricalDistribution(tuple(parameter.sequence))
    if kind == "Constant":
        return CategoricalDistribution((parameter.value,))
    raise ValueError(
        f"Parameter `{parameter.name}` of the ConfigurationSpace cannot be used: {parameter}. "
        "Only uniform floats and integers, categories without weights, ordinals and constants can."
    )


def _clauses(
    condition: Any, distributions: Mapping[str, BaseDistribution]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield each parent of a condition with the values that it allows."""
    components = getattr(condition, "components", ())
    parents = {parent.name for parent in getattr(condition, "parents", ())}
    parents = parents or {condition.parent.name}
    if len(parents) > 1:
        if type(condition).__name__ != "AndConjunction":
            raise ValueError(
                f"The condition {condition} of the ConfigurationSpace has alternatives on several "
                "parents. Only conjunctions of several parents can be used."
            )
        for component in components:
            yield from _clauses(component, distributions)
        return
    (parent,) = parents
    distribution = distributions[parent]
    if isinstance(distribution, CategoricalDistribution):
        values: list[Any] = list(distribution.choices)
    elif (
        isinstance(distribution, IntDistribution)
        and distribution.high - distribution.low < MAX_PARENT_VALUES
    ):
        values = list(range(distribution.low, distribution.high + 1))
    else:
        raise ValueError(
            f"The condition {condition} of the ConfigurationSpace depends on {distribution}, "
            f"which is not discrete or has more than {MAX_PARENT_VALUES} values."
        )
    yield parent, [value for value in values if _allows(condition, parent, value)]


def _allows(condition: Any, parent: str, value: Any) -> bool:
    return bool(condition.satisfied_by_value({parent: value}))
