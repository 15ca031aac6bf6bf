"""The figures with plotly. Each is drawn from one tuple of ``_report``."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

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
from optuna_pcts._cost import CostModel
from optuna_pcts.visualization import _style as style


with try_import() as _imports:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

Figure = Any  # of plotly, which comes without types


def is_available() -> bool:
    """Return whether plotly is installed, which all functions of this module need."""
    return _imports.is_successful()


def plot_tree(study: optuna.Study) -> Figure:
    """Draw the tree of cells as an icicle: the root on top, the children of a cell below it.

    A cell is as wide as its share of the trials, and coloured by its mean reward. It says how
    many of its trials were told back; point at it for its bound and its values. The smallest
    cells around trials in flight are outlined. Cells without any trial are left out.

    Example:

        .. code-block:: python

            plot_tree(study).show()

    Args:
        study:
            A study with one objective, by whatever sampler: what is in the storage makes the
            tree. With the settings of the study's sampler if that is a :class:`PCTSSampler`.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or no trial in a common search space.
        ImportError:
            If plotly is not installed.
    """
    _imports.check()
    return draw_tree(tree_info(Snapshot(study)))


def plot_partition(study: optuna.Study, params: Sequence[str] | None = None) -> Figure:
    """Draw the cells over two parameters, with the trials and the recommended point.

    Where there are more parameters, these are the cells in the plane through the recommended
    point; all trials are shown, wherever they are beside it.

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
    _imports.check()
    return draw_partition(partition_info(Snapshot(study, params=params)))


def plot_delays(study: optuna.Study) -> Figure:
    """Draw how late feedback is: in seconds, and in trials asked in the meantime.

    On the left the share of trials that took longer than so many seconds, on logarithmic axes: a
    heavy tail is a straight line there, and its slope is the tail exponent. On the right how
    many other trials were asked meanwhile, with their mean and with log T: a mean of at most that
    is benign, by consequence 4 of the paper's theorem 2.

    Example:

        .. code-block:: python

            plot_delays(study).show()

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or no finished trial with time stamps.
        ImportError:
            If plotly is not installed.
    """
    _imports.check()
    return draw_delays(delay_info(Snapshot(study)))


def plot_fidelity(study: optuna.Study) -> Figure:
    """Draw how far each trial was evaluated, by the depth of its cell.

    Trials that the tree did not ask for have no depth: if none has one, as with another sampler
    and a pruner, the figure goes by the number of the trial.

    Example:

        .. code-block:: python

            plot_fidelity(study).show()

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        A :class:`plotly.graph_objects.Figure`.

    Raises:
        ValueError:
            If the study has several objectives, or all trials were evaluated as a whole.
        ImportError:
            If plotly is not installed.
    """
    _imports.check()
    return draw_fidelity(fidelity_info(Snapshot(study)))


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
    _imports.check()
    return draw_cost(cost_info(Snapshot(study)))


def plot_regret(
    study: optuna.Study, *, optimum: float | None = None, target_name: str = "Objective Value"
) -> Figure:
    """Draw the best and the recommended value against the time since the study began.

    The best value is that of the best feasible trial: under noise it is too good to be true. The
    recommended one is that of :func:`recommend`, with its 95 % interval, had it been called then:
    at a dozen moments at most, as it takes time.

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
    _imports.check()
    return draw_regret(regret_info(Snapshot(study)), optimum, target_name)


# ---------------------------------------------------------------------- from the tuples


def draw_tree(info: TreeInfo) -> Figure:
    cells = info.cells
    scale = style.REWARD_SCALE
    # Below 0 there is no reward, so that is where cells without feedback are: grey.
    zero = 0.1 / 1.1
    steps = [[0.0, style.GREY], [zero - 1e-6, style.GREY]]
    steps += [[zero + (1 - zero) * (i / (len(scale) - 1)), c] for i, c in enumerate(scale)]
    figure = _figure("tree", style.tree_subtitle(info))
    figure.add_trace(
        go.Icicle(
            ids=[str(cell.node) for cell in cells],
            parents=["" if cell.parent < 0 else str(cell.parent) for cell in cells],
            labels=[f"{cell.n_told}/{cell.n_asked}" for cell in cells],
            values=[cell.n_asked for cell in cells],
            branchvalues="total",
            sort=False,
            tiling={"orientation": "v", "pad": 1},
            pathbar={"visible": False},
            hovertext=["<br>".join(style.cell_lines(cell)) for cell in cells],
            hoverinfo="text",
            marker={
                "colors": [-0.1 if c.mean is None else round(min(c.mean, 1), 3) for c in cells],
                "cmin": -0.1,
                "cmax": 1,
                "autocolorscale": False,
                "colorscale": steps,
                "showscale": True,
                "colorbar": _color_bar(),
                "line": {
                    "color": [style.RED if c.is_in_flight else "rgba(0,0,0,0)" for c in cells],
                    "width": [2.5 if c.is_in_flight else 0 for c in cells],
                },
            },
        )
    )
    return figure


def draw_partition(info: PartitionInfo) -> Figure:
    boxes = info.boxes
    figure = _figure("partition", style.partition_subtitle(info))
    figure.add_trace(
        go.Bar(
            x=_rounded((b.x0 + b.x1) / 2 for b in boxes),
            width=_rounded(b.x1 - b.x0 for b in boxes),
            base=_rounded(b.y0 for b in boxes),
            y=_rounded(b.y1 - b.y0 for b in boxes),
            marker={
                "color": [None if b.mean is None else round(min(b.mean, 1), 3) for b in boxes],
                "cmin": 0,
                "cmax": 1,
                "colorscale": [
                    [i / (len(style.REWARD_SCALE) - 1), c]
                    for i, c in enumerate(style.REWARD_SCALE)
                ],
                "showscale": True,
                "colorbar": _color_bar(),
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
        points = [p for p in info.points if style.kind(p) == name]
        if points:
            figure.add_trace(
                go.Scatter(
                    x=_rounded(p.x for p in points),
                    y=_rounded(p.y for p in points),
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
        barmode="overlay", bargap=0, xaxis=_unit_axis(info.x), yaxis=_unit_axis(info.y)
    )
    return figure


def draw_delays(info: DelayInfo) -> Figure:
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    figure.update_layout(_layout("delays", style.delay_subtitle(info), info.verdict))
    size, unit = span(max(info.longest_seconds, 1e-3))
    xs, shares = style.survival(info.seconds)
    at = _rounded(x / size for x in xs)
    _line(figure, at, _rounded(shares), "took longer", style.BLUE, cell=(1, 1), shape="hv")
    tail = style.tail_line(info)
    if tail is not None:
        at = _rounded(x / size for x in tail[0])
        name = f"tail, exponent {info.tail:.2g}"
        _line(figure, at, _rounded(tail[1]), name, style.ORANGE, cell=(1, 1), dash="dash")
    middles, counts, width = style.histogram(info.trials)
    figure.add_trace(
        go.Bar(
            x=middles,
            y=counts,
            width=width * 0.9,
            marker={"color": style.BLUE},
            showlegend=False,
            hovertemplate="%{x} others asked: %{y} trials<extra></extra>",
        ),
        row=1,
        col=2,
    )
    top = max(counts) * 1.05
    for name, at_trials, color, dash in (
        (f"mean {info.mean_trials:.3g}", info.mean_trials, style.ORANGE, "solid"),
        (f"log T = {info.log_t:.3g}", info.log_t, style.GREEN, "dash"),
    ):
        _line(figure, [at_trials] * 2, [0, top], name, color, cell=(1, 2), dash=dash)
    # Ticks at 1, 2, 5, 10: in a short range there would be one at every digit, over each other.
    ticks = {"type": "log", "dtick": "D2", "tickangle": 0}
    figure.update_xaxes(title_text=f"delay ({unit})", row=1, col=1, **ticks)
    figure.update_yaxes(title_text="share of trials that took longer", row=1, col=1, **ticks)
    figure.update_xaxes(title_text="delay (trials asked meanwhile)", row=1, col=2)
    figure.update_yaxes(title_text="number of trials", row=1, col=2)
    return figure


def draw_fidelity(info: FidelityInfo) -> Figure:
    figure = _figure("fidelity", style.fidelity_subtitle(info))
    has_depth = bool(info.by_depth)
    xs = info.depths if has_depth else info.numbers
    rows = [row for row in zip(xs, info.fidelities, info.numbers) if row[0] is not None]
    _trials(figure, rows, info.infeasible)
    if has_depth:
        depths, means, _ = zip(*info.by_depth)
        _line(figure, depths, _rounded(means), "mean", style.ORANGE)
    figure.update_layout(
        xaxis={"title": {"text": "depth of the cell" if has_depth else "trial"}},
        yaxis={"title": {"text": "fidelity (1: whole evaluation)"}, "range": [0, 1.05]},
    )
    if not has_depth:
        figure.update_layout(title_text=_title("Fidelity by trial", style.fidelity_subtitle(info)))
    return figure


def draw_cost(info: CostInfo) -> Figure:
    figure = _figure("cost", style.cost_subtitle(info))
    size, unit = span(max(info.costs)) if info.unit == "s" else (1.0, "declared")
    # A logarithmic axis has no place for what cost nothing.
    rows = [(d, c / size, n) for d, c, n in zip(info.depths, info.costs, info.numbers) if c > 0]
    _trials(figure, rows, info.infeasible)
    medians = [(depth, median / size) for depth, median, _ in info.by_depth if median > 0]
    _line(figure, *_columns(medians), "median", style.GREY, mode="lines+markers")
    if info.fit is not None:
        depths = range(info.by_depth[0][0], info.by_depth[-1][0] + 1)
        for i, fitted in enumerate(info.fit.models):
            model: CostModel = fitted.model
            ys = _rounded(model.cost(depth + 1.0) / size for depth in depths)
            name = f"{fitted.name} ({100 * fitted.support:.0f} %)"
            dash, width = ("dot", 1.5) if i else ("solid", 3.0)
            _line(figure, list(depths), ys, name, style.MODELS[i], dash=dash, width=width)
    figure.update_layout(
        xaxis={"title": {"text": "depth of the cell"}},
        yaxis={"title": {"text": f"cost of a trial ({unit})"}, "type": "log", "dtick": "D2"},
    )
    return figure


def draw_regret(
    info: RegretInfo, optimum: float | None = None, target_name: str = "Objective Value"
) -> Figure:
    size, unit = span(info.seconds[-1])

    def y(value: float) -> float:
        return value if optimum is None else abs(value - optimum)

    figure = _figure("regret", style.regret_subtitle(info))
    # Only where it changes: between them the line is flat.
    steps = [i for i, b in enumerate(info.best) if i == 0 or b != info.best[i - 1]]
    steps += [len(info.best) - 1]
    _line(
        figure,
        _rounded(info.seconds[i] / size for i in steps),
        [y(info.best[i]) for i in steps],
        "best trial so far",
        style.BLUE,
        shape="hv",
    )
    _infeasible(figure, [(s / size, y(value), number) for s, value, number in info.infeasible])
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
                x=_rounded(r.seconds / size for r in made),
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
        y_axis |= {"type": "linear", "range": style.regret_range(info)}
    figure.update_layout(
        xaxis={"title": {"text": f"time since the first trial ({unit})"}}, yaxis=y_axis
    )
    return figure


DRAW: dict[str, Callable[..., Figure]] = {
    "tree": draw_tree,
    "partition": draw_partition,
    "regret": draw_regret,
    "delays": draw_delays,
    "fidelity": draw_fidelity,
    "cost": draw_cost,
}


# ---------------------------------------------------------------------- style


def _figure(name: str, subtitle: str) -> Figure:
    return go.Figure(layout=_layout(name, *style.lines(subtitle)))


def _title(title: str, *subtitles: str) -> str:
    small = "".join(f"<br><span style='font-size:12px'>{line}</span>" for line in subtitles)
    return f"<b>{title}</b>{small}"


def _layout(name: str, *subtitles: str) -> dict[str, Any]:
    """Return a layout for any background: it has none of its own, and colours for both."""
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
            "text": _title(style.TITLES[name], *subtitles),
            "x": 0.02,
            "xanchor": "left",
            "y": 0.96,
            "yanchor": "top",
        },
        "margin": {
            "t": 80 + 18 * (len(subtitles) - 1),
            "l": 60,
            "r": 20,
            "b": 60 if name == "tree" else 100,
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


def _color_bar() -> dict[str, Any]:
    return {
        "title": {"text": style.REWARD_TITLE, "font": {"size": 11}},
        "thickness": 12,
        "tickvals": [0, 0.5, 1],
        "outlinewidth": 0,
    }


def _unit_axis(axis: AxisInfo) -> dict[str, Any]:
    return {
        "title": {"text": axis.name},
        "range": [0, 1],
        "tickvals": list(axis.positions),
        "ticktext": list(axis.labels),
        "showgrid": False,
    }


def _line(
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
    line = {"color": color, "dash": dash, "width": width, "shape": shape}
    where = {} if cell is None else {"row": cell[0], "col": cell[1]}
    # Lists: the dashboard's plotly does not know the packed arrays of newer ones.
    figure.add_trace(go.Scatter(x=list(x), y=list(y), mode=mode, name=name, line=line), **where)


def _trials(
    figure: Figure, rows: Sequence[tuple[Any, float, int]], infeasible: Sequence[int]
) -> None:
    """Add a point for each trial: its place, and its number for whoever points at it."""
    out = set(infeasible)
    marker = {"color": style.BLUE, "size": 7, "opacity": 0.45}
    _marks(figure, [row for row in rows if row[2] not in out], "trial", marker)
    _infeasible(figure, [row for row in rows if row[2] in out])


def _infeasible(figure: Figure, rows: Sequence[tuple[Any, float, int]]) -> None:
    if rows:
        _marks(
            figure,
            rows,
            style.INFEASIBLE,
            {"color": style.RED, "size": 7, "symbol": "x-thin-open"},
        )


def _marks(
    figure: Figure, rows: Sequence[tuple[Any, float, int]], name: str, marker: dict[str, Any]
) -> None:
    figure.add_trace(
        go.Scatter(
            x=[x for x, _, _ in rows],
            y=_rounded(y for _, y, _ in rows),
            mode="markers",
            name=name,
            marker=marker,
            customdata=[number for _, _, number in rows],
            hovertemplate="trial %{customdata}: %{y}<extra></extra>",
        )
    )


def _rounded(values: Any) -> list[float]:
    """Return numbers with as many digits as a screen can show: less to store and to load."""
    return [float(f"{value:.5g}") for value in values]


def _columns(rows: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in rows], [y for _, y in rows]
