"""The package for OptunaHub: made, checked as the registry does, loaded and run."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil

from helpers import python
from helpers import ROOT
from helpers import run
import pytest

import optuna_pcts


HUB = ROOT / "docs" / "hub"

# What the registry checks: the default rules of its version of ruff, and for an older Python.
RUFF = """
line-length = 99
target-version = "py38"
[lint]
select = ["E4", "E7", "E9", "F", "I"]
[lint.isort]
known-third-party = ["optuna"]
lines-after-imports = 2
force-single-line = true
force-sort-within-sections = true
order-by-type = false
"""

# An installed optuna_pcts must not help.
LOAD = """
import json, sys
sys.modules["optuna_pcts"] = None
import optuna, optunahub

optuna.logging.set_verbosity(optuna.logging.WARNING)
pcts = optunahub.load_local_module("samplers/pcts", registry_root=sys.argv[1])
study = optuna.create_study(
    sampler=pcts.PCTSSampler(seed=0), pruner=pcts.PCTSPruner(max_resource=4)
)

def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    for step in range(1, 5):
        trial.report(x**2 + (kind == "a") + 1 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x**2 + (kind == "a") + 1 / step

study.optimize(objective, n_trials=60, callbacks=[pcts.CostBudget(budget=600)])
print(json.dumps([pcts.__name__, pcts.__all__, pcts.recommend(study).params]))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("registry")
    for _ in range(2):  # the second time in place of the first
        python(HUB / "make_package.py", folder)
    return folder / "package" / "samplers" / "pcts"


def front_matter(text: str) -> dict[str, str]:
    head = re.match(r"---\n(.*?)\n---\n", text, flags=re.DOTALL)
    assert head is not None
    return dict(line.split(": ", 1) for line in head[1].splitlines())


def test_it_has_what_the_registry_asks_for(package: Path) -> None:
    text = (package / "README.md").read_text()
    header = front_matter(text)
    assert set(header) == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert all(header.values())
    assert "sampler" in header["tags"].strip("[]").split(", ")
    assert header["license"] == "MIT License"
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE)[:2] == ["Abstract", "APIs"]
    assert "## Example" in text
    assert not re.search(r"</?[a-z]+>", text), "HTML is not allowed"
    assert (package / "LICENSE").read_text().startswith("MIT License\n\nCopyright (c) ")
    # The first picture is the thumbnail. All pictures together: at most 100 kB.
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures[0] == "images/thumbnail.png"
    assert {f"images/{p.name}" for p in (package / "images").iterdir()} == set(pictures)
    assert sum(p.stat().st_size for p in (package / "images").iterdir()) <= 100_000
    for name in re.findall(r"^- `(\w+)\(", text, flags=re.MULTILINE):
        assert name in optuna_pcts.__all__


def test_it_passes_the_checks_of_the_registry(package: Path, tmp_path: Path) -> None:
    config = tmp_path / "ruff.toml"
    config.write_text(RUFF)
    for check in (["check"], ["format", "--check"]):
        python("-m", "ruff", *check, "--no-cache", "--config", config, package)


def test_it_holds_the_modules_it_needs_and_imports_no_optuna_pcts(package: Path) -> None:
    modules = {str(path.relative_to(package)) for path in package.rglob("*.py")} - {"example.py"}
    assert {"__init__.py", "_study/sampler.py", "_tree/tree.py", "_tree/__init__.py"} <= modules
    source = ROOT / "optuna_pcts"
    assert modules <= {str(path.relative_to(source)) for path in source.rglob("*.py")}
    for name in modules:
        assert not re.search(r"^\s*(from|import) optuna_pcts", (package / name).read_text(), re.M)


def test_it_is_loaded_and_finds_the_optimum_on_its_own(package: Path) -> None:
    out = python("-c", LOAD, package.parents[1], GIT_PYTHON_REFRESH="quiet")  # needs no git
    name, names, params = json.loads(out.splitlines()[-1])
    assert name == "optunahub_registry.package.samplers.pcts"
    assert set(names) == set(optuna_pcts.__all__)
    assert abs(params["x"]) < 0.3
    assert params["kind"] == "b"


@pytest.mark.skipif(shutil.which("git") is None, reason="OptunaHub downloads with git")
def test_its_example_and_its_page_run_as_they_stand(package: Path, tmp_path: Path) -> None:
    """With a registry that has the package: git finds it on this machine."""
    hub = tmp_path / "optuna" / "optunahub-registry"
    shutil.copytree(package.parents[1], hub / "package")
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    run("git", "init", "--quiet", "--initial-branch=main", hub)
    run("git", "add", ".", folder=hub)
    run("git", *who, "commit", "--quiet", "--message", "pcts", folder=hub)
    environment = {
        "OPTUNAHUB_CACHE_HOME": str(tmp_path / "cache"),
        "OPTUNAHUB_NO_ANALYTICS": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    block = re.search(r"```python\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    assert block is not None
    script = tmp_path / "page.py"
    script.write_text(block[1])
    for path in (script, package / "example.py"):
        out = python(path, folder=tmp_path, **environment)
        found = re.findall(r"'x': (-?[\d.e-]+), 'y': (-?[\d.e-]+)\}", out)
        assert max(abs(float(x)) for x in found[-1]) < 1
