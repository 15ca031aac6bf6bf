"""The storage of the study: a database that workers share, and that may be unavailable at times.

When it restarts, no worker loses its trials in flight: each waits, and resumes.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
import inspect
import sys
import threading
import time
from typing import Any
import warnings

from optuna.exceptions import ExperimentalWarning
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages import RetryFailedTrialCallback
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy import text
from sqlalchemy.exc import InterfaceError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.exc import SQLAlchemyError

from examples.postgres import interrupt


# Seconds between two heartbeats of a trial in flight, and after how many without one its worker
# counts as dead. Longer than any round: heartbeats are sent between rounds.
HEARTBEAT = 15
GRACE = 120

# Whether this thread is within a call: what it calls in turn is a part of the same transaction.
_within = threading.local()

# Seconds between two checks whether the storage is back, and how long it may be away while
# somebody waits for this process to end.
_POLL = 0.5
_HURRY = 10


def open_storage(url: str) -> PatientStorage:
    """Return a storage in which trials of a worker that died are given to another one.

    SQLite in a mode that does not wait for the disk at every report: a crash of the machine may
    lose the last reports, but not the file.
    """
    try:
        storage = _connect(url)
    except SQLAlchemyError:  # perhaps another run was just making the tables
        time.sleep(1.0)
        storage = _connect(url)
    if storage.engine.dialect.name == "sqlite":

        @event.listens_for(storage.engine, "connect")
        def relax(connection: Any, _: object) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

        storage.engine.dispose()  # the connections that were made before
    return storage


def _connect(url: str) -> PatientStorage:
    with warnings.catch_warnings():
        # Experimental, and by the one name that all supported versions of Optuna know.
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return PatientStorage(
            url,
            engine_kwargs={"pool_pre_ping": True},  # the storage may have been restarted
            heartbeat_interval=HEARTBEAT,
            grace_period=GRACE,
            failed_trial_callback=RetryFailedTrialCallback(),
        )


class PatientStorage(RDBStorage):
    """A database for which each call waits while it is unavailable.

    A call is one transaction: if it is aborted it has no effect, and is repeated. It gives up when
    the trials of this worker count as lost anyway, or soon after Ctrl-C. A database that is
    unavailable at the start is an error at once.
    """

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        is_call = inspect.ismethod(value) and not name.startswith("__")
        return _patient(value) if is_call else value

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        # Optuna takes a trial without any heartbeat, of a worker that was killed within ask, for
        # alive. So it is given one, and only one.
        silent = text(
            "SELECT trial_id FROM trials WHERE study_id = :study AND state = :running AND NOT"
            " EXISTS (SELECT 1 FROM trial_heartbeats h WHERE h.trial_id = trials.trial_id)"
        )
        values = {"study": study_id, "running": TrialState.RUNNING.name}
        with self.engine.connect() as connection:
            found = connection.execute(silent, values).scalars().all()
        for trial_id in found:
            self.record_heartbeat(trial_id)
        return super()._get_stale_trial_ids(study_id)


def _patient(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wait(*arguments: Any, **named: Any) -> Any:
        if getattr(_within, "call", False):
            return call(*arguments, **named)
        start = time.monotonic()
        is_said = False
        while True:
            _within.call = True
            try:
                return call(*arguments, **named)
            except (SQLAlchemyError, StorageInternalError) as error:
                patience = _HURRY if interrupt.is_noted() else GRACE
                if not _is_away(error) or time.monotonic() - start > patience:
                    raise
            finally:
                _within.call = False
            if not is_said:
                is_said = True
                print(f"The storage is away: waiting up to {GRACE} s for it.", file=sys.stderr)
            time.sleep(_POLL)

    return wait


def _is_away(error: Exception) -> bool:
    """Whether the connection failed, and not the query."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    # The last is what follows if Optuna itself asks again, in the same transaction.
    return isinstance(cause, (OperationalError, InterfaceError, PendingRollbackError))
