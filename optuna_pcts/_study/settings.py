"""Settings of a search, and the tree of any study."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from optuna_pcts._checks import check_has_method
from optuna_pcts._checks import check_integer
from optuna_pcts._checks import check_number
from optuna_pcts._checks import checked_names
from optuna_pcts._checks import checked_reward
from optuna_pcts._search.config import LocalSearchConfig
from optuna_pcts._search.engine import Engine
from optuna_pcts._space.conditions import checked_conditions
from optuna_pcts._space.configspace import converted
from optuna_pcts._space.configspace import is_configuration_space
from optuna_pcts._space.parameters import Parameters
from optuna_pcts._space.space import check_search_space
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.history import History
from optuna_pcts._study.unwrap import sampler_of
from optuna_pcts._tree.fidelity import BiasModel
from optuna_pcts._tree.fidelity import DepthFidelity
from optuna_pcts._tree.policies import DUCBV
from optuna_pcts._tree.policies import Policy
from optuna_pcts._tree.smoothness import SmoothnessModel
from optuna_pcts._tree.smoothness import UnknownSmoothness
from optuna_pcts._tree.tree import Tree


# The part of a cell's side that is its middle, and the one that is as good as its centre.
_MIDDLE = 0.5
_NEAR_CENTER = 0.1

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


@dataclass(frozen=True)
class SearchSettings:
    """The arguments of :class:`PCTSSampler` that say where to ask: see there."""

    policy: Policy = field(default_factory=DUCBV)
    smoothness: SmoothnessModel = field(default_factory=UnknownSmoothness)
    point: str = "middle"
    branching: int = 2
    fidelity: DepthFidelity = field(default_factory=DepthFidelity)
    local_share: float = 0.5
    prior_std: float | None = 2.0
    reward: str | tuple[float, float] = "clipped"
    split_order: Sequence[str | Sequence[str]] = ()
    search_space: Mapping[str, BaseDistribution] | None = None
    conditions: Mapping[str, Mapping[str, Collection[Any]]] | None = None
    stale_after: float | None = None
    # Not an argument of the sampler: constants, to measure what each is worth.
    config: LocalSearchConfig = field(default_factory=LocalSearchConfig)
    # What is searched, if it was given.
    given: Parameters | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        check_has_method("policy", self.policy, "bound", "DUCBV()")
        check_has_method("smoothness", self.smoothness, "instances", "UnknownSmoothness()")
        if self.point not in ("middle", "center", "uniform"):
            raise ValueError(
                f"`point` must be 'middle', 'center' or 'uniform', but got {self.point!r}."
            )
        check_integer("branching", self.branching)
        if self.branching not in (2, 3):
            raise ValueError(f"`branching` must be 2 or 3, but got {self.branching!r}.")
        if not isinstance(self.fidelity, DepthFidelity):
            raise TypeError(f"`fidelity` must be a DepthFidelity, but got {self.fidelity!r}.")
        check_number("local_share", self.local_share, low=0.0, high=1.0, open_low=False)
        if self.prior_std is not None:
            check_number("prior_std", self.prior_std, low=0.0, open_low=False)
        object.__setattr__(self, "reward", checked_reward(self.reward))
        if self.stale_after is not None:
            check_number("stale_after", self.stale_after, low=0.0)
        given = None
        if self.search_space is not None:
            if is_configuration_space(self.search_space):
                if self.conditions is not None:
                    raise ValueError("A ConfigurationSpace has its own conditions.")
                for name, found in zip(
                    ("search_space", "conditions"), converted(self.search_space)
                ):
                    object.__setattr__(self, name, found)
            check_search_space(self.search_space)
            conditions = {} if self.conditions is None else self.conditions
            given = Parameters(
                {n: d for n, d in self.search_space.items() if not d.single()},
                checked_conditions(conditions, self.search_space),
            )
        elif self.conditions is not None:
            raise ValueError("`conditions` are for a given `search_space`, which is missing.")
        object.__setattr__(self, "given", given)
        names = checked_names(self.split_order)
        unknown = sorted(set(names) - set(self.search_space or names))
        if unknown:
            raise ValueError(
                f"`split_order` names {unknown}, but `search_space` has only "
                f"{sorted(self.search_space or ())}."
            )

    def instances(self, n_dims: int) -> list[tuple[float, float]]:
        """Return (nu, rho) of each smoothness instance, in the order of their turns."""
        return self.smoothness.instances(n_dims)

    def spread(self, is_blind: bool, knows_all: bool) -> float:
        """Return the part of a cell's side from which to draw the point: 0 is its centre.

        Args:
            is_blind:
                Whether many trials are in flight and none has ended.
            knows_all:
                Whether it is known what all other trials in flight ask.
        """
        if self.point == "uniform":
            return 1.0
        if not self.split_order:  # centres share a value that is expensive to change
            # Before the first feedback there is no cell to tell about, and a grid of centres gets
            # no nearer to the faces of the cube.
            if is_blind:
                return 1.0
            # A cell speaks for the sides that it has been split along. On the others all centres
            # are the same, and trials would say nothing about the parameter.
            if self.point == "middle":
                return _MIDDLE
        # Somebody may be about to ask the same centre. Stay around it, but not on it.
        return 0.0 if knows_all else _NEAR_CENTER

    def parameters(self, history: History) -> Parameters:
        """Return what is searched: what was given, or what trials have shown."""
        if self.given is None or self.conditions is not None:
            return self.given or history.space.parameters()
        return history.space.parameters().over(self.given.distributions)

    def engine(
        self,
        parameters: Parameters,
        history: History,
        *,
        on_failure: Callable[[Exception], None] = lambda _: None,
        without: int | None = None,
    ) -> Engine:
        """Build the search over a space from all trials, but for one that is about to be asked."""
        self._check_split_order(history)
        space = SearchSpace(
            parameters.distributions,
            conditions=parameters.conditions,
            floating=parameters.floating,
            branching=self.branching,
            split_order=self.split_order,
        )
        reward = self.reward
        if not isinstance(reward, str):
            reward = history.oriented(reward)
        tree = Tree(
            space,
            self.policy,
            self.instances,
            self.prior_std,
            BiasModel(self.fidelity.bias),
            reward,
        )
        ordered = checked_names(self.split_order)
        engine = Engine(parameters, space, tree, ordered, on_failure, self.config)
        for feedback in history.replay():
            if feedback.number != without:
                engine.fold(feedback)
        return engine

    def _check_split_order(self, history: History) -> None:
        """Warn of names that no trial has, once it can be known."""
        unknown = set(checked_names(self.split_order)) - history.space.names()
        if unknown and self.search_space is None:
            _logger.warning(
                f"`split_order` names {sorted(unknown)}, which no trial has had so far; the "
                f"parameters seen are {sorted(history.space.names())}."
            )


def settings_of(study: optuna.Study) -> SearchSettings:
    """Return the settings to see any study with.

    Those of its sampler if that is a :class:`PCTSSampler`, also within another one such as
    ``PartialFixedSampler``, and the default ones otherwise: what is in the storage makes the tree,
    whoever put it there.
    """
    settings = getattr(sampler_of(study), "settings", None)
    return settings if isinstance(settings, SearchSettings) else SearchSettings()


def history_of(study: optuna.Study, trials: list[FrozenTrial]) -> History:
    """Read all trials of a study at one moment, apart from what its sampler has read."""
    if study._is_multi_objective():
        raise ValueError("A tree needs a study with one objective.")
    history = History(study, settings_of(study).stale_after, trials)
    history.update(datetime.now())
    return history


def tree_of(study: optuna.Study, history: History | None = None) -> tuple[SearchSpace, Tree]:
    """Build the tree of a study, that nobody searches, and its space.

    Args:
        study:
            Any study with one objective.
        history:
            What was read of it, if that is so. By default all its trials are read.

    Raises:
        ValueError:
            If no trial shows a parameter.
    """
    settings = settings_of(study)
    if history is None:
        history = history_of(study, study.get_trials(deepcopy=False))
    parameters = settings.parameters(history)
    if not parameters.distributions:
        raise ValueError(
            "There is no tree yet: no trial shows a parameter that could be searched."
        )
    with np.errstate(all="ignore"):  # values may be as large or as small as floats can be
        engine = settings.engine(parameters, history)
    return engine.space, engine.tree
