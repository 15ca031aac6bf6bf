"""Who takes part: PCTS, the systems of its paper, and what an Optuna user would pick instead."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
import sys
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.samplers import CmaEsSampler
from optuna.samplers import GPSampler
from optuna.samplers import QMCSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.baselines.gaussian import BOCA
from benchmarks.baselines.gaussian import GPEI
from benchmarks.baselines.gaussian import GPUCB
from benchmarks.baselines.gaussian import MFGPUCB
from benchmarks.baselines.gaussian import MFSKO
from benchmarks.baselines.gradient import GradientAscent
from benchmarks.baselines.rejects import SuccessiveRejects
from benchmarks.baselines.trees import HOO
from benchmarks.baselines.trees import make_poo
from benchmarks.external import SMACSampler
from benchmarks.oracle import OracleSampler
from benchmarks.problems import Problem
from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import fidelity
from optuna_pcts import PCTSSampler
from optuna_pcts import POOSmoothness
from optuna_pcts import Smoothness
from optuna_pcts import UnknownSmoothness
from optuna_pcts._gp.kernels import gaussian
from optuna_pcts._gp.kernels import matern
from optuna_pcts._search.config import LocalSearchConfig


@dataclass(frozen=True)
class Task:
    """What a method is made for."""

    problem: Problem
    seed: int
    n_evaluations: int

    def knowledge(self) -> Knowledge:
        """Return what the methods of the paper are told, measured at random points."""
        rng = np.random.default_rng(0)
        problem = self.problem
        points = [problem.at(position) for position in rng.random((1000, problem.n_dims))]
        whole = np.array([problem.function(x, 1.0) for x in points])
        scale = max(abs(problem.function(x, 0.0) - y) for x, y in zip(points[:200], whole))
        return Knowledge(
            noise_std=problem.noise_std,
            cost=problem.cost,
            bias=lambda z: float(scale * (1 - z)),
            value_range=float(problem.optimum - whole.min()),
            n_evaluations=self.n_evaluations,
        )


@dataclass(frozen=True)
class Entry:
    """A method at work on one task.

    Attributes:
        sampler:
            The sampler.
        fidelity:
            The fidelity of a trial, if the method chooses it.
        waits:
            Whether each worker waits for its feedback.
    """

    sampler: BaseSampler
    fidelity: Callable[[optuna.Trial], float] | None = None
    waits: bool = False


Method = Callable[[Task], Entry]


def _pcts(task: Task, *, has_fidelity: bool = False, **options: Any) -> Entry:
    sampler = PCTSSampler(seed=task.seed, **options)
    return Entry(sampler, fidelity if has_fidelity else None)


def _with_config(task: Task, **constants: Any) -> Entry:
    sampler = PCTSSampler(seed=task.seed)
    config = replace(sampler.settings.config, **constants)
    sampler.settings = replace(sampler.settings, config=config)
    return Entry(sampler)


def _with_gp(task: Task, **constants: Any) -> Entry:
    return _with_config(task, gp=replace(LocalSearchConfig().gp, **constants))


def _pcts_sigma(task: Task) -> Entry:
    return _pcts(task, policy=DUCB1Sigma(noise_std=task.problem.noise_std))


def _pcts_poo(task: Task) -> Entry:
    return _pcts(task, smoothness=POOSmoothness(n_trials=task.n_evaluations))


def _baseline(make: Callable[..., Baseline], task: Task, *, waits: bool) -> Entry:
    sampler = make(task.problem.space, seed=task.seed, knowledge=task.knowledge())
    return Entry(sampler, sampler.fidelity, waits)


def _peer(make: Callable[..., BaseSampler], task: Task) -> Entry:
    return Entry(make(seed=task.seed))


def _external(make: Callable[..., BaseSampler], task: Task) -> Entry:
    return Entry(make(task.problem.space, seed=task.seed, n_evaluations=task.n_evaluations))


def _oracle(task: Task) -> Entry:
    sampler = OracleSampler(task.problem, seed=task.seed, n_evaluations=task.n_evaluations)
    return Entry(sampler)


PCTS = "PCTS"
AS_IN_PAPER = "PCTS, as in the paper"
OURS: Mapping[str, Method] = {PCTS: _pcts, "PCTS, fidelity": partial(_pcts, has_fidelity=True)}
# PCTS with one choice changed each, to see what it brings; but for the paper's algorithm.
ABLATIONS: Mapping[str, Method] = {
    AS_IN_PAPER: partial(_pcts, local_share=0.0, prior_std=None, point="center"),
    "PCTS, no local asks": partial(_pcts, local_share=0.0),
    "PCTS, 30 % local asks": partial(_pcts, local_share=0.3),
    "PCTS, 70 % local asks": partial(_pcts, local_share=0.7),
    "PCTS, no prior": partial(_pcts, prior_std=None),
    "PCTS, prior + 1 std": partial(_pcts, prior_std=1.0),
    "PCTS, prior + 3 std": partial(_pcts, prior_std=3.0),
    "PCTS, three children": partial(_pcts, branching=3),
    "PCTS, centres": partial(_pcts, point="center"),
    "PCTS, uniform points": partial(_pcts, point="uniform"),
    "PCTS, DUCB1": partial(_pcts, policy=DUCB1()),
    "PCTS, DUCB1-sigma": _pcts_sigma,
    "PCTS, c = 0": partial(_pcts, policy=DUCBV(c=0.0)),
    "PCTS, c = 0.05": partial(_pcts, policy=DUCBV(c=0.05)),
    "PCTS, c = 1": partial(_pcts, policy=DUCBV(c=1.0)),
    "PCTS, rewards over the range": partial(_pcts, reward="range"),
    "PCTS, POO's grid": _pcts_poo,
    "PCTS, one rho": partial(_pcts, smoothness=UnknownSmoothness(exponents=(1.0,))),
    "PCTS, rho = 0.95": partial(_pcts, smoothness=Smoothness(nu=1.0, rho=0.95)),
    "PCTS, nu = 0.3": partial(_pcts, smoothness=UnknownSmoothness(nu=0.3)),
    "PCTS, nu = 3": partial(_pcts, smoothness=UnknownSmoothness(nu=3.0)),
    # Constants of the local search and its Gaussian process (_search/config.py, _gp/config.py).
    "PCTS, no asks level by level": partial(_with_config, level_share=0.0),
    "PCTS, half level by level": partial(_with_config, level_share=0.5),
    "PCTS, no repetitions": partial(_with_config, n_repeats=0),
    "PCTS, no flanks": partial(_with_config, flank_share=0.0),
    "PCTS, one mode": partial(_with_config, apart=1e9),
    "PCTS, no faces": partial(_with_config, on_face=1.0),
    "PCTS, no ascent": partial(_with_config, n_iterations=1),
    "PCTS, 8 samples": partial(_with_config, n_samples=8),
    "PCTS, no mutations": partial(_with_config, mutations=0.0),
    "PCTS, around the argmax alone": partial(_with_config, at_argmax=1.0),
    "PCTS, never settled": partial(_with_config, settled_per_dim=10**6),
    "PCTS, no ARD weights": partial(_with_gp, learns_ard=False),
    "PCTS, Gaussian kernel too": partial(_with_gp, kernels=(matern, gaussian)),
    "PCTS, never winsorised": partial(_with_gp, far=1e6),
    "PCTS, 512 trials tell": partial(_with_gp, n_data=512),
}
# What an Optuna user would pick, at its defaults.
PEERS: Mapping[str, Method] = {
    "TPE": partial(_peer, TPESampler),
    "GP": partial(_peer, GPSampler),
    "CMA-ES": partial(_peer, CmaEsSampler),
    "QMC": partial(_peer, QMCSampler),
    "Random": partial(_peer, RandomSampler),
}
# No search: it samples around the known optimum, as a reference.
ORACLE = "oracle"
# Optimisers that are not part of Optuna, at their defaults.
EXTERNAL: Mapping[str, Method] = {"SMAC3": partial(_external, SMACSampler)}
# The systems that the paper compares with.
BASELINES: Mapping[str, Callable[..., Baseline]] = {
    "HOO": HOO,
    "POO": make_poo,
    "MFHOO": partial(HOO, has_fidelity=True),
    "MFPOO+UCB1-sigma": partial(make_poo, bandit="UCB1-sigma", has_fidelity=True),
    "MFPOO+UCBV": partial(make_poo, bandit="UCBV", has_fidelity=True),
    "GP-UCB": GPUCB,
    "GP-EI": GPEI,
    "MF-GP-UCB": MFGPUCB,
    "BOCA": BOCA,
    "MF-SKO": MFSKO,
    "OGD": GradientAscent,
    "DBGD": partial(GradientAscent, is_delayed=True),
    "SR": SuccessiveRejects,
}
# They know nothing of delays and wait for each value; but for DBGD, which is made for them.
PAPER: Mapping[str, Method] = {
    name: partial(_baseline, make, waits=name != "DBGD") for name, make in BASELINES.items()
}
METHODS: Mapping[str, Method] = {
    **OURS,
    **PEERS,
    **EXTERNAL,
    **PAPER,
    **ABLATIONS,
    ORACLE: _oracle,
}
# Packages that some of them need and that are not in the extra `benchmarks`.
_NEEDS = {"GP": "torch", "SMAC3": "smac"}


def lacks(method: str) -> str | None:
    """Return what a method lacks, and how to install it; None if it can take part."""
    package = _NEEDS.get(method)
    if package is None or find_spec(package) is not None:
        return None
    return f'{method} needs the package {package}: pip install "optuna-pcts[peers]"'


def able(
    names: Iterable[str], named: Collection[str], refuse: Callable[[str], object]
) -> list[str]:
    """Return the methods that can take part, and say which are left out.

    Args:
        names:
            The methods.
        named:
            Those that somebody has asked for by name: they are not left out in silence.
        refuse:
            Says what such a one lacks.
    """
    methods = []
    for name in names:
        lack = lacks(name)
        if lack is None:
            methods.append(name)
        elif name in named:
            refuse(lack)
        else:
            print(f"left out: {lack}", file=sys.stderr)
    return methods
