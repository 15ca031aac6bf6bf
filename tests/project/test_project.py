"""The project around the package: style, types, examples, pages, versions of Optuna."""

from __future__ import annotations

import ast
import os
from pathlib import Path
import re
import shlex
import sys
import venv

from helpers import python
from helpers import ROOT
from helpers import run
import optuna
from packaging.version import Version
import pytest

import optuna_pcts


README = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").glob("*.md"))
# A block of code, and a link to something that is not on the network.
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def test_ruff_finds_nothing() -> None:
    python("-m", "ruff", "check", ".")
    python("-m", "ruff", "format", "--check", ".")


def test_mypy_finds_nothing() -> None:
    assert "no issues found" in python("-m", "mypy")


def imports(tree: ast.AST) -> set[str]:
    """Return the packages that a piece of code imports."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.split(".")[0] for name in names}


def test_the_core_imports_optuna_and_numpy_alone() -> None:
    allowed = {"optuna", "numpy", "optuna_pcts"} | sys.stdlib_module_names
    extras = {"plotly", "matplotlib", "optuna_dashboard"}
    for path in (ROOT / "optuna_pcts").rglob("*.py"):
        code = ast.parse(path.read_text())
        is_beside = path.name == "dashboard.py" or path.parent.name == "visualization"
        found = imports(code)
        assert found <= allowed | (extras if is_beside else set()), path
        # What is beside the core may lack its library until it is used: at the top of a module,
        # libraries are imported in a `with try_import()` or only for types.
        for statement in code.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                assert imports(statement) <= allowed, path


def test_the_public_names_are_all_there() -> None:
    for name in optuna_pcts.__all__:
        assert getattr(optuna_pcts, name).__doc__, name


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^(python3 -m venv .*)$", README, flags=re.MULTILINE)
    assert len(commands) == 3
    assert [c for c in commands if "pytest" in c] == [
        (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    ]


@pytest.mark.parametrize("block", BLOCK.findall(README))
def test_the_code_of_the_readme_runs(block: str, tmp_path: Path) -> None:
    """Each block on its own: readers copy single blocks."""
    script = tmp_path / "block.py"
    script.write_text(block)
    python(script, folder=tmp_path)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.stem
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    """And then its commands, in the folder where its code has left what it made."""
    text = page.read_text()
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))  # errors then name the line of the page
        code = block[1].splitlines()
        lines[start : start + len(code)] = code
    for command in re.findall(r"^optuna-pcts (.*)$", text, flags=re.MULTILINE):
        lines.append(f"assert __import__('optuna_pcts.cli').cli.main({shlex.split(command)}) == 0")
    script = tmp_path / f"{page.stem}.py"
    script.write_text("\n".join(lines))
    python(script, folder=tmp_path)


@pytest.mark.parametrize("script", ["make_api.py", "make_tree.py"])
def test_what_is_made_by_a_script_is_up_to_date(script: str) -> None:
    python(ROOT / "docs" / script, "--check")


def test_the_reference_has_every_public_name() -> None:
    headings = re.findall(r"^### (\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert set(optuna_pcts.__all__) <= set(headings)


def anchors(page: Path) -> set[str]:
    """Return the anchors that code hosts give to the headings of a page."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        n_before = found.count(plain)
        found += [plain, f"{plain}-{n_before}"] if n_before else [plain]
    return set(found)


def test_links_lead_somewhere() -> None:
    own = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
    n_links = 0
    for page in own:
        for target, anchor in LINK.findall(page.read_text()):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in anchors(path), f"{page.name} links to {target}#{anchor}"
            n_links += 1
    assert n_links > 50


def test_the_index_links_every_page() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "docs" / "index.md").read_text())}
    assert {page.name for page in PAGES} - {"index.md"} <= linked


def test_the_quickstart_finds_the_optimum_and_keeps_the_study(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'quickstart.db'}"
    script = ROOT / "examples" / "quickstart.py"
    out = python(script, "--seed", "0", "--trials", "120", "--storage", storage)
    really = re.search(r"really +([0-9.]+)", out)
    assert really is not None
    assert float(really[1]) < 0.5
    python(script, "--trials", "5", "--storage", storage)
    (study,) = optuna.get_all_study_summaries(storage)
    assert study.n_trials == 125


def test_the_latency_benchmark_prints_its_table() -> None:
    out = python(ROOT / "benchmarks" / "latency.py", "--sizes", "50", "100", "--timed", "5")
    assert re.search(r"\| PCTS \| [0-9.]+ \| [0-9.]+ \|", out)
    assert re.search(r"memory of the sampler at 100: [0-9]+ bytes per trial", out)


def test_the_oldest_optuna_that_is_supported(tmp_path: Path) -> None:
    """The same tests, in an environment of their own."""
    if Version(optuna.__version__) < Version("4.9"):
        pytest.skip("this is already the oldest Optuna")
    venv.create(tmp_path, with_pip=True)
    interpreter = tmp_path / ("Scripts" if os.name == "nt" else "bin") / "python"
    try:
        run(interpreter, "-m", "pip", "install", "optuna==4.8.*", "pytest", "hypothesis", "numpy")
    except AssertionError as error:
        pytest.skip(f"optuna 4.8 could not be installed: {str(error)[-200:]}")
    # They need more.
    left_out = (
        *("project", "workers", "postgres", "baselines", "benchmarks", "paper", "theory"),
        *("browser", "cli", "dashboard", "visualization"),
        *("docker", "faults", "scaleout", "untrusted", "branches", "conditional_benchmark"),
    )
    tests = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not path.stem.removeprefix("test_").startswith(left_out)
    ]
    out = run(interpreter, "-m", "pytest", "-q", *tests, timeout=600, PYTHONPATH=str(ROOT))
    assert re.search(r"\d{3,} passed", out)
    assert "failed" not in out
