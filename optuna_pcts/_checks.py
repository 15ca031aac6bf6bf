"""Checks of arguments, before any trial is created, with messages that say what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any

import numpy as np


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = True,
    open_high: bool = True,
) -> None:
    """Raise unless it is a finite number between two limits, each of which may be included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"`{name}` must be a number, but got {value!r}.")
    if not (math.isfinite(value) and (low < value or (not open_low and value == low))):
        relation = "greater than" if open_low else "at least"
        raise ValueError(f"`{name}` must be finite and {relation} {low:g}, but got {value!r}.")
    if not (value < high or (not open_high and value == high)):
        relation = "less than" if open_high else "at most"
        raise ValueError(f"`{name}` must be {relation} {high:g}, but got {value!r}.")


def check_has_method(name: str, value: Any, method: str, example: str) -> None:
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        raise TypeError(
            f"`{name}` must be an object with a method `{method}`, such as {example}, but got "
            f"{value!r}."
        )


def check_integer(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer, but got {value!r}.")
    if value < 0:
        raise ValueError(f"`{name}` must not be negative, but got {value!r}.")


def checked_names(split_order: Any) -> list[str]:
    """Return the names in `split_order`, each of which must occur once."""
    if isinstance(split_order, str) or not isinstance(split_order, Sequence):
        raise TypeError(
            "`split_order` must be a list of parameter names or groups of names, but got "
            f"{split_order!r}."
        )
    names: list[str] = []
    for entry in split_order:
        group = [entry] if isinstance(entry, str) else entry
        if not isinstance(group, Sequence) or not all(isinstance(name, str) for name in group):
            raise TypeError(
                "`split_order` must be a list of parameter names or groups of names, but has "
                f"the entry {entry!r}."
            )
        names.extend(group)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"`split_order` names {repeated} more than once.")
    return names


def checked_reward(reward: Any) -> str | tuple[float, float]:
    """Return a scale of the rewards, if it is one."""
    if isinstance(reward, str):
        if reward not in ("clipped", "range"):
            raise ValueError(
                f"`reward` must be 'clipped', 'range' or a pair of numbers, but got {reward!r}."
            )
        return reward
    if not isinstance(reward, Sequence) or len(reward) != 2:
        raise TypeError(
            f"`reward` must be 'clipped', 'range' or a pair of numbers, but got {reward!r}."
        )
    low, high = reward
    check_number("reward", low)
    check_number("reward", high)
    if not low / 2 < high / 2:  # halved, as the tree stores it
        raise ValueError(f"`reward` must name the lower value first, but got {reward!r}.")
    return float(low), float(high)
