"""The unit cube: round trips of every kind of parameter, and how cells are cut."""

from __future__ import annotations

from decimal import Decimal
import itertools
import math
from typing import Any

from hypothesis import example
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest

from optuna_pcts._space.space import SearchSpace
from optuna_pcts._tree.partition import Split


Cell = tuple[list[float], list[float]]

UNIT = FloatDistribution(0.0, 1.0)


# ---------------------------------------------------------------------- every kind of parameter


@st.composite
def floats(draw: st.DrawFn) -> FloatDistribution:
    numbers = st.floats(-1e308, 1e308, allow_subnormal=False)
    low, high = sorted([draw(numbers), draw(numbers)])
    return FloatDistribution(low, high)


@st.composite
def log_floats(draw: st.DrawFn) -> FloatDistribution:
    numbers = st.floats(1e-300, 1e300)
    low, high = sorted([draw(numbers), draw(numbers)])
    return FloatDistribution(low, high, log=True)


@st.composite
def stepped_floats(draw: st.DrawFn) -> FloatDistribution:
    # Decimal, so that the range is a whole number of steps: Optuna warns otherwise.
    low = Decimal(draw(st.integers(-(10**6), 10**6))).scaleb(-3)
    step = Decimal(draw(st.integers(1, 5000))).scaleb(-3)
    high = low + step * draw(st.integers(0, 10**4))
    return FloatDistribution(float(low), float(high), step=float(step))


@st.composite
def ints(draw: st.DrawFn) -> IntDistribution:
    low = draw(st.integers(-(10**12), 10**12))
    step = draw(st.integers(1, 1000) | st.just(1))
    n_steps = draw(st.integers(0, 10) | st.integers(0, 10**12 // step))
    return IntDistribution(low, low + n_steps * step, step=step)


@st.composite
def log_ints(draw: st.DrawFn) -> IntDistribution:
    numbers = st.integers(1, 20) | st.integers(1, 10**12)
    low, high = sorted([draw(numbers), draw(numbers)])
    return IntDistribution(low, high, log=True)


def categoricals() -> st.SearchStrategy[CategoricalDistribution]:
    choices = st.none() | st.booleans() | st.integers(2) | st.text(max_size=3)
    return st.lists(choices, min_size=1, max_size=8, unique=True).map(CategoricalDistribution)


CONTINUOUS = floats() | log_floats()
DISCRETE = stepped_floats() | ints() | log_ints() | categoricals()
ANY = CONTINUOUS | DISCRETE
POSITIONS = st.floats(0.0, 1.0)


def holds(distribution: BaseDistribution, value: Any) -> bool:
    """Whether a value is in a distribution, and of the very type that Optuna would give."""
    if isinstance(distribution, CategoricalDistribution):
        return any(value is choice for choice in distribution.choices)
    native = int if isinstance(distribution, IntDistribution) else float
    return type(value) is native and distribution._contains(distribution.to_internal_repr(value))


def position(space: SearchSpace, value: Any) -> float:
    point = space.to_unit({"x": value})
    assert point is not None
    return point[0]


# ---------------------------------------------------------------------- round trips


@given(ANY, POSITIONS)
@example(FloatDistribution(-1e308, 1e308), 1.0)
@example(FloatDistribution(1e-300, 1e300, log=True), 0.0)
@example(FloatDistribution(1e-300, 1e300, log=True), 1.0)
@example(FloatDistribution(0.0, 1.0, step=0.1), 1.0)
@example(FloatDistribution(3.0, 3.0), 0.7)
@example(FloatDistribution(3.0, 3.0, log=True), 0.7)
@example(IntDistribution(-5, -5), 0.0)
@example(IntDistribution(1, 10**12, log=True), 1.0)
@example(IntDistribution(-(2**53), 2**53), 1.0)
@example(CategoricalDistribution([None]), 1.0)
def test_every_position_is_a_value_of_the_distribution(
    distribution: BaseDistribution, u: float
) -> None:
    value = SearchSpace({"x": distribution}).from_unit([u])["x"]
    assert holds(distribution, value)


@given(DISCRETE, POSITIONS)
@example(IntDistribution(1, 10**12, log=True), 1.0)
@example(IntDistribution(-(10**12), 10**12), 1.0)
@example(IntDistribution(0, 7 * 10**11, step=7), 0.999999)
def test_a_discrete_value_comes_back_exactly(distribution: BaseDistribution, u: float) -> None:
    space = SearchSpace({"x": distribution})
    value = space.from_unit([u])["x"]
    again = space.from_unit([position(space, value)])["x"]
    assert again == value
    assert type(again) is type(value)


@given(CONTINUOUS, POSITIONS)
@example(FloatDistribution(-1e308, 1e308), 1.0)
@example(FloatDistribution(1e-300, 1e300, log=True), 0.3)
def test_a_continuous_position_comes_back_within_the_tolerance(
    distribution: FloatDistribution, u: float
) -> None:
    space = SearchSpace({"x": distribution})
    value = space.from_unit([u])["x"]
    if space.split([0.0], [1.0]) is None:  # a single value, or neighbours among the floats
        assert 0.0 <= position(space, value) <= 1.0
    else:
        assert abs(position(space, value) - u) <= space.tolerance[0]


@given(CONTINUOUS.filter(lambda d: not d.single()))
@example(FloatDistribution(-9.999999999988582e307, -9.999999999988378e307))
def test_the_ends_of_a_continuous_range_are_the_ends_of_its_axis(
    distribution: FloatDistribution,
) -> None:
    space = SearchSpace({"x": distribution})
    ends = position(space, distribution.low), position(space, distribution.high)
    # Neighbours among the floats may have one and the same logarithm.
    is_one_value = space.split([0.0], [1.0]) is None
    assert ends == (0.0, 1.0) or (is_one_value and ends == (0.5, 0.5))


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(0.0, 1.0),
        FloatDistribution(-1e308, 1e308),
        FloatDistribution(1e-300, 1e300, log=True),
    ],
)
def test_the_tolerance_of_a_usual_range_is_a_rounding_error(
    distribution: FloatDistribution,
) -> None:
    assert SearchSpace({"x": distribution}).tolerance[0] < 1e-14


@given(ANY.filter(lambda d: not isinstance(d, CategoricalDistribution)), POSITIONS, POSITIONS)
def test_values_are_in_the_order_of_their_positions(
    distribution: BaseDistribution, u: float, v: float
) -> None:
    space = SearchSpace({"x": distribution})
    smaller, larger = (space.from_unit([w])["x"] for w in sorted([u, v]))
    assert smaller <= larger


def test_a_log_scale_is_equally_wide_for_each_decade() -> None:
    space = SearchSpace({"x": FloatDistribution(1e-4, 1.0, log=True)})
    values = [space.from_unit([u])["x"] for u in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert values == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])


def test_every_category_has_an_equal_share() -> None:
    space = SearchSpace({"x": CategoricalDistribution(["a", "b", "c", "d"])})
    values = [space.from_unit([(i + 0.5) / 12])["x"] for i in range(12)]
    assert "".join(values) == "aaabbbcccddd"


# ---------------------------------------------------------------------- what is not in the space


def test_a_missing_parameter_is_nan() -> None:
    space = SearchSpace({"x": UNIT, "y": IntDistribution(0, 3), "z": UNIT})
    point = space.to_unit({"z": 0.25})
    assert point is not None
    assert [math.isnan(u) for u in point] == [True, True, False]
    assert point[2] == 0.25


@pytest.mark.parametrize(
    ("distribution", "value"),
    [
        (UNIT, 1.1),
        (UNIT, -math.inf),
        (UNIT, math.nan),
        (UNIT, "a"),
        (UNIT, None),
        (FloatDistribution(1e-3, 1.0, log=True), 0.0),
        (FloatDistribution(1e-3, 1.0, log=True), -1.0),
        (FloatDistribution(0.0, 1.0, step=0.5), 1.5),
        (FloatDistribution(2.0, 2.0), 3.0),
        (IntDistribution(0, 10, step=5), 15),
        (IntDistribution(0, 10), -1),
        (IntDistribution(0, 10), "a"),
        (IntDistribution(1, 10, log=True), 0),
        (IntDistribution(1, 10, log=True), None),
        (CategoricalDistribution(["a", "b"]), "c"),
        (CategoricalDistribution(["a", "b"]), 0),
        (CategoricalDistribution(["a", "b"]), None),
    ],
)
def test_a_value_outside_has_no_point(distribution: BaseDistribution, value: Any) -> None:
    space = SearchSpace({"x": distribution, "y": UNIT})
    assert space.to_unit({"x": value, "y": 0.5}) is None


def test_other_parameters_do_not_matter() -> None:
    space = SearchSpace({"x": UNIT})
    assert space.to_unit({"x": 0.5, "somebody_else": "?"}) == [0.5]


def test_axes_are_in_the_order_of_the_names() -> None:
    space = SearchSpace({"b": UNIT, "a": IntDistribution(0, 1)})
    assert space.names == ("a", "b")
    assert len(space) == 2
    assert space.from_unit([0.9, 0.1]) == {"a": 1, "b": 0.1}


# ---------------------------------------------------------------------- cells


def root(space: SearchSpace) -> Cell:
    return [0.0] * len(space), [1.0] * len(space)


def children(cell: Cell, split: Split) -> list[Cell]:
    lower, upper = cell
    edges = [lower[split.dim], *split.cuts, upper[split.dim]]
    found = []
    for low, high in itertools.pairwise(edges):
        child = (lower.copy(), upper.copy())
        child[0][split.dim], child[1][split.dim] = low, high
        found.append(child)
    return found


def final_cells(space: SearchSpace) -> list[Cell]:
    """Split until nothing can be split any more."""
    final = []
    stack = [root(space)]
    while stack:
        cell = stack.pop()
        split = space.split(*cell)
        if split is None:
            final.append(cell)
        else:
            stack.extend(children(cell, split))
    return final


def inside(point: list[float], cell: Cell) -> bool:
    return all(low < u < high for low, u, high in zip(cell[0], point, cell[1]))


SPACES = st.dictionaries(st.sampled_from("abcd"), ANY, min_size=1)


@given(SPACES, st.sampled_from([2, 3]), st.lists(st.integers(0, 2), max_size=60))
def test_children_tile_their_parent(
    distributions: dict[str, BaseDistribution], branching: int, turns: list[int]
) -> None:
    space = SearchSpace(distributions, branching=branching)
    cell = root(space)
    for turn in turns:
        split = space.split(*cell)
        if split is None:
            break
        edges = [cell[0][split.dim], *split.cuts, cell[1][split.dim]]
        assert all(low < high for low, high in itertools.pairwise(edges))
        distribution = distributions[space.names[split.dim]]
        continuous = isinstance(distribution, FloatDistribution) and distribution.step is None
        assert len(split.cuts) == (branching - 1 if continuous else 1)
        family = children(cell, split)
        if continuous:
            widths = [high[split.dim] - low[split.dim] for low, high in family]
            assert widths == pytest.approx([widths[0]] * branching, rel=1e-2)
        cell = family[turn % len(family)]


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(
            st.integers(1, 6).map(lambda n: IntDistribution(-2, n - 3)),
            st.integers(1, 6).map(lambda n: IntDistribution(0, 3 * n, step=3)),
            st.integers(1, 9).map(lambda n: IntDistribution(1, n, log=True)),
            st.integers(0, 5).map(lambda n: FloatDistribution(0.0, n * 0.25, step=0.25)),
            st.integers(1, 5).map(lambda n: CategoricalDistribution(list("abcde")[:n])),
        ),
        min_size=1,
    ),
    st.sampled_from([2, 3]),
)
def test_a_discrete_space_ends_in_cells_of_one_value(
    distributions: dict[str, BaseDistribution], branching: int
) -> None:
    space = SearchSpace(distributions, branching=branching)
    grids = []
    for name in space.names:
        axis = SearchSpace({name: distributions[name]})
        # 1000 positions meet every value of these small distributions.
        grids.append(list(dict.fromkeys(axis.from_unit([u / 1000])[name] for u in range(1001))))
    final = final_cells(space)
    assert len(final) == math.prod(len(grid) for grid in grids)
    for values in itertools.product(*grids):
        params = dict(zip(space.names, values))
        point = space.to_unit(params)
        assert point is not None
        (cell,) = [cell for cell in final if inside(point, cell)]
        centre = [(low + high) / 2 for low, high in zip(*cell)]
        assert space.from_unit(centre) == params


@given(ints() | log_ints() | stepped_floats(), POSITIONS)
@example(IntDistribution(1, 10**12, log=True), 1.0)
@example(IntDistribution(-(10**12), 10**12), 0.3)
def test_a_descent_in_a_large_discrete_range_ends_at_one_value(
    distribution: IntDistribution | FloatDistribution, u: float
) -> None:
    space = SearchSpace({"x": distribution})
    value = space.from_unit([u])["x"]
    point = [position(space, value)]
    cell = root(space)
    for _ in range(80):
        split = space.split(*cell)
        if split is None:
            break
        (cell,) = [child for child in children(cell, split) if inside(point, child)]
    assert space.split(*cell) is None
    assert space.from_unit([(cell[0][0] + cell[1][0]) / 2])["x"] == value
    step = distribution.step or 1
    for neighbour in (value - step, value + step):
        beside = space.to_unit({"x": neighbour})
        assert beside is None or not inside(beside, cell)


@given(CONTINUOUS, POSITIONS, st.sampled_from([2, 3]))
def test_a_descent_in_a_continuous_range_ends(
    distribution: FloatDistribution, u: float, branching: int
) -> None:
    space = SearchSpace({"x": distribution}, branching=branching)
    cell = root(space)
    for _ in range(80):
        split = space.split(*cell)
        if split is None:
            break
        cell = next(c for c in children(cell, split) if c[0][0] <= u <= c[1][0])
    assert space.split(*cell) is None


def test_a_usual_continuous_range_can_be_split_often() -> None:
    space = SearchSpace({"x": FloatDistribution(1e-5, 1.0, log=True)}, branching=2)
    cell = root(space)
    for _ in range(35):
        split = space.split(*cell)
        assert split is not None
        cell = children(cell, split)[0]


def test_a_single_value_is_never_split() -> None:
    space = SearchSpace(
        {
            "a": FloatDistribution(1.0, 1.0),
            "b": IntDistribution(7, 7),
            "c": CategoricalDistribution(["x"]),
            "d": IntDistribution(7, 7, log=True),
            "e": FloatDistribution(1.0, 1.0, log=True),
            "f": FloatDistribution(1.0, 1.0, step=0.5),
        }
    )
    assert space.split(*root(space)) is None
    values = {"a": 1.0, "b": 7, "c": "x", "d": 7, "e": 1.0, "f": 1.0}
    assert space.from_unit([0.5] * 6) == values


# ---------------------------------------------------------------------- which side is cut


@given(
    st.integers(1, 5),
    st.sampled_from([2, 3]),
    st.lists(st.integers(0, 2), min_size=1, max_size=20),
)
def test_the_longest_side_is_cut(n_dims: int, branching: int, turns: list[int]) -> None:
    space = SearchSpace({f"x{i}": UNIT for i in range(n_dims)}, branching=branching)
    cell = root(space)
    for turn in turns:
        split = space.split(*cell)
        assert split is not None
        sides = [high - low for low, high in zip(*cell)]
        assert sides[split.dim] >= max(sides) * (1 - 1e-6)
        cell = children(cell, split)[turn % branching]


def cut_names(space: SearchSpace, n: int) -> str:
    """Return the names of the parameters that are cut on a way down."""
    cell = root(space)
    names = ""
    for _ in range(n):
        split = space.split(*cell)
        assert split is not None
        names += space.names[split.dim]
        cell = children(cell, split)[0]
    return names


def test_equal_sides_are_cut_in_turn() -> None:
    space = SearchSpace({"c": UNIT, "a": UNIT, "b": UNIT})
    assert cut_names(space, 6) == "abcabc"


def test_a_side_with_one_value_left_is_passed_over() -> None:
    space = SearchSpace({"a": CategoricalDistribution([0, 1]), "b": UNIT}, branching=2)
    assert cut_names(space, 6) == "abbbbb"


@pytest.mark.parametrize(
    ("branching", "order"),
    [
        (2, "cccc" + "abababab" + "abcabc"),
        (3, "ccc" + "ababab" + "abcabc"),
    ],
)
def test_split_order_goes_first_until_a_sixteenth(branching: int, order: str) -> None:
    space = SearchSpace(
        {"a": UNIT, "b": UNIT, "c": UNIT, "d": CategoricalDistribution(["only"])},
        branching=branching,
        split_order=["c", ["a", "b"]],
    )
    assert cut_names(space, len(order)) == order


def test_split_order_of_a_discrete_parameter_ends_at_one_value() -> None:
    space = SearchSpace(
        {"a": UNIT, "b": IntDistribution(0, 3)}, branching=2, split_order=["b", "unknown"]
    )
    assert cut_names(space, 5) == "bbaaa"


class Strange(BaseDistribution):
    def to_internal_repr(self, param_value_in_external_repr: Any) -> float:
        return 0.0

    def single(self) -> bool:
        return False

    def _contains(self, param_value_in_internal_repr: float) -> bool:
        return True


def test_a_distribution_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="`odd`"):
        SearchSpace({"odd": Strange()})
