"""A synthetic objective whose ranges depend on values: no static space has all its parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.branches.problem import Ask
from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Conditions
from benchmarks.branches.problem import Params
from benchmarks.branches.problem import value_at
from benchmarks.problems import Space
from benchmarks.shapes import scaled


NAME = "Ranges"
_UNIT = FloatDistribution(0.0, 1.0)
_SIZES = IntDistribution(2, 30)
_LOWS = FloatDistribution(0.0, 0.9)
_FLAG = CategoricalDistribution((False, True))
# The same name is another parameter in each mode.
_RATES = {
    "wide": FloatDistribution(0.0, 10.0),
    "coarse": FloatDistribution(0.1, 1.0),
    "fine": FloatDistribution(0.001, 0.01),
}
_MODES = CategoricalDistribution(tuple(_RATES))
_HAS_WINDOW: Conditions = {"low": {"has_window": (True,)}, "high": {"has_window": (True,)}}
_SPACE: Space = {
    "n": _SIZES,
    "k": IntDistribution(1, 30),
    "has_window": _FLAG,
    "low": _LOWS,
    "high": _UNIT,
    "mode": _MODES,
    "rate": _RATES["wide"],
}
# The same in other words: where in its range each value is.
_STATIC_SPACE: Space = {
    "n": _SIZES,
    "k_at": _UNIT,
    "has_window": _FLAG,
    "low": _LOWS,
    "high_at": _UNIT,
    "mode": _MODES,
    **{f"rate_{mode}": distribution for mode, distribution in _RATES.items()},
}
_STATIC_CONDITIONS: Conditions = {
    "low": {"has_window": (True,)},
    "high_at": {"has_window": (True,)},
    **{f"rate_{mode}": {"mode": (mode,)} for mode in _RATES},
}


def _walk(ask: Ask) -> Params:
    params: Params = {"n": ask("n", _SIZES)}
    params["k"] = ask("k", IntDistribution(1, params["n"]))
    params["has_window"] = ask("has_window", _FLAG)
    if params["has_window"]:
        params["low"] = ask("low", _LOWS)
        params["high"] = ask("high", FloatDistribution(params["low"], 1.0))
    params["mode"] = ask("mode", _MODES)
    params["rate"] = ask("rate", _RATES[params["mode"]])
    return params


def from_static(static: Params) -> Params:
    """Return the parameters that positions in their ranges stand for."""
    n, mode = static["n"], static["mode"]
    params = {"n": n, "k": 1 + min(int(static["k_at"] * n), n - 1)}
    params["has_window"] = static["has_window"]
    if params["has_window"]:
        low = static["low"]
        params |= {"low": low, "high": min(low + static["high_at"] * (1 - low), 1.0)}
    return {**params, "mode": mode, "rate": static[f"rate_{mode}"]}


def to_static(params: Params) -> Params:
    """Return the positions of parameters in their ranges."""
    n, mode = params["n"], params["mode"]
    static = {"n": n, "k_at": (params["k"] - 0.5) / n, "has_window": params["has_window"]}
    if params["has_window"]:
        low = params["low"]
        static |= {"low": low, "high_at": (params["high"] - low) / (1 - low)}
    return {**static, "mode": mode, f"rate_{mode}": params["rate"]}


def instance(rng: np.random.Generator, noise_std: float) -> Branched:
    """Ranges that depend on other parameters: ``k`` up to ``n``, and a window of two ends.

    The rate has another range in each of three modes. Those who must know all ranges beforehand
    search the positions of the values in their ranges instead.
    """

    def drawn(name: str, low: float = 0.1, high: float = 0.9) -> float:
        return float(value_at(_SPACE[name], rng.uniform(low, high)))

    mode = str(rng.choice(list(_RATES)))
    n = int(drawn("n", 0.3))
    low = drawn("low", high=0.6)
    best = {
        "n": n,
        "k": int(rng.integers(2, n)),
        "has_window": True,
        "low": low,
        "high": low + rng.uniform(0.2, 0.8) * (1 - low),
        "mode": mode,
        "rate": value_at(_RATES[mode], rng.uniform(0.1, 0.9)),
    }
    behind = {other: 0.0 if other == mode else rng.uniform(0.1, 0.3) for other in _RATES}
    rates = {other: rng.uniform(0.1, 0.9) for other in _RATES}  # the best ones of each mode
    rates[mode] = scaled(_RATES[mode], best["rate"])
    gain = rng.uniform(0.1, 0.3)

    def loss(params: Params) -> float:
        share = params["k"] / params["n"] - best["k"] / best["n"]
        total = ((params["n"] - n) / _SIZES.high) ** 2 + share**2
        name = params["mode"]
        total += behind[name] + (scaled(_RATES[name], params["rate"]) - rates[name]) ** 2
        if not params["has_window"]:
            return float(total + gain)
        ends = [params[end] - best[end] for end in ("low", "high")]
        return float(total + 2 * (ends[0] ** 2 + ends[1] ** 2))

    found = Branched(NAME, _SPACE, _HAS_WINDOW, loss, noise_std, 0.0, best, _walk)
    static = replace(
        found,
        space=_STATIC_SPACE,
        conditions=_STATIC_CONDITIONS,
        loss=lambda params: loss(from_static(params)),
        best=to_static(best),
        walk=None,
    )
    return replace(found, static=static)
