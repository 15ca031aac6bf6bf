"""The numbers behind the figure of the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import NamedTuple

from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.messages import CellView


class CellInfo(NamedTuple):
    """One cell of the tree.

    The mean and the bound are rewards: 0 is the median of all values and 1 the best.
    """

    node: int
    parent: int  # -1 at the root
    depth: int
    left: float  # horizontal position in the icicle, from 0 to 1; the width is the share of the
    right: float  # trials
    n_asked: int
    n_told: int
    n_in_flight: int
    is_in_flight: bool  # some of these are not in one of the smaller cells that are shown
    mean: float | None  # None without feedback
    bound: float | None  # None: infinite
    ranges: Mapping[str, str]  # of the parameters that it narrows
    opens: tuple[str, ...]  # the parameters that exist in it and not everywhere around it


class TreeInfo(NamedTuple):
    """The tree of a study. Only cells with trials are shown, those with most trials first."""

    cells: tuple[CellInfo, ...]
    depth: int  # of the deepest cell
    n_cells: int
    n_asked: int
    n_told: int
    n_in_flight: int


def tree_info(source: Snapshot) -> TreeInfo:
    """Return the cells of the tree; see :class:`TreeInfo`."""
    cells = source.cells
    root = cells[0]
    if not root.n_asked:
        raise ValueError(
            f"The study `{source.study.study_name}` has no trial with all of the parameters "
            f"{list(source.space.names)}, so that its tree is empty."
        )
    # Ancestors have at least as many trials, and come first among equals: they are all kept.
    fullest = sorted(
        (cell for cell in cells if cell.n_asked),
        key=lambda cell: (not cell.n_in_flight, -cell.n_asked, cell.depth, cell.node),
    )[: source.max_cells]
    below = Counter[int]()  # in flight in the children of each cell
    for cell in fullest:
        below[cell.parent] += cell.n_in_flight
    left = {root.node: 0.0}  # what is still free at the left of each cell
    shown = []
    for cell in sorted(fullest, key=lambda cell: cell.node):
        x0 = left[root.node if cell.parent < 0 else cell.parent]
        x1 = x0 + cell.n_asked / root.n_asked
        left[cell.node] = x0
        if cell.parent >= 0:
            left[cell.parent] = x1
        shown.append(
            CellInfo(
                node=cell.node,
                parent=cell.parent,
                depth=cell.depth,
                left=x0,
                right=x1,
                n_asked=cell.n_asked,
                n_told=cell.n_told,
                n_in_flight=cell.n_in_flight,
                is_in_flight=cell.n_in_flight > below[cell.node],
                mean=cell.mean if cell.n_told else None,
                bound=cell.bound if math.isfinite(cell.bound) else None,
                ranges=source.space.describe(cell.lower, cell.upper),
                opens=_opened(source.space, cells, cell),
            )
        )
    return TreeInfo(
        cells=tuple(shown),
        depth=max(cell.depth for cell in cells),
        n_cells=len(cells),
        n_asked=root.n_asked,
        n_told=root.n_told,
        n_in_flight=root.n_in_flight,
    )


def _opened(space: SearchSpace, cells: Sequence[CellView], cell: CellView) -> tuple[str, ...]:
    """Return the parameters that exist in a cell and not everywhere in its parent."""
    if space.is_flat or cell.parent < 0 or cells[cell.parent].n_active == cell.n_active:
        return ()
    around = cells[cell.parent]
    before = set(space.active_in(around.lower, around.upper))
    return tuple(n for n in space.active_in(cell.lower, cell.upper) if n not in before)
