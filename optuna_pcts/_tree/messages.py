"""What passes between study, search and tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
import enum
from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


class Status(enum.Enum):
    """State of a trial: asked, told, gone."""

    ASKED = enum.auto()
    TOLD = enum.auto()
    GONE = enum.auto()


class Kind(enum.Enum):
    """Who proposes a point."""

    LOCAL = enum.auto()  # around the best trials
    ANSWER = enum.auto()  # close to the posterior mean argmax
    LEVEL = enum.auto()  # the best leaf of a depth
    BOUND = enum.auto()  # the leaf with the largest bound


@dataclass(frozen=True, slots=True)
class Proposal:
    """Where to ask."""

    point: list[float]  # position in the unit cube, also along axes that do not exist there
    depth: int  # of the cell
    fidelity: float  # z_h, by its depth
    kind: Kind
    asked: list[float] | None = None  # the same as the tree has it; None: outside of the space


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """What is stored with a trial that the tree asked for.

    The point is what was proposed. Optuna stores each parameter only when the objective asks for
    it; until then, and for good if the objective fails before, this tells where the trial is.
    """

    depth: int
    point: Mapping[str, float]  # position in the unit cube, by parameter
    fidelity: float = 1.0  # at which the trial is to be evaluated
    max_resource: int | None = None  # steps of a full evaluation, if the pruner knows


@dataclass(frozen=True, slots=True)
class Feedback:
    """One trial as the tree sees it."""

    number: int
    status: Status
    params: Mapping[str, Any]
    # Larger is better, whatever the direction of the study. NaN: failed, or nothing reported yet.
    value: float
    proposal: ProposalRecord | None  # None if the tree did not ask
    fidelity: float = 1.0  # of the value
    curve: FloatArray | None = None  # fidelities passed and values there, once it has ended
    ended_at: float = 0.0  # seconds; 0 if it has not, or nobody knows
    # By how much it violates each constraint that it does, as far as it has said.
    violations: Mapping[str, float] = field(default_factory=dict)
    # Of the parameters.
    distributions: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_feasible(self) -> bool:
        """Whether it violates no constraint, as far as it has said."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class Leaf:
    """The cell chosen to be asked."""

    depth: int
    n_active: int  # axes that exist everywhere in it
    lower: list[float]
    upper: list[float]
    is_empty: bool  # False: a single value, or a cell that fixed coordinates let nobody leave


class CellView(NamedTuple):
    """A cell as people want to see it."""

    node: int
    parent: int  # -1 at the root
    depth: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n_active: int  # axes that exist everywhere in it
    is_leaf: bool
    n_asked: int
    n_told: int
    n_in_flight: int  # asked, and not yet told for good
    mean: float  # reward; NaN without feedback
    bound: float  # Bmin of the instance in the middle


class Told(NamedTuple):
    """What trials tell, an entry or a row each."""

    numbers: NDArray[np.intp]
    points: FloatArray
    rewards: FloatArray
    bias: FloatArray
    is_outlier: NDArray[np.bool_]
