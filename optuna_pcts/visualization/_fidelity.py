"""How far each trial was evaluated, by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna

from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.fidelity_info import FidelityInfo
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts.visualization import _matplotlib as mpl
from optuna_pcts.visualization import _plotly as ply
from optuna_pcts.visualization import _style as style
from optuna_pcts.visualization._plotly import Figure


if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_fidelity(study: optuna.Study) -> Figure:
    """Draw how far each trial was evaluated, by the depth of its cell.

    Trials that the tree did not ask for have no depth: if none has one, as with another sampler
    and a pruner, the horizontal axis is the number of the trial.

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
            If the study has several objectives, or all trials were evaluated at full fidelity.
        ImportError:
            If plotly is not installed.
    """
    ply.check()
    return draw_plotly(fidelity_info(Snapshot(study)))


def plot_fidelity_matplotlib(study: optuna.Study) -> Axes:
    """Draw fidelities, as :func:`optuna_pcts.visualization.plot_fidelity` does.

    Args:
        study:
            A study with one objective, by whatever sampler.

    Returns:
        The :class:`matplotlib.axes.Axes`.
    """
    mpl.check()
    return draw_matplotlib(fidelity_info(Snapshot(study)))


def draw_plotly(info: FidelityInfo) -> Figure:
    figure = ply.new_figure(_title(info), _subtitle(info))
    has_depth = bool(info.by_depth)
    ply.add_trials(figure, _rows(info), info.infeasible)
    if has_depth:
        depths, means, _ = zip(*info.by_depth)
        ply.add_line(figure, depths, ply.rounded(means), "mean", style.ORANGE)
    figure.update_layout(
        xaxis={"title": {"text": "depth of the cell" if has_depth else "trial"}},
        yaxis={"title": {"text": "fidelity (1: full evaluation)"}, "range": [0, 1.05]},
    )
    return figure


def draw_matplotlib(info: FidelityInfo) -> Axes:
    axes = mpl.new_axes(_title(info), _subtitle(info))
    has_depth = bool(info.by_depth)
    mpl.add_trials(axes, _rows(info), info.infeasible)
    if has_depth:
        depths, means, _ = zip(*info.by_depth)
        axes.plot(depths, means, color=style.ORANGE, label="mean")
    axes.set_xlabel("depth of the cell" if has_depth else "trial")
    axes.set_ylabel("fidelity (1: full evaluation)")
    axes.set_ylim(0, 1.05)
    axes.legend()
    return axes


def _rows(info: FidelityInfo) -> list[tuple[int, float, int]]:
    """Return where each trial is drawn, and its number."""
    xs = info.depths if info.by_depth else info.numbers
    rows = zip(xs, info.fidelities, info.numbers)
    return [(x, fidelity, number) for x, fidelity, number in rows if x is not None]


def _title(info: FidelityInfo) -> str:
    return "Fidelity by depth" if info.by_depth else "Fidelity by trial"


def _subtitle(info: FidelityInfo) -> str:
    """Return the mean fidelity, and all trials in units of full evaluations."""
    return (
        f"mean {info.mean:.2f}, {100 * info.whole:.0f} % at full fidelity; "
        f"{info.n_trials:,} trials amount to {info.work:.1f} full evaluations"
    )
