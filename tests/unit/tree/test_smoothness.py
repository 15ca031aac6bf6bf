"""The smoothness instances."""

from __future__ import annotations

import math

import pytest

from optuna_pcts import POOSmoothness
from optuna_pcts import Smoothness
from optuna_pcts import UnknownSmoothness


def test_the_rho_of_unknown_smoothness_follows_the_dimension() -> None:
    """After one split per parameter the diameter has shrunk by 2^k, whatever the dimension."""
    for n_dims in (1, 2, 10, 50):
        instances = UnknownSmoothness(nu=0.5, exponents=(0.5, 1, 2)).instances(n_dims)
        assert [nu for nu, _ in instances] == [0.5] * 3
        assert [rho**n_dims for _, rho in instances] == pytest.approx([2**-0.5, 0.5, 0.25])


def test_the_grid_of_poo() -> None:
    """D_max = ln 2 / ln 2 = 1 for rho_max = 1/2; by hand for T = 1000, and 13.5 for 0.95."""
    # (1 / 2) ln(1000 / 6.908) = 2.49: two instances, of rho_max^4 and rho_max^(4/3).
    assert POOSmoothness(n_trials=1000, nu_max=0.3, rho_max=0.5).instances(7) == [
        (0.3, 0.5**4),
        (0.3, pytest.approx(0.5 ** (4 / 3))),
    ]
    rhos = [rho for _, rho in POOSmoothness(n_trials=600).instances(3)]
    assert len(rhos) == 31  # 13.513 / 2 * ln(600 / 6.397) = 30.68
    d_max = math.log(2) / math.log(1 / 0.95)
    parts = [math.log(2) / math.log(1 / rho) * 31 / d_max for rho in rhos]
    assert parts == pytest.approx([i + 0.5 for i in range(31)])
    # As printed, 2N / (i + 1) for i = 1 ... N, the upper half would be left out.
    printed = [0.95 ** (2 * 31 / (i + 1)) for i in range(1, 32)]
    assert max(printed) < 0.95**1.9 < max(rhos) < 0.95


@pytest.mark.parametrize("n_trials", [1, 2, 3, 10])
def test_no_instance_of_poo_goes_without_a_trial(n_trials: int) -> None:
    rhos = [rho for _, rho in POOSmoothness(n_trials=n_trials).instances(2)]
    assert 1 <= len(rhos) <= n_trials
    assert rhos == sorted(set(rhos))


def test_known_smoothness_is_one_instance() -> None:
    assert Smoothness(nu=1.0, rho=0.95).instances(7) == [(1.0, 0.95)]


def test_no_instance_of_smoothness_is_refused() -> None:
    with pytest.raises(ValueError, match="`exponents`"):
        UnknownSmoothness(exponents=())
