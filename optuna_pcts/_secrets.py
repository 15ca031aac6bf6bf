"""Addresses of storages, and messages of drivers about them, without passwords."""

from __future__ import annotations

from collections.abc import Iterator
import re
from urllib.parse import unquote
from urllib.parse import unquote_plus


_HIDDEN = "***"

# A password may have special characters that were not encoded, so it ends at the last @ of the
# line; or of the word, where there is no scheme.
_BEFORE_HOST = re.compile(r"""(://[^\s:/@'"]*:)(.+)(?=@)|([^\s:/@'"]*:)(?!//)(\S+)(?=@)""")
# In the query of a URL, or in a connection string of PostgreSQL or ODBC.
_ASSIGNED = re.compile(r"""([\w%.+-]+\s*=\s*)('(?:[^'\\]|\\.)*'|"[^"]*"|\{[^}]*\}|[^\s&;]+)""")
_KEY = re.compile(r"passw|passphrase|pwd|pass\b|secret|token|api_?key|credential", re.IGNORECASE)
# Characters at which a driver may have split a password that it misread.
_CUTS = re.compile(r"[\s:/@?#&=;,'\"\[\]{}\\]+")


def without_secrets(text: str, of: str = "") -> str:
    """Return a text without the passwords and tokens that are in it.

    Args:
        text:
            A URL, a connection string, or a message that has some.
        of:
            The address that the message is about: its secrets, and parts of them, are removed too.
    """
    for secret in sorted(set(_parts_of_secrets(of)), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _HIDDEN, text)
    text = _BEFORE_HOST.sub(lambda m: (m[1] or m[3]) + _HIDDEN, text)
    return _ASSIGNED.sub(lambda m: m[1] + _HIDDEN if _is_secret(m[1], m[2]) else m[0], text)


def _is_secret(key: str, value: str) -> bool:
    # A value may be another connection string, encoded.
    inner = unquote(value)
    is_nested = inner != value and any(_is_secret(m[1], m[2]) for m in _ASSIGNED.finditer(inner))
    return _KEY.search(unquote(key)) is not None or is_nested


def _parts_of_secrets(address: str) -> Iterator[str]:
    found = [m[2] or m[4] for m in _BEFORE_HOST.finditer(address)]
    found += [m[2] for m in _ASSIGNED.finditer(address) if _is_secret(m[1], m[2])]
    for secret in found:
        for plain in (secret, unquote(secret), unquote_plus(secret)):
            yield from (part for part in (plain, *_CUTS.split(plain)) if part)
