"""Compare samplers: the same seconds for each, and their results measured in alternation."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import statistics

import optuna
from tqdm import tqdm

from examples.postgres import cli
from examples.postgres.evaluator import Evaluator
from examples.postgres.knobs import Configuration
from examples.postgres.paired import full_run
from examples.postgres.tune import best_configuration
from examples.postgres.tune import make_pruner
from examples.postgres.tune import make_sampler
from examples.postgres.tune import SAMPLERS
from examples.postgres.tune import tune


Found = Mapping[str, Sequence[Configuration]]  # by sampler, one for each seed


def search(
    evaluator: Evaluator, *, budget: float, n_seeds: int, in_flight: int
) -> dict[str, list[Configuration]]:
    """Return what every sampler found with every seed."""
    found: dict[str, list[Configuration]] = {name: [] for name in SAMPLERS}
    with tqdm(total=n_seeds * len(SAMPLERS), unit="study") as bar:
        for seed in range(n_seeds):
            for name in SAMPLERS:
                bar.set_description(f"{name}, seed {seed}")
                evaluator.apply(evaluator.knobs.defaults)
                study = optuna.create_study(
                    sampler=make_sampler(name, evaluator, seed=seed),
                    pruner=make_pruner(name, evaluator.workload.n_rounds),
                )
                tune(study, evaluator, budget=budget, in_flight=in_flight)
                best = best_configuration(study, evaluator)
                found[name].append(evaluator.knobs.defaults if best is None else best)
                bar.update()
    return found


def measure(
    evaluator: Evaluator, found: Found, *, n_repeats: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Return the seconds of the default, and the median of each configuration by sampler."""
    default: list[float] = []
    runs: dict[tuple[str, int], list[float]] = {
        (name, i): [] for name in found for i in range(len(found[name]))
    }
    with tqdm(total=n_repeats * (len(runs) + 1), desc="measure", unit="run") as bar:
        for _ in range(n_repeats):
            default.append(full_run(evaluator, evaluator.knobs.defaults).estimate)
            bar.update()
            for (name, i), seconds in runs.items():
                seconds.append(full_run(evaluator, found[name][i]).estimate)
                bar.update()
    medians: dict[str, list[float]] = {name: [] for name in found}
    for (name, _), seconds in runs.items():
        medians[name].append(statistics.median(seconds))
    return default, medians


def main() -> None:
    parser = cli.new_parser("examples.postgres.compare", __doc__)
    parser.add_argument("--seeds", type=cli.positive_int, default=5, metavar="N", help="runs")
    parser.add_argument(
        "--budget", type=cli.positive, default=60.0, metavar="S", help="seconds of a run"
    )
    parser.add_argument(
        "--repeats", type=cli.positive_int, default=3, metavar="N", help="final runs of each"
    )
    args = parser.parse_args()
    with cli.open_evaluator(parser, args) as evaluator:
        found = search(evaluator, budget=args.budget, n_seeds=args.seeds, in_flight=args.in_flight)
        default, medians = measure(evaluator, found, n_repeats=args.repeats)
    before = statistics.median(default)
    print(f"default {before:.2f} s; times as fast, of {args.seeds} runs of {args.budget:g} s:")
    for name, seconds in medians.items():
        ratios = sorted(before / s for s in seconds)
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {name:6}  median {statistics.median(ratios):.2f}  ({each})")


if __name__ == "__main__":
    cli.run(main)
