"""Theorem 2, measured with few runs."""

from __future__ import annotations

from pathlib import Path
import re

from helpers import run_module
import numpy as np
import pytest

from benchmarks.methods import AS_IN_PAPER
from benchmarks.theory import bound
from benchmarks.theory import bound_slope
from benchmarks.theory import cone
from benchmarks.theory import DELAYS
from benchmarks.theory import execute
from benchmarks.theory import Page
from benchmarks.theory import RECORDS
from benchmarks.theory import Result
from benchmarks.theory import Run
from benchmarks.theory import tau_of
from benchmarks.theory import WAITING


def test_the_cone_has_its_top_somewhere_else_for_each_seed() -> None:
    tops = [cone(2, seed).best_points[0] for seed in range(5)]
    assert len(set(tops)) == 5
    problem = cone(2, 0)
    assert problem.optimum == 1.0
    assert problem.regret(np.array(tops[0]) + np.array([0.02, -0.05])) == pytest.approx(0.05)


def test_bounds() -> None:
    horizons = [10**k for k in range(2, 30)]
    undelayed = bound_slope("none", horizons)
    assert undelayed == pytest.approx(-0.5, abs=0.03)  # but for the logarithm
    assert bound_slope("2 log T", horizons) == pytest.approx(undelayed)  # consequence 4
    assert bound_slope("T^0.5", horizons) == pytest.approx(-0.5 / 2, abs=0.01)  # -alpha / (d + 2)
    for tau in (1.5, 8.0, 100.0):
        assert bound(1000, tau) < bound(1000, tau, waits=True)  # consequence 2


def test_one_run_does_not_wait_and_the_other_does() -> None:
    free, waiting = (Run(1, method, 60, 9.0, 0) for method in (AS_IN_PAPER, WAITING))
    mine, other = execute(free)[free], execute(waiting)[waiting]
    assert (mine.n_trials, other.n_trials) == (61, 7)
    assert mine.mean_regret < other.mean_regret
    assert mine.height > other.height


def test_it_is_run_and_the_page_says_what_is_seen(tmp_path: Path) -> None:
    arguments = [
        *("benchmarks.theory", "--results", str(tmp_path), "--output", str(tmp_path / "t.md")),
        *("--horizons", "20", "40", "--tau-horizon", "40", "--seeds", "2", "--jobs", "1"),
    ]
    run_module(*arguments)
    found = RECORDS.read(tmp_path / "theory.csv")
    assert {run.horizon for run in found} == {20, 40}
    assert {run.seed for run in found} == {0, 1}
    page = (tmp_path / "t.md").read_text()
    assert len(re.findall(r"^\| [^|]+ \| wait and act \| -?\d\.\d\d \[", page, re.M)) == 4
    for name in ("time", "delay", "depth"):
        assert f"figures/theory-{name}-1d.png" in page
        assert 0 < (tmp_path / "figures" / f"theory-{name}-1d.png").stat().st_size < 100_000


def test_the_page_reports_losses(tmp_path: Path) -> None:
    """It says where the rate is not kept, and where wait and act has the lower regret."""
    horizons = (10, 100, 1000)

    def result(method: str, delay: str, t: int, seed: int) -> Result:
        is_slow = delay == "T^0.75" or (delay == "2 log T" and method == WAITING)
        regret = t ** (-0.1 if is_slow else -0.5) * (1 + 0.01 * seed)
        return Result(regret, regret, 30 if method == WAITING else 20, t)

    results = {
        Run(1, method, t, tau_of(delay, t), seed): result(method, delay, t, seed)
        for method in (AS_IN_PAPER, WAITING)
        for delay in DELAYS
        for t in horizons
        for seed in range(3)
    }
    text = "\n".join(Page(results, 1, tmp_path).lines())
    assert "| T^0.75 | PCTS, as in the paper | -0.10 [-0.10, -0.10] |" in text
    assert "- Without delay the slope is -0.50 [-0.50, -0.50]: over these horizons steeper" in text
    assert "- Delay T^0.75: the rate is lost. The slope is +0.40 [+0.40, +0.40]" in text
    assert "- Delay 2 log T: no loss of rate is seen." in text
    assert "- Delay 2 log T: lower regret than wait and act at 3 of 3 horizons" in text
    assert "- Delay T^0.5: lower regret than wait and act at 0 of 3 horizons" in text
    assert "Deeper than when it waits at 0 of 1 delays" in text
