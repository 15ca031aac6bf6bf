"""Figures of a study, with plotly; the same with matplotlib in ``visualization.matplotlib``.

They need the extra ``visualization``: ``pip install "optuna-pcts[visualization]"``. Each reads any
study with one objective, whatever its sampler, and raises ``ValueError`` where a study has no data
for it.

Example:

    .. code-block:: python

        from optuna_pcts.visualization import plot_tree

        plot_tree(study).show()
"""

from optuna_pcts.visualization._cost import plot_cost
from optuna_pcts.visualization._delays import plot_delays
from optuna_pcts.visualization._fidelity import plot_fidelity
from optuna_pcts.visualization._partition import plot_partition
from optuna_pcts.visualization._plotly import is_available
from optuna_pcts.visualization._regret import plot_regret
from optuna_pcts.visualization._tree import plot_tree


__all__ = [
    "is_available",
    "plot_cost",
    "plot_delays",
    "plot_fidelity",
    "plot_partition",
    "plot_regret",
    "plot_tree",
]
