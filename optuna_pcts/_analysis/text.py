"""The texts of a report: spans, amounts, lines."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any

from optuna_pcts._analysis.cost_info import CostInfo
from optuna_pcts._analysis.delay_info import DelayInfo
from optuna_pcts._analysis.recommend import Recommendation
from optuna_pcts._analysis.snapshot import NextCell


def span(seconds: float) -> tuple[float, str]:
    """Return the most readable unit for a time: its seconds, and its name."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size:
            return size, name
    return (1.0, "s") if seconds >= 0.1 else (1e-3, "ms")


def time_text(seconds: float) -> str:
    """Return a time with its unit."""
    size, name = span(seconds)
    return f"{seconds / size:.3g} {name}"


def amount_text(cost: float, unit: str) -> str:
    """Return a cost with its unit."""
    return time_text(cost) if unit == "s" else f"{cost:.4g}"


def params_text(params: Mapping[str, Any]) -> str:
    """Return parameters in one line."""
    return ", ".join(
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in params.items()
    )


def tail_text(info: DelayInfo) -> str:
    """Return the tail exponent with its interval."""
    if info.tail is None or info.tail_interval is None:
        return "tail exponent unknown (too few delays)"
    if math.isinf(info.tail):
        return "no tail: none is longer than the rest"
    low, high = info.tail_interval
    return f"tail exponent {info.tail:.2g} ({low:.2g} to {high:.2g})"


def delay_lines(info: DelayInfo) -> list[str]:
    """Return how late feedback is."""
    return [
        f"{time_text(info.mean_seconds)} and {info.mean_trials:.3g} trials on average, "
        f"{time_text(info.longest_seconds)} at most; {tail_text(info)}",
        f"{info.verdict} (price 1 + tau / log T = {info.price:.2f})",
    ]


def cost_lines(info: CostInfo) -> list[str]:
    """Return what trials cost, and the model that fits."""
    mean = info.total / info.n_trials
    lines = [
        f"{amount_text(info.total, info.unit)} in all, {amount_text(mean, info.unit)} a trial; "
        f"median {amount_text(info.by_depth[0][1], info.unit)} at depth {info.by_depth[0][0]}, "
        f"{amount_text(info.by_depth[-1][1], info.unit)} at depth {info.by_depth[-1][0]}"
    ]
    if info.fit is not None:
        lines.append(str(info.fit).splitlines()[-1])
    return lines


def recommended_lines(found: Recommendation) -> list[str]:
    """Return the recommendation."""
    low, high = found.interval
    return [
        params_text(found.params),
        f"value {found.value:.6g}, with 95 % probability {low:.6g} to {high:.6g} (trial "
        f"{found.number}, supported by {found.n_trials})",
    ]


def cell_line(cell: NextCell) -> str:
    """Return which cell is asked next."""
    return f"depth {cell.depth}: {ranges_text(cell.ranges)}"


def condition_lines(conditions: Mapping[str, str]) -> list[str]:
    """Return the parameters of each condition, a line each."""
    members: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        members.setdefault(condition, []).append(name)
    return [f"{', '.join(names)} ({condition})" for condition, names in members.items()]


def ranges_text(ranges: Mapping[str, str]) -> str:
    """Return the ranges of a cell, in one line."""
    return "; ".join(f"{name} {text}" for name, text in ranges.items()) or "the whole space"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return how many trials there are, and which."""
    if not numbers:
        return "none"
    shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
    return f"{len(numbers)} (trial{'s' if len(numbers) > 1 else ''} {shown})"


def plain_json(value: Any) -> Any:
    """Return a value for JSON: non-finite numbers become None."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
