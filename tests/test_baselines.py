"""The systems that the paper compares with: each one optimises an easy function."""

from __future__ import annotations

from helpers import skip_if_lacking
import numpy as np
from optuna.pruners import NopPruner
import pytest

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.baselines.gradient import GradientAscent
from benchmarks.baselines.rejects import SuccessiveRejects
from benchmarks.baselines.trees import HOO
from benchmarks.baselines.trees import poo_rhos
from benchmarks.methods import BASELINES
from benchmarks.methods import METHODS
from benchmarks.problems import box
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem
from benchmarks.run import execute
from benchmarks.run import Run
from benchmarks.simulation import Simulation


# A Gaussian process needs few evaluations, and takes its time for each.
GAUSSIAN = ("GP-UCB", "GP-EI", "MF-GP-UCB", "BOCA", "MF-SKO")


def bowl(x: FloatArray, z: float) -> float:
    """One top at 0.3; what is not evaluated in full is off by up to 0.2, more to the left."""
    return float(1 - ((x - 0.3) ** 2).sum() - 0.2 * (1 - z) * (1 - x[0]))


BOWL = Problem(
    name="bowl",
    space=box([0.0, 0.0], [1.0, 1.0]),
    function=bowl,
    best_points=((0.3, 0.3),),
    noise_std=0.05,
    cost=lambda z: 0.1 + 0.9 * z,
)
KNOWN = Knowledge(noise_std=0.05, cost=BOWL.cost, bias=lambda z: 0.2 * (1 - z), n_evaluations=150)
SPACE = BOWL.space


def simulate(name: str, seed: int, cost: float) -> tuple[Simulation, Baseline]:
    method = BASELINES[name](SPACE, seed=seed, knowledge=KNOWN)
    simulation = Simulation(
        BOWL, method, NopPruner(),
        n_workers=1, n_steps=1, seed=seed, fidelity=method.fidelity, waits=True,
    )  # fmt: skip
    simulation.run(cost)
    return simulation, method


@pytest.mark.parametrize("name", BASELINES)
def test_it_optimises_an_easy_function(name: str) -> None:
    regrets = []
    for seed in range(3):
        simulation, _ = simulate(name, seed, cost=30.0 if name in GAUSSIAN else 150.0)
        trials = simulation.study.get_trials(deepcopy=False)
        points = [simulation.problem.point(t.params) for t in trials if t.value is not None]
        last = points[-len(points) // 4 :]
        regrets.append(np.mean([BOWL.regret(point) for point in last]))
    assert np.median(regrets) < 0.16  # a random point has 0.25


@pytest.mark.parametrize("name", [n for n in BASELINES if n.startswith(("MFHOO", "MFPOO"))])
def test_fidelity_rises_as_the_search_narrows(name: str) -> None:
    simulation, method = simulate(name, seed=0, cost=60.0)
    fidelities = [method._fidelities[i] for i in range(len(simulation.study.trials))]
    assert min(fidelities) < 0.5
    assert np.mean(fidelities[-100:]) > np.mean(fidelities[:20])


@pytest.mark.filterwarnings("ignore")  # of what is experimental in Optuna
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_take_part(method: str) -> None:
    skip_if_lacking(method)
    run = Run("Branin", method, 2, "geometric 0.5", "laplace", 12, 0)
    result = execute(run)
    assert result.n_told >= 3
    assert 0 <= result.regret < 310  # that of the worst corner
    assert execute(run).regret == result.regret


@pytest.mark.parametrize("n", [1, 50, 600, 10**5])
def test_the_instances_of_poo(n: int) -> None:
    rhos = poo_rhos(n)
    assert all(0 < rho < 1 for rho in rhos)
    assert rhos == sorted(rhos, reverse=True)
    assert len(set(rhos)) == len(rhos) >= 1


def test_a_tree_of_cells_without_noise_closes_in() -> None:
    method = HOO(SPACE, seed=0, knowledge=Knowledge(noise_std=0.0), bandit="UCB1-sigma")
    for number in range(200):
        point, fidelity = method.ask(number)
        assert fidelity == 1.0
        method.tell(number, bowl(np.array(point), 1.0))
    assert np.array(point) == pytest.approx([0.3, 0.3], abs=0.05)
    (tree,) = method.trees
    assert tree.n_nodes == 401
    assert tree.depth >= 8


def test_an_unknown_bandit_is_refused() -> None:
    with pytest.raises(ValueError, match="UCB9"):
        HOO(SPACE, seed=0, bandit="UCB9")


def test_successive_rejects_ends_with_the_best_arm() -> None:
    knowledge = Knowledge(n_evaluations=400)
    method = SuccessiveRejects(SPACE, seed=0, knowledge=knowledge, n_arms=10)
    rng = np.random.default_rng(0)
    for number in range(400):
        point, _ = method.ask(number)
        method.tell(number, bowl(np.array(point), 1.0) + rng.normal(0, 0.05))
    best = max(range(10), key=lambda arm: bowl(method.arms[arm], 1.0))
    assert method.left == [best]


def test_delayed_gradients_are_taken_when_they_arrive() -> None:
    delayed = GradientAscent(SPACE, seed=0, is_delayed=True)
    waiting = GradientAscent(SPACE, seed=0)
    for method, n_distinct in ((delayed, 3), (waiting, 3)):
        asked = [tuple(method.ask(number)[0]) for number in range(9)]
        assert len(set(asked)) == n_distinct  # nothing was told: all rounds are at one point
    for number in range(9):
        for method in (delayed, waiting):
            method.tell(number, float(number))
    assert delayed._n_steps == 3
    assert waiting._n_steps == 1
