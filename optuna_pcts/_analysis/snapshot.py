"""A snapshot of a study: its trials, read once, and what is derived from them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from optuna_pcts._analysis.recommend import recommend_from
from optuna_pcts._analysis.recommend import Recommendation
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.attributes import is_feasible
from optuna_pcts._study.history import History
from optuna_pcts._study.settings import history_of
from optuna_pcts._study.settings import settings_of
from optuna_pcts._study.settings import tree_of
from optuna_pcts._tree.messages import CellView
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import Status
from optuna_pcts._tree.tree import Tree


# A figure with more cells or points than this is neither faster to read nor to load.
MAX_CELLS = 400
MAX_POINTS = 1000

T = TypeVar("T")


class NextCell(NamedTuple):
    """A cell that the tree is about to ask for."""

    depth: int
    ranges: Mapping[str, str]  # of the parameters that it narrows


class Snapshot:
    """A snapshot of a study; everything is read or computed once, when it is first needed.

    Args:
        study:
            A study with one objective, by whatever sampler.
        params:
            The two parameters of the partition. By default the first two by name, categories
            last.
        max_cells:
            How many cells a figure may have.
        max_points:
            How many trials, the newest ones, a figure may show one by one. Means are of all.
    """

    def __init__(
        self,
        study: optuna.Study,
        *,
        params: Sequence[str] | None = None,
        max_cells: int = MAX_CELLS,
        max_points: int = MAX_POINTS,
    ) -> None:
        if not isinstance(study, optuna.Study):
            raise TypeError(f"`study` must be an optuna.Study, but got {study!r}.")
        if study._is_multi_objective():
            raise ValueError(
                f"The study `{study.study_name}` has {len(study.directions)} objectives; this "
                "needs a study with one."
            )
        self.study = study
        self.params = params
        self.max_cells, self.max_points = max_cells, max_points
        self._infos: dict[Callable[[Snapshot], object], Any] = {}
        self.missing: dict[Callable[[Snapshot], object], str] = {}  # why there are no numbers
        self.sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0

    def info(self, of: Callable[[Snapshot], T]) -> T | None:
        """Return the numbers behind a figure, computed once; None if there are none.

        Args:
            of:
                The function that computes them, such as :func:`tree_info`.
        """
        if of not in self._infos:
            try:
                self._infos[of] = of(self)
            except ValueError as error:
                self._infos[of], self.missing[of] = None, str(error)
        info: T | None = self._infos[of]
        return info

    @cached_property
    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    @cached_property
    def history(self) -> History:
        return history_of(self.study, self.trials)

    @cached_property
    def _search(self) -> tuple[SearchSpace, Tree]:
        return tree_of(self.study, self.history)

    @property
    def space(self) -> SearchSpace:
        return self._search[0]

    @property
    def tree(self) -> Tree:
        return self._search[1]

    @property
    def instances(self) -> list[tuple[float, float]]:
        """(nu, rho) of each smoothness instance, in the order of their turns."""
        return settings_of(self.study).instances(len(self.space))

    @cached_property
    def cells(self) -> tuple[CellView, ...]:
        return tuple(self.tree.cells())

    @cached_property
    def feedback(self) -> list[Feedback]:
        """Every trial as the tree sees it, without deleted ones."""
        return [f for f in self.history.replay() if f.status is not Status.GONE]

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Numbers of the trials that run."""
        return tuple(sorted(self.history.running))

    @property
    def stale(self) -> tuple[int, ...]:
        """Numbers of the trials that run but count as lost."""
        return tuple(sorted(set(self.history.unfinished) - set(self.history.running)))

    @cached_property
    def infeasible(self) -> tuple[int, ...]:
        """Numbers of the trials that ended and violate a constraint."""
        return tuple(
            trial.number
            for trial in self.trials
            if trial.state.is_finished() and not is_feasible(trial)
        )

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The recommended configuration; None as long as there is no value."""
        try:
            return recommend_from(self.history, self.sign)[0]
        except ValueError:
            return None

    def next_cells(self, n: int) -> list[NextCell]:
        """Return the cells that the tree asks for next, if no feedback comes before."""
        space, _ = self.space, self.cells  # computed first: asking ahead changes the tree
        return [
            NextCell(leaf.depth, space.describe(leaf.lower, leaf.upper))
            for leaf in self.tree.ask_ahead(n)
        ]
