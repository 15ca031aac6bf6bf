"""The paper's own experiment (appendix D.2, D.4, D.5): 600 s, one worker, delayed values.

``python -m benchmarks.paper`` runs it on a virtual clock and goes on where it was interrupted;
``python -m benchmarks.paper --report`` makes ``benchmarks/paper.md`` and its figures of what there
is.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
import itertools
import math
import os
from pathlib import Path
import statistics
import time

import numpy as np

from benchmarks import methods
from benchmarks.figures import COLOURS
from benchmarks.figures import draw
from benchmarks.figures import FIGURES
from benchmarks.figures import panels
from benchmarks.figures import save
from benchmarks.methods import AS_IN_PAPER
from benchmarks.methods import PAPER
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.methods import Task
from benchmarks.paper_tables import best_pcts
from benchmarks.paper_tables import FINAL
from benchmarks.paper_tables import LAPLACE
from benchmarks.paper_tables import LESS_THAN_SR
from benchmarks.paper_tables import NU
from benchmarks.paper_tables import SYSTEMS
from benchmarks.paper_tables import TREES
from benchmarks.problems import MULTI_FIDELITY
from benchmarks.problems import PAPER as PROBLEMS
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import Records
from benchmarks.records import RESULTS
from benchmarks.records import row
from benchmarks.records import table
from benchmarks.run import measure
from benchmarks.run import Result
from benchmarks.run import start
from benchmarks.simulation import parse_delay


# Times at which to evaluate the recommendation.
SECONDS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 600)
DELAYS = tuple(FINAL)
OURS = (PCTS, "PCTS, fidelity", "PCTS, DUCB1", "PCTS, DUCB1-sigma", AS_IN_PAPER)
METHODS = {name: methods.METHODS[name] for name in (*OURS, *PEERS, *PAPER)}
# The methods in the figures: more curves could not be told apart.
DRAWN = (PCTS, AS_IN_PAPER, "TPE", "GP", "CMA-ES", "MFPOO+UCBV", "GP-UCB", "DBGD", "Random", "SR")


@dataclass(frozen=True)
class Run:
    """One method on one problem in one setting, after so many seconds."""

    problem: str
    method: str
    delay: str
    noise: str
    seed: int
    seconds: int


def execute(run: Run) -> dict[Run, Result]:
    """Run it, and evaluate the recommendation at several times."""
    problem = PROBLEMS[run.problem]
    delay = parse_delay(run.delay)
    make, n_evaluations = METHODS[run.method], run.seconds / problem.cost(1.0)
    entry = make(Task(problem, run.seed, int(n_evaluations)))
    if entry.waits:  # such methods are told how many evaluations there is time for
        rng = np.random.default_rng(0)
        waiting = statistics.mean(delay(rng) for _ in range(10_000))
        n_evaluations /= 1 + waiting / problem.cost(1.0)
        entry = make(Task(problem, run.seed, int(n_evaluations)))
    noise = run.noise
    if noise == "none":  # the methods are still told the same noise
        problem, noise = replace(problem, noise_std=0.0), "normal"
    started = time.perf_counter()
    simulation = start(problem, entry, run.seed, delay, noise=noise)
    spent = time.perf_counter() - started
    found = {}
    for seconds in [*(s for s in SECONDS if s < run.seconds), run.seconds]:
        started = time.perf_counter()
        simulation.run(seconds)
        spent += time.perf_counter() - started
        found[replace(run, seconds=seconds)] = measure(simulation, entry.sampler, spent)
    return found


RECORDS = Records(Run, Result, execute)


def all_runs(args: argparse.Namespace) -> list[Run]:
    """Return the runs: all with normal noise, some with Laplace noise or none."""
    runs = []
    for seed, delay, problem, method in itertools.product(
        range(args.seeds), args.delays, args.problems, args.methods
    ):
        noises = ["normal"]
        if (problem, delay) == (LAPLACE.problem, DELAYS[0]):
            noises.append("laplace")
        if problem in NU and (method in OURS or (problem, method) in TREES[delay]):
            noises.append("none")  # all tree searches, see the page
        runs += [Run(problem, method, delay, noise, seed, args.seconds) for noise in noises]
    return runs


# -------------------------------------------------------------------------------- the page

Setting = tuple[str, str, str, str]  # problem, method, delay, noise
Curves = Mapping[Setting, Mapping[int, Sequence[Result]]]  # to each time the results of all seeds

_HEAD = """\
# The paper's experiment

Made by `python -m benchmarks.paper --report` from `benchmarks/results/paper.csv.gz`; do not edit.

{seconds} s on a virtual clock, one worker; seeds: {seeds}. An evaluation at fidelity z takes
lambda(z) seconds, and its value arrives after the delay. Meanwhile the worker goes on, but for
those systems of the paper that know nothing of delays: they wait, as they do there. The box is the
paper's, not moved by seed. Values are without noise and at full fidelity; "recommended" is the
point that `optuna_pcts.recommend` names, from what has arrived in time, for all methods alike;
"best trial" is Optuna's own, the one with the highest noisy value. Both take the values of the
paper's multi-fidelity systems as they are, at whatever fidelity.
"""


_NOISES = {"normal": "with noise", "none": "without noise"}

_PROGRAM = """\
The last column is the standard error of the mean of a point that gets *all* evaluations. Under the
noise of the text, who compares points one with another, as a tree does, cannot tell those apart
whose values differ by much less (who fits a smooth curve through many of them may): a smaller
regret is owed to where the grid of cells happens to lie, or no noise was heard.

The authors' program (github.com/jxiw/PCTS) has heard none. Its trees call
`eval_at_fidel_single_point_normalised` (`mf/mf_func.py`), which returns the function itself; the
noise is added in `NoisyMFOptFunction.eval_single`, which the trees never call. The printed tables
show it too: the program measures nu_1 at the start of each run, from one evaluation each at the
fidelities 0.8 and 0.2 at the centre of the box, as sqrt(2) |f_0.8 - f_0.2| / 0.6. Tables 5 and 9
have the same ten digits in every row (or 1.4 times them: it grows in such steps), and they are
those of the function without noise. (For Hartmann and Branin they are so with the fidelity of the
program, which changes the first coefficient only, not all of them as the text does.) Besides, an
evaluation there takes no time but its delay, up to 40 are in flight, the constant of UCB-V is set
for each function, and of several rho the one counts whose point is best without noise. What
compares with the printed numbers are therefore the columns without noise.
"""

_TREES = """\
Medians over seeds, of the largest tree of a method. In the authors' program an iteration evaluates
the centres of both children of a cell: its evaluations are twice its iterations.
"""


def by_setting(results: Mapping[Run, Result]) -> Curves:
    """Return the results of all seeds together, by setting and time."""
    curves: dict[Setting, dict[int, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for run, result in sorted(results.items(), key=lambda item: item[0].seed):
        curves[run.problem, run.method, run.delay, run.noise][run.seconds].append(result)
    return curves


def values(problem: str, results: Iterable[Result], name: str = "regret") -> list[float]:
    """Return the values at the recommended points, or at the best trials (``regret_best``)."""
    return [PROBLEMS[problem].optimum - getattr(result, name) for result in results]


class Page:
    """The page of all results.

    Args:
        results:
            What was measured.
        figures:
            Folder to draw into.
    """

    def __init__(self, results: Mapping[Run, Result], figures: Path) -> None:
        self._curves = by_setting(results)
        self._seconds = max(run.seconds for run in results)
        self._figures = figures
        seeds = {d: {run.seed for run in results if run.delay == d} for d in DELAYS}
        self._n_seeds = {delay: len(found) for delay, found in seeds.items() if found}
        self._delays = list(self._n_seeds)

    def final(self, problem: str, method: str, delay: str, noise: str) -> Sequence[Result]:
        """Return the results at the end, of all seeds; none if it was not run."""
        return self._curves.get((problem, method, delay, noise), {}).get(self._seconds, ())

    def text(self, manifest: Iterable[Mapping[str, object]]) -> str:
        seeds = ", ".join(f"{n} with delay {d}" for d, n in self._n_seeds.items())
        lines = [_HEAD.format(seconds=self._seconds, seeds=seeds)]
        lines += self.goal()
        for delay in self._delays:
            lines += self.final_values(delay)
        lines += [*self.trees(), *self.laplace(), *self.rejects(), *self.pictures()]
        lines += [*self.times(), *made_by(manifest)]
        return "\n".join(lines) + "\n"

    def goal(self) -> list[str]:
        """Return where the paper's best PCTS is reached, and what is known where it is not."""
        lines = ["## Against the paper's best PCTS", ""]
        lines += ["Median value at the recommended point, with the noise of the paper's text and"]
        lines += ["without noise; bold where it is at least the paper's best median of a PCTS."]
        methods = (PCTS, "PCTS, DUCB1-sigma", AS_IN_PAPER)
        shown = list(itertools.product(methods, _NOISES))
        lines += table(
            "delay", "function", "optimum", "paper's best PCTS", "of",
            *(f"{method}, {_NOISES[noise]}" for method, noise in shown), "sigma / sqrt(n)",
        )  # fmt: skip
        reached: dict[tuple[str, str], list[str]] = defaultdict(list)
        for delay, problem in itertools.product(self._delays, MULTI_FIDELITY):
            system, printed = best_pcts(problem.name, delay)
            cells = []
            for method, noise in shown:
                results = self.final(problem.name, method, delay, noise)
                if not results:
                    cells.append("")
                    continue
                median = statistics.median(values(problem.name, results))
                names = reached[method, noise]
                if median >= printed:
                    names.append(f"{problem.name} ({delay})")
                cells.append(f"**{median:.6f}**" if median >= printed else f"{median:.6f}")
            error = problem.noise_std / math.sqrt(self._seconds / problem.cost(1.0))
            lines.append(
                row(delay, problem.name, f"{problem.optimum:.6f}", printed, system, *cells,
                    f"{error:.4f}")
            )  # fmt: skip
        lines.append("")
        for (method, noise), names in reached.items():
            lines.append(f"- {method}, {_NOISES[noise]}: reached on {', '.join(names) or 'none'}.")
        return [*lines, "", _PROGRAM, *self.nus()]

    def nus(self) -> list[str]:
        """Return the printed nu_1 beside what it is without noise."""
        lines = table("function", "printed nu_1", "without noise", "noise would add")
        for problem in MULTI_FIDELITY:
            middle = (problem.low + problem.high) / 2
            slope = abs(problem.function(middle, 0.8) - problem.function(middle, 0.2)) / 0.6
            lines.append(
                row(problem.name, NU[problem.name], f"{math.sqrt(2) * slope:.10g}",
                    f"{2 * problem.noise_std / 0.6:.2g}")
            )  # fmt: skip
        return lines

    def final_values(self, delay: str) -> list[str]:
        """Return a table for each function: ours and the paper's."""
        lines = ["", f"## Final values, delay {delay}"]
        for problem in MULTI_FIDELITY:
            name = problem.name
            found = {m: self.final(name, m, delay, "normal") for m in METHODS}
            rows = {m: values(name, results) for m, results in found.items() if results}
            if not rows:
                continue
            lines += ["", f"### {name} (optimum {problem.optimum:.6f})"]
            lines += table(
                "", "median", "min", "max", "std", "median of best trial",
                "median without noise", "paper: median", "max", "std",
            )  # fmt: skip
            best = max(map(statistics.median, rows.values()))
            for method, mine in rows.items():
                median = statistics.median(mine)
                trial = statistics.median(values(name, found[method], "regret_best"))
                quiet = values(name, self.final(name, method, delay, "none"))
                printed = FINAL[delay].get((name, SYSTEMS.get(method, method)))
                lines.append(
                    row(
                        method,
                        f"**{median:.6f}**" if median == best else f"{median:.6f}",
                        f"{min(mine):.6f}", f"{max(mine):.6f}", f"{statistics.pstdev(mine):.2g}",
                        f"{trial:.6f}", f"{statistics.median(quiet):.6f}" if quiet else "",
                        *((printed.median, printed.largest, printed.std) if printed else [""] * 3),
                    )
                )  # fmt: skip
        return lines

    def trees(self) -> list[str]:
        """Return height, nodes and iterations, ours and the paper's."""
        lines = ["", "## Trees", "", _TREES]
        for delay in self._delays:
            lines += ["", f"### Delay {delay}"]
            lines += table(
                "function", "method", "height", "nodes", "evaluations",
                "paper: height", "nodes", "iterations",
            )  # fmt: skip
            for problem, method in itertools.product(MULTI_FIDELITY, METHODS):
                results = self.final(problem.name, method, delay, "normal")
                if not results or not results[0].n_nodes:
                    continue
                sizes = [
                    round(statistics.median(getattr(r, name) for r in results))
                    for name in ("height", "n_nodes", "n_trials")
                ]
                printed = TREES[delay].get((problem.name, SYSTEMS.get(method, method)))
                lines.append(row(problem.name, method, *sizes, *(printed or [""] * 3)))
        return lines

    def laplace(self) -> list[str]:
        """Return what noise with heavier tails does."""
        problem, delay = LAPLACE.problem, DELAYS[0]
        lines = ["", "## Laplace noise", ""]
        lines += [
            f"{problem}, delay {delay}, noise of the same variance. The paper has {LAPLACE.pcts} "
            f"for PCTS and {LAPLACE.second} for the second."
        ]
        lines += table("", "median, normal", "median, Laplace", "min", "max", "std")
        for method in METHODS:
            normal, other = (self.final(problem, method, delay, n) for n in ("normal", "laplace"))
            if normal and other:
                mine = values(problem, other)
                lines.append(
                    row(
                        method, f"{statistics.median(values(problem, normal)):.6f}",
                        f"{statistics.median(mine):.6f}", f"{min(mine):.6f}", f"{max(mine):.6f}",
                        f"{statistics.pstdev(mine):.2g}",
                    )
                )  # fmt: skip
        return lines

    def rejects(self) -> list[str]:
        """Return how many times lower than that of successive rejects the regret is."""
        delay, shown = DELAYS[0], (PCTS, AS_IN_PAPER)
        lines = ["", "## Successive rejects", ""]
        lines += [
            f"Median regret at full fidelity, delay {delay}. The paper (appendix D.5, a figure) "
            f"says that of PCTS+DUCBV is at least {LESS_THAN_SR} times less on each function. SR "
            "rejects cells, as Locatelli and Carpentier's does (benchmarks/baselines/rejects.py)."
        ]
        lines += table("function", "SR", *(cell for m in shown for cell in (m, "times less")))
        for problem in MULTI_FIDELITY:
            regrets = {
                m: statistics.median(r.regret for r in results)
                for m in ("SR", *shown)
                if (results := self.final(problem.name, m, delay, "normal"))
            }
            if len(regrets) > len(shown):
                cells = [f"{regrets['SR']:.2g}"]
                for method in shown:
                    cells += [f"{regrets[method]:.2g}", f"{regrets['SR'] / regrets[method]:.3g}"]
                lines.append(row(problem.name, *cells))
        return lines

    def pictures(self) -> list[str]:
        """Draw regret against time, and return the links."""
        lines = ["", "## Regret against time", ""]
        lines += ["Of the recommended point: median over seeds, shaded from lowest to highest."]
        for delay in self._delays:
            problems = [p for p in PROBLEMS if self.final(p, PCTS, delay, "normal")]
            figure, all_axes = panels(len(problems), 3)
            for problem, axes in zip(problems, all_axes):
                for method, colour in zip(DRAWN, COLOURS):
                    curve = self._curves.get((problem, method, delay, "normal"), {})
                    regrets = {s: [r.regret for r in results] for s, results in curve.items()}
                    draw(axes, regrets, method, colour, is_dashed=method not in OURS)
                axes.set(title=problem, xlabel="seconds", ylabel="regret", yscale="log")
            path = self._figures / f"paper-{delay.replace(' ', '-')}.png"
            save(figure, path, all_axes[0])
            lines += ["", f"![Delay {delay}]({self._figures.name}/{path.name})"]
        return lines

    def times(self) -> list[str]:
        """Return how long a run takes."""
        lines = ["", "## Real time of a run", ""]
        lines += ["Median over all runs with normal noise, sampler and Optuna."]
        lines += table("", "seconds", "evaluations")
        for method in METHODS:
            runs = [
                r
                for (_, m, _, noise), curve in self._curves.items()
                if (m, noise) == (method, "normal")
                for r in curve.get(self._seconds, ())
            ]
            if runs:
                seconds = statistics.median(r.sampler_seconds for r in runs)
                n_trials = statistics.median(r.n_trials for r in runs)
                lines.append(row(method, f"{seconds:.2g}", round(n_trials)))
        return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=[*NU, "Schwefel"])
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), metavar="METHOD",
        default=[name for name in METHODS if name != "GP"],
        help=f"some of: {', '.join(METHODS)} (all but GP, of which a run takes many minutes)",
    )  # fmt: skip
    parser.add_argument("--delays", nargs="+", choices=DELAYS, default=DELAYS)
    parser.add_argument("--seconds", type=int, default=SECONDS[-1])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page")
    parser.add_argument("--output", type=Path, default=FIGURES.parent / "paper.md", metavar="FILE")
    args = parser.parse_args()
    path = args.results / "paper.csv"
    if not args.report:
        RECORDS.complete(all_runs(args), path, module="benchmarks.paper", n_jobs=args.jobs)
        return
    results = RECORDS.read(path)
    if not results:
        parser.error(f"there is nothing in {path}: run `python -m benchmarks.paper` first")
    page = Page(results, args.output.parent / FIGURES.name)
    manifest = read_manifest(args.results / "manifest.json", "benchmarks.paper")
    args.output.write_text(page.text(manifest))
    print(args.output)


if __name__ == "__main__":
    main()
