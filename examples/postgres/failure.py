"""What can go wrong with a configuration. A failure is told to the study, never measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import enum

import psycopg2
from psycopg2 import errors


class Kind(enum.Enum):
    """How a configuration failed."""

    REFUSED = "refused"  # the server does not start with it, or does not accept it
    TIMED_OUT = "timed out"
    CRASHED = "crashed"  # an error, a lost connection or a dead server


class ConfigError(Exception):
    """A configuration that cannot be measured.

    Args:
        kind:
            How it failed.
        reason:
            What the server said, in one line.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(f"{kind.value}: {reason}")
        self.kind = kind
        self.reason = reason


class ServerLostError(Exception):
    """The server does not come back even with its defaults: nothing more can be measured."""


@contextmanager
def classified() -> Iterator[None]:
    """Turn an error of the database into a failure of the configuration."""
    try:
        yield
    except errors.QueryCanceled as error:
        raise ConfigError(Kind.TIMED_OUT, one_line(error)) from error
    except (
        errors.InvalidParameterValue,
        errors.CantChangeRuntimeParam,
        errors.UndefinedObject,  # an unknown setting
    ) as error:
        raise ConfigError(Kind.REFUSED, one_line(error)) from error
    except psycopg2.Error as error:
        raise ConfigError(Kind.CRASHED, one_line(error)) from error


def one_line(error: object, limit: int = 300) -> str:
    """Return the message of an error on one line, short enough for a user attribute."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
