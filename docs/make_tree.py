"""Draw one worked tree, from a study of nine trials: ``python docs/make_tree.py``.

The text of the drawing goes into ``how-it-works.md``, between two marks; the picture into
``pictures/tree.png``. Everything is read from the study: the same script gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
import math
from typing import Any
from typing import NamedTuple

from generated import DOCS
from generated import write_or_check
import numpy as np
import optuna
from optuna.distributions import FloatDistribution

from optuna_pcts import PCTSSampler
from optuna_pcts import Smoothness
from optuna_pcts._study.settings import tree_of
from optuna_pcts._tree.tree import Tree


PICTURE = DOCS / "pictures" / "tree.png"
BEGIN, END = "<!-- made by make_tree.py: begin -->\n", "<!-- made by make_tree.py: end -->\n"


class Cell(NamedTuple):
    """What is drawn of a cell."""

    lower: float
    upper: float
    depth: int
    n_asked: int
    n_told: int
    mean: float
    bound: float
    b_min: float
    is_next: bool  # on the path of the next ask


def f(x: float) -> float:
    return 0.5 * math.sin(6 * x) + 0.6 * x


def make_study() -> tuple[optuna.Study, PCTSSampler]:
    """Ask nine trials; two are always in flight, and the last two still are."""
    sampler = PCTSSampler(
        local_share=0,  # the tree alone
        point="center",  # round numbers
        smoothness=Smoothness(nu=1.0, rho=0.5),  # one instance: one bound for each cell
        search_space={"x": FloatDistribution(0, 1)},
        seed=0,
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    in_flight: list[optuna.Trial] = []
    for _ in range(9):
        trial = study.ask()
        trial.suggest_float("x", 0, 1)
        in_flight.append(trial)
        if len(in_flight) > 2:
            told = in_flight.pop(0)
            study.tell(told, round(f(told.params["x"]), 2))
    return study, sampler


def read(study: optuna.Study, sampler: PCTSSampler) -> list[Cell]:
    """Return the cells as the tenth ask finds them, each before its children."""
    following = study.ask()
    following.suggest_float("x", 0, 1)
    _, tree = tree_of(study)
    asked_at = tree._trials.point[0, following.number]
    tree.remove(following.number)  # what it has split stays split, but counts nothing
    tree.refresh()
    return list(_cells(tree, asked_at, 0, 0.0, 1.0, True))


def _cells(
    tree: Tree, asked_at: float, node: int, lower: float, upper: float, is_next: bool
) -> Iterator[Cell]:
    nodes = tree._nodes
    n_asked, n_told = int(nodes.n_asked[node]), int(nodes.n_told[node])
    bound = float(tree._bounds(np.array([node]))[0, 0])
    yield Cell(
        lower=lower,
        upper=upper,
        depth=int(nodes.depth[node]),
        n_asked=n_asked,
        n_told=n_told,
        mean=float(nodes.total[node]) / n_told if n_told else math.nan,
        bound=bound,
        b_min=float(nodes.b_min[0, node]),
        is_next=is_next,
    )
    if n_asked:  # an empty cell is a leaf
        first, cut = int(nodes.first_child[node]), float(nodes.cuts[0, node])
        for child, ends in ((first, (lower, cut)), (first + 1, (cut, upper))):
            inside = is_next and ends[0] < asked_at < ends[1]
            yield from _cells(tree, asked_at, child, *ends, inside)


def number(x: float) -> str:
    return "-" if math.isnan(x) else "inf" if math.isinf(x) else f"{x:.2f}"


def as_text(study: optuna.Study, cells: list[Cell]) -> str:
    """Return the drawing: what was asked, and a line for each cell."""
    lines = ["trial   " + "".join(f"{t.number:>7}" for t in study.trials[:9])]
    xs = [f"{t.params['x']:.4g}" for t in study.trials[:9]]
    values = ["..." if t.value is None else f"{t.value:.2f}" for t in study.trials[:9]]
    lines.append("x       " + "".join(f"{x:>7}" for x in xs))
    lines.append("value   " + "".join(f"{v:>7}" for v in values))
    heads = ("asked", "told", "mean", "bound", "Bmin")
    lines += ["", f"{'cell':<28}" + "".join(f"{head:>8}" for head in heads)]
    for cell in cells:
        name = f"{'  ' * cell.depth}[{cell.lower:.4g}, {cell.upper:.4g}]"
        parts = [str(cell.n_asked), str(cell.n_told)]
        parts += [number(x) for x in (cell.mean, cell.bound, cell.b_min)]
        mark = "  <" if cell.is_next else ""
        lines.append(f"{name:<28}" + "".join(f"{part:>8}" for part in parts) + mark)
    return "\n".join(lines) + "\n"


def draw(study: optuna.Study, cells: list[Cell]) -> None:
    """Draw the objective, its trials and, below it, the cells of each depth."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.patches import Rectangle
    import matplotlib.pyplot as plt
    from PIL import Image

    depths = max(cell.depth for cell in cells) + 1
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(9, 6.6), sharex=True, height_ratios=[1, 2], layout="constrained"
    )
    xs = np.linspace(0, 1, 300)
    top.plot(xs, [f(x) for x in xs], color="0.6", label="objective")
    trials = study.trials[:9]
    for told, colour, label in ((True, "C0", "told"), (False, "white", "in flight")):
        at = [t.params["x"] for t in trials if (t.value is not None) == told]
        style: dict[str, Any] = {"facecolor": colour, "edgecolor": "C0", "zorder": 3}
        top.scatter(at, [f(x) for x in at], label=label, **style)
    top.set(ylabel="value (maximised)", title="Nine trials, two of them in flight")
    top.legend(loc="upper right", frameon=False)

    colours = plt.get_cmap("YlGnBu")
    for cell in cells:
        width = cell.upper - cell.lower
        has_mean = not math.isnan(cell.mean)
        corner = (cell.lower, cell.depth)
        fill = colours(0.75 * cell.mean) if has_mean else "white"
        below.add_patch(Rectangle(corner, width, 0.94, facecolor=fill))
        if cell.n_asked > cell.n_told:
            hatch: dict[str, Any] = {"hatch": "///", "edgecolor": "0.45", "linewidth": 0}
            below.add_patch(Rectangle(corner, width, 0.94, fill=False, **hatch))
        frame = {"edgecolor": "C3", "linewidth": 2.2} if cell.is_next else {"edgecolor": "0.5"}
        below.add_patch(Rectangle(corner, width, 0.94, fill=False, zorder=3, **frame))
        if width >= 0.12:
            b_min = number(cell.b_min).replace("inf", "∞")
            label = f"told {cell.n_told} of {cell.n_asked}\nmean {number(cell.mean)}\nBmin {b_min}"
            below.text(
                (cell.lower + cell.upper) / 2,
                cell.depth + 0.47,
                label.replace("mean -\n", "") if cell.n_asked else f"empty\nBmin {b_min}",
                ha="center",
                va="center",
                fontsize=8,
                linespacing=1.3,
                zorder=4,
                bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.0},
            )
    below.set(xlim=(0, 1), ylim=(depths, 0), xlabel="x", ylabel="depth")
    below.set_yticks([d + 0.47 for d in range(depths)], [str(d) for d in range(depths)])
    below.set_title(
        "Its cells: darker is a higher mean, hatched holds trials in flight,\n"
        "red is the way of the next ask",
        fontsize=10,
    )
    for axes in (top, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=110)
    with Image.open(PICTURE) as picture:  # few colours: a third of the size
        few = picture.convert("RGB").quantize(64)
    few.save(PICTURE, optimize=True)
    print(PICTURE.relative_to(DOCS.parent))


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, sampler = make_study()
    cells = read(study, sampler)

    def with_tree(page: str) -> str:
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        return f"{before}{BEGIN}```text\n{as_text(study, cells)}```\n{END}{after}"

    description = (__doc__ or "").splitlines()[0]
    if write_or_check(description, "how-it-works.md", with_tree):
        draw(study, cells)


if __name__ == "__main__":
    main()
