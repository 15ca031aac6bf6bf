"""Knobs and workloads: units, quoting, folders."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from examples.postgres.knobs import Cost
from examples.postgres.knobs import Index
from examples.postgres.knobs import Knobs
from examples.postgres.server import EmbeddedServer
from examples.postgres.workload import find_workload
from examples.postgres.workload import parse_index
from examples.postgres.workload import Shop
from examples.postgres.workload import SqlFolder


INDEXES = [Index("sales", ("product", "day")), Index("account", ("branch",))]


def test_values_have_units_that_the_server_reads(server: EmbeddedServer) -> None:
    knobs = Knobs.of(INDEXES, durability=True)
    for choose in (min, max):
        configuration = {
            knob.name: choose(getattr(knob.distribution, "choices", ()), default=None)
            or (knob.distribution.low if choose is min else knob.distribution.high)  # type: ignore[attr-defined]
            for knob in knobs
            if knob.index is None
        }
        settings = {
            **knobs.settings(configuration, Cost.RESTART),
            **knobs.settings(configuration, Cost.SESSION),
        }
        assert len(settings) == len(knobs) - len(INDEXES)
        server.restart(settings)
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW work_mem")
            assert cursor.fetchall() == [("1MB" if choose is min else "128MB",)]
            cursor.execute("SHOW wal_buffers")
            assert cursor.fetchall() == [("64kB" if choose is min else "16MB",)]
    server.reset()


def test_no_knob_risks_the_database() -> None:
    names = {knob.setting for knob in Knobs.of(INDEXES, durability=True)}
    assert not names & {"fsync", "full_page_writes"}
    assert "synchronous_commit" in names
    assert "synchronous_commit" not in {knob.setting for knob in Knobs.of(INDEXES)}


def test_without_restarts_there_are_no_restart_knobs() -> None:
    assert {knob.cost for knob in Knobs.of(INDEXES, can_restart=False)} == {
        Cost.INDEX,
        Cost.SESSION,
    }


def test_a_configuration_as_sql_and_as_conf(server: EmbeddedServer) -> None:
    knobs = Knobs.of(INDEXES)
    configuration = {
        **knobs.defaults,
        "index account(branch)": True,
        "shared_buffers_log2_mb": 8,
        "work_mem_mb": 16,
        "random_page_cost": 1.25,
    }
    with closing(server.connect()) as connection:
        assert knobs.as_sql(configuration, connection).splitlines() == [
            'CREATE INDEX "pcts_account_branch" ON "account" ("branch");',
            "ALTER SYSTEM SET \"shared_buffers\" = '256MB';",
            "ALTER SYSTEM SET \"work_mem\" = '16MB';",
            "ALTER SYSTEM SET \"random_page_cost\" = '1.25';",
        ]
    assert knobs.as_conf(configuration).splitlines() == [
        "shared_buffers = '256MB'  # needs a restart",
        "work_mem = '16MB'",
        "random_page_cost = '1.25'",
    ]


def test_identifiers_are_quoted(server: EmbeddedServer) -> None:
    table, column = 'my"table; DROP TABLE sales; --', 'a "b"'
    index = Index(table, (column,))
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE "my""table; DROP TABLE sales; --" ("a ""b""" int)')
        cursor.execute(index.create())
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'pcts_my%'")
        assert cursor.fetchall() == [(1,)]
        cursor.execute(index.drop())
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'pcts_my%'")
        assert cursor.fetchall() == [(0,)]
        cursor.execute("SELECT count(*) > 0 FROM sales")
        assert cursor.fetchall() == [(True,)]
        cursor.execute('DROP TABLE "my""table; DROP TABLE sales; --"')


def test_a_table_may_have_a_schema(server: EmbeddedServer) -> None:
    index = Index("other.things", ("x",))
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA other; CREATE TABLE other.things (x int)")
        cursor.execute(index.create())
        cursor.execute(index.drop())
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE schemaname = 'other'")
        assert cursor.fetchall() == [(0,)]
        cursor.execute("DROP SCHEMA other CASCADE")


def test_long_names_of_indexes_stay_apart(server: EmbeddedServer) -> None:
    columns = [("a" * 60, "b"), ("a" * 60, "c")]
    first, second = (Index("sales", pair) for pair in columns)
    assert first.name != second.name
    assert len(first.name) <= 63


def test_a_round_has_every_query_and_the_same_values_each_time(server: EmbeddedServer) -> None:
    shop = Shop(scale=0.02)
    with closing(server.connect()) as connection:
        names = list(shop.run(connection, 0))
        assert names == list(shop.run(connection, 7))
    assert len(names) == len(set(names)) == 10


def test_a_folder_of_sql_files(server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("CREATE TABLE own (x int); INSERT INTO own VALUES (1)")
    (tmp_path / "a query.sql").write_text("SELECT * FROM own WHERE x::text LIKE '%1%'")
    (tmp_path / "a change.sql").write_text("DELETE FROM own")
    (tmp_path / "indexes.txt").write_text("own(x)\n\n")
    folder = find_workload(str(tmp_path), 1.0)
    assert isinstance(folder, SqlFolder)
    assert folder.makes_tables
    assert folder.indexes == [Index("own", ("x",))]
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        assert list(folder.load(connection)) == [1.0]
        assert list(folder.run(connection, 0)) == ["a change", "a query"]
        cursor.execute("SELECT count(*) FROM own")
        assert cursor.fetchall() == [(1,)]  # the change was rolled back
        cursor.execute("DROP TABLE own")


def test_invalid_workloads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no query \(\*\.sql\)"):
        find_workload(str(tmp_path), 1.0)
    with pytest.raises(ValueError, match="module:Class"):
        find_workload("nothing", 1.0)
    with pytest.raises(ValueError, match="must be positive, but got -1"):
        find_workload("shop", -1.0)
    assert isinstance(find_workload("examples.postgres.workload:Shop", 1.0), Shop)


@pytest.mark.parametrize("text", ["orders", "orders()", "orders(a) x", "(a)"])
def test_invalid_indexes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"written `table\(column, ...\)`"):
        parse_index(text)


def test_an_index_is_read() -> None:
    assert parse_index(" shop.orders ( customer, day ) ") == Index(
        "shop.orders", ("customer", "day")
    )
