"""The paper's own experiment, a tiny one, and its page."""

from __future__ import annotations

import math
from pathlib import Path

from helpers import run_module
import numpy as np
import pytest

from benchmarks.methods import Entry
from benchmarks.methods import METHODS
from benchmarks.methods import Task
from benchmarks.paper import execute
from benchmarks.paper import Page
from benchmarks.paper import RECORDS
from benchmarks.paper import Run
from benchmarks.paper_tables import best_pcts
from benchmarks.paper_tables import FINAL
from benchmarks.paper_tables import NU
from benchmarks.paper_tables import SYSTEMS
from benchmarks.paper_tables import TREES
from benchmarks.problems import MULTI_FIDELITY
from benchmarks.run import Result


PROBLEMS = [problem.name for problem in MULTI_FIDELITY]


def test_the_tables_of_the_paper_are_whole() -> None:
    systems = {system for _, system in FINAL["constant 4"]}
    assert systems == {system for _, system in FINAL["geometric 0.1"]}
    assert systems - set(SYSTEMS.values()) <= set(METHODS)
    for delay, final in FINAL.items():
        assert set(final) == {(problem, system) for problem in PROBLEMS for system in systems}
        assert all(row.largest >= row.median and row.std > 0 for row in final.values())
        assert len(TREES[delay]) == 4 * len(PROBLEMS)
        # With both children of each cell that was split, and the root.
        assert all(row.n_nodes == 2 * row.n_iterations + 1 for row in TREES[delay].values())
    assert best_pcts("Hartmann6", "constant 4") == ("PCTS+DUCB1-sigma", 3.305830186)
    assert best_pcts("Branin", "geometric 0.1") == ("PCTS+DUCBV", -0.398084)


def test_the_printed_smoothness_is_that_of_functions_without_noise() -> None:
    """The program changes the first coefficient alone: alpha_1 of Hartmann, b of Branin."""
    a3, p3 = np.array([3, 10, 30]), np.array([0.3689, 0.1170, 0.2673])
    a6 = np.array([10, 3, 17, 3.5, 1.7, 8])
    p6 = np.array([0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886])

    def branin(z: float) -> float:
        b = 5.1 / (4 * math.pi**2) - 0.01 * (1 - z)
        return (7.5 - b * 2.5**2 + 5 / math.pi * 2.5 - 6) ** 2

    def change(problem: str) -> float:
        (whole,) = (p for p in MULTI_FIDELITY if p.name == problem)
        middle = (whole.low + whole.high) / 2
        return abs(whole.function(middle, 0.8) - whole.function(middle, 0.2))

    changes = {
        "Hartmann3": 0.06 * math.exp(-(a3 * (0.5 - p3) ** 2).sum()),
        "Hartmann6": 0.06 * math.exp(-(a6 * (0.5 - p6) ** 2).sum()),
        "CurrinExp": change("CurrinExp"),
        "Borehole": change("Borehole"),
        "Branin": abs(branin(0.8) - branin(0.2)),
    }
    for problem, printed in NU.items():
        assert math.sqrt(2) * changes[problem] / 0.6 == pytest.approx(float(printed), rel=1e-9)


def test_a_run_is_evaluated_at_several_times() -> None:
    run = Run("Branin", "PCTS", "constant 4", "none", 0, 60)
    rows = execute(run)
    assert [row.seconds for row in rows] == [10, 25, 50, 60]
    assert list(rows)[-1] == run  # with it the run is known
    assert [r.n_told for r in rows.values()] == [5, 19, 43, 53]  # an evaluation takes 1.05 s
    # Without noise the best trial is the best point there is.
    best = [r.regret_best for r in rows.values()]
    assert best == sorted(best, reverse=True)
    assert best[-1] < best[0]
    assert execute(run)[run].regret == rows[run].regret


def test_methods_that_wait_are_told_the_number_of_evaluations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []

    def make(task: Task) -> Entry:
        told.append(task.n_evaluations)
        return METHODS["SR"](task)

    monkeypatch.setattr("benchmarks.paper.METHODS", {"SR": make})
    run = Run("Hartmann3", "SR", "constant 4", "normal", 0, 100)
    assert execute(run)[run].n_told == told[-1] == 20


def test_the_experiment_is_run_and_reported(tmp_path: Path) -> None:
    arguments = ["benchmarks.paper", "--results", str(tmp_path)]
    methods = ["PCTS", "PCTS, as in the paper", "Random", "MFPOO+UCBV", "SR"]
    small = [
        *("--problems", "Hartmann6", "Branin", "Schwefel", "--methods", *methods),
        *("--delays", "constant 4", "--seconds", "30", "--seeds", "1", "--jobs", "1"),
    ]
    # Five methods on three functions; Laplace noise on one; the trees without noise on two.
    assert "26 runs; 0 are known" in run_module(*arguments, *small).stderr
    found = RECORDS.read(tmp_path / "paper.csv")
    assert len(found) == 26 * 3
    for run, result in found.items():
        assert (result.n_trials < 10) == (run.method in ("MFPOO+UCBV", "SR") or run.seconds < 10)
    run_module(*arguments, "--report", "--output", str(tmp_path / "paper.md"))
    page = (tmp_path / "paper.md").read_text()
    assert "| constant 4 | Branin | -0.397887 | -0.3988127406 | PCTS+DUCBV |" in page
    assert "| Branin | MFPOO+UCBV |" in page
    assert "![Delay constant 4](figures/paper-constant-4.png)" in page
    assert 0 < (tmp_path / "figures" / "paper-constant-4.png").stat().st_size < 100_000


def test_the_page_says_where_the_goal_is_reached(tmp_path: Path) -> None:
    def result(regret: float) -> Result:
        return Result(regret, 2 * regret, 600, 596, 20, 1201, 1.0)

    regrets = {
        ("Branin", "PCTS", "normal"): (0.0001, 0.0002, 0.5),
        ("Branin", "SR", "normal"): (0.004, 0.003, 0.002),
        ("Branin", "PCTS, as in the paper", "normal"): (0.1, 0.2, 0.3),
        ("Hartmann6", "PCTS", "normal"): (0.02, 0.03, 0.01),
        ("Hartmann6", "PCTS", "laplace"): (0.03, 0.04, 0.02),
    }
    page = Page(
        {
            Run(problem, method, "constant 4", noise, seed, 600): result(regret)
            for (problem, method, noise), row in regrets.items()
            for seed, regret in enumerate(row)
        },
        tmp_path,
    )
    text = page.text([])
    assert "- PCTS, with noise: reached on Branin (constant 4)." in text
    assert "- PCTS, as in the paper, with noise: reached on none." in text
    row = "| PCTS | **-0.398087** | -0.897887 | -0.397987 | 0.24 | -0.398287 |  | -0.3988127406 |"
    assert row in text
    assert "| Branin | 0.003 | 0.0002 | 15 | 0.2 | 0.015 |" in text
    assert "| PCTS | 3.302368 | 3.292368 | 3.282368 | 3.302368 | 0.0082 |" in text
