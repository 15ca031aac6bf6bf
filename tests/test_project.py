"""The project around the package: style, types, examples, README, versions of Optuna."""

from __future__ import annotations

import ast
import os
from pathlib import Path
import re
import subprocess
import sys
import venv

import optuna
from packaging.version import Version
import pytest

import optuna_pcts


ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def run(*command: str | Path, timeout: float = 300, **environment: str) -> str:
    """Run a command in the root of the project; fail the test if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(*arguments: str | Path, timeout: float = 300) -> str:
    return run(sys.executable, *arguments, timeout=timeout)


def test_ruff_finds_nothing() -> None:
    python("-m", "ruff", "check", ".")
    python("-m", "ruff", "format", "--check", ".")


def test_mypy_finds_nothing() -> None:
    assert "no issues found" in python("-m", "mypy")


def test_the_core_imports_optuna_and_numpy_alone() -> None:
    allowed = {"optuna", "numpy", "optuna_pcts"} | sys.stdlib_module_names
    for path in (ROOT / "optuna_pcts").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_the_public_names_are_all_there() -> None:
    for name in optuna_pcts.__all__:
        assert getattr(optuna_pcts, name).__doc__, name


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^(python3 -m venv .*)$", README, flags=re.MULTILINE)
    assert len(commands) == 3
    assert [c for c in commands if "pytest" in c] == [
        (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    ]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_the_code_of_the_readme_runs(block: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block)
    python(script)


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
    left_out = ("project", "workers", "postgres", "baselines", "benchmarks", "paper", "theory")
    tests = [
        path
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if not path.stem.removeprefix("test_").startswith(left_out)
    ]
    out = run(interpreter, "-m", "pytest", "-q", *tests, timeout=600, PYTHONPATH=str(ROOT))
    assert re.search(r"\d{3,} passed", out)
    assert "failed" not in out
