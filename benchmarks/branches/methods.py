"""Who takes part on objectives with conditional parameters."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
import os
import sys
from types import ModuleType

from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler

from benchmarks.branches.problem import Branched
from benchmarks.external import SMACSampler
from optuna_pcts import PCTSSampler


PCTS, FLAT, TOLD = "PCTS", "PCTS, flat union", "PCTS, told"
TPE, GROUP, SMAC, RANDOM = "TPE", "TPE, group", "SMAC3", "Random"
AUTO, HIERARCHICAL = "AutoSampler", "TPE, hierarchical"
# Says where a copy of the registry of OptunaHub is, for machines that cannot fetch from it.
REGISTRY = "OPTUNAHUB_REGISTRY"


@dataclass(frozen=True)
class Method:
    """A sampler.

    Attributes:
        make:
            Returns it for a problem, a seed and a number of trials.
        is_static:
            Whether it must know all parameters beforehand. It is then given the static form of a
            problem.
        knows_end:
            Whether it does other things if there will be more trials.
    """

    make: Callable[[Branched, int, int], BaseSampler]
    is_static: bool = False
    knows_end: bool = False


def flat_union(problem: Branched, seed: int) -> PCTSSampler:
    """Return the simplest alternative: all parameters in one space, as if all always mattered."""
    return PCTSSampler(search_space=problem.space, conditions={}, seed=seed)


def told(problem: Branched, seed: int) -> PCTSSampler:
    """Return PCTS with all parameters and their conditions given up front."""
    return PCTSSampler(search_space=problem.space, conditions=problem.conditions, seed=seed)


def _smac(problem: Branched, seed: int, n_trials: int) -> SMACSampler:
    return SMACSampler(
        problem.space, seed=seed, n_evaluations=n_trials, conditions=problem.conditions
    )


def _from_hub(package: str, name: str, seed: int) -> BaseSampler:
    sampler: BaseSampler = getattr(_hub(package), name)(seed=seed)
    return sampler


@cache
def _hub(package: str) -> ModuleType:
    """Return a package of OptunaHub.

    Raises:
        Exception:
            If it cannot be fetched, or lacks a package of its own.
    """
    import optunahub

    folder = os.environ.get(REGISTRY)
    if folder:
        return optunahub.load_local_module(package, registry_root=os.path.join(folder, "package"))
    return optunahub.load_module(package)


_HUB = {
    AUTO: ("samplers/auto_sampler", "AutoSampler"),
    HIERARCHICAL: ("samplers/hierarchical_tpe", "HierarchicalTPESampler"),
}
METHODS: Mapping[str, Method] = {
    PCTS: Method(lambda problem, seed, _: PCTSSampler(seed=seed)),
    FLAT: Method(lambda problem, seed, _: flat_union(problem, seed), is_static=True),
    TOLD: Method(lambda problem, seed, _: told(problem, seed), is_static=True),
    TPE: Method(lambda problem, seed, _: TPESampler(seed=seed)),
    GROUP: Method(lambda problem, seed, _: TPESampler(multivariate=True, group=True, seed=seed)),
    AUTO: Method(lambda problem, seed, _: _from_hub(*_HUB[AUTO], seed)),
    HIERARCHICAL: Method(lambda problem, seed, _: _from_hub(*_HUB[HIERARCHICAL], seed)),
    SMAC: Method(_smac, is_static=True, knows_end=True),
    RANDOM: Method(lambda problem, seed, _: RandomSampler(seed=seed)),
}
# Those whose answer is what `recommend` names; the answer of the others is their best trial.
OURS = (PCTS, FLAT, TOLD)


def lacks(name: str) -> str | None:
    """Return what a method lacks; None if it can take part."""
    if name == SMAC and find_spec("smac") is None:
        return 'it needs the package smac: pip install "optuna-pcts[peers]"'
    if name in _HUB:
        try:
            _from_hub(*_HUB[name], 0)
        except Exception as error:  # no network, a package that it needs, another Optuna
            reason = (str(error).splitlines() or [""])[0].strip()
            return (
                f"it cannot be had from OptunaHub ({type(error).__name__}: {reason}); "
                f"${REGISTRY} may name a copy of its registry"
            )
    return None


def able(names: Iterable[str]) -> list[str]:
    """Return the methods that can take part, and say which are left out, and why."""
    found = []
    for name in names:
        lack = lacks(name)
        if lack is None:
            found.append(name)
        else:
            print(f"left out: {name}: {lack}", file=sys.stderr)
    return found
