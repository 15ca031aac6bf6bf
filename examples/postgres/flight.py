"""What a worker has asked and not told, so that the next one on its machine can end it.

Workers on other machines have to wait for missing heartbeats. On the same machine a dead worker is
detected at once: the kernel releases its locks, however it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import suppress
import fcntl
import json
import os
from pathlib import Path
import tempfile
from types import TracebackType

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState


PREFIX = "optuna-pcts-flight-"

# The id of a trial, and its start, which differs if it was queued and asked again.
Note = tuple[int, str]


class FlightLog:
    """A file that names the trials in flight, locked for as long as this process lives.

    It is in the system's temporary folder, and removed at the end if nothing is in flight then.
    """

    def __enter__(self) -> FlightLog:
        handle, name = tempfile.mkstemp(prefix=f".{PREFIX}")
        self._handle = handle
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Renamed when it is locked: nobody can find the file without its lock.
        self._path = Path(name).rename(Path(name).with_name(Path(name).name[1:]))
        self._notes: set[Note] = set()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._notes:
            self._path.unlink(missing_ok=True)
        os.close(self._handle)

    def note(self, trials: Iterable[optuna.Trial | FrozenTrial]) -> None:
        """Write down what is in flight now."""
        self._notes = {_note(trial) for trial in trials}
        content = json.dumps(sorted(self._notes)).encode()
        os.pwrite(self._handle, content, 0)
        os.ftruncate(self._handle, len(content))

    def forget_ended(self, study: optuna.Study) -> None:
        """Forget what was told, or is back in the queue."""
        self._notes = set(map(_note, _running(study, self._notes)))


def left_over(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that dead workers on this machine had in flight, and delete their logs."""
    return _running(study, set(_read_left_over()))


def _running(study: optuna.Study, notes: set[Note]) -> list[FrozenTrial]:
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [trial for trial in running if _note(trial) in notes]


def _note(trial: optuna.Trial | FrozenTrial) -> Note:
    return trial._trial_id, str(trial.datetime_start)


def _read_left_over() -> Iterator[Note]:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # It may be in use, or just being removed, or another user's; or somebody was killed while
        # writing it. Then those trials have to wait for two minutes.
        with suppress(OSError, ValueError):
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            with os.fdopen(handle) as file:
                if os.fstat(handle).st_uid != os.geteuid():
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                yield from [(trial_id, start) for trial_id, start in json.load(file)]
