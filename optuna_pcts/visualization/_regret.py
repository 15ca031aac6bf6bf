"""The best and the recommended value against time."""

from __future__ import annotations

from typing import Any
from typing import TYPE_CHECKING

import optuna
from optuna._imports import try_import

from optuna_pcts._analysis.regret_info import regret_info
from optuna_pcts._analysis.regret_info import RegretInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import span
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


with try_import():
    import plotly.graph_objects as go

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Best and recommended value"


def plot_regret(
    study: optuna.Study, *, optimum: float | None = None, target_name: str = "Objective Value"
) -> Figure:
    """Draw the best and the recommended value against the time since the study began.

    The best value is that of the best feasible trial, which under noise is biased by selection.
    The recommended one is what :func:`recommend` would have returned then, with its 95 % interval:
    at a dozen times at most, as it takes long.

    Example:

        .. code-block:: python

            plot_regret(study).show()

    Args:
        study:
            A study with one objective, by whatever sampler.
        optimum:
            The best value there can be, if it is known. Then the figure is of the regret, the
            distance to it, on a logarithmic axis.
        target_name:
            What the values are, for the axis.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or no feasible and completed trial with time
            stamps.
        ImportError:
            If plotly is not installed.
    """
    ply.check()
    return draw_plotly(regret_info(Snapshot(study)), optimum, target_name)


def plot_regret_matplotlib(
    study: optuna.Study, *, optimum: float | None = None, target_name: str = "Objective Value"
) -> Axes:
    """Draw best and recommended value, as :func:`optuna_pcts.visualization.plot_regret` does.

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
    mpl.check()
    return draw_matplotlib(regret_info(Snapshot(study)), optimum, target_name)


def draw_plotly(
    info: RegretInfo, optimum: float | None = None, target_name: str = "Objective Value"
) -> Figure:
    size, unit = span(info.seconds[-1])

    def y(value: float) -> float:
        return value if optimum is None else abs(value - optimum)

    figure = ply.new_figure(_TITLE, _subtitle(info))
    # Only the points where it changes.
    steps = [i for i, b in enumerate(info.best) if i == 0 or b != info.best[i - 1]]
    steps += [len(info.best) - 1]
    ply.add_line(
        figure,
        ply.rounded(info.seconds[i] / size for i in steps),
        [y(info.best[i]) for i in steps],
        "best trial so far",
        style.BLUE,
        shape="hv",
    )
    ply.add_infeasible(
        figure, [(s / size, y(value), number) for s, value, number in info.infeasible]
    )
    made = info.recommended
    if made:
        error = None
        if optimum is None:
            error = {
                "type": "data",
                "symmetric": False,
                "array": [r.interval[1] - r.value for r in made],
                "arrayminus": [r.value - r.interval[0] for r in made],
                "thickness": 1.2,
            }
        figure.add_trace(
            go.Scatter(
                x=ply.rounded(r.seconds / size for r in made),
                y=[y(r.value) for r in made],
                error_y=error,
                mode="lines+markers",
                name="recommended, 95 % interval" if error else "recommended",
                line={"color": style.ORANGE, "width": 2},
                text=[f"trial {r.number}: {r.value:.5g}" for r in made],
                hoverinfo="text",
            )
        )
    name = target_name if optimum is None else f"Regret (distance to {optimum:g})"
    y_axis: dict[str, Any] = {"title": {"text": name}, "type": "log"}
    if optimum is None:
        y_axis |= {"type": "linear", "range": _range(info)}
    figure.update_layout(
        xaxis={"title": {"text": f"time since the first trial ({unit})"}}, yaxis=y_axis
    )
    return figure


def draw_matplotlib(
    info: RegretInfo, optimum: float | None = None, target_name: str = "Objective Value"
) -> Axes:
    axes = mpl.new_axes(_TITLE, _subtitle(info))
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
    mpl.add_infeasible(axes, [(s / size, y(value)) for s, value, _ in info.infeasible])
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
        axes.set_ylim(*_range(info))
        axes.set_ylabel(target_name)
    else:
        axes.set_yscale("log")
        axes.set_ylabel(f"Regret (distance to {optimum:g})")
    axes.set_xlabel(f"time since the first trial ({unit})")
    axes.legend()
    return axes


def _subtitle(info: RegretInfo) -> str:
    """Return the last best and recommended value."""
    text = f"best {info.best[-1]:.5g}"
    if info.recommended:
        last = info.recommended[-1]
        low, high = last.interval
        text += f"; recommended {last.value:.5g} ({low:.5g} to {high:.5g})"
    return text


def _range(info: RegretInfo) -> list[float]:
    """Return the initial range of the axis: without the start, whose values are far off."""
    first = len(info.best) // 5
    shown = list(info.best[first:])
    for made in info.recommended:
        if made.seconds >= info.seconds[first]:
            shown += [made.value, *made.interval]
    low, high = min(shown), max(shown)
    # Also without infeasible trials whose values are far off.
    size = high - low
    late = [y for s, y, _ in info.infeasible if s >= info.seconds[first]]
    within = [y for y in late if low - size <= y <= high + size]
    low, high = min([low, *within]), max([high, *within])
    margin = 0.08 * (high - low) or max(abs(high), 1.0) * 0.01
    return [low - margin, high + margin]
