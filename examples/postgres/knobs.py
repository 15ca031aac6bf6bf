"""The parameters to tune, their units, and configurations as text.

Three kinds of knobs differ in the cost of a change: an index has to be built, a restart setting
needs a restart of the server, a session setting is one statement. ``fsync`` and
``full_page_writes`` must never be added: without them a power failure may destroy the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
import enum
import os
from pathlib import Path
from typing import Any
import zlib

from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from psycopg2 import sql

from examples.postgres.database import Connection


# The names of parameters with their values, as Optuna has them. None is a setting left as it is
# on the server, so that "the default" means the same on every server.
Configuration = Mapping[str, Any]

# Only indexes with this prefix are ever created or dropped.
INDEX_PREFIX = "pcts_"
_MAX_NAME = 63  # bytes of an identifier


class Cost(enum.Enum):
    """What it takes to change a knob."""

    INDEX = "index"
    RESTART = "restart"
    SESSION = "session"


@dataclass(frozen=True)
class Index:
    """An index that may or may not be there: a candidate of the workload."""

    table: str
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in the database."""
        name = INDEX_PREFIX + "_".join((self.table, *self.columns))
        if len(name.encode()) <= _MAX_NAME:
            return name
        # The server would cut it off, and two indexes might then have one name.
        mark = f"_{zlib.crc32(name.encode()):08x}"
        return name.encode()[: _MAX_NAME - len(mark)].decode(errors="ignore") + mark

    def __str__(self) -> str:
        return f"{self.table}({', '.join(self.columns)})"

    def create(self) -> sql.Composable:
        """Return the statement that creates it."""
        return sql.SQL("CREATE INDEX {} ON {} ({})").format(
            sql.Identifier(self.name),
            sql.Identifier(*self.table.split(".")),
            sql.SQL(", ").join(map(sql.Identifier, self.columns)),
        )

    def drop(self) -> sql.Composable:
        """Return the statement that drops it."""
        schema = self.table.split(".")[:-1]
        return sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(*schema, self.name))


@dataclass(frozen=True)
class Knob:
    """One parameter of the search.

    Attributes:
        name:
            Its name as an Optuna parameter.
        cost:
            What it takes to change it.
        distribution:
            The values to try.
        setting:
            The server's name of it; empty for an index.
        unit:
            The unit of its values in the server's notation.
        is_log2:
            Whether the parameter is the base 2 logarithm of the value. Few values, far apart,
            let many configurations share one restart.
        index:
            The index that it switches.
    """

    name: str
    cost: Cost
    distribution: BaseDistribution
    setting: str = ""
    unit: str = ""
    is_log2: bool = False
    index: Index | None = None

    def text(self, value: Any) -> str:
        """Return a value as the server reads it, with its unit."""
        if self.is_log2:
            value = 2**value
        return f"{value:.4g}" if isinstance(value, float) else f"{value}{self.unit}"


def conf_line(name: str, text: str) -> str:
    """Return a setting as a line of postgresql.conf, whatever its text is."""
    # In quotes a backslash begins an escape, and a line cannot go on on the next one.
    quoted = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"{name} = '{quoted}'"


def memory_mb() -> int:
    """Return the memory that there is for the server: the machine's, or the container's."""
    amount = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of cgroups 2 and 1
        limit = Path("/sys/fs/cgroup") / name
        if limit.is_file() and (text := limit.read_text().strip()).isdigit():
            amount = min(amount, int(text))
    return amount // 2**20


class Knobs:
    """All knobs of one search, and the ways to write a configuration of them."""

    def __init__(self, knobs: Sequence[Knob]) -> None:
        self._knobs = {knob.name: knob for knob in knobs}

    @classmethod
    def of(
        cls, indexes: Sequence[Index], *, can_restart: bool = True, durability: bool = False
    ) -> Knobs:
        """Return the knobs for a workload.

        Args:
            indexes:
                The workload's candidates.
            can_restart:
                Whether the server may be restarted.
            durability:
                Whether the last transactions may be lost in a crash, for speed.
        """
        # The tree evaluates the centres of its cells, and of two choices that is the latter: the
        # search starts without indexes, as the server does, and has to find out which it needs.
        off_on = CategoricalDistribution([True, False])
        knobs = [Knob(f"index {i}", Cost.INDEX, off_on, index=i) for i in indexes]
        if can_restart:
            knobs += _restart_knobs()
        knobs += _session_knobs()
        if durability:
            choices = CategoricalDistribution(["on", "off"])
            knobs.append(Knob("synchronous_commit", Cost.SESSION, choices, "synchronous_commit"))
        return cls(knobs)

    def __iter__(self) -> Iterator[Knob]:
        return iter(self._knobs.values())

    def __len__(self) -> int:
        return len(self._knobs)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The search space."""
        return {knob.name: knob.distribution for knob in self}

    @property
    def defaults(self) -> dict[str, Any]:
        """The configuration of an untouched server."""
        return {knob.name: False if knob.index else None for knob in self}

    def changes(self, old: Configuration, new: Configuration) -> list[Knob]:
        """Return the knobs in which two configurations differ."""
        return [knob for knob in self if old[knob.name] != new[knob.name]]

    def settings(self, configuration: Configuration, cost: Cost) -> dict[str, str]:
        """Return the settings of one kind as the server reads them."""
        return {
            knob.setting: knob.text(configuration[knob.name])
            for knob in self
            if knob.cost is cost and configuration[knob.name] is not None
        }

    def indexes(self, configuration: Configuration) -> list[Index]:
        """Return the indexes that a configuration has."""
        return [k.index for k in self if k.index is not None and configuration[k.name]]

    def as_sql(self, configuration: Configuration, connection: Connection) -> str:
        """Return the statements that bring any server to a configuration."""
        statements = [index.create() for index in self.indexes(configuration)]
        for cost in (Cost.RESTART, Cost.SESSION):
            statements += [
                sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(text))
                for name, text in self.settings(configuration, cost).items()
            ]
        return "".join(f"{statement.as_string(connection)};\n" for statement in statements)

    def as_conf(self, configuration: Configuration) -> str:
        """Return a fragment of postgresql.conf."""
        lines = [
            f"{conf_line(name, text)}{'  # needs a restart' if cost is Cost.RESTART else ''}\n"
            for cost in (Cost.RESTART, Cost.SESSION)
            for name, text in self.settings(configuration, cost).items()
        ]
        return "".join(lines)


def _restart_knobs() -> list[Knob]:
    # A quarter of the memory is what PostgreSQL's manual advises at most.
    largest = max(8, (memory_mb() // 4).bit_length() - 1)
    return [
        Knob(
            "shared_buffers_log2_mb",
            Cost.RESTART,
            IntDistribution(5, min(largest, 12)),
            "shared_buffers",
            "MB",
            is_log2=True,
        ),
        Knob(
            "wal_buffers_log2_kb",
            Cost.RESTART,
            IntDistribution(6, 14, step=2),
            "wal_buffers",
            "kB",
            is_log2=True,
        ),
    ]


def _session_knobs() -> list[Knob]:
    def session(setting: str, distribution: BaseDistribution, unit: str = "") -> Knob:
        name = f"{setting}_{unit.lower()}" if unit else setting
        return Knob(name, Cost.SESSION, distribution, setting, unit)

    return [
        session("work_mem", IntDistribution(1, 128, log=True), "MB"),
        session("random_page_cost", FloatDistribution(1.0, 6.0, log=True)),
        session("max_parallel_workers_per_gather", IntDistribution(0, 2)),
        session("effective_cache_size", IntDistribution(64, 8192, log=True), "MB"),
        session("hash_mem_multiplier", FloatDistribution(1.0, 8.0)),
    ]
