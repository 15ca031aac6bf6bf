"""The tree of cells as an icicle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna
from optuna._imports import try_import

from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import ranges_text
from optuna_pcts._analysis.tree_info import CellInfo
from optuna_pcts._analysis.tree_info import tree_info
from optuna_pcts._analysis.tree_info import TreeInfo
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


with try_import():
    import plotly.graph_objects as go

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Tree of cells"


def plot_tree(study: optuna.Study) -> Figure:
    """Draw the tree of cells as an icicle: the root on top, the children of a cell below it.

    The width of a cell is its share of the trials, the colour its mean reward, and its label how
    many of its trials were told back, and where a branch opens the parameters that begin to exist;
    hover text has its bound and its ranges. The smallest cells
    around trials in flight are outlined. Cells without any trial are left out.

    Example:

        .. code-block:: python

            plot_tree(study).show()

    Args:
        study:
            A study with one objective, by whatever sampler: the tree is a function of what is in
            the storage. With the settings of the study's sampler if it is a :class:`PCTSSampler`.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or no trial in a common search space.
        ImportError:
            If plotly is not installed.
    """
    ply.check()
    return draw_plotly(tree_info(Snapshot(study)))


def plot_tree_matplotlib(study: optuna.Study) -> Axes:
    """Draw the tree of cells as an icicle, as :func:`optuna_pcts.visualization.plot_tree` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    mpl.check()
    return draw_matplotlib(tree_info(Snapshot(study)))


def draw_plotly(info: TreeInfo) -> Figure:
    cells = info.cells
    scale = style.REWARD_SCALE
    # Cells without feedback are drawn as -0.1, below all rewards: grey.
    zero = 0.1 / 1.1
    steps = [[0.0, style.GREY], [zero - 1e-6, style.GREY]]
    steps += [[zero + (1 - zero) * (i / (len(scale) - 1)), c] for i, c in enumerate(scale)]
    figure = ply.new_figure(_TITLE, _subtitle(info), bottom=60)  # it has no legend
    figure.add_trace(
        go.Icicle(
            ids=[str(cell.node) for cell in cells],
            parents=["" if cell.parent < 0 else str(cell.parent) for cell in cells],
            labels=["<br>".join(_label_lines(cell)) for cell in cells],
            values=[cell.n_asked for cell in cells],
            branchvalues="total",
            sort=False,
            tiling={"orientation": "v", "pad": 1},
            pathbar={"visible": False},
            hovertext=["<br>".join(_cell_lines(cell)) for cell in cells],
            hoverinfo="text",
            marker={
                "colors": [-0.1 if c.mean is None else round(min(c.mean, 1), 3) for c in cells],
                "cmin": -0.1,
                "cmax": 1,
                "autocolorscale": False,
                "colorscale": steps,
                "showscale": True,
                "colorbar": ply.color_bar(),
                "line": {
                    "color": [style.RED if c.is_in_flight else "rgba(0,0,0,0)" for c in cells],
                    "width": [2.5 if c.is_in_flight else 0 for c in cells],
                },
            },
        )
    )
    return figure


def draw_matplotlib(info: TreeInfo) -> Axes:
    from matplotlib.patches import Rectangle

    axes = mpl.new_axes(_TITLE, _subtitle(info))
    color = mpl.reward_colors(axes)
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
            text = " ".join(_label_lines(cell) if width > 0.15 else _label_lines(cell)[:1])
            axes.text(middle, cell.depth + 0.5, text, ha="center", va="center", size=6, zorder=3)
    axes.set_xlim(0, 1)
    axes.set_ylim(info.depth + 1, 0)
    axes.set_xlabel("share of the trials")
    axes.set_ylabel("depth")
    return axes


def _subtitle(info: TreeInfo) -> str:
    """Return depth, cells and trials of the tree."""
    shown = "" if len(info.cells) >= info.n_cells else f", {len(info.cells):,} with trials shown"
    return (
        f"depth {info.depth}, {info.n_cells:,} cells{shown}; {info.n_told:,} of {info.n_asked:,} "
        f"trials told back, {info.n_in_flight:,} in flight (outlined)"
    )


def _label_lines(cell: CellInfo) -> list[str]:
    """Return the label of a cell: its trials, and which parameters begin to exist there."""
    lines = [f"{cell.n_told}/{cell.n_asked}"]
    if cell.opens:
        others = f" and {len(cell.opens) - 2} more" if len(cell.opens) > 3 else ""
        names = cell.opens[:2] if others else cell.opens
        lines.append(f"+ {', '.join(names)}{others}")
    return lines


def _cell_lines(cell: CellInfo) -> list[str]:
    """Return the hover text of a cell."""
    mean = "none" if cell.mean is None else f"{cell.mean:.3f}"
    bound = "infinite" if cell.bound is None else f"{cell.bound:.3f}"
    return [
        f"depth {cell.depth}: told {cell.n_told} of {cell.n_asked} asked",
        f"mean reward {mean}, bound {bound}",
        *([f"{cell.n_in_flight} in flight"] if cell.n_in_flight else []),
        *([f"opens {', '.join(cell.opens)}"] if cell.opens else []),
        ranges_text(cell.ranges),
    ]
