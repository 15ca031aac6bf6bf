"""The figures people ask for: one frozen tuple for each thing to see, from any study.

Everything that is drawn, written into the dashboard or printed is one of these, so that plotly,
matplotlib, the dashboard and the command line show the same numbers:

====================  =======================================================================
:func:`tree_info`     the cells: depth, asked, told, in flight, mean, bound
:func:`partition_info`  the cells over two parameters, the trials, the recommended point
:func:`delay_info`    how late feedback is, its tail, and what that costs (theorem 2)
:func:`fidelity_info` how far trials were evaluated
:func:`cost_info`     what trials cost at each depth, and the models that were fitted
:func:`regret_info`   the best and the recommended value against the clock
:func:`report`        all of it in words and numbers
====================  =======================================================================

Each refuses with a ``ValueError`` that says why where a study has nothing of the kind to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from functools import cached_property
import math
from typing import Any
from typing import NamedTuple

import numpy as np
import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from optuna.trial import TrialState

from optuna_pcts._cost_fit import CostFit
from optuna_pcts._cost_fit import fit_cost
from optuna_pcts._recommend import recommend
from optuna_pcts._recommend import Recommendation
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import is_feasible
from optuna_pcts._study.costs import level_of_trial
from optuna_pcts._study.costs import trial_cost
from optuna_pcts._study.history import delays
from optuna_pcts._study.history import History
from optuna_pcts._study.settings import history_of
from optuna_pcts._study.settings import tree_of
from optuna_pcts._study.stamps import clock
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.messages import Status
from optuna_pcts._tree.tree import CellView
from optuna_pcts._tree.tree import Tree


# A figure with more cells or points than this is neither faster to read nor to load.
MAX_CELLS = 400
MAX_POINTS = 1000

# The tail of the delays is their longest tenth, but at least so many, and unknown below so many.
_TAIL_SHARE = 0.1
_TAIL_AT_LEAST = 10
_TAIL_NEEDS = 50
# Half width of a 95 % interval, in standard deviations.
_Z = 1.96

# What a report says something about.
_REPORTED = ("tree", "delays", "fidelity", "cost")

# A recommendation is made anew each time the number of trials has grown by this factor, so that
# all of them together cost three times as much as the last one.
_RECOMMEND_GROWTH = 1.5
_MAX_RECOMMENDED = 12


class NextCell(NamedTuple):
    """A cell that the tree is about to ask for."""

    depth: int
    ranges: Mapping[str, str]  # of the parameters that it narrows


class Snapshot:
    """One look at a study: each thing is read or computed once, when it is first needed.

    Args:
        study:
            A study with one objective, by whatever sampler.
        params:
            The two parameters of the partition. By default the first two by name, categories
            last.
        max_cells:
            How many cells a figure may have.
        max_points:
            How many trials, the newest ones, it may show one by one. Means are of all.
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
        self._infos: dict[str, Any] = {}
        self.missing: dict[str, str] = {}  # what could not be had so far, and why
        self.sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0

    def info(self, name: str) -> Any:
        """Return one of :data:`INFOS`; None if the study has nothing of the kind."""
        if name not in self._infos:
            try:
                self._infos[name] = INFOS[name](self)
            except ValueError as error:
                self._infos[name], self.missing[name] = None, str(error)
        return self._infos[name]

    @cached_property
    def trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    @cached_property
    def history(self) -> History:
        return history_of(self.study, self.trials)

    @cached_property
    def _tree(self) -> tuple[SearchSpace, Tree]:
        return tree_of(self.study, self.history)

    @property
    def space(self) -> SearchSpace:
        return self._tree[0]

    @cached_property
    def cells(self) -> tuple[CellView, ...]:
        return tuple(self._tree[1].cells())

    @cached_property
    def feedback(self) -> list[Feedback]:
        """Every trial as the tree sees it, those that are gone left out."""
        return [f for f in self.history.replay() if f.status is not Status.GONE]

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Numbers of the trials that run."""
        return tuple(sorted(self.history.running))

    @property
    def stale(self) -> tuple[int, ...]:
        """Numbers of the trials that run but were given up for lost."""
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
            return recommend(self.study)
        except ValueError:
            return None

    def next_cells(self, n: int) -> list[NextCell]:
        """Return the cells that the tree asks for next, if no feedback comes before."""
        space, _ = self.space, self.cells  # what is asked ahead must not show up in those
        return [
            NextCell(leaf.depth, space.describe(leaf.lower, leaf.upper))
            for leaf in self._tree[1].ask_ahead(n)
        ]


# ---------------------------------------------------------------------- the tree


class CellInfo(NamedTuple):
    """One cell of the tree.

    The mean and the bound are rewards: 0 is the median of all values and 1 the best.
    """

    node: int
    parent: int  # -1 at the root
    depth: int
    left: float  # where it stands among all cells of its depth, from 0 to 1, as wide as its
    right: float  # share of the trials
    n_asked: int
    n_told: int
    n_in_flight: int
    is_in_flight: bool  # some of these are not in one of the smaller cells that are shown
    mean: float | None  # None without feedback
    bound: float | None  # None: infinite
    ranges: Mapping[str, str]  # of the parameters that it narrows


class TreeInfo(NamedTuple):
    """The tree of a study. Only cells that hold a trial are shown, the fullest first."""

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
    # Ancestors hold at least as many trials, and come first among equals: they are all kept.
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


# ---------------------------------------------------------------------- the partition


class AxisInfo(NamedTuple):
    """A parameter as an axis from 0 to 1."""

    name: str
    positions: tuple[float, ...]  # of the ticks
    labels: tuple[str, ...]


class BoxInfo(NamedTuple):
    """A cell where the plane of two parameters cuts it."""

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
    others: Mapping[str, Any]  # where the plane lies: the other parameters


def partition_info(source: Snapshot) -> PartitionInfo:
    """Return the cells over two parameters; see :class:`PartitionInfo`."""
    space = source.space
    by_name = sorted(zip(map(bool, space.categories), space.names))  # those with an order first
    params = [name for _, name in by_name[:2]] if source.params is None else source.params
    dims = _two_params(space.names, params)
    anchor = [0.5] * len(space)
    recommended = None
    if source.recommendation is not None:
        found = space.to_unit(source.recommendation.params)
        if found is not None and not any(map(math.isnan, found)):
            anchor = found
            recommended = PointInfo(
                source.recommendation.number,
                anchor[dims[0]],
                anchor[dims[1]],
                source.recommendation.value,
                in_flight=False,
            )
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
        point = space.to_unit(f.params, f.proposal.point if f.proposal is not None else None)
        if point is not None and not (math.isnan(point[x]) or math.isnan(point[y])):
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
            name: value
            for i, (name, value) in enumerate(space.from_unit(anchor).items())
            if i in rest
        },
    )


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


# ---------------------------------------------------------------------- delays


class DelayInfo(NamedTuple):
    """How late the feedback of a study is.

    By consequence 4 of the paper's theorem 2, a mean delay tau of O(log T) trials is *benign*:
    the price of the delay, ``1 + tau / log T``, is a constant. Delays whose tail decays like
    ``x^-alpha`` with alpha < 1 are *adversarial*: their mean grows like T^(1 - alpha), and so
    does the price. A study has one T, so that O(log T) is read as "at most log T": the price is
    at most 2, to the power of 1 / (d + 2). What is neither is *long*: a mean of more than log T
    with a light tail, whose price falls while the study goes on.
    """

    seconds: tuple[float, ...]  # of the finished trials
    trials: tuple[int, ...]  # how many others were asked in the meantime, of the same
    mean_seconds: float
    mean_trials: float
    longest_seconds: float
    log_t: float
    price: float  # 1 + tau / log T
    tail: float | None  # alpha; infinite if nothing is longer than the rest; None: too few
    tail_interval: tuple[float, float] | None  # 95 %
    tail_from: float  # seconds
    regime: str  # "benign", "adversarial" or "long"

    @property
    def verdict(self) -> str:
        """The regime in a sentence."""
        mean = f"a mean delay of {self.mean_trials:.3g} trials"
        if self.regime == "adversarial":
            assert self.tail is not None
            return (
                f"adversarial: the tail exponent of {self.tail:.2g} is below 1, so that the mean "
                "delay grows with the study"
            )
        if self.regime == "benign":
            return f"benign: {mean} is at most log T = {self.log_t:.3g}"
        return f"long: {mean} is more than log T = {self.log_t:.3g}, but its tail is not heavy"


def delay_info(source: Snapshot) -> DelayInfo:
    """Return how late feedback is; see :class:`DelayInfo`."""
    found = delays(source.study)
    if not found:
        raise ValueError(
            f"The study `{source.study.study_name}` has no finished trial with time stamps, so "
            "that it has no delays."
        )
    seconds = [max(d.seconds, 0.0) for d in found]
    trials = [d.trials for d in found]
    # A trial in flight has waited for so long already: without it the longest would be missing.
    # Until the newest time stamp, so that it depends on the storage alone.
    in_flight = set(source.in_flight)
    stamps = [s for t in source.trials for s in (t.datetime_start, t.datetime_complete) if s]
    newest = max(map(clock, stamps))
    ages = [
        newest - clock(trial.datetime_start)
        for trial in source.trials
        if trial.number in in_flight and trial.datetime_start is not None
    ]
    tail, interval, tail_from = tail_exponent(seconds, ages)
    mean_trials = float(np.mean(trials))
    log_t = math.log(max(len(source.trials), 2))
    if interval is not None and interval[1] < 1:
        regime = "adversarial"
    else:
        regime = "benign" if mean_trials <= log_t else "long"
    return DelayInfo(
        seconds=tuple(seconds),
        trials=tuple(trials),
        mean_seconds=float(np.mean(seconds)),
        mean_trials=mean_trials,
        longest_seconds=max(seconds),
        log_t=log_t,
        price=1 + mean_trials / log_t,
        tail=tail,
        tail_interval=interval,
        tail_from=tail_from,
        regime=regime,
    )


def tail_exponent(
    finished: Sequence[float], running: Sequence[float] = ()
) -> tuple[float | None, tuple[float, float] | None, float]:
    """Estimate alpha of a tail ``P(delay > x) ~ x^-alpha`` (Hill's estimator).

    Args:
        finished:
            Delays.
        running:
            Delays that are not over: each is at least so long.

    Returns:
        The exponent and its 95 % interval, None and None if there are too few delays; and where
        the tail begins.
    """
    ended = np.array([x for x in finished if x > 0])
    open_ = np.array([x for x in running if x > 0])
    both = np.sort(np.concatenate([ended, open_]))
    n = len(both)
    if n < _TAIL_NEEDS:
        return None, None, 0.0
    start = float(both[-1 - max(_TAIL_AT_LEAST, int(_TAIL_SHARE * n))])
    k = int(np.count_nonzero(ended > start))
    total = float(np.log(both[both > start] / start).sum())
    if not k or total <= 0:
        # All alike: no tail at all. Or nothing of the tail is back yet: it may be anything.
        return (None, None, start) if len(open_) else (math.inf, (math.inf, math.inf), start)
    alpha = k / total
    spread = _Z / math.sqrt(k)
    return alpha, (alpha * max(1 - spread, 0.0), alpha * (1 + spread)), start


# ---------------------------------------------------------------------- fidelity


class FidelityInfo(NamedTuple):
    """How far the finished trials of a study were evaluated, from 0 to 1."""

    numbers: tuple[int, ...]  # of the newest trials
    depths: tuple[int | None, ...]  # None: the tree did not ask for it
    fidelities: tuple[float, ...]
    by_depth: tuple[tuple[int, float, int], ...]  # depth, mean fidelity, number of trials
    n_trials: int
    mean: float
    whole: float  # share of the trials that were evaluated as a whole
    work: float  # what all trials together amount to, in whole evaluations
    infeasible: tuple[int, ...]  # of these numbers


def fidelity_info(source: Snapshot) -> FidelityInfo:
    """Return how far trials were evaluated; see :class:`FidelityInfo`."""
    told = [f for f in source.feedback if f.status is Status.TOLD and math.isfinite(f.value)]
    if not told:
        raise ValueError(f"The study `{source.study.study_name}` has no trial with a value yet.")
    if all(f.fidelity >= 1 for f in told):
        raise ValueError(
            f"All {len(told)} trials of the study `{source.study.study_name}` that have a value "
            "were evaluated as a whole, so that there is no fidelity to see. It takes a "
            "PCTSPruner (or another pruner), or an objective that reads fidelity(trial)."
        )
    fidelities = [f.fidelity for f in told]
    depths = [None if f.proposal is None else f.proposal.depth for f in told]
    newest = slice(-source.max_points, None)
    return FidelityInfo(
        numbers=tuple(f.number for f in told[newest]),
        depths=tuple(depths[newest]),
        fidelities=tuple(fidelities[newest]),
        by_depth=tuple(
            (depth, float(np.mean(group)), len(group))
            for depth, group in _grouped(depths, fidelities)
        ),
        n_trials=len(told),
        mean=float(np.mean(fidelities)),
        whole=float(np.mean([z >= 1 for z in fidelities])),
        work=math.fsum(fidelities),
        infeasible=tuple(f.number for f in told[newest] if not f.is_feasible),
    )


def _grouped(
    depths: Iterable[int | None], values: Iterable[float]
) -> list[tuple[int, list[float]]]:
    """Return the values at each depth, shallow first."""
    groups: dict[int, list[float]] = {}
    for depth, value in zip(depths, values):
        if depth is not None:
            groups.setdefault(depth, []).append(value)
    return sorted(groups.items())


# ---------------------------------------------------------------------- cost


class CostInfo(NamedTuple):
    """What the finished trials of a study cost, by the depth of their cell."""

    numbers: tuple[int, ...]  # of the newest trials
    depths: tuple[int, ...]  # from 0 at the root, as in `pcts:depth`
    costs: tuple[float, ...]
    unit: str  # "s"; "cost" if objectives declare it
    n_trials: int
    total: float
    by_depth: tuple[tuple[int, float, int], ...]  # depth, median cost, number of trials
    fit: CostFit | None
    why_no_fit: str | None
    infeasible: tuple[int, ...]  # of these numbers


def cost_info(source: Snapshot) -> CostInfo:
    """Return what trials cost; see :class:`CostInfo`."""
    rows = [
        (trial.number, level - 1, cost)
        for trial in source.trials
        if trial.state.is_finished()
        and (level := level_of_trial(trial)) is not None
        and (cost := trial_cost(trial)) is not None
    ]
    if not rows:
        raise ValueError(
            f"No finished trial of the study `{source.study.study_name}` has both a depth and a "
            "cost. Only trials that PCTSSampler asked for have a depth."
        )
    numbers, depths, costs = zip(*rows)
    fit, why = None, None
    try:
        fit = fit_cost(source.study)
    except ValueError as error:
        why = str(error)
    declared = any(COST_KEY in trial.user_attrs for trial in source.trials)
    newest = slice(-source.max_points, None)
    return CostInfo(
        numbers=numbers[newest],
        depths=depths[newest],
        costs=costs[newest],
        unit="cost" if declared else "s",
        n_trials=len(costs),
        total=math.fsum(costs),
        by_depth=tuple(
            (depth, float(np.median(group)), len(group))
            for depth, group in _grouped(depths, costs)
        ),
        fit=fit,
        why_no_fit=why,
        infeasible=tuple(sorted(set(numbers[newest]) & set(source.infeasible))),
    )


# ---------------------------------------------------------------------- regret


class RecommendedInfo(NamedTuple):
    """What was recommended at a moment."""

    seconds: float
    value: float
    interval: tuple[float, float]
    number: int


class RegretInfo(NamedTuple):
    """The best and the recommended value against the clock, from the start of the first trial."""

    seconds: tuple[float, ...]  # when each completed trial ended that is feasible
    values: tuple[float, ...]
    best: tuple[float, ...]  # of all that ended until then
    recommended: tuple[RecommendedInfo, ...]
    direction: str  # "minimize" or "maximize"
    # Time, value and number of those that violate a constraint: they are not in the above.
    infeasible: tuple[tuple[float, float, int], ...]


def regret_info(source: Snapshot) -> RegretInfo:
    """Return the course of a study; see :class:`RegretInfo`."""
    ended = sorted(
        (
            trial
            for trial in source.trials
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
            and trial.datetime_complete is not None
            and trial.values
            and math.isfinite(trial.values[0])
        ),
        key=lambda trial: (_end(trial), trial.number),
    )
    complete = [trial for trial in ended if trial.state == TrialState.COMPLETE]
    if not complete:
        raise ValueError(
            f"The study `{source.study.study_name}` has no completed trial with a finite value "
            "and time stamps, so that there is no course to see."
        )
    out = set(source.infeasible)
    infeasible = [trial for trial in complete if trial.number in out]
    complete = [trial for trial in complete if trial.number not in out]
    if not complete:
        raise ValueError(
            f"The study `{source.study.study_name}` has no feasible trial: all {len(infeasible)} "
            "completed ones violate a constraint, so that there is no course to see."
        )
    starts = [clock(t.datetime_start) for t in source.trials if t.datetime_start is not None]
    start = min([*starts, _end(ended[0])])
    values = [trial.values[0] for trial in complete]
    better = np.maximum if source.sign > 0 else np.minimum
    return RegretInfo(
        seconds=tuple(_end(trial) - start for trial in complete),
        values=tuple(values),
        best=tuple(better.accumulate(values).tolist()),
        recommended=tuple(_recommended(source, ended, start)),
        direction="maximize" if source.sign > 0 else "minimize",
        infeasible=tuple(
            (_end(trial) - start, trial.values[0], trial.number)
            for trial in infeasible[-source.max_points :]
        ),
    )


def _end(trial: FrozenTrial) -> float:
    assert trial.datetime_complete is not None
    return clock(trial.datetime_complete)


def _recommended(
    source: Snapshot, ended: Sequence[FrozenTrial], start: float
) -> Iterable[RecommendedInfo]:
    """Yield what would have been recommended, at a few moments."""
    counts = {len(ended)}
    n = len(ended) / _RECOMMEND_GROWTH
    while n >= 2 and len(counts) < _MAX_RECOMMENDED:
        counts.add(int(n))
        n /= _RECOMMEND_GROWTH
    past = optuna.create_study(
        storage=optuna.storages.InMemoryStorage(), direction=source.study.direction
    )
    for i, trial in enumerate(ended, start=1):
        past.add_trial(trial)
        if i in counts:
            try:
                found = recommend(past)
            except ValueError:  # nothing was completed by then
                continue
            yield RecommendedInfo(
                _end(trial) - start, found.value, found.interval, ended[found.number].number
            )


# ---------------------------------------------------------------------- all of it

# In the order in which people look at them.
INFOS: dict[str, Callable[[Snapshot], Any]] = {
    "tree": tree_info,
    "partition": partition_info,
    "regret": regret_info,
    "delays": delay_info,
    "fidelity": fidelity_info,
    "cost": cost_info,
}


@dataclass(frozen=True)
class Report:
    """A study in words and numbers. Print it to read it; :meth:`to_dict` for programs.

    What a study does not have is :obj:`None`, and why is in ``missing``.

    Attributes:
        study_name:
            Name of the study.
        direction:
            "minimize" or "maximize".
        n_trials:
            Number of trials.
        states:
            How many trials are in each state, in small letters.
        tree:
            Depth, cells, trials asked and told.
        delays:
            How late feedback is.
        fidelity:
            How far trials were evaluated.
        cost:
            What they cost.
        in_flight:
            Numbers of the trials that run.
        stale:
            Numbers of the trials that run but were given up for lost.
        infeasible:
            Numbers of the trials that ended and violate a constraint.
        best:
            Number and value of Optuna's best trial, of those that are feasible.
        recommendation:
            What to use.
        next_cells:
            The cells that the tree asks for next, if nothing is told and centres are asked.
        missing:
            For each thing that a study does not have, why.
    """

    study_name: str
    direction: str
    n_trials: int
    states: Mapping[str, int]
    tree: TreeInfo | None
    delays: DelayInfo | None
    fidelity: FidelityInfo | None
    cost: CostInfo | None
    in_flight: tuple[int, ...]
    stale: tuple[int, ...]
    infeasible: tuple[int, ...]
    best: tuple[int, float] | None
    recommendation: Recommendation | None
    next_cells: tuple[NextCell, ...]
    missing: Mapping[str, str]

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return what there is to say: a heading and its lines, for each thing."""
        states = ", ".join(f"{n} {state}" for state, n in self.states.items())
        rows = [("Trials", [f"{self.n_trials:,} ({states})" if states else "none"])]
        if self.tree is not None:
            t = self.tree
            rows.append(
                (
                    "Tree",
                    [
                        f"depth {t.depth}, {t.n_cells:,} cells; {t.n_asked:,} trials asked, "
                        f"{t.n_told:,} told back"
                    ],
                )
            )
        if self.delays is not None:
            rows.append(("Delays", _delay_lines(self.delays)))
        if self.fidelity is not None:
            z = self.fidelity
            rows.append(
                (
                    "Fidelity",
                    [
                        f"{z.mean:.2f} on average, {100 * z.whole:.0f} % whole evaluations; "
                        f"{z.n_trials:,} trials amount to {z.work:.1f} whole ones"
                    ],
                )
            )
        if self.cost is not None:
            rows.append(("Cost", _cost_lines(self.cost)))
        rows.append(("In flight", [_numbers(self.in_flight)]))
        rows.append(("Stale", [_numbers(self.stale)]))
        if self.infeasible:
            none = "" if self.best is not None else "; no completed trial is feasible"
            rows.append(("Infeasible", [_numbers(self.infeasible) + none]))
        if self.recommendation is not None:
            rows.append(("Recommended", _recommended_lines(self.recommendation)))
        if self.best is not None:
            number, value = self.best
            rows.append(
                ("Best trial", [f"{value:.6g} (trial {number}; under noise the luckiest)"])
            )
        if self.next_cells:
            rows.append(("Next cells", [_cell_line(cell) for cell in self.next_cells]))
        rows.extend((name.capitalize(), [f"- {why}"]) for name, why in self.missing.items())
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows) + 2
        lines = [f"Study {self.study_name} ({self.direction})", ""]
        for name, texts in rows:
            for i, text in enumerate(texts):
                lines.append(f"{'' if i else name:<{width}}{text}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON: no NaN and no infinity; cells and lists of trials left out."""
        result: dict[str, Any] = {
            "study": self.study_name,
            "direction": self.direction,
            "n_trials": self.n_trials,
            "states": dict(self.states),
            "in_flight": list(self.in_flight),
            "stale": list(self.stale),
            "infeasible": list(self.infeasible),
            "best": None if self.best is None else {"trial": self.best[0], "value": self.best[1]},
            "recommendation": None if self.recommendation is None else asdict(self.recommendation),
            "next_cells": [cell._asdict() for cell in self.next_cells],
            "missing": dict(self.missing),
        }
        result["tree"] = _numbers_of(self.tree, {"cells"})
        result["delays"] = _numbers_of(self.delays, {"seconds", "trials"})
        trials = {"numbers", "depths", "infeasible"}
        result["fidelity"] = _numbers_of(self.fidelity, {*trials, "fidelities"})
        result["cost"] = _numbers_of(self.cost, {*trials, "costs", "fit"})
        if self.cost is not None and self.cost.fit is not None:
            result["cost"]["models"] = [
                {"name": fitted.name, "support": fitted.support, **asdict(fitted.model)}
                for fitted in self.cost.fit.models
            ]
        plain: dict[str, Any] = plain_json(result)
        return plain


def report(study: optuna.Study, *, n_next: int = 3) -> Report:
    """Say what a study is doing, in words and numbers.

    Example:

        .. code-block:: python

            print(report(study))

    Args:
        study:
            A study with one objective, by whatever sampler.
        n_next:
            How many of the next cells to name.

    Returns:
        The report. What it says of the tree is with the settings of the study's sampler if that
        is a :class:`PCTSSampler`, and with the default ones otherwise.
    """
    return report_of(Snapshot(study), n_next=n_next)


def report_of(source: Snapshot, *, n_next: int = 3) -> Report:
    """Return the report of a snapshot."""
    study, trials = source.study, source.trials
    tree = source.info("tree")
    out = set(source.infeasible)
    complete = [t for t in trials if t.state == TrialState.COMPLETE and t.number not in out]
    best = max(complete, key=lambda t: source.sign * t.values[0], default=None)
    counts = Counter(trial.state.name.lower() for trial in trials)
    return Report(
        study_name=study.study_name,
        direction="maximize" if source.sign > 0 else "minimize",
        n_trials=len(trials),
        states=dict(counts.most_common()),
        tree=tree,
        delays=source.info("delays"),
        fidelity=source.info("fidelity"),
        cost=source.info("cost"),
        in_flight=source.in_flight,
        stale=source.stale,
        infeasible=source.infeasible,
        best=None if best is None else (best.number, best.values[0]),
        recommendation=source.recommendation,
        next_cells=() if tree is None else tuple(source.next_cells(n_next)),
        missing={name: why for name, why in source.missing.items() if name in _REPORTED},
    )


# ---------------------------------------------------------------------- for people


def span(seconds: float) -> tuple[float, str]:
    """Return the unit in which a time is best read: its seconds, and its name."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size:
            return size, name
    return (1.0, "s") if seconds >= 0.1 else (1e-3, "ms")


def time_text(seconds: float) -> str:
    """Return a time with its unit."""
    size, name = span(seconds)
    return f"{seconds / size:.3g} {name}"


def amount_text(cost: float, unit: str) -> str:
    """Return a cost with its unit."""
    return time_text(cost) if unit == "s" else f"{cost:.4g}"


def params_text(params: Mapping[str, Any]) -> str:
    """Return parameters in one line."""
    return ", ".join(
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in params.items()
    )


def tail_text(info: DelayInfo) -> str:
    """Return the tail exponent with its interval."""
    if info.tail is None or info.tail_interval is None:
        return "tail exponent unknown (too few delays)"
    if math.isinf(info.tail):
        return "no tail: none is longer than the rest"
    low, high = info.tail_interval
    return f"tail exponent {info.tail:.2g} ({low:.2g} to {high:.2g})"


def _delay_lines(info: DelayInfo) -> list[str]:
    return [
        f"{time_text(info.mean_seconds)} and {info.mean_trials:.3g} trials on average, "
        f"{time_text(info.longest_seconds)} at most; {tail_text(info)}",
        f"{info.verdict} (price 1 + tau / log T = {info.price:.2f})",
    ]


def _cost_lines(info: CostInfo) -> list[str]:
    mean = info.total / info.n_trials
    lines = [
        f"{amount_text(info.total, info.unit)} in all, {amount_text(mean, info.unit)} a trial; "
        f"median {amount_text(info.by_depth[0][1], info.unit)} at depth {info.by_depth[0][0]}, "
        f"{amount_text(info.by_depth[-1][1], info.unit)} at depth {info.by_depth[-1][0]}"
    ]
    if info.fit is not None:
        lines.append(str(info.fit).splitlines()[-1])
    return lines


def _recommended_lines(found: Recommendation) -> list[str]:
    low, high = found.interval
    return [
        params_text(found.params),
        f"value {found.value:.6g}, with 95 % probability {low:.6g} to {high:.6g} (trial "
        f"{found.number}, supported by {found.n_trials})",
    ]


def _cell_line(cell: NextCell) -> str:
    return f"depth {cell.depth}: {ranges_text(cell.ranges)}"


def ranges_text(ranges: Mapping[str, str]) -> str:
    """Return where a cell is, in one line."""
    return "; ".join(f"{name} {text}" for name, text in ranges.items()) or "the whole space"


def _numbers(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
    return f"{len(numbers)} (trial{'s' if len(numbers) > 1 else ''} {shown})"


def _numbers_of(info: Any, without: set[str]) -> dict[str, Any] | None:
    if info is None:
        return None
    return {name: value for name, value in info._asdict().items() if name not in without}


def plain_json(value: Any) -> Any:
    """Return a value as JSON can have it: what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
