"""What the plotly and the matplotlib figures share besides their numbers: colours and words."""

from __future__ import annotations

from textwrap import wrap


# All are visible on white and on black.
GREY = "#838b96"
BLUE = "#4a8fdc"
ORANGE = "#ea8032"
GREEN = "#38a169"
RED = "#e5484d"
MODELS = ("#ea8032", "#9b6bd3", "#38a169", "#c9a227")

# Rewards from 0, the median, to 1, the best.
REWARD_SCALE = ("#56668a", "#3f8f9c", "#5fb77d", "#f2c84b")
REWARD_TITLE = "mean reward<br>(0 median, 1 best)<br> "

# The name of trials that violate a constraint.
INFEASIBLE = "infeasible"


def lines(subtitle: str) -> list[str]:
    """Return a subtitle in lines that fit into half a page."""
    return wrap(subtitle, 95)
