"""Optimisers of other libraries as Optuna samplers. Libraries are imported when first used."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
import logging
from tempfile import TemporaryDirectory
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.baselines.base import AskAndTell
from benchmarks.problems import Space


class SMACSampler(AskAndTell):
    """SMAC3 with its defaults for hyperparameters (a random forest), through ask and tell.

    Any number of asks may be open. A configuration may be asked again, as SMAC allows for noise.

    Args:
        space:
            The parameters and their distributions.
        seed:
            Seed of its random numbers.
        n_evaluations:
        self._configurations.add(*_conditions(self._configurations, space, conditions or {}))
            How many evaluations there will be; its initial random design is a share of them.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        n_evaluations: int,
        conditions: Mapping[str, Mapping[str, tuple[Any, ...]]] | None = None,
    ) -> None:
        from ConfigSpace import ConfigurationSpace
        from smac import HyperparameterOptimizationFacade
        from smac import Scenario

        super().__init__(space)
        logging.getLogger("smac").setLevel(logging.CRITICAL)
        self._configurations = ConfigurationSpace(
            space={name: _hyperparameter(name, d) for name, d in space.items()}, seed=seed
        )
        self._configurations.add(*_conditions(self._configurations, space, conditions or {}))
        # It saves nothing there, but looks for an earlier run.
        with TemporaryDirectory() as directory:
            scenario = Scenario(
                self._configurations,
                n_trials=n_evaluations,
                seed=seed,
                output_directory=directory,
            )
            self._smac = HyperparameterOptimizationFacade(scenario, logging_level=False)
        self._open: dict[int, Any] = {}

    def propose(self, number: int) -> dict[str, Any]:
        from joblib import parallel_config

        try:
            with parallel_config("sequential"):  # for ten small trees threads are slower
                trial = self._smac.ask()
        except StopIteration:  # it has tried all configurations, by its own count
            configuration = self._configurations.sample_configuration()
        else:
            self._open[number] = trial
            configuration = trial.config
        return {
            name: _value(distribution, configuration[name])
            for name, distribution in self._distributions.items()
            if name in configuration
        }

    def tell(self, number: int, reward: float) -> None:
        from smac.runhistory import TrialValue

        if number in self._open:
            self._smac.tell(self._open.pop(number), TrialValue(cost=-reward), save=False)


def _hyperparameter(name: str, distribution: BaseDistribution) -> Any:
    """Return a parameter for ConfigSpace; steps and categories by their index."""
    from ConfigSpace import Categorical
    from ConfigSpace import Float
    from ConfigSpace import Integer

    if isinstance(distribution, CategoricalDistribution):
        return Categorical(name, range(len(distribution.choices)))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    step = _step(distribution)
    if step:
        return Integer(name, (0, round((distribution.high - distribution.low) / step)))
    kind = Integer if isinstance(distribution, IntDistribution) else Float
    return kind(name, (distribution.low, distribution.high), log=distribution.log)


def _conditions(
    configurations: Any, space: Space, conditions: Mapping[str, Mapping[str, tuple[Any, ...]]]
) -> Iterator[Any]:
    """Yield the conditions as ConfigSpace knows them."""
    from ConfigSpace import AndConjunction
    from ConfigSpace import EqualsCondition
    from ConfigSpace import InCondition

    for name, parents in conditions.items():
        parts = []
        for parent, values in parents.items():
            known = [_code(space[parent], value) for value in values]
            child, above = configurations[name], configurations[parent]
            if len(known) > 1:
                parts.append(InCondition(child, above, known))
            else:
                parts.append(EqualsCondition(child, above, known[0]))
        yield AndConjunction(*parts) if len(parts) > 1 else parts[0]


def _code(distribution: BaseDistribution, value: Any) -> Any:
    """Return what ConfigSpace calls a value: the inverse of :func:`_value`."""
    if isinstance(distribution, FloatDistribution | IntDistribution):
        step = _step(distribution)
        return round((value - distribution.low) / step) if step else value
    return int(distribution.to_internal_repr(value))


def _value(distribution: BaseDistribution, value: Any) -> Any:
    """Return a value of ConfigSpace as Optuna's."""
    if isinstance(distribution, FloatDistribution | IntDistribution):
        step = _step(distribution)
        value = distribution.low + value * step if step else value
    return distribution.to_external_repr(float(value))


def _step(distribution: FloatDistribution | IntDistribution) -> float | None:
    """Return the step of a parameter, if ConfigSpace does not support it."""
    is_plain = isinstance(distribution, IntDistribution) and distribution.step == 1
    return None if is_plain else distribution.step
