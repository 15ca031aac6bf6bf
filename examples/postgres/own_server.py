"""A PostgreSQL that belongs to the user, given by its URL.

It is changed as little as possible: the example makes its own database for its own tables, session
settings are those of its own connection, and its indexes have names with a prefix. Only restart
settings change the server itself. These are saved in a file first and put back at the end; if this
process is killed before that, the next start on the same file puts them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
import json
from pathlib import Path
import secrets
import subprocess
import time

import psycopg2
from psycopg2 import sql
from sqlalchemy import make_url

from examples.postgres.database import connect
from examples.postgres.database import Connection
from examples.postgres.failure import classified
from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import conf_line


_POLL = 0.05


class OwnServer:
    """A server that the user owns.

    Args:
        url:
            Its URL: ``postgresql://user@host:port/database``. The password is better kept in
            ``PGPASSWORD`` or ``~/.pgpass``; it is never shown.
        restart_command:
            A command that restarts the server and returns when that is done. Without it, only
            knobs that need no restart are tuned.
        saved:
            The file in which its settings are kept while they are changed.
        own_database:
            Whether to work in a new database, dropped at the end, instead of the URL's.
        start_limit:
            Seconds in which the server must be back after a restart.
    """

    def __init__(
        self,
        url: str,
        *,
        restart_command: str | None = None,
        saved: Path,
        own_database: bool = True,
        start_limit: float = 60.0,
    ) -> None:
        self._url = make_url(url)
        self._restart_command = restart_command
        self._saved = saved
        self._start_limit = start_limit
        self._own_database = own_database
        self._database = self._url.database
        self.can_restart = restart_command is not None

    def __enter__(self) -> OwnServer:
        if self._saved.exists():
            self._restore()
        if self._own_database:
            name = f"pcts_example_{secrets.token_hex(4)}"
            self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            self._database = name
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._saved.exists():
                self._restore()
        finally:
            if self._own_database:
                drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                self._execute(drop.format(sql.Identifier(str(self._database))))

    def connect(self) -> Connection:
        """Return a new connection in which every statement commits by itself."""
        return self._connect(self._database)

    def reset(self) -> None:
        """Bring the server back with its own settings, whatever state it is in."""
        if self.can_restart:
            self.restart({})
        else:
            self._wait()

    def _wait(self) -> None:
        """Wait until the server answers, as it may be down for a moment after a crash.

        Raises:
            ConfigError:
                If it does not come back in time.
        """
        deadline = time.monotonic() + self._start_limit
        while True:
            try:
                self._connect(self._url.database).close()
                return
            except psycopg2.OperationalError as error:
                if time.monotonic() > deadline:
                    limit = f"{self._start_limit:g} seconds"
                    raise ConfigError(Kind.TIMED_OUT, f"no answer within {limit}") from error
                time.sleep(_POLL)

    def restart(self, settings: Mapping[str, str]) -> None:
        """Restart the server with these settings, and its own for all others.

        Raises:
            ConfigError:
                If the server refuses them.
        """
        self._save(settings)
        with classified():
            self._write({**self._read_saved(), **settings})
        self._run_restart_command()

    def _read_saved(self) -> dict[str, str | None]:
        """Return the original values of all changed settings; None if there was none."""
        saved = json.loads(self._saved.read_text()) if self._saved.exists() else {}
        return dict(saved.get("settings", {}))

    def _save(self, settings: Mapping[str, str]) -> None:
        """Save the original values of settings before they are changed for the first time."""
        before = self._read_saved()
        new = [name for name in settings if name not in before]
        if not new:
            return
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('data_directory') || '/postgresql.auto.conf'")
            (auto_conf,) = cursor.fetchall()[0]
            cursor.execute(
                "SELECT name, setting FROM pg_file_settings"
                " WHERE name = ANY(%s) AND sourcefile = %s",
                (new, auto_conf),
            )
            own = dict(cursor.fetchall())
        before.update({name: own.get(name) for name in new})
        self._saved.write_text(json.dumps({"settings": before, "auto_conf": auto_conf}))

    def _restore(self) -> None:
        """Put back what was saved, and forget it."""
        self._write(self._read_saved())
        if self._restart_command is None:
            raise ServerLostError(
                f"The settings kept in {self._saved} were put back, but take effect only when the "
                "server is restarted; please restart it and remove the file."
            )
        self._run_restart_command()
        self._saved.unlink()

    def _write(self, settings: Mapping[str, str | None]) -> None:
        """Write settings of the server, by SQL, or into its file if it is down."""
        statements = []
        for name, text in settings.items():
            change = "ALTER SYSTEM RESET {}" if text is None else "ALTER SYSTEM SET {} = {}"
            parts = (sql.Identifier(name), sql.Literal(text))
            statements.append(sql.SQL(change).format(*parts[: 1 if text is None else 2]))
        try:
            self._execute(*statements)
        except psycopg2.OperationalError:
            # ALTER SYSTEM accepts values with which the server does not start.
            self._write_file(settings)

    def _write_file(self, settings: Mapping[str, str | None]) -> None:
        path = Path(json.loads(self._saved.read_text())["auto_conf"])
        own = [conf_line(name, text) for name, text in settings.items() if text is not None]
        try:
            lines = path.read_text().splitlines()
            kept = [line for line in lines if line.split("=")[0].strip() not in settings]
            path.write_text("\n".join([*kept, *own]) + "\n")
        except OSError as error:
            raise ServerLostError(
                f"The server does not start, and {path} cannot be written from here. Please "
                f"remove the lines of {sorted(settings)} there and add {own}; then start it."
            ) from error

    def _run_restart_command(self) -> None:
        assert self._restart_command is not None
        try:
            done = subprocess.run(
                self._restart_command,
                shell=True,  # it is a command line of the user's own
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self._start_limit,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError(Kind.TIMED_OUT, "the restart command does not return") from error
        if done.returncode != 0:
            raise ConfigError(Kind.REFUSED, f"the restart command failed ({done.returncode})")
        self._wait()

    def _execute(self, *statements: sql.Composable) -> None:
        connection = self._connect(self._url.database)
        with closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _connect(self, database: str | None) -> Connection:
        try:
            return connect(
                host=self._url.query.get("host", self._url.host),
                port=self._url.port,
                user=self._url.username,
                password=self._url.password,
                dbname=database,
            )
        except psycopg2.OperationalError:
            # Its message names the host and the user.
            raise psycopg2.OperationalError("the server does not accept a connection") from None
