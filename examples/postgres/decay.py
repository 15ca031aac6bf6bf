"""Measure how the cost of an evaluation depends on its depth in the tree.

If the knobs that are expensive to change are split first, deep cells share their values and pay
nothing for them. The control splits the cheap ones first. Cost is the wall clock of a trial with
every reconfiguration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
import math
from pathlib import Path
import statistics

from matplotlib.figure import Figure
import numpy as np
from numpy.typing import NDArray
import optuna
from optuna.pruners import NopPruner
from optuna.trial import TrialState
from tqdm import tqdm

from examples.postgres import cli
from examples.postgres.evaluator import Evaluator
from examples.postgres.knobs import Cost
from examples.postgres.report import DEPTH
from examples.postgres.report import means_by_depth
from examples.postgres.report import new_picture
from examples.postgres.tune import COST
from examples.postgres.tune import make_pruner
from examples.postgres.tune import make_sampler
from examples.postgres.tune import QUERIES
from examples.postgres.tune import RECONFIGURATION
from examples.postgres.tune import split_order
from examples.postgres.tune import tune
from optuna_pcts import fit_cost
from optuna_pcts import PolynomialDecay


Order = Sequence[str | Sequence[str]]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

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
    """Run every arm with every seed, in turn, so that load on the machine affects all alike."""
    results = [Result(arm, []) for arm in arms(evaluator)[:n_arms]]
    with tqdm(total=n_seeds * n_arms * n_trials, unit="trial") as bar:
        for seed in range(n_seeds):
            for result in results:
                arm = result.arm
                bar.set_description(f"{arm.name}, seed {seed}")
                evaluator.apply(evaluator.knobs.defaults)
                study = optuna.create_study(
                    sampler=make_sampler("pcts", evaluator, seed=seed, order=arm.order),
                    pruner=(
                        make_pruner("pcts", evaluator.workload.n_rounds)
                        if arm.fraction is None
                        else NopPruner()
                    ),
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


@dataclass(frozen=True)
class Slope:
    """By how much the logarithm of the cost falls, with a 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def power_law(result: Result) -> Slope:
    """Return beta of cost = c h^-beta, over all depths and all seeds.

    Without the maximum of the paper's table 3, at which :func:`optuna_pcts.fit_cost` lets the
    curve be flat: a slope over all depths is the more cautious estimate, and can be negative.
    """
    levels, costs = _measured(result)
    return _slope(np.log(levels), np.log(costs))


def exponential(result: Result) -> Slope:
    """Return beta of cost = c exp(-beta h), over all depths and all seeds."""
    levels, costs = _measured(result)
    return _slope(levels, np.log(costs))


def _measured(result: Result) -> tuple[Floats, Floats]:
    trials = [t for t in result.pooled.get_trials(deepcopy=False) if DEPTH in t.user_attrs]
    ended = [t for t in trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    levels = np.array([trial.user_attrs[DEPTH] + 1.0 for trial in ended])
    return levels, np.array([trial.user_attrs[COST] for trial in ended])


def _slope(x: Floats, y: Floats) -> Slope:
    def falls(rows: Rows) -> float:
        return -float(np.polyfit(x[rows], y[rows], 1)[0])

    rng = np.random.default_rng(0)
    samples = [falls(rng.integers(len(x), size=len(x))) for _ in range(1000)]
    low, high = np.quantile(samples, [0.025, 0.975])
    return Slope(falls(np.arange(len(x))), float(low), float(high))


def describe(result: Result) -> str:
    """Return the measurements of one arm, and whether costs decay."""
    fit = fit_cost(result.pooled, seed=0)
    beta = power_law(result)
    seeds = [power_law(replace(result, studies=[study])).value for study in result.studies]
    best = statistics.median(study.best_value for study in result.studies)
    return "\n".join(
        [
            f"{result.arm.name}: {beta_verdict(beta)}",
            f"  {result.n_builds} indexes built, {result.n_restarts} restarts: "
            f"{result.total(RECONFIGURATION):.0f} s of reconfiguration, "
            f"{result.total(QUERIES):.0f} s of queries; best {best:.2f} s (median of the seeds)",
            f"  power law h^-beta: beta {beta}; by seed "
            + ", ".join(f"{value:.2f}" for value in seeds),
            f"  exponential exp(-beta h): beta {exponential(result)}",
            *(f"  {line}" for line in str(fit).splitlines()),
        ]
    )


def beta_verdict(beta: Slope) -> str:
    """Say whether costs decay with depth."""
    if beta.low > 0:
        return "decay exhibited"
    if beta.high < 0:
        return "decay not exhibited: costs grow with depth"
    return "decay not exhibited: the interval contains 0"


def draw(results: Sequence[Result]) -> Figure:
    """Draw the mean cost by depth of every arm, with the power law of table 3 fitted to it."""
    figure, axes = new_picture(height=5.0)
    for i, result in enumerate(results):
        pooled = result.pooled
        levels, means = means_by_depth(pooled.get_trials(deepcopy=False), COST)
        model = fit_cost(pooled, seed=0)[PolynomialDecay].model
        label = f"{result.arm.name}: beta {power_law(result)}"
        axes.plot(levels, means, "o", color=f"C{i}", alpha=0.6, label=label)
        axes.plot(levels, model.cost(levels), "-", color=f"C{i}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("depth h in the tree")
    axes.set_ylabel("mean seconds of a trial, with reconfiguration")
    axes.legend()
    return figure


def main() -> None:
    parser = cli.new_parser("examples.postgres.decay", __doc__)
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
