"""The figures with matplotlib: the same functions as in :mod:`optuna_pcts.visualization`.

Each returns the :class:`matplotlib.axes.Axes` that it has drawn on, or an array of them.

Example:

    .. code-block:: python

        from optuna_pcts.visualization.matplotlib import plot_tree

        plot_tree(study).figure.savefig("tree.png")
"""

from optuna_pcts.visualization._cost import plot_cost_matplotlib as plot_cost
from optuna_pcts.visualization._delays import plot_delays_matplotlib as plot_delays
from optuna_pcts.visualization._fidelity import plot_fidelity_matplotlib as plot_fidelity
from optuna_pcts.visualization._matplotlib import is_available
from optuna_pcts.visualization._partition import plot_partition_matplotlib as plot_partition
from optuna_pcts.visualization._regret import plot_regret_matplotlib as plot_regret
from optuna_pcts.visualization._tree import plot_tree_matplotlib as plot_tree


__all__ = [
    "is_available",
    "plot_cost",
    "plot_delays",
    "plot_fidelity",
    "plot_partition",
    "plot_regret",
    "plot_tree",
]
