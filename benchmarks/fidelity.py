"""What fidelity buys: regret against cost on the paper's functions, on a virtual clock.

Run it with ``python -m benchmarks.fidelity``; it takes a few minutes. Each method has the same
workers and the same budget, counted in full evaluations: a trial that ends at fidelity z has
cost lambda(z). PCTS is told when a tenth of the largest budget is left, as ``CostBudget`` does.
The regret is that of the point that ``recommend`` names, without noise and at full fidelity, for
all methods; beside it that of Optuna's ``best_trial``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import os
import statistics
import sys
import time
import warnings

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.pruners import HyperbandPruner
from optuna.pruners import NopPruner
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from tqdm import tqdm

from benchmarks.problems import MULTI_FIDELITY
from benchmarks.simulation import Simulation
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts._tree.fidelity import LAST_SHARE


N_STEPS = 27
WITH, WITHOUT, RIVAL = "PCTS, fidelity", "PCTS", "TPE, Hyperband"
METHODS: dict[str, Callable[[int], tuple[BaseSampler, BasePruner]]] = {
    WITH: lambda seed: (PCTSSampler(seed=seed), PCTSPruner(max_resource=N_STEPS)),
    WITHOUT: lambda seed: (PCTSSampler(seed=seed), NopPruner()),
    RIVAL: lambda seed: (
        TPESampler(seed=seed),
        HyperbandPruner(min_resource=1, max_resource=N_STEPS, reduction_factor=3),
    ),
    "Random, halving": lambda seed: (RandomSampler(seed=seed), SuccessiveHalvingPruner()),
}
# To reach, at the largest budget: on how many functions fidelity is better than none, and PCTS
# better than its rival.
TARGET_WITH, TARGET_RIVAL = 4, 5

Job = tuple[int, str, int, argparse.Namespace]
# Problem, method and seed; (regret recommended, regret of the best trial) at each budget; number
# of trials, and of those at full fidelity.
Result = tuple[int, str, int, list[tuple[float, float]], int, int]


def run(job: Job) -> Result:
    index, method, seed, args = job
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    problem = MULTI_FIDELITY[index]
    if not args.fixed_boxes:
        problem = problem.cropped(np.random.default_rng(seed))
    sampler, pruner = METHODS[method](seed)
    simulation = Simulation(
        problem, sampler, pruner, n_workers=args.workers, n_steps=N_STEPS, seed=seed
    )
    regrets = []
    study = simulation.study
    for budget in args.budgets:
        if budget == args.budgets[-1] and isinstance(sampler, PCTSSampler):
            # As CostBudget does.
            simulation.run((1 - LAST_SHARE) * budget)
            sampler.finish()
        simulation.run(budget)
        answers = recommend(study).params, study.best_params
        recommended, best = (problem.regret(problem.point(a)) for a in answers)
        regrets.append((recommended, best))
    trials = study.get_trials(deepcopy=False)
    n_full = sum(t.state == optuna.trial.TrialState.COMPLETE for t in trials)
    return index, method, seed, regrets, len(trials), n_full


def summary(results: list[Result], args: argparse.Namespace) -> list[str]:
    lines = []
    medians: dict[tuple[int, str], list[float]] = {}
    columns = "".join(f" {budget:g} |" for budget in args.budgets)
    lines += [f"| function | method |{columns} best trial | trials | full |"]
    lines += ["|---|---|" + "---|" * (len(args.budgets) + 3)]
    for index, problem in enumerate(MULTI_FIDELITY):
        for method in METHODS:
            rows = [r for r in results if r[:2] == (index, method)]
            recommended = np.array([[pair[0] for pair in r[3]] for r in rows])
            medians[index, method] = np.median(recommended, axis=0).tolist()
            cells = [
                f"{statistics.median(c):.3g} ({min(c):.2g} - {max(c):.2g})" for c in recommended.T
            ]
            best = statistics.median(r[3][-1][1] for r in rows)
            counts = [f"{np.median([r[i] for r in rows]):.0f}" for i in (4, 5)]
            name = problem.name if method == WITH else ""
            lines += ["| " + " | ".join([name, method, *cells, f"{best:.3g}", *counts]) + " |"]
    lines += [""]
    for other, target in ((WITHOUT, TARGET_WITH), (RIVAL, TARGET_RIVAL)):
        for i, budget in enumerate(args.budgets):
            better = [medians[k, WITH][i] < medians[k, other][i] for k in range(5)]
            lost = [p.name for p, b in zip(MULTI_FIDELITY, better) if not b]
            last = f" (to reach: {target})" if i == len(args.budgets) - 1 else ""
            lines += [
                f"{WITH} against {other} at {budget:g}: better on {sum(better)} of 5{last}"
                + (f"; not on {', '.join(lost)}" if lost else "")
            ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[30.0, 60.0, 120.0], metavar="COST",
        help="costs at which to compare, in full evaluations (30 60 120)",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds (20)")
    parser.add_argument("--workers", type=int, default=8, help="asynchronous workers (8)")
    parser.add_argument(
        "--fixed-boxes", action="store_true",
        help="the functions on the boxes of the paper, not on a random part of them",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    args.budgets.sort()
    if min(args.budgets) <= args.workers:
        parser.error("a budget must pay for more than one full evaluation per worker")

    started = time.perf_counter()
    jobs = [(i, m, s, args) for s in range(args.seeds) for i in range(5) for m in METHODS]
    # One thread each: the matrices are too small for more.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        results = list(tqdm(pool.map(run, jobs), total=len(jobs), unit="study"))
    print(f"regret of the recommended point, median (min - max) of {args.seeds} seeds")
    print(f"{args.workers} workers; columns: cost spent, in full evaluations\n")
    print("\n".join(summary(results, args)))
    print(f"\n{time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
