"""Make ``benchmarks/README.md`` from the results of ``python -m benchmarks.run``."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
import statistics

import numpy as np

from benchmarks.methods import METHODS
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import RESULTS
from benchmarks.run import PROBLEMS
from benchmarks.run import read
from benchmarks.run import Result
from benchmarks.run import Run


Setting = tuple[int, str, str, int]  # evaluations, delay, noise, workers
Cells = Mapping[tuple[str, str], Sequence[Result]]  # by problem and method, one per seed

_HEAD = """\
# Benchmarks

Made by `python -m benchmarks.report` from `benchmarks/results/`; do not edit.

Every number is a median over seeds of the regret of the point that `recommend` names, without
noise and at full fidelity; behind the slash that of Optuna's `best_trial`. All methods run on a
virtual clock with the same workers, delays and noise, on the same random part of the problem's
box. A whole evaluation takes a second; its value arrives after the delay, and all values have
arrived at the end. Methods of the paper that know nothing of delays wait for each value, and have
the same time. The lowest regret of the recommended point in each column is bold.
"""


def by_setting(
    results: Mapping[Run, Result],
) -> dict[Setting, dict[tuple[str, str], list[Result]]]:
    """Return the results of all seeds together, by setting."""
    settings: dict[Setting, dict[tuple[str, str], list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run, result in sorted(results.items(), key=lambda item: item[0].seed):
        setting = (run.evaluations, run.delay, run.noise, run.workers)
        settings[setting][run.problem, run.method].append(result)
    return dict(sorted(settings.items()))


def median_regret(results: Iterable[Result]) -> float:
    return statistics.median(result.regret for result in results)


def table(cells: Cells) -> list[str]:
    """Return the table of one setting."""
    problems = [name for name in PROBLEMS if any(name == problem for problem, _ in cells)]
    methods = [name for name in METHODS if any(name == method for _, method in cells)]
    lines = ["| | " + " | ".join(problems) + " | rank |", "|---|" + "---|" * (len(problems) + 1)]
    ranks = mean_ranks(cells, problems, methods)
    for method in methods:
        row = [method]
        for problem in problems:
            if (problem, method) not in cells:
                row.append("")
                continue
            mine = cells[problem, method]
            regret = median_regret(mine)
            best = min(median_regret(c) for (p, _), c in cells.items() if p == problem)
            number = f"**{regret:.2g}**" if regret == best else f"{regret:.2g}"
            row.append(f"{number} / {statistics.median(r.regret_best for r in mine):.2g}")
        row.append(f"{ranks[method]:.1f}" if method in ranks else "")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def mean_ranks(cells: Cells, problems: Sequence[str], methods: Sequence[str]) -> dict[str, float]:
    """Return the mean rank over all problems of the methods that have run on all of them."""
    complete = [m for m in methods if all((p, m) in cells for p in problems)]
    regrets = np.array([[median_regret(cells[p, m]) for p in problems] for m in complete])
    if not len(regrets):
        return {}
    order = np.argsort(np.argsort(regrets, axis=0), axis=0) + 1
    return dict(zip(complete, order.mean(axis=1).tolist()))


def standing(cells: Cells) -> tuple[int, int, list[str]]:
    """Return on how many problems PCTS is ahead of the peers, of how many, and the others."""
    better, lost = 0, []
    problems = sorted({problem for problem, method in cells if method == PCTS})
    for problem in problems:
        mine = median_regret(cells[problem, PCTS])
        peers = {m: median_regret(cells[problem, m]) for m in PEERS if (problem, m) in cells}
        winner = min(peers, key=peers.__getitem__, default=None)
        if winner is None or mine < peers[winner]:
            better += 1
        else:
            lost.append(f"{problem} ({winner})")
    return better, len(problems), lost


def report(results: Mapping[Run, Result], manifest: Sequence[Mapping[str, object]]) -> str:
    """Return the page."""
    settings = by_setting(results)
    lines = [_HEAD, "## Where PCTS stands among Optuna's samplers", ""]
    lines += ["| evaluations | delay | noise | workers | seeds | best on | not on |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for setting, cells in settings.items():
        better, n_problems, lost = standing(cells)
        if n_problems:
            evaluations, delay, noise, workers = setting
            n_seeds = min(len(c) for c in cells.values())
            lines.append(
                f"| {evaluations} | {delay} | {noise} | {workers} | {n_seeds} "
                f"| {better} of {n_problems} | {', '.join(lost)} |"
            )
    for (evaluations, delay, noise, workers), cells in settings.items():
        lines += [
            "",
            f"## {evaluations} evaluations, {workers} workers, delay {delay}, {noise}",
            "",
        ]
        lines += table(cells)
    lines += made_by(manifest)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument(
        "--output", type=Path, default=RESULTS.parent / "README.md", metavar="FILE"
    )
    args = parser.parse_args()
    results = read(args.results / "runs.csv")
    if not results:
        parser.error(f"there is nothing in {args.results}: run `python -m benchmarks.run` first")
    manifest = read_manifest(args.results / "manifest.json", "benchmarks.run")
    args.output.write_text(report(results, manifest))
    print(args.output)


if __name__ == "__main__":
    main()
