"""All figures by name, each drawn with either library from one tuple of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna_pcts.visualization import _cost
from optuna_pcts.visualization import _delays
from optuna_pcts.visualization import _fidelity
from optuna_pcts.visualization import _matplotlib
from optuna_pcts.visualization import _partition
from optuna_pcts.visualization import _regret
from optuna_pcts.visualization import _tree


_FIGURES = {
    "tree": _tree,
    "partition": _partition,
    "regret": _regret,
    "delays": _delays,
    "fidelity": _fidelity,
    "cost": _cost,
}
# By the names of `INFOS`, which makes the tuples.
DRAW_PLOTLY: dict[str, Callable[..., Any]] = {
    name: figure.draw_plotly for name, figure in _FIGURES.items()
}
DRAW_MATPLOTLIB: dict[str, Callable[..., Any]] = {
    name: figure.draw_matplotlib for name, figure in _FIGURES.items()
}


def save(name: str, info: Any, path: str) -> None:
    """Write the figure of a tuple to a file with matplotlib, without a window."""
    _matplotlib.check()
    from matplotlib import pyplot as plt

    drawn = DRAW_MATPLOTLIB[name](info)
    figure = (drawn if name != "delays" else drawn[0]).figure
    figure.savefig(path, dpi=150)
    plt.close(figure)
