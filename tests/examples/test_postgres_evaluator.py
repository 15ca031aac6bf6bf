"""From configuration to configuration: least cost, right costs, defaults after a failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any

from helpers import ROOT
import pytest

from examples.postgres.database import Connection
from examples.postgres.evaluator import Evaluator
from examples.postgres.evaluator import Measurement
from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import Index
from examples.postgres.knobs import Knobs
from examples.postgres.paired import full_run
from examples.postgres.paired import measure_pairs
from examples.postgres.server import EmbeddedServer


class Script:
    """A workload of one statement, after a step that the test gives."""

    name = "script"
    n_rounds = 2
    makes_tables = False
    indexes = (Index("sales", ("day",)),)

    def __init__(self, statement: str, before: Any = lambda: None) -> None:
        self.statement = statement
        self.before = before

    def load(self, connection: Connection) -> Iterator[float]:
        yield 1.0

    def run(self, connection: Connection, number: int) -> Iterator[str]:
        self.before()
        with connection.cursor() as cursor:
            cursor.execute(self.statement)
            yield "statement"


def script_evaluator(
    server: EmbeddedServer, statement: str, before: Any = lambda: None
) -> Evaluator:
    workload = Script(statement, before)
    return Evaluator(server, workload, Knobs.of(workload.indexes))


def show(evaluator: Evaluator, setting: str) -> str:
    with evaluator._connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", (setting,))
        return str(cursor.fetchall()[0][0])


def existing_indexes(server: EmbeddedServer) -> list[str]:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE 'pcts%' ORDER BY 1")
        return [name for (name,) in cursor.fetchall()]


def assert_defaults(server: EmbeddedServer, evaluator: Evaluator) -> None:
    assert existing_indexes(server) == []
    assert show(evaluator, "shared_buffers") == "128MB"
    assert show(evaluator, "work_mem") == "4MB"
    assert show(evaluator, "statement_timeout") == "0"


def test_only_what_differs_is_changed(server: EmbeddedServer, evaluator: Evaluator) -> None:
    first = {
        **evaluator.knobs.defaults,
        "index sales(day)": True,
        "shared_buffers_log2_mb": 6,
        "work_mem_mb": 16,
    }
    evaluator.apply(first)
    assert existing_indexes(server) == ["pcts_sales_day"]
    assert show(evaluator, "shared_buffers") == "64MB"
    assert show(evaluator, "work_mem") == "16MB"
    assert (evaluator.n_builds, evaluator.n_restarts) == (1, 1)
    pid = server.pid
    evaluator.apply({**first, "work_mem_mb": 1, "random_page_cost": 1.5})
    assert show(evaluator, "work_mem") == "1MB"
    assert show(evaluator, "random_page_cost") == "1.5"
    evaluator.apply({**first, "index returns(sale)": True})
    assert show(evaluator, "random_page_cost") == "4"  # of the configuration before
    assert existing_indexes(server) == ["pcts_returns_sale", "pcts_sales_day"]
    assert server.pid == pid
    assert (evaluator.n_builds, evaluator.n_restarts) == (2, 1)
    evaluator.apply(evaluator.knobs.defaults)
    assert_defaults(server, evaluator)


def test_rounds_add_up_and_the_change_is_counted_apart(evaluator: Evaluator) -> None:
    steps = []
    for measurement in evaluator.measure({**evaluator.knobs.defaults, "index sales(day)": True}):
        steps.append((measurement.n_done, measurement.query_seconds, measurement.estimate))
    assert [step for step, *_ in steps] == [1, 2, 3, 4]
    assert steps[0][2] == pytest.approx(4 * steps[0][1])
    assert steps[-1][2] == pytest.approx(steps[-1][1])
    assert measurement.reconfiguration_seconds > 0
    assert len(measurement.by_query) == 10
    again = full_run(evaluator, {**evaluator.knobs.defaults, "index sales(day)": True})
    assert again.reconfiguration_seconds < measurement.reconfiguration_seconds / 2


def test_changes_are_calibrated_and_the_defaults_restored(
    server: EmbeddedServer, evaluator: Evaluator
) -> None:
    evaluator.calibrate()
    costs = evaluator.change_costs
    light = max(costs["work_mem_mb"], costs["random_page_cost"])
    assert 0 < light < costs["shared_buffers_log2_mb"] / 5
    assert light < costs["index sales(product, day)"]
    assert existing_indexes(server) == []


def test_neighbours_share_restarts_and_indexes(evaluator: Evaluator) -> None:
    evaluator.change_costs = {knob.name: 0.0 for knob in evaluator.knobs}
    evaluator.change_costs["index sales(day)"] = 1.0
    evaluator.change_costs["shared_buffers_log2_mb"] = 0.5
    defaults = evaluator.knobs.defaults
    configurations = [
        {**defaults, "index sales(day)": day, "shared_buffers_log2_mb": size, "work_mem_mb": work}
        for work in (1, 2)
        for day in (True, False)
        for size in (6, None)
    ]
    builds, restarts = evaluator.n_builds, evaluator.n_restarts
    while configurations:
        nearest = min(configurations, key=evaluator.switch_cost)
        evaluator.apply(nearest)
        assert evaluator.switch_cost(nearest) == 0
        configurations.remove(nearest)
    assert evaluator.n_builds - builds == 1
    assert evaluator.n_restarts - restarts == 2


def test_a_value_that_the_server_refuses(server: EmbeddedServer, evaluator: Evaluator) -> None:
    bad = {**evaluator.knobs.defaults, "index sales(day)": True, "shared_buffers_log2_mb": 50}
    with pytest.raises(ConfigError) as caught:
        evaluator.apply(bad)
    assert caught.value.kind is Kind.REFUSED
    evaluator.recover()
    assert_defaults(server, evaluator)
    with pytest.raises(ConfigError, match="work_mem") as caught:
        evaluator.apply({**evaluator.knobs.defaults, "work_mem_mb": "banana"})
    assert caught.value.kind is Kind.REFUSED
    evaluator.recover()
    assert full_run(evaluator, evaluator.knobs.defaults).n_done == 4


def test_a_statement_that_takes_too_long(server: EmbeddedServer) -> None:
    evaluator = script_evaluator(server, "SELECT pg_sleep(30)")
    evaluator.limit = 0.2
    with pytest.raises(ConfigError, match="timeout") as caught:
        full_run(evaluator, evaluator.knobs.defaults)
    assert caught.value.kind is Kind.TIMED_OUT
    evaluator.recover()
    assert_defaults(server, evaluator)
    evaluator.close()


def test_many_short_statements_that_take_too_long_together(server: EmbeddedServer) -> None:
    evaluator = script_evaluator(server, "SELECT pg_sleep(0.15)")
    evaluator.limit = 0.1
    with pytest.raises(ConfigError) as caught:
        full_run(evaluator, evaluator.knobs.defaults)
    assert caught.value.kind is Kind.TIMED_OUT
    evaluator.recover()
    evaluator.close()


def test_a_killed_backend(server: EmbeddedServer) -> None:
    def kill() -> None:
        os.kill(evaluator._connection.info.backend_pid, signal.SIGKILL)

    evaluator = script_evaluator(server, "SELECT 1", kill)
    configuration = {**evaluator.knobs.defaults, "index sales(day)": True, "work_mem_mb": 16}
    with pytest.raises(ConfigError) as caught:
        full_run(evaluator, configuration)
    assert caught.value.kind is Kind.CRASHED
    evaluator.recover()
    assert_defaults(server, evaluator)
    evaluator.workload.before = lambda: None  # type: ignore[attr-defined]
    assert full_run(evaluator, configuration).n_done == 2
    assert show(evaluator, "work_mem") == "16MB"  # session settings are applied anew
    evaluator.close()


def test_a_killed_server(server: EmbeddedServer) -> None:
    def kill() -> None:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        os.kill(evaluator._connection.info.backend_pid, signal.SIGKILL)

    evaluator = script_evaluator(server, "SELECT 1", kill)
    with pytest.raises(ConfigError) as caught:
        full_run(evaluator, {**evaluator.knobs.defaults, "shared_buffers_log2_mb": 6})
    assert caught.value.kind is Kind.CRASHED
    evaluator.recover()
    assert_defaults(server, evaluator)
    evaluator.close()


def test_a_server_that_does_not_come_back(
    server: EmbeddedServer, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = server.folder / "data" / "postgresql.conf"
    text = conf.read_text()
    conf.write_text(text + "nonsense = 1\n")
    with pytest.raises(ServerLostError, match="unrecognized configuration parameter"):
        evaluator.recover()
    conf.write_text(text)
    evaluator.recover()
    assert_defaults(server, evaluator)


def test_an_index_that_others_made_is_never_dropped(server: EmbeddedServer) -> None:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE INDEX pcts_sales_day ON sales (day)")
        with pytest.raises(ValueError, match="already has the indexes"):
            script_evaluator(server, "SELECT 1")
        assert existing_indexes(server) == ["pcts_sales_day"]
        cursor.execute("DROP INDEX pcts_sales_day")


def test_pairs_alternate(evaluator: Evaluator) -> None:
    runs = []
    found = {**evaluator.knobs.defaults, "index sales(day)": True}
    paired = measure_pairs(evaluator, found, n_pairs=2, on_run=lambda: runs.append(1))
    assert len(runs) == 4
    assert len(paired.ratios) == 2
    assert min(paired.ratios) <= paired.ratio <= max(paired.ratios)
    assert f"{paired.ratio:.2f} times as fast (median of 2 pairs" in str(paired)


def test_the_estimate_is_for_the_whole_workload() -> None:
    measurement = Measurement(n_rounds=10, reconfiguration_seconds=1.0)
    measurement.add({"a": 0.5, "b": 1.0})
    measurement.add({"a": 0.5, "b": 2.0})
    assert measurement.query_seconds == 4.0
    assert measurement.estimate == 20.0


# ------------------------------------------------------------------ no room


def tmpfs(size: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pcts-small-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    try:
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("only root may mount a small file system")
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    yield from tmpfs("300m")


def test_a_full_disk(small_disk: Path) -> None:
    with EmbeddedServer(parent=small_disk) as server:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE sales AS SELECT day FROM generate_series(1, 200000) day")
        evaluator = script_evaluator(server, "SELECT 1")
        filler = small_disk / "filler"
        free = shutil.disk_usage(small_disk).free
        filler.write_bytes(bytes(free - 2 * 2**20))
        with pytest.raises(ConfigError, match="No space left on device") as caught:
            full_run(evaluator, {**evaluator.knobs.defaults, "index sales(day)": True})
        assert caught.value.kind is Kind.CRASHED
        filler.unlink()
        evaluator.recover()
        assert_defaults(server, evaluator)
        assert full_run(evaluator, evaluator.knobs.defaults).n_done == 2
        evaluator.close()


TINY_SHARED_MEMORY = """
from contextlib import closing
from examples.postgres.failure import ConfigError
from examples.postgres.paired import full_run
from examples.postgres.server import EmbeddedServer
from test_postgres_evaluator import script_evaluator
query = '''SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*) FROM sales a JOIN sales b USING (day)'''
with EmbeddedServer() as server:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE sales AS SELECT day FROM generate_series(1, 300000) day")
        cursor.execute("ANALYZE sales")
    evaluator = script_evaluator(server, query)
    parallel = {**evaluator.knobs.defaults, "work_mem_mb": 64}
    try:
        full_run(evaluator, {**parallel, "max_parallel_workers_per_gather": 2})
    except ConfigError as error:
        print(error.kind.value, error.reason)
    evaluator.recover()
    full_run(evaluator, {**parallel, "max_parallel_workers_per_gather": 0})
    print("goes on")
"""


def test_a_tiny_dev_shm(tmp_path: Path) -> None:
    mount = "mount -t tmpfs -o size=4m tmpfs /dev/shm"
    if (
        os.geteuid() != 0
        or shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode
    ):
        pytest.skip("only root may give a process a small /dev/shm")
    script = tmp_path / "script.py"
    script.write_text(TINY_SHARED_MEMORY)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && exec '{sys.executable}' '{script}'"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{Path(__file__).parent}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "crashed could not resize shared memory segment" in done.stdout
    assert "goes on" in done.stdout
