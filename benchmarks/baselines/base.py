"""Base classes of methods outside Optuna: its hooks, turned into asks and rewards."""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from benchmarks.problems import FloatArray
from optuna_pcts._space.space import SearchSpace


@dataclass(frozen=True)
class Knowledge:
    """What a method is told about the problem, as in the paper.

    Attributes:
        noise_std:
            Standard deviation of the noise.
        cost:
            Cost of an evaluation at a fidelity, lambda(z).
        bias:
            Bound of the difference between the values at a fidelity and at full fidelity, zeta(z).
        value_range:
            Difference between the largest and the smallest value.
        n_evaluations:
            How many evaluations at full fidelity there is time for.
    """

    noise_std: float = 0.1
    cost: Callable[[float], float] = lambda z: 1.0
    bias: Callable[[float], float] = lambda z: 0.0
    value_range: float = 1.0
    n_evaluations: int = 200


class AskAndTell(BaseSampler, ABC):
    """A method that is asked for parameters, and told their rewards.

    Args:
        space:
            The parameters and their distributions.
    """

    def __init__(self, space: Mapping[str, BaseDistribution]) -> None:
        self._distributions = dict(space)
        self._numbers: set[int] = set()

    @abstractmethod
    def propose(self, number: int) -> dict[str, Any]:
        """Return the parameters of a trial."""

    @abstractmethod
    def tell(self, number: int, reward: float) -> None:
        """Receive the value of a trial; larger is better."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        self._numbers.add(trial.number)
        return self.propose(trial.number)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        raise ValueError(f"The parameter {param_name!r} is not in the space of this method.")

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        if trial.number in self._numbers and state == TrialState.COMPLETE and values:
            sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
            self.tell(trial.number, sign * values[0])


class Baseline(AskAndTell):
    """A method that asks for points of the unit cube, at a fidelity.

    Args:
        space:
            The parameters and their distributions.
        seed:
            Seed of its random numbers.
        knowledge:
            What it knows about the problem.
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
    ) -> None:
        super().__init__(space)
        self.knowledge = Knowledge() if knowledge is None else knowledge
        self.rng = np.random.default_rng(seed)
        self._space = SearchSpace(self._distributions)
        self.n_dims = len(self._space)
        self._fidelities: dict[int, float] = {}

    @abstractmethod
    def ask(self, number: int) -> tuple[Sequence[float] | FloatArray, float]:
        """Return a point of the unit cube and the fidelity to evaluate it at, for a trial."""

    def fidelity(self, trial: optuna.Trial) -> float:
        """Return the fidelity that a trial was asked for."""
        return self._fidelities.get(trial.number, 1.0)

    def propose(self, number: int) -> dict[str, Any]:
        point, fidelity = self.ask(number)
        self._fidelities[number] = float(fidelity)
        return self._space.from_unit([float(x) for x in np.clip(point, 0.0, 1.0)])
