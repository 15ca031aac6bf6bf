"""Theorem 2 and its consequences, measured: regret and depth against time and against the delay.

``python -m benchmarks.theory`` runs what is missing in the results, on a virtual clock, and makes
``benchmarks/theory.md`` and its figures of all results. The function is a cone, 1 - |x - x*| in
the maximum norm, with a random top for each seed; its near-optimality dimension d is 0.
Time is counted in rounds: an evaluation takes one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
import math
import os
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from benchmarks.figures import COLOURS
from benchmarks.figures import draw
from benchmarks.figures import FIGURES
from benchmarks.figures import panels
from benchmarks.figures import save
from benchmarks.methods import AS_IN_PAPER
from benchmarks.methods import Entry
from benchmarks.methods import METHODS
from benchmarks.methods import PCTS
from benchmarks.methods import Task
from benchmarks.problems import box
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.records import row
from benchmarks.records import table
from benchmarks.run import measure
from benchmarks.run import start
from benchmarks.simulation import ConstantDelay


WAITING = "wait and act"
# Near-optimality dimension of the cone.
D = 0
NOISE_STD = 0.1
HORIZONS = (10, 20, 50, 100, 200, 500, 1000, 2000)
# The delays, as functions of the horizon T.
DELAYS: Mapping[str, Callable[[int], float]] = {
    "none": lambda t: 0.0,
    "constant 8": lambda t: 8.0,
    "2 log T": lambda t: 2 * math.log(t),
    "T^0.5": lambda t: t**0.5,
    "T^0.75": lambda t: t**0.75,
}
# Against the delay, at one horizon.
TAUS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
TAU_HORIZON = 1000


@dataclass(frozen=True)
class Run:
    """One method with one delay up to a horizon."""

    n_dims: int
    method: str
    horizon: int
    tau: float
    seed: int


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        regret:
            Of the recommended point, without noise.
        mean_regret:
            The mean over all points that were asked for: R_T / T, which theorem 2 bounds.
        height:
            Of the tree.
        n_trials:
            Points that were asked for.
    """

    regret: float
    mean_regret: float
    height: int
    n_trials: int


def cone(n_dims: int, seed: int) -> Problem:
    """Return a cone with its top at a random point."""
    top = np.random.default_rng(seed).uniform(0.1, 0.9, n_dims)
    return Problem(
        name="cone",
        space=box(np.zeros(n_dims), np.ones(n_dims)),
        function=lambda x, z: 1.0 - float(np.abs(x - top).max()),
        best_points=(tuple(top.tolist()),),
        noise_std=NOISE_STD,
        cost=lambda z: 1.0,
    )


def execute(run: Run) -> dict[Run, Result]:
    """Run it."""
    problem = cone(run.n_dims, run.seed)
    waits = run.method == WAITING
    made = METHODS[AS_IN_PAPER if waits else run.method](Task(problem, run.seed, run.horizon))
    entry = Entry(made.sampler, waits=waits)
    simulation = start(problem, entry, run.seed, ConstantDelay(run.tau))
    simulation.run(run.horizon)
    trials = simulation.study.get_trials(deepcopy=False)
    regrets = [problem.regret(problem.point(trial.params)) for trial in trials]
    end = measure(simulation, entry.sampler, 0.0)
    return {run: Result(end.regret, float(np.mean(regrets)), end.height, len(trials))}


RECORDS = Records(Run, Result, execute)


def all_runs(args: argparse.Namespace) -> list[Run]:
    """Return what to run, the longest first."""
    settings = {(t, tau_of(delay, t)) for delay in DELAYS for t in args.horizons}
    settings |= {(args.tau_horizon, float(tau)) for tau in TAUS}
    return [
        Run(n_dims, method, horizon, tau, seed)
        for horizon, tau in sorted(settings, reverse=True)
        for n_dims in args.dims
        for seed in range(args.seeds)
        for method in args.methods
        if (method != WAITING or tau) and tau < horizon - 1
    ]


def tau_of(delay: str, horizon: int) -> float:
    return float(f"{DELAYS[delay](horizon):.6g}")  # as in the file


# -------------------------------------------------------------------------------- the page


def bound(horizon: float, tau: float, *, waits: bool = False) -> float:
    """Return the bound of theorem 2, without its constant; or that of its consequence 2."""
    log = math.log(horizon)
    rounds = (1 + tau) * log if waits else tau + log
    return float((rounds / horizon) ** (1 / (D + 2)))


def slopes(xs: Iterable[int], ys: Sequence[float] | FloatArray) -> FloatArray:
    """Return the slope of a curve in log-log scale; of each column, if there are several."""
    found: FloatArray = np.polyfit(np.log(np.array(list(xs), dtype=float)), np.log(ys), 1)[0]
    return found


def bound_slope(delay: str, horizons: Iterable[int], *, waits: bool = False) -> float:
    """Return the slope of a bound over so many horizons."""
    ts = list(horizons)
    return float(slopes(ts, [bound(t, tau_of(delay, t), waits=waits) for t in ts]))


_HEAD = """\
# Theorem 2, measured

Made by `python -m benchmarks.theory` from `benchmarks/results/theory.csv.gz`; do not edit.

{method} (`local_share=0, prior_std=None, point="center"`), and the same sampler when it waits for
each value before it asks again ("wait and act"), on a cone 1 - |x - x*| with its top at a random
place, noise of standard deviation {noise}, {seeds} seeds. The near-optimality dimension is
d = {d}. The simple regret is, as in the paper, R_T / T: the mean over all points asked for. Beside
it stands the regret of the point that `recommend` names. Numbers are medians over seeds; intervals
hold 95 % of what comes out if the seeds are drawn again from themselves. The slope of a bound is
that of ((tau + log T) / T)^(1/(d+2)), or with (1 + tau) log T for who waits, fitted to the same
horizons in the same way. Dotted in the figures: the bounds, with the constant that fits best.
"""


class Page:
    """The page of the results in one dimension.

    Args:
        results:
            What was measured.
        n_dims:
            Which dimension.
        figures:
            Folder to draw into.
    """

    def __init__(self, results: Mapping[Run, Result], n_dims: int, figures: Path) -> None:
        self._results = {run: r for run, r in results.items() if run.n_dims == n_dims}
        self._n_dims, self._figures = n_dims, figures
        self._seeds = sorted({run.seed for run in self._results})
        self._methods = [m for m in (AS_IN_PAPER, WAITING, PCTS) if self._has(m)]
        self._horizons = sorted({run.horizon for run in self._results})
        n_taus = {t: len({r.tau for r in self._results if r.horizon == t}) for t in self._horizons}
        self._tau_horizon = max(self._horizons, key=n_taus.__getitem__)
        self._taus = [tau for tau in TAUS if self._row(AS_IN_PAPER, self._tau_horizon, tau)]

    def _has(self, method: str) -> bool:
        return any(run.method == method for run in self._results)

    def _row(self, method: str, horizon: int, tau: float) -> list[Result]:
        """Return the results of all seeds; none if one is missing."""
        if not tau and method == WAITING:
            method = AS_IN_PAPER  # without delay there is nothing to wait for
        runs = [Run(self._n_dims, method, horizon, tau, seed) for seed in self._seeds]
        found = [self._results[run] for run in runs if run in self._results]
        return found if len(found) == len(runs) else []

    def by_time(self, method: str, delay: str, name: str = "mean_regret") -> dict[int, FloatArray]:
        """Return a number of all seeds by horizon."""
        rows = {t: self._row(method, t, tau_of(delay, t)) for t in self._horizons}
        return _pick(rows, name)

    def by_delay(self, method: str, name: str = "mean_regret") -> dict[int, FloatArray]:
        """Return a number of all seeds by delay."""
        rows = {tau: self._row(method, self._tau_horizon, tau) for tau in self._taus}
        return _pick(rows, name)

    def lines(self) -> list[str]:
        lines = ["", f"## In {self._n_dims} dimension{'s' * (self._n_dims > 1)}"]
        return [*lines, *self.time(), *self.delay(), *self.depth()]

    # Each of these draws one figure and describes it.

    def time(self) -> list[str]:
        figure, all_axes = panels(len(DELAYS), 3)
        for delay, axes in zip(DELAYS, all_axes):
            for method, colour in zip(self._methods, COLOURS[::2]):
                curve = self.by_time(method, delay)
                if method == WAITING and delay == "none":
                    continue
                draw(axes, curve, method, colour)
                bounds = {t: bound(t, tau_of(delay, t), waits=method == WAITING) for t in curve}
                _draw_bound(axes, curve, bounds, colour)
            axes.set(title=f"delay {delay}", xlabel="T", ylabel="R_T / T", xscale="log")
            axes.set(yscale="log")
        link = self._save(figure, all_axes[-1], "time")
        lines = ["", "### Regret against time", "", link]
        lines += table(
            "delay", "method", "slope", "of the bound", "R_T / T at the end", "recommended"
        )
        for delay in DELAYS:
            for method in self._methods:
                curve = self.by_time(method, delay)
                if len(curve) < 2 or (method == WAITING and delay == "none"):
                    continue
                last = max(curve)
                rate = bound_slope(delay, curve, waits=method == WAITING)
                regret = np.median(self.by_time(method, delay, "regret")[last])
                lines.append(
                    row(delay, method, _interval(*self._slopes(curve)), f"{rate:.2f}",
                        f"{np.median(curve[last]):.3g}", f"{regret:.2g}")
                )  # fmt: skip
        return [*lines, "", *self._rates(), *self._waiting()]

    def _rates(self) -> list[str]:
        """Say whether the rate is kept under delay (consequences 1 and 4)."""
        free = self.by_time(AS_IN_PAPER, "none")
        middle, again = self._slopes(free)
        low, high = np.quantile(again, (0.025, 0.975))
        rate = bound_slope("none", free)
        word = "flatter than" if low > rate else "steeper than" if high < rate else "as steep as"
        lines = [
            f"- Without delay the slope is {_interval(middle, again)}: over these horizons {word} "
            f"that of the bound, {rate:.2f}."
        ]
        for delay in DELAYS:
            curve = self.by_time(AS_IN_PAPER, delay)
            if delay == "none" or len(curve) < 2:
                continue
            last = max(curve)
            middle, again = self._slopes(curve)
            other, other_again = self._slopes({t: free[t] for t in curve})
            low, high = np.quantile(again - other_again, (0.025, 0.975))
            verdict = "the rate is lost" if low > 0 else "no loss of rate is seen"
            ratio = np.median(curve[last]) / np.median(free[last])
            loss = bound_slope(delay, curve) - bound_slope("none", curve)
            factor = bound(last, tau_of(delay, last)) / bound(last, 0.0)
            lines.append(
                f"- Delay {delay}: {verdict}. The slope is {middle - other:+.2f} "
                f"[{low:+.2f}, {high:+.2f}] from that without delay, that of the bound "
                f"{loss:+.2f}; at T = {last} the regret is "
                f"{ratio:.2f} times that without delay, and the bound {factor:.2f} times."
            )
        return lines

    def _waiting(self) -> list[str]:
        """Say whether it beats wait and act (consequence 2)."""
        lines = []
        for delay in DELAYS:
            mine, other = self.by_time(AS_IN_PAPER, delay), self.by_time(WAITING, delay)
            both = [t for t in mine if t in other]
            if delay == "none" or not both:
                continue
            better = [t for t in both if np.median(mine[t]) < np.median(other[t])]
            last = max(both)
            n = int((mine[last] < other[last]).sum())
            recommended = [self.by_time(m, delay, "regret")[last] for m in (AS_IN_PAPER, WAITING)]
            n_recommended = int((recommended[0] < recommended[1]).sum())
            lines.append(
                f"- Delay {delay}: lower regret than wait and act at {len(better)} of {len(both)} "
                f"horizons; at T = {last} with {n} of {len(self._seeds)} seeds, "
                f"{np.median(other[last]) / np.median(mine[last]):.2f} times lower "
                f"(recommended point: with {n_recommended} seeds)."
            )
        return lines

    def delay(self) -> list[str]:
        figure, all_axes = panels(2, 2)
        names = {"mean_regret": "R_T / T", "regret": "regret, recommended"}
        for axes, (name, label) in zip(all_axes, names.items()):
            for method, colour in zip(self._methods, COLOURS[::2]):
                curve = self.by_delay(method, name)
                draw(axes, curve, method, colour)
                horizon, waits = self._tau_horizon, method == WAITING
                _draw_bound(
                    axes, curve, {tau: bound(horizon, tau, waits=waits) for tau in curve}, colour
                )
            axes.set(xlabel="tau", ylabel=label, title=f"T = {self._tau_horizon}", yscale="log")
            axes.set_xscale("symlog", linthresh=1)
            axes.set_xlim(left=0)
        lines = ["", "### Regret against the delay", "", self._save(figure, all_axes[0], "delay")]
        lines += table("tau", *self._methods, "bound", "bound, waiting")
        horizon = self._tau_horizon
        curves = [self.by_delay(method) for method in self._methods]
        for tau in self._taus:
            cells = [f"{np.median(c[tau]):.3g}" if tau in c else "" for c in curves]
            free = bound(horizon, 0.0)
            cells += [f"x {bound(horizon, tau, waits=w) / free:.2f}" for w in (False, True)]
            lines.append(row(tau, *cells))
        mine = {tau: float(np.median(ys)) for tau, ys in curves[0].items()}
        last = max(mine)
        factor = bound(horizon, last) / bound(horizon, 0.0)
        return [
            *lines, "",
            f"- From tau = 0 to {last} the regret of {AS_IN_PAPER} is {mine[last] / mine[0]:.2f} "
            f"times as high; the bound has {factor:.2f}.",
        ]  # fmt: skip

    def depth(self) -> list[str]:
        figure, all_axes = panels(2, 2)
        delay = "2 log T"
        for method, colour in zip(self._methods, COLOURS[::2]):
            draw(all_axes[0], self.by_time(method, delay, "height"), method, colour)
            draw(all_axes[1], self.by_delay(method, "height"), method, colour)
        all_axes[0].set(xlabel="T", ylabel="height", title=f"delay {delay}", xscale="log")
        all_axes[1].set(xlabel="tau", ylabel="height", title=f"T = {self._tau_horizon}")
        all_axes[1].set_xscale("symlog", linthresh=1)
        all_axes[1].set_xlim(left=0)
        lines = ["", "### Depth", "", self._save(figure, all_axes[0], "depth"), ""]
        mine, other = (self.by_delay(m, "height") for m in (AS_IN_PAPER, WAITING))
        both = [tau for tau in mine if tau and tau in other]
        deeper = [tau for tau in both if np.median(mine[tau]) > np.median(other[tau])]
        lines.append(
            f"- Deeper than when it waits at {len(deeper)} of {len(both)} delays, T = "
            f"{self._tau_horizon} (consequence 3): "
            + ", ".join(
                f"{np.median(mine[tau]):g} against {np.median(other[tau]):g} at tau = {tau}"
                for tau in both
            )
            + "."
        )
        if len(mine) > 1:
            first, last = (float(np.median(mine[tau])) for tau in (min(mine), max(mine)))
            word = "grows" if last > first else "falls" if last < first else "stays"
            lines.append(
                f"- With the delay the height {word}, from {first:g} at tau = {min(mine)} to "
                f"{last:g} at tau = {max(mine)}. The text of consequence 3 concludes that it "
                "grows like tau + log T, from rho^(-H (d+2)) >= T / (tau + log T); but this asks "
                "for less depth as tau grows."
            )
        return lines

    def _slopes(self, curve: Mapping[int, FloatArray]) -> tuple[float, FloatArray]:
        """Return the slope of the medians, and those with the seeds drawn again."""
        n = len(self._seeds)
        drawn = np.random.default_rng(0).integers(n, size=(500, n))
        again = slopes(curve, np.array([np.median(ys[drawn], axis=1) for ys in curve.values()]))
        return float(slopes(curve, [float(np.median(ys)) for ys in curve.values()])), again

    def _save(self, figure: Figure, axes: Axes, name: str) -> str:
        path = self._figures / f"theory-{name}-{self._n_dims}d.png"
        save(figure, path, axes)
        return f"![{name}]({self._figures.name}/{path.name})"


def _pick(rows: Mapping[int, Sequence[Result]], name: str) -> dict[int, FloatArray]:
    picked = {x: np.array([getattr(r, name) for r in found]) for x, found in rows.items() if found}
    return {x: ys for x, ys in picked.items() if np.isfinite(ys).all()}


def _draw_bound(
    axes: Axes, curve: Mapping[int, FloatArray], bounds: Mapping[int, float], colour: str
) -> None:
    """Draw a bound, whose constant is unknown, through the middle of the measurements."""
    if bounds:
        gaps = [math.log(np.median(curve[x]) / bounds[x]) for x in bounds]
        level = math.exp(float(np.mean(gaps)))
        axes.plot(list(bounds), [level * y for y in bounds.values()], color=colour, linestyle=":")


def _interval(middle: float, again: FloatArray) -> str:
    low, high = np.quantile(again, (0.025, 0.975))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def text(
    results: Mapping[Run, Result], figures: Path, manifest: Iterable[Mapping[str, object]]
) -> str:
    """Return the page of all results."""
    n_seeds = len({run.seed for run in results})
    lines = [_HEAD.format(method=AS_IN_PAPER, noise=NOISE_STD, seeds=n_seeds, d=D)]
    for n_dims in sorted({run.n_dims for run in results}):
        lines += Page(results, n_dims, figures).lines()
    return "\n".join([*lines, *made_by(manifest)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dims", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--methods", nargs="+", choices=[AS_IN_PAPER, WAITING, PCTS],
        default=[AS_IN_PAPER, WAITING],
    )  # fmt: skip
    parser.add_argument("--horizons", type=int, nargs="+", default=list(HORIZONS))
    parser.add_argument("--tau-horizon", type=int, default=TAU_HORIZON)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument(
        "--output", type=Path, default=FIGURES.parent / "theory.md", metavar="FILE"
    )
    args = parser.parse_args()
    path = args.results / "theory.csv"
    RECORDS.complete(all_runs(args), path, module="benchmarks.theory", n_jobs=args.jobs)
    manifest = read_manifest(args.results / "manifest.json", "benchmarks.theory")
    figures = args.output.parent / FIGURES.name
    args.output.write_text(text(RECORDS.read(path), figures, manifest))
    print(args.output)


if __name__ == "__main__":
    main()
