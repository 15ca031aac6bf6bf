"""Whether a search finds what lies elsewhere: several basins, and functions full of bumps.

``python -m benchmarks.exploration`` runs what is missing in the results and makes the page
``exploration.md`` of them. All have 300 trials, one at a time. Where there are basins, a search
has found the deepest if the point that it ends with lies in it: the recommended one, or without
noise the best trial. Where there are bumps, it is how good this point is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
import os
from pathlib import Path
import zlib

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler

from benchmarks.problems import FloatArray
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.records import row
from benchmarks.records import table
from optuna_pcts import DUCBV
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


N_TRIALS = 300


@dataclass(frozen=True)
class Landscape:
    """Something to minimise over the unit cube, down to 0.

    Attributes:
        n_dims:
            Number of parameters.
        loss:
            The value without noise.
        noise_std:
            Standard deviation of the noise.
        is_found:
            Whether a point lies in the deepest basin. None if there are none.
    """

    n_dims: int
    loss: Callable[[FloatArray], float]
    noise_std: float = 0.0
    is_found: Callable[[FloatArray], bool] | None = None


Make = Callable[[np.random.Generator], Landscape]


def _basins(
    centers: FloatArray, depths: FloatArray, slopes: FloatArray, noise_std: float
) -> Landscape:
    """Return the minimum of several bowls, the first one the deepest."""

    def all_of(x: FloatArray) -> FloatArray:
        bowls: FloatArray = depths + slopes * ((x - centers) ** 2).sum(axis=1)
        return bowls

    return Landscape(
        centers.shape[1],
        lambda x: float(all_of(x).min()),
        noise_std,
        lambda x: not all_of(x).argmin(),
    )


def _two(
    n_dims: int, gap: float, slope: float, noise_std: float, rng: np.random.Generator
) -> Landscape:
    """Two basins: the deeper one is the narrower."""
    centers = _apart(2, n_dims, 0.5 if n_dims < 4 else 0.6, rng)
    return _basins(centers, np.array([0.0, gap]), np.array([slope, 1.0]), noise_std)


def _two_fixed(rng: np.random.Generator) -> Landscape:
    centers = np.array([[0.8, 0.8], [0.2, 0.2]])
    return _basins(centers, np.array([0.0, 0.05]), np.array([20.0, 1.0]), 0.0)


def _many(
    n_dims: int,
    n: int,
    depths: tuple[float, float],
    slopes: tuple[float, float],
    noise_std: float,
    rng: np.random.Generator,
) -> Landscape:
    """Many basins of different depths and widths; the deepest is about as wide as others."""
    others = n - 1
    return _basins(
        _apart(n, n_dims, 0.18 if n_dims < 3 else 0.3, rng),
        np.append(0.0, rng.uniform(*depths, others)),
        np.append(slopes[1] / 2, rng.uniform(*slopes, others)),
        noise_std,
    )


def _apart(n: int, n_dims: int, gap: float, rng: np.random.Generator) -> FloatArray:
    """Draw points that are so far apart from each other at least."""
    while True:
        points: FloatArray = rng.uniform(0.1, 0.9, (n, n_dims))
        gaps = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
        if gaps[np.triu_indices(n, 1)].min() > gap:
            return points


def _rastrigin(n_dims: int, noise_std: float, rng: np.random.Generator) -> Landscape:
    best = rng.uniform(-2.5, 2.5, n_dims)

    def loss(x: FloatArray) -> float:
        y = 10.24 * x - 5.12 - best
        return float((y**2 + 10 - 10 * np.cos(2 * np.pi * y)).sum())

    return Landscape(n_dims, loss, noise_std)


def _schwefel(n_dims: int, rng: np.random.Generator) -> Landscape:
    def loss(x: FloatArray) -> float:
        y = 1000 * x - 500
        return float((418.9828872724339 - y * np.sin(np.sqrt(np.abs(y)))).sum())

    return Landscape(n_dims, loss)


LANDSCAPES: Mapping[str, Make] = {
    # min(|x - .2|^2 + .05, 20 |x - .8|^2)
    "two basins, 2-D, fixed": _two_fixed,
    "two basins, 2-D": partial(_two, 2, 0.05, 20.0, 0.0),
    "two basins, 2-D, noise": partial(_two, 2, 0.05, 20.0, 0.02),
    "two basins, 3-D": partial(_two, 3, 0.1, 6.0, 0.0),
    "two basins, 3-D, noise": partial(_two, 3, 0.1, 6.0, 0.05),
    "two basins, 4-D": partial(_two, 4, 0.2, 4.0, 0.0),
    "eight basins, 2-D": partial(_many, 2, 8, (0.05, 0.3), (1.0, 40.0), 0.0),
    "six basins, 3-D, noise": partial(_many, 3, 6, (0.1, 0.4), (1.0, 12.0), 0.04),
    "Rastrigin3, noise": partial(_rastrigin, 3, 1.0),
    "Rastrigin10": partial(_rastrigin, 10, 0.0),
    "Schwefel10": partial(_schwefel, 10),
}
METHODS: Mapping[str, Callable[[int], BaseSampler]] = {
    "PCTS": lambda seed: PCTSSampler(seed=seed),
    "PCTS, c = 1": lambda seed: PCTSSampler(seed=seed, policy=DUCBV(c=1.0)),
    "PCTS, as in the paper": lambda seed: PCTSSampler(
        seed=seed, local_share=0.0, prior_std=None, point="center"
    ),
    "TPE": lambda seed: TPESampler(seed=seed),
    "Random": lambda seed: RandomSampler(seed=seed),
}


@dataclass(frozen=True)
class Run:
    """One study."""

    landscape: str
    method: str
    seed: int


@dataclass(frozen=True)
class Result:
    """The point that a study ends with.

    Attributes:
        regret:
            Of the point, without noise.
        is_found:
            Whether it lies in the deepest basin.
    """

    regret: float
    is_found: int


def execute(run: Run) -> Mapping[Run, Result]:
    """Run a study."""
    name = zlib.crc32(run.landscape.encode())
    landscape = LANDSCAPES[run.landscape](np.random.default_rng([run.seed, name]))
    rng = np.random.default_rng([run.seed, 1])
    names = [f"x{i}" for i in range(landscape.n_dims)]

    def objective(trial: optuna.Trial) -> float:
        point = np.array([trial.suggest_float(name, 0, 1) for name in names])
        return landscape.loss(point) + landscape.noise_std * float(rng.standard_normal())

    study = optuna.create_study(sampler=METHODS[run.method](run.seed))
    study.optimize(objective, n_trials=N_TRIALS)
    answer = recommend(study) if landscape.noise_std else study.best_trial
    point = np.array([answer.params[name] for name in names])
    found = landscape.is_found is not None and landscape.is_found(point)
    return {run: Result(landscape.loss(point), int(found))}


RECORDS = Records(Run, Result, execute)


def page(results: Mapping[Run, Result], manifest: list[dict[str, object]]) -> str:
    """Return the page of the results."""
    known = [name for name in LANDSCAPES if any(run.landscape == name for run in results)]
    methods = [name for name in METHODS if any(run.method == name for run in results)]

    def of(landscape: str, method: str) -> list[Result]:
        key = landscape, method
        return [result for run, result in results.items() if (run.landscape, run.method) == key]

    def found(own: list[Result]) -> str:
        return f"{sum(x.is_found for x in own)} of {len(own)}" if own else ""

    def regret(own: list[Result]) -> str:
        return f"{np.median([x.regret for x in own]):.3g}" if own else ""

    has_basins = {
        name: LANDSCAPES[name](np.random.default_rng(0)).is_found is not None for name in known
    }
    lines = ["# Exploration", "", (__doc__ or "").split("\n\n", 1)[1].strip()]
    lines += ["", "## Studies that found the deepest basin"]
    lines += table("", *methods)
    lines += [
        row(name, *(found(of(name, m)) for m in methods)) for name in known if has_basins[name]
    ]
    lines += ["", "## Median regret"]
    lines += table("", *methods)
    lines += [row(name, *(regret(of(name, m)) for m in methods)) for name in known]
    return "\n".join([*lines, *made_by(manifest)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--landscapes", nargs="+", choices=list(LANDSCAPES), metavar="LANDSCAPE")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    args = parser.parse_args()
    runs = [
        Run(landscape, method, seed)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for landscape in args.landscapes or LANDSCAPES
        for method in args.methods or METHODS
    ]
    path = args.results / "exploration.csv"
    RECORDS.complete(runs, path, module="benchmarks.exploration", n_jobs=args.jobs)
    output = args.output or args.results.parent / "exploration.md"
    manifest = read_manifest(args.results / "manifest.json", "benchmarks.exploration")
    output.write_text(page(RECORDS.read(path), manifest))
    print(output)


if __name__ == "__main__":
    main()
