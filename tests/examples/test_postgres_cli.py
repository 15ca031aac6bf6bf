"""The commands, as people start them."""

from __future__ import annotations

from contextlib import closing
import os
from pathlib import Path
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from helpers import ROOT
from helpers import start
import optuna
from optuna.trial import TrialState
import pytest

from examples.postgres.server import EmbeddedServer
from examples.postgres.server import FOLDER_PREFIX


SMALL = ["--scale", "0.02", "--seed", "0"]


def command(*arguments: object, module: str = "examples.postgres") -> list[str]:
    return [sys.executable, "-W", "error::UserWarning", "-m", module, *map(str, arguments)]


def run(
    folder: Path, *arguments: object, module: str = "examples.postgres", code: int = 0
) -> tuple[str, str]:
    """Run a command to its end, and return what it printed."""
    done = subprocess.run(
        command(*arguments, module=module),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def load(folder: Path) -> optuna.Study:
    storage = f"sqlite:///{folder / 'postgres-tuning.db'}"
    return optuna.load_study(study_name="postgres", storage=storage)


def ended(folder: Path) -> list[optuna.trial.FrozenTrial]:
    return [trial for trial in load(folder).trials if trial.state.is_finished()]


def server_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"))


def test_it_tunes_reports_and_resumes(tmp_path: Path) -> None:
    out, _ = run(tmp_path, *SMALL, "--trials", 12, "--in-flight", 4)
    ratio = re.search(r"found [0-9.]+ s: ([0-9.]+) times as fast \(median of 5 pairs", out)
    assert ratio is not None
    assert float(ratio[1]) > 0
    assert "# postgresql.conf\nshared_buffers = '" in out
    report = tmp_path / "postgres-report"
    names = {"report.txt", "found.sql", "found.conf"}
    names |= {"before_after.png", "cost_by_depth.png", "tree.png"}
    assert {path.name for path in report.iterdir()} == names
    assert all(path.stat().st_size > 100 for path in report.iterdir())
    assert (report / "found.sql").read_text() in out
    first = ended(tmp_path)
    assert len(first) == 12

    out, _ = run(tmp_path, *SMALL, "--trials", 16)
    assert "resuming with 12 trials" in out
    assert len(ended(tmp_path)) == 16

    _, err = run(tmp_path, "--scale", "0.01", "--trials", 20, code=1)
    assert "about another workload (shop, scale 0.02; now shop, scale 0.01)" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_cleanly_and_prints_what_was_found(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = server_folders()
    process = start(tmp_path, *command(*SMALL, "--budget", 600))
    deadline = time.monotonic() + 60
    while not _has_trials(tmp_path, 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Interrupted. The same command goes on; this is what was found so far" in out
    assert "-- SQL" in out
    assert "Traceback" not in err
    states = {trial.state for trial in load(tmp_path).trials}
    assert TrialState.RUNNING not in states
    assert TrialState.COMPLETE in states
    assert server_folders() <= before


def _has_trials(folder: Path, n: int) -> bool:
    """Look into the file as it is: Optuna would make the tables that are still missing."""
    uri = f"file:{folder / 'postgres-tuning.db'}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            query = "SELECT count(*) FROM trials WHERE state = 'COMPLETE'"
            return int(connection.execute(query).fetchone()[0]) >= n
    except sqlite3.OperationalError:
        return False


def test_two_at_once_share_a_study(tmp_path: Path) -> None:
    arguments = command("--scale", 0.02, "--trials", 24, "--only", "tune")
    processes = [start(tmp_path, *arguments) for _ in range(2)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert re.search(r"^done: \d+ trials, best [0-9.]+ s$", out, re.MULTILINE)
        assert "times as fast" not in out
    assert 24 <= len(ended(tmp_path)) < 24 + 16
    assert len({trial.number for trial in ended(tmp_path)}) == len(ended(tmp_path))
    n_trials = len(load(tmp_path).trials)
    out, _ = run(tmp_path, "--scale", 0.02, "--only", "report")
    assert "times as fast" in out
    assert len(load(tmp_path).trials) == n_trials


def test_decay_prints_fits_and_a_verdict_of_every_arm(tmp_path: Path) -> None:
    module = "examples.postgres.decay"
    out, _ = run(tmp_path, "--scale", 0.02, "--trials", 20, "--seeds", 1, module=module)
    number = r"-?[0-9.]+"
    interval = rf"{number} \({number} to {number}\)"
    assert len(re.findall(rf"power law h\^-beta: beta {interval}; by seed {number}", out)) == 3
    assert len(re.findall(rf"exponential exp\(-beta h\): beta {interval}", out)) == 3
    assert len(re.findall("^[a-z, ()]+: decay (not )?exhibited", out, re.MULTILINE)) == 3
    n_fitted = [int(n) for n in re.findall(r"Cost of (\d+) trials", out)]
    assert n_fitted.count(20) >= 2  # where fidelity rises, some may end early
    assert len(n_fitted) == 3
    report = tmp_path / "postgres-report"
    assert (report / "decay.txt").read_text() in out
    assert (report / "decay.png").stat().st_size > 1000


def test_compare_prints_a_line_for_every_sampler(tmp_path: Path) -> None:
    arguments = ["--scale", 0.02, "--seeds", 2, "--budget", 1, "--repeats", 1]
    out, _ = run(tmp_path, *arguments, module="examples.postgres.compare")
    assert re.findall(r"^  (\w+) +median [0-9.]+ ", out, re.MULTILINE) == ["pcts", "tpe", "random"]


@pytest.mark.parametrize("module", ["", ".decay", ".compare"])
def test_help_names_the_options(tmp_path: Path, module: str) -> None:
    out, _ = run(tmp_path, "--help", module=f"examples.postgres{module}")
    for option in ("--in-flight", "--scale", "--url", "--i-own-this-server", "--workload"):
        assert option in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budget", "0"], "argument --budget: must be more than 0, but got 0"),
        (["--trials", "0"], "argument --trials: must be at least 1, but got 0"),
        (["--sampler", "x"], "argument --sampler: invalid choice: 'x'"),
        (["--url", "postgresql://a:very-secret@b/c"], "--url needs --i-own-this-server"),
    ],
)
def test_wrong_options_are_explained(tmp_path: Path, arguments: list[str], said: str) -> None:
    out, err = run(tmp_path, *arguments, code=2)
    assert said in err
    assert "very-secret" not in out + err


def test_a_storage_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    storage = "postgresql+psycopg2://who:very-secret@127.0.0.1:1/nothing"
    out, err = run(tmp_path, "--storage", storage, code=1)
    assert err == "The storage cannot be used: OperationalError. Later the same command goes on.\n"
    assert out == ""


def test_a_folder_without_tables_needs_a_server(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1")
    _, err = run(tmp_path, "--workload", tmp_path, code=2)
    assert "a folder without schema.sql needs a server that has the tables" in err


def test_a_query_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE TABLE t (x int)")
    (tmp_path / "q.sql").write_text("SELECT nonsense FROM t")
    _, err = run(tmp_path, "--workload", tmp_path, code=1)
    assert 'The default configuration failed: crashed: column "nonsense" does not exist' in err
    assert "Traceback" not in err


def test_a_server_of_ones_own_is_left_as_it_was_and_no_secret_is_kept(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "days.sql").write_text("SELECT day, count(*) FROM sales GROUP BY day")
    (tmp_path / "branch.sql").write_text("SELECT sum(balance) FROM account WHERE branch = 7")
    (tmp_path / "indexes.txt").write_text("account(branch)\nsales(day)\n")
    url = f"postgresql://postgres:very-secret@/pcts_example?host={server.folder / 'socket'}"
    state = (
        "SELECT (SELECT json_agg(d.datname) FROM pg_database d), (SELECT json_agg(i.indexname)"
        " FROM pg_indexes i), (SELECT json_agg(s.setting ORDER BY s.name) FROM pg_settings s)"
    )
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(state)
        before = cursor.fetchall()
    arguments = ["--workload", tmp_path, "--url", url, "--i-own-this-server", "--trials", 10]
    out, err = run(tmp_path, *arguments)
    assert "times as fast" in out
    assert "shared_buffers" not in out
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(state)
        assert cursor.fetchall() == before
    assert len(ended(tmp_path)) == 10
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 8
    assert "very-secret" not in out + err
    assert not [path for path in files if b"very-secret" in path.read_bytes()]


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    url = "postgresql://who:very-secret@127.0.0.1:1/nothing"
    out, err = run(tmp_path, "--url", url, "--i-own-this-server", code=1)
    assert "does not accept a connection" in err
    assert "very-secret" not in out + err
    assert "who" not in err
    assert "Traceback" not in err


def test_no_password_is_shown(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    out, err = run(
        tmp_path, "--storage", "sqlite:///a.db?password=secret", "--workload", odd, code=1
    )
    assert out == "study: sqlite:///a.db?password=***\n"
    broken = "postgresql://me:a@secret:secret@127.0.0.1/x"  # SQLAlchemy reads a port there
    said = [out, err, *run(tmp_path, "--storage", broken, code=1)]
    said += run(tmp_path, "--url", broken, "--i-own-this-server", code=1)
    said += run(tmp_path, "--url", "me:secret@127.0.0.1", "--i-own-this-server", code=1)
    said += run(tmp_path, "postgresql://me:secret@127.0.0.1/x", code=2)
    assert "***@127.0.0.1" in said[-1]
    assert "secret" not in "".join(said)
    assert "Traceback" not in "".join(said)
