"""What several test modules share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
import math
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.storages import BaseStorage
import pytest

from optuna_pcts import fidelity
from optuna_pcts import PCTSSampler
from optuna_pcts._arrays import FloatArray
from optuna_pcts._tree.tree import Tree


ROOT = Path(__file__).parent.parent

# Its name changed with Optuna 4.9.
RetryCallback = (
    getattr(optuna.storages, "RetryHeartbeatStaleTrialCallback", None)
    or optuna.storages.RetryFailedTrialCallback
)

Bounds = tuple[tuple[float, ...], tuple[float, ...]]
Statistics = tuple[int, int, float]
Objective = Callable[[optuna.Trial], float]

UNIT = FloatDistribution(0.0, 1.0)
SQUARE: dict[str, BaseDistribution] = {"x": UNIT, "y": UNIT}


def heed_ctrl_c() -> None:
    """Let a new process be interrupted, also where this one ignores it: in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder: Path, *command: object) -> subprocess.Popen[str]:
    """Start a command that finds the project, and that Ctrl-C reaches."""
    return subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )


def run(*command: object, folder: Path = ROOT, timeout: float = 300, **environment: str) -> str:
    """Run a command to its end and return what it says; fail the test if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(*arguments: object, folder: Path = ROOT, **environment: str) -> str:
    """Run Python, as :func:`run` does."""
    return run(sys.executable, *arguments, folder=folder, timeout=300, **environment)


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the project to its end; fail the test if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


def new_trial(study: optuna.Study) -> int:
    """Create a RUNNING trial of which nothing is known yet, and return its id."""
    return study._storage.create_new_trial(study._study_id)


def propose(sampler: PCTSSampler, study: optuna.Study, trial_id: int) -> dict[str, Any]:
    """Let a sampler choose the parameters of a trial, without storing them."""
    trial = study._storage.get_trial(trial_id)
    space = sampler.infer_relative_search_space(study, trial)
    return sampler.sample_relative(study, trial, space)


def tree_of(sampler: PCTSSampler) -> Tree:
    """Return the tree that a sampler used last."""
    return sampler._engines[-1].tree


def cells(tree: Tree) -> dict[Bounds, Statistics]:
    """Return (n_asked, n_told, mean reward) of every cell."""
    return {
        (cell.lower, cell.upper): (cell.n_asked, cell.n_told, cell.mean if cell.n_told else 0.0)
        for cell in tree.cells()
    }


def sphere(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    y = trial.suggest_float("y", 0, 1)
    return (x - 0.3) ** 2 + (y - 0.7) ** 2


def mixed(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 1e-3, 1.0, log=True)
    n = trial.suggest_int("n", 1, 20)
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    return x * n + (kind == "b")


def raises_early(trial: optuna.Trial) -> float:
    """Fail in half of the space before all parameters are known."""
    x = trial.suggest_float("x", 0, 1)
    if x > 0.5:
        raise RuntimeError
    return (x - 0.3) ** 2 + (trial.suggest_float("y", 0, 1) - 0.7) ** 2


def run_study(
    objective: Objective = sphere,
    n_trials: int = 30,
    sampler: PCTSSampler | None = None,
    **options: Any,
) -> optuna.Study:
    study = optuna.create_study(sampler=sampler or PCTSSampler(seed=0), **options)
    study.optimize(objective, n_trials=n_trials)
    return study


def params(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def assert_all_different(points: list[dict[str, Any]], but_for: int = 0) -> None:
    repeated = [p for p, n in Counter(tuple(sorted(p.items())) for p in points).items() if n > 1]
    assert len(repeated) <= but_for


def assert_well_spread(points: list[dict[str, Any]]) -> None:
    for name in SQUARE:
        thirds = {min(int(3 * p[name]), 2) for p in points}
        assert thirds == {0, 1, 2}, f"{name} of {points}"
    assert_all_different(points)


def assert_same_tree(study: optuna.Study, first: PCTSSampler, second: PCTSSampler) -> None:
    """Ask both for the same trial, and compare what they propose and every cell."""
    trial_id = new_trial(study)
    proposals = [propose(sampler, study, trial_id) for sampler in (first, second)]
    assert proposals[0] == proposals[1]
    ours, theirs = cells(tree_of(first)), cells(tree_of(second))
    assert ours.keys() == theirs.keys()
    for cell, statistics in ours.items():
        assert statistics == pytest.approx(theirs[cell], abs=1e-9)


def study_to_see(n_trials: int = 60, storage: Any = None, n_running: int = 2) -> optuna.Study:
    """Return a study with something for each figure: noise, fidelities, trials in flight."""

    def objective(trial: optuna.Trial) -> float:
        z = fidelity(trial)
        x, y, kind = suggest(trial)
        noise = random.Random(trial.number).gauss(0, 0.05)
        return (x - 2) ** 2 + (math.log10(y) + 1) ** 2 + (kind != "b") + 0.3 * (1 - z) + noise

    def suggest(trial: optuna.Trial) -> tuple[float, float, str]:
        return (
            trial.suggest_float("x", -5, 5),
            trial.suggest_float("y", 1e-3, 1, log=True),
            trial.suggest_categorical("kind", ["a", "b", "c"]),
        )

    study = optuna.create_study(storage=storage, study_name="see", sampler=PCTSSampler(seed=0))
    study.optimize(objective, n_trials=n_trials)
    for _ in range(n_running):
        suggest(study.ask())
    return study


def skip_if_lacking(method: str) -> None:
    """Skip a test of a benchmark's method that lacks a package."""
    from benchmarks.methods import lacks  # which needs more than the tests of the core

    lack = lacks(method)
    if lack is not None:
        pytest.skip(lack)


def constrained_study(
    n_trials: int,
    sampler: optuna.samplers.BaseSampler | None = None,
    least: float = 0.6,
    storage: BaseStorage | str | None = None,
) -> optuna.Study:
    """Run a study whose best values are where x is too small, by the older list or by a key."""

    def objective(trial: optuna.Trial) -> float:
        z = fidelity(trial) if isinstance(sampler, PCTSSampler) else 1.0
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        attributes = {"constraints": [-1.0, least - x]}, {"constraints:x": least - x}
        for key, value in attributes[trial.number % 2].items():
            trial.storage.set_trial_system_attr(trial._trial_id, key, value)
        return (x - 0.2) ** 2 + (y - 0.5) ** 2 + 0.1 * (1 - z)

    study = optuna.create_study(sampler=sampler, storage=storage, study_name="bounded")
    study.optimize(objective, n_trials=n_trials)
    return study


def infeasible(study: optuna.Study, least: float = 0.6) -> list[int]:
    return [t.number for t in study.trials if t.state.is_finished() and t.params["x"] < least]


def at_categories(rng: np.random.Generator, n: int, categories: Sequence[int]) -> FloatArray:
    """Return random points, in the middle of the slots of their categories."""
    points = rng.random((n, len(categories)))
    for axis, k in zip(points.T, categories):
        if k:
            axis[:] = (np.floor(axis * k) + 0.5) / k
    return points
