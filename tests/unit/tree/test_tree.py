"""The tree: a worked example by hand, and properties against a naive tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
import random

from helpers import cells
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest

from optuna_pcts import DUCB1
from optuna_pcts import DUCBV
from optuna_pcts import NodeStatistics
from optuna_pcts import Smoothness
from optuna_pcts._arrays import FloatArray
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.policies import Policy
from optuna_pcts._tree.refit import Checkpoint
from optuna_pcts._tree.refit import Reference
from optuna_pcts._tree.tree import Tree


LINE: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1)}
MIXED: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0, 1),
    "n": IntDistribution(1, 9, log=True),
    "kind": CategoricalDistribution(["a", "b", "c"]),
}
INSTANCES = [(0.5, 0.9), (1.0, 0.5)]


def make_tree(
    space: dict[str, BaseDistribution] = LINE,
    *,
    policy: Policy | None = None,
    branching: int = 3,
    instances: Sequence[tuple[float, float]] = ((0.5, 0.5),),
    prior_std: float | None = None,
) -> Tree:
    search_space = SearchSpace(space, branching=branching)
    return Tree(search_space, policy or DUCBV(), lambda _: instances, prior_std)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def b_min(tree: Tree, node: int, instance: int = 0) -> float:
    tree.refresh()
    return float(tree._nodes.b_min[instance, node])


# ---------------------------------------------------------------------- by hand


def test_the_worked_example() -> None:
    """The tree drawn at the top of `_tree/tree.py`."""
    tree = make_tree(policy=DUCBV(c=0.1), instances=[(0.5, 0.5)])
    tree.place(0, [0.5], depth=0)
    tree.place(1, [1 / 6], depth=1)
    tree.place(2, [5 / 6], depth=1)
    tree.tell(0, 0.2)
    tree.tell(1, 0.6)
    statistics = cells(tree)
    left = statistics[(0.0,), (1 / 3,)]
    right = statistics[(2 / 3,), (1.0,)]
    # The median of 0.2 and 0.6 is 0.4: reward 0. The best is 0.6: reward 1.
    assert statistics[(0.0,), (1.0,)] == pytest.approx((3, 2, 0.5))
    assert left == pytest.approx((1, 1, 1.0))
    assert statistics[(1 / 3,), (2 / 3,)] == pytest.approx((1, 1, 0.0))
    assert right == (1, 0, 0.0)
    assert statistics[(1 / 9,), (2 / 9,)] == left  # holds its parent's trial
    assert statistics[(7 / 9,), (8 / 9,)] == right
    assert statistics[(0.0,), (1 / 9,)] == (0, 0, 0.0)  # empty
    assert tree.n_nodes == 10
    assert tree.depth == 2

    log_t = math.log(2)  # three trials asked; the last power of two is two
    width = 3 * 0.1 * log_t  # of one feedback, by eq. 8: no variance yet
    left_bound = 1.0 + width + 0.5 * 0.5
    middle_bound = 0.0 + width + 0.5 * 0.5
    root_bound = 0.5 + math.sqrt(2 * 0.25 * log_t / 2) + 3 * 0.1 * log_t / 2 + 0.5
    nodes = tree._nodes
    first = int(nodes.first_child[0])
    assert b_min(tree, first) == pytest.approx(left_bound)  # its empty children are infinite
    assert b_min(tree, first + 1) == pytest.approx(middle_bound)
    assert b_min(tree, first + 2) == math.inf
    assert b_min(tree, 0) == pytest.approx(root_bound)  # eq. 3: min(bound, max of children)

    # The walk goes to the right third, which has no feedback, and on to an empty child.
    leaf = tree.select(0, rng())
    assert leaf.depth == 2
    assert (leaf.lower[0], leaf.upper[0]) in [(2 / 3, 7 / 9), (8 / 9, 1.0)]

    # When its feedback comes and is bad, the walk goes to the left third.
    tree.tell(2, 0.1)
    leaf = tree.select(0, rng())
    assert leaf.depth == 2
    assert leaf.upper[0] <= 1 / 3


def test_the_first_ask_is_the_whole_cube() -> None:
    leaf = make_tree(MIXED).select(0, rng())
    assert (leaf.depth, leaf.lower, leaf.upper) == (0, [0.0] * 3, [1.0] * 3)


def test_a_cell_is_split_before_its_feedback_comes() -> None:
    tree = make_tree()
    tree.place(0, [0.5], depth=0)
    assert tree.n_nodes == 4
    assert tree.n_told == 0
    assert tree.select(0, rng()).depth == 1


def test_the_centre_of_a_halved_cell_counts_in_neither_half() -> None:
    tree = make_tree(branching=2)
    tree.place(0, [0.5], depth=0)
    tree.tell(0, 1.0)
    assert cells(tree) == {
        ((0.0,), (1.0,)): (1, 1, 1.0),
        ((0.0,), (0.5,)): (0, 0, 0.0),
        ((0.5,), (1.0,)): (0, 0, 0.0),
    }


def test_a_trial_of_unknown_coordinates_counts_where_it_certainly_is() -> None:
    tree = make_tree({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})
    tree.place(0, [0.5, 0.5], depth=0)  # cut across x
    tree.place(1, [1 / 6, 0.5], depth=1)  # the left third is cut across y
    tree.place(2, [0.1, math.nan])
    statistics = cells(tree)
    assert statistics[(0.0, 0.0), (1 / 3, 1.0)][0] == 2
    assert sum(n for (lower, _), (n, _, _) in statistics.items() if lower[1] > 0) == 1
    assert not tree.knows_point(2)
    assert tree.knows_point(1)


def test_a_trial_not_asked_for_splits_nothing_until_a_walk_reaches_it() -> None:
    tree = make_tree()
    for number, x in enumerate((0.1, 0.2, 0.9)):
        tree.place(number, [x])
        tree.tell(number, x)
    assert tree.n_nodes == 1
    leaf = tree.select(0, rng())
    assert (leaf.lower, leaf.upper) == ([1 / 3], [2 / 3])  # the empty third


def test_ties_go_to_the_child_with_fewer_asked_trials() -> None:
    """Nine trials in flight, nothing told: they must not clump."""
    for seed in range(5):
        tree = make_tree()
        centers = []
        for number in range(9):
            leaf = tree.select(0, rng(seed + number))
            centers.append((leaf.lower[0] + leaf.upper[0]) / 2)
            tree.place(number, [centers[-1]], leaf.depth)
        assert sorted(centers) == pytest.approx([(2 * i + 1) / 18 for i in range(9)])


def test_a_single_value_is_closed_while_in_flight_and_can_be_replicated() -> None:
    tree = make_tree({"kind": CategoricalDistribution(["a", "b"])})
    for number, x in ((0, 0.25), (1, 0.75)):
        tree.place(number, [x], depth=1)
    assert tree.n_nodes == 3
    tree.tell(0, 0.0)
    assert tree.select(0, rng()).upper == [0.5]  # worse or not, the other one is in flight
    tree.tell(1, 1.0)
    assert tree.select(0, rng()).lower == [0.5]
    assert cells(tree)[(0.5,), (1.0,)][:2] == (1, 1)


def test_a_single_value_comes_last_once_replicates_agree() -> None:
    for noise in (0.0, 0.1):
        tree = make_tree({"n": IntDistribution(0, 3)}, policy=DUCBV(c=0.0), instances=[(0.0, 0.5)])
        for number, x in enumerate((0.125, 0.375, 0.625, 0.875, 0.875)):
            tree.place(number, [x], depth=2)
            tree.tell(number, x + noise * number)
        # Asked all the same if nothing else is left: the best one.
        assert tree.select(0, rng()).lower == [0.75]
        assert (b_min(tree, 0) < -1e5) == (noise == 0)


def test_the_best_is_not_as_bad_as_a_failure_where_most_values_are_the_best() -> None:
    for values in ([1.0] * 9, [1.0] * 6 + [0.0] * 3):
        tree = make_tree()
        for number, value in enumerate([*values, math.nan]):
            tree.place(number, [number / 10])
            tree.tell(number, value)
        tree.refresh()
        assert tree._reward(0)[:2] == (1.0, 0.0)
        assert tree._reward(len(values))[:2] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("reward", "rewards"),
    [
        # The median of 2, 3, 5, 12 is 4.
        ("clipped", [0.0, 0.0, 1 / 8, 1.0, 0.0, 0.0, 1.0]),
        ("range", [0.0, 0.1, 0.3, 1.0, 0.0, 0.0, 1.0]),
        ((1.0, 9.0), [1 / 8, 2 / 8, 4 / 8, 1.0, 0.0, 0.0, 1.0]),
    ],
)
def test_values_become_rewards_on_each_scale(
    reward: str | tuple[float, float], rewards: list[float]
) -> None:
    tree = Tree(SearchSpace(LINE), DUCBV(), Smoothness(1.0, 0.5).instances, reward=reward)
    values = [2.0, 3.0, 5.0, 12.0, math.nan, -math.inf, math.inf]
    for number, value in enumerate(values):
        tree.place(number, [number / 10])
        tree.tell(number, value)
    tree.refresh()
    assert [tree._reward(number)[0] for number in range(7)] == pytest.approx(rewards)
    assert tree._nodes.total[0] == pytest.approx(sum(rewards))
    # Local asks go by the median and the best, whatever the tree does.
    told = tree.told(tree.learned_from()).rewards
    assert told[:4] == pytest.approx([-2 / 8, -1 / 8, 1 / 8, 1.0])


@pytest.mark.parametrize("reward", ["range", (1.0, 2.0)])
def test_equal_values_are_not_as_bad_as_a_failure(reward: str | tuple[float, float]) -> None:
    tree = Tree(SearchSpace(LINE), DUCBV(), Smoothness(1.0, 0.5).instances, reward=reward)
    for number, value in enumerate([2.0, 2.0, math.nan]):
        tree.place(number, [number / 10])
        tree.tell(number, value)
    tree.refresh()
    assert [tree._reward(number)[0] for number in range(3)] == [1.0, 1.0, 0.0]


def test_a_single_value_has_no_diameter() -> None:
    space: dict[str, BaseDistribution] = {"kind": CategoricalDistribution(["a", "b"])}
    tree = make_tree(space, policy=DUCBV(c=0.0), instances=[(100.0, 0.9)])
    for number, x in ((0, 0.25), (1, 0.75)):
        tree.place(number, [x], depth=1)
        tree.tell(number, float(number))
    assert [b_min(tree, node) for node in (1, 2)] == [0.0, 1.0]
    assert b_min(tree, 0) == 1.0


def test_the_instances_differ_in_the_diameter_alone() -> None:
    tree = make_tree(instances=[(0.5, 0.5), (0.2, 0.9)])
    for number, x in enumerate((0.5, 1 / 6, 5 / 6)):
        tree.place(number, [x], depth=min(number, 1))
        tree.tell(number, x)
    for node in range(1, 4):
        assert b_min(tree, node, 0) - b_min(tree, node, 1) == pytest.approx(0.25 - 0.18)


def test_log_t_is_held_between_powers_of_two() -> None:
    seen = []

    class Spy:
        def bound(self, cells: NodeStatistics) -> FloatArray:
            seen.append(cells.log_t)
            return cells.mean

    tree = make_tree(policy=Spy())
    for number in range(40):
        leaf = tree.select(0, rng(number))
        tree.place(number, [(leaf.lower[0] + leaf.upper[0]) / 2], leaf.depth)
        tree.tell(number, float(number))
    tree.refresh()
    powers = {math.log(2**k) for k in range(6)}
    assert set(seen) <= powers
    assert max(seen) == pytest.approx(math.log(32))


def test_failures_and_infinities_never_enter_a_statistic() -> None:
    tree = make_tree()
    values = [0.0, 1.0, math.nan, -math.inf, math.inf, 2.0]
    for number, value in enumerate(values):
        tree.place(number, [number / 10])
        tree.tell(number, value)
    tree.refresh()
    # Of the finite values the median is 1 and the best 2; infinity is as good as the best.
    assert tree._nodes.total[0] == pytest.approx(0 + 0 + 0 + 0 + 1 + 1)
    assert np.isfinite(tree._nodes.square[0])


def test_the_prior_bounds_a_cell_without_feedback() -> None:
    with_prior, without = (make_tree(prior_std=p, policy=DUCBV(c=0.0)) for p in (1.0, None))
    for tree in (with_prior, without):
        for number in range(12):
            tree.place(number, [number / 24])
            tree.tell(number, number / 24)  # better to the right
        tree.place(12, [0.51], depth=2)
        leaf_bounds = tree._nodes.b_min[0, 1 : tree.n_nodes]
        tree.refresh()
        untold = tree._nodes.n_told[1 : tree.n_nodes] == 0
        assert untold.any()
        assert np.isfinite(leaf_bounds[untold]).all() == (tree is with_prior)


# ---------------------------------------------------------------------- properties


@dataclass
class Event:
    number: int
    point: list[float]
    depth: int | None
    value: float | None  # None: in flight
    gone: bool = False


def draw_events(draw: st.DrawFn, space: SearchSpace) -> list[Event]:
    n = draw(st.integers(1, 25))
    events = []
    for number in range(n):
        u = [draw(st.floats(0, 1)) for _ in range(len(space))]
        point = space.to_unit(space.from_unit(u))
        assert point is not None
        depth = draw(st.none() | st.integers(0, 6))
        value = draw(
            st.none() | st.floats(-5, 5) | st.sampled_from([math.nan, math.inf, -math.inf])
        )
        events.append(Event(number, point, depth, value, draw(st.booleans()) and number % 5 == 0))
    return events


@st.composite
def mixed_events(draw: st.DrawFn) -> tuple[int, list[Event]]:
    branching = draw(st.sampled_from([2, 3]))
    return branching, draw_events(draw, SearchSpace(MIXED, branching=branching))


def fill(tree: Tree, events: Sequence[Event]) -> None:
    for event in events:
        tree.place(event.number, event.point, event.depth)
        if event.value is not None:
            tree.tell(event.number, event.value)
        if event.gone:
            tree.remove(event.number)


def rewards(tree: Tree, values: list[float]) -> FloatArray:
    return tree._rewards.of(np.array(values, dtype=float))


@given(mixed_events())
def test_counts_and_means_are_those_of_the_trials_in_the_cell(
    case: tuple[int, list[Event]],
) -> None:
    branching, events = case
    tree = make_tree(MIXED, branching=branching)
    fill(tree, events)
    present = [e for e in events if not e.gone]
    for (lower, upper), (n_asked, n_told, mean) in cells(tree).items():
        inside = [
            e
            for e in present
            if all(
                # A point on an inner face lies in neither cell.
                (a + 1e-12 < x or a == 0) and (x < b - 1e-12 or b == 1)
                for a, x, b in zip(lower, e.point, upper)
            )
        ]
        told = [float(tree._trials.believed[e.number]) for e in inside if e.value is not None]
        assert (n_asked, n_told) == (len(inside), len(told))
        if told:
            assert mean == pytest.approx(rewards(tree, told).mean())


@given(mixed_events(), st.integers(0, 1000))
def test_the_order_of_the_trials_does_not_matter(case: tuple[int, list[Event]], seed: int) -> None:
    branching, events = case
    trees = [make_tree(MIXED, branching=branching, prior_std=1.0) for _ in range(2)]
    shuffled = random.Random(seed).sample(events, len(events))
    for tree, order in zip(trees, (events, shuffled)):
        fill(tree, order)
        tree.refresh()
    ours, theirs = (cells(tree) for tree in trees)
    assert ours.keys() == theirs.keys()
    for cell, statistics in ours.items():
        assert statistics == pytest.approx(theirs[cell])


@given(mixed_events())
def test_the_leaves_partition_the_cube(case: tuple[int, list[Event]]) -> None:
    branching, events = case
    tree = make_tree(MIXED, branching=branching)
    fill(tree, events)
    found = cells(tree)
    nodes = tree._nodes
    n_leaves = int(np.count_nonzero(nodes.first_child[: tree.n_nodes] < 0))
    leaves = [
        (lower, upper)
        for lower, upper in found
        if not any(
            other != (lower, upper)
            and all(a <= c and d <= b for a, b, c, d in zip(lower, upper, *other))
            for other in found
        )
    ]
    assert len(leaves) == n_leaves
    volume = sum(math.prod(b - a for a, b in zip(*leaf)) for leaf in leaves)
    assert volume == pytest.approx(1.0)


def naive_b_min(tree: Tree, node: int, instance: int, policy: Policy) -> float:
    """Eq. 3, by recursion."""
    nodes = tree._nodes
    n = int(nodes.n_told[node])
    nu, rho = INSTANCES[instance]
    bound = math.inf
    if n:
        mean = nodes.total[node] / n
        statistics = NodeStatistics(
            mean=np.array([mean]),
            variance=np.array([max(nodes.square[node] / n - mean**2, 0.0)]),
            n_told=np.array([float(n)]),
            n_asked=np.array([float(nodes.n_asked[node])]),
            depth=np.array([float(nodes.depth[node])]),
            log_t=math.log(2 ** int(math.log2(max(tree.n_asked, 1)))),
            unit=tree._rewards.unit,
        )
        bound = float(policy.bound(statistics)[0])
    if nodes.final[node]:
        if nodes.n_asked[node] > n:
            return -math.inf
        return bound - 1e6 if n and tree._is_exact else bound
    bound += nu * rho ** int(nodes.depth[node])
    first = int(nodes.first_child[node])
    if first < 0 or not nodes.n_asked[node]:
        return bound
    children = range(first, first + int(nodes.n_children[node]))
    return min(bound, max(naive_b_min(tree, c, instance, policy) for c in children))


@settings(max_examples=60)
@given(mixed_events(), st.sampled_from([DUCBV(c=0.5), DUCB1()]), st.integers(0, 5))
def test_b_min_is_that_of_a_naive_recursion(
    case: tuple[int, list[Event]], policy: Policy, every: int
) -> None:
    branching, events = case
    tree = make_tree(MIXED, branching=branching, policy=policy, instances=INSTANCES)
    for i, event in enumerate(events):
        fill(tree, [event])
        if every and i % every == 0:
            tree.select(i, rng(i))  # refreshes along the changed paths, and splits
    tree.refresh()
    for node in range(tree.n_nodes):
        for instance in range(len(INSTANCES)):
            expected = naive_b_min(tree, node, instance, policy)
            assert b_min(tree, node, instance) == pytest.approx(expected)


@given(mixed_events())
def test_a_trial_that_is_removed_leaves_no_trace_in_the_counts(
    case: tuple[int, list[Event]],
) -> None:
    branching, events = case
    tree = make_tree(MIXED, branching=branching)
    fill(tree, events)
    for event in events:
        tree.remove(event.number)
    assert (tree.n_asked, tree.n_told) == (0, 0)
    assert all(statistics[:2] == (0, 0) for statistics in cells(tree).values())
    assert tree.select(0, rng()).depth == 0


@given(mixed_events(), st.integers(0, 3))
def test_every_ask_finds_a_cell_of_its_own(case: tuple[int, list[Event]], seed: int) -> None:
    """An empty one, or a single value."""
    branching, events = case
    space = SearchSpace(MIXED, branching=branching)
    tree = Tree(space, DUCBV(), lambda _: INSTANCES, 2.0)
    fill(tree, events)
    leaf = tree.select(seed, rng(seed))
    point = space.to_unit(space.from_unit([(a + b) / 2 for a, b in zip(leaf.lower, leaf.upper)]))
    assert point is not None
    assert all(a <= x <= b for a, x, b in zip(leaf.lower, point, leaf.upper))
    n_asked = cells(tree)[tuple(leaf.lower), tuple(leaf.upper)][0]
    assert n_asked == 0 or space.split(leaf.lower, leaf.upper) is None


def test_a_tree_knows_at_which_points_it_was_asked() -> None:
    space = SearchSpace({"x": FloatDistribution(1e-4, 3, log=True), "y": FloatDistribution(0, 7)})
    tree = Tree(space, DUCBV(), Smoothness(1.0, 0.5).instances)
    positions = (np.random.default_rng(0).integers(0, 3, (20, 2)) / 2).tolist()
    for number, position in enumerate(positions):  # corners, and centres of cells
        point = space.to_unit(space.from_unit(position))
        assert point is not None
        assert tree.locate(point)[2] == (position in positions[:number])
        tree.place(number, point)


@given(
    order=st.permutations(range(12)),
    ended_at=st.lists(st.integers(0, 6), min_size=12, max_size=12),
    taken_back=st.integers(0, 11),
)
def test_the_trials_learned_from_are_those_that_ended_first(
    order: list[int], ended_at: list[int], taken_back: int
) -> None:
    """Also if clocks differ, and a trial with an earlier end is read later."""

    def told(tree: Tree, number: int) -> None:
        tree.place(number, [number / 12])
        tree.tell(number, float(number), ended_at=ended_at[number])

    live, checkpoint = make_tree(), Checkpoint(1.25)
    seen: dict[Reference, list[list[float]]] = {}
    heard: set[int] = set()
    for number in [*order, taken_back]:
        if number in heard:
            live.remove(number)
            heard.remove(number)
        else:
            told(live, number)
            heard.add(number)
        reference = live.reference(checkpoint)
        points = live.told(reference).points.tolist()
        assert seen.setdefault(reference, points) == points
        fresh = make_tree()
        for i in sorted(heard):
            told(fresh, i)
        assert points == fresh.told(fresh.reference(Checkpoint(1.25))).points.tolist()
        first = sorted(heard, key=lambda i: (ended_at[i], i))[: len(points)]
        assert points == [[i / 12] for i in sorted(first)]
        assert len(points) >= len(heard) / 1.25 - 1
