"""Synthetic objectives with conditional parameters, to be minimised: one for each shape.

Each seed has another instance: where the optimum lies, which branch has it, what matters. All are
scaled alike: the optimum is 0, a random trial has 1 in the median, and the noise is a twentieth.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping

import numpy as np
from optuna.distributions import CategoricalDistribution

from benchmarks.branches import ranges
from benchmarks.branches.bowls import Bowls
from benchmarks.branches.bowls import Loss
from benchmarks.branches.bowls import NOISE_STD
from benchmarks.branches.bowls import scale
from benchmarks.branches.bowls import Shape
from benchmarks.branches.problem import Branched
from benchmarks.branches.problem import Parameters
from benchmarks.branches.problem import Params
from benchmarks.problems import Space
from benchmarks.shapes import random_rotation


def _depths(
    names: Collection[str], best: str, low: float, high: float, rng: np.random.Generator
) -> dict[str, float]:
    """Return how much each branch is behind at its best."""
    return {name: 0.0 if name == best else rng.uniform(low, high) for name in names}


# ---------------------------------------------------------------------- a choice of learner

_OWN = {"a": 2, "b": 3, "c": 4, "d": 6, "e": 8}


def _learners() -> Parameters:
    found = Parameters()
    found.number("shared0", 0.0, 1.0)
    found.number("shared1", 1e-4, 1.0, log=True)
    found.choice("learner", *_OWN)
    for learner, n in _OWN.items():
        for i in range(n):
            kind = i % 3  # a float, a log float, a whole number
            low, high = ((0.0, 1.0), (1e-5, 10.0), (1, 20))[kind]
            found.number(f"{learner}{i}", low, high, log=kind == 1, learner=learner)
    return found


def _learners_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """One of five learners with 2 to 8 parameters each, and two that all share.

    The learner that can be the best is steep: untuned it is worse than the others are.
    """
    best = str(rng.choice(list(_OWN)))
    depths = _depths(_OWN, best, 0.05, 0.6, rng)
    steep = {name: 6.0 if name == best else rng.uniform(0.5, 1.0) for name in _OWN}

    def loss(params: Params) -> float:
        name = params["learner"]
        own = [f"{name}{i}" for i in range(_OWN[name])]
        shared = bowls(params, ["shared0", "shared1"])
        return depths[name] + steep[name] * bowls(params, own) + shared

    return {"learner": best}, loss


# ---------------------------------------------------------------------- nested branches

_KINDS, _VARIANTS = ("0", "1"), ("0", "1")
_FAMILIES = ("x", "y", "z")


def _nested() -> Parameters:
    found = Parameters()
    found.number("root0", 0.0, 1.0)
    found.number("root1", 0.0, 1.0)
    found.choice("family", *_FAMILIES)
    for f in _FAMILIES:
        found.number(f"n_{f}", 0.0, 1.0, family=f)
        found.choice(f"kind_{f}", *_KINDS, family=f)
        for k in _KINDS:
            kind: Params = {f"kind_{f}": k}
            found.number(f"n_{f}{k}", 1, 16, **kind)
            found.choice(f"variant_{f}{k}", *_VARIANTS, **kind)
            for v in _VARIANTS:
                variant: Params = {f"variant_{f}{k}": v}
                for i in range(2):
                    found.number(f"n_{f}{k}{v}{i}", 0.0, 1.0, **variant)
    return found


def _nested_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """Choices below choices below choices: 12 leaves, and numbers at each of the levels.

    Where the leaf's first number is best depends on the number of the level above.
    """
    choices = {
        name: str(d.choices[rng.integers(len(d.choices))])
        for name, d in space.items()
        if isinstance(d, CategoricalDistribution)
    }
    depths = {
        (name, choice): 0.0 if choice == choices[name] else rng.uniform(0.1, 0.4)
        for name in choices
        for choice in (_FAMILIES if name == "family" else _KINDS)
    }

    def loss(params: Params) -> float:
        f = params["family"]
        k = params[f"kind_{f}"]
        v = params[f"variant_{f}{k}"]
        leaf = [f"n_{f}{k}{v}{i}" for i in range(2)]
        behind = depths["family", f] + depths[f"kind_{f}", k] + depths[f"variant_{f}{k}", v]
        moved = {leaf[0]: 0.5 * bowls.off(params, f"n_{f}{k}")}
        numbers = bowls(params, ["root0", "root1"]) + bowls(params, [f"n_{f}", f"n_{f}{k}"])
        return behind + numbers + 2 * bowls(params, leaf, moved)

    return choices, loss


# ---------------------------------------------------------------------- optional parts

_PARTS = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2, "f": 3}


def _parts() -> Parameters:
    found = Parameters()
    found.number("always0", 0.0, 1.0)
    found.number("always1", 0.0, 1.0)
    for part, n in _PARTS.items():
        found.choice(f"use_{part}", False, True)
        for i in range(n):
            found.number(f"{part}{i}", 0.0, 1.0, **{f"use_{part}": True})
    return found


def _parts_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """Six parts that may be used or not, with two or three numbers each.

    Four of them help where they are tuned well, and hurt elsewhere; two only hurt.
    """
    useful = set(rng.permutation(list(_PARTS))[:4].tolist())
    gains = {part: rng.uniform(0.15, 0.4) for part in useful}
    owns = {part: [f"{part}{i}" for i in range(n)] for part, n in _PARTS.items()}

    def loss(params: Params) -> float:
        total = bowls(params, ["always0", "always1"])
        for part, own in owns.items():
            gain = gains.get(part, 0.0)
            if not params[f"use_{part}"]:
                total += gain
            elif gain:  # untuned it costs twice what it brings
                total += 2 * gain * bowls(params, own) / bowls.typical(own)
            else:
                total += 0.2 + bowls(params, own)
        return total

    return {f"use_{part}": part in useful for part in _PARTS}, loss


# ---------------------------------------------------------------------- a loop over layers

_MOST_LAYERS = 5


def _layers() -> Parameters:
    found = Parameters()
    found.number("rate", 1e-5, 1.0, log=True)
    found.number("n_layers", 1, _MOST_LAYERS)
    for i in range(_MOST_LAYERS):
        deep: Params = {"n_layers": tuple(range(i + 1, _MOST_LAYERS + 1))} if i else {}
        found.number(f"units{i}", 8, 512, log=True, **deep)
        found.number(f"dropout{i}", 0.0, 0.6, **deep)
    return found


def _layers_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """As if a network were trained: one to five layers, each with units and dropout.

    Which rate is the best depends on how many there are.
    """
    best = int(rng.integers(2, _MOST_LAYERS + 1))

    def loss(params: Params) -> float:
        more = params["n_layers"] - best
        own = [f"{name}{i}" for i in range(params["n_layers"]) for name in ("units", "dropout")]
        rate = bowls.off(params, "rate") + 0.1 * more
        return float(0.1 * abs(more) + 2 * rate**2 + 2 * bowls(params, own))

    return {"n_layers": best}, loss


# ---------------------------------------------------------------------- shared or not

_SHARED = [f"shared{i}" for i in range(8)]


def _shared() -> Parameters:
    found = Parameters()
    for name in _SHARED:
        found.number(name, 0.0, 1.0)
    found.choice("method", "a", "b", "c")
    for method in "abc":
        for i in range(2):
            found.number(f"{method}{i}", 0.0, 1.0, method=method)
    return found


def _shared_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """Eight numbers that all branches share matter most, and not each by itself.

    The three branches have two of their own, and hardly differ.
    """
    best = str(rng.choice(list("abc")))
    depths = _depths("abc", best, 0.02, 0.1, rng)
    axes = 2 ** np.linspace(-1, 1, len(_SHARED))[:, None] * random_rotation(len(_SHARED), rng)

    def loss(params: Params) -> float:
        method = params["method"]
        off = axes @ np.array([bowls.off(params, name) for name in _SHARED])
        own = bowls(params, [f"{method}0", f"{method}1"])
        return float(off @ off) / 2 + depths[method] + own / 2

    return {"method": best}, loss


_ISLANDS = [f"island{i}" for i in range(12)]


def _islands() -> Parameters:
    found = Parameters()
    found.choice("island", *_ISLANDS)
    for island in _ISLANDS:
        for i in range(3):
            found.number(f"{island}_{i}", 0.0, 1.0, island=island)
    return found


def _islands_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """Twelve branches with three numbers each, and nothing that they share."""
    best = str(rng.choice(_ISLANDS))
    depths = _depths(_ISLANDS, best, 0.1, 1.0, rng)
    steep = {name: rng.uniform(1.0, 4.0) for name in _ISLANDS}

    def loss(params: Params) -> float:
        name = params["island"]
        return depths[name] + steep[name] * bowls(params, [f"{name}_{i}" for i in range(3)])

    return {"island": best}, loss


# ---------------------------------------------------------------------- a pipeline


def _pipeline() -> Parameters:
    found = Parameters()
    found.choice("scaler", "none", "standard", "quantile")
    found.number("clip", 1.0, 10.0, log=True, scaler="standard")
    found.number("quantiles", 10, 1000, log=True, scaler="quantile")
    found.choice("output", "uniform", "normal", scaler="quantile")
    found.choice("selector", "kbest", "variance")
    found.number("kbest_k", 1, 64, log=True, selector="kbest")
    found.choice("score", "f", "chi2", "mutual", selector="kbest", scaler=("none", "quantile"))
    found.number("mutual_neighbors", 1, 10, score="mutual")
    found.number("threshold", 1e-6, 1.0, log=True, selector="variance")
    found.choice("learner", "linear", "tree", "neighbors", "svm")
    found.number("alpha", 1e-6, 10.0, log=True, learner="linear")
    found.number("l1", 0.0, 1.0, learner="linear")
    found.number("shrinkage", 0.0, 1.0, learner="linear", scaler="standard")
    found.number("depth", 1, 20, learner="tree")
    found.number("leaf", 1, 100, log=True, learner="tree")
    found.number("k", 1, 100, log=True, learner="neighbors")
    found.choice("metric", "minkowski", "cosine", learner="neighbors")
    found.number("p", 1.0, 5.0, metric="minkowski", scaler=("standard", "quantile"))
    found.number("c", 1e-3, 1e3, log=True, learner="svm")
    found.choice("kernel", "linear", "rbf", "poly", learner="svm")
    found.number("gamma", 1e-4, 10.0, log=True, kernel=("rbf", "poly"))
    found.number("degree", 2, 5, kernel="poly")
    found.number("coef0", 0.0, 1.0, kernel="poly", selector="kbest")
    return found


def _pipeline_loss(space: Space, bowls: Bowls, rng: np.random.Generator) -> tuple[Params, Loss]:
    """A scaler, a selection of features and a learner, with numbers of all kinds.

    Some are there only if two choices are right, and learners prefer different scalers.
    """
    sets = {n: d.choices for n, d in space.items() if isinstance(d, CategoricalDistribution)}
    best = {name: choices[rng.integers(len(choices))] for name, choices in sets.items()}
    behind = {
        (name, choice): 0.0 if choice == best[name] else rng.uniform(0.05, 0.3)
        for name, choices in sets.items()
        for choice in choices
    }
    pairs = {(s, q): rng.uniform(0.0, 0.3) for s in sets["scaler"] for q in sets["learner"]}
    pairs[best["scaler"], best["learner"]] = 0.0

    def loss(params: Params) -> float:
        choices = sum(behind[name, params[name]] for name in sets if name in params)
        numbers = [name for name in params if name not in sets]
        return choices + pairs[params["scaler"], params["learner"]] + 3 * bowls(params, numbers)

    return best, loss


SHAPES = (
    Shape("Learners", _learners(), _learners_loss),
    Shape("Nested", _nested(), _nested_loss),
    Shape("Parts", _parts(), _parts_loss),
    Shape("Layers", _layers(), _layers_loss),
    Shape("Shared", _shared(), _shared_loss),
    Shape("Islands", _islands(), _islands_loss),
    Shape("Pipeline", _pipeline(), _pipeline_loss),
)
# Each makes an instance of its problem.
SYNTHETIC: Mapping[str, Callable[[np.random.Generator], Branched]] = {
    **{shape.name: shape.instance for shape in SHAPES},
    ranges.NAME: lambda rng: scale(ranges.instance(rng, NOISE_STD)),
}
DESCRIPTIONS: Mapping[str, str] = {
    **{shape.name: shape.make.__doc__ or "" for shape in SHAPES},
    ranges.NAME: ranges.instance.__doc__ or "",
}
