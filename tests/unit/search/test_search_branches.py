"""Local asks in branches, and branches that no trial has been in."""

from __future__ import annotations

from collections import Counter

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution

from optuna_pcts import DUCBV
from optuna_pcts import Smoothness
from optuna_pcts._arrays import FloatArray
from optuna_pcts._search.branches import Branches
from optuna_pcts._search.branches import in_branches
from optuna_pcts._search.config import LocalSearchConfig
from optuna_pcts._search.local import LocalSearch
from optuna_pcts._space.conditions import checked_conditions
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.tree import Tree


UNIT = FloatDistribution(0, 1)
SPACE: dict[str, BaseDistribution] = {
    "kind": CategoricalDistribution("abc"),
    "p": UNIT,  # of a
    "q": UNIT,  # of b
    "x": UNIT,
}
GIVEN = {"p": {"kind": ["a"]}, "q": {"kind": ["b"]}}


def cube() -> SearchSpace:
    return SearchSpace(SPACE, conditions=checked_conditions(GIVEN, SPACE))


def random_points(space: SearchSpace, n: int, seed: int = 0) -> FloatArray:
    points = []
    for raw in np.random.default_rng(seed).random((n, len(space))):
        point = space.to_unit(space.from_unit(raw.tolist()))
        assert point is not None
        points.append(point)
    return np.array(points)


def reward(points: FloatArray) -> FloatArray:
    """Return the best one in b, at q = 0.7; the others are alike."""
    kind, p, q, x = points.T
    value = -((x - 0.3) ** 2) - np.where(kind < 1 / 3, 0.5 + (p - 0.2) ** 2, 0.0)
    is_b = (kind > 1 / 3) & (kind < 2 / 3)
    rewards: FloatArray = value - np.where(is_b, (q - 0.7) ** 2, 0.0)
    return rewards - np.where(kind > 2 / 3, 0.8, 0.0)


def test_local_asks_are_in_the_best_branch_and_good_there() -> None:
    space = cube()
    tree = Tree(space, DUCBV(), Smoothness(1.0, 0.5).instances)
    points = random_points(space, 90)
    for number, (point, value) in enumerate(zip(points, reward(points))):
        tree.place(number, point.tolist())
        tree.tell(number, float(value))
    local = LocalSearch(tree, space.categories, space.slots, active=space.active)
    rng = np.random.default_rng(0)
    found = [local.draw(rng) for _ in range(200)]
    drawn = [space.from_unit(d.point) for d in found if d is not None]
    assert len(drawn) == 200
    kinds = Counter(params["kind"] for params in drawn)
    assert kinds["b"] > 120
    good = [params for params in drawn if params["kind"] == "b"]
    assert np.median([abs(params["q"] - 0.7) for params in good]) < 0.1
    assert np.median([abs(params["x"] - 0.3) for params in good]) < 0.1
    # What does not exist there has a position nevertheless, of good trials or anywhere.
    p = space.names.index("p")
    others = [d.point[p] for d in found if d is not None]
    assert 0 <= min(others) < 0.2
    assert 0.6 < max(others) <= 1


def test_what_nothing_is_known_of_comes_from_a_good_trial_or_from_anywhere() -> None:
    points = np.array([[0.5, 0.2, 0.9], [0.1, 0.8, 0.5]])
    active = np.array([[True, True, False], [True, False, True]])
    branches = Branches(points, active, LocalSearchConfig())
    rng = np.random.default_rng(0)
    known = np.array([True, False, False])
    filled = np.array([branches.filled(np.full(3, 0.4), known, rng) for _ in range(400)])
    assert (filled[:, 0] == 0.4).all()
    assert ((filled >= 0) & (filled <= 1)).all()
    near = np.abs(filled[:, 1] - 0.2) < 0.2
    assert 0.3 < near.mean() < 0.8
    all_known = np.ones(3, dtype=bool)
    assert (branches.filled(points[0], all_known, rng) == points[0]).all()


def test_points_are_grouped_by_what_exists_there() -> None:
    space = cube()
    points = random_points(space, 60)
    active = space.active(points)
    assert active is not None
    groups = in_branches(points, active)
    assert sum(len(group) for group, _ in groups) == 60
    assert len(groups) == 3
    for group, axes in groups:
        again = space.active(group)
        assert again is not None
        assert (again == axes).all()


def test_a_branch_is_new_until_a_trial_is_in_it() -> None:
    space = cube()
    kind = space.names.index("kind")
    assert space.new_branches(np.empty((0, 4))) == [(kind, 0), (kind, 1), (kind, 2)]
    points = np.full((40, 4), 0.5)
    points[:, kind] = 1 / 6
    assert space.new_branches(points) == [(kind, 1), (kind, 2)]
    points[7, kind] = 0.5
    assert space.new_branches(points) == [(kind, 2)]
    rng = np.random.default_rng(0)
    for branch in [(kind, 1), (space.names.index("kind"), 2)]:
        way = space.way_to(branch, rng)
        assert way[kind] * 3 // 1 == branch[1]
        assert sum(x == x for x in way) == 1
    flat = SearchSpace({"x": UNIT})
    assert flat.new_branches(np.empty((0, 1))) == []
