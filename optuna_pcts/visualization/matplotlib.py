"""The figures with matplotlib: the same functions as in :mod:`optuna_pcts.visualization`.

Each returns the :class:`matplotlib.axes.Axes` it has drawn on, or an array of them.

Example:

    .. code-block:: python

        from optuna_pcts.visualization.matplotlib import plot_tree

        plot_tree(study).figure.savefig("tree.png")
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

import optuna
from optuna._imports import try_import

from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.cost_info import CostInfo
from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.delay_info import DelayInfo
from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.fidelity_info import FidelityInfo
from optuna_pcts._analysis.partition_info import AxisInfo
from optuna_pcts._analysis.partition_info import partition_info
from optuna_pcts._analysis.partition_info import PartitionInfo
from optuna_pcts._analysis.regret_info import regret_info
from optuna_pcts._analysis.regret_info import RegretInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import span
from optuna_pcts._analysis.tree_info import tree_info
from optuna_pcts._analysis.tree_info import TreeInfo
from optuna_pcts.visualization import _style as style


with try_import() as _imports:
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = [
    "is_available",
    "plot_cost",
    "plot_delays",
    "plot_fidelity",
    "plot_partition",
    "plot_regret",
    "plot_tree",
]


def is_available() -> bool:
    """Return whether matplotlib is installed, which all functions of this module need."""
    return _imports.is_successful()


def plot_tree(study: optuna.Study) -> Axes:
    """Draw the tree of cells as an icicle, as :func:`optuna_pcts.visualization.plot_tree` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_tree(tree_info(Snapshot(study)))


def plot_partition(study: optuna.Study, params: Sequence[str] | None = None) -> Axes:
    """Draw cells, as :func:`optuna_pcts.visualization.plot_partition` does.

    Args:
        study:
            A study with one objective, by whatever sampler.
        params:
            The two parameters. By default the first two by name, categories last.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_partition(partition_info(Snapshot(study, params=params)))


def plot_delays(study: optuna.Study) -> Any:
    """Draw how late feedback is, as :func:`optuna_pcts.visualization.plot_delays` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        An array of two :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_delays(delay_info(Snapshot(study)))


def plot_fidelity(study: optuna.Study) -> Axes:
    """Draw fidelities, as :func:`optuna_pcts.visualization.plot_fidelity` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_fidelity(fidelity_info(Snapshot(study)))


def plot_cost(study: optuna.Study) -> Axes:
    """Draw costs by depth, as :func:`optuna_pcts.visualization.plot_cost` does.

    Args:
        study:
            A study of :class:`PCTSSampler`.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_cost(cost_info(Snapshot(study)))


def plot_regret(
    study: optuna.Study, *, optimum: float | None = None, target_name: str = "Objective Value"
) -> Axes:
    """Draw the course of a study, as :func:`optuna_pcts.visualization.plot_regret` does.

    Args:
        study:
            A study with one objective, by whatever sampler.
        optimum:
            The best value there can be, if it is known: then the figure is of the regret.
        target_name:
            What the values are, for the axis.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    _imports.check()
    return draw_regret(regret_info(Snapshot(study)), optimum, target_name)


# ---------------------------------------------------------------------- from the tuples


def draw_tree(info: TreeInfo) -> Axes:
    axes = _axes("tree", style.tree_subtitle(info))
    color = _reward_colors(axes)
    for cell in info.cells:
        width = cell.right - cell.left
        axes.add_patch(
            Rectangle(
                (cell.left, cell.depth),
                width,
                0.94,
                facecolor=color(cell.mean),
                edgecolor=style.RED if cell.is_in_flight else "white",
                linewidth=1.5 if cell.is_in_flight else 0.3,
                zorder=2 if cell.is_in_flight else 1,
            )
        )
        if width > 0.05:
            middle = (cell.left + cell.right) / 2
            text = f"{cell.n_told}/{cell.n_asked}"
            axes.text(middle, cell.depth + 0.5, text, ha="center", va="center", size=6, zorder=3)
    axes.set_xlim(0, 1)
    axes.set_ylim(info.depth + 1, 0)
    axes.set_xlabel("share of the trials")
    axes.set_ylabel("depth")
    return axes


def draw_partition(info: PartitionInfo) -> Axes:
    axes = _axes("partition", style.partition_subtitle(info))
    color = _reward_colors(axes)
    axes.add_collection(
        PatchCollection(
            [Rectangle((b.x0, b.y0), b.x1 - b.x0, b.y1 - b.y0) for b in info.boxes],
            facecolor=[color(b.mean) for b in info.boxes],
            edgecolor="white",
            linewidth=0.4,
        )
    )
    for name, marker, size, face, edge, width in (
        ("told back", "o", 10, "white", "#333b46", 0.6),
        (style.INFEASIBLE, "X", 30, style.RED, "white", 0.6),
        ("in flight", "D", 30, "none", style.RED, 1.0),
    ):
        points = [p for p in info.points if style.kind(p) == name]
        if points:
            axes.scatter(
                [p.x for p in points],
                [p.y for p in points],
                s=size,
                marker=marker,
                facecolor=face,
                edgecolor=edge,
                linewidth=width,
                label=name,
                zorder=2,
            )
    if info.recommended is not None:
        axes.scatter(
            [info.recommended.x],
            [info.recommended.y],
            s=180,
            marker="*",
            color=style.ORANGE,
            edgecolor="white",
            label="recommended",
            zorder=3,
        )
    _unit_axis(axes.xaxis, info.x)
    _unit_axis(axes.yaxis, info.y)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend()
    return axes


def draw_delays(info: DelayInfo) -> Any:
    figure, both = plt.subplots(1, 2, figsize=(10, 4.5), constrained_layout=True)
    figure.suptitle(_title("delays", style.delay_subtitle(info), info.verdict), fontsize=10)
    left, right = both
    size, unit = span(max(info.longest_seconds, 1e-3))
    xs, shares = style.survival(info.seconds)
    left.plot([x / size for x in xs], shares, color=style.BLUE, drawstyle="steps-post")
    tail = style.tail_line(info)
    if tail is not None:
        label = f"tail, exponent {info.tail:.2g}"
        left.plot([x / size for x in tail[0]], tail[1], "--", color=style.ORANGE, label=label)
        left.legend()
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel(f"delay ({unit})")
    left.set_ylabel("share of trials that took longer")
    middles, counts, width = style.histogram(info.trials)
    right.bar(middles, counts, width * 0.9, color=style.BLUE)
    right.axvline(info.mean_trials, color=style.ORANGE, label=f"mean {info.mean_trials:.3g}")
    right.axvline(info.log_t, color=style.GREEN, ls="--", label=f"log T = {info.log_t:.3g}")
    right.set_xlabel("delay (trials asked meanwhile)")
    right.set_ylabel("number of trials")
    right.legend()
    return both


def draw_fidelity(info: FidelityInfo) -> Axes:
    axes = _axes("fidelity", style.fidelity_subtitle(info))
    has_depth = bool(info.by_depth)
    xs = info.depths if has_depth else info.numbers
    rows = [row for row in zip(xs, info.fidelities, info.numbers) if row[0] is not None]
    _trials(axes, rows, info.infeasible)
    if has_depth:
        depths, means, _ = zip(*info.by_depth)
        axes.plot(depths, means, color=style.ORANGE, label="mean")
    axes.set_xlabel("depth of the cell" if has_depth else "trial")
    axes.set_ylabel("fidelity (1: whole evaluation)")
    axes.set_ylim(0, 1.05)
    axes.legend()
    return axes


def draw_cost(info: CostInfo) -> Axes:
    axes = _axes("cost", style.cost_subtitle(info))
    size, unit = span(max(info.costs)) if info.unit == "s" else (1.0, "declared")
    rows = [(d, cost / size, n) for d, cost, n in zip(info.depths, info.costs, info.numbers)]
    _trials(axes, rows, info.infeasible)
    depths, medians, _ = zip(*info.by_depth)
    axes.plot(depths, [m / size for m in medians], ".-", color=style.GREY, label="median")
    if info.fit is not None:
        all_depths = range(info.by_depth[0][0], info.by_depth[-1][0] + 1)
        for i, fitted in enumerate(info.fit.models):
            axes.plot(
                all_depths,
                [fitted.model.cost(depth + 1.0) / size for depth in all_depths],
                color=style.MODELS[i],
                ls=":" if i else "-",
                lw=1.2 if i else 2.5,
                label=f"{fitted.name} ({100 * fitted.support:.0f} %)",
            )
    axes.set_yscale("log")
    axes.set_xlabel("depth of the cell")
    axes.set_ylabel(f"cost of a trial ({unit})")
    axes.legend(fontsize=8)
    return axes


def draw_regret(
    info: RegretInfo, optimum: float | None = None, target_name: str = "Objective Value"
) -> Axes:
    axes = _axes("regret", style.regret_subtitle(info))
    size, unit = span(info.seconds[-1])

    def y(value: float) -> float:
        return value if optimum is None else abs(value - optimum)

    axes.plot(
        [s / size for s in info.seconds],
        [y(value) for value in info.best],
        color=style.BLUE,
        drawstyle="steps-post",
        label="best trial so far",
    )
    _infeasible(axes, [(s / size, y(value)) for s, value, _ in info.infeasible])
    made = info.recommended
    if made:
        ends = [
            [r.value - r.interval[0] for r in made],
            [r.interval[1] - r.value for r in made],
        ]
        axes.errorbar(
            [r.seconds / size for r in made],
            [y(r.value) for r in made],
            yerr=ends if optimum is None else None,
            color=style.ORANGE,
            marker="o",
            ms=4,
            capsize=3,
            label="recommended" + (", 95 % interval" if optimum is None else ""),
        )
    if optimum is None:
        axes.set_ylim(*style.regret_range(info))
        axes.set_ylabel(target_name)
    else:
        axes.set_yscale("log")
        axes.set_ylabel(f"Regret (distance to {optimum:g})")
    axes.set_xlabel(f"time since the first trial ({unit})")
    axes.legend()
    return axes


DRAW: dict[str, Callable[..., Any]] = {
    "tree": draw_tree,
    "partition": draw_partition,
    "regret": draw_regret,
    "delays": draw_delays,
    "fidelity": draw_fidelity,
    "cost": draw_cost,
}


def save(name: str, info: Any, path: str) -> None:
    """Write the figure of a tuple to a file, without a window."""
    drawn = DRAW[name](info)
    figure = (drawn if name != "delays" else drawn[0]).figure
    figure.savefig(path, dpi=150)
    plt.close(figure)


# ---------------------------------------------------------------------- style


def _axes(name: str, subtitle: str) -> Axes:
    _, axes = plt.subplots(figsize=(8, 4.8), constrained_layout=True)
    axes.set_title(_title(name, *style.lines(subtitle)), fontsize=10)
    return axes


def _title(name: str, *subtitles: str) -> str:
    return "\n".join([style.TITLES[name], *subtitles])


def _trials(axes: Axes, rows: Sequence[tuple[Any, float, int]], infeasible: Sequence[int]) -> None:
    """Add a point for each trial."""
    out = set(infeasible)
    feasible = [(x, y) for x, y, number in rows if number not in out]
    axes.scatter(*_columns(feasible), color=style.BLUE, alpha=0.45, s=16, label="trial")
    _infeasible(axes, [(x, y) for x, y, number in rows if number in out])


def _infeasible(axes: Axes, rows: Sequence[tuple[Any, float]]) -> None:
    if rows:
        label = style.INFEASIBLE
        axes.scatter(*_columns(rows), color=style.RED, marker="x", s=20, lw=1, label=label)


def _columns(rows: Sequence[tuple[Any, float]]) -> tuple[list[Any], list[float]]:
    return [x for x, _ in rows], [y for _, y in rows]


def _reward_colors(axes: Axes) -> Callable[[float | None], Any]:
    """Return the colour of a mean reward, and draw the bar that explains it."""
    scale = LinearSegmentedColormap.from_list("reward", style.REWARD_SCALE)
    assert axes.figure is not None
    bar = ScalarMappable(Normalize(0, 1), scale)
    axes.figure.colorbar(bar, ax=axes, label=style.REWARD_TITLE.replace("<br>", " ").strip())
    return lambda mean: style.GREY if mean is None else scale(min(mean, 1.0))


def _unit_axis(axis: Any, info: AxisInfo) -> None:
    axis.set_ticks(list(info.positions), list(info.labels))
    axis.set_label_text(info.name)
