"""Recorded pipelines and what is learned from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest


pytest.importorskip("sklearn")

from benchmarks.branches import record
from benchmarks.branches import recorded
from benchmarks.branches.pipelines import WORST
from benchmarks.branches.recorded import check
from benchmarks.branches.recorded import FRESH
from benchmarks.branches.recorded import LEARNED
from benchmarks.branches.recorded import read_checks
from benchmarks.branches.recorded import RECORDED
from benchmarks.branches.recorded import Row
from benchmarks.branches.recorded import Surrogate
from benchmarks.branches.recorded import TABLES


def rows(name: str) -> tuple[list[Row], list[Row]]:
    learned, at_random, good = recorded.parts(recorded.read(RECORDED[name]))
    return learned, [*at_random, *good]


@pytest.mark.parametrize("name", RECORDED)
def test_the_surrogate_agrees_with_fresh_evaluations(name: str) -> None:
    learned, fresh = rows(name)
    assert len(learned) >= 1500
    assert len(fresh) >= 150
    assert not [row for row in fresh if any(row.params == other.params for other in learned)]
    # Another version of scikit-learn may draw other trees.
    known = read_checks()[name]["all"]
    found = check(recorded.surrogate(RECORDED[name], TABLES), fresh)
    assert found["r2"] == pytest.approx(known["r2"], abs=0.05)
    assert found["spearman"] == pytest.approx(known["spearman"], abs=0.05)
    assert found["spearman"] > 0.8


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_at_random_is_better_than_the_lowest_value_known(name: str) -> None:
    problem = recorded.problem(RECORDED[name])
    assert problem.regret(problem.best) == pytest.approx(0, abs=0.1)
    rng = np.random.default_rng(0)
    found = recorded.surrogate(RECORDED[name], TABLES).many(
        [problem.draw(rng) for _ in range(1000)]
    )
    assert found.min() > problem.optimum
    assert problem.noise_std < np.median(found) - problem.optimum
    assert (TABLES / f"{name}.csv.gz").stat().st_size < 150_000


def test_a_surrogate_is_the_same_each_time() -> None:
    task = RECORDED["cancer"]
    learned, others = rows("cancer")
    some = learned[:300]
    first, second = (Surrogate(task.parameters().space, some) for _ in range(2))
    fresh = [row.params for row in others]
    assert (first.many(fresh) == second.many(fresh)).all()
    assert [first(params) for params in fresh[:20]] == pytest.approx(first.many(fresh[:20]))
    assert len(set(first.many(fresh))) > 50


def test_a_surrogate_knows_what_it_has_learned() -> None:
    some = rows("diabetes")[0][:200]
    surrogate = Surrogate(RECORDED["diabetes"].parameters().space, some)
    found = surrogate.many([row.params for row in some])
    assert found == pytest.approx([row.error for row in some], abs=1e-3)


@pytest.mark.parametrize("name", RECORDED)
def test_pipelines_can_be_evaluated_again(name: str) -> None:
    pytest.importorskip("xgboost")
    task = RECORDED[name]
    learned, _ = rows(name)
    noise_std = read_checks()[name]["noise_std"]
    learners = sorted({row.params["learner"] for row in learned})
    assert len(learners) == 6
    for learner in learners:
        own = [row for row in learned if row.params["learner"] == learner]
        best = min(own, key=lambda row: row.error)
        # Other versions of the libraries may find something a little different.
        assert task.error(best.params) == pytest.approx(best.error, abs=4 * noise_std)
        assert best.error < np.median([row.error for row in own])
    assert len({task.error(best.params, split) for split in range(1, 5)}) > 1


def test_what_diverges_is_as_bad_as_what_knows_nothing() -> None:
    params = {
        **{"prep": "none", "learner": "linear", "linear_penalty": "l2"},
        "linear_alpha": 10.0,
    }
    error = RECORDED["diabetes"].error(params)
    assert WORST / 2 < error <= WORST
    grows = {"prep": "none", "learner": "boosting", "boost_booster": "gblinear"}
    grows |= {"boost_rounds": 40, "boost_rate": 1e6, "boost_lambda": 1e-9}  # type: ignore[dict-item]
    pytest.importorskip("xgboost")
    assert RECORDED["diabetes"].error(grows) == WORST


def test_a_task_is_recorded_and_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xgboost")
    monkeypatch.setattr(record, "_N_SEARCHES", 4)
    monkeypatch.setattr(record, "_N_SEARCHED", 50)
    monkeypatch.setattr(record, "_N_NOISY", 3)
    monkeypatch.setattr(recorded, "_N_TREES", 10)
    task = RECORDED["diabetes"]
    with ThreadPoolExecutor(1) as pool:
        record.record(task, 40, 8, 0, tmp_path, pool)
        written = (tmp_path / "diabetes.csv.gz").read_bytes()
        found = record.examine(task, 0, tmp_path, pool)
    kept = recorded.read(task, tmp_path)
    recorded.write(task, kept, tmp_path)
    assert (tmp_path / "diabetes.csv.gz").read_bytes() == written
    assert [row.use for row in kept] == [LEARNED] * 40 + [FRESH] * 8
    assert (found["n_rows"], found["n_fresh"]) == (40, 8)
    assert found["optimum"] <= min(row.error for row in kept[:40]) + 1e-6
    assert found["best_evaluated"][0] == pytest.approx(task.error(found["best"]))
    assert found["noise_std"] > 0
