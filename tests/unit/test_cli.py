"""The command line."""

from __future__ import annotations

from contextlib import closing
import json
from pathlib import Path
import re
import sqlite3
import subprocess
import sys

from helpers import ROOT
from helpers import run_module
from helpers import study_to_see
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
import pytest

from optuna_pcts import recommend
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._secrets import without_secrets
from optuna_pcts.cli import main


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal file with one study."""
    path = tmp_path_factory.mktemp("cli") / "study.journal"
    study_to_see(40, storage=JournalStorage(JournalFileBackend(str(path))))
    return path


def copy_to(url: str, journal: Path, name: str = "see") -> None:
    source = JournalStorage(JournalFileBackend(str(journal)))
    optuna.copy_study(
        from_study_name="see", from_storage=source, to_storage=url, to_study_name=name
    )


@pytest.fixture(scope="module")
def database(journal: Path) -> str:
    """An SQLite database with two studies."""
    url = f"sqlite:///{journal.parent}/study.db"
    copy_to(url, journal)
    optuna.create_study(study_name="empty", storage=url)
    return url


def test_the_report_has_all_its_parts(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(journal), "see", "--next", "4"]) == 0
    out = capsys.readouterr().out
    headings = [line.split("  ")[0] for line in out.splitlines() if line and line[0] != " "]
    assert headings[1:] == [
        *("Trials", "Tree", "Delays", "Fidelity", "Cost", "In flight", "Stale"),
        *("Recommended", "Best trial", "Next cells"),
    ]
    assert "benign" in out
    assert "tail exponent" in out
    assert "with 95 % probability" in out
    assert out.count("depth") >= 6


def test_the_same_from_each_kind_of_storage(
    journal: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    path = database.removeprefix("sqlite:///")
    for storage in (str(journal), database, path):
        assert main(["report", storage, "see", "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        found.append((data["tree"], data["recommendation"], data["next_cells"], data["in_flight"]))
    assert found[0] == found[1] == found[2]
    assert found[0][0]["n_told"] == 40


def test_it_reads_postgresql(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = pytest.importorskip("examples.postgres.server")
    with server.EmbeddedServer() as running:
        with closing(running.connect()) as connection:
            at = connection.get_dsn_parameters()
        where = f"{at['user']}@/{at['dbname']}?host={at['host']}&port={at['port']}"
        copy_to(f"postgresql+psycopg2://{where}", journal)
        capsys.readouterr()
        # Whatever driver SQLAlchemy takes for the bare name, and under its old name.
        for scheme in ("postgresql+psycopg2", "postgresql", "postgres"):
            assert main(["recommend", f"{scheme}://{where}", "see", "--json"]) == 0
            (answer,) = json.loads(capsys.readouterr().out)
            assert set(answer["params"]) == {"x", "y", "kind"}
        assert main(["report", f"postgresql://{where}", "nope"]) == 1
        assert "It has: see" in capsys.readouterr().err


def test_recommend_prints_the_configurations(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = optuna.load_study(
        study_name="see", storage=JournalStorage(JournalFileBackend(str(journal)))
    )
    expected = recommend(study, top=2)
    assert main(["recommend", str(journal), "--top", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in found] == [one.number for one in expected]
    assert found[0]["params"] == expected[0].params
    assert main(["recommend", str(journal)]) == 0
    assert f"value {expected[0].value:.6g}" in capsys.readouterr().out


def test_the_page_has_all_figures(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(journal), "--html", str(page)]) == 0
    text = page.read_text()
    assert all(f'id="pcts-{name}"' in text for name in INFOS)
    assert capsys.readouterr().out == ""
    assert main(["report", str(journal), "--html", str(tmp_path / "no" / "report.html")]) == 1


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        ("html", b"<"),
        ("json", b"{"),
        ("png", b"\x89PNG"),
        ("svg", b"<?xml"),
        ("pdf", b"%PDF"),
    ],
)
def test_a_figure_is_written_as_its_name_says(
    journal: Path, tmp_path: Path, suffix: str, start: bytes
) -> None:
    output = tmp_path / f"figure.{suffix}"
    command = ["plot", str(journal), "see", "--figure", "partition", "--params", "kind", "x"]
    assert main([*command, "--output", str(output)]) == 0
    assert output.read_bytes().lower().startswith(start.lower())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["report"],
        ["show", "x.db"],
        ["report", "x.db", "s", "--next", "0"],
        ["plot", "x.db", "s", "--figure", "forest", "--output", "x.png"],
        ["plot", "x.db", "s", "--figure", "tree", "--output", "x.gif"],
        ["plot", "x.db", "s", "--figure", "tree"],
    ],
)
def test_invalid_command_lines_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert "usage: optuna-pcts" in capsys.readouterr().err


def test_what_is_missing_is_named_and_not_created(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*arguments: str) -> str:
        assert main(arguments) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    missing = tmp_path / "missing.db"
    for storage in (f"sqlite:///{missing}", str(missing), f"sqlite:///{missing}?timeout=1"):
        assert f"{missing} does not exist" in error("report", storage, "see")
    assert "is a folder" in error("report", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert "in the memory" in error("report", "sqlite://")
    assert "no study `foo`" in (text := error("recommend", database, "foo"))
    assert "It has: empty, see" in text
    assert "name the study: several in" in error("report", database)
    assert "needs a trial that ended" in error("recommend", database, "empty")
    assert "no tree yet" in error(
        "plot", database, "empty", "--figure", "tree", "--output", str(tmp_path / "x.png")
    )


HIDDEN = [
    ("postgresql://me:secret@127.0.0.1:1/x", "me:***@127.0.0.1:1/x"),
    ("postgresql://me:se@cr:et/?# secret@127.0.0.1:1/x", "me:***@127.0.0.1:1/x"),
    ("postgresql://me:s%40cret@127.0.0.1:1/x?sslmode=disable", "***@127.0.0.1:1/x?sslmode"),
    ("postgresql://127.0.0.1:1/x?password=secret&user=me", "x?password=***&user=me"),
    ("postgresql://127.0.0.1:1/x?user=me&sslpassword=s%65cret", "sslpassword=***"),
    ("postgresql://127.0.0.1:1/x?user=me&pass%77ord=secret", "pass%77ord=***"),
    ("postgresql://127.0.0.1:1/x?token=secret&gssencmode=disable", "token=***"),
    ("mysql://me@127.0.0.1/x?passwd=secret&pwd=secret", "passwd=***&pwd=***"),
    ("mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3Dsecret", "odbc_connect=***"),
    ("sqlite+pysqlcipher://:secret@/missing.db", ":***@/missing.db"),
    ("sqlite://?password=secret", "sqlite://?password=***"),
    ("host=127.0.0.1 user=me password=secret dbname=x", "password=*** dbname=x does not exist"),
    ("host=127.0.0.1 password = 'my secret' dbname=x", "password = *** dbname=x does not"),
    ("me:secret@127.0.0.1/x", "me:***@127.0.0.1/x does not exist"),
]


@pytest.mark.parametrize(("storage", "shown"), HIDDEN)
def test_no_password_is_shown(
    storage: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", storage]) == 1
    first = capsys.readouterr().err
    assert shown in first
    with pytest.raises(SystemExit):  # an argument too many
        main(["report", "study.db", "study", storage])
    for text in (first, capsys.readouterr().err):
        assert not re.search("secret|s@cret|s%40cret|s%65cret|cr:et|my s", text)


def test_what_a_driver_repeats_of_a_password_is_not_shown() -> None:
    def said(text: str, of: str) -> str:
        return without_secrets(text, of)

    assert said('no host "ss@here"', "postgresql://me:p@ss@here/x") == 'no host "***@here"'
    assert said("no number: 'a/b'", "postgresql://h/x?password=a%2Fb") == "no number: '***'"
    assert said("not c, it's", r"password='a\' c' host=h") == "not ***, it's"
    for plain in ("sqlite:///study.db", "http://[::1]:5432/x?host=/tmp&port=1", "10:30, a = b"):
        assert without_secrets(plain) == plain


def test_a_file_of_another_kind_is_refused_and_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello\nworld\n")
    assert main(["report", str(text)]) == 1
    assert "neither a journal file nor an SQLite database" in capsys.readouterr().err
    assert text.read_text() == "hello\nworld\n"
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    assert main(["report", str(other)]) == 1
    assert "cannot be read as a storage of Optuna" in capsys.readouterr().err
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    connection.close()
    (tmp_path / "empty.journal").touch()
    assert main(["report", str(tmp_path / "empty.journal")]) == 1
    assert "there is no study in" in capsys.readouterr().err


def test_a_study_without_a_trial_has_a_report(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", database, "empty"]) == 0
    out = capsys.readouterr().out
    assert "Trials     none" in out
    assert "There is no tree yet" in out


def test_the_program_is_installed_and_explains_itself(journal: Path) -> None:
    program = Path(sys.executable).with_name("optuna-pcts")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for word in ("report", "recommend", "plot", "sqlite:///", "postgresql://", "exit status"):
        assert word in done.stdout
    assert "Recommended" in run_module("optuna_pcts", "report", str(journal)).stdout


def test_a_closed_pipe_is_not_reported(journal: Path) -> None:
    command = f"{sys.executable} -m optuna_pcts report {journal} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "Study see (minimize)\n"
    assert done.stderr == ""
