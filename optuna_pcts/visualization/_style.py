"""What the plotly and the matplotlib figures share besides their numbers: colours and words."""

from __future__ import annotations

from collections.abc import Sequence
import math
from textwrap import wrap

from optuna_pcts._analysis.cost_info import CostInfo
from optuna_pcts._analysis.delay_info import DelayInfo
from optuna_pcts._analysis.fidelity_info import FidelityInfo
from optuna_pcts._analysis.partition_info import PartitionInfo
from optuna_pcts._analysis.partition_info import PointInfo
from optuna_pcts._analysis.regret_info import RegretInfo
from optuna_pcts._analysis.text import params_text
from optuna_pcts._analysis.text import ranges_text
from optuna_pcts._analysis.text import tail_text
from optuna_pcts._analysis.text import time_text
from optuna_pcts._analysis.tree_info import CellInfo
from optuna_pcts._analysis.tree_info import TreeInfo


# All of them stand out from white and from black.
GREY = "#838b96"
BLUE = "#4a8fdc"
ORANGE = "#ea8032"
GREEN = "#38a169"
RED = "#e5484d"
MODELS = ("#ea8032", "#9b6bd3", "#38a169", "#c9a227")

# Rewards from 0, the median, to 1, the best.
REWARD_SCALE = ("#56668a", "#3f8f9c", "#5fb77d", "#f2c84b")
REWARD_TITLE = "mean reward<br>(0 median, 1 best)<br> "

# The name of trials that violate a constraint.
INFEASIBLE = "infeasible"

TITLES = {
    "tree": "Tree of cells",
    "partition": "Partition",
    "delays": "Delay of the feedback",
    "fidelity": "Fidelity by depth",
    "cost": "Cost by depth",
    "regret": "Best and recommended value",
}


def lines(subtitle: str) -> list[str]:
    """Return a subtitle in lines for which half a page has room."""
    return wrap(subtitle, 95)


def tree_subtitle(info: TreeInfo) -> str:
    """Return what the tree amounts to."""
    shown = "" if len(info.cells) >= info.n_cells else f", {len(info.cells):,} with trials shown"
    return (
        f"depth {info.depth}, {info.n_cells:,} cells{shown}; {info.n_told:,} of {info.n_asked:,} "
        f"trials told back, {info.n_in_flight:,} in flight (outlined)"
    )


def cell_lines(cell: CellInfo) -> list[str]:
    """Return what there is to say about a cell."""
    mean = "none" if cell.mean is None else f"{cell.mean:.3f}"
    bound = "infinite" if cell.bound is None else f"{cell.bound:.3f}"
    return [
        f"depth {cell.depth}: told {cell.n_told} of {cell.n_asked} asked",
        f"mean reward {mean}, bound {bound}",
        *([f"{cell.n_in_flight} in flight"] if cell.n_in_flight else []),
        ranges_text(cell.ranges),
    ]


def partition_subtitle(info: PartitionInfo) -> str:
    """Return where the plane lies."""
    n_in_flight = sum(point.in_flight for point in info.points)
    where = f" at {params_text(info.others)}" if info.others else ""
    return f"{len(info.boxes):,} cells{where}; {n_in_flight} in flight"


def kind(point: PointInfo) -> str:
    """Return how a trial of the partition is called."""
    if point.in_flight:
        return "in flight"
    return "told back" if point.is_feasible else INFEASIBLE


def delay_subtitle(info: DelayInfo) -> str:
    """Return the mean, the tail and the regime."""
    return f"mean {time_text(info.mean_seconds)}, {info.mean_trials:.3g} trials; {tail_text(info)}"


def fidelity_subtitle(info: FidelityInfo) -> str:
    """Return what all trials together amount to."""
    return (
        f"mean {info.mean:.2f}, {100 * info.whole:.0f} % whole; {info.n_trials:,} trials "
        f"amount to {info.work:.1f} whole evaluations"
    )


def cost_subtitle(info: CostInfo) -> str:
    """Return which model fits."""
    if info.fit is None:
        return "no model fitted yet: " + (info.why_no_fit or "").split(". ")[0].rstrip(".")
    return str(info.fit).splitlines()[-1]


def regret_subtitle(info: RegretInfo) -> str:
    """Return where the study has got to."""
    text = f"best {info.best[-1]:.5g}"
    if info.recommended:
        last = info.recommended[-1]
        low, high = last.interval
        text += f"; recommended {last.value:.5g} ({low:.5g} to {high:.5g})"
    return text


def regret_range(info: RegretInfo) -> list[float]:
    """Return the range of values to show at first: the start, far off, would flatten the rest."""
    first = len(info.best) // 5
    shown = list(info.best[first:])
    for made in info.recommended:
        if made.seconds >= info.seconds[first]:
            shown += [made.value, *made.interval]
    low, high = min(shown), max(shown)
    # Infeasible trials may be far better, and must not flatten the rest either.
    size = high - low
    late = [y for s, y, _ in info.infeasible if s >= info.seconds[first]]
    within = [y for y in late if low - size <= y <= high + size]
    low, high = min([low, *within]), max([high, *within])
    margin = 0.08 * (high - low) or max(abs(high), 1.0) * 0.01
    return [low - margin, high + margin]


def survival(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the points of P(delay > x), without its end at 0, which has no logarithm.

    At most 200 of them: more than a screen can tell apart.
    """
    ordered = sorted(x for x in values if x > 0)
    n = len(ordered)
    # Of the longest each one: that is where the tail is.
    keep = sorted({i * (n - 1) // 150 for i in range(151)} | set(range(max(n - 50, 0), n)))
    return [ordered[i] for i in keep if i < n], [1 - i / n for i in keep if i < n]


def tail_line(info: DelayInfo) -> tuple[list[float], list[float]] | None:
    """Return both ends of the fitted tail, to be drawn into the figure of the survival."""
    if info.tail is None or not math.isfinite(info.tail):
        return None
    start = info.tail_from
    share = sum(x > start for x in info.seconds) / len(info.seconds)
    ends = [start, info.longest_seconds]
    return ends, [share * (x / start) ** -info.tail for x in ends]


def histogram(values: Sequence[int], most: int = 30) -> tuple[list[float], list[int], float]:
    """Return middles, counts and the width of the bars over whole numbers."""
    width = max(values) // most + 1
    counts = [0] * (max(values) // width + 1)
    for value in values:
        counts[value // width] += 1
    return [i * width + (width - 1) / 2 for i in range(len(counts))], counts, float(width)
