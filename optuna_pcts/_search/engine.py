"""Where to ask next: a tree, and proposers that are asked in their order.

A proposer returns a :class:`Proposal`, or None if it has none that is worth a trial. The first
proposal is taken: in a branch that is new, around the best trials (``local.py``), level by level,
or by the bounds. Which of them have a turn is drawn for each trial; the last one always has a
proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optuna_pcts._search.config import LocalSearchConfig
from optuna_pcts._search.local import LocalSearch
from optuna_pcts._space.parameters import Parameters
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import Kind
from optuna_pcts._tree.messages import Leaf
from optuna_pcts._tree.messages import Proposal
from optuna_pcts._tree.messages import Status
from optuna_pcts._tree.tree import Tree


class Engine:
    """One search space: its cube, its tree, and the points asked of them.

    Args:
        parameters:
            The parameters.
        space:
            The cube of these.
        tree:
            Its tree.
        ordered:
            Names of parameters that are split before all others.
        on_failure:
            Called where the numerics of a local ask fail.
        config:
            The constants.

    Attributes:
        is_valid:
            False once the tree is not what a new one would be.
    """

    def __init__(
        self,
        parameters: Parameters,
        space: SearchSpace,
        tree: Tree,
        ordered: Sequence[str],
        on_failure: Callable[[Exception], None],
        config: LocalSearchConfig,
    ) -> None:
        self.parameters = parameters
        self.space = space
        self.tree = tree
        # Parameters that are split after others. Until then their centre is nothing special, and
        # a whole study might pass without another value of them.
        self._waits = np.array([bool(ordered) and name not in ordered for name in space.names])
        # Values without an order have no middle.
        self._has_middle = np.array(
            [n == 0 or name in ordered for name, n in zip(space.names, space.categories)]
        )
        self._local = LocalSearch(
            tree, space.categories, space.slots, active=space.active, config=config
        )
        self._on_failure = on_failure
        self._config = config
        self._knows_branches = False  # whether trials have been in all of them
        self.is_valid = True

    def fold(self, feedback: Feedback) -> None:
        """Bring one trial of the tree up to date."""
        number, status, asked = feedback.number, feedback.status, feedback.proposal
        tree = self.tree
        proposed, depth = (asked.point, asked.depth) if asked is not None else (None, None)
        point = self.space.to_unit(feedback.params, proposed, feedback.distributions)
        n_unknown = len(self.space) if point is None else sum(x != x for x in point)
        if status is not Status.ASKED and n_unknown:
            tree.remove(number)  # it will never have more coordinates than it has now
        if point is None or n_unknown == len(self.space):
            return
        if tree.place(number, point, depth):
            self.is_valid = False  # split for a point that was not evaluated
        if status is Status.TOLD:
            tree.tell(
                number,
                feedback.value,
                feedback.fidelity,
                ended_at=feedback.ended_at,
                curve=feedback.curve,
                violations=feedback.violations,
            )
        elif status is Status.ASKED and feedback.value == feedback.value:
            tree.tell(
                number,
                feedback.value,
                feedback.fidelity,
                ended=False,
                violations=feedback.violations,
            )
        elif status is Status.GONE:
            tree.remove(number)
            self._knows_branches = False  # it may have been the only one in its own

    def knows(self, number: int) -> bool:
        """Whether the whole point of a trial is known."""
        return self.tree.knows_point(number)

    def ask(
        self,
        number: int,
        fixed: Mapping[str, Any],
        rng: np.random.Generator,
        *,
        spread: float,
        local_share: float,
        knows_all: bool,
    ) -> tuple[dict[str, Any], Proposal]:
        """Choose the parameters of a trial, and count it as asked.

        Args:
            number:
                Trial number.
            fixed:
                Parameters that are not to be chosen.
            rng:
                The generator of this trial.
            spread:
                The part of a cell's side from which to draw the point: 0 is its centre.
            local_share:
                Probability of a local ask instead of one by the tree.
            knows_all:
                Whether it is known what all other trials in flight ask. If not, one of them may be
                about to ask the same corner of the cube.

        Returns:
            The parameters, and what was proposed. It has a position for every axis, also for those
            that do not exist there as far as is known.
        """
        space, tree = self.space, self.tree
        tree.remove(number)  # in case it was asked before
        proposals = self._proposals(number, fixed, rng, spread, local_share, knows_all)
        proposal = next(found for found in proposals if found is not None)
        params = space.from_unit(proposal.point) | {
            name: value for name, value in fixed.items() if name in space.names
        }
        positions = dict(zip(space.names, proposal.point))
        point = space.to_unit(params, positions)
        if point is not None:  # or somebody has fixed a parameter outside of the space
            tree.place(number, point, proposal.depth)
        return params, replace(proposal, asked=point)

    def _proposals(
        self,
        number: int,
        fixed: Mapping[str, Any],
        rng: np.random.Generator,
        spread: float,
        local_share: float,
        knows_all: bool,
    ) -> Iterator[Proposal | None]:
        """Yield what each proposer proposes whose turn it may be, and last what the bounds say."""
        if not self.space.is_flat and not fixed and rng.random() < self._config.new_branch_share:
            yield None if self._knows_branches else self._in_new_branch(number, rng, spread)
        turn = rng.random()
        is_local = turn < local_share and not fixed
        if not is_local and not fixed and local_share > 0 and turn < (1 + local_share) / 2:
            is_local = self._is_rugged()  # neighbours carry little information
        # Where nothing is left to gain, something better can only be elsewhere.
        has_nothing_left = local_share < 1 and not fixed and self.tree.has_nothing_left
        if is_local and not has_nothing_left:
            yield self._around_the_best(rng, off_corners=not knows_all)
            yield self._around_the_best(rng, off_corners=True)
        if local_share > 0 and not fixed and self.tree.n_told:
            config = self._config
            share = config.nothing_left_share if has_nothing_left else config.level_share
            if rng.random() < share:
                yield self._by_level(rng, spread)
        yield self._by_bounds(number, fixed, rng, spread)

    def _is_rugged(self) -> bool:
        """Whether more asks than usual are local: see ``local.py``."""
        try:
            return self._local.is_rugged
        except (ArithmeticError, ValueError) as error:  # also those of linear algebra
            self._on_failure(error)
            return False

    def _around_the_best(self, rng: np.random.Generator, off_corners: bool) -> Proposal | None:
        """Return a local ask, if there is one not asked before: see ``local.py``."""
        try:
            drawn = self._local.draw(rng, off_corners)
        except (ArithmeticError, ValueError) as error:  # also those of linear algebra
            self._on_failure(error)
            return None
        if drawn is None:
            return None
        positions = dict(zip(self.space.names, drawn.point))
        point = self.space.to_unit(self.space.from_unit(drawn.point), positions)
        assert point is not None, "a value of the space lies in it"
        depth, n_active, is_taken = self.tree.locate(point)
        if is_taken and not drawn.is_repeat:
            return None
        kind = Kind.ANSWER if drawn.at_guess else Kind.LOCAL
        return Proposal(drawn.point, depth, self.tree.fidelity(depth, n_active), kind)

    def _by_level(self, rng: np.random.Generator, spread: float) -> Proposal | None:
        """Return a point where the tree is best at one of its depths."""
        leaf = self.tree.select_level(rng)
        return None if leaf is None else self._in_leaf(leaf, spread, rng, Kind.LEVEL)

    def _in_new_branch(
        self, number: int, rng: np.random.Generator, spread: float
    ) -> Proposal | None:
        """Return a point in a branch that no trial has been in; None if there is none."""
        new = self.space.new_branches(self.tree.asked_points())
        if not new:
            self._knows_branches = True
            return None
        way = self.space.way_to(new[int(rng.integers(len(new)))], rng)
        leaf = self.tree.select(number, rng, way)
        return _through(way, self._in_leaf(leaf, spread, rng, Kind.BOUND))

    def _by_bounds(
        self, number: int, fixed: Mapping[str, Any], rng: np.random.Generator, spread: float
    ) -> Proposal:
        """Return a point of the leaf with the largest bound (algorithm 1)."""
        at = self.space.to_unit(fixed) if fixed else None
        leaf = self.tree.select(number, rng, at)
        if fixed and not leaf.is_empty:
            spread = 1.0  # its centre has been asked
        proposal = self._in_leaf(leaf, spread, rng, Kind.BOUND)
        # What exists there depends on what is fixed.
        return proposal if at is None or self.space.is_flat else _through(at, proposal)

    def _in_leaf(
        self, leaf: Leaf, spread: float, rng: np.random.Generator, kind: Kind
    ) -> Proposal:
        """Return a point of the middle of a cell, as wide as given; anywhere if there is none."""
        lower, upper = np.array(leaf.lower), np.array(leaf.upper)
        is_middle = self._has_middle & ~(self._waits & (upper - lower >= 1))
        shift = (rng.random(len(lower)) - 0.5) * np.where(is_middle, spread, 1.0)
        point: list[float] = ((lower + upper) / 2 + shift * (upper - lower)).tolist()
        fidelity = self.tree.fidelity(leaf.depth, leaf.n_active)
        return Proposal(point, leaf.depth, fidelity, kind)


def _through(at: Sequence[float], proposal: Proposal) -> Proposal:
    """Return a proposal with some coordinates as given; NaN where they are free."""
    return replace(proposal, point=[x if y != y else y for x, y in zip(proposal.point, at)])
