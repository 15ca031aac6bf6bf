"""Shared code of the scripts that make pages: write the page, or check that it is up to date."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
import sys


DOCS = Path(__file__).parent


def write_or_check(description: str, page: str, make: Callable[[str], str]) -> bool:
    """Bring a page up to date; with ``--check`` fail if it is not.

    Args:
        description:
            What the script does, for its help text.
        page:
            Name of the page in this folder.
        make:
            Returns the text of the page, given the text it has now.

    Returns:
        Whether the page was to be written, and not only checked.
    """
    script = Path(sys.argv[0]).name
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if it is out of date"
    )
    check = bool(parser.parse_args().check)
    path = DOCS / page
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    after = make(before)
    if check and after != before:
        raise SystemExit(f"docs/{page} is out of date: run python docs/{script}")
    if not check:
        path.write_text(after, encoding="utf-8")
        print(f"docs/{page}")
    return not check
