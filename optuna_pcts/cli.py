"""The command line: what a study is doing, what it recommends, and its figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import json
import os
from pathlib import Path
import re
import sys
from typing import Any
from typing import NoReturn

import optuna
from optuna.storages import BaseStorage
from optuna.storages import JournalStorage
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend

import optuna_pcts
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._analysis.recommend import recommend
from optuna_pcts._analysis.report import report_of
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import params_text
from optuna_pcts._analysis.text import plain_json
from optuna_pcts._secrets import without_secrets


_EPILOG = """\
STORAGE is where the study is:
  sqlite:///study.db                   an SQLite database (its path alone will do, too)
  postgresql://user:password@host/db   a PostgreSQL database, or another one of SQLAlchemy
  study.journal                        the path of a journal file

Nothing is ever written to it. STUDY may be left out where the storage has one only.

examples:
  optuna-pcts report sqlite:///study.db
  optuna-pcts report study.journal my-study --html report.html
  optuna-pcts recommend sqlite:///study.db my-study --top 3 --json
  optuna-pcts plot sqlite:///study.db my-study --figure tree --output tree.png

exit status: 0 on success, 1 on an error, 2 if the command line is invalid.
"""

_MANY_TRIALS = 3000
_SUFFIXES = (".html", ".json", ".pdf", ".png", ".svg")


class _UserError(Exception):
    """An error that the user can correct."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(without_secrets(message))  # it quotes what was given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Args:
        arguments:
            What stands after the name of the program. By default that of this process.
    """
    options = _parser().parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        options.run(options)
        sys.stdout.flush()
    except (_UserError, ImportError, OSError, ValueError) as error:
        if isinstance(error, BrokenPipeError):  # of `| head`, say
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(f"optuna-pcts: {without_secrets(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="optuna-pcts",
        description="See what a study of Optuna is doing, whichever sampler it has.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"%(prog)s {optuna_pcts.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("storage", metavar="STORAGE", help="URL or path, see below")
        one.add_argument("study", metavar="STUDY", nargs="?", help="name of the study")
        one.set_defaults(run=run)
        return one

    one = command(
        "report",
        _report,
        "say what a study is doing: tree, delays, fidelity, cost, what runs, what it recommends",
    )
    one.add_argument("--next", type=_count, default=3, metavar="N", help="next cells to name (3)")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("--html", type=Path, metavar="FILE", help="write one page with all figures")

    one = command("recommend", _recommend, "print the configuration that is most likely good")
    one.add_argument("--top", type=_count, default=1, metavar="N", help="how many (1)")
    one.add_argument("--json", action="store_true", help="print JSON")

    one = command("plot", _plot, "write one figure to a file")
    one.add_argument("--figure", required=True, choices=list(INFOS), help="which one")
    one.add_argument(
        "--output",
        required=True,
        type=_figure_file,
        metavar="FILE",
        help="its suffix says what it is: .html and .json (plotly), .png, .svg and .pdf "
        "(matplotlib)",
    )
    one.add_argument("--params", nargs=2, metavar=("X", "Y"), help="axes of the partition")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, but is {number}")
    return number


def _figure_file(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _SUFFIXES:
        raise argparse.ArgumentTypeError(f"must end in one of {', '.join(_SUFFIXES)}: {text}")
    return path


# ---------------------------------------------------------------------- commands


def _report(options: argparse.Namespace) -> None:
    source = Snapshot(_open_study(options.storage, options.study))
    _tell_if_long(source)
    if options.html is not None:
        from optuna_pcts.visualization._page import page_of

        options.html.write_text(page_of(source), encoding="utf-8")
        print(f"Wrote {options.html}", file=sys.stderr)
        if not options.json:
            return
    found = report_of(source, n_next=options.next)
    print(json.dumps(found.to_dict(), indent=2, allow_nan=False) if options.json else found)


def _recommend(options: argparse.Namespace) -> None:
    found = recommend(_open_study(options.storage, options.study), top=options.top)
    if options.json:
        print(json.dumps(plain_json([vars(one) for one in found]), indent=2, allow_nan=False))
        return
    for one in found:
        low, high = one.interval
        print(params_text(one.params))
        print(
            f"  value {one.value:.6g}, with 95 % probability {low:.6g} to {high:.6g} "
            f"(trial {one.number}, supported by {one.n_trials})"
        )


def _plot(options: argparse.Namespace) -> None:
    source = Snapshot(_open_study(options.storage, options.study), params=options.params)
    _tell_if_long(source)
    info = INFOS[options.figure](source)
    output: Path = options.output
    if output.suffix.lower() in (".html", ".json"):
        from optuna_pcts.visualization._figures import DRAW_PLOTLY
        from optuna_pcts.visualization._plotly import check

        check()
        figure = DRAW_PLOTLY[options.figure](info)
        is_page = output.suffix.lower() == ".html"
        text = figure.to_html(config={"responsive": True}) if is_page else figure.to_json()
        output.write_text(text, encoding="utf-8")
    else:
        from optuna_pcts.visualization._figures import save

        save(options.figure, info, str(output))
    print(f"Wrote {output}", file=sys.stderr)


def _tell_if_long(source: Snapshot) -> None:
    if len(source.trials) >= _MANY_TRIALS:
        print(f"Reading {len(source.trials):,} trials ...", file=sys.stderr)


# ---------------------------------------------------------------------- storages


def _open_study(storage: str, name: str | None) -> optuna.Study:
    opened = _open_storage(storage)
    names = sorted(optuna.get_all_study_names(opened))
    if not names:
        raise _UserError(f"there is no study in {storage}.")
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        problem = f"no study `{name}` in" if name is not None else "name the study: several in"
        raise _UserError(f"{problem} {storage}. It has: {', '.join(names)}")
    return optuna.load_study(study_name=name, storage=opened)


def _open_storage(text: str) -> BaseStorage:
    """Open a storage that must be there: nothing is created."""
    if "://" in text:
        return _open_database(text)
    path = Path(text)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise _UserError(
            f"{path} {what}; give the path of a file, or a URL such as sqlite:///x.db."
        )
    with path.open("rb") as file:
        start = file.read(16)
    if start == b"SQLite format 3\0":
        return _open_database(f"sqlite:///{path}")
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (ValueError, KeyError, AssertionError, TypeError) as error:
        raise _UserError(f"{path} is neither a journal file nor an SQLite database.") from error


def _open_database(url: str) -> BaseStorage:
    # A common name of the scheme that SQLAlchemy does not know.
    url = re.sub(r"^postgres://", "postgresql://", url)
    is_sqlite = re.match(r"sqlite(\+\w+)?://", url)
    if is_sqlite:
        path = url[is_sqlite.end() :].removeprefix("/").split("?")[0]
        if path in ("", ":memory:"):
            raise _UserError(f"{url} is in the memory of another process; it cannot be read.")
        if not Path(path).is_file():
            raise _UserError(f"{path} does not exist.")
    # Which driver the bare name stands for depends on the version of SQLAlchemy.
    others = ("postgresql+psycopg2://", "postgresql+psycopg://")
    urls = [url, *(re.sub("^postgresql://", other, url) for other in others)]
    for attempt in dict.fromkeys(urls):
        try:
            return RDBStorage(attempt, skip_table_creation=True)
        except ImportError:
            continue
        except Exception as error:  # SQLAlchemy's, which comes with Optuna
            reason = str(error.__cause__ or error).splitlines()[0]
            # A driver that cannot parse a URL may repeat parts of it.
            reason = without_secrets(reason, of=url)
            raise _UserError(f"{url} cannot be read as a storage of Optuna: {reason}") from error
    raise _UserError(
        f"{url} needs a driver that is not installed, such as psycopg2-binary for PostgreSQL."
    )
