"""Measure how the cost of an evaluation depends on its depth in the tree.

If the knobs that are expensive to change are split first, deep cells share their values and pay
nothing for them. The control splits the cheap ones first. Cost is the wall clock of a trial with
every reconfiguration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from pathlib import Path
import statistics

from matplotlib.figure import Figure
import optuna
from optuna.pruners import NopPruner
from tqdm import tqdm

from examples.postgres import cli
from examples.postgres.evaluator import Evaluator
from examples.postgres.knobs import Cost
from examples.postgres.report import means_by_depth
from examples.postgres.report import new_picture
from examples.postgres.tune import COST
from examples.postgres.tune import make_pruner
from examples.postgres.tune import make_sampler
from examples.postgres.tune import QUERIES
from examples.postgres.tune import RECONFIGURATION
from examples.postgres.tune import split_order
from examples.postgres.tune import tune
from optuna_pcts import CostFit
from optuna_pcts import ExponentialCost
from optuna_pcts import fit_cost
from optuna_pcts import PolynomialDecay


Order = Sequence[str | Sequence[str]]

# A share of the workload, the same at every depth: one that rises with depth hides the decay in
# longer runs.
_FRACTION = 0.25


@dataclass(frozen=True)
class Arm:
    """One way to search, over several seeds."""

    name: str
    order: Order
    fraction: float | None  # None: by depth


@dataclass
class Result:
    """What was measured of one arm."""

    arm: Arm
    studies: list[optuna.Study]
    n_builds: int = 0
    n_restarts: int = 0

    @property
    def pooled(self) -> optuna.Study:
        """The trials of all seeds."""
        study = optuna.create_study()
        for part in self.studies:
            study.add_trials(part.get_trials(deepcopy=False))
        return study

    def total(self, key: str) -> float:
        """Return the sum of a user attribute over all trials."""
        trials = self.pooled.get_trials(deepcopy=False)
        return math.fsum(trial.user_attrs.get(key, 0.0) for trial in trials)


def arms(evaluator: Evaluator) -> list[Arm]:
    """Return the arms of the experiment."""
    expensive_first = split_order(evaluator)
    session = [knob.name for knob in evaluator.knobs if knob.cost is Cost.SESSION]
    cheap_first: Order = [session, *reversed(expensive_first)]
    return [
        Arm("expensive first", expensive_first, _FRACTION),
        Arm("cheap first (control)", cheap_first, _FRACTION),
        Arm("expensive first, rising fidelity", expensive_first, None),
    ]


def run(
    evaluator: Evaluator, *, n_seeds: int, n_trials: int, in_flight: int, n_arms: int
) -> list[Result]:
    """Run every arm with every seed, in turn, so that what the machine does hits all alike."""
    results = [Result(arm, []) for arm in arms(evaluator)[:n_arms]]
    with tqdm(total=n_seeds * n_arms * n_trials, unit="trial") as bar:
        for seed in range(n_seeds):
            for result in results:
                arm = result.arm
                bar.set_description(f"{arm.name}, seed {seed}")
                evaluator.apply(evaluator.knobs.defaults)
                study = optuna.create_study(
                    sampler=make_sampler("pcts", evaluator, seed=seed, order=arm.order),
                    pruner=make_pruner("pcts") if arm.fraction is None else NopPruner(),
                )
                before = evaluator.n_builds, evaluator.n_restarts
                tune(
                    study,
                    evaluator,
                    n_trials=n_trials,
                    in_flight=in_flight,
                    fraction=arm.fraction,
                    on_trial=lambda _: bar.update(),
                )
                result.studies.append(study)
                result.n_builds += evaluator.n_builds - before[0]
                result.n_restarts += evaluator.n_restarts - before[1]
    return results


def describe(result: Result) -> str:
    """Return the fits of one arm, seed by seed and of all seeds together."""
    fit = fit_cost(result.pooled, seed=0)
    seeds = ", ".join(
        f"{fit_cost(study, seed=0)[PolynomialDecay].model.beta:.2f}" for study in result.studies
    )
    power, exponential = fit[PolynomialDecay], fit[ExponentialCost]
    low, high = power.beta_interval
    best = [study.best_value for study in result.studies]
    base_low, base_high = exponential.beta_interval
    better = "power law" if power.criterion <= exponential.criterion else "exponential"
    return "\n".join(
        [
            f"{result.arm.name}: {fit.n_trials} trials, h = {fit.depths[0]} to {fit.depths[-1]}, "
            f"{result.n_builds} indexes built, {result.n_restarts} restarts, "
            f"{result.total(RECONFIGURATION):.0f} s of reconfiguration, "
            f"{result.total(QUERIES):.0f} s of queries",
            f"  best of a seed {statistics.median(best):.2f} s (median; noisy, at its own "
            "fidelity)",
            f"  power law    h^-beta, beta = {power.model.beta:.2f} ({low:.2f} to {high:.2f}), "
            f"error {power.error:.2f}; by seed {seeds}",
            f"  exponential  beta^-h, beta = {exponential.model.beta:.3f} ({base_low:.3f} to "
            f"{base_high:.3f}), error {exponential.error:.2f}",
            f"  {verdict(fit)} The {better} fits better.",
        ]
    )


def verdict(fit: CostFit) -> str:
    """Say whether costs decay with depth."""
    low, _ = fit[PolynomialDecay].beta_interval
    return "Decay exhibited." if low > 0 else "Decay not exhibited: the interval contains 0."


def draw(results: Sequence[Result]) -> Figure:
    """Draw the mean cost by depth of every arm, with its power law."""
    figure, axes = new_picture(height=5.0)
    for i, result in enumerate(results):
        pooled = result.pooled
        levels, means = means_by_depth(pooled.get_trials(deepcopy=False), COST)
        model = fit_cost(pooled, seed=0)[PolynomialDecay].model
        axes.plot(levels, means, "o", color=f"C{i}", alpha=0.6)
        label = f"{result.arm.name}: beta {model.beta:.2f}"
        axes.plot(levels, model.cost(levels), "-", color=f"C{i}", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("depth h in the tree")
    axes.set_ylabel("mean seconds of a trial, with reconfiguration")
    axes.legend()
    return figure


def main() -> None:
    parser = cli.new_parser(__doc__)
    parser.add_argument("--seeds", type=cli.positive_int, default=3, metavar="N", help="runs")
    parser.add_argument(
        "--trials", type=cli.positive_int, default=120, metavar="N", help="trials of a run"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a third of the trials, and without rising fidelity",
    )
    parser.add_argument(
        "--report", type=Path, default=Path("postgres-report"), metavar="DIR", help="picture"
    )
    args = parser.parse_args()
    with cli.open_evaluator(parser, args) as evaluator:
        results = run(
            evaluator,
            n_seeds=args.seeds,
            n_trials=max(args.trials // 3, 20) if args.quick else args.trials,
            in_flight=args.in_flight,
            n_arms=2 if args.quick else 3,
        )
    text = "\n".join(describe(result) for result in results)
    print(text)
    args.report.mkdir(parents=True, exist_ok=True)
    (args.report / "decay.txt").write_text(text + "\n")
    draw(results).savefig(args.report / "decay.png")
    print(f"picture: {args.report / 'decay.png'}")


if __name__ == "__main__":
    cli.run(main)
