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
    """One mode at 0.3; values at low fidelity are off by up to 0.2, more to the left."""
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


# SR asks all cells of a level alike, and is tested below.
@pytest.mark.parametrize("name", [n for n in BASELINES if n != "SR"])
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


def test_a_tree_of_cells_converges_without_noise() -> None:
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


def rejects(noise_std: float, n_evaluations: int = 400, alpha: float = 2.0) -> SuccessiveRejects:
    known = Knowledge(noise_std=noise_std, n_evaluations=n_evaluations)
    return SuccessiveRejects(SPACE, seed=0, knowledge=known, alpha=alpha)


def test_the_numbers_of_successive_rejects() -> None:
    """By hand, for rewards in [0, 1] of which nothing is known: sigma = 1/2."""
    method = rejects(0.5)
    assert method.centres.tolist() == [[0.5, 0.5]]
    assert (method.bias, method.n_pulls) == (1.0, 2)  # log(10) / 2 = 1.15
    for number in range(2):
        method.ask(number)
    for number in range(2):
        assert method.level == 0
        method.tell(number, 0.3)
    assert method.level == 1
    assert sorted(method.centres.tolist()) == [[x, y] for x in (0.25, 0.75) for y in (0.25, 0.75)]
    assert (method.bias, method.n_pulls) == (1 / 4, 36)  # log(80) / 2 * 16 = 35.1
    assert method.tolerance == pytest.approx(2 * ((np.log(80) / 72) ** 0.5 + 1 / 4))


@pytest.mark.parametrize(("alpha", "left"), [(1.0, 3), (2.0, 2), (3.0, 1)])
def test_cells_are_rejected_that_cannot_hold_the_best(alpha: float, left: int) -> None:
    """Without noise B_1 is 2 * 2^-alpha: 1, 1/2, 1/4."""
    method = rejects(0.0, alpha=alpha)
    method.ask(0)
    method.tell(0, 0.0)
    rewards = dict(zip(map(tuple, method.centres), (2.0, 1.6, 1.2, 0.9)))
    for number in range(1, 5):
        point, fidelity = method.ask(number)
        assert fidelity == 1.0
        method.tell(number, rewards[tuple(point)])
    assert (method.level, len(method.centres)) == (2, 4 * left)
    kept = sorted(rewards, key=lambda cell: -rewards[cell])[:left]
    nearest = {min(kept, key=lambda cell: np.abs(cell - x).max()) for x in method.centres}
    assert nearest == set(kept)
    assert all(np.abs(np.array(kept) - x).max(axis=1).min() == 1 / 8 for x in method.centres)


def test_a_level_ends_when_all_its_cells_are_told() -> None:
    method = rejects(0.0)
    method.ask(0)
    method.tell(0, 0.0)
    asked = [tuple(method.ask(number)[0]) for number in range(1, 7)]
    assert len(set(asked[:4])) == 4
    assert set(asked[4:]) < set(asked[:4])  # nothing else to do meanwhile
    for number in (1, 2, 3, 6):
        method.tell(number, 0.0)
    assert method.level == 1
    method.tell(4, 0.0)
    assert method.level == 2
    method.tell(5, 9.0)  # too late
    assert method.level == 2
    assert not method._n_told.any()


def test_a_level_that_is_too_large_is_subsampled() -> None:
    space = box([0.0] * 20, [1.0] * 20)
    method = SuccessiveRejects(space, seed=0, knowledge=Knowledge(n_evaluations=50))
    for number in range(60):
        point, _ = method.ask(number)
        method.tell(number, float(-np.square(point).sum()))
    assert method.level == 1
    assert len(np.unique(method.centres, axis=0)) == 50


def test_successive_rejects_converges_under_noise() -> None:
    method, rng = rejects(0.05), np.random.default_rng(0)
    for number in range(400):
        point, _ = method.ask(number)
        method.tell(number, bowl(np.array(point), 1.0) + rng.normal(0, 0.05))
    assert method.level == 3
    far = np.abs(method.centres - 0.3).max(axis=1)
    assert far.min() < 1 / 16  # the cell of the optimum is left
    assert far.max() < 0.5  # and none of those further away than 0.5, of up to 0.64


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
