"""How long one ask and tell takes as a study grows, and what the sampler keeps in memory.

Run it with ``python benchmarks/latency.py``; the full table takes a few minutes. All samplers run
in turn in one process, on the in-memory storage, so that their times can be compared. A sampler
fills its study with its own trials, but those that are too slow for that (``--fill``) get random
ones.
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


def measure(
    name: str, sizes: list[int], n_dims: int, n_timed: int, fill: bool
) -> tuple[dict[int, float], dict[int, float]]:
    """Return milliseconds of one ask and tell, by the number of trials in the study.

    First the median of some trials at that size. Then the mean of all trials since the size
    before, which includes the rare ones that recompute the whole tree; NaN where another sampler
    filled the study.
    """
    space: dict[str, BaseDistribution] = {f"x{i}": FloatDistribution(0, 1) for i in range(n_dims)}
    study = optuna.create_study(sampler=SAMPLERS[name]())
    sampler = study.sampler
    filler = RandomSampler(seed=1) if fill else sampler
    medians, means = {}, {}
    with tqdm(total=sizes[-1], desc=name, unit="trial", file=sys.stderr) as bar:
        for size in sizes:
            study.sampler = filler
            n = len(study.get_trials(deepcopy=False))
            start = time.perf_counter()
            for _ in range(size - n):
                step(study, space)
                bar.update()
            spent = 1e3 * (time.perf_counter() - start)
            means[size] = math.nan if fill else spent / max(size - n, 1)
            study.sampler = sampler
            step(study, space)  # reads what the filler did
            timed = []
            for _ in range(n_timed):
                start = time.perf_counter()
                step(study, space)
                timed.append(1e3 * (time.perf_counter() - start))
            medians[size] = statistics.median(timed)
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
    parser.add_argument("--timed", type=int, default=200, help="timed trials per size (200)")
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
        "--memory-at", type=int, default=20_000, help="trials at which to weigh it (20000)"
    )
    args = parser.parse_args()
    if min(*args.sizes, args.dims, args.timed, args.memory_at) < 1:
        parser.error("--sizes, --dims, --timed and --memory-at must be positive")
    sizes = sorted(args.sizes)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)

    measured = {
        # The slow ones cannot be timed as often.
        name: measure(
            name, sizes, args.dims, args.timed if name != "TPE" else 10, name in args.fill
        )
        for name in args.samplers
    }
    print(f"milliseconds of one ask and tell, {args.dims} parameters, in-memory storage")
    for i, title in enumerate(("median at that size", "mean of all trials up to that size")):
        print(f"\n| {title} | " + " | ".join(f"{size:,}" for size in sizes) + " |")
        print("|---" * (len(sizes) + 1) + "|")
        for name, rows in measured.items():
            numbers = (f"{rows[i][size]:.2f}".replace("nan", "--") for size in sizes)
            print(f"| {name} | " + " | ".join(numbers) + " |")
    times = {name: medians for name, (medians, _) in measured.items()}
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
