"""Curves over seeds: the median, and the range from the lowest to the highest."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np
from PIL import Image

from benchmarks.problems import FloatArray


FIGURES = Path(__file__).parent / "figures"
# Colours that can be told apart; the first is that of PCTS everywhere.
COLOURS = (
    *("#d62728", "#ff9896", "#1f77b4", "#ff7f0e", "#2ca02c"),
    *("#9467bd", "#8c564b", "#17becf", "#7f7f7f", "#bcbd22"),
)


def draw(
    axes: Axes,
    curve: Mapping[int, Sequence[float] | FloatArray],
    label: str,
    colour: str,
    *,
    is_dashed: bool = False,
) -> None:
    """Add a curve: to each x the y of all seeds."""
    known = {x: ys for x, ys in sorted(curve.items()) if np.isfinite(ys).all()}
    if not known:
        return
    xs, rows = list(known), [np.asarray(ys) for ys in known.values()]
    medians = [float(np.median(ys)) for ys in rows]
    axes.plot(xs, medians, color=colour, label=label, linestyle="--" if is_dashed else "-")
    lows, highs = ([float(f(ys)) for ys in rows] for f in (np.min, np.max))
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.1, linewidth=0)


def panels(n: int, n_columns: int) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many panels."""
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(3.8 * n_columns, 3.0 * n_rows), layout="constrained")
    return figure, [figure.add_subplot(n_rows, n_columns, i + 1) for i in range(n)]


def save(figure: Figure, path: Path, axes: Axes) -> None:
    """Write a figure, with the legend of one of its panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    # So many colours are plenty, and make a third of the file.
    Image.open(buffer).convert("RGB").quantize(96).save(path, optimize=True)
