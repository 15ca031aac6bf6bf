"""What the figures with matplotlib share.

matplotlib is imported only when it is needed, as importing it is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

from optuna._imports import _DeferredImportExceptionContextManager
from optuna._imports import try_import

from optuna_pcts.visualization import _style as style


if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _imports() -> _DeferredImportExceptionContextManager:
    with try_import() as imports:
        from matplotlib import pyplot  # noqa: F401
    return imports


def check() -> None:
    """Raise an ImportError that names matplotlib if it is missing."""
    _imports().check()


def is_available() -> bool:
    """Return whether matplotlib is installed, which all these figures need."""
    return _imports().is_successful()


def new_axes(title: str, subtitle: str) -> Axes:
    """Return axes with a heading, in a figure of their own."""
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(8, 4.8), constrained_layout=True)
    axes.set_title(heading(title, *style.lines(subtitle)), fontsize=10)
    return axes


def heading(title: str, *subtitles: str) -> str:
    """Return a title with its subtitles."""
    return "\n".join([title, *subtitles])


def add_trials(
    axes: Axes, rows: Sequence[tuple[Any, float, int]], infeasible: Sequence[int]
) -> None:
    """Add a point for each trial."""
    out = set(infeasible)
    feasible = [(x, y) for x, y, number in rows if number not in out]
    axes.scatter(*_columns(feasible), color=style.BLUE, alpha=0.45, s=16, label="trial")
    add_infeasible(axes, [(x, y) for x, y, number in rows if number in out])


def add_infeasible(axes: Axes, rows: Sequence[tuple[Any, float]]) -> None:
    """Add a cross for each trial that violates a constraint, if there is any."""
    if rows:
        label = style.INFEASIBLE
        axes.scatter(*_columns(rows), color=style.RED, marker="x", s=20, lw=1, label=label)


def _columns(rows: Sequence[tuple[Any, float]]) -> tuple[list[Any], list[float]]:
    return [x for x, _ in rows], [y for _, y in rows]


def reward_colors(axes: Axes) -> Callable[[float | None], Any]:
    """Return the colour of a mean reward, and draw the bar that explains it."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.colors import Normalize

    scale = LinearSegmentedColormap.from_list("reward", style.REWARD_SCALE)
    assert axes.figure is not None
    bar = ScalarMappable(Normalize(0, 1), scale)
    axes.figure.colorbar(bar, ax=axes, label=style.REWARD_TITLE.replace("<br>", " ").strip())
    return lambda mean: style.GREY if mean is None else scale(min(mean, 1.0))
