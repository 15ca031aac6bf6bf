"""What trials cost at each depth, with the fitted models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna

from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.cost_info import CostInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import span
from optuna_pcts._tree.cost_models import CostModel
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Cost by depth"


def plot_cost(study: optuna.Study) -> Figure:
    """Draw what trials cost at each depth, with the fitted models of the paper's table 3.

    Example:

        .. code-block:: python

            plot_cost(study).show()

    Args:
        study:
            A study of :class:`PCTSSampler`.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or no trial with a depth and a cost.
        ImportError:
            If plotly is not installed.
    """
    ply.check()
    return draw_plotly(cost_info(Snapshot(study)))


def plot_cost_matplotlib(study: optuna.Study) -> Axes:
    """Draw costs by depth, as :func:`optuna_pcts.visualization.plot_cost` does.

    Args:
        study:
            A study of :class:`PCTSSampler`.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    mpl.check()
    return draw_matplotlib(cost_info(Snapshot(study)))


def draw_plotly(info: CostInfo) -> Figure:
    figure = ply.new_figure(_TITLE, _subtitle(info))
    size, unit = span(max(info.costs)) if info.unit == "s" else (1.0, "declared")
    # Trials that cost nothing cannot be shown on a logarithmic axis.
    rows = [(d, c / size, n) for d, c, n in zip(info.depths, info.costs, info.numbers) if c > 0]
    ply.add_trials(figure, rows, info.infeasible)
    medians = [(depth, median / size) for depth, median, _ in info.by_depth if median > 0]
    xs, ys = [x for x, _ in medians], [y for _, y in medians]
    ply.add_line(figure, xs, ys, "median", style.GREY, mode="lines+markers")
    if info.fit is not None:
        depths = range(info.by_depth[0][0], info.by_depth[-1][0] + 1)
        for i, fitted in enumerate(info.fit.models):
            model: CostModel = fitted.model
            ys = ply.rounded(model.cost(depth + 1.0) / size for depth in depths)
            name = f"{fitted.name} ({100 * fitted.support:.0f} %)"
            dash, width = ("dot", 1.5) if i else ("solid", 3.0)
            ply.add_line(figure, list(depths), ys, name, style.MODELS[i], dash=dash, width=width)
    figure.update_layout(
        xaxis={"title": {"text": "depth of the cell"}},
        yaxis={"title": {"text": f"cost of a trial ({unit})"}, "type": "log", "dtick": "D2"},
    )
    return figure


def draw_matplotlib(info: CostInfo) -> Axes:
    axes = mpl.new_axes(_TITLE, _subtitle(info))
    size, unit = span(max(info.costs)) if info.unit == "s" else (1.0, "declared")
    rows = [(d, cost / size, n) for d, cost, n in zip(info.depths, info.costs, info.numbers)]
    mpl.add_trials(axes, rows, info.infeasible)
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


def _subtitle(info: CostInfo) -> str:
    """Return which model fits."""
    if info.fit is None:
        return "no model fitted yet: " + (info.why_no_fit or "").split(". ")[0].rstrip(".")
    return str(info.fit).splitlines()[-1]
