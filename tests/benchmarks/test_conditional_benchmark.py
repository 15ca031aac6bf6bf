"""The benchmark of conditional parameters: its runs, who takes part, its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
import math
from pathlib import Path
import sys
from types import ModuleType

from helpers import run_module
from helpers import skip_if_lacking
import numpy as np
import optuna
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
import pytest


pytest.importorskip("sklearn")

from benchmarks.branches import methods
from benchmarks.branches.methods import able
from benchmarks.branches.methods import AUTO
from benchmarks.branches.methods import FLAT
from benchmarks.branches.methods import GROUP
from benchmarks.branches.methods import METHODS
from benchmarks.branches.methods import PCTS
from benchmarks.branches.methods import RANDOM
from benchmarks.branches.methods import SMAC
from benchmarks.branches.methods import TOLD
from benchmarks.branches.methods import TPE
from benchmarks.branches.problem import Branched
from benchmarks.conditional import execute
from benchmarks.conditional import instance
from benchmarks.conditional import MAIN
from benchmarks.conditional import main
from benchmarks.conditional import MAIN_SEEDS
from benchmarks.conditional import plan
from benchmarks.conditional import PROBLEMS
from benchmarks.conditional import RECORDS
from benchmarks.conditional import Result
from benchmarks.conditional import Run
from benchmarks.conditional import SEEDS
from benchmarks.conditional import simulate
from benchmarks.conditional_page import page
from benchmarks.conditional_page import wilson
from optuna_pcts import PCTSSampler


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(before)


def make(name: str) -> Branched:
    return PROBLEMS[name](np.random.default_rng(0))


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_wait_for_values_that_are_late_and_noisy(workers: int) -> None:
    problem = make("Layers")
    study, seconds = simulate(problem, RandomSampler(seed=0), workers, 60, 0)
    trials = study.trials
    assert (
        [t.state for t in trials]
        == [TrialState.COMPLETE] * len(seconds)
        == [TrialState.COMPLETE] * 60
    )
    spans = [(t.datetime_start, t.datetime_complete) for t in trials]
    assert max(sum(a <= now < b for a, b in spans) for now, _ in spans) == workers  # type: ignore[operator]
    took = [(b - a).total_seconds() for a, b in spans]  # type: ignore[operator]
    assert min(took) >= 2  # one second, and a delay of one at least
    assert np.mean(took) == pytest.approx(11, rel=0.4)
    noise = [t.value - problem.loss(t.params) for t in trials]  # type: ignore[operator]
    assert np.std(noise) == pytest.approx(problem.noise_std, rel=0.3)
    assert min(seconds) > 0


@pytest.mark.parametrize("method", [PCTS, FLAT, TPE, GROUP, RANDOM])
@pytest.mark.parametrize("problem", ["Pipeline", "Ranges"])
def test_a_longer_run_tells_what_a_shorter_one_would(method: str, problem: str) -> None:
    run = Run(problem, method, 3, 24, 0)
    longer = execute(run, [12, 24, 99])
    assert list(longer) == [replace(run, evaluations=12), run]
    for found, result in longer.items():
        alone = execute(found)[found]
        assert (result.regret, result.regret_best) == (alone.regret, alone.regret_best)
        assert 0 <= result.regret < 10


def test_all_methods_have_the_same_instance() -> None:
    runs = [Run("Learners", method, 1, 10, 3) for method in METHODS]
    assert all(instance(run).best == instance(runs[0]).best for run in runs)
    assert instance(replace(runs[0], seed=4)).best != instance(runs[0]).best


def test_only_who_knows_the_end_runs_each_number_of_trials() -> None:
    runs = plan(["Layers"], [PCTS, SMAC], [1, 8], [75, 150, 400], None, 100)
    ours, theirs = ([r for r in runs if r.method == name] for name in (PCTS, SMAC))
    assert len(ours) == 2 * SEEDS + MAIN_SEEDS - SEEDS
    assert len(theirs) == 2 * 3 * SEEDS + MAIN_SEEDS - SEEDS
    assert {r.evaluations for r in ours if r.seed < 100 + SEEDS} == {400}
    late = {(r.evaluations, r.workers) for r in runs if r.seed >= 100 + SEEDS}
    assert late == {MAIN}
    assert len(plan(["Layers"], [PCTS], [1, 8], [75], 2, 0)) == 4


def test_pcts_is_told_of_conditions() -> None:
    problem = make("Nested")
    assert able([TOLD]) == [TOLD]
    told = METHODS[TOLD].make(problem, 0, 10)
    flat = METHODS[FLAT].make(problem, 0, 10)
    assert isinstance(told, PCTSSampler)
    assert isinstance(flat, PCTSSampler)
    assert told.settings.search_space == flat.settings.search_space == problem.space
    assert (told.settings.conditions, flat.settings.conditions) == (problem.conditions, {})


def test_who_cannot_take_part_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(package: str) -> ModuleType:
        raise OSError(f"no network for {package}\nand more")

    monkeypatch.setattr(methods, "_hub", fails)
    monkeypatch.setattr(methods, "find_spec", lambda _: None)
    assert able([PCTS, AUTO, SMAC, TOLD]) == [PCTS, TOLD]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "AutoSampler: it cannot be had from OptunaHub (OSError: no network for" in said[0]
    assert "pip install" in said[1]


def test_a_sampler_of_the_hub_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hub:
        AutoSampler = RandomSampler

    monkeypatch.setattr(methods, "_hub", lambda _: Hub)
    assert able([AUTO]) == [AUTO]
    assert isinstance(METHODS[AUTO].make(make("Parts"), 0, 10), RandomSampler)


# SMAC logs how long its local searches were, also if there were none.
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", ["Layers", "Pipeline", "Ranges"])
def test_smac_asks_for_parameters_whose_conditions_hold(name: str) -> None:
    skip_if_lacking(SMAC)
    problem = make(name).as_static
    sampler = METHODS[SMAC].make(problem, 0, 24)
    study = optuna.create_study(sampler=sampler)
    for _ in range(24):
        trial = study.ask()
        params = problem.suggest(trial)  # which raises an error if one is not proposed
        assert set(params) == set(trial.relative_params)
        study.tell(trial, problem.loss(params))
    assert len({str(t.params) for t in study.trials}) > 12


def test_a_run_makes_a_page_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "page.md"
    arguments = [
        *("conditional", "--problems", "Layers", "Ranges"),
        *("--methods", PCTS, FLAT, TPE, GROUP, RANDOM, "--workers", "2"),
        *("--trials", "8", "14", "--seeds", "1", "--jobs", "0"),
        *("--results", str(tmp_path), "--output", str(output)),
    ]
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # which a run sets: it is put back
    monkeypatch.setattr(sys, "argv", arguments)
    main()
    assert "10 runs; 0 are known" in capsys.readouterr().err
    found = RECORDS.read(tmp_path / "conditional.csv")
    assert len(found) == 2 * 5 * 2
    assert all(0 <= r.regret < 10 and r.seconds > 0 for r in found.values())
    text = output.read_text()
    assert "## Median regret: 14 trials, 2 workers" in text
    assert "Not there: PCTS, told; AutoSampler" in text
    assert all(f"\n| {name} | " in text for name in PROBLEMS)  # which are described
    main()
    assert "0 runs; 10 are known" in capsys.readouterr().err


def test_it_says_how_it_is_used() -> None:
    assert "PCTS, flat union" in run_module("benchmarks.conditional", "--help").stdout


def test_the_interval_of_a_share() -> None:
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=1e-3)
    assert wilson(0, 5)[0] == pytest.approx(0)
    assert wilson(5, 5)[1] == pytest.approx(1)


def test_the_page_says_who_is_better_and_where_pcts_is_worse() -> None:
    found = {}

    def add(problem: str, method: str, regret: float, best: float, trials: int = 150) -> None:
        for seed in range(8):
            run = Run(problem, method, 8, trials, seed)
            found[run] = Result(regret + seed / 100, best + seed / 100, 0.002)

    for trials in (75, 150):
        add("Layers", PCTS, 0.5, 0.7, trials)
        add("Layers", FLAT, 1.0, 9.0, trials)
        add("Layers", TPE, 9.0, 0.2, trials)
        add("Layers", GROUP, 9.0, 0.3, trials)
        add("Islands", PCTS, 0.1, 0.7, trials)
        add("Islands", FLAT, 0.2, 9.0, trials)
        add("Islands", TPE, 0.05, 0.2, trials)
        add("Islands", GROUP, 0.05, 0.3, trials)
    text = page(found, [])
    main, rest = text.split("## Median regret: 150 trials, 8 workers")[1].split("### The same", 1)
    assert "| PCTS | 0.54 | **0.14** | 2.0 |" in main
    assert "| TPE | **0.24** | 0.24 | 1.8 |" in main
    same, rest = rest.split("## Mean rank")
    assert "| TPE | 9 | **0.085** | 2.5 |" in same
    ranks, rest = rest.split("## How often")
    assert "| 150 | 8 | 8 | 2.0 | 3.2 | **1.8** | 3.0 |" in ranks
    shares, rest = rest.split("## Relative to")
    assert "| 150 | 8 | 0.50 (0.28 to 0.72) of 16 | 0.50 (0.28 to 0.72) of 16 |" in shares
    ratios, rest = rest.split("## Against TPE")
    assert ratios.count("| 75 | 8 |") == ratios.count("| 150 | 8 |") == 1
    numbers = [float(c.split(" ±")[0]) for c in ratios.splitlines()[-2].split("|")[3:-1]]
    assert numbers[2] == pytest.approx(math.sqrt(numbers[0] * numbers[1]), rel=0.05)
    assert "| 150 | 8 | > 0.0078 | < 0.0078 |" in rest
    surely, perhaps = rest.split("Perhaps")
    assert "- Layers, 150 trials, 8 workers: 0.54 instead of 0.24 (TPE), p 0.008" in surely
    assert surely.count("instead of") == 2
    assert perhaps.split("## Milli")[0].count("nowhere") == 1
    assert "| 150 | 8 | 2 | 2 | 2 | 2 |" in perhaps
