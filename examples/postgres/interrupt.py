"""Ctrl-C that neither interrupts a write to the storage nor gets lost.

Python raises an interrupt at any point: between a trial's end and its last attribute, or in a
finaliser, where the exception is reported and dropped. While trials run it is therefore only
noted, and raised where the loop checks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import signal
import sys
from types import FrameType


_is_noted = False
_is_held = False


def install() -> None:
    """Handle Ctrl-C, SIGTERM and the loss of the terminal alike."""
    sys.unraisablehook = _report_unraisable
    usual = (signal.SIG_DFL, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in usual:  # with nohup it is not
            signal.signal(number, _interrupt)


@contextmanager
def held() -> Iterator[None]:
    """Note the first interrupt within the block, and raise it at its end at the latest.

    A second one is raised at once.
    """
    global _is_held
    _is_held = True
    try:
        yield
    finally:
        _is_held = False
    heed()


def is_noted() -> bool:
    """Whether an interrupt was noted."""
    return _is_noted


def heed() -> None:
    """Raise an interrupt that was noted."""
    if _is_noted:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _is_noted
    is_first = not _is_noted
    _is_noted = True
    if not (_is_held and is_first):
        raise KeyboardInterrupt


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:  # that is heeded a little later
        sys.__unraisablehook__(unraisable)
