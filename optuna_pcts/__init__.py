"""Procrastinated Tree Search for Optuna: delayed, noisy and multi-fidelity feedback."""

from optuna_pcts._analysis.cost_fit import CostFit
from optuna_pcts._analysis.cost_fit import fit_cost
from optuna_pcts._analysis.cost_fit import FittedCost
from optuna_pcts._analysis.delays import Delay
from optuna_pcts._analysis.delays import delays
from optuna_pcts._analysis.instances import Instance
from optuna_pcts._analysis.instances import rank_instances
from optuna_pcts._analysis.recommend import recommend
from optuna_pcts._analysis.recommend import Recommendation
from optuna_pcts._analysis.report import Report
from optuna_pcts._analysis.report import report
from optuna_pcts._study.budget import CostBudget
from optuna_pcts._study.costs import trial_cost
from optuna_pcts._study.pruner import fidelity
from optuna_pcts._study.pruner import PCTSPruner
from optuna_pcts._study.sampler import PCTSSampler
from optuna_pcts._tree.cost_models import ConstantCost
from optuna_pcts._tree.cost_models import CostModel
from optuna_pcts._tree.cost_models import ExponentialCost
from optuna_pcts._tree.cost_models import LinearGrowth
from optuna_pcts._tree.cost_models import PolynomialDecay
from optuna_pcts._tree.fidelity import DepthFidelity
from optuna_pcts._tree.fidelity import LinearBias
from optuna_pcts._tree.policies import DUCB1
from optuna_pcts._tree.policies import DUCB1Sigma
from optuna_pcts._tree.policies import DUCBV
from optuna_pcts._tree.policies import NodeStatistics
from optuna_pcts._tree.policies import Policy
from optuna_pcts._tree.smoothness import POOSmoothness
from optuna_pcts._tree.smoothness import Smoothness
from optuna_pcts._tree.smoothness import SmoothnessModel
from optuna_pcts._tree.smoothness import UnknownSmoothness


__version__ = "0.1.0"

__all__ = [
    "DUCB1",
    "DUCBV",
    "ConstantCost",
    "CostBudget",
    "CostFit",
    "CostModel",
    "DUCB1Sigma",
    "Delay",
    "DepthFidelity",
    "ExponentialCost",
    "FittedCost",
    "Instance",
    "LinearBias",
    "LinearGrowth",
    "NodeStatistics",
    "PCTSPruner",
    "PCTSSampler",
    "POOSmoothness",
    "Policy",
    "PolynomialDecay",
    "Recommendation",
    "Report",
    "Smoothness",
    "SmoothnessModel",
    "UnknownSmoothness",
    "delays",
    "fidelity",
    "fit_cost",
    "rank_instances",
    "recommend",
    "report",
    "trial_cost",
]
