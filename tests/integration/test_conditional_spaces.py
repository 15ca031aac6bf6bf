"""Objectives with conditional parameters: random trees of conditions, and what people write."""

from __future__ import annotations

from dataclasses import dataclass
import multiprocessing
from pathlib import Path
import pickle
from typing import Any

from helpers import assert_same_tree
from helpers import run_study
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.samplers import PartialFixedSampler
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import report
from optuna_pcts._space.axes import axis_of
from optuna_pcts._study.settings import tree_of


Params = dict[str, Any]


@dataclass(frozen=True)
class Node:
    """A parameter, and when it exists."""

    name: str
    distribution: BaseDistribution
    parent: str | None
    values: tuple[Any, ...]  # of the parent
    best: float


_KINDS: tuple[BaseDistribution, ...] = (
    FloatDistribution(0, 1),
    FloatDistribution(1e-3, 10, log=True),
    IntDistribution(1, 4),
    IntDistribution(1, 64, log=True),
    CategoricalDistribution((False, True)),
    CategoricalDistribution(("a", "b", "c")),
)


@st.composite
def condition_trees(draw: st.DrawFn) -> list[Node]:
    """Draw 1 to 40 parameters, parents first, nested up to four deep."""
    nodes: list[Node] = []
    depth: dict[str, int] = {}
    for i in range(draw(st.integers(1, 40))):
        distribution = draw(st.sampled_from(_KINDS))
        parents = [
            node
            for node in nodes
            if depth[node.name] < 4 and len(choices_of(node.distribution)) in (2, 3, 4)
        ]
        parent = draw(st.sampled_from([None, *parents]))
        values: tuple[Any, ...] = ()
        if parent is not None:
            choices = choices_of(parent.distribution)
            values = tuple(draw(st.sets(st.sampled_from(choices), min_size=1)))
        name = f"p{i}"
        depth[name] = 0 if parent is None else depth[parent.name] + 1
        best = draw(st.floats(0.1, 0.9))
        nodes.append(Node(name, distribution, parent.name if parent else None, values, best))
    return nodes


def choices_of(distribution: BaseDistribution) -> list[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution) and not distribution.log:
        return list(range(distribution.low, distribution.high + 1))
    return []


def exists(node: Node, params: Params) -> bool:
    return node.parent is None or (node.parent in params and params[node.parent] in node.values)


def suggest(trial: optuna.Trial, nodes: list[Node]) -> Params:
    params: Params = {}
    for node in nodes:
        if exists(node, params):
            params[node.name] = trial._suggest(node.name, node.distribution)
    return params


def loss(params: Params, nodes: list[Node]) -> float:
    total = 0.0
    for i, node in enumerate(nodes):
        if node.name in params:
            position = axis_of(node.name, node.distribution).to_unit(params[node.name])
            total += (position - node.best) ** 2 / (1 + i % 3)
    return total


def space_of(nodes: list[Node]) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    space = {node.name: node.distribution for node in nodes}
    return space, {n.name: {n.parent: n.values} for n in nodes if n.parent is not None}


class Watched(PCTSSampler):
    """Notes what it proposes, and what it samples blindly."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.proposed: dict[int, set[str]] = {}
        self.blind: dict[int, set[str]] = {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        found = super().sample_relative(study, trial, search_space)
        self.proposed[trial.number] = set(found)
        return found

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if self._position(trial, param_name) is None:
            self.blind.setdefault(trial.number, set()).add(param_name)
        return super().sample_independent(study, trial, param_name, param_distribution)


def searched(trial: FrozenTrial) -> set[str]:
    return {name for name, d in trial.distributions.items() if not d.single()}


@settings(max_examples=8)
@given(nodes=condition_trees(), seed=st.integers(0, 99))
def test_what_exists_is_proposed_and_nothing_else_if_the_conditions_are_given(
    nodes: list[Node], seed: int
) -> None:
    space, conditions = space_of(nodes)
    sampler = Watched(seed=seed, search_space=space, conditions=conditions)
    study = run_study(lambda trial: loss(suggest(trial, nodes), nodes), 25, sampler)
    for trial in study.trials:
        assert sampler.proposed[trial.number] == searched(trial)
    assert not sampler.blind


@settings(max_examples=8)
@given(nodes=condition_trees(), seed=st.integers(0, 99))
def test_nothing_that_was_seen_is_sampled_blindly_if_conditions_are_learned(
    nodes: list[Node], seed: int
) -> None:
    sampler = Watched(seed=seed)
    study = run_study(lambda trial: loss(suggest(trial, nodes), nodes), 60, sampler)
    seen: set[str] = set()
    for trial in study.trials:
        if trial.number < 15:  # later, what a single trial has is that trial's own
            assert not sampler.blind.get(trial.number, set()) & seen
        seen |= searched(trial)
    # In the end most conditions are known: of what does not exist, hardly anything is proposed.
    wrong = [len(sampler.proposed[t.number] - searched(t)) for t in study.trials[40:]]
    absent = [len(seen - searched(t)) for t in study.trials[40:]]
    assert np.mean(wrong) <= 0.35 * np.mean(absent) + 0.5


@settings(max_examples=6)
@given(nodes=condition_trees(), seed=st.integers(0, 99))
def test_fresh_samplers_agree_whatever_the_order_of_feedback(nodes: list[Node], seed: int) -> None:
    """A sampler that has read each trial as it came, and one that reads all at once."""
    rng = np.random.default_rng(seed)
    study = optuna.create_study(sampler=PCTSSampler(seed=seed))
    flying: list[tuple[optuna.Trial, float]] = []
    for _ in range(40):
        trial = study.ask()
        flying.append((trial, loss(suggest(trial, nodes), nodes)))
        while len(flying) > 4 or (flying and rng.random() < 0.4):
            trial, value = flying.pop(int(rng.integers(len(flying))))
            if rng.random() < 0.1:
                study.tell(trial, state=TrialState.FAIL)
            else:
                study.tell(trial, value)
    live = study.sampler
    assert isinstance(live, PCTSSampler)
    assert_same_tree(study, live, pickle.loads(pickle.dumps(live)))


@settings(max_examples=6)
@given(nodes=condition_trees(), seed=st.integers(0, 99))
def test_cells_of_all_branches_partition_the_space(nodes: list[Node], seed: int) -> None:
    study = run_study(lambda trial: loss(suggest(trial, nodes), nodes), 40, PCTSSampler(seed=seed))
    _, tree = tree_of(study)
    found = list(tree.cells())
    volume = {c.node: float(np.prod(np.array(c.upper) - np.array(c.lower))) for c in found}
    below: dict[int, float] = {}
    n_asked: dict[int, int] = {}
    for cell in found:
        below[cell.parent] = below.get(cell.parent, 0.0) + volume[cell.node]
        n_asked[cell.parent] = n_asked.get(cell.parent, 0) + cell.n_asked
    for cell in found:
        assert cell.is_leaf != (cell.node in below)
        if not cell.is_leaf:
            assert below[cell.node] == pytest.approx(volume[cell.node])
            assert n_asked[cell.node] <= cell.n_asked


@settings(max_examples=6)
@given(nodes=condition_trees(), seed=st.integers(0, 99), noise=st.sampled_from([0.0, 0.1]))
def test_the_answer_is_not_worse_than_the_best_trial_by_more_than_the_noise(
    nodes: list[Node], seed: int, noise: float
) -> None:
    rng = np.random.default_rng(seed)

    def objective(trial: optuna.Trial) -> float:
        return loss(suggest(trial, nodes), nodes) + noise * rng.standard_normal()

    study = run_study(objective, 50, PCTSSampler(seed=seed))
    truth = [loss(trial.params, nodes) for trial in study.trials]
    spread = float(np.median(truth) - min(truth))
    answer = loss(dict(recommend(study).params), nodes)
    best = loss(study.best_params, nodes)
    assert answer <= best + 3 * noise + 0.2 * spread


# ---------------------------------------------------------------------- what people write


def pipeline(trial: optuna.Trial) -> float:
    model = trial.suggest_categorical("model", ["svm", "net", "knn"])
    x = trial.suggest_float("x", 0, 1)
    total = (x - 0.3) ** 2
    if model == "svm":
        total += 0.2 + (trial.suggest_float("C", 0, 1) - 0.6) ** 2
        if trial.suggest_categorical("kernel", ["linear", "rbf"]) == "rbf":
            total += (trial.suggest_float("gamma", 0, 1) - 0.4) ** 2 - 0.15
    elif model == "net":
        n = trial.suggest_int("n_layers", 1, 4)
        total += 0.05 * abs(n - 3)
        for i in range(n):
            total += (trial.suggest_float(f"u{i}", 0, 1) - 0.2 - 0.1 * i) ** 2 / n
    else:
        total += 0.3 + 0.01 * trial.suggest_int("k", 1, 20)
    return total


@pytest.mark.parametrize("seed", range(3))
def test_a_pipeline_is_searched_in_all_its_branches_and_then_in_the_best(seed: int) -> None:
    study = run_study(pipeline, 150, PCTSSampler(seed=seed))
    rivals = [run_study_with(RandomSampler(s)).best_value for s in range(3)]
    assert study.best_value < min(rivals) / 3
    models = [trial.params["model"] for trial in study.trials]
    assert set(models[:12]) == {"svm", "net", "knn"}  # a new branch is tried soon,
    assert models[75:].count("net") > 40  # and a bad one not for ever
    best = recommend(study)
    assert best.params["model"] == "net"
    assert best.params["n_layers"] == 3
    assert {"u0", "u1", "u2"} <= best.params.keys()


def run_study_with(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    study = optuna.create_study(sampler=sampler)
    study.optimize(pipeline, n_trials=150)
    return study


def test_every_branch_of_twelve_is_tried_before_any_is_left() -> None:
    def objective(trial: optuna.Trial) -> float:
        branch = trial.suggest_categorical("branch", list(range(12)))
        return branch + sum(trial.suggest_float(f"b{branch}_{i}", 0, 1) for i in range(3))

    study = run_study(objective, 60)
    assert {trial.params["branch"] for trial in study.trials} == set(range(12))


def test_a_range_that_depends_and_a_name_of_two_meanings_are_searched() -> None:
    def objective(trial: optuna.Trial) -> float:
        n = trial.suggest_int("n", 1, 10)
        k = trial.suggest_int("k", 1, n)
        total = abs(n - 8) / 10 + abs(k / n - 0.5)
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return total + abs(trial.suggest_float("rate", 0.0, 1.0) - 0.1)
        return total + 0.3 + abs(trial.suggest_float("rate", 100.0, 500.0) - 200) / 100

    sampler = Watched(seed=0)
    study = run_study(objective, 150, sampler)
    assert study.best_value < 0.02
    late = [trial.value for trial in study.trials[75:]]
    assert np.median([v for v in late if v is not None]) < 0.3
    assert not any(number > 5 for number in sampler.blind)


def test_conditions_that_change_in_mid_study_are_revised() -> None:
    """A branch gets a parameter more, and another one loses its own."""

    def changed(trial: optuna.Trial) -> float:
        model = trial.suggest_categorical("model", ["svm", "net", "knn"])
        total = (trial.suggest_float("x", 0, 1) - 0.3) ** 2
        if model == "knn":
            return total + (trial.suggest_float("weight", 0, 1) - 0.7) ** 2
        return total + 1.0

    study = run_study(pipeline, 60)
    study.optimize(changed, n_trials=120)
    assert study.best_value < 0.01
    space, _ = tree_of(study)
    assert "weight" in space.names


def test_branches_fixed_enqueued_added_and_retried() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=1))
    study.enqueue_trial({"model": "svm", "kernel": "rbf", "gamma": 0.123})
    study.enqueue_trial({"model": "knn"})
    study.add_trial(
        optuna.create_trial(
            params={"model": "net", "x": 0.5, "foreign": 0.1},
            distributions={
                "model": CategoricalDistribution(["svm", "net", "knn"]),
                "x": FloatDistribution(0, 1),
                "foreign": FloatDistribution(0, 1),
            },
            value=3.0,
        )
    )
    study.optimize(pipeline, n_trials=40)
    by_number = {trial.number: trial.params for trial in study.trials}
    assert by_number[0]["gamma"] == 0.123
    assert by_number[1]["model"] == "knn"
    study.sampler = PartialFixedSampler({"model": "svm", "C": 0.25}, study.sampler)
    study.optimize(pipeline, n_trials=30)
    fixed = [trial.params for trial in study.trials[-30:]]
    assert {(p["model"], p["C"]) for p in fixed} == {("svm", 0.25)}
    rest = [abs(p["x"] - 0.3) for p in fixed[10:]]
    assert np.median(rest) < 0.15
    assert {p["kernel"] for p in fixed} == {"linear", "rbf"}
    assert len({p["gamma"] for p in fixed if "gamma" in p}) > 3


def test_conditions_are_told_where_people_look(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = run_study(pipeline, 60, storage=storage, study_name="branches")
    text = str(report(study))
    assert "Conditional" in text
    assert "model: svm" in text
    assert "kernel: rbf" in text


def test_conditions_of_a_given_space_are_learned_unless_it_is_said_that_there_are_none() -> None:
    space: dict[str, BaseDistribution] = {
        "kind": CategoricalDistribution(["a", "b"]),
        "p": FloatDistribution(0, 1),
        "q": FloatDistribution(0, 1),
    }

    def objective(trial: optuna.Trial) -> float:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return trial.suggest_float("p", 0, 1)
        return trial.suggest_float("q", 0, 1)

    learns = Watched(seed=0, search_space=space)
    study = run_study(objective, 30, learns)
    assert not learns.blind
    assert all(learns.proposed[t.number] == set(t.params) for t in study.trials[20:])
    flat = Watched(seed=0, search_space=space, conditions={})
    run_study(objective, 30, flat)
    assert all(proposed == set(space) for proposed in flat.proposed.values())


def test_a_given_configuration_space() -> None:
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace()
    model = cs.CategoricalHyperparameter("model", ["svm", "net", "knn"])
    kernel = cs.CategoricalHyperparameter("kernel", ["linear", "rbf"])
    layers = cs.UniformIntegerHyperparameter("n_layers", 1, 4)
    floats = {n: cs.UniformFloatHyperparameter(n, 0, 1) for n in ("x", "C", "gamma")}
    units = [cs.UniformFloatHyperparameter(f"u{i}", 0, 1) for i in range(4)]
    k = cs.UniformIntegerHyperparameter("k", 1, 20)
    space.add(model, kernel, layers, k, *floats.values(), *units)
    space.add(cs.EqualsCondition(floats["C"], model, "svm"))
    space.add(cs.EqualsCondition(kernel, model, "svm"))
    space.add(cs.EqualsCondition(floats["gamma"], kernel, "rbf"))
    space.add(cs.InCondition(layers, model, ["net"]))
    space.add(cs.EqualsCondition(units[0], model, "net"))
    for i in range(1, 4):
        space.add(cs.GreaterThanCondition(units[i], layers, i))
    space.add(cs.EqualsCondition(k, model, "knn"))
    sampler = Watched(seed=0, search_space=space)
    study = run_study(pipeline, 50, sampler)
    for trial in study.trials:
        assert sampler.proposed[trial.number] == searched(trial)
    with pytest.raises(ValueError, match="own conditions"):
        PCTSSampler(search_space=space, conditions={})
    space.add(cs.ForbiddenEqualsClause(model, "knn"))
    with pytest.raises(ValueError, match="forbidden clauses"):
        PCTSSampler(search_space=space)
    for wrong in (
        cs.NormalFloatHyperparameter("n", 0, 1, lower=-1, upper=1),
        cs.CategoricalHyperparameter("w", ["a", "b"], weights=[1, 2]),
    ):
        with pytest.raises(ValueError, match="cannot be used"):
            PCTSSampler(search_space=cs.ConfigurationSpace(space=[wrong]))


# ---------------------------------------------------------------------- processes


def work(path: str, n_trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="s", storage=path, sampler=PCTSSampler(seed=0))
    study.optimize(pipeline, n_trials=n_trials)


def test_processes_share_conditions_and_one_that_is_killed_hurts_nobody(tmp_path: Path) -> None:
    path = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(study_name="s", storage=path, sampler=PCTSSampler(seed=0))
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(path, n)) for n in (25, 25, 1000)]
    for worker in workers:
        worker.start()
    for worker in workers[:2]:
        worker.join(timeout=120)
        assert worker.exitcode == 0
    workers[2].kill()
    workers[2].join(timeout=30)
    trials = study.get_trials()
    assert sum(trial.state == TrialState.COMPLETE for trial in trials) >= 50
    conditions = report(study).conditions
    assert conditions["gamma"] == "kernel: rbf"
    assert conditions["C"] == conditions["kernel"] == "model: svm"
    assert conditions["u1"] == "n_layers: 2 to 4"
    study.optimize(pipeline, n_trials=30)
    live = study.sampler
    assert isinstance(live, PCTSSampler)
    assert_same_tree(study, live, PCTSSampler(seed=0))
    assert recommend(study).params["model"] == "net"
