"""The result as text, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import statistics

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
import optuna
from optuna.trial import FrozenTrial

from examples.postgres.evaluator import Evaluator
from examples.postgres.evaluator import Measurement
from examples.postgres.failure import one_line
from examples.postgres.knobs import Configuration
from examples.postgres.paired import Paired
from examples.postgres.tune import FAILURE
from examples.postgres.tune import QUERIES
from examples.postgres.tune import RECONFIGURATION
from examples.postgres.tune import seconds
from examples.postgres.tune import shared_order


# The attribute in which PCTSSampler stores the depth of a trial.
DEPTH = "pcts:depth"
# A block of the tree that is narrower than this share of the picture has no label, or no edge.
_LABEL_WIDTH = 0.04
_EDGE_WIDTH = 0.006


def found_text(evaluator: Evaluator, found: Configuration) -> str:
    """Return a configuration beside the default, as SQL, and as a part of postgresql.conf."""
    after = evaluator.shown(found)
    before = evaluator.shown(evaluator.knobs.defaults)
    width = max(map(len, after))
    lines = [f"{'knob':{width}}  {'default':>9}  {'found':>9}"]
    lines += [f"{name:{width}}  {before[name]:>9}  {after[name]:>9}" for name in after]
    table = "\n".join(lines)
    statements = evaluator.as_sql(found)
    return f"{table}\n\n-- SQL\n{statements}\n# postgresql.conf\n{evaluator.knobs.as_conf(found)}"


def write_report(
    folder: Path,
    study: optuna.Study,
    evaluator: Evaluator,
    found: Configuration,
    paired: Paired,
) -> Path:
    """Write report.txt, found.sql, found.conf and the pictures into a folder.

    Returns:
        The text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "found.sql").write_text(evaluator.as_sql(found))
    (folder / "found.conf").write_text(evaluator.knobs.as_conf(found))
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    draw_before_after(paired).savefig(folder / "before_after.png")
    draw_cost_by_depth(trials).savefig(folder / "cost_by_depth.png")
    draw_tree(trials, _names(shared_order(study, evaluator))).savefig(folder / "tree.png")
    text = folder / "report.txt"
    text.write_text(f"{paired}\n\n{found_text(evaluator, found)}\n{_summary(trials)}\n")
    return text


def _summary(trials: Sequence[FrozenTrial]) -> str:
    totals = [
        f"{sum(seconds(trial, key) for trial in trials):.1f} s {label}"
        for key, label in ((RECONFIGURATION, "of reconfiguration"), (QUERIES, "of queries"))
    ]
    lines = [f"{len(trials)} trials: {', '.join(totals)}"]
    lines += [
        f"trial {trial.number} {one_line(trial.user_attrs[FAILURE])}"
        for trial in trials
        if FAILURE in trial.user_attrs
    ]
    return "\n".join(lines)


def _names(order: Sequence[str | Sequence[str]]) -> list[str]:
    return [name for name in order if isinstance(name, str)]


# ------------------------------------------------------------------ pictures


def new_picture(width: float = 8.0, height: float = 4.0) -> tuple[Figure, Axes]:
    """Return a figure without a window."""
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    return figure, figure.add_subplot()


def draw_before_after(paired: Paired) -> Figure:
    """Draw what each query takes with the default and with the found configuration."""
    figure, axes = new_picture(height=4.5)
    names = list(paired.default[0].by_query)
    sides = (("default", paired.default, -0.2), ("found", paired.found, 0.2))
    for label, runs, shift in sides:
        heights = [_median_milliseconds(runs, name) for name in names]
        axes.barh([i + shift for i in range(len(names))], heights, height=0.4, label=label)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds per round (median)")
    axes.set_title(f"{paired.ratio:.1f} times as fast")
    axes.legend()
    return figure


def _median_milliseconds(runs: Sequence[Measurement], name: str) -> float:
    return statistics.median(1000 * run.by_query[name] / run.n_done for run in runs)


def draw_cost_by_depth(trials: Sequence[FrozenTrial]) -> Figure:
    """Draw the mean seconds of a trial by its depth, reconfiguration and queries apart."""
    figure, axes = new_picture()
    levels, queries = means_by_depth(trials, QUERIES)
    _, reconfiguration = means_by_depth(trials, RECONFIGURATION)
    axes.bar(levels, queries, label="queries")
    axes.bar(levels, reconfiguration, bottom=queries, label="reconfiguration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("depth h in the tree")
    axes.set_ylabel("mean seconds of a trial")
    axes.legend()
    return figure


def means_by_depth(trials: Sequence[FrozenTrial], key: str) -> tuple[list[int], list[float]]:
    """Return the depths h, from 1, and the mean of a user attribute at each."""
    by_depth: dict[int, list[float]] = {}
    for trial in trials:
        depth = trial.user_attrs.get(DEPTH)
        # Others may have written any depth into a shared study: a picture shows so many.
        if key in trial.user_attrs and isinstance(depth, int) and 0 <= depth < 1000:
            by_depth.setdefault(depth + 1, []).append(seconds(trial, key))
    levels = sorted(by_depth)
    return levels, [statistics.fmean(by_depth[level]) for level in levels]


def draw_tree(trials: Sequence[FrozenTrial], names: Sequence[str]) -> Figure:
    """Draw the tree over the heavy knobs.

    Each row splits the trials by one knob. The width of a block is its share of the trials, its
    colour their best value.
    """
    figure, axes = new_picture(10.0, 0.6 * len(names) + 1.5)
    known = [t for t in trials if t.intermediate_values and all(n in t.params for n in names)]
    values = [_value(trial) for trial in known]
    norm = LogNorm(min(values), max(values)) if values else LogNorm(1, 10)
    colormap = colormaps["viridis_r"]
    stack = [(known, 0, 0.0)]
    while stack:
        group, row, left = stack.pop()
        if row == len(names):
            continue
        children: dict[object, list[FrozenTrial]] = {}
        for trial in sorted(group, key=lambda trial: trial.params[names[row]]):
            children.setdefault(trial.params[names[row]], []).append(trial)
        for value, child in children.items():
            width = len(child) / len(known)
            best = colormap(norm(min(_value(trial) for trial in child)))
            edge = "w" if width > _EDGE_WIDTH else best
            axes.add_patch(Rectangle((left, row), width, 1, facecolor=best, edgecolor=edge))
            if width > _LABEL_WIDTH:
                text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
                axes.text(left + width / 2, row + 0.5, text, ha="center", va="center")
            stack.append((child, row + 1, left))
            left += width
    axes.set_xlim(0, 1)
    axes.set_ylim(len(names), 0)
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    axes.set_xticks([])
    axes.set_xlabel(f"share of the {len(known)} trials")
    figure.colorbar(ScalarMappable(norm, colormap), ax=axes, label="best seconds")
    return figure


def _value(trial: FrozenTrial) -> float:
    return trial.intermediate_values[max(trial.intermediate_values)]
