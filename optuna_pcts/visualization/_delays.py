"""How late feedback is, in seconds and in trials."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

import optuna
from optuna._imports import try_import

from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.delay_info import DelayInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import span
from optuna_pcts._analysis.text import tail_text
from optuna_pcts._analysis.text import time_text
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


with try_import():
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

_TITLE = "Delay of the feedback"


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
    ply.check()
    return draw_plotly(delay_info(Snapshot(study)))


def plot_delays_matplotlib(study: optuna.Study) -> Any:
    """Draw how late feedback is, as :func:`optuna_pcts.visualization.plot_delays` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        An array of two :class:`matplotlib.axes.Axes`.
    """
    mpl.check()
    return draw_matplotlib(delay_info(Snapshot(study)))


def draw_plotly(info: DelayInfo) -> Figure:
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    figure.update_layout(ply.layout(_TITLE, _subtitle(info), info.verdict))
    size, unit = span(max(info.longest_seconds, 1e-3))
    xs, shares = _survival(info.seconds)
    at = ply.rounded(x / size for x in xs)
    ply.add_line(
        figure, at, ply.rounded(shares), "took longer", style.BLUE, cell=(1, 1), shape="hv"
    )
    tail = _tail_line(info)
    if tail is not None:
        at = ply.rounded(x / size for x in tail[0])
        name = f"tail, exponent {info.tail:.2g}"
        ply.add_line(
            figure, at, ply.rounded(tail[1]), name, style.ORANGE, cell=(1, 1), dash="dash"
        )
    middles, counts, width = _histogram(info.trials)
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
        ply.add_line(figure, [at_trials] * 2, [0, top], name, color, cell=(1, 2), dash=dash)
    # Ticks at 1, 2, 5, 10: by default those of a short range overlap.
    ticks = {"type": "log", "dtick": "D2", "tickangle": 0}
    figure.update_xaxes(title_text=f"delay ({unit})", row=1, col=1, **ticks)
    figure.update_yaxes(title_text="share of trials that took longer", row=1, col=1, **ticks)
    figure.update_xaxes(title_text="delay (trials asked meanwhile)", row=1, col=2)
    figure.update_yaxes(title_text="number of trials", row=1, col=2)
    return figure


def draw_matplotlib(info: DelayInfo) -> Any:
    from matplotlib import pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(10, 4.5), constrained_layout=True)
    figure.suptitle(mpl.heading(_TITLE, _subtitle(info), info.verdict), fontsize=10)
    left, right = both
    size, unit = span(max(info.longest_seconds, 1e-3))
    xs, shares = _survival(info.seconds)
    left.plot([x / size for x in xs], shares, color=style.BLUE, drawstyle="steps-post")
    tail = _tail_line(info)
    if tail is not None:
        label = f"tail, exponent {info.tail:.2g}"
        left.plot([x / size for x in tail[0]], tail[1], "--", color=style.ORANGE, label=label)
        left.legend()
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel(f"delay ({unit})")
    left.set_ylabel("share of trials that took longer")
    middles, counts, width = _histogram(info.trials)
    right.bar(middles, counts, width * 0.9, color=style.BLUE)
    right.axvline(info.mean_trials, color=style.ORANGE, label=f"mean {info.mean_trials:.3g}")
    right.axvline(info.log_t, color=style.GREEN, ls="--", label=f"log T = {info.log_t:.3g}")
    right.set_xlabel("delay (trials asked meanwhile)")
    right.set_ylabel("number of trials")
    right.legend()
    return both


def _subtitle(info: DelayInfo) -> str:
    """Return the mean, the tail and the regime."""
    return f"mean {time_text(info.mean_seconds)}, {info.mean_trials:.3g} trials; {tail_text(info)}"


def _survival(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the points of P(delay > x), without the last one at 0, which has no logarithm.

    At most 200 points, as a screen shows no more.
    """
    ordered = sorted(x for x in values if x > 0)
    n = len(ordered)
    # All of the longest delays, which are the tail.
    keep = sorted({i * (n - 1) // 150 for i in range(151)} | set(range(max(n - 50, 0), n)))
    return [ordered[i] for i in keep if i < n], [1 - i / n for i in keep if i < n]


def _tail_line(info: DelayInfo) -> tuple[list[float], list[float]] | None:
    """Return both ends of the fitted tail, as a line in the figure of P(delay > x)."""
    if info.tail is None or not math.isfinite(info.tail):
        return None
    start = info.tail_from
    share = sum(x > start for x in info.seconds) / len(info.seconds)
    ends = [start, info.longest_seconds]
    return ends, [share * (x / start) ** -info.tail for x in ends]


def _histogram(values: Sequence[int], most: int = 30) -> tuple[list[float], list[int], float]:
    """Return middles, counts and the width of the bars over whole numbers."""
    width = max(values) // most + 1
    counts = [0] * (max(values) // width + 1)
    for value in values:
        counts[value // width] += 1
    return [i * width + (width - 1) / 2 for i in range(len(counts))], counts, float(width)
