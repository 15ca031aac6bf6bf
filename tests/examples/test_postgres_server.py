"""The embedded PostgreSQL: every way in which it fails, on the real server."""

from __future__ import annotations

from contextlib import closing
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time

from helpers import heed_ctrl_c
from helpers import ROOT
import psycopg2
import pytest

from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.server import EmbeddedServer
from examples.postgres.server import find_installation
from examples.postgres.server import FOLDER_PREFIX


# Starts a server, says where, and waits.
SCRIPT = """
import sys, time
from pathlib import Path
from examples.postgres.server import EmbeddedServer
with EmbeddedServer(parent=Path(sys.argv[1])) as server:
    connection = server.connect()
    print(server.pid, server.folder, flush=True)
    time.sleep(600)
"""


def ask(server: EmbeddedServer, query: str) -> str:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return str(cursor.fetchall()[0][0])


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    if status.exists():
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path("/proc").exists()


def wait_until_gone(pid: int, limit: float = 20.0) -> None:
    deadline = time.monotonic() + limit
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def segments(pid: int, folder: Path) -> list[str]:
    """What a server would leave behind if it did not clean up: System V and POSIX segments."""
    maps = Path(f"/proc/{pid}/maps")
    if not maps.exists():
        return []
    posix = {word for word in maps.read_text().split() if word.startswith("/dev/shm/")}
    system_v = (folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
    found = [*sorted(posix), system_v]
    assert len(found) >= 2
    assert all(map(segment_exists, found))
    return found


def segment_exists(segment: str) -> bool:
    if segment.startswith("/"):
        return Path(segment).exists()
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return segment in [line.split()[1] for line in lines]


@pytest.fixture
def parent() -> Path:
    """A folder that every user can reach, unlike pytest's, on a short path, as sockets need."""
    folder = Path(tempfile.mkdtemp(prefix="pcts-test-"))
    folder.chmod(0o755)
    return folder


def start_script(parent: Path) -> tuple[subprocess.Popen[str], int, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(parent)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    pid, folder = process.stdout.readline().split()
    return process, int(pid), Path(folder)


def test_an_installation_is_found() -> None:
    assert (find_installation() / "bin" / "initdb").is_file()


def test_settings_take_effect_and_are_forgotten_by_a_reset(server: EmbeddedServer) -> None:
    server.restart({"shared_buffers": "64MB", "application_name": "it's"})
    assert ask(server, "SHOW shared_buffers") == "64MB"
    assert ask(server, "SHOW application_name") == "it's"
    server.reset()
    assert ask(server, "SHOW shared_buffers") == "128MB"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("shared_buffers", "100000GB", "shared_buffers"),
        ("shared_buffers", "64kB", "outside the valid range"),
        ("shared_buffers", "1gb", "invalid value"),
        ("nonsense", "1", "unrecognized configuration parameter"),
        ("max_connections", "3", "superuser_reserved_connections"),
        ("work_mem", "banana", "invalid value"),
    ],
)
def test_a_refused_start_says_why_and_the_server_comes_back(
    server: EmbeddedServer, name: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        server.restart({name: text})
    assert caught.value.kind is Kind.REFUSED
    assert server.pid is None
    assert str(server.folder) not in str(caught.value)
    server.reset()
    assert ask(server, "SELECT 1") == "1"


def test_a_start_that_takes_too_long_is_given_up(server: EmbeddedServer) -> None:
    server.stop()
    impatient = server._start_limit
    server._start_limit = 0.0
    try:
        with pytest.raises(ConfigError, match="no start within 0 seconds") as caught:
            server.start()
    finally:
        server._start_limit = impatient
    assert caught.value.kind is Kind.TIMED_OUT
    assert server.pid is None
    server.start()
    assert ask(server, "SELECT 1") == "1"


def test_a_killed_server_starts_again(server: EmbeddedServer) -> None:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
    assert (server.folder / "data" / "postmaster.pid").exists()  # stale
    server.reset()
    assert ask(server, "SELECT 1") == "1"


def test_a_server_killed_in_the_middle_of_a_query_starts_again(server: EmbeddedServer) -> None:
    with closing(server.connect()) as busy, busy.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchall()[0]
        busy.autocommit = False
        cursor.execute("UPDATE account SET balance = 7 WHERE id = 1")  # holds a lock
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        server.reset()
        with pytest.raises(psycopg2.Error):
            cursor.execute("COMMIT")
    wait_until_gone(backend)
    assert ask(server, "SELECT balance FROM account WHERE id = 1") != "7.0"


def test_leaving_the_context_leaves_nothing(parent: Path) -> None:
    with EmbeddedServer(parent=parent) as server:
        pid = server.pid
        assert pid is not None
        held = segments(pid, server.folder)
    assert not is_alive(pid)
    assert not any(map(segment_exists, held))
    assert list(parent.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_server_that_somebody_killed_leaves_nothing(parent: Path) -> None:
    with EmbeddedServer(parent=parent) as server:
        pid = server.pid
        assert pid is not None
        held = segments(pid, server.folder)
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        assert any(map(segment_exists, held))
    assert not any(map(segment_exists, held))
    assert list(parent.iterdir()) == []


def test_an_error_at_the_start_leaves_nothing(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedServer, "_write", lambda self, settings: 1 / 0)
    with pytest.raises(ZeroDivisionError), EmbeddedServer(parent=parent):
        pass
    assert list(parent.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is there on Linux only")
def test_a_killed_python_leaves_no_server_and_no_shared_memory(parent: Path) -> None:
    process, pid, folder = start_script(parent)
    assert is_alive(pid)
    held = segments(pid, folder)
    process.kill()
    process.wait()
    wait_until_gone(pid)
    assert not any(map(segment_exists, held))
    assert folder.exists()  # it could not be removed ...
    with EmbeddedServer(parent=parent) as server:
        assert not folder.exists()  # ... but the next start does so
        assert list(parent.iterdir()) == [server.folder]


def test_an_orphan_is_stopped_by_the_next_start(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens on systems where the kernel does not stop it."""
    script = SCRIPT.replace(
        "with Emb",
        "import examples.postgres.server as s\ns._die_with_parent = lambda: None\nwith Emb",
    )
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", script)
    process, pid, folder = start_script(parent)
    process.kill()
    process.wait()
    time.sleep(0.3)
    assert is_alive(pid)
    with EmbeddedServer(parent=parent):
        assert not folder.exists()
    wait_until_gone(pid)


def test_two_at_once_do_not_disturb_each_other(parent: Path) -> None:
    process, pid, folder = start_script(parent)
    try:
        with EmbeddedServer(parent=parent) as server:
            assert server.folder != folder
            assert folder.name.startswith(FOLDER_PREFIX)
            server.restart({"shared_buffers": "64MB"})
            assert ask(server, "SHOW shared_buffers") == "64MB"
            assert is_alive(pid)
        assert is_alive(pid)
        assert folder.exists()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    wait_until_gone(pid)
    assert not folder.exists()


def test_other_users_cannot_read_the_folders(server: EmbeddedServer) -> None:
    for part in ("data", "socket"):
        assert (server.folder / part).stat().st_mode & 0o077 == 0
    assert ask(server, "SHOW listen_addresses") == ""
