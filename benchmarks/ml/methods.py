"""The methods compared on the tasks, live and replayed."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from optuna.pruners import BasePruner
from optuna.pruners import HyperbandPruner
from optuna.pruners import NopPruner
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import BaseSampler
from optuna.samplers import GPSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.baselines.trees import make_poo
from benchmarks.ml.tasks import MAX_STEP
from benchmarks.ml.tasks import STEPS
from benchmarks.problems import Space
from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import fidelity
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler


# Each step has three times as many samples as the one before.
_FACTOR = STEPS[1] // STEPS[0]


@dataclass(frozen=True)
class Context:
    """The setting that a sampler is made for.

    Attributes:
        space:
            The parameters to tune.
        seed:
            Seed of its random numbers.
        knowledge:
            What the methods of the paper are told.
    """

    space: Space
    seed: int
    knowledge: Knowledge


@dataclass(frozen=True)
class Method:
    """A sampler, and how its trials are evaluated.

    Attributes:
        sampler:
            Makes the sampler.
        pruner:
            Makes a pruner for trials that are evaluated in steps; None for those that are
            evaluated at once.
        chooses_fidelity:
            Whether the sampler says with how many samples a trial is evaluated.
    """

    sampler: Callable[[Context], BaseSampler]
    pruner: Callable[[], BasePruner] | None = None
    chooses_fidelity: bool = False

    def make_pruner(self) -> BasePruner:
        return NopPruner() if self.pruner is None else self.pruner()

    def fidelity(self, sampler: BaseSampler) -> Callable[[Any], float] | None:
        """Return how to read the fidelity of a trial; None if all are at full fidelity."""
        if not self.chooses_fidelity:
            return None
        return sampler.fidelity if isinstance(sampler, Baseline) else fidelity


def _pcts(context: Context, **options: Any) -> BaseSampler:
    return PCTSSampler(seed=context.seed, **options)


def _pcts_sigma(context: Context) -> BaseSampler:
    return _pcts(context, policy=DUCB1Sigma(noise_std=context.knowledge.noise_std))


def _mfpoo(context: Context, *, bandit: str) -> BaseSampler:
    return make_poo(
        context.space,
        seed=context.seed,
        knowledge=context.knowledge,
        bandit=bandit,
        has_fidelity=True,
    )


def _peer(make: Callable[..., BaseSampler], context: Context) -> BaseSampler:
    return make(seed=context.seed)


PCTS = "PCTS"
GP = "GP"
METHODS: Mapping[str, Method] = {
    PCTS: Method(_pcts),
    "PCTS, DUCB1": Method(partial(_pcts, policy=DUCB1())),
    "PCTS, DUCB1-sigma": Method(_pcts_sigma),
    "PCTS, fidelity": Method(_pcts, chooses_fidelity=True),
    "PCTS, steps": Method(_pcts, partial(PCTSPruner, max_resource=MAX_STEP)),
    "MFPOO+UCB1-sigma": Method(partial(_mfpoo, bandit="UCB1-sigma"), chooses_fidelity=True),
    "MFPOO+UCBV": Method(partial(_mfpoo, bandit="UCBV"), chooses_fidelity=True),
    "TPE": Method(partial(_peer, TPESampler)),
    "TPE, Hyperband": Method(
        partial(_peer, TPESampler),
        partial(HyperbandPruner, min_resource=1, max_resource=MAX_STEP, reduction_factor=_FACTOR),
    ),
    GP: Method(partial(_peer, GPSampler)),
    "Random, halving": Method(
        partial(_peer, RandomSampler),
        partial(SuccessiveHalvingPruner, min_resource=1, reduction_factor=_FACTOR),
    ),
}
OURS = [name for name in METHODS if name.startswith(PCTS)]
