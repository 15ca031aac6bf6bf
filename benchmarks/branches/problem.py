"""An objective with conditional parameters: which of them a trial has depends on their values."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.problems import Space
from optuna_pcts._space.space import SearchSpace


Params = dict[str, Any]
# For each conditional parameter, its parents and the values of each under which it is there. All
# must hold. A parent that is not there has no value; so its own parents need not be repeated.
Conditions = dict[str, dict[str, tuple[Any, ...]]]
# Gives the value of a parameter.
Ask = Callable[[str, BaseDistribution], Any]


@dataclass(frozen=True)
class Branched:
    """An objective to be minimised.

    Attributes:
        name:
            Its name.
        space:
            All parameters together. Where the distribution of one changes from trial to trial,
            the first one is here, with its widest range.
        conditions:
            When the conditional ones are there.
        loss:
            The value of the parameters of a trial without noise. It reads those only that are
            there.
        noise_std:
            Standard deviation of the noise.
        optimum:
            The lowest loss, or the lowest that is known.
        best:
            The parameters that have it.
        walk:
            Asks for one parameter after the other. By default, for those whose conditions hold,
            in the order of ``space``, in which parents come first.
        static:
            The same objective in other parameters, if ``space`` and ``conditions`` cannot say
            what this one asks for.
    """

    name: str
    space: Space
    conditions: Conditions
    loss: Callable[[Params], float]
    noise_std: float
    optimum: float
    best: Params
    walk: Callable[[Ask], Params] | None = None
    static: Branched | None = None

    @property
    def has_static_space(self) -> bool:
        """Whether ``space`` and ``conditions`` say all about which parameters a trial has."""
        return self.static is None

    @property
    def as_static(self) -> Branched:
        """This objective for methods that must know all parameters beforehand."""
        return self.static or self

    def suggest(self, trial: optuna.Trial) -> Params:
        """Ask a trial for its parameters."""
        return self.ask(partial(_suggest, trial))

    def draw(self, rng: np.random.Generator) -> Params:
        """Return the parameters of a random trial."""
        return self.ask(lambda _, distribution: value_at(distribution, rng.random()))

    def ask(self, ask: Ask) -> Params:
        """Ask somebody for the parameters of one trial."""
        return self.walk(ask) if self.walk else self._walk(ask)

    def regret(self, params: Params) -> float:
        """Return how much worse parameters are than the best ones, without noise."""
        return self.loss(params) - self.optimum

    def _walk(self, ask: Ask) -> Params:
        params: Params = {}
        for name, distribution in self.space.items():
            if holds(self.conditions.get(name, {}), params):
                params[name] = ask(name, distribution)
        return params


def holds(condition: Mapping[str, tuple[Any, ...]], params: Params) -> bool:
    """Return whether all parents are there and have one of their values."""
    return all(p in params and params[p] in values for p, values in condition.items())


def value_at(distribution: BaseDistribution, position: float) -> Any:
    """Return the value at a position in [0, 1]."""
    return SearchSpace({"x": distribution}).from_unit([position])["x"]


def _suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, log = distribution.low, distribution.high, distribution.log
    if isinstance(distribution, FloatDistribution):
        return trial.suggest_float(name, low, high, step=distribution.step, log=log)
    return trial.suggest_int(name, int(low), int(high), step=distribution.step, log=log)


@dataclass(frozen=True)
class Parameters:
    """Collects parameters and their conditions: parents first."""

    space: Space = field(default_factory=dict)
    conditions: Conditions = field(default_factory=dict)

    def choice(self, name: str, *choices: Any, **when: Any) -> None:
        """Add a categorical parameter."""
        self._add(name, CategoricalDistribution(choices), when)

    def number(self, name: str, low: float, high: float, log: bool = False, **when: Any) -> None:
        """Add a number; whole if its ends are."""
        if isinstance(low, int) and isinstance(high, int):
            self._add(name, IntDistribution(low, high, log=log), when)
        else:
            self._add(name, FloatDistribution(low, high, log=log), when)

    def _add(self, name: str, distribution: BaseDistribution, when: Mapping[str, Any]) -> None:
        self.space[name] = distribution
        if when:
            self.conditions[name] = {
                parent: values if isinstance(values, tuple) else (values,)
                for parent, values in when.items()
            }
