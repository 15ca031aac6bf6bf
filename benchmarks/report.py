"""Make ``benchmarks/README.md`` from the results of ``python -m benchmarks.run``."""

from __future__ import annotations

from collections import Counter
from collections import defaultdict
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
import math
import statistics

import numpy as np
from scipy.stats import wilcoxon

from benchmarks import records
from benchmarks.methods import ABLATIONS
from benchmarks.methods import EXTERNAL
from benchmarks.methods import METHODS
from benchmarks.methods import ORACLE
from benchmarks.methods import PCTS
from benchmarks.methods import PEERS
from benchmarks.problems import FloatArray
from benchmarks.records import made_by
from benchmarks.records import RESULTS
from benchmarks.run import PROBLEM_GROUPS
from benchmarks.run import PROBLEMS
from benchmarks.run import RECORDS
from benchmarks.run import Result
from benchmarks.run import Run


Setting = tuple[int, str, str, int]  # evaluations, delay, noise, workers
Cells = Mapping[tuple[str, str], Mapping[int, Result]]  # by problem and method, then by seed

_COLUMNS = ("evaluations", "delay", "noise", "workers", "seeds")  # of a setting
# The methods of the tables on the wider set.
_RIVALS = (PCTS, *PEERS, *EXTERNAL)

_HEAD = """\
# Benchmarks

Made by `python -m benchmarks.report` from `benchmarks/results/`; do not edit.

Every number is a median over seeds of the regret of the point that `recommend` names, without
noise and at full fidelity; behind the slash that of Optuna's `best_trial`. All methods run on a
virtual clock with the same workers, delays and noise, on the same random instance of the problem
(of the paper's functions, a random part of their box). A full evaluation takes a second; its
value arrives after the delay, and all values have arrived at the end. A worker is busy until the
value of its trial has arrived, as Optuna's workers are: so there are as many trials in flight as
workers. The lowest regret of the recommended point in each column is bold. Where a method has run
with fewer seeds, its row says so; PCTS is the best if on the seeds that both have its median is no
higher than that of any other.
"""

_STANDING_HEAD = """\
On how many functions PCTS is the best if `recommend` names the answer of all. Behind who is
better, by how much, in standard deviations of the noise, and how probable it is that the seeds
differ so much if both are equally good (Wilcoxon's signed-rank test). The last column is the same
with what Optuna names for its samplers, their `best_trial`."""

_LEADS_HEAD = """\
## By how much

The regret of PCTS relative to that of others, over all these delays and numbers of workers: the
geometric mean of the ratio, each time on the same instance with the same seed; below 1 PCTS is
better. Behind it the standard error over the seeds that have run in all of them. A regret below a
hundredth of the noise counts as that: two that are so small are equally good."""

_LEFT_HEAD = """\
## How much is left

The median regret, in standard deviations of the noise, of PCTS with all delays together, beside
that of an oracle that knows the optimum (`benchmarks/oracle.py`): it samples all over the box and
at several scales around the optimum, but never the optimum itself (for Borehole, a corner). Where
the two are alike, the regret that is left comes mostly from noise. The oracle is no lower bound:
it does not adapt to the values, and a method that does may be better."""

_WIDE_HEAD = """\
## The wider set

Other shapes than the paper's, with 2 to 20 parameters: see `benchmarks/shapes.py`. The optimum is
0, and a random point is at -1 in the median. First the mean over the problems of the rank by the
median regret; who is equally good shares a rank.
"""

_ABLATIONS_HEAD = """\
## What each choice brings

PCTS with one choice changed, relative to PCTS as it is: the geometric mean of the ratio of the
regrets over problems and settings, each time on the same instance with the same seed; below 1 is
better. Behind it the standard error over the seeds. A regret below a hundredth of the noise counts
as that. The runs of PCTS as it is are in every ratio, so that their noise moves all together."""


def by_setting(
    results: Mapping[Run, Result],
) -> dict[Setting, dict[tuple[str, str], dict[int, Result]]]:
    """Return the results of all seeds together, by setting."""
    settings: dict[Setting, dict[tuple[str, str], dict[int, Result]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for run, result in results.items():
        setting = (run.evaluations, run.delay, run.noise, run.workers)
        settings[setting][run.problem, run.method][run.seed] = result
    return dict(sorted(settings.items()))


def median_regret(results: Mapping[int, Result]) -> float:
    return statistics.median(result.regret for result in results.values())


def with_best_trial(results: Mapping[int, Result]) -> dict[int, Result]:
    """Return results with Optuna's best trial as the answer."""
    return {seed: replace(result, regret=result.regret_best) for seed, result in results.items()}


def present(pairs: Collection[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the problems and methods that have results, in their order."""
    return (
        [name for name in PROBLEMS if any(name == problem for problem, _ in pairs)],
        [name for name in METHODS if any(name == method for _, method in pairs)],
    )


def table(cells: Cells) -> list[str]:
    """Return the table of one setting."""
    problems, methods = present(cells)
    lines = records.table("", *problems, "rank")
    ranks = mean_ranks(cells)
    n_seeds = _n_seeds(cells)
    for method in methods:
        n_mine = _n_seeds({key: found for key, found in cells.items() if key[1] == method})
        row = [method if n_mine == n_seeds else f"{method} ({_counted(n_mine)})"]
        for problem in problems:
            if (problem, method) not in cells:
                row.append("")
                continue
            mine = cells[problem, method]
            regret = median_regret(mine)
            best = min(median_regret(c) for (p, _), c in cells.items() if p == problem)
            number = f"**{regret:.2g}**" if regret == best else f"{regret:.2g}"
            row.append(f"{number} / {median_regret(with_best_trial(mine)):.2g}")
        row.append(f"{ranks[method]:.1f}" if method in ranks else "")
        lines.append(records.row(*row))
    return lines


def mean_ranks(cells: Cells) -> dict[str, float]:
    """Return the mean rank over all problems of the methods that have run on all of them."""
    problems, methods = present(cells)
    complete = [m for m in methods if all((p, m) in cells for p in problems)]
    regrets = np.array([[median_regret(cells[p, m]) for p in problems] for m in complete])
    return dict(zip(complete, shared_ranks(regrets).mean(axis=1).tolist())) if complete else {}


def shared_ranks(regrets: FloatArray) -> FloatArray:
    """Return the rank of each row in each column, from 1 on.

    Equally good methods share the mean of their ranks.
    """
    better = (regrets[:, None] > regrets).sum(axis=1)
    equal = (regrets[:, None] == regrets).sum(axis=1)
    ranks: FloatArray = better + (equal + 1) / 2
    return ranks


def standing(cells: Cells) -> tuple[int, int, dict[str, str]]:
    """Return on how many problems PCTS is ahead of the peers, of how many, and those it loses.

    For each of the latter, the method that is ahead.
    """
    lost = {}
    problems = sorted({problem for problem, method in cells if method == PCTS})
    for problem in problems:
        mine = cells[problem, PCTS]
        ahead = {}  # by how much others are
        for method in PEERS:
            peer = cells.get((problem, method), {})
            if both := mine.keys() & peer.keys():
                ours, theirs = ({seed: found[seed] for seed in both} for found in (mine, peer))
                ahead[method] = median_regret(ours) - median_regret(theirs)
        leader = max(ahead, key=ahead.__getitem__, default=None)
        if leader is not None and ahead[leader] > 0:
            by = ahead[leader] / _noise_std(problem)
            p_value = _p_value(mine, cells[problem, leader])
            lost[problem] = f"{problem} ({leader}, {by:.2g}, p {p_value:.2f})"
    return len(problems) - len(lost), len(problems), lost


def _p_value(ours: Mapping[int, Result], theirs: Mapping[int, Result]) -> float:
    both = ours.keys() & theirs.keys()
    return signed_rank([ours[seed].regret - theirs[seed].regret for seed in both])


def signed_rank(gaps: Collection[float]) -> float:
    """Return the p-value of the signed-rank test that both are equally good."""
    gaps = [gap for gap in gaps if gap != 0]
    return float(wilcoxon(gaps, method="exact").pvalue) if gaps else 1.0


def among_optunas(settings: Mapping[Setting, Cells]) -> list[str]:
    """Return how PCTS does on the paper's functions."""
    lines = ["## Where PCTS stands among Optuna's samplers"]
    lines += ["", _STANDING_HEAD]
    lines += records.table(*_COLUMNS, "best on", "not on", "with their best trials")
    for setting, cells in settings.items():
        better, n_problems, lost = standing(cells)
        if n_problems:
            # With what Optuna names for its own samplers.
            as_named = {
                (problem, method): with_best_trial(found) if method in PEERS else found
                for (problem, method), found in cells.items()
            }
            row = [f"{better} of {n_problems}", ", ".join(lost.values())]
            row.append(f"{standing(as_named)[0]} of {n_problems}")
            lines.append(records.row(*_columns(setting, cells), *row))
    return lines


def by_how_much(results: Mapping[Run, Result]) -> list[str]:
    """Return how large the regret of PCTS is relative to that of each peer on each function.

    Nothing if no peer has run where PCTS has.
    """
    problems, _ = present({(run.problem, run.method) for run in results})
    rows = []
    for evaluations in sorted({run.evaluations for run in results}):
        part = {run: result for run, result in results.items() if run.evaluations == evaluations}
        columns = [log_ratios(part, PEERS, [problem]) for problem in problems]
        for name in PEERS:
            # The logarithms are those of the inverse.
            cells = [
                "{:.2g} ± {:.1g}".format(*geometric_mean([-log for log in logs[name]]))
                if name in logs
                else ""
                for logs in columns
            ]
            if any(cells):
                rows.append(records.row(evaluations, name, *cells))
    if not rows:
        return []
    return [_LEADS_HEAD, *records.table("evaluations", "relative to", *problems), *rows]


def what_is_left(settings: Mapping[Setting, Cells], oracle: Mapping[Setting, Cells]) -> list[str]:
    """Return PCTS beside the oracle; nothing if that has not run."""
    stand_ins = {
        evaluations: {(problem, PCTS): found for (problem, _), found in cells.items()}
        for (evaluations, *_), cells in oracle.items()
    }
    known = {s: cells for s, cells in settings.items() if s[0] in stand_ins and s[2] == "normal"}
    if not known:
        return []
    problems, _ = present({pair for cells in stand_ins.values() for pair in cells})
    lines = [_LEFT_HEAD, *records.table("evaluations", "", *problems)]
    for evaluations, stand_in in stand_ins.items():
        rows: dict[str, list[Cells]] = {ORACLE: [stand_in]}
        for (n, _, _, workers), cells in known.items():
            if n == evaluations:
                rows.setdefault(f"PCTS, {workers} workers", []).append(cells)
        for name, parts in rows.items():
            row = [_median_of_all(parts, problem) for problem in problems]
            lines.append(records.row(evaluations, name, *row))
    ours = Counter(name for cells in known.values() for name in standing(cells)[2])
    theirs = Counter(
        name for s, cells in known.items() for name in standing({**cells, **stand_ins[s[0]]})[2]
    )
    lost, would_lose = (
        ", ".join(f"{name} in {n}" for name, n in counts.most_common()) or "any in none"
        for counts in (ours, theirs)
    )
    return [
        *lines,
        "",
        f"Of {len(known)} settings, PCTS is not the best of Optuna's samplers on {lost}. In its "
        f"place the oracle would not be the best on {would_lose}.",
    ]


def _median_of_all(parts: Sequence[Cells], problem: str) -> str:
    """Return the median of the method named PCTS, in standard deviations of the noise."""
    found = [r.regret for cells in parts for r in cells.get((problem, PCTS), {}).values()]
    return f"{statistics.median(found) / _noise_std(problem):.2g}" if found else ""


def on_the_wider_set(settings: Mapping[Setting, Cells]) -> list[str]:
    """Return the ranks of all methods on the wider set."""
    ranks = {setting: mean_ranks(cells) for setting, cells in settings.items()}
    methods = [name for name in _RIVALS if any(name in ranked for ranked in ranks.values())]
    leaders = {
        setting: [name for name in ranked if ranked[name] == min(ranked.values())]
        for setting, ranked in ranks.items()
    }
    n_led = Counter(name for names in leaders.values() for name in names)
    led = ", ".join(f"{name} leads in {n}" for name, n in n_led.most_common())
    lines = [
        _WIDE_HEAD,
        f"Of {len(settings)} settings, {led}.",
        *records.table(*_COLUMNS, *methods),
    ]
    for setting, cells in settings.items():
        row = _columns(setting, cells)
        for name in methods:
            number = f"{ranks[setting][name]:.1f}" if name in ranks[setting] else ""
            row.append(f"**{number}**" if name in leaders[setting] else number)
        lines.append(records.row(*row))
    for setting, cells in settings.items():
        lines += ["", f"### The wider set: {_title(setting)}", *table(cells)]
    return lines


@cache
def _noise_std(problem: str) -> float:
    return PROBLEMS[problem](np.random.default_rng(0)).noise_std


def log_ratios(
    results: Mapping[Run, Result], methods: Collection[str], problems: Collection[str]
) -> dict[str, list[float]]:
    """Return the logarithms of the regrets of methods relative to PCTS, a mean for each seed.

    That is, for each seed that has run in all settings.
    """
    ratios: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, result in results.items():
        if run.method not in methods or run.problem not in problems:
            continue
        default = results.get(replace(run, method=PCTS))
        if default is not None:
            least = 0.01 * _noise_std(run.problem)  # smaller regrets count as equal
            ratio = math.log(max(result.regret, least) / max(default.regret, least))
            ratios[run.method][run.seed].append(ratio)
    # A seed with fewer settings or problems than others would give those more weight.
    complete = {name: max(map(len, seeds.values())) for name, seeds in ratios.items()}
    return {
        name: [statistics.mean(logs) for logs in seeds.values() if len(logs) == complete[name]]
        for name, seeds in ratios.items()
    }


def on_ablations(results: Mapping[Run, Result]) -> list[str]:
    """Return the ratios of the ablations; nothing if there are no such results."""
    parts = [
        {
            name: geometric_mean(logs)
            for name, logs in log_ratios(results, ABLATIONS, problems).items()
        }
        for problems in (PROBLEMS, *PROBLEM_GROUPS.values())
    ]
    overall = parts[0]
    if not overall:
        return []
    lines = [_ABLATIONS_HEAD, *records.table("", "all", *PROBLEM_GROUPS)]
    for name in sorted(overall, key=overall.__getitem__):
        cells = ["{:.2f} ± {:.2f}".format(*part[name]) if name in part else "" for part in parts]
        lines.append(records.row(name, *cells))
    better = [name for name, (ratio, error) in overall.items() if ratio + 2 * error < 1]
    names = "; ".join(better) or "none"
    return [*lines, "", f"Better than PCTS as it is by more than two standard errors: {names}."]


def geometric_mean(logs: Sequence[float]) -> tuple[float, float]:
    """Return the mean of ratios and its standard error, unknown for one seed.

    Args:
        logs:
            The logarithms of the ratios.
    """
    mean = math.exp(statistics.mean(logs))
    is_one = len(logs) < 2
    return mean, math.inf if is_one else mean * statistics.stdev(logs) / math.sqrt(len(logs))


def _columns(setting: Setting, cells: Cells) -> list[str]:
    evaluations, delay, noise, workers = setting
    n_seeds = _n_seeds(cells)
    fewer: dict[str, int] = {}
    for (_, method), found in cells.items():
        if len(found) < n_seeds:
            fewer[method] = min(len(found), fewer.get(method, n_seeds))
    but = "".join(f", {method} {n}" for method, n in fewer.items())
    return [str(evaluations), delay, noise, str(workers), f"{n_seeds}{but}"]


def _n_seeds(cells: Cells) -> int:
    return max(len(found) for found in cells.values())


def _counted(n_seeds: int) -> str:
    return f"{n_seeds} seeds" if n_seeds > 1 else "1 seed"


def _title(setting: Setting) -> str:
    evaluations, delay, noise, workers = setting
    return f"{evaluations} evaluations, {workers} workers, delay {delay}, {noise}"


def report(results: Mapping[Run, Result], manifest: Sequence[Mapping[str, object]]) -> str:
    """Return the page."""
    is_wide = {run: run.problem in PROBLEM_GROUPS["wide"] for run in results}
    wide = by_setting(
        {run: r for run, r in results.items() if is_wide[run] and run.method in _RIVALS}
    )
    others = {
        run: r for run, r in results.items() if not is_wide[run] and run.method not in ABLATIONS
    }
    settings, oracle = (
        by_setting({run: r for run, r in others.items() if (run.method == ORACLE) == is_oracle})
        for is_oracle in (False, True)
    )
    lines = [_HEAD, *among_optunas(settings)]
    for part in (by_how_much(others), what_is_left(settings, oracle)):
        if part:
            lines += ["", *part]
    for setting, cells in settings.items():
        lines += ["", f"## {_title(setting)}", *table(cells)]
    if wide:
        lines += ["", *on_the_wider_set(wide)]
    ablations = on_ablations(results)
    if ablations:
        lines += ["", *ablations]
    lines += made_by(manifest)
    return "\n".join(lines) + "\n"


def main() -> None:
    records.make_page(RECORDS, RESULTS, "benchmarks.run", report, __doc__)


if __name__ == "__main__":
    main()
