"""Recorded tasks on the simulated clock, live ones in worker processes, and their page."""

from __future__ import annotations

from dataclasses import asdict
import itertools
import math
from pathlib import Path
import random

from helpers import ROOT
from helpers import run_module
import numpy as np
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
import pytest


pytest.importorskip("sklearn")

from benchmarks.ml import compare
from benchmarks.ml import record
from benchmarks.ml import report
from benchmarks.ml.compare import Result
from benchmarks.ml.compare import Run
from benchmarks.ml.replay import replay
from benchmarks.ml.tasks import MAX_STEP
from benchmarks.ml.tasks import NAMES
from benchmarks.ml.tasks import STEPS
from benchmarks.ml.tasks import TASKS
from benchmarks.problems import HARTMANN3
from benchmarks.simulation import ConstantDelay
from benchmarks.simulation import Simulation


def fidelity_of(name: str, samples: int) -> float:
    low, high = TASKS["recorded"][name].samples
    return (samples - low) / (high - low)


@pytest.mark.parametrize("name", NAMES)
def test_on_the_grid_a_replay_has_the_recorded_numbers(name: str) -> None:
    problem, task = replay(name), TASKS["recorded"][name]
    known = record.records(name).read(record.TABLES / f"{name}.csv")
    for node in random.Random(0).sample(list(record.nodes(name)), 100):
        expected = known[record.same(node)]
        point = problem.point(asdict(node))
        z = fidelity_of(name, node.samples)
        assert problem.function(point, z) == pytest.approx(expected.accuracy)
        assert problem.seconds(point, z) == pytest.approx(expected.seconds)
        noise = expected.spread / math.sqrt(task.n_folds)
        assert problem.noise(point, z) == pytest.approx(noise)
    whole = [e.accuracy for node, e in known.items() if node.samples == task.samples[1]]
    assert problem.optimum == pytest.approx(max(whole))
    assert problem.regret(np.array(problem.best_points[0])) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_small_and_complete(name: str) -> None:
    path = record.TABLES / f"{name}.csv"
    assert path.stat().st_size < 300_000
    known = record.records(name).read(path)
    assert {record.same(node) for node in record.nodes(name)} == set(known)
    assert all(0 <= e.accuracy <= 1 and e.seconds > 0 for e in known.values())


def test_between_the_nodes_values_are_interpolated_linearly() -> None:
    problem = replay("svm")
    nodes = record.GRIDS["svm"][1]["C"]
    a, b = math.log(nodes[7]), math.log(nodes[8])
    gamma = nodes[4]
    ends = [problem.function(problem.point({"C": math.exp(c), "gamma": gamma}), 1) for c in (a, b)]
    middle = {"C": math.exp((a + b) / 2), "gamma": gamma}
    assert problem.function(problem.point(middle), 1) == pytest.approx(sum(ends) / 2)
    # And in the logarithm of the number of samples.
    point = problem.point({"C": nodes[8], "gamma": gamma})
    at = [problem.function(point, fidelity_of("svm", n)) for n in (100, 200, 400)]
    assert at[1] == pytest.approx((at[0] + at[2]) / 2)


def test_an_incomplete_table_is_not_replayed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"benchmarks\.ml\.record svm"):
        replay("svm", tmp_path)
    lines = (record.TABLES / "svm.csv").read_text().splitlines(keepends=True)
    (tmp_path / "svm.csv").write_text("".join(lines[:-1]))
    with pytest.raises(FileNotFoundError, match="has nothing about SVMNode"):
        replay("svm", tmp_path)


@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_each_step_costs_a_training_of_its_own(delay: float) -> None:
    problem = replay("svm")
    simulation = Simulation(
        problem, RandomSampler(seed=0), NopPruner(), n_workers=1, n_steps=MAX_STEP,
        reports=STEPS, seed=0, delay=ConstantDelay(delay), waits=True,
    )  # fmt: skip
    simulation.run(60.0)
    trials = simulation.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    assert trials
    for trial in trials:
        assert tuple(trial.intermediate_values) == STEPS
        point = problem.point(trial.params)
        assert trial.duration is not None
        assert trial.duration.total_seconds() == pytest.approx(
            sum(problem.seconds(point, step / MAX_STEP) + delay for step in STEPS), abs=1e-5
        )


def test_with_a_delay_an_evaluation_that_resumes_pays_its_cost_once() -> None:
    simulation = Simulation(
        HARTMANN3, RandomSampler(seed=0), NopPruner(), n_workers=1, n_steps=9, seed=0,
        delay=ConstantDelay(2.0),
    )  # fmt: skip
    simulation.run(100.0)
    first = simulation.study.trials[0]
    assert first.duration is not None
    assert first.duration.total_seconds() == pytest.approx(HARTMANN3.cost(1.0) + 9 * 2.0)


def result(accuracy: float) -> Result:
    return Result(accuracy, accuracy, 10, 5, 3, 7, 1.0)


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([0.9, 0.92, 0.94], "best"),
        ([0.7, 0.86, 0.9], "0.0400 behind TPE, within its spread"),
        ([0.7, 0.8, 0.95], "0.1000 behind TPE, beyond its spread"),
    ],
)
def test_the_page_says_when_pcts_loses(mine: list[float], verdict: str) -> None:
    cells = {("svm", "PCTS"): [*map(result, mine)], ("svm", "TPE"): [*map(result, (0.85, 0.9, 1))]}
    assert report.verdict(cells, "svm", ["PCTS"]) == verdict
    assert f"PCTS as it is: svm: {verdict}." in report.table(cells)


def test_a_comparison_is_replayed_kept_and_reported(tmp_path: Path) -> None:
    methods = "PCTS", "PCTS, fidelity", "PCTS, steps", "MFPOO+UCBV", "Random, halving"
    arguments = [
        *("benchmarks.ml.compare", "--seeds", "1", "--evaluations", "30", "--jobs", "1"),
        *("--delays", "none", "constant 4", "--results", str(tmp_path), "--methods", *methods),
    ]
    run_module(*arguments)
    assert "0 runs; 30 are known" in run_module(*arguments).stderr
    results = compare.RECORDS.read(tmp_path / "runs.csv")
    for name, method in itertools.product(NAMES, methods):
        found = [r for run, r in results.items() if (run.task, run.method) == (name, method)]
        assert len(found) == 2
        best = compare.recorded(name).optimum
        assert all(0 < r.accuracy <= best + 1e-6 for r in found)
        assert all((r.height > 1) == (method != "Random, halving") for r in found)
        if method == "PCTS":
            assert all(r.n_whole == r.n_trials > 1 for r in found)
    # The same seed, the same result; but for how long it took.
    run = next(iter(results))
    again = compare.run_replay(run)
    assert f"{again.accuracy:.6g}" == f"{results[run].accuracy:.6g}"
    page = tmp_path / "page.md"
    run_module("benchmarks.ml.report", "--results", str(tmp_path), "--output", str(page))
    text = page.read_text()
    assert "## Replayed: time for 30 full evaluations, 2 workers, 1 seed" in text
    assert "2 workers, delay constant 4, 1 seed" in text
    assert "| 16 / 81 / 40 |" in text  # table 7 of the paper


def test_a_live_comparison_has_worker_processes(tmp_path: Path) -> None:
    methods = "PCTS, fidelity", "PCTS, steps", "MFPOO+UCBV"
    run_module(
        *("benchmarks.ml.compare", "--live", "--tasks", "svm", "--seconds", "1.5", "--seeds", "1"),
        *("--delays", "constant 0.05", "--results", str(tmp_path), "--methods", *methods),
    )
    results = compare.RECORDS.read(tmp_path / "runs.csv")
    assert {run.method for run in results} == set(methods)
    for run, found in results.items():
        assert run == Run("digits", "svm", run.method, 2, "constant 0.05", 1.5, 0)
        assert found.n_trials >= 2
        assert found.n_nodes > found.height > 1
        assert found.real_seconds > 1.5
        assert found.accuracy > 0.5


def test_the_page_is_that_of_the_results() -> None:
    results = compare.RECORDS.read(compare.RESULTS / "runs.csv")
    page = (ROOT / "benchmarks" / "ml" / "README.md").read_text()
    for setting, cells in report.by_setting(results).items():
        assert f"## {report.title(setting, cells)}\n" in page
        assert "\n".join(report.table(cells)) in page
    assert all(len({run.seed for run in results if run.task == name}) >= 5 for name in NAMES)
