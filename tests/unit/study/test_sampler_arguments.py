"""Wrong arguments of the sampler and of its policies: named, with what was given."""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Any

from helpers import run_study
from helpers import SQUARE
from helpers import UNIT
from optuna.samplers import RandomSampler
import pytest

from optuna_pcts import DUCB1Sigma
from optuna_pcts import DUCBV
from optuna_pcts import PCTSSampler
from optuna_pcts import POOSmoothness
from optuna_pcts import Smoothness
from optuna_pcts import UnknownSmoothness


EITHER = (TypeError, ValueError)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("policy", "ducbv", TypeError),
        ("policy", DUCBV, TypeError),
        ("policy", 3, TypeError),
        ("smoothness", 0.5, TypeError),
        ("smoothness", Smoothness, TypeError),
        ("point", "corner", ValueError),
        ("point", None, EITHER),
        ("point", ["center"], EITHER),
        ("branching", 4, ValueError),
        ("branching", 0, ValueError),
        ("branching", True, EITHER),
        ("branching", 2.5, EITHER),
        ("branching", 3.0, EITHER),
        ("branching", "3", EITHER),
        ("branching", None, EITHER),
        ("branching", [3], EITHER),
        ("reward", "median", ValueError),
        ("reward", 1.0, TypeError),
        ("reward", (0.0, 1.0, 2.0), TypeError),
        ("reward", (1.0, 0.0), ValueError),
        ("split_order", "x", TypeError),
        ("split_order", 3, TypeError),
        ("split_order", {"x"}, TypeError),
        ("search_space", "x", TypeError),
        ("search_space", ["x"], TypeError),
        ("n_startup_trials", -1, ValueError),
        ("n_startup_trials", 1.5, TypeError),
        ("n_startup_trials", True, TypeError),
        ("n_startup_trials", None, TypeError),
        ("independent_sampler", "random", TypeError),
        ("independent_sampler", RandomSampler, TypeError),
        ("warn_independent_sampling", 1, TypeError),
        ("warn_independent_sampling", "yes", TypeError),
        ("stale_after", 0, ValueError),
        ("stale_after", -1.0, ValueError),
        ("stale_after", math.nan, ValueError),
        ("stale_after", math.inf, ValueError),
        ("stale_after", "1h", TypeError),
        ("stale_after", True, TypeError),
        ("seed", -1, ValueError),
        ("seed", 1.5, TypeError),
        ("seed", "0", TypeError),
        ("seed", True, TypeError),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_given(
    argument: str, value: Any, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(error) as caught:
        run_study(sampler=PCTSSampler(**arguments), n_trials=3)
    assert f"`{argument}`" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "error", "part"),
    [
        ("reward", (0.0, "1"), TypeError, "'1'"),
        ("reward", (0.0, math.inf), ValueError, "inf"),
        ("split_order", ["x", 3], TypeError, "3"),
        ("split_order", ["x", ["y", None]], TypeError, "None"),
        ("split_order", ["x", ["y", "x"]], ValueError, "'x'"),
        ("split_order", ["x", "x"], ValueError, "'x'"),
        ("search_space", {}, ValueError, "empty"),
        ("search_space", {"x": (0, 1)}, TypeError, "'x': (0, 1)"),
        ("search_space", {1: UNIT}, TypeError, "1: "),
        ("search_space", {"y": UNIT, "x": None}, TypeError, "'x': None"),
    ],
)
def test_a_wrong_part_of_an_argument_is_named(
    argument: str, value: Any, error: type[Exception], part: str
) -> None:
    arguments: dict[str, Any] = {argument: value}
    with pytest.raises(error) as caught:
        PCTSSampler(**arguments)
    assert f"`{argument}`" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("make", "argument", "value", "error"),
    [
        (lambda v: DUCB1Sigma(noise_std=v), "noise_std", 0.0, ValueError),
        (lambda v: DUCB1Sigma(noise_std=v), "noise_std", "1", TypeError),
        (lambda v: DUCBV(reward_range=v), "reward_range", -1.0, ValueError),
        (lambda v: DUCBV(reward_range=v), "reward_range", [1], TypeError),
        (lambda v: DUCBV(c=v), "c", -0.1, ValueError),
        (lambda v: DUCBV(c=v), "c", None, TypeError),
        (lambda v: Smoothness(nu=v, rho=0.5), "nu", -1.0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", 1.0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", 0, ValueError),
        (lambda v: Smoothness(nu=1.0, rho=v), "rho", "x", TypeError),
        (lambda v: UnknownSmoothness(nu=v), "nu", math.inf, ValueError),
        (lambda v: POOSmoothness(n_trials=v), "n_trials", 0, ValueError),
        (lambda v: POOSmoothness(n_trials=v), "n_trials", 1.5, TypeError),
        (lambda v: POOSmoothness(n_trials=9, nu_max=v), "nu_max", -1.0, ValueError),
        (lambda v: POOSmoothness(n_trials=9, rho_max=v), "rho_max", 1.0, ValueError),
        (lambda v: UnknownSmoothness(exponents=v), "exponents", 2.0, TypeError),
        (lambda v: UnknownSmoothness(exponents=v), "exponents", "12", TypeError),
        (lambda v: UnknownSmoothness(exponents=(1.0, v)), "exponents", -3.0, ValueError),
        (lambda v: UnknownSmoothness(exponents=(1.0, v)), "exponents", "a", TypeError),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_given(
    make: Callable[[Any], object], argument: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        make(value)
    assert f"`{argument}`" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_split_order_must_name_parameters_of_the_given_space() -> None:
    with pytest.raises(ValueError, match=r"`split_order` names \['z'\].*'x', 'y'"):
        PCTSSampler(search_space=SQUARE, split_order=["x", "z"])


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        PCTSSampler(DUCBV())  # type: ignore[call-arg]
