"""Conditions: what is active where, and what is said of wrong ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._space.conditions import checked_conditions
from optuna_pcts._space.parameters import Parameters
from optuna_pcts._space.parameters import UNKNOWN
from optuna_pcts._space.space import SearchSpace


UNIT = FloatDistribution(0, 1)
SPACE: dict[str, BaseDistribution] = {
    "kernel": CategoricalDistribution(["linear", "rbf", "poly"]),
    "gamma": UNIT,
    "degree": IntDistribution(2, 5),
    "coef": UNIT,  # of high degrees
    "n": IntDistribution(1, 40, log=True),
    "late": UNIT,
    "x": UNIT,
}
GIVEN = {
    "gamma": {"kernel": ["rbf", "poly"]},
    "degree": {"kernel": ["poly"]},
    "coef": {"degree": [4, 5]},
    "late": {"n": range(10, 41), "kernel": ["linear", "poly"]},
}


def space() -> SearchSpace:
    return SearchSpace(SPACE, conditions=checked_conditions(GIVEN, SPACE))


def active_names(params: dict[str, Any]) -> set[str]:
    """Return what there is by the conditions, written out by hand."""
    found = {"kernel", "n", "x"}
    if params["kernel"] in ("rbf", "poly"):
        found.add("gamma")
    if params["kernel"] == "poly":
        found.add("degree")
        if params["degree"] >= 4:
            found.add("coef")
    if params["n"] >= 10 and params["kernel"] != "rbf":
        found.add("late")
    return found


def test_the_parameters_of_a_point_are_those_that_exist_there() -> None:
    cube = space()
    points = np.random.default_rng(0).random((500, len(cube)))
    active = cube.active(points)
    assert active is not None
    for point, row in zip(points, active):
        params = cube.from_unit(point.tolist())
        everything = {
            name: SearchSpace({name: d}).from_unit([x])[name]
            for (name, d), x in zip(sorted(SPACE.items()), point)
        }
        assert params.keys() == active_names(everything)
        assert {n for n, a in zip(cube.names, row) if a} == params.keys()
        assert params == {name: everything[name] for name in params}


def test_a_coordinate_that_does_not_exist_means_nothing() -> None:
    cube = space()
    base = {"kernel": "linear", "n": 3, "x": 0.3}
    proposed = {"gamma": 0.9, "late": 0.1}
    assert cube.to_unit(base, proposed) == cube.to_unit(base) == cube.to_unit({**base, "gamma": 1})
    with_gamma = cube.to_unit({**base, "kernel": "rbf"}, proposed)
    assert with_gamma is not None
    assert with_gamma[cube.names.index("gamma")] == 0.9


def test_cells_are_cut_across_what_exists_everywhere_in_them_down_to_single_values() -> None:
    cube = space()
    cut = set()

    def walk(lower: list[float], upper: list[float], depth: int) -> None:
        split = cube.split(lower, upper)
        assert split is not None, "floats can always be cut"
        corners = np.random.default_rng(depth).random((50, len(cube)))
        inside = np.array(lower) + corners * (np.array(upper) - np.array(lower))
        active = cube.active(inside)
        assert active is not None
        assert active[:, split.dim].all()
        n_active = cube.n_active(lower, upper)
        assert n_active <= active.all(axis=0).sum()
        cut.add(cube.names[split.dim])
        if depth:
            ends = [lower[split.dim], *split.cuts, upper[split.dim]]
            for a, b in pairwise(ends):
                below, above = lower.copy(), upper.copy()
                below[split.dim], above[split.dim] = a, b
                walk(below, above, depth - 1)

    walk([0.0] * len(cube), [1.0] * len(cube), 9)
    assert cut == set(SPACE)


def test_what_decides_about_most_is_cut_first() -> None:
    given = {name: {"kernel": ["poly"]} for name in ("gamma", "degree", "coef", "late")}
    cube = SearchSpace(SPACE, conditions=checked_conditions(given, SPACE))
    kernel = cube.names.index("kernel")
    split = cube.split([0.0] * 7, [1.0] * 7)
    assert split is not None
    assert split.dim == kernel
    lower, upper = [0.0] * 7, [1.0] * 7
    upper[kernel] = split.cuts[0]  # only "linear": nothing depends on it any more
    narrow = cube.split(lower, upper)
    assert narrow is not None
    assert narrow.dim != kernel
    assert cube.n_active(lower, upper) == 3
    ordered = SearchSpace(
        SPACE, conditions=checked_conditions(given, SPACE), split_order=["x", "n"]
    )
    first = ordered.split([0.0] * 7, [1.0] * 7)
    assert first is not None
    assert ordered.names[first.dim] == "x"


@pytest.mark.parametrize(
    ("conditions", "error", "words"),
    [
        ([("gamma", "kernel")], TypeError, "must map parameter names"),
        ({"nobody": {"kernel": ["rbf"]}}, ValueError, "parameter 'nobody'"),
        ({"gamma": {"nobody": [1]}}, ValueError, "parent 'nobody'"),
        ({"gamma": {"x": [0.5]}}, ValueError, "not discrete"),
        ({"gamma": {"kernel": "rbf"}}, TypeError, "list of values of `kernel`"),
        ({"gamma": {"kernel": ["sigmoid"]}}, ValueError, "sigmoid"),
        ({"gamma": {"kernel": []}}, ValueError, "some of"),
        ({"gamma": {}}, TypeError, "`gamma`"),
        ({"n": {"degree": [2]}, "degree": {"n": [3]}}, ValueError, "depend on each other"),
        (
            {"degree": {"kernel": ["poly"]}, "coef": {"degree": [2], "kernel": ["rbf"]}},
            ValueError,
            "`coef` is never active",
        ),
    ],
)
def test_wrong_conditions_are_refused_with_a_reason(
    conditions: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        PCTSSampler(search_space=SPACE, conditions=conditions)


def test_conditions_without_a_space_are_refused() -> None:
    with pytest.raises(ValueError, match="`search_space`, which is missing"):
        PCTSSampler(conditions={"gamma": {"kernel": ["rbf"]}})


def test_what_somebody_fixes_decides_conditions() -> None:
    parameters = Parameters(SPACE, checked_conditions(GIVEN, SPACE))
    left = parameters.without({"kernel": "poly"})
    assert set(left.distributions) == set(SPACE) - {"kernel"}
    assert set(left.conditions) == {"coef", "late"}  # the others always exist
    left = parameters.without({"kernel": "linear"})
    assert set(left.distributions) == {"late", "n", "x"}
    left = parameters.without({"kernel": UNKNOWN})
    assert set(left.distributions) == set(SPACE) - {"kernel"}
    assert parameters.without({"kernel": "sigmoid"}).distributions.keys() == {"n", "x"}
