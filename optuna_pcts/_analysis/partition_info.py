"""The numbers behind the figure of the partition: cells over two parameters."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any
from typing import NamedTuple

from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._tree.messages import Status


class AxisInfo(NamedTuple):
    """A parameter as an axis from 0 to 1."""

    name: str
    positions: tuple[float, ...]  # of the ticks
    labels: tuple[str, ...]


class BoxInfo(NamedTuple):
    """The intersection of a cell with the plane of two parameters."""

    x0: float
    x1: float
    y0: float
    y1: float
    depth: int
    mean: float | None  # of the smallest cell around it that has feedback


class PointInfo(NamedTuple):
    """A trial on the plane of two parameters."""

    number: int
    x: float
    y: float
    value: float | None  # None: in flight, or failed
    in_flight: bool
    is_feasible: bool = True


class PartitionInfo(NamedTuple):
    """The cells over two parameters, in the plane through the recommended point."""

    x: AxisInfo
    y: AxisInfo
    boxes: tuple[BoxInfo, ...]
    points: tuple[PointInfo, ...]
    recommended: PointInfo | None
    others: Mapping[str, Any]  # the other parameters, which fix the plane


def partition_info(source: Snapshot) -> PartitionInfo:
    """Return the cells over two parameters; see :class:`PartitionInfo`."""
    space = source.space
    located = _located(source)
    answer = None if source.recommendation is None else source.recommendation.number
    anchor, names = located.get(answer, ([math.nan], ()))
    if any(map(math.isnan, anchor)):  # there is no answer, or it lacks a parameter
        answer, anchor, names = None, [0.5] * len(space), space.names
    by_name = sorted(zip(map(bool, space.categories), space.names))  # those with an order first
    here = [name for _, name in by_name if name in names]
    dims = _two_params(space.names, here[:2] if source.params is None else source.params)
    params = {space.names[dim] for dim in dims}
    recommended = None
    if source.recommendation is not None and answer in located and params <= set(names):
        recommended = PointInfo(
            source.recommendation.number,
            anchor[dims[0]],
            anchor[dims[1]],
            source.recommendation.value,
            in_flight=False,
        )
    elif not params <= set(names):  # the plane lies where they exist
        anchor = _best_with(source, located, params) or anchor
    rest = [i for i in range(len(space)) if i not in dims]
    known: list[float | None] = []  # the mean, from the smallest cell around that has one
    cut = []
    for cell in source.cells:
        around = None if cell.parent < 0 else known[cell.parent]
        known.append(cell.mean if cell.n_told else around)
        # Half open, so that a point on a border lies in one of the two.
        if all(cell.lower[i] <= anchor[i] < cell.upper[i] + (cell.upper[i] == 1) for i in rest):
            cut.append(cell)
    limit = max(cell.depth for cell in cut)
    while True:  # at most one round per level
        leaves = [c for c in cut if c.depth == limit or (c.is_leaf and c.depth < limit)]
        if len(leaves) <= source.max_cells or not limit:
            break
        limit -= 1
    x, y = dims
    points = []
    for f in source.feedback:
        point, names = located.get(f.number, (None, ()))
        if point is None or not params <= set(names):
            continue
        if not (math.isnan(point[x]) or math.isnan(point[y])):
            value = source.sign * f.value if math.isfinite(f.value) else None
            in_flight = f.status is Status.ASKED
            points.append(PointInfo(f.number, point[x], point[y], value, in_flight, f.is_feasible))
    return PartitionInfo(
        x=_axis_info(source, x),
        y=_axis_info(source, y),
        boxes=tuple(
            BoxInfo(c.lower[x], c.upper[x], c.lower[y], c.upper[y], c.depth, known[c.node])
            for c in leaves
        ),
        points=tuple(points[-source.max_points :]),
        recommended=recommended,
        others={
            name: value for name, value in space.from_unit(anchor).items() if name not in params
        },
    )


def _located(source: Snapshot) -> dict[int | None, tuple[list[float], Collection[str]]]:
    """Return where each trial is, and which parameters exist there."""
    space = source.space
    found: dict[int | None, tuple[list[float], Collection[str]]] = {}
    for f in source.feedback:
        proposed = f.proposal.point if f.proposal is not None else None
        point = space.to_unit(f.params, proposed, f.distributions)
        if point is not None:
            found[f.number] = point, space.existing(point)
    return found


def _best_with(
    source: Snapshot,
    located: Mapping[int | None, tuple[list[float], Collection[str]]],
    params: Collection[str],
) -> list[float] | None:
    """Return where the best trial is that has some parameters."""
    told = [
        f
        for f in source.feedback
        if math.isfinite(f.value) and f.number in located and {*params} <= {*located[f.number][1]}
    ]
    best = max(told, key=lambda f: f.value, default=None)
    return None if best is None else located[best.number][0]


def _two_params(names: Sequence[str], params: Sequence[str]) -> tuple[int, int]:
    if len(names) < 2:
        raise ValueError(
            f"A partition is drawn over two parameters, but the tree has only {list(names)}."
        )
    if isinstance(params, str) or len(set(params)) != 2 or len(params) != 2:
        raise ValueError(f"`params` must name two different parameters, but got {params!r}.")
    unknown = [name for name in params if name not in names]
    if unknown:
        raise ValueError(f"`params` names {unknown}, but the tree has {list(names)}.")
    return names.index(params[0]), names.index(params[1])


def _axis_info(source: Snapshot, dim: int) -> AxisInfo:
    name = source.space.names[dim]
    ticks = source.space.ticks(name)
    return AxisInfo(name, tuple(x for x, _ in ticks), tuple(label for _, label in ticks))
