"""The numbers behind the figures and the report."""

from __future__ import annotations

from datetime import datetime
from datetime import timedelta
import json
from typing import Any

from helpers import new_trial
from helpers import study_to_see
import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import delays
from optuna_pcts import fit_cost
from optuna_pcts import PCTSSampler
from optuna_pcts import rank_instances
from optuna_pcts import recommend
from optuna_pcts import report
from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._analysis.instances import rank_instances_of
from optuna_pcts._analysis.partition_info import partition_info
from optuna_pcts._analysis.regret_info import regret_info
from optuna_pcts._analysis.report import report_of
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.tree_info import tree_info


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    return study_to_see()


@pytest.fixture(scope="module")
def source(study: optuna.Study) -> Snapshot:
    return Snapshot(study)


# ---------------------------------------------------------------------- tree and partition


def test_the_cells_of_the_icicle_lie_within_their_parents(source: Snapshot) -> None:
    info = tree_info(source)
    by_node = {cell.node: cell for cell in info.cells}
    root = info.cells[0]
    assert (root.left, root.right, root.n_asked) == (0.0, 1.0, 62)
    assert (info.n_told, info.n_in_flight) == (60, 2)
    assert info.n_cells > len(info.cells) == len(by_node)
    ends: dict[tuple[int, int], float] = {}
    for cell in info.cells[1:]:
        parent = by_node[cell.parent]
        assert parent.depth == cell.depth - 1
        assert parent.left - 1e-9 <= cell.left < cell.right <= parent.right + 1e-9
        assert cell.right - cell.left == pytest.approx(cell.n_asked / root.n_asked)
        # It does not overlap its siblings.
        assert ends.get((cell.depth, cell.parent), -1.0) <= cell.left + 1e-9
        ends[cell.depth, cell.parent] = cell.right
        assert set(cell.ranges) <= {"x", "y", "kind"}
        assert cell.ranges


def test_a_limited_tree_keeps_the_fullest_cells_and_those_in_flight(study: optuna.Study) -> None:
    whole = tree_info(Snapshot(study))
    few = tree_info(Snapshot(study, max_cells=25))
    assert len(few.cells) == 25
    assert (few.n_cells, few.depth) == (whole.n_cells, whole.depth)
    nodes = {cell.node for cell in few.cells}
    assert all(cell.parent in nodes for cell in few.cells[1:])
    in_flight = [cell for cell in whole.cells if cell.n_in_flight]
    assert len(in_flight) > 2
    assert {cell.node for cell in in_flight[:25]} <= nodes


@pytest.mark.parametrize("params", [None, ["y", "kind"], ["kind", "x"]])
def test_the_partition_covers_the_plane_once(
    study: optuna.Study, params: list[str] | None
) -> None:
    info = partition_info(Snapshot(study, params=params))
    assert [info.x.name, info.y.name] == (params or ["x", "y"])
    boxes = info.boxes
    assert len(boxes) > 5
    assert sum((b.x1 - b.x0) * (b.y1 - b.y0) for b in boxes) == pytest.approx(1)
    for x, y in np.random.default_rng(0).random((50, 2)):
        assert sum(b.x0 <= x < b.x1 and b.y0 <= y < b.y1 for b in boxes) == 1
    assert sum(p.in_flight for p in info.points) == 2
    assert len(info.points) == 62
    assert info.recommended is not None
    assert info.recommended.number == recommend(study).number
    assert set(info.others) == {"x", "y", "kind"} - {info.x.name, info.y.name}


def test_a_partition_with_few_cells_still_covers_the_plane(study: optuna.Study) -> None:
    info = partition_info(Snapshot(study, max_cells=6))
    assert len(info.boxes) <= 6
    assert sum((b.x1 - b.x0) * (b.y1 - b.y0) for b in info.boxes) == pytest.approx(1)


def test_the_ticks_of_an_axis_are_round_values_where_they_are(source: Snapshot) -> None:
    info = partition_info(source)
    assert info.x.labels == ("-5", "-4", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5")
    assert info.x.positions[7] == pytest.approx(0.7)
    assert info.y.labels == ("0.001", "0.01", "0.1", "1")
    assert info.y.positions == pytest.approx((0, 1 / 3, 2 / 3, 1))


@pytest.mark.parametrize("params", ["xy", ["x"], ["x", "x"], ["x", "nope"], ["x", "y", "kind"]])
def test_wrong_params_are_refused(study: optuna.Study, params: list[str]) -> None:
    with pytest.raises(ValueError, match="`params`"):
        INFOS["partition"](Snapshot(study, params=params))


def test_the_next_cells_are_those_that_are_asked_next() -> None:
    sampler = PCTSSampler(seed=0, local_share=0, point="center")
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0, 1) ** 2 + trial.suggest_float("y", 0, 1)

    study.optimize(objective, n_trials=30)
    foreseen = report(study, n_next=5).next_cells
    for cell in foreseen:
        trial = study.ask()
        objective(trial)
        assert study.trials[-1].user_attrs["pcts:depth"] == cell.depth
        for name, text in cell.ranges.items():
            low, high = map(float, text.split(" to "))
            assert low - 1e-3 <= trial.params[name] <= high + 1e-3
    assert len({str(cell.ranges) for cell in foreseen}) == 5


# ---------------------------------------------------------------------- fidelity, cost, regret


def test_fidelity_is_that_of_the_trials(study: optuna.Study, source: Snapshot) -> None:
    info = fidelity_info(source)
    given = [
        t.user_attrs["pcts:fidelity"] for t in study.trials if "pcts:fidelity" in t.user_attrs
    ]
    assert info.n_trials == 60
    assert sorted(info.fidelities) == pytest.approx(sorted([1.0] * (60 - len(given)) + given))
    assert info.work == pytest.approx(sum(info.fidelities))
    assert sum(n for _, _, n in info.by_depth) == sum(d is not None for d in info.depths)
    deep, shallow = info.by_depth[-1], min(info.by_depth, key=lambda row: row[1])
    assert deep[0] > shallow[0]
    few = fidelity_info(Snapshot(study, max_points=10))
    assert len(few.fidelities) == 10
    assert few.work == info.work


def test_the_fidelity_of_another_sampler_with_a_pruner() -> None:
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=0), pruner=optuna.pruners.MedianPruner()
    )

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        for step in range(1, 11):
            trial.report(x + 1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=30)
    info = fidelity_info(Snapshot(study))
    assert info.by_depth == ()
    assert 0 < info.whole < 1


def test_costs_are_those_of_the_trials(study: optuna.Study) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        depth = study.trials[-1].user_attrs.get("pcts:depth", 0)
        trial.set_user_attr("pcts:cost", 2.0 * (depth + 1))
        return x**2

    study.optimize(objective, n_trials=30)
    info = cost_info(Snapshot(study))
    assert info.unit == "cost"
    assert all(cost == 2.0 * (depth + 1) for depth, cost in zip(info.depths, info.costs))
    assert info.total == sum(info.costs)
    assert info.fit is not None
    assert info.fit.best.name == "LinearGrowth"
    assert "LinearGrowth" in str(report(study))


def test_without_enough_depths_there_are_costs_but_no_model() -> None:
    info = cost_info(Snapshot(study_to_see(8, n_running=0)))
    assert info.fit is None
    assert info.why_no_fit


def test_the_regret_figure_ends_at_best_and_recommended_value(
    study: optuna.Study, source: Snapshot
) -> None:
    info = regret_info(source)
    assert info.best[-1] == study.best_value
    assert list(info.best) == np.minimum.accumulate(info.values).tolist()
    assert list(info.seconds) == sorted(info.seconds)
    made = info.recommended
    assert 4 <= len(made) <= 12
    answer = recommend(study)
    assert made[-1].number == answer.number
    assert made[-1].value == pytest.approx(answer.value)
    assert made[-1].seconds == info.seconds[-1]


# ---------------------------------------------------------------------- any study


def test_a_study_of_another_sampler_has_a_tree_too() -> None:
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=0), direction="maximize"
    )
    study.optimize(lambda t: t.suggest_float("x", 0, 1) - t.suggest_int("n", 0, 3), n_trials=20)
    source = Snapshot(study)
    assert tree_info(source).n_told == 20
    assert partition_info(source).recommended is not None
    assert regret_info(source).best[-1] == study.best_value
    assert source.info(cost_info) is None
    assert "PCTSSampler" in source.missing[cost_info]
    assert source.info(fidelity_info) is None
    assert "at full fidelity" in source.missing[fidelity_info]
    text = str(report(study))
    assert "Study" in text
    assert "maximize" in text


def test_the_settings_of_the_sampler_make_the_tree() -> None:
    distributions = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    sampler = PCTSSampler(seed=0, branching=3, search_space=distributions)
    wrapped = optuna.samplers.PartialFixedSampler({"y": 0.5}, sampler)
    study = optuna.create_study(sampler=wrapped)
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=5)
    parents = [cell.parent for cell in Snapshot(study).cells[1:]]
    assert parents.count(0) == 3


@pytest.mark.parametrize("name", [*INFOS])
def test_a_study_with_nothing_to_see_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)\bno [a-z]+ "):
        INFOS[name](Snapshot(optuna.create_study()))


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="2 objectives"):
        report(study)
    with pytest.raises(TypeError, match=r"optuna\.Study"):
        report("study")  # type: ignore[arg-type]


def test_trials_in_flight_and_lost_ones_are_told_apart() -> None:
    study = study_to_see(10, n_running=1)
    storage = study._storage
    lost = new_trial(study)
    storage.get_trial(lost).datetime_start = datetime.now() - timedelta(days=1)
    found = report(study)
    assert found.in_flight == (10,)
    assert found.stale == (11,)
    assert found.states == {"complete": 10, "running": 2}
    assert "Stale        1 (trial 11)" in str(found)


def test_the_report_has_all_parts_as_text_and_as_json(study: optuna.Study) -> None:
    found = report(study)
    text = str(found)
    for word in ("Tree", "Delays", "Fidelity", "Cost", "In flight", "Stale", "Next cells"):
        assert f"\n{word}" in text
    answer = recommend(study)
    assert f"value {answer.value:.6g}" in text
    assert "benign" in text
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["recommendation"]["number"] == answer.number
    assert data["tree"]["n_told"] == 60
    assert data["in_flight"] == [60, 61]
    assert len(data["next_cells"]) == 3
    assert report(optuna.create_study()).to_dict()["recommendation"] is None


def test_figures_and_report_do_not_change_the_study(study: optuna.Study) -> None:
    def content() -> object:
        storage = study._storage
        return (
            [(t.state, t.params, t.user_attrs, t.system_attrs) for t in study.get_trials()],
            storage.get_study_system_attrs(study._study_id),
        )

    before = content()
    source = Snapshot(study)
    for name in INFOS:
        source.info(INFOS[name])
    report(study)
    assert content() == before
    assert sum(t.state == TrialState.RUNNING for t in study.trials) == 2


def test_a_report_reads_the_trials_once_so_that_its_numbers_agree(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    read = study._storage.get_all_trials

    def counted(*args: Any, **kwargs: Any) -> list[FrozenTrial]:
        reads.append(args)
        return read(*args, **kwargs)

    def unexpected(*args: Any) -> None:
        raise AssertionError(f"a trial was read again: {args}")

    monkeypatch.setattr(study._storage, "get_all_trials", counted)
    monkeypatch.setattr(study._storage, "get_trial", unexpected)
    source = Snapshot(study)
    for of in INFOS.values():
        assert source.info(of) is not None
    assert report_of(source).recommendation == source.recommendation
    rank_instances_of(source)
    assert len(reads) == 1
    for look in (report, recommend, delays, fit_cost, rank_instances):
        reads.clear()
        look(study)
        assert len(reads) == 1
