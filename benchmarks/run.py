"""Run methods on problems under delay and noise, on a virtual clock, and keep the results.

``python -m benchmarks.run`` goes on where it was interrupted: what is in the results is not run
again. ``python -m benchmarks.report`` makes tables of them. The wider set of problems is run with
``--problems wide --workers 8 --delays "geometric 0.1" --evaluations 50 150 600 2000``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import astuple
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
import itertools
import os
from pathlib import Path
import pickle
import time

import numpy as np
import optuna
from optuna.pruners import NopPruner
from optuna.trial import TrialState

from benchmarks import problems
from benchmarks.methods import ABLATIONS
from benchmarks.methods import able
from benchmarks.methods import Entry
from benchmarks.methods import EXTERNAL
from benchmarks.methods import METHODS
from benchmarks.methods import PAPER
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.methods import Task
from benchmarks.problems import MULTI_FIDELITY
from benchmarks.problems import Problem
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.shapes import WIDE
from benchmarks.simulation import Delay
from benchmarks.simulation import parse_delay
from benchmarks.simulation import Simulation
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts._study.settings import tree_of


# Each makes an instance of its problem. Each seed has its own: on one that stays the same, a grid
# may be a chance result.
PROBLEMS: Mapping[str, Callable[[np.random.Generator], Problem]] = {
    **{name: problem.cropped for name, problem in problems.PAPER.items()},
    **{shape.name: shape.instance for shape in WIDE},
}
# Names on the command line that stand for several.
PROBLEM_GROUPS: Mapping[str, Sequence[str]] = {
    "paper": [problem.name for problem in MULTI_FIDELITY],
    "wide": [shape.name for shape in WIDE],
}
METHOD_GROUPS: Mapping[str, Sequence[str]] = {
    "peers": list(PEERS),
    "external": list(EXTERNAL),
    "paper": list(PAPER),
    "ablations": [PCTS, *ABLATIONS],
}


@dataclass(frozen=True)
class Run:
    """One method on one problem in one setting."""

    problem: str
    method: str
    workers: int
    delay: str
    noise: str
    evaluations: int
    seed: int


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes:
        regret, regret_best:
            Of the recommended point and of Optuna's best trial, without noise and at full
            fidelity. NaN if there is none.
        n_trials, n_told:
            Trials asked, and those whose value has arrived.
        height, n_nodes:
            Of the tree; 0 if there is none.
        sampler_seconds:
            Real time of all that is not the problem: sampler and Optuna.
    """

    regret: float
    regret_best: float
    n_trials: int
    n_told: int
    height: int
    n_nodes: int
    sampler_seconds: float


def execute(run: Run, studies: Path | None = None) -> Result:
    """Run it.

    Args:
        run:
            What to run.
        studies:
            A folder that keeps the trials of each run. Where it has them, only the answer is
            sought again: to see what another :func:`recommend` makes of the same trials.
    """
    problem = PROBLEMS[run.problem](np.random.default_rng(run.seed))
    kept = studies and studies / f"{'-'.join(map(str, astuple(run)))}.pickle"
    if kept and kept.is_file():
        trials, numbers = pickle.loads(kept.read_bytes())
        study = optuna.create_study(direction="maximize")
        study.add_trials(trials)
        regret, regret_best = _regrets(study, problem)
        return replace(Result(**numbers), regret=regret, regret_best=regret_best)
    entry = METHODS[run.method](Task(problem, run.seed, run.evaluations))
    # Optuna's workers tell a value before they ask again: as many trials are in flight as workers.
    entry = replace(entry, waits=True)
    started = time.perf_counter()
    simulation = start(
        problem, entry, run.seed, parse_delay(run.delay), n_workers=run.workers, noise=run.noise
    )
    simulation.spend(run.evaluations * problem.cost(1.0))
    result = measure(simulation, entry.sampler, time.perf_counter() - started)
    if kept:
        trials = simulation.study.get_trials(deepcopy=False)
        kept.write_bytes(pickle.dumps((trials, asdict(result))))
    return result


def start(
    problem: Problem,
    entry: Entry,
    seed: int,
    delay: Delay,
    *,
    n_workers: int = 1,
    noise: str = "normal",
) -> Simulation:
    """Return a method at the start of its work, in evaluations of one step."""
    return Simulation(
        problem,
        entry.sampler,
        NopPruner(),
        n_workers=n_workers,
        n_steps=1,
        seed=seed,
        delay=delay,
        fidelity=entry.fidelity,
        noise=noise,
        waits=entry.waits,
    )


def measure(
    simulation: Simulation, sampler: optuna.samplers.BaseSampler, seconds: float
) -> Result:
    """Return where a simulation stands."""
    trials = simulation.study.get_trials(deepcopy=False)
    n_told = sum(trial.state == TrialState.COMPLETE for trial in trials)
    regret, regret_best = float("nan"), float("nan")
    if n_told:
        regret, regret_best = _regrets(simulation.study, simulation.problem)
    height, n_nodes = tree_size(simulation.study, sampler)
    return Result(regret, regret_best, len(trials), n_told, height, n_nodes, seconds)


def _regrets(study: optuna.Study, problem: Problem) -> tuple[float, float]:
    """Return the regret of the recommended point and that of the best trial."""
    recommended, best = recommend(study).params, study.best_params
    return problem.regret(problem.point(recommended)), problem.regret(problem.point(best))


def tree_size(study: optuna.Study, sampler: optuna.samplers.BaseSampler) -> tuple[int, int]:
    """Return height and number of nodes of a method's largest tree."""
    trees = getattr(sampler, "trees", ())
    if isinstance(sampler, PCTSSampler):
        trees = [tree_of(study)[1]]
    return (
        max((tree.depth for tree in trees), default=0),
        max((tree.n_nodes for tree in trees), default=0),
    )


def _rows(run: Run, studies: Path | None = None) -> dict[Run, Result]:
    return {run: execute(run, studies)}


RECORDS = Records(Run, Result, _rows)
read = RECORDS.read


def _expand(names: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names with groups replaced by what they stand for, each once."""
    return list(dict.fromkeys(n for name in names for n in groups.get(name, [name])))


def _help(names: Collection[str], groups: Collection[str]) -> str:
    text = f"some of: {', '.join(names)}; or several at once: {', '.join(groups)}"
    return text.replace("%", "%%")  # which argparse reads as a format


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", nargs="+", choices=[*PROBLEMS, *PROBLEM_GROUPS], metavar="PROBLEM",
        default=["paper"], help=_help(PROBLEMS, PROBLEM_GROUPS),
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", choices=[*METHODS, *METHOD_GROUPS], metavar="METHOD",
        default=[PCTS, "peers"], help=_help(METHODS, METHOD_GROUPS),
    )  # fmt: skip
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8, 32])
    parser.add_argument(
        "--delays", nargs="+", default=["constant 4", "geometric 0.1"],
        help="'none', 'constant 4', 'geometric 0.1', 'heavy-tailed 1.5'",
    )  # fmt: skip
    parser.add_argument("--noise", choices=["normal", "laplace"], default="normal")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[150, 600])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument(
        "--studies", type=Path, metavar="DIR",
        help="keep the trials of each run here; if they are here, only seek the answer again",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    for delay in args.delays:
        try:
            parse_delay(delay)
        except ValueError as error:
            parser.error(str(error))
    methods = able(_expand(args.methods, METHOD_GROUPS), args.methods, parser.error)

    runs = [
        Run(problem, method, workers, delay, args.noise, evaluations, seed)
        for seed, evaluations, delay, workers, problem, method in itertools.product(
            range(args.first_seed, args.first_seed + args.seeds),
            args.evaluations,
            args.delays,
            args.workers,
            _expand(args.problems, PROBLEM_GROUPS),
            methods,
        )
    ]
    path = args.results / "runs.csv"
    records = RECORDS
    if args.studies:
        args.studies.mkdir(parents=True, exist_ok=True)
        records = replace(records, execute=partial(_rows, studies=args.studies))
    records.complete(runs, path, module="benchmarks.run", n_jobs=args.jobs)


if __name__ == "__main__":
    main()
