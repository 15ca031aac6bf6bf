"""What the commands share: options, the way to a calibrated evaluator, and Ctrl-C."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import closing
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import optuna
from optuna.exceptions import StorageInternalError
import psycopg2
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import SQLAlchemyError
from tqdm import tqdm

from examples.postgres import interrupt
from examples.postgres.evaluator import Evaluator
from examples.postgres.failure import ConfigError
from examples.postgres.failure import one_line
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import Knobs
from examples.postgres.own_server import OwnServer
from examples.postgres.paired import full_run
from examples.postgres.server import EmbeddedServer
from examples.postgres.workload import find_workload
from examples.postgres.workload import Workload
from optuna_pcts._secrets import without_secrets


# A configuration is given up when it takes so many times as long as the default.
_PATIENCE = 5.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(without_secrets(message))  # it quotes what was given


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default else action.help


def new_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all commands have."""
    parser = _Parser(prog=f"python -m {module}", description=description, formatter_class=_Help)
    parser.add_argument(
        "--in-flight", type=positive_int, default=8, metavar="N", help="trials asked at a time"
    )
    parser.add_argument(
        "--scale", type=positive, default=1.0, metavar="X", help="size of the shop's tables"
    )
    parser.add_argument(
        "--workload", default="shop", help="shop, a folder of .sql files, or module:Class"
    )
    parser.add_argument(
        "--include-durability",
        action="store_true",
        help="also tune synchronous_commit: a crash may then lose the last transactions",
    )
    own = parser.add_argument_group("a server of your own, instead of the embedded one")
    own.add_argument("--url", help="postgresql://user@host:port/database", default=None)
    own.add_argument(
        "--i-own-this-server",
        action="store_true",
        help="you may build indexes on it, load it with queries, and restart it",
    )
    own.add_argument(
        "--restart-command",
        metavar="COMMAND",
        default=None,
        help="restarts it; without this, only what needs no restart is tuned",
    )
    return parser


def run(main: Callable[[], None]) -> None:
    """Run a command; Ctrl-C, or a storage that is gone, ends it without a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("\nInterrupted.") from None
    except (SQLAlchemyError, StorageInternalError) as error:
        # Their messages name hosts and users.
        kind = type(error).__name__
        raise SystemExit(
            f"The storage cannot be used: {kind}. Later the same command goes on."
        ) from error


def positive(text: str) -> float:
    """Read a number above 0."""
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, but got {text}")
    return number


def positive_int(text: str) -> int:
    """Read a whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, but got {text}")
    return number


@contextmanager
def open_evaluator(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> Iterator[Evaluator]:
    """Start or take a server, load it, measure its default and calibrate.

    What goes wrong here is a message to the user, not a traceback. To be terminated, or to
    lose the terminal, is like Ctrl-C.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    interrupt.install()
    try:
        workload = find_workload(args.workload, args.scale)
        with _server(parser, args, workload) as server:
            _load(server, workload)
            knobs = Knobs.of(
                workload.indexes,
                can_restart=server.can_restart,
                durability=args.include_durability,
            )
            with closing(Evaluator(server, workload, knobs)) as evaluator:
                evaluator.limit = _PATIENCE * _measure_default(evaluator)
                evaluator.calibrate()
                print("seconds to change: " + ", ".join(_costs(evaluator)))
                yield evaluator
    except (ConfigError, ServerLostError, ValueError, OSError, psycopg2.Error) as error:
        raise SystemExit(one_line(without_secrets(str(error), of=args.url or ""))) from error
    except ArgumentError as error:
        raise SystemExit(f"Not the URL of a server: {without_secrets(args.url)}") from error


def _server(
    parser: argparse.ArgumentParser, args: argparse.Namespace, workload: Workload
) -> EmbeddedServer | OwnServer:
    if args.url is None:
        if not workload.makes_tables:
            parser.error("a folder without schema.sql needs a server that has the tables: --url")
        return EmbeddedServer()
    if not args.i_own_this_server:
        parser.error("--url needs --i-own-this-server: it will be loaded, and perhaps restarted.")
    return OwnServer(
        args.url,
        restart_command=args.restart_command,
        saved=Path("postgres-saved-settings.json"),
        own_database=workload.makes_tables,
    )


def _load(server: EmbeddedServer | OwnServer, workload: Workload) -> None:
    connection = server.connect()
    with tqdm(total=1.0, desc="load", bar_format="{desc}: {percentage:3.0f}% |{bar}|") as bar:
        for share in workload.load(connection):
            bar.update(share - bar.n)
    connection.close()


def _measure_default(evaluator: Evaluator) -> float:
    try:
        full_run(evaluator, evaluator.knobs.defaults)  # the first reads the tables into memory
        seconds = full_run(evaluator, evaluator.knobs.defaults).estimate
    except ConfigError as error:
        raise ValueError(f"The default configuration failed: {error}") from error
    print(f"default configuration: {seconds:.2f} s for the workload")
    return seconds


def _costs(evaluator: Evaluator) -> list[str]:
    costs = sorted(evaluator.change_costs.items(), key=lambda item: item[1], reverse=True)
    return [f"{name} {seconds:.3f}" for name, seconds in costs]
