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
from optuna_pcts._budget import CostBudget
from optuna_pcts._cost import ConstantCost
from optuna_pcts._cost import CostModel
from optuna_pcts._cost import ExponentialCost
from optuna_pcts._cost import LinearGrowth
from optuna_pcts._cost import PolynomialDecay
from optuna_pcts._cost import trial_cost
from optuna_pcts._fidelity import DepthFidelity
from optuna_pcts._fidelity import LinearBias
from optuna_pcts._policy import DUCB1
from optuna_pcts._policy import DUCB1Sigma
from optuna_pcts._policy import DUCBV
from optuna_pcts._policy import NodeStatistics
from optuna_pcts._policy import Policy
from optuna_pcts._pruner import fidelity
from optuna_pcts._pruner import PCTSPruner
from optuna_pcts._sampler import PCTSSampler
from optuna_pcts._smoothness import POOSmoothness
from optuna_pcts._smoothness import Smoothness
from optuna_pcts._smoothness import SmoothnessModel
from optuna_pcts._smoothness import UnknownSmoothness


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
