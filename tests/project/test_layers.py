"""The architecture: imports point downwards, and the core imports nothing heavy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
import json
from pathlib import Path

from helpers import python
from helpers import ROOT
import pytest


PACKAGE = ROOT / "optuna_pcts"
# From the bottom up. A layer may import itself and those before it, unless `NOT_ALLOWED` says so.
LAYERS = (
    ("_arrays", "_checks", "_secrets"),
    ("_tree",),
    ("_gp",),
    ("_space",),
    ("_search",),
    ("_study",),
    ("_analysis",),
    ("visualization",),
    ("dashboard",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
NOT_ALLOWED = {("_space", "_gp")}
# Modules of Optuna that a layer may know; all others know none of it but its logger.
MAY_KNOW_OPTUNA = {"_space", "_search", "_study", "_analysis", "visualization", "dashboard", "cli"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_module_has_its_layer() -> None:
    assert {layer_of(path) for path in MODULES} == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(path)
    for name in imported(path):
        if name.startswith("optuna_pcts."):
            other = name.split(".")[1]
            assert RANK[other] <= RANK[own], f"{own} imports {name}, which stands above it"
            assert (own, other) not in NOT_ALLOWED
        elif name == "optuna_pcts":
            assert RANK[own] >= RANK["visualization"], f"{own} imports the public names"


@pytest.mark.parametrize("layer", ["_tree", "_gp"])
def test_the_lower_layers_know_no_study(layer: str) -> None:
    for path in (PACKAGE / layer).glob("*.py"):
        names = {name for name in imported(path) if name.split(".")[0] == "optuna"}
        assert names <= {"optuna"}, path  # its logger, at most
        assert "optuna.Study" not in path.read_text(encoding="utf-8"), path


def test_no_module_is_long() -> None:
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert max(lengths.values()) <= 500, lengths
    assert sum(length > 400 for length in lengths.values()) <= 3


def test_the_core_imports_nothing_heavy() -> None:
    heavy = ("torch", "scipy", "plotly", "matplotlib", "sklearn", "pandas", "optuna_dashboard")
    code = (
        "import sys, json, optuna; before = set(sys.modules); import optuna_pcts; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    new = {name.split(".")[0] for name in json.loads(python("-c", code))}
    assert "optuna_pcts" in new
    assert not new & set(heavy)
