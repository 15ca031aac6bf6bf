"""The scale-out benchmark, and with it each storage under real processes."""

from __future__ import annotations

from helpers import run_module
import pytest

from benchmarks.storages import KINDS
from benchmarks.storages import serve


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "postgres"])  # behind gRPC
def test_nothing_is_lost_or_repeated(kind: str) -> None:
    options = "--workers 3 --trials 18 --turns 2 --sleep 0.01 --fill 2 --lost 2 --samplers"
    done = run_module("benchmarks.scaleout", "--storage", kind, *options.split(), "PCTS", "Random")
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "|" in line]
    header, _, *rows = rows
    assert [row[1] for row in rows] == ["PCTS", "Random"]
    for row in rows:
        measured = dict(zip(header, row))
        assert (measured["repeated"], measured["lost"]) == ("0", "0")
        assert float(measured["trials/s"]) > 0
        assert 0 < float(measured["in sampler"].rstrip("%")) < 100
    assert "PCTS / Random with 3 workers" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [("--workers 0", "must be positive"), ("--turns 1", "at least 2"), ("--fill -1", "negative")],
)
def test_options_that_make_no_sense_are_refused(options: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        run_module("benchmarks.scaleout", *options.split())


def test_an_unknown_kind_of_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="one of memory, sqlite"), serve("?", None):  # type: ignore[arg-type]
        pass
