"""Optuna's own contract tests for samplers, for every policy."""

from __future__ import annotations

from collections.abc import Callable

from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase
from optuna.testing.pytest_samplers import RelativeSamplerTestCase
from optuna.testing.pytest_samplers import SingleOnlySamplerTestCase
import pytest

from optuna_pcts import DUCB1
from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import PCTSSampler
from optuna_pcts import Smoothness


_SAMPLERS: dict[str, Callable[[], BaseSampler]] = {
    "default": lambda: PCTSSampler(),
    "ducb1": lambda: PCTSSampler(policy=DUCB1()),
    "ducb1sigma": lambda: PCTSSampler(policy=DUCB1Sigma(noise_std=0.1)),
    "ducbv-paper": lambda: PCTSSampler(
        policy=DUCBV(reward_range=5.0, c=1.0),
        smoothness=Smoothness(nu=1.0, rho=0.95),
        branching=2,
        point="uniform",
    ),
}


@pytest.mark.parametrize("sampler", _SAMPLERS.values(), ids=_SAMPLERS.keys())
class TestContract(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    pass
