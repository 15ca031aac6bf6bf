"""Make ``benchmarks/conditional.md`` from the results of ``python -m benchmarks.conditional``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from functools import cache
import math
from pathlib import Path
import statistics

import numpy as np

from benchmarks import conditional
from benchmarks.branches import recorded
from benchmarks.branches.methods import FLAT
from benchmarks.branches.methods import GROUP
from benchmarks.branches.methods import METHODS
from benchmarks.branches.methods import OURS
from benchmarks.branches.methods import PCTS
from benchmarks.branches.methods import TPE
from benchmarks.branches.recorded import RECORDED
from benchmarks.branches.synthetic import DESCRIPTIONS
from benchmarks.conditional import instance
from benchmarks.conditional import MAIN
from benchmarks.conditional import PROBLEMS
from benchmarks.conditional import RECORDS
from benchmarks.conditional import Result
from benchmarks.conditional import Run
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import row
from benchmarks.records import table
from benchmarks.report import geometric_mean
from benchmarks.report import shared_ranks
from benchmarks.report import signed_rank


Setting = tuple[int, int]  # trials, workers
# Regrets by problem and method, and then by seed; and those of all settings.
Cells = Mapping[tuple[str, str], Mapping[int, float]]
Regrets = Mapping[Setting, Cells]

# Below this p, PCTS is said to be worse; below the other, perhaps.
_SIGNIFICANT, _PERHAPS = 0.01, 0.05
# Numbers of trials at which PCTS is compared with its flat union.
_EARLY = (75, 150)
# A regret below this part of the noise counts as that: two that are so small are equally good.
_LEAST = 0.01

_HEAD = """\
Regrets are without noise. For PCTS the answer is the point that `recommend` names; for the
others it is their `best_trial`, unless a table says otherwise. Each seed is another instance of
a synthetic problem, whose regret counts in losses of a random trial (its noise is 0.05). A
recorded one has but one instance, and its regret counts in per cent of error. "PCTS, flat union"
searches all parameters in one space as if all always mattered. "PCTS, told" is given all
parameters and their conditions up front. SMAC3 is given them as a ConfigSpace; where no static
space can say what an objective asks for, these methods get the same problem with positions in
the ranges as parameters. TPE is Optuna's at its defaults, which since Optuna 5 are multivariate;
parameters that not all trials have are sampled one by one. "TPE, group" is the same with
`group=True`."""

_RATIOS_HEAD = """\
## Relative to the flat union

Geometric means of the ratio of the regrets over the seeds, with standard errors; below 1 PCTS is
better than its flat union. A regret below a hundredth of the noise counts as that."""

_ABSENT = """\
AutoSampler and the hierarchical TPE are fetched from OptunaHub; the one needs torch, and the other
an Optuna before 5. SMAC3 needs smac. The command says what a method lacks; what lacks nothing has
not been run yet."""

_SURROGATE_HEAD = """\
The recorded problems are pipelines of scikit-learn and XGBoost, evaluated once by `python -m
benchmarks.branches.record`. What is optimised is a forest for each learner that has learned
these evaluations. As all forests it has plateaus; it has learned the luck of the folds too; and
its lowest value, from which regrets are counted, is the lowest that a long search has found, so
that a regret may be a little below 0. The table says how it agrees with fresh evaluations (R²,
and Spearman's rank correlation), about half of them at random and half around the best of each
learner. The noise is that of the same cross-validation with other folds. Beside it are the
lowest value, and what the same pipeline has in the mean over several folds, those that the
forest knows among them."""


def regrets_of(results: Mapping[Run, Result], named: Collection[str] = OURS) -> Regrets:
    """Return the regrets of the answers.

    Args:
        results:
            Of the runs.
        named:
            The methods whose answer is what `recommend` names; the others name their best trial.
    """
    found: dict[Setting, dict[tuple[str, str], dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for run, result in results.items():
        regret = result.regret if run.method in named else result.regret_best
        found[run.evaluations, run.workers][run.problem, run.method][run.seed] = regret
    return dict(sorted(found.items()))


def _present(results: Mapping[Run, Result]) -> tuple[list[str], list[str]]:
    """Return the problems and methods that there are results of, in their order."""
    return (
        [name for name in PROBLEMS if any(run.problem == name for run in results)],
        [name for name in METHODS if any(run.method == name for run in results)],
    )


def medians(cells: Cells) -> dict[tuple[str, str], float]:
    """Return the medians over the seeds that all methods have run with on a problem."""
    seeds = _shared_seeds(cells)
    return {
        key: statistics.median(found[seed] for seed in seeds[key[0]])
        for key, found in cells.items()
        if seeds[key[0]]
    }


def _shared_seeds(cells: Cells) -> dict[str, set[int]]:
    """Return the seeds that all methods have run with, by problem."""
    return {
        problem: set.intersection(*(set(f) for (p, _), f in cells.items() if p == problem))
        for problem, _ in cells
    }


def ranks(cells: Cells) -> dict[str, float]:
    """Return the mean rank over the problems of the methods that have run on all of them."""
    middle = medians(cells)
    problems = sorted({problem for problem, _ in middle})
    methods = sorted({method for _, method in middle})
    methods = [m for m in methods if all((p, m) in middle for p in problems)]
    if not methods:
        return {}
    regrets = np.array([[middle[p, m] for p in problems] for m in methods])
    return dict(zip(methods, shared_ranks(regrets).mean(axis=1).tolist()))


def _main_table(results: Mapping[Run, Result], regrets: Regrets, setting: Setting) -> list[str]:
    problems, methods = _present(results)
    cells = regrets[setting]
    middle, mean_ranks = medians(cells), ranks(cells)
    methods = [m for m in methods if any((p, m) in middle for p in problems)]
    lines = table("", *problems, "rank")
    for method in methods:
        numbers = []
        for problem in problems:
            mine = middle.get((problem, method))
            best = min((x for (p, _), x in middle.items() if p == problem), default=None)
            text = "" if mine is None else f"{mine:.2g}"
            numbers.append(f"**{text}**" if text and mine == best else text)
        rank = f"{mean_ranks[method]:.1f}" if method in mean_ranks else ""
        lines.append(row(method, *numbers, rank))
    return lines


def _ranks_table(results: Mapping[Run, Result], regrets: Regrets) -> list[str]:
    _, methods = _present(results)
    lines = table("trials", "workers", "seeds", *methods)
    for (trials, workers), cells in regrets.items():
        of = ranks(cells)
        numbers = [f"{of[m]:.1f}" if m in of else "" for m in methods]
        numbers = [f"**{x}**" if of.get(m) == min(of.values()) else x
                   for m, x in zip(methods, numbers)]  # fmt: skip
        n_seeds = min(map(len, _shared_seeds(cells).values()))
        lines.append(row(trials, workers, n_seeds, *numbers))
    return lines


def wilson(n_better: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval that holds a share with 95 %, after so many of so many."""
    share = n_better / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return middle - half, middle + half


def _pairs(
    cells: Cells, peer: str, problem: str | None = None
) -> Iterator[tuple[str, int, float, float]]:
    """Yield problem and seed, and the regrets of PCTS and of a peer."""
    for (name, method), found in cells.items():
        if method == PCTS and problem in (None, name):
            other = cells.get((name, peer), {})
            for seed in sorted(found.keys() & other.keys()):
                yield name, seed, found[seed], other[seed]


def _shares_table(regrets: Regrets) -> list[str]:
    lines = table("trials", "workers", *(f"better than {peer}" for peer in (TPE, GROUP)))
    everything: dict[str, list[bool]] = defaultdict(list)
    for (trials, workers), cells in regrets.items():
        texts = []
        for peer in (TPE, GROUP):
            wins = [a < b for _, _, a, b in _pairs(cells, peer) if a != b]
            everything[peer] += wins
            texts.append(_share(wins))
        lines.append(row(trials, workers, *texts))
    return [*lines, row("all", "all", *(_share(everything[peer]) for peer in (TPE, GROUP)))]


def _share(wins: Sequence[bool]) -> str:
    if not wins:
        return ""
    low, high = wilson(sum(wins), len(wins))
    return f"{sum(wins) / len(wins):.2f} ({low:.2f} to {high:.2f}) of {len(wins)}"


@cache
def _noise_std(problem: str) -> float:
    return instance(Run(problem, PCTS, 1, 1, 0)).noise_std


def log_ratios(regrets: Regrets, setting: Setting, peer: str, problem: str | None) -> list[float]:
    """Return the logarithms of the regrets of PCTS relative to a peer: of each seed the mean."""
    logs: dict[int, list[float]] = defaultdict(list)
    for name, seed, mine, other in _pairs(regrets[setting], peer, problem):
        least = _LEAST * _noise_std(name)
        logs[seed].append(math.log(max(mine, least) / max(other, least)))
    return [statistics.mean(of) for of in logs.values()]


def _ratios(results: Mapping[Run, Result], regrets: Regrets) -> list[str]:
    problems, _ = _present(results)
    rows = []
    for setting in (s for s in regrets if s[0] in _EARLY):
        numbers = []
        for problem in [*problems, None]:
            logs = log_ratios(regrets, setting, FLAT, problem)
            numbers.append("{:.2g} ± {:.2g}".format(*geometric_mean(logs)) if logs else "")
        if any(numbers):
            rows.append(row(*setting, *numbers))
    if not rows:
        return []
    return ["", _RATIOS_HEAD, *table("trials", "workers", *problems, "all"), *rows]


def against_tpe(cells: Cells, problem: str) -> tuple[str, float, float, float] | None:
    """Compare PCTS with the better of the two forms of TPE.

    Returns:
        Which one it is, its median regret, that of PCTS, and how probable such differences are by
        chance; None if one of them has not run.
    """
    found = []
    for peer in (TPE, GROUP):
        pairs = [(mine, other) for _, _, mine, other in _pairs(cells, peer, problem)]
        if pairs:
            mine, others = zip(*pairs)
            p_value = signed_rank([a - b for a, b in pairs])
            found.append((statistics.median(others), peer, statistics.median(mine), p_value))
    if not found:
        return None
    theirs, peer, ours, p_value = min(found)
    return peer, theirs, ours, p_value


def _tests(results: Mapping[Run, Result], regrets: Regrets) -> list[str]:
    problems, _ = _present(results)
    lines = table("trials", "workers", *problems)
    worse: list[tuple[float, str]] = []
    for (trials, workers), cells in regrets.items():
        texts = []
        for problem in problems:
            compared = against_tpe(cells, problem)
            if compared is None:
                texts.append("")
                continue
            peer, theirs, ours, p_value = compared
            texts.append(f"{'<' if ours < theirs else '>'} {p_value:.2g}")
            if ours > theirs:
                where = f"{problem}, {trials} trials, {workers} workers"
                what = f"{ours:.2g} instead of {theirs:.2g} ({peer}), p {p_value:.1g}"
                worse.append((p_value, f"- {where}: {what}"))
        lines.append(row(trials, workers, *texts))
    surely = [text for p, text in worse if p < _SIGNIFICANT]
    perhaps = [text for p, text in worse if _SIGNIFICANT <= p < _PERHAPS]
    lines += ["", f"PCTS is significantly worse (p < {_SIGNIFICANT:g}):", ""]
    lines += [*(surely or ["- nowhere"]), "", f"Perhaps (p < {_PERHAPS:g}):", ""]
    return [*lines, *(perhaps or ["- nowhere"])]


def _times(results: Mapping[Run, Result]) -> list[str]:
    _, methods = _present(results)
    settings = sorted({(run.evaluations, run.workers) for run in results})
    lines = table("trials", "workers", *methods)
    for trials, workers in settings:
        numbers = []
        for method in methods:
            seconds = [
                result.seconds
                for run, result in results.items()
                if (run.evaluations, run.workers, run.method) == (trials, workers, method)
            ]
            numbers.append(f"{1000 * statistics.median(seconds):.2g}" if seconds else "")
        lines.append(row(trials, workers, *numbers))
    return lines


def _problems() -> list[str]:
    lines = table("problem", "parameters", "conditional", "what it is")
    for name in PROBLEMS:
        problem = instance(Run(name, PCTS, 1, 1, 0))
        text = DESCRIPTIONS.get(name)
        if text is None:
            task = RECORDED[name]
            text = (
                f"A preparation and one of six learners for {task.n_samples} samples of "
                f"scikit-learn's `{task.loader}`: the error in per cent"
                + (" of the variance." if task.is_regression else ".")
            )
        plain = " ".join(text.replace("``", "`").split())
        lines.append(row(name, len(problem.space), len(problem.conditions), plain))
    return lines


def _surrogates() -> list[str]:
    lines = table(
        "problem", "learned", "fresh", "all", "at random", "around the best",
        "noise", "lowest", "evaluated",
    )  # fmt: skip
    for name, found in recorded.read_checks().items():
        agree = [
            f"{found[part]['r2']:.2f}, {found[part]['spearman']:.2f}"
            for part in ("all", "random", "good")
        ]
        errors = found["noise_std"], found["optimum"], statistics.mean(found["best_evaluated"])
        numbers = [f"{error:.2f}" for error in errors]
        lines.append(row(name, found["n_rows"], found["n_fresh"], *agree, *numbers))
    return lines


def page(results: Mapping[Run, Result], manifest: Sequence[Mapping[str, object]]) -> str:
    """Return the page of the results."""
    regrets = regrets_of(results)
    description = (conditional.__doc__ or "").split("\n\n", 1)[1].strip()
    lines = ["# Conditional parameters", "", description, "", _HEAD]
    absent = [name for name in METHODS if not any(run.method == name for run in results)]
    if absent:
        lines += ["", f"Not there: {'; '.join(absent)}.", _ABSENT]
    setting = MAIN if MAIN in regrets else max(regrets)
    trials, workers = setting
    lines += ["", f"## Median regret: {trials} trials, {workers} workers"]
    lines += _main_table(results, regrets, setting)
    lines += ["", "### The same with `recommend` for all"]
    lines += _main_table(results, regrets_of(results, named=list(METHODS)), setting)
    lines += ["", "## Mean rank", ""]
    lines += ["By the median regret, over all problems. Medians are over the seeds that all have."]
    lines += _ranks_table(results, regrets)
    lines += ["", "## How often PCTS is better", ""]
    lines += ["Of the pairs with the same problem and seed. The interval is Wilson's (95 %)."]
    lines += _shares_table(regrets)
    lines += _ratios(results, regrets)
    lines += ["", "## Against TPE", ""]
    lines += ["Against the better of TPE and TPE with groups, by the median: whether PCTS has a"]
    lines += ["lower (<) or a higher regret, and how probable such differences are by chance"]
    lines += ["(Wilcoxon's signed-rank test). With six seeds it cannot be below 0.03."]
    lines += _tests(results, regrets)
    lines += ["", "## Milliseconds per trial", "", "Of the sampler and of Optuna; medians."]
    lines += _times(results)
    lines += ["", "## The problems"]
    lines += _problems()
    lines += ["", "## What was learned from recorded pipelines", "", _SURROGATE_HEAD]
    lines += _surrogates()
    return "\n".join([*lines, *made_by(manifest)]) + "\n"


def write(results: Path, output: Path) -> None:
    """Make the page of the results in a folder."""
    found = RECORDS.read(results / "conditional.csv")
    manifest = read_manifest(results / "manifest.json", "benchmarks.conditional")
    output.write_text(page(found, manifest))
    print(output)
