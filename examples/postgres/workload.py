"""What is measured: tables, candidates for indexes, and rounds of queries.

A workload is a number of rounds. Each round runs every query once, with other values, so that the
first rounds are a representative sample: the fidelity of a measurement is the share of the rounds
that were run.

Write your own as a class with the attributes of :class:`Workload`, or as a folder of .sql files.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import date
from datetime import timedelta
import importlib
from pathlib import Path
import random
import re
from typing import Any
from typing import Protocol

from examples.postgres.database import Connection
from examples.postgres.knobs import Index


_FIRST_DAY = date(2020, 1, 1)


class Workload(Protocol):
    """A workload: implement this for your own queries."""

    name: str  # a study is resumed only with a workload of the same name
    n_rounds: int
    makes_tables: bool  # whether `load` makes the tables, in a database made for it

    @property
    def indexes(self) -> Sequence[Index]:
        """Candidates for indexes: each becomes a knob."""
        ...

    def load(self, connection: Connection) -> Iterator[float]:
        """Create and fill the tables; yield the share that is done, up to 1."""
        ...

    def run(self, connection: Connection, number: int) -> Iterator[str]:
        """Run a round, and yield the name of each query when its result has been read.

        Rounds count from 0; one more, number ``n_rounds``, is run to warm up and not measured.
        """
        ...


class Shop:
    """Sales of a shop: reports over a large table, look-ups, and small transactions.

    Args:
        scale:
            Size of the tables; 1 is 400,000 sales, about 50 MB.
        n_rounds:
            Number of rounds.
        seed:
            Seed of the values that the queries ask for.
    """

    indexes = (
        Index("sales", ("product", "day")),
        Index("sales", ("customer", "day")),
        Index("sales", ("day",)),
        Index("returns", ("sale",)),
        Index("account", ("branch",)),
    )
    makes_tables = True

    _N_TRANSACTIONS = 2  # in a round

    # The tables in the order in which they are filled, with their rows at scale 1.
    _TABLES: Mapping[str, tuple[int, str, str]] = {
        "customer": (
            8_000,
            "CREATE TABLE customer (id int PRIMARY KEY, region int, segment text)",
            "SELECT i, i %% 50, 'segment ' || i %% 7 FROM generate_series(%(a)s, %(b)s) i",
        ),
        "product": (
            2_000,
            "CREATE TABLE product (id int PRIMARY KEY, category int, price float8)",
            "SELECT i, i %% 40, 1 + i %% 97 FROM generate_series(%(a)s, %(b)s) i",
        ),
        "store": (
            80,
            "CREATE TABLE store (id int PRIMARY KEY, city text)",
            "SELECT i, 'city ' || i %% 60 FROM generate_series(%(a)s, %(b)s) i",
        ),
        "sales": (
            400_000,
            "CREATE TABLE sales (id int PRIMARY KEY, product int, customer int, store int,"
            " day date, quantity int, amount float8, note text)",
            "SELECT i, 1 + floor(random() ^ 2 * %(products)s)::int,"
            " 1 + floor(random() * %(customers)s)::int, 1 + floor(random() * %(stores)s)::int,"
            " date '2020-01-01' + floor(random() * 1460)::int, 1 + i %% 5, random() * 500,"
            " repeat('x', 30) FROM generate_series(%(a)s, %(b)s) i",
        ),
        "returns": (
            80_000,
            "CREATE TABLE returns (id int PRIMARY KEY, sale int, day date, reason int)",
            "SELECT i, 1 + floor(random() * %(sales)s)::int,"
            " date '2020-01-01' + floor(random() * 1460)::int, i %% 9"
            " FROM generate_series(%(a)s, %(b)s) i",
        ),
        "account": (
            40_000,
            # Half-filled pages, so that updates find room beside the old row: the table is as
            # large and as fast after a hundred trials as before.
            "CREATE TABLE account (id int PRIMARY KEY, branch int, balance float8)"
            " WITH (fillfactor = 50)",
            "SELECT i, i %% 1000, 0 FROM generate_series(%(a)s, %(b)s) i",
        ),
    }

    _QUERIES: Mapping[str, str] = {
        "product history": (
            "SELECT day, sum(amount) FROM sales WHERE product = %(product)s"
            " AND day BETWEEN %(day)s AND %(day)s + 90 GROUP BY day ORDER BY day"
        ),
        "customer history": (
            "SELECT id, day, amount FROM sales WHERE customer = %(customer)s"
            " ORDER BY day DESC LIMIT 20"
        ),
        "sales of a day": (
            "SELECT p.category, count(*), sum(s.amount) FROM sales s"
            " JOIN product p ON p.id = s.product WHERE s.day = %(day)s GROUP BY p.category"
        ),
        "returns of a customer": (
            "SELECT r.reason, count(*) FROM sales s JOIN returns r ON r.sale = s.id"
            " WHERE s.customer = %(customer)s GROUP BY r.reason"
        ),
        "returns of a product": (
            "SELECT s.store, count(*) FROM sales s JOIN returns r ON r.sale = s.id"
            " WHERE s.product = %(product)s AND s.day >= %(day)s GROUP BY s.store"
        ),
        "balance of a branch": "SELECT sum(balance) FROM account WHERE branch = %(branch)s",
        "returns of a week": (
            "SELECT r.reason, count(*), sum(s.amount) FROM sales s JOIN returns r ON r.sale = s.id"
            " WHERE s.day BETWEEN %(day)s AND %(day)s + 6 GROUP BY r.reason"
        ),
        "customers of a fortnight": (
            "SELECT c.region, count(*), sum(t.amount) FROM (SELECT customer, product,"
            " sum(amount) AS amount FROM sales WHERE day BETWEEN %(day)s AND %(day)s + 13"
            " GROUP BY customer, product) t JOIN customer c ON c.id = t.customer"
            " GROUP BY c.region"
        ),
        "best sales of a fortnight": (
            "SELECT store, max(note) FROM (SELECT store, note, row_number() OVER"
            " (PARTITION BY store ORDER BY amount DESC, note) AS place FROM sales"
            " WHERE day BETWEEN %(day)s AND %(day)s + 13) t WHERE place <= 3 GROUP BY store"
        ),
    }

    def __init__(self, *, scale: float = 1.0, n_rounds: int = 20, seed: int = 0) -> None:
        if scale <= 0:
            raise ValueError(f"`scale` must be positive, but got {scale!r}.")
        self.name = f"shop, scale {scale:g}"
        self.n_rounds = n_rounds
        self._seed = seed
        self._rows = {table: max(int(n * scale), 1) for table, (n, *_) in self._TABLES.items()}

    def load(self, connection: Connection) -> Iterator[float]:
        total, done = sum(self._rows.values()), 0
        known = {
            "products": self._rows["product"],
            "customers": self._rows["customer"],
            "stores": self._rows["store"],
            "sales": self._rows["sales"],
        }
        with connection.cursor() as cursor:
            cursor.execute("SELECT setseed(0.5)")
            for table, (_, create, select) in self._TABLES.items():
                cursor.execute(create)
                for start in range(0, self._rows[table], 100_000):
                    end = min(start + 100_000, self._rows[table])
                    cursor.execute(
                        f"INSERT INTO {table} {select}", {"a": start + 1, "b": end, **known}
                    )
                    done += end - start
                    yield 0.95 * done / total
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")
        yield 1.0

    def run(self, connection: Connection, number: int) -> Iterator[str]:
        rng = random.Random(f"{self._seed} {number}")  # the same values for every configuration
        with connection.cursor() as cursor:
            for name, query in self._QUERIES.items():
                cursor.execute(query, self._values(rng))
                cursor.fetchall()
                yield name
            for _ in range(self._N_TRANSACTIONS):
                values = self._values(rng)
                cursor.execute("BEGIN")
                cursor.execute(
                    "UPDATE account SET balance = balance + 1 WHERE id = %(account)s", values
                )
                cursor.execute("SELECT balance FROM account WHERE id = %(account)s", values)
                cursor.fetchall()
                cursor.execute("COMMIT")
            yield "transactions"

    def _values(self, rng: random.Random) -> dict[str, Any]:
        return {
            "product": 1 + int(rng.random() ** 2 * self._rows["product"]),
            "customer": 1 + rng.randrange(self._rows["customer"]),
            "account": 1 + rng.randrange(self._rows["account"]),
            "branch": rng.randrange(1000),
            "day": _FIRST_DAY + timedelta(days=rng.randrange(1370)),
        }


class SqlFolder:
    """A folder of .sql files: each file is a query.

    Every query runs in a transaction of its own that is rolled back. Two names are special:

    - ``schema.sql``, if there is one, makes the tables, in a database made for it; otherwise the
      queries run in the database that the URL names;
    - ``indexes.txt`` has one candidate per line, such as ``orders(customer, day)``.

    Args:
        folder:
            The folder.
        n_rounds:
            Number of rounds.
    """

    def __init__(self, folder: Path, *, n_rounds: int = 20) -> None:
        files = sorted(p for p in folder.glob("*.sql") if p.name != "schema.sql")
        if not files:
            raise ValueError(f"There is no query (*.sql) in the folder {folder}.")
        self.name = f"folder {folder.resolve().name}"
        self.n_rounds = n_rounds
        self._queries = {path.stem: path.read_text() for path in files}
        self._schema = folder / "schema.sql"
        self.makes_tables = self._schema.is_file()
        candidates = folder / "indexes.txt"
        lines = candidates.read_text().splitlines() if candidates.is_file() else []
        self.indexes = [parse_index(line) for line in lines if line.strip()]

    def load(self, connection: Connection) -> Iterator[float]:
        if self.makes_tables:
            with connection.cursor() as cursor:
                cursor.execute(self._schema.read_text())
                cursor.execute("VACUUM ANALYZE")
        yield 1.0

    def run(self, connection: Connection, number: int) -> Iterator[str]:
        with connection.cursor() as cursor:
            for name, query in self._queries.items():
                cursor.execute("BEGIN")
                cursor.execute(query)
                if cursor.description is not None:
                    cursor.fetchall()
                cursor.execute("ROLLBACK")
                yield name


def find_workload(name: str, scale: float) -> Workload:
    """Return a workload by its name.

    Args:
        name:
            ``shop``, a folder of .sql files, or ``module:Class`` of your own.
        scale:
            Size of the shop.
    """
    if name == "shop":
        return Shop(scale=scale)
    if Path(name).is_dir():
        return SqlFolder(Path(name))
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(
            f"A workload is `shop`, a folder of .sql files or `module:Class`, but got {name!r}."
        )
    workload: Workload = getattr(importlib.import_module(module), attribute)()
    return workload


def parse_index(text: str) -> Index:
    """Read a candidate such as ``orders(customer, day)``."""
    match = re.fullmatch(r"\s*([^()]+?)\s*\(([^()]+)\)\s*", text)
    if match is None:
        raise ValueError(f"An index is written `table(column, ...)`, but got {text!r}.")
    return Index(match[1], tuple(column.strip() for column in match[2].split(",")))
