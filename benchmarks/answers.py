"""What an answer is worth: `recommend` beside the best trial, on many kinds of studies.

``python -m benchmarks.answers`` runs what is missing in the results and makes the page
``answers.md`` of them. A kind of study is a function with a kind of noise; it is asked by several
samplers, with few and with many trials. The regret is that of the point without noise; where the
interval of ``recommend`` holds the value there without noise, it covers it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import astuple
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
import itertools
import math
import os
from pathlib import Path
import pickle
from typing import Any
import zlib

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial

from benchmarks.problems import FloatArray
from benchmarks.problems import HARTMANN6
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.records import row
from benchmarks.records import table
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


Params = dict[str, Any]


@dataclass(frozen=True)
class Function:
    """Something to minimise, down to 0.

    Attributes:
        suggest:
            Asks a trial for its parameters, and returns them.
        loss:
            The value there without noise.
        scale:
            A typical loss of a random point.
        least:
            The smallest regret that matters, in scales: for example that of the best step.
    """

    suggest: Callable[[optuna.Trial], Params]
    loss: Callable[[Params], float]
    scale: float
    least: float = 1e-9


Make = Callable[[np.random.Generator], Function]


def _cube(
    n_dims: int, low: float, high: float, loss: Callable[[FloatArray], float], least: float = 1e-9
) -> Function:
    """Return a function over a cube, with its scale."""

    def suggest(trial: optuna.Trial) -> Params:
        return {f"x{i}": trial.suggest_float(f"x{i}", low, high) for i in range(n_dims)}

    def of(params: Params) -> float:
        return loss(np.array([params[f"x{i}"] for i in range(n_dims)]))

    points = np.random.default_rng(0).uniform(low, high, (300, n_dims))
    scale = float(np.median([loss(x) for x in points]))
    return Function(suggest, of, scale, least)


def _moved(
    n_dims: int,
    half: float,
    loss: Callable[[FloatArray], float],
    rng: np.random.Generator,
    least: float = 1e-9,
) -> Function:
    """Return a function whose optimum lies anywhere in the middle of the cube."""
    best = rng.uniform(-0.6 * half, 0.6 * half, n_dims)
    return _cube(n_dims, -half, half, lambda x: loss(x - best), least)


def _sphere(n_dims: int, rng: np.random.Generator) -> Function:
    return _moved(n_dims, 5.0, lambda x: float(x @ x), rng)


def _rastrigin(rng: np.random.Generator) -> Function:
    def loss(x: FloatArray) -> float:
        return float((x**2 + 10 - 10 * np.cos(2 * np.pi * x)).sum())

    return _moved(5, 5.12, loss, rng)


def _ackley(rng: np.random.Generator) -> Function:
    def loss(x: FloatArray) -> float:
        bowl = 20 * (1 - math.exp(-0.2 * math.sqrt((x @ x) / len(x))))
        return max(bowl + math.e - math.exp(np.cos(2 * np.pi * x).mean()), 0.0)

    return _moved(5, 15.0, loss, rng)


def _rosenbrock(rng: np.random.Generator) -> Function:
    def loss(x: FloatArray) -> float:
        y = x + 1
        return float((100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2).sum())

    return _moved(4, 2.0, loss, rng)


def _schwefel(rng: np.random.Generator) -> Function:
    def loss(x: FloatArray) -> float:
        return float((418.9828872724339 - x * np.sin(np.sqrt(np.abs(x)))).sum())

    return _cube(4, -500.0, 500.0, loss)


def _steps(rng: np.random.Generator) -> Function:
    # One step down in one of the parameters is the least that can be better.
    return _moved(3, 5.0, lambda x: float(np.floor(np.abs(x)).sum()), rng, least=0.1)


def _plateaus(rng: np.random.Generator) -> Function:
    return _moved(2, 5.0, lambda x: float(math.floor(math.sqrt(float(x @ x)))), rng, least=0.2)


def _hartmann(rng: np.random.Generator) -> Function:
    best = HARTMANN6.optimum
    return _cube(6, 0.0, 1.0, lambda x: best - HARTMANN6.function(x, 1.0))


def _decades(rng: np.random.Generator) -> Function:
    """A loss that spans as many decades as a learning rate and a decay do."""

    def suggest(trial: optuna.Trial) -> Params:
        return {
            "rate": trial.suggest_float("rate", 1e-6, 1.0, log=True),
            "decay": trial.suggest_float("decay", 1e-6, 1.0, log=True),
            "depth": trial.suggest_float("depth", 0.0, 1.0),
        }

    best = rng.uniform(-5, -1, 2)

    def loss(params: Params) -> float:
        off = np.log10([params["rate"], params["decay"]]) - best
        return float(10 ** (1.5 * math.sqrt(off @ off) + params["depth"])) - 1.0

    return Function(suggest, loss, 1e3)


def _table(rng: np.random.Generator) -> Function:
    """Recorded runs of a few discrete parameters, neighbours alike."""
    sizes = (4, 6, 3, 5)
    effects = [rng.standard_normal(n) for n in sizes]
    pairs = rng.standard_normal(sizes) * 0.5
    values = sum(np.ix_(*effects)) + pairs
    values -= values.min()
    least = float(np.partition(values.ravel(), 1)[1])

    def suggest(trial: optuna.Trial) -> Params:
        ordered = {f"n{i}": trial.suggest_int(f"n{i}", 0, sizes[i] - 1) for i in (0, 1)}
        others = {
            f"n{i}": trial.suggest_categorical(f"n{i}", list(range(sizes[i]))) for i in (2, 3)
        }
        return {**ordered, **others}

    def loss(params: Params) -> float:
        return float(values[tuple(int(params[f"n{i}"]) for i in range(4))])

    scale = float(np.median(values))
    return Function(suggest, loss, scale, least / scale)


def _branches(rng: np.random.Generator) -> Function:
    """Learners with parameters of their own (conditional); one of the learners is the best."""
    names = ("tree", "linear", "kernel")
    level = dict(zip(names, rng.permutation([0.0, 1.0, 2.0])))
    best = {name: rng.uniform(0.2, 0.8, 2) for name in names}

    def suggest(trial: optuna.Trial) -> Params:
        kind = trial.suggest_categorical("kind", names)
        own = {f"{kind}{i}": trial.suggest_float(f"{kind}{i}", 0, 1) for i in range(2)}
        return {"kind": kind, "common": trial.suggest_float("common", 0, 1), **own}

    def loss(params: Params) -> float:
        kind = str(params["kind"])
        off = np.array([params[f"{kind}{i}"] for i in range(2)]) - best[kind]
        return float(level[kind] + 5 * (off @ off) + (params["common"] - 0.4) ** 2)

    return Function(suggest, loss, 2.0)


def _growing(rng: np.random.Generator) -> Function:
    """A range that is widened while the study runs."""
    best = rng.uniform(1.0, 3.0, 2)

    def suggest(trial: optuna.Trial) -> Params:
        high = 2.0 + trial.number // 5
        return {name: trial.suggest_float(name, 0.0, high) for name in "xy"}

    def loss(params: Params) -> float:
        return float((params["x"] - best[0]) ** 2 + (params["y"] - best[1]) ** 2)

    return Function(suggest, loss, 50.0)


FUNCTIONS: Mapping[str, Make] = {
    "sphere4": partial(_sphere, 4),
    "sphere20": partial(_sphere, 20),
    "Rastrigin5": _rastrigin,
    "Ackley5": _ackley,
    "Rosenbrock4": _rosenbrock,
    "Schwefel4": _schwefel,
    "steps3": _steps,
    "plateaus2": _plateaus,
    "Hartmann6": _hartmann,
    "decades3": _decades,
    "table4": _table,
    "branches": _branches,
    "growing2": _growing,
}


def _outliers(loss: float, scale: float, rng: np.random.Generator) -> float:
    return loss - 10 * scale * (rng.random() < 0.02)


# How a value comes from the loss, its scale and a generator.
NOISES: Mapping[str, Callable[[float, float, np.random.Generator], float]] = {
    "none": lambda loss, scale, rng: loss,
    "normal": lambda loss, scale, rng: loss + 0.2 * scale * rng.standard_normal(),
    "Student t2": lambda loss, scale, rng: loss + 0.1 * scale * float(rng.standard_t(2)),
    "multiplicative": lambda loss, scale, rng: (
        (loss + 0.2 * scale) * math.exp(0.3 * rng.standard_normal()) - 0.2 * scale
    ),
    "outliers": _outliers,
    # A learning curve, evaluated at several fidelities.
    "partial": lambda loss, scale, rng: loss + 0.05 * scale * rng.standard_normal(),
}
_N_STEPS = 9
SAMPLERS: Mapping[str, Callable[[int], BaseSampler]] = {
    "PCTS": lambda seed: PCTSSampler(seed=seed),
    "TPE": lambda seed: TPESampler(seed=seed),
    "Random": lambda seed: RandomSampler(seed=seed),
}


@dataclass(frozen=True)
class Run:
    """One study."""

    function: str
    noise: str
    n_trials: int
    sampler: str
    seed: int


@dataclass(frozen=True)
class Result:
    """The result of `recommend`.

    Attributes:
        regret, regret_best:
            Of the recommended trial and of the best one, in scales of the function.
        is_covered:
            Whether the interval contains the noise-free value of the recommended trial.
        width:
            Of the interval, in scales.
    """

    regret: float
    regret_best: float
    is_covered: int
    width: float


def _study(run: Run, function: Function) -> optuna.Study:
    """Run a study."""
    draw = NOISES[run.noise]
    rng = np.random.default_rng([run.seed, 1])
    is_partial = run.noise == "partial"
    pruner = PCTSPruner(_N_STEPS) if is_partial else None
    study = optuna.create_study(sampler=SAMPLERS[run.sampler](run.seed), pruner=pruner)

    def objective(trial: optuna.Trial) -> float:
        loss = function.loss(function.suggest(trial))
        if not is_partial:
            return draw(loss, function.scale, rng)
        start = function.scale * rng.uniform(1.0, 3.0)  # not the same for all
        value = math.nan
        for step in range(1, _N_STEPS + 1):
            value = draw(loss + start * (1 / step - 1 / _N_STEPS), function.scale, rng)
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=run.n_trials)
    return study


def execute(run: Run, studies: Path | None = None) -> Result:
    """Run it.

    Args:
        run:
            What to run.
        studies:
            A folder that keeps the trials. Where it has them, only `recommend` is run again.
    """
    function = _function(run)
    kept = studies and studies / f"{'-'.join(map(str, astuple(run)))}.pickle"
    if kept and kept.is_file():
        study = optuna.create_study()
        study.add_trials(pickle.loads(kept.read_bytes()))
    else:
        study = _study(run, function)
        if kept:
            kept.write_bytes(pickle.dumps(study.get_trials(deepcopy=False)))
    answer = recommend(study)
    truth = function.loss(dict(answer.params))
    best: FrozenTrial = study.best_trial
    low, high = answer.interval
    scale = function.scale
    return Result(
        truth / scale,
        function.loss(best.params) / scale,
        int(low <= truth <= high),
        (high - low) / scale,
    )


def _function(run: Run) -> Function:
    """Return the function of a run: the same for all samplers."""
    return FUNCTIONS[run.function](
        np.random.default_rng([run.seed, zlib.crc32(run.function.encode())])
    )


def _rows(run: Run, studies: Path | None = None) -> dict[Run, Result]:
    return {run: execute(run, studies)}


RECORDS = Records(Run, Result, _rows)


def kinds() -> list[tuple[str, str]]:
    """Return the kinds of studies: a function and a noise."""
    plain = [n for n in NOISES if n not in ("outliers", "partial")]
    special = [("branches", n) for n in plain[:2]] + [("growing2", n) for n in plain[:2]]
    special += [("decades3", "none"), ("decades3", "multiplicative")]
    special += [("table4", n) for n in plain[:3]]
    special += [(f, n) for f in ("sphere4", "Hartmann6") for n in ("outliers", "partial")]
    usual = [f for f in FUNCTIONS if f not in {f for f, n in special} - {"sphere4", "Hartmann6"}]
    return [*itertools.product(usual, plain), *special]


def _ratio(run: Run, result: Result) -> float:
    """Return the regret over that of the best trial, both bounded below by what matters."""
    least = _function(run).least
    return max(result.regret, least) / max(result.regret_best, least)


def _mean(ratios: Iterable[float]) -> float:
    return math.exp(float(np.mean(np.log(list(ratios)))))


def page(results: Mapping[Run, Result], manifest: list[dict[str, object]]) -> str:
    """Return the page of the results."""
    known = kinds()
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    covered: dict[tuple[str, str], list[int]] = defaultdict(list)
    for run, result in results.items():
        for key in ((run.function, run.noise), (run.sampler, run.noise), ("all", run.noise)):
            ratios[key].append(_ratio(run, result))
            covered[key].append(result.is_covered)
        covered[run.function, "all"].append(result.is_covered)
        covered[f"{run.n_trials} trials", "all"].append(result.is_covered)
        covered[run.sampler, "all"].append(result.is_covered)
    noises = [n for n in NOISES if ("all", n) in ratios]

    def cells(name: str, of: Mapping[tuple[str, str], list[float] | list[int]]) -> list[str]:
        found = [of.get((name, noise)) for noise in noises]
        mean = _mean if of is ratios else np.mean
        return [f"{mean(x):.2f}" if x else "" for x in found]

    rows = [f for f in FUNCTIONS if any((f, n) in known and (f, n) in ratios for n in noises)]
    lines = ["# Answers", "", (__doc__ or "").split("\n\n", 1)[1].strip()]
    lines += ["", "## Regret of `recommend` over that of the best trial", ""]
    lines += ["Geometric means; 1 is as good as the best trial, less is better."]
    lines += table("function", *noises)
    lines += [row(f, *cells(f, ratios)) for f in [*rows, *SAMPLERS, "all"]]
    lines += ["", "## Share of the studies whose interval (95 %) holds the truth"]
    lines += table("function", *noises, "all")
    for f in [*rows, *SAMPLERS]:
        lines.append(row(f, *cells(f, covered), f"{np.mean(covered[f, 'all']):.2f}"))
    sizes = sorted({run.n_trials for run in results})
    lines += ["", "By number of trials: " + ", ".join(
        f"{n}: {np.mean(covered[f'{n} trials', 'all']):.2f}" for n in sizes
    ) + "."]  # fmt: skip
    return "\n".join([*lines, *made_by(manifest)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), metavar="FUNCTION")
    parser.add_argument("--noises", nargs="+", choices=list(NOISES), metavar="NOISE")
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--trials", type=int, nargs="+", default=[25, 150])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page")
    parser.add_argument(
        "--studies", type=Path, metavar="DIR",
        help="keep the trials of each run here; if they are here, only run `recommend` again",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    runs = [
        Run(function, noise, n_trials, sampler, seed)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for (function, noise), n_trials, sampler in itertools.product(
            kinds(), args.trials, args.samplers
        )
        if function in (args.functions or FUNCTIONS) and noise in (args.noises or NOISES)
    ]
    path = args.results / "answers.csv"
    records = RECORDS
    if args.studies:
        args.studies.mkdir(parents=True, exist_ok=True)
        records = replace(records, execute=partial(_rows, studies=args.studies))
    records.complete(runs, path, module="benchmarks.answers", n_jobs=args.jobs)
    output = args.output or args.results.parent / "answers.md"
    manifest = read_manifest(args.results / "manifest.json", "benchmarks.answers")
    output.write_text(page(records.read(path), manifest))
    print(output)


if __name__ == "__main__":
    main()
