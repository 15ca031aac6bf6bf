"""Results of many runs in a CSV file; an interrupted benchmark resumes from it.

Runs append to a plain file. Where there is a compressed one beside it (``runs.csv.gz``), the rows
of the plain one (``runs.csv``) are moved into it at the end. So only one program at a time may
write to the same file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import as_completed
from concurrent.futures import ProcessPoolExecutor
import csv
from dataclasses import astuple
from dataclasses import dataclass
from dataclasses import fields
from datetime import datetime
from datetime import timezone
import gzip
from importlib.metadata import packages_distributions
from importlib.metadata import version
import json
from multiprocessing import get_context
import os
from pathlib import Path
import platform
import shlex
import subprocess
import sys
from typing import Any
from typing import Generic
from typing import get_type_hints
from typing import TypeVar
import warnings

import numpy as np
import optuna
from tqdm import tqdm

import optuna_pcts


RESULTS = Path(__file__).parent / "results"

RunT = TypeVar("RunT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Records(Generic[RunT, ResultT]):
    """Runs of one kind and their results: a row of a file each.

    Attributes:
        run, result:
            Frozen dataclasses of strings and numbers.
        execute:
            Runs one. It may return more than one row; that of the run itself is the last, and
            marks the run as done.
    """

    run: type[RunT]
    result: type[ResultT]
    execute: Callable[[RunT], Mapping[RunT, ResultT]]

    def read(self, path: Path) -> dict[RunT, ResultT]:
        """Return what is in a file and in the compressed one beside it."""
        return {_parse(self.run, row): _parse(self.result, row) for row in _rows(path)}

    def run_all(
        self, runs: Sequence[RunT], path: Path, n_jobs: int
    ) -> Iterator[Mapping[RunT, ResultT]]:
        """Run all, and write the rows of each when it has ended."""
        os.environ["PYTHONHASHSEED"] = "0"  # SMAC3 draws from sets: makes it reproducible
        is_new = not path.is_file()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if is_new:
                writer.writerow([*_names(self.run), *_names(self.result)])
            for rows in self._executed(runs, n_jobs):
                for run, result in rows.items():
                    writer.writerow([*_cells(run), *_cells(result)])
                file.flush()
                yield rows

    def _executed(self, runs: Sequence[RunT], n_jobs: int) -> Iterator[Mapping[RunT, ResultT]]:
        """Yield the rows of each run when it has ended."""
        if not n_jobs:
            be_quiet()
            yield from map(self.execute, runs)
            return
        use_one_thread()
        with ProcessPoolExecutor(n_jobs, get_context("spawn"), initializer=be_quiet) as pool:
            jobs = [pool.submit(self.execute, run) for run in runs]
            try:
                for job in as_completed(jobs):
                    yield job.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def complete(
        self, runs: Sequence[RunT], path: Path, *, module: str, n_jobs: int, **notes: object
    ) -> None:
        """Run what is not in a file yet; add command, versions and notes to the manifest.

        With no jobs, all is run in this process: for runs that start processes of their own.

        Raises:
            SystemExit:
                At Ctrl-C; finished runs are kept.
        """
        compress(path)  # rows that a killed program has left
        known = self.read(path)
        todo = [run for run in runs if run not in known]
        print(f"{len(todo)} runs; {len(runs) - len(todo)} are known", file=sys.stderr)
        if not todo:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(path.parent / "manifest.json", module, **notes)
        try:
            for _ in tqdm(self.run_all(todo, path, n_jobs), total=len(todo), unit="run"):
                pass
        except KeyboardInterrupt:
            raise SystemExit(
                "\nInterrupted. What is done is kept; the same command goes on."
            ) from None
        finally:
            compress(path)


def _names(kind: type) -> list[str]:
    return [f.name for f in fields(kind)]


def _parse(kind: Any, row: Mapping[str, str]) -> Any:
    return kind(**{name: hint(row[name]) for name, hint in get_type_hints(kind).items()})


def _cells(record: Any) -> list[object]:
    return [f"{x:.6g}" if isinstance(x, float) else x for x in astuple(record)]


def compressed(path: Path) -> Path:
    """Return the compressed file beside a plain one."""
    return path.with_name(f"{path.name}.gz")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if compressed(path).is_file():
        with gzip.open(compressed(path), "rt", newline="") as file:
            yield from csv.DictReader(file)
    if path.is_file():
        with path.open(newline="") as file:
            yield from csv.DictReader(file)


def compress(path: Path) -> None:
    """Move the rows of a plain file into the compressed one beside it, if there is one.

    If it is killed, nothing is lost: at worst rows are in both files, and read once.
    """
    cut_off_last(path)
    if not (path.is_file() and compressed(path).is_file()):
        return
    _, _, rows = path.read_bytes().partition(b"\n")
    text = gzip.decompress(compressed(path).read_bytes()) + rows
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(gzip.compress(text, mtime=0))  # the same bytes for the same rows
    new.replace(compressed(path))
    path.unlink()


def cut_off_last(path: Path) -> None:
    """Remove an incomplete last line, left by a program that was killed."""
    if path.is_file() and not (text := path.read_text()).endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1])


def use_one_thread() -> None:
    """Limit each new process to one thread: all cores have processes already."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


def be_quiet() -> None:
    """Silence warnings and logs that many runs would repeat."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)


# Packages of the other methods and of the tasks.
_MODULES = ("cmaes", "sklearn", "smac", "torch", "xgboost")


def write_manifest(path: Path, module: str, **notes: object) -> None:
    """Add an entry with command, versions and notes to a manifest."""
    entries = json.loads(path.read_text()) if path.is_file() else []
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True
    )
    entries.append(
        {
            "command": shlex.join(["python", "-m", module, *sys.argv[1:]]),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit.stdout.strip() or None,
            "python": platform.python_version(),
            "optuna": optuna.__version__,
            "optuna_pcts": optuna_pcts.__version__,
            "numpy": np.__version__,
            "packages": {name: version(name) for name in _distributions()},
            "cores": os.cpu_count(),
            **notes,
        }
    )
    path.write_text(json.dumps(entries, indent=2) + "\n")


def _distributions() -> list[str]:
    """Return the distributions of these modules: some have several names."""
    known = packages_distributions()
    return [known[module][0] for module in _MODULES if module in known]


def read_manifest(path: Path, module: str) -> list[dict[str, object]]:
    """Return the entries of one module's runs."""
    entries: list[dict[str, object]] = json.loads(path.read_text())
    return [e for e in entries if f"{e['command']} ".startswith(f"python -m {module} ")]


def make_page(
    records: Records[RunT, ResultT],
    folder: Path,
    module: str,
    page: Callable[[Mapping[RunT, ResultT], list[dict[str, object]]], str],
    description: str | None,
) -> None:
    """Run the program that makes a page of results, beside the folder that they are in.

    Args:
        records:
            Their kind.
        folder:
            Their folder, unless the command line gives another one.
        module:
            The module that makes them.
        page:
            Makes the page of the results and the entries of the manifest.
        description:
            Of the program.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--results", type=Path, default=folder, metavar="DIR")
    parser.add_argument("--output", type=Path, default=folder.parent / "README.md", metavar="FILE")
    args = parser.parse_args()
    results = records.read(args.results / "runs.csv")
    if not results:
        parser.error(f"there is nothing in {args.results}: run `python -m {module}` first")
    args.output.write_text(page(results, read_manifest(args.results / "manifest.json", module)))
    print(args.output)


def row(*cells: object) -> str:
    """Return a row of a table of a page."""
    return f"| {' | '.join(map(str, cells))} |"


def table(*names: str) -> list[str]:
    """Return the first lines of a table of a page, with an empty one before."""
    return ["", row(*names), "|" + "---|" * len(names)]


def made_by(manifest: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the last lines of a page."""
    lines = ["", "## Made by", ""]
    for entry in manifest:
        versions = ", ".join(f"{key} {entry[key]}" for key in ("python", "optuna", "numpy"))
        commit = str(entry["commit"] or "unknown")[:12]
        note = f"; {entry['note']}" if "note" in entry else ""
        lines.append(f"- `{entry['command']}` at {commit}, {entry['date']}, {versions}{note}")
    return lines
