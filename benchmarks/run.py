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
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import as_completed
from concurrent.futures import ProcessPoolExecutor
import csv
from dataclasses import astuple
from dataclasses import dataclass
from dataclasses import fields
from datetime import datetime
from datetime import timezone
import itertools
import json
from multiprocessing import get_context
import os
from pathlib import Path
import platform
import subprocess
import sys
import time
import warnings

import numpy as np
import optuna
from optuna.pruners import NopPruner
from optuna.trial import TrialState
from tqdm import tqdm

from benchmarks.methods import ABLATIONS
from benchmarks.methods import EXTERNAL
from benchmarks.methods import lacks
from benchmarks.methods import METHODS
from benchmarks.methods import PAPER
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.methods import Task
from benchmarks.problems import MULTI_FIDELITY
from benchmarks.problems import Problem
from benchmarks.problems import SCHWEFEL
from benchmarks.shapes import WIDE
from benchmarks.simulation import parse_delay
from benchmarks.simulation import Simulation
import optuna_pcts
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


# Each makes an instance of its problem. Each seed has its own: on one that stays the same, a grid
# may be lucky.
PROBLEMS: Mapping[str, Callable[[np.random.Generator], Problem]] = {
    **{problem.name: problem.cropped for problem in (*MULTI_FIDELITY, SCHWEFEL)},
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
RESULTS = Path(__file__).parent / "results"


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


def execute(run: Run) -> Result:
    """Run it."""
    problem = PROBLEMS[run.problem](np.random.default_rng(run.seed))
    entry = METHODS[run.method](Task(problem, run.seed, run.evaluations))
    started = time.perf_counter()
    simulation = Simulation(
        problem,
        entry.sampler,
        NopPruner(),
        n_workers=run.workers,
        n_steps=1,
        seed=run.seed,
        delay=parse_delay(run.delay),
        fidelity=entry.fidelity,
        noise=run.noise,
        waits=entry.waits,
    )
    simulation.spend(run.evaluations * problem.cost(1.0))
    seconds = time.perf_counter() - started
    study = simulation.study
    trials = study.get_trials(deepcopy=False)
    n_told = sum(trial.state == TrialState.COMPLETE for trial in trials)
    regret = regret_best = float("nan")
    if n_told:
        regret = problem.regret(problem.point(recommend(study).params))
        regret_best = problem.regret(problem.point(study.best_params))
    height, n_nodes = _tree(entry.sampler)
    return Result(regret, regret_best, len(trials), n_told, height, n_nodes, seconds)


def _tree(sampler: optuna.samplers.BaseSampler) -> tuple[int, int]:
    """Return height and number of nodes of a method's largest tree."""
    trees = getattr(sampler, "trees", ())
    if isinstance(sampler, PCTSSampler):
        trees = [search._tree for search in sampler._searches]
    return (
        max((tree.depth for tree in trees), default=0),
        max((tree.n_nodes for tree in trees), default=0),
    )


_RUN_FIELDS = [f.name for f in fields(Run)]
_RESULT_FIELDS = [f.name for f in fields(Result)]


def read(path: Path) -> dict[Run, Result]:
    """Return what is in a file of results."""
    if not path.is_file():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            run = Run(
                row["problem"], row["method"], int(row["workers"]), row["delay"], row["noise"],
                int(row["evaluations"]), int(row["seed"]),
            )  # fmt: skip
            found[run] = Result(
                float(row["regret"]), float(row["regret_best"]), int(row["n_trials"]),
                int(row["n_told"]), int(row["height"]), int(row["n_nodes"]),
                float(row["sampler_seconds"]),
            )  # fmt: skip
    return found


def cut_off_last(path: Path) -> None:
    """Remove a line at the end that is not whole: somebody was killed while writing it."""
    if path.is_file() and not (text := path.read_text()).endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1])


def _be_quiet() -> None:
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)


def run_all(runs: Sequence[Run], path: Path, n_jobs: int) -> Iterator[tuple[Run, Result]]:
    """Run all, and write each result as soon as it is there."""
    # One thread each: the matrices are small, and threads would only wait for each other.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONHASHSEED"] = "0"  # SMAC3 draws from sets: the same seed, the same result
    is_new = not path.is_file()
    with (
        path.open("a", newline="") as file,
        ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=_be_quiet) as pool,
    ):
        writer = csv.writer(file)
        if is_new:
            writer.writerow([*_RUN_FIELDS, *_RESULT_FIELDS])
        jobs = {pool.submit(execute, run): run for run in runs}
        try:
            for job in as_completed(jobs):
                run, result = jobs[job], job.result()
                numbers = [f"{x:.6g}" if isinstance(x, float) else x for x in astuple(result)]
                writer.writerow([*astuple(run), *numbers])
                file.flush()
                yield run, result
        finally:
            pool.shutdown(cancel_futures=True)


def write_manifest(path: Path, args: argparse.Namespace) -> None:
    """Add to a file by what the results were made."""
    entries = json.loads(path.read_text()) if path.is_file() else []
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True
    )
    entries.append(
        {
            "command": " ".join(["python -m benchmarks.run", *sys.argv[1:]]),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit.stdout.strip() or None,
            "python": platform.python_version(),
            "optuna": optuna.__version__,
            "optuna_pcts": optuna_pcts.__version__,
            "numpy": np.__version__,
            "cores": os.cpu_count(),
            "seeds": args.seeds,
        }
    )
    path.write_text(json.dumps(entries, indent=2) + "\n")


def _expand(names: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names with groups replaced by what they stand for, each once."""
    return list(dict.fromkeys(n for name in names for n in groups.get(name, [name])))


def _help(names: Collection[str], groups: Collection[str]) -> str:
    return f"some of: {', '.join(names)}; or several at once: {', '.join(groups)}"


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
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    for delay in args.delays:
        try:
            parse_delay(delay)
        except ValueError as error:
            parser.error(str(error))
    methods = []
    for name in _expand(args.methods, METHOD_GROUPS):
        lack = lacks(name)
        if lack is None:
            methods.append(name)
        elif name in args.methods:
            parser.error(lack)
        else:
            print(f"left out: {lack}", file=sys.stderr)

    runs = [
        Run(problem, method, workers, delay, args.noise, evaluations, seed)
        for seed, evaluations, delay, workers, problem, method in itertools.product(
            range(args.seeds),
            args.evaluations,
            args.delays,
            args.workers,
            _expand(args.problems, PROBLEM_GROUPS),
            methods,
        )
    ]
    path = args.results / "runs.csv"
    cut_off_last(path)
    known = read(path)
    todo = [run for run in runs if run not in known]
    print(f"{len(todo)} runs; {len(runs) - len(todo)} are known", file=sys.stderr)
    if not todo:
        return
    args.results.mkdir(parents=True, exist_ok=True)
    write_manifest(args.results / "manifest.json", args)
    try:
        for _ in tqdm(run_all(todo, path, args.jobs), total=len(todo), unit="run"):
            pass
    except KeyboardInterrupt:
        raise SystemExit(
            "\nInterrupted. What is done is kept; the same command goes on."
        ) from None


if __name__ == "__main__":
    main()
