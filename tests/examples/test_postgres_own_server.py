"""A server that belongs to somebody: what is changed is put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
import threading
import time

import psycopg2
import pytest

from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.failure import ServerLostError
from examples.postgres.own_server import OwnServer
from examples.postgres.server import EmbeddedServer


def ask(server: EmbeddedServer, query: str) -> list[tuple[object, ...]]:
    with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall() if cursor.description else []


def own_settings(server: EmbeddedServer) -> dict[str, str]:
    """What the owner has set with ALTER SYSTEM."""
    path = server.folder / "data" / "postgresql.auto.conf"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {line.split(" = ")[0]: line.split(" = ")[1] for line in lines}


@pytest.fixture
def url(server: EmbeddedServer) -> Iterator[str]:
    """The URL of a server on which somebody has set shared_buffers."""
    ask(server, "ALTER SYSTEM SET shared_buffers = '96MB'")
    server.reset()
    yield f"postgresql://postgres:very-secret@/postgres?host={server.folder / 'socket'}"
    if server.pid is None:
        server.start()
    ask(server, "ALTER SYSTEM RESET ALL")
    server.reset()


@pytest.fixture
def restart_command(server: EmbeddedServer, tmp_path: Path) -> Iterator[str]:
    """A command that restarts the server, as a service manager would."""
    request, answer, over = tmp_path / "request", tmp_path / "answer", threading.Event()

    def serve() -> None:
        while not over.is_set():
            if request.exists():
                server.stop()
                try:
                    server.start()
                    answer.write_text("0")
                except ConfigError:
                    answer.write_text("1")
                request.unlink()
            time.sleep(0.01)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"touch {request}; while [ -e {request} ]; do sleep 0.02; done; exit $(cat {answer})"
    server.stop()  # it would end with the thread that started it
    over.set()
    thread.join()
    server.reset()


def test_settings_are_put_back(
    server: EmbeddedServer, url: str, restart_command: str, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    with OwnServer(url, restart_command=restart_command, saved=saved) as own:
        own.restart({"shared_buffers": "64MB", "wal_buffers": "1MB"})
        assert ask(server, "SHOW shared_buffers") == [("64MB",)]
        assert ask(server, "SHOW wal_buffers") == [("1MB",)]
        assert saved.exists()
        assert "secret" not in saved.read_text()
        own.restart({"wal_buffers": "2MB"})
        assert ask(server, "SHOW shared_buffers") == [("96MB",)]
        assert ask(server, "SHOW wal_buffers") == [("2MB",)]
    assert own_settings(server) == {"shared_buffers": "'96MB'"}
    assert ask(server, "SHOW shared_buffers") == [("96MB",)]
    assert not saved.exists()


def test_settings_are_put_back_on_interruption(
    server: EmbeddedServer, url: str, restart_command: str, tmp_path: Path
) -> None:
    own = OwnServer(url, restart_command=restart_command, saved=tmp_path / "saved.json")

    def interrupted() -> None:
        with own:
            own.restart({"shared_buffers": "64MB"})
            assert own_settings(server) == {"shared_buffers": "'64MB'"}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert own_settings(server) == {"shared_buffers": "'96MB'"}


def test_the_next_start_puts_back_what_a_killed_one_left(
    server: EmbeddedServer, url: str, restart_command: str, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    killed = OwnServer(url, restart_command=restart_command, saved=saved)
    killed.restart({"shared_buffers": "64MB", "wal_buffers": "1MB"})
    with pytest.raises(ServerLostError, match="restart it and remove the file"):
        OwnServer(url, saved=saved).__enter__()  # cannot restart, but puts them back
    assert own_settings(server) == {"shared_buffers": "'96MB'"}
    with OwnServer(url, restart_command=restart_command, saved=saved):
        assert ask(server, "SHOW shared_buffers") == [("96MB",)]
        assert not saved.exists()


def test_a_setting_with_which_the_server_does_not_start(
    server: EmbeddedServer, url: str, restart_command: str, tmp_path: Path
) -> None:
    own = OwnServer(url, restart_command=restart_command, saved=tmp_path / "saved.json")
    with own:
        with pytest.raises(ConfigError) as caught:
            own.restart({"shared_buffers": "4TB"})  # which ALTER SYSTEM accepts
        assert caught.value.kind is Kind.REFUSED
        assert server.pid is None
        own.reset()
        assert ask(server, "SHOW shared_buffers") == [("96MB",)]
    assert own_settings(server) == {"shared_buffers": "'96MB'"}


def test_a_restart_that_does_not_end(server: EmbeddedServer, url: str, tmp_path: Path) -> None:
    own = OwnServer(
        url, restart_command="sleep 30", saved=tmp_path / "saved.json", start_limit=0.2
    )
    with pytest.raises(ConfigError, match="does not return") as caught:
        own.restart({"wal_buffers": "1MB"})
    assert caught.value.kind is Kind.TIMED_OUT


def test_a_database_of_its_own_is_dropped_at_the_end(
    server: EmbeddedServer, url: str, tmp_path: Path
) -> None:
    before = ask(server, "SELECT datname FROM pg_database ORDER BY 1")
    with OwnServer(url, saved=tmp_path / "saved.json") as own:
        assert not own.can_restart
        connection = own.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_database()")
            ((name,),) = cursor.fetchall()
        assert name.startswith("pcts_example_")
        # The connection is still open.
    assert ask(server, "SELECT datname FROM pg_database ORDER BY 1") == before
    with OwnServer(url, saved=tmp_path / "saved.json", own_database=False) as own:
        assert ask(server, "SELECT datname FROM pg_database ORDER BY 1") == before


def test_a_lost_connection_names_nobody(tmp_path: Path) -> None:
    url = f"postgresql://who:very-secret@/postgres?host={tmp_path}"
    with pytest.raises(psycopg2.OperationalError) as caught:
        OwnServer(url, saved=tmp_path / "saved.json").connect()
    assert str(caught.value) == "the server does not accept a connection"
    assert caught.value.__suppress_context__
