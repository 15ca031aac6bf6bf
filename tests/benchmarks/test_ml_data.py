"""Data of the machine-learning tasks: what is damaged, missing or foreign is never read."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
import sys
import tarfile

import numpy as np
import pytest


pytest.importorskip("sklearn")

from benchmarks.ml import data
from benchmarks.ml.data import Archive
from benchmarks.ml.data import DataError


CONTENT = b"what is expected"


def archive(brings: bytes | None = CONTENT) -> Archive:
    """Return an archive, and let the command that brings it bring something, or fail."""
    code = f"open('a.bin', 'wb').write({brings!r})" if brings is not None else "exit('no network')"
    digest = hashlib.sha256(CONTENT).hexdigest()
    return Archive("a.bin", len(CONTENT), digest, ("python", "-c", code))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "optuna-pcts"


def test_data_is_downloaded_once(folder: Path) -> None:
    assert archive().path() == folder / "a.bin"
    assert (folder / "a.bin").read_bytes() == CONTENT
    assert archive(brings=None).path().read_bytes() == CONTENT  # nothing was run
    assert [path.name for path in folder.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("damaged", [CONTENT[:-3], CONTENT[:-1] + b"!", b""])
def test_a_damaged_file_is_downloaded_again(
    damaged: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    (folder / "a.bin").write_bytes(damaged)
    assert archive().path().read_bytes() == CONTENT
    assert "is damaged (it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("brings", "complaint"),
    [
        (CONTENT[:-3], f"it has {len(CONTENT) - 3} bytes instead of {len(CONTENT)}"),
        (CONTENT[:-1] + b"!", "its SHA-256 is"),
        (None, "no network"),
    ],
)
def test_data_that_cannot_be_had_is_reported_with_what_to_do(
    brings: bytes | None, complaint: str, folder: Path
) -> None:
    with pytest.raises(DataError, match=r"a\.bin could not be had") as error:
        archive(brings).path()
    message = str(error.value)
    assert complaint in message
    assert " ".join(archive(brings).command) in message
    assert str(folder) in message
    assert "--size digits" in message
    assert list(folder.iterdir()) == []  # nothing is left that a later run could take for it


def test_a_missing_program_is_reported_too() -> None:
    missing = Archive("a.bin", 1, "0", ("no-such-program", "pack"))
    with pytest.raises(DataError, match="no-such-program"):
        missing.path()


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", None, ".cache/optuna-pcts"),
        ("darwin", None, "Library/Caches/optuna-pcts"),
        ("win32", None, "AppData/Local/optuna-pcts"),
        ("win32", "LOCALAPPDATA", "optuna-pcts"),
    ],
)
def test_the_cache_is_where_each_system_has_it(
    platform: str,
    variable: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    assert data.cache_folder() == tmp_path / expected


def idx(head: bytes, shape: tuple[int, ...], values: bytes) -> tarfile.TarFile:
    """Return an archive with one array as MNIST has them."""
    content = head + np.array(shape, ">u4").tobytes() + values
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("package/data/a")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    file.seek(0)
    return tarfile.open(fileobj=file)


def test_arrays_are_read_as_their_header_says() -> None:
    array = data._idx(idx(b"\0\0\x08\x02", (2, 3), bytes(range(6))), "a", (2, 3))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(DataError, match=r"holds \(3, 2\) instead of \(2, 3\)"):
        data._idx(idx(b"\0\0\x08\x02", (3, 2), bytes(6)), "a", (2, 3))


@pytest.mark.slow
def test_the_real_data_can_be_downloaded() -> None:
    images = data.mnist()
    assert images.features.shape == (60000, 784)
    assert (images.features.min(), images.features.max()) == (0, 1)
    assert np.bincount(images.classes).tolist()[:2] == [5923, 6742]
    small = data.mnist(side=14)
    assert small.features.mean() == pytest.approx(images.features.mean(), rel=1e-4)
    news = data.newsgroups()
    assert news.features.shape[0] == len(news.classes) == 11293
    assert len(np.unique(news.classes)) == 20
