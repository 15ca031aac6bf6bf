"""What the figures with plotly share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna._imports import try_import

from optuna_pcts.visualization import _style as style


with try_import() as _imports:
    import plotly.graph_objects as go

Figure = Any  # of plotly, which comes without types


def check() -> None:
    """Raise an ImportError that names plotly if it is missing."""
    _imports.check()


def is_available() -> bool:
    """Return whether plotly is installed, which all these figures need."""
    return _imports.is_successful()


def new_figure(title: str, subtitle: str, *, bottom: int = 100) -> Figure:
    """Return an empty figure; ``bottom`` is its margin below, with room for a legend."""
    return go.Figure(layout=layout(title, *style.lines(subtitle), bottom=bottom))


def heading(title: str, *subtitles: str) -> str:
    """Return a title with smaller lines below it."""
    small = "".join(f"<br><span style='font-size:12px'>{line}</span>" for line in subtitles)
    return f"<b>{title}</b>{small}"


def layout(title: str, *subtitles: str, bottom: int = 100) -> dict[str, Any]:
    """Return a layout for light and dark pages: it is transparent, with colours for both."""
    axis = {
        "gridcolor": "rgba(131,139,150,0.25)",
        "linecolor": style.GREY,
        "zeroline": False,
        "automargin": True,
    }
    template = {
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": style.GREY, "size": 13},
            "xaxis": axis,
            "yaxis": axis,
        }
    }
    return {
        "template": template,
        "title": {
            "text": heading(title, *subtitles),
            "x": 0.02,
            "xanchor": "left",
            "y": 0.96,
            "yanchor": "top",
        },
        "margin": {
            "t": 80 + 18 * (len(subtitles) - 1),
            "l": 60,
            "r": 20,
            "b": bottom,
        },
        # At the bottom edge, whatever the height: the title of the axis is above it.
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0.01,
            "yanchor": "bottom",
            "x": 0,
        },
    }


def color_bar() -> dict[str, Any]:
    """Return the bar that explains the colours of mean rewards."""
    return {
        "title": {"text": style.REWARD_TITLE, "font": {"size": 11}},
        "thickness": 12,
        "tickvals": [0, 0.5, 1],
        "outlinewidth": 0,
    }


def add_line(
    figure: Figure,
    x: Sequence[float],
    y: Sequence[float],
    name: str,
    color: str,
    *,
    cell: tuple[int, int] | None = None,
    mode: str = "lines",
    dash: str = "solid",
    shape: str = "linear",
    width: float = 2.0,
) -> None:
    """Add a line, in one of several plots if ``cell`` says its row and column."""
    line = {"color": color, "dash": dash, "width": width, "shape": shape}
    where = {} if cell is None else {"row": cell[0], "col": cell[1]}
    # Lists: the dashboard's version of plotly cannot read packed arrays.
    figure.add_trace(go.Scatter(x=list(x), y=list(y), mode=mode, name=name, line=line), **where)


def add_trials(
    figure: Figure, rows: Sequence[tuple[Any, float, int]], infeasible: Sequence[int]
) -> None:
    """Add a point for each trial, with its number as hover text."""
    out = set(infeasible)
    marker = {"color": style.BLUE, "size": 7, "opacity": 0.45}
    _add_marks(figure, [row for row in rows if row[2] not in out], "trial", marker)
    add_infeasible(figure, [row for row in rows if row[2] in out])


def add_infeasible(figure: Figure, rows: Sequence[tuple[Any, float, int]]) -> None:
    """Add a cross for each trial that violates a constraint, if there is any."""
    if rows:
        _add_marks(
            figure,
            rows,
            style.INFEASIBLE,
            {"color": style.RED, "size": 7, "symbol": "x-thin-open"},
        )


def _add_marks(
    figure: Figure, rows: Sequence[tuple[Any, float, int]], name: str, marker: dict[str, Any]
) -> None:
    figure.add_trace(
        go.Scatter(
            x=[x for x, _, _ in rows],
            y=rounded(y for _, y, _ in rows),
            mode="markers",
            name=name,
            marker=marker,
            customdata=[number for _, _, number in rows],
            hovertemplate="trial %{customdata}: %{y}<extra></extra>",
        )
    )


def rounded(values: Any) -> list[float]:
    """Return numbers with five digits: less to store and to load."""
    return [float(f"{value:.5g}") for value in values]
