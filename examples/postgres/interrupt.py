"""Ctrl-C that is never lost.

Python raises an interrupt wherever it happens to be. In a finaliser or a callback from C the
exception is reported and dropped, so the loop that all commands share asks for it once more.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


_was_interrupted = False


def install() -> None:
    """Heed Ctrl-C; to be terminated, or to lose the terminal, is the same."""
    sys.unraisablehook = _report_unraisable
    usual = (signal.SIG_DFL, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in usual:  # with nohup it is not
            signal.signal(number, _interrupt)


def heed() -> None:
    """Interrupt again if an interrupt was dropped."""
    if _was_interrupted:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _was_interrupted
    _was_interrupted = True
    raise KeyboardInterrupt


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:  # that is heeded a little later
        sys.__unraisablehook__(unraisable)
