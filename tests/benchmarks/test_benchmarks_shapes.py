"""The wider set of problems: their optima, runs on them, and what the report says of these."""

from __future__ import annotations

from pathlib import Path
import re

from helpers import run_module
import numpy as np
import pytest

from benchmarks.problems import FloatArray
from benchmarks.problems import Problem
from benchmarks.report import report
from benchmarks.run import read
from benchmarks.run import Result
from benchmarks.run import Run
from benchmarks.shapes import Shape
from benchmarks.shapes import WIDE


NAMES = [shape.name for shape in WIDE]


def climb(problem: Problem, start: FloatArray, rng: np.random.Generator) -> float:
    """Return the lowest regret that steps of any size, in few or all parameters, come to."""
    here, step = start, 0.3
    lowest = problem.regret(problem.at(here))
    for _ in range(400):
        moves = rng.random(problem.n_dims) < rng.choice([1.5 / problem.n_dims, 1.0])
        there = np.clip(here + step * moves * rng.normal(size=problem.n_dims), 0.0, 1.0)
        regret = problem.regret(problem.at(there))
        if regret < lowest:
            here, lowest, step = there, regret, 1.5 * step
        else:
            step = max(0.93 * step, 1e-4)
    return lowest


@pytest.mark.parametrize("shape", WIDE, ids=NAMES)
def test_no_point_is_better_than_the_optimum(shape: Shape) -> None:
    for seed in range(3):
        problem = shape.instance(np.random.default_rng(seed))
        (best,) = problem.best_points
        assert problem.optimum == problem.regret(np.array(best)) == 0
        assert ((problem.low <= best) & (best <= problem.high)).all()
        rng = np.random.default_rng(seed)
        positions = rng.random((300, problem.n_dims))
        regrets = [problem.regret(problem.at(position)) for position in positions]
        assert min(regrets) >= 0
        assert np.median(regrets) == pytest.approx(1.0, rel=0.2)  # a random point has 1
        start = positions[np.argmin(regrets)]
        assert 0 <= climb(problem, start, rng) < 0.9 * max(min(regrets), 1e-9)


@pytest.mark.parametrize("shape", WIDE, ids=NAMES)
def test_each_seed_has_its_own_optimum(shape: Shape) -> None:
    a, b, again = (shape.instance(np.random.default_rng(seed)) for seed in (0, 1, 0))
    assert a.best_points != b.best_points
    assert a.best_points == again.best_points
    point = a.at(np.full(a.n_dims, 0.4))
    assert a.function(point, 1.0) == again.function(point, 1.0) != b.function(point, 1.0)


def test_the_set_covers_many_kinds_of_problems() -> None:
    problems = [shape.instance(np.random.default_rng(0)) for shape in WIDE]
    assert len({problem.name for problem in problems}) == len(problems) >= 8
    assert {2, 20} <= {problem.n_dims for problem in problems}
    kinds = {type(d).__name__ for problem in problems for d in problem.space.values()}
    assert len(kinds) == 3  # floats, integers and categories


def test_optima_on_faces() -> None:
    (shape,) = [shape for shape in WIDE if shape.name == "Faces6"]
    bests = [shape.instance(np.random.default_rng(seed)).best_points[0] for seed in range(10)]
    share = np.isin(bests, [0.0, 1.0]).mean()
    assert 0.3 < share < 0.7


def test_they_run_and_are_reported(tmp_path: Path) -> None:
    run_module(
        *("benchmarks.run", "--results", str(tmp_path), "--problems", "wide"),
        *("--methods", "PCTS", "TPE", "Random", "--workers", "4", "--jobs", "1"),
        *("--delays", "constant 4", "--evaluations", "25", "--seeds", "1"),
    )
    found = read(tmp_path / "runs.csv")
    assert {(run.problem, run.method) for run in found} == {
        (problem, method) for problem in NAMES for method in ("PCTS", "TPE", "Random")
    }
    assert all(0 <= result.regret < 5 for result in found.values())
    page = report(found, [])
    assert re.search(r"\nOf 1 settings, .* leads in 1", page)
    (ranks,) = re.findall(
        r"^\| 25 \| constant 4 \| normal \| 4 \| 1 \| (.*) \|$", page, re.MULTILINE
    )
    assert sum(float(rank.strip("*")) for rank in ranks.split(" | ")) == pytest.approx(6, abs=0.2)


def test_the_wider_set_stands_apart_in_the_report() -> None:
    regrets = {
        ("Branin", "PCTS"): 1.0,
        ("Branin", "TPE"): 2.0,
        ("Flags12", "PCTS"): 0.0,
        ("Flags12", "TPE"): 0.0,
        ("Flags12", "Random"): 0.5,
        ("Faces6", "PCTS"): 0.3,
        ("Faces6", "TPE"): 0.1,
        ("Faces6", "Random"): 0.2,
    }
    page = report(
        {
            Run(problem, method, 8, "none", "normal", 50, 0): Result(x, x, 50, 50, 0, 0, 0.0)
            for (problem, method), x in regrets.items()
        },
        [],
    )
    paper, wide = page.split("## The wider set\n")
    assert "| 50 | none | normal | 8 | 1 | 1 of 1 |  |" in paper
    assert "Flags12" not in paper
    assert "Branin" not in wide
    assert "Of 1 settings, TPE leads in 1." in wide
    assert "| 50 | none | normal | 8 | 1 | 2.2 | **1.2** | 2.5 |" in wide
    assert "| Faces6 | Flags12 | rank |" in wide
