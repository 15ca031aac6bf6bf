"""The numbers of each figure as a frozen tuple, from any study.

Everything that is drawn, written into the dashboard or printed is one of these, so that plotly,
matplotlib, the dashboard and the command line show the same numbers:

=======================  ==================================================================
:func:`tree_info`        the cells: depth, asked, told, in flight, mean, bound
:func:`partition_info`   the cells over two parameters, the trials, the recommended point
:func:`regret_info`      the best and the recommended value against the clock
:func:`delay_info`       how late feedback is, its tail, and what that costs (theorem 2)
:func:`fidelity_info`    how far trials were evaluated
:func:`cost_info`        what trials cost at each depth, and the models that were fitted
=======================  ==================================================================

Each raises a ``ValueError`` that says why where a study has no such data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.partition_info import partition_info
from optuna_pcts._analysis.regret_info import regret_info
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.tree_info import tree_info


# In the order in which they are shown.
INFOS: dict[str, Callable[[Snapshot], Any]] = {
    "tree": tree_info,
    "partition": partition_info,
    "regret": regret_info,
    "delays": delay_info,
    "fidelity": fidelity_info,
    "cost": cost_info,
}
