"""How long one ask and tell takes as a study grows, and what the sampler keeps in memory.

Run it with ``python benchmarks/latency.py``; the full table takes a few minutes. All samplers run
in one process, on the in-memory storage, and are timed in alternation, so that their times can be
compared. A sampler fills its study with its own trials; those that are too slow for that
(``--fill``) get random ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import math
import statistics
import sys
import time
import tracemalloc
import warnings

import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.samplers import BaseSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from tqdm import tqdm

from optuna_pcts import PCTSSampler


SAMPLERS: dict[str, Callable[[], BaseSampler]] = {
    "PCTS": lambda: PCTSSampler(seed=0),
    "Random": lambda: RandomSampler(seed=0),
    "TPE": lambda: TPESampler(seed=0),
}
# To reach, at the largest size: times RandomSampler's time; growth since 1000 trials; bytes.
TARGET_RATIO, TARGET_GROWTH, TARGET_BYTES = 3.0, 2.0, 1000.0
GROWTH_FROM = 1000


def objective(trial: optuna.Trial) -> float:
    return float(sum((x - 0.3) ** 2 for x in trial.params.values()))


def step(study: optuna.Study, space: dict[str, BaseDistribution]) -> None:
    trial = study.ask(space)
    study.tell(trial, objective(trial))


class Subject:
    """A study that grows under one sampler."""

    def __init__(self, name: str, space: dict[str, BaseDistribution], fill: bool) -> None:
        self.name = name
        self._space = space
        self._study = optuna.create_study(sampler=SAMPLERS[name]())
        self._sampler = self._study.sampler
        self._filler = RandomSampler(seed=1) if fill else self._sampler

    def grow(self, size: int) -> float:
        """Fill the study up to a size; return milliseconds per trial, NaN for random trials."""
        self._study.sampler = self._filler
        n = size - len(self._study.get_trials(deepcopy=False))
        start = time.perf_counter()
        for _ in tqdm(range(n), desc=f"{self.name} to {size:,}", unit="trial", file=sys.stderr):
            step(self._study, self._space)
        spent = 1e3 * (time.perf_counter() - start)
        self._study.sampler = self._sampler
        step(self._study, self._space)  # reads the random trials
        return spent / max(n, 1) if self._filler is self._sampler else math.nan

    def time_one(self) -> float:
        """Return the milliseconds of one ask and tell."""
        start = time.perf_counter()
        step(self._study, self._space)
        return 1e3 * (time.perf_counter() - start)


def measure(
    names: list[str], sizes: list[int], n_dims: int, n_timed: int, fill: list[str]
) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:
    """Return milliseconds of one ask and tell, by sampler and number of trials in the study.

    First the median of some trials at that size, the samplers in alternation, so that other load
    on the machine affects all of them. Then the mean of all trials since the size before, which
    includes the rare ones that recompute the whole tree.
    """
    space: dict[str, BaseDistribution] = {f"x{i}": FloatDistribution(0, 1) for i in range(n_dims)}
    subjects = [Subject(name, space, name in fill) for name in names]
    medians: dict[str, dict[int, float]] = {name: {} for name in names}
    means: dict[str, dict[int, float]] = {name: {} for name in names}
    for size in sizes:
        for subject in subjects:
            means[subject.name][size] = subject.grow(size)
        timed: dict[str, list[float]] = {name: [] for name in names}
        for i in range(n_timed):
            for subject in subjects:
                if subject.name not in fill or i < 10:  # the slow ones cannot be timed as often
                    timed[subject.name].append(subject.time_one())
        for name in names:
            medians[name][size] = statistics.median(timed[name])
    return medians, means


def bytes_per_trial(size: int, n_dims: int) -> float:
    """Return what the sampler itself holds: the memory that is freed when it forgets."""
    space: dict[str, BaseDistribution] = {f"x{i}": FloatDistribution(0, 1) for i in range(n_dims)}
    sampler = PCTSSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    for _ in tqdm(range(size), desc="memory", unit="trial", file=sys.stderr):
        step(study, space)
    sampler._forget()
    tracemalloc.start()
    step(study, space)  # builds its tree anew
    held, _ = tracemalloc.get_traced_memory()
    sampler._forget()
    freed = held - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return freed / size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[100, 1000, 10_000, 100_000], metavar="N"
    )
    parser.add_argument("--dims", type=int, default=10, help="number of parameters (10)")
    parser.add_argument("--timed", type=int, default=400, help="timed trials per size (400)")
    parser.add_argument(
        "--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), metavar="NAME"
    )
    parser.add_argument(
        "--fill",
        nargs="*",
        choices=SAMPLERS,
        default=["TPE"],
        metavar="NAME",
        help="samplers whose studies are filled with random trials (TPE)",
    )
    parser.add_argument(
        "--memory-at", type=int, default=20_000, help="trials at which to measure it (20000)"
    )
    args = parser.parse_args()
    if min(*args.sizes, args.dims, args.timed, args.memory_at) < 1:
        parser.error("--sizes, --dims, --timed and --memory-at must be positive")
    sizes = sorted(args.sizes)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)

    times, means = measure(args.samplers, sizes, args.dims, args.timed, args.fill)
    print(f"milliseconds of one ask and tell, {args.dims} parameters, in-memory storage")
    for title, rows in (("median at that size", times), ("mean up to that size", means)):
        print(f"\n| {title} | " + " | ".join(f"{size:,}" for size in sizes) + " |")
        print("|---" * (len(sizes) + 1) + "|")
        for name, row in rows.items():
            numbers = (f"{row[size]:.2f}".replace("nan", "--") for size in sizes)
            print(f"| {name} | " + " | ".join(numbers) + " |")
    if "PCTS" not in times:
        return
    last = sizes[-1]
    print()
    if "Random" in times:
        ratio = times["PCTS"][last] / times["Random"][last]
        print(f"PCTS / Random at {last:,}: {ratio:.2f} (to reach: {TARGET_RATIO:g})")
    if "TPE" in times:
        print(f"TPE / PCTS at {last:,}: {times['TPE'][last] / times['PCTS'][last]:.0f}")
    if GROWTH_FROM in sizes and last > GROWTH_FROM:
        growth = times["PCTS"][last] / times["PCTS"][GROWTH_FROM]
        print(f"PCTS {last:,} / {GROWTH_FROM:,}: {growth:.2f} (to reach: {TARGET_GROWTH:g})")
    size = min(last, args.memory_at)
    held = bytes_per_trial(size, args.dims)
    print(
        f"memory of the sampler at {size:,}: {held:.0f} bytes per trial "
        f"(to reach: {TARGET_BYTES:g})"
    )


if __name__ == "__main__":
    main()
