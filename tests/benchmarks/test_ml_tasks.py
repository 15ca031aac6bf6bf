"""The machine-learning tasks, and how they are recorded."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
import signal
import sys
import time

from helpers import python
from helpers import ROOT
from helpers import start
import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import pytest


pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from threadpoolctl import threadpool_limits

from benchmarks.ml import record
from benchmarks.ml.tasks import NAMES
from benchmarks.ml.tasks import Task
from benchmarks.ml.tasks import TASKS


SMALL = TASKS["digits"]


@pytest.mark.parametrize("task", [t for size in TASKS.values() for t in size.values()], ids=repr)
def test_fidelities_are_numbers_of_samples(task: Task) -> None:
    assert (task.n_samples(0), task.n_samples(1)) == task.samples
    assert task.samples[0] < task.n_samples(0.5) < task.samples[1]


@pytest.mark.parametrize("name", NAMES)
def test_an_evaluation_is_an_accuracy_that_depends_on_its_seed_alone(name: str) -> None:
    task = SMALL[name]
    params = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=4)).ask(task.space)
    with threadpool_limits(limits=1):
        found = [task.evaluate(params.params, 100, seed) for seed in (0, 0)]
    assert all(0 <= f.accuracy <= 1 and f.seconds > 0 for f in found)
    assert (found[0].accuracy, found[0].spread) == (found[1].accuracy, found[1].spread)


def test_more_samples_are_better() -> None:
    few, many = (SMALL["svm"].evaluate({"C": 10, "gamma": 0.1}, n, 0) for n in (60, 800))
    assert 0.5 < few.accuracy < many.accuracy - 0.05
    assert many.seconds > few.seconds


def test_the_kernel_that_is_computed_beforehand_is_that_of_scikit_learn() -> None:
    from sklearn.svm import SVC

    task, params = SMALL["svm"], {"C": 2.0, "gamma": 0.3}
    data = task.load()
    order = np.random.default_rng(3).permutation(len(data.classes))[:200]
    folds = np.array_split(order, 5)
    expected = []
    for i, test in enumerate(folds):
        train = np.concatenate([*folds[:i], *folds[i + 1 :]])
        machine = SVC(**params).fit(data.features[train], data.classes[train])
        expected.append(machine.score(data.features[test], data.classes[test]))
    assert task.evaluate(params, 200, 3).accuracy == pytest.approx(np.mean(expected))


def test_one_training_gives_the_accuracy_after_fewer_rounds_too() -> None:
    task = SMALL["xgb"]
    params = {"max_depth": 3, "colsample_bytree": 0.5, "gamma": 0.0, "learning_rate": 0.3}
    stages = task.evaluate_stages(params, 120, 0, [2, 8])
    for n_rounds, stage in zip((2, 8), stages):
        alone = task.evaluate({**params, "n_estimators": n_rounds}, 120, 0)
        assert (stage.accuracy, stage.spread) == (alone.accuracy, alone.spread)
    assert stages[0].seconds < stages[1].seconds


def test_a_diverged_network_has_accuracy_0() -> None:
    params = {
        **{"layer_1": 32, "layer_2": 128, "layer_3": 256, "learning_rate": 1e200},
        **{"solver": "sgd", "activation": "relu", "early_stopping": "disable"},
    }
    assert SMALL["mlp"].evaluate(params, 100, 0).accuracy == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_grid_spans_the_space(name: str) -> None:
    task, axes = TASKS["recorded"][name], record.GRIDS[name][1]
    assert sorted(axes) == sorted(["samples", *task.space])
    assert (min(axes["samples"]), max(axes["samples"])) == task.samples
    for parameter, distribution in task.space.items():
        if isinstance(distribution, optuna.distributions.CategoricalDistribution):
            assert tuple(axes[parameter]) == distribution.choices
        else:
            assert isinstance(distribution, (IntDistribution, FloatDistribution))
            ends = min(axes[parameter]), max(axes[parameter])
            assert ends == pytest.approx((distribution.low, distribution.high), rel=1e-3)


def test_parameters_that_a_solver_ignores_are_recorded_once() -> None:
    todo = record.work("mlp")
    assert {node.learning_rate for node in todo if node.solver == "lbfgs"} == {0.006738}
    node = next(node for node in todo if node.solver == "lbfgs")
    assert record.same(replace(node, learning_rate=0.3679)) == node
    # The last of the stages brings the others with it.
    assert {node.n_estimators for node in record.work("xgb")} == {400}


# Records the task on the small images instead: its own data is large.
SCRIPT = """
import benchmarks.ml.record as record
record.TASKS = {"recorded": record.TASKS["digits"]}
record.main()
"""


def test_a_recording_goes_on_after_it_was_killed(tmp_path: Path) -> None:
    arguments = "-c", SCRIPT, "svm", "--samples", "100", "--jobs", "0", "--tables", tmp_path
    path = tmp_path / "svm.csv"
    with start(ROOT, sys.executable, *arguments) as process:
        deadline = time.monotonic() + 60
        while not path.is_file() or path.read_text().count("\n") < 5:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    whole = path.read_text()
    with path.open("a") as file:
        file.write("0.006738,0.0")  # it was writing
    said = python(*arguments, PYTHONPATH=str(ROOT))
    assert f"{144 - whole.count(chr(10)) + 1} runs" in said
    assert path.read_text().startswith(whole)
    with path.open(newline="") as file:
        rows = [(row["C"], row["gamma"], row["samples"]) for row in csv.DictReader(file)]
    assert len(rows) == len(set(rows)) == 144
    assert '"data": "9fc20378' in (tmp_path / "manifest.json").read_text()
