"""The cells over two parameters, with the trials and the recommended point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

import optuna
from optuna._imports import try_import

from optuna_pcts._analysis.partition_info import AxisInfo
from optuna_pcts._analysis.partition_info import partition_info
from optuna_pcts._analysis.partition_info import PartitionInfo
from optuna_pcts._analysis.partition_info import PointInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import params_text
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


with try_import():
    import plotly.graph_objects as go

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Partition"


def plot_partition(study: optuna.Study, params: Sequence[str] | None = None) -> Figure:
    """Draw the cells over two parameters, with the trials and the recommended point.

    With more than two parameters, these are the cells in the plane through the recommended point;
    all trials are shown, projected onto it.

    Example:

        .. code-block:: python

            plot_partition(study, params=["x", "y"]).show()

    Args:
        study:
            A study with one objective, by whatever sampler.
        params:
            The two parameters. By default the first two by name, categories last.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives or fewer than two parameters in common, or
            ``params`` are not two of them.
        ImportError:
            If plotly is not installed.
    """
    ply.check()
    return draw_plotly(partition_info(Snapshot(study, params=params)))


def plot_partition_matplotlib(study: optuna.Study, params: Sequence[str] | None = None) -> Axes:
    """Draw cells, as :func:`optuna_pcts.visualization.plot_partition` does.

    Args:
        study:
            A study with one objective, by whatever sampler.
        params:
            The two parameters. By default the first two by name, categories last.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    mpl.check()
    return draw_matplotlib(partition_info(Snapshot(study, params=params)))


def draw_plotly(info: PartitionInfo) -> Figure:
    boxes = info.boxes
    figure = ply.new_figure(_TITLE, _subtitle(info))
    figure.add_trace(
        go.Bar(
            x=ply.rounded((b.x0 + b.x1) / 2 for b in boxes),
            width=ply.rounded(b.x1 - b.x0 for b in boxes),
            base=ply.rounded(b.y0 for b in boxes),
            y=ply.rounded(b.y1 - b.y0 for b in boxes),
            marker={
                "color": [None if b.mean is None else round(min(b.mean, 1), 3) for b in boxes],
                "cmin": 0,
                "cmax": 1,
                "colorscale": [
                    [i / (len(style.REWARD_SCALE) - 1), c]
                    for i, c in enumerate(style.REWARD_SCALE)
                ],
                "showscale": True,
                "colorbar": ply.color_bar(),
                "line": {"color": "rgba(255,255,255,0.55)", "width": 0.6},
            },
            customdata=[b.depth for b in boxes],
            hovertemplate="depth %{customdata}<br>mean reward %{marker.color}<extra></extra>",
            showlegend=False,
        )
    )
    for name, color, symbol, size, edge in (
        ("told back", "#ffffff", "circle", 5, "#333b46"),
        (style.INFEASIBLE, style.RED, "x", 7, "#ffffff"),
        ("in flight", style.RED, "diamond-open", 9, style.RED),
    ):
        points = [p for p in info.points if _kind(p) == name]
        if points:
            figure.add_trace(
                go.Scatter(
                    x=ply.rounded(p.x for p in points),
                    y=ply.rounded(p.y for p in points),
                    mode="markers",
                    name=name,
                    marker={
                        "size": size,
                        "color": color,
                        "symbol": symbol,
                        "line": {"color": edge, "width": 1},
                    },
                    text=[
                        f"trial {p.number}" + ("" if p.value is None else f": {p.value:.5g}")
                        for p in points
                    ],
                    hoverinfo="text",
                )
            )
    if info.recommended is not None:
        r = info.recommended
        figure.add_trace(
            go.Scatter(
                x=[r.x],
                y=[r.y],
                mode="markers",
                name="recommended",
                marker={
                    "symbol": "star",
                    "size": 17,
                    "color": style.ORANGE,
                    "line": {"color": "#ffffff", "width": 1.2},
                },
                text=[f"recommended: trial {r.number}, {r.value:.5g}"],
                hoverinfo="text",
            )
        )
    figure.update_layout(
        barmode="overlay", bargap=0, xaxis=_axis_plotly(info.x), yaxis=_axis_plotly(info.y)
    )
    return figure


def draw_matplotlib(info: PartitionInfo) -> Axes:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    axes = mpl.new_axes(_TITLE, _subtitle(info))
    color = mpl.reward_colors(axes)
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
        points = [p for p in info.points if _kind(p) == name]
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
    _axis_matplotlib(axes.xaxis, info.x)
    _axis_matplotlib(axes.yaxis, info.y)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend()
    return axes


def _axis_plotly(axis: AxisInfo) -> dict[str, Any]:
    return {
        "title": {"text": axis.name},
        "range": [0, 1],
        "tickvals": list(axis.positions),
        "ticktext": list(axis.labels),
        "showgrid": False,
    }


def _axis_matplotlib(axis: Any, info: AxisInfo) -> None:
    axis.set_ticks(list(info.positions), list(info.labels))
    axis.set_label_text(info.name)


def _subtitle(info: PartitionInfo) -> str:
    """Return the parameters that fix the plane."""
    n_in_flight = sum(point.in_flight for point in info.points)
    where = f" at {params_text(info.others)}" if info.others else ""
    return f"{len(info.boxes):,} cells{where}; {n_in_flight} in flight"


def _kind(point: PointInfo) -> str:
    """Return the label of a trial."""
    if point.in_flight:
        return "in flight"
    return "told back" if point.is_feasible else style.INFEASIBLE
