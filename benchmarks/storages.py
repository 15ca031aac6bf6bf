"""Optuna's storages for many processes, each brought up from nothing and taken down again.

A storage has an *address*, a text that can be handed to other processes; each of them opens the
storage for itself. A server, if it needs one, runs while the context of :func:`serve` is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from contextlib import contextmanager
import multiprocessing
from pathlib import Path
import socket
from typing import Any
from typing import TYPE_CHECKING

import optuna
from optuna.storages import BaseStorage
from optuna.storages import InMemoryStorage
from optuna.storages import JournalStorage
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend


if TYPE_CHECKING:  # the other storages need no database
    from examples.postgres.server import EmbeddedServer


MEMORY, SQLITE, JOURNAL, POSTGRES, GRPC = KINDS = (
    "memory",
    "sqlite",
    "journal",
    "postgres",
    "grpc",
)

# Seconds that a process waits for another one's lock on a SQLite file, and for a proxy.
_PATIENCE = 60.0


@contextmanager
def serve(kind: str, folder: Path) -> Iterator[str]:
    """Make an empty storage of a kind, and yield its address.

    Args:
        kind:
            One of ``KINDS``. The proxy stands before a PostgreSQL.
        folder:
            Where its files may be.
    """
    if kind == MEMORY:
        yield "memory://"
    elif kind == SQLITE:
        yield f"sqlite:///{folder}/study.db"
    elif kind == JOURNAL:
        yield f"journal://{folder}/study.journal"
    elif kind == POSTGRES:
        from examples.postgres.server import EmbeddedServer

        with EmbeddedServer() as server:
            yield address_of(server)
    elif kind == GRPC:
        with serve(POSTGRES, folder) as behind, _proxy(behind) as port:
            yield f"grpc://localhost:{port}"
    else:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, but got {kind!r}.")


def address_of(server: EmbeddedServer) -> str:
    """Return the address of a storage in an embedded PostgreSQL: by its socket, it has no port."""
    from examples.postgres.server import DATABASE

    return f"postgresql+psycopg2://postgres@/{DATABASE}?host={server.folder}/socket"


def connect(address: str, **options: Any) -> BaseStorage:
    """Open the storage at an address.

    Args:
        address:
            An address of :func:`serve`, or the URL of any database that Optuna knows.
        options:
            Arguments of ``RDBStorage``, where it is one.
    """
    scheme, _, rest = address.partition("://")
    if scheme == MEMORY:
        return InMemoryStorage()
    if scheme == JOURNAL:
        return JournalStorage(JournalFileBackend(rest))
    if scheme == GRPC:
        from optuna.storages import GrpcStorageProxy

        host, _, port = rest.rpartition(":")
        proxy = GrpcStorageProxy(host=host, port=int(port))
        proxy.wait_server_ready(timeout=_PATIENCE)
        return proxy
    if scheme == SQLITE:
        options.setdefault("engine_kwargs", {"connect_args": {"timeout": _PATIENCE}})
    return optuna.storages.get_storage(RDBStorage(address, **options))


@contextmanager
def _proxy(behind: str) -> Iterator[int]:
    """Run a gRPC proxy before a storage, and yield its port."""
    with closing(socket.socket()) as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
    connect(behind)  # makes its tables, before anybody is in a hurry
    process = multiprocessing.get_context("spawn").Process(
        target=run_proxy, args=(behind, port), daemon=True
    )
    process.start()
    try:
        yield port
    finally:
        process.kill()
        process.join()


def run_proxy(behind: str, port: int) -> None:
    """Serve a storage to others until this process is ended."""
    from optuna.storages import run_grpc_proxy_server

    run_grpc_proxy_server(connect(behind), host="localhost", port=port)
