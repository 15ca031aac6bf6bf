"""Changes of the server's configuration at the least cost, and the workload on it.

The evaluator knows the current configuration of the server. The cost of a change is that of the
knobs that differ, so the order in which configurations are evaluated matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field
import time
from typing import Any
from typing import Protocol

from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
import psycopg2
from psycopg2 import sql

from examples.postgres.database import Connection
from examples.postgres.failure import classified
from examples.postgres.failure import ConfigError
from examples.postgres.failure import Kind
from examples.postgres.failure import one_line
from examples.postgres.failure import ServerLostError
from examples.postgres.knobs import Configuration
from examples.postgres.knobs import Cost
from examples.postgres.knobs import Knob
from examples.postgres.knobs import Knobs
from examples.postgres.workload import Workload


class Server(Protocol):
    """What the evaluator needs of a server."""

    def connect(self) -> Connection:
        """Return a new connection in which every statement commits by itself."""
        ...

    def restart(self, settings: Mapping[str, str]) -> None:
        """Start anew with these settings; a ConfigError if they are refused."""
        ...

    def reset(self) -> None:
        """Restart with the defaults, from whatever state; or raise a ConfigError."""
        ...


@dataclass
class Measurement:
    """What is known of a configuration after some rounds of the workload."""

    n_rounds: int  # of the whole workload
    reconfiguration_seconds: float
    n_done: int = 0
    by_query: dict[str, float] = field(default_factory=dict)

    @property
    def query_seconds(self) -> float:
        """What was spent on queries so far."""
        return sum(self.by_query.values())

    @property
    def estimate(self) -> float:
        """Seconds of the whole workload, extrapolated from the rounds so far."""
        return self.query_seconds * self.n_rounds / self.n_done

    def add(self, round_seconds: Mapping[str, float]) -> None:
        """Count one more round."""
        self.n_done += 1
        for name, seconds in round_seconds.items():
            self.by_query[name] = self.by_query.get(name, 0.0) + seconds


class Evaluator:
    """Applies configurations and runs the workload.

    Args:
        server:
            The server, with the tables loaded.
        workload:
            What to run on it.
        knobs:
            What may be changed.

    Attributes:
        limit:
            Seconds that the queries of one configuration may take, and that building one index
            may take; None is no limit.
        n_builds, n_restarts:
            How often an index was built and the server restarted.
        change_costs:
            Measured seconds of a change of each knob, by name. See :meth:`calibrate`.
    """

    def __init__(self, server: Server, workload: Workload, knobs: Knobs) -> None:
        self.workload = workload
        self.knobs = knobs
        self.limit: float | None = None
        self.n_builds = 0
        self.n_restarts = 0
        self.change_costs = {knob.name: 0.0 for knob in knobs}
        self._server = server
        self._state = knobs.defaults
        self._connection = server.connect()
        self._refuse_existing_indexes()

    def close(self) -> None:
        """Drop the indexes that were built. Restart settings are the server's business."""
        self._connection.close()  # it may be in the middle of a query
        with suppress(psycopg2.OperationalError):  # a server that is lost
            self._connection = self._server.connect()
            self._drop_indexes()
            self._connection.close()

    # ------------------------------------------------------------------ configurations

    def measure(self, configuration: Configuration) -> Iterator[Measurement]:
        """Apply a configuration and run the workload, and say after each round what is known.

        Raises:
            ConfigError:
                If the configuration cannot be measured; :meth:`recover` is then due.
        """
        n_rounds = self.workload.n_rounds
        changed = self.knobs.changes(self._state, configuration)
        measurement = Measurement(n_rounds, self.apply(configuration))
        if any(knob.cost is not Cost.SESSION for knob in changed):
            # The first round after a restart takes up to three times as long as the next: the cold
            # cache is a part of the cost of the change, not of the configuration.
            warm_up = self._run_round(n_rounds, 0.0)
            measurement.reconfiguration_seconds += sum(warm_up.values())
        for number in range(n_rounds):
            if self.limit is not None and measurement.query_seconds > self.limit:
                raise ConfigError(
                    Kind.TIMED_OUT, f"the queries took over {self.limit:.1f} seconds"
                )
            measurement.add(self._run_round(number, measurement.query_seconds))
            yield measurement

    def apply(self, configuration: Configuration) -> float:
        """Bring the server to a configuration, and return the seconds that this took.

        Raises:
            ConfigError:
                If the server refuses it; :meth:`recover` is then due.
        """
        start = time.perf_counter()
        changed = self.knobs.changes(self._state, configuration)
        with classified():
            self._execute("RESET ALL")
            self._limit_statements(0.0)
            for knob in changed:
                if knob.index is not None:
                    is_wanted = configuration[knob.name]
                    self._execute(knob.index.create() if is_wanted else knob.index.drop())
                    self.n_builds += is_wanted
            if any(knob.cost is Cost.RESTART for knob in changed):
                self._connection.close()
                self._server.restart(self.knobs.settings(configuration, Cost.RESTART))
                self._connection = self._server.connect()
                self.n_restarts += 1
            for name, text in self.knobs.settings(configuration, Cost.SESSION).items():
                self._execute("SELECT set_config(%s, %s, false)", (name, text))
        self._state = dict(configuration)
        return time.perf_counter() - start

    def recover(self) -> None:
        """Bring the server back to its defaults after a failure.

        Raises:
            ServerLostError:
                If that fails too.
        """
        try:
            self._connection.close()
            self._server.reset()
            self._connection = self._server.connect()
            self._drop_indexes()
        except (ConfigError, psycopg2.Error) as error:
            raise ServerLostError(
                f"The server does not come back with its defaults: {one_line(error)}"
            ) from error
        self._state = self.knobs.defaults

    def shown(self, configuration: Configuration) -> dict[str, str]:
        """Apply a configuration and return each knob as the server shows it."""
        self.apply(configuration)
        shown = {}
        with self._connection.cursor() as cursor:
            for knob in self.knobs:
                if knob.index is not None:
                    shown[knob.name] = "yes" if configuration[knob.name] else "no"
                    continue
                cursor.execute("SELECT current_setting(%s)", (knob.setting,))
                ((shown[knob.setting],),) = cursor.fetchall()
        return shown

    def as_sql(self, configuration: Configuration) -> str:
        """Return the statements that bring any server to a configuration."""
        return self.knobs.as_sql(configuration, self._connection)

    # ------------------------------------------------------------------ costs of changes

    def calibrate(self) -> None:
        """Measure what a change of each knob costs, each from the defaults."""
        defaults = self.knobs.defaults
        self.apply(defaults)
        for knob in self.knobs:
            start = time.perf_counter()
            try:
                self.apply({**defaults, knob.name: _typical(knob)})
                self.change_costs[knob.name] = time.perf_counter() - start
                self.apply(defaults)
            except ConfigError:  # the search will find that out
                self.change_costs[knob.name] = time.perf_counter() - start
                self.recover()

    def switch_cost(self, configuration: Configuration) -> float:
        """Return the expected seconds from where the server is to a configuration."""
        changed = self.knobs.changes(self._state, configuration)
        # To drop an index takes no time, but then it has to be built again.
        indexes = sum(self.change_costs[k.name] for k in changed if k.cost is Cost.INDEX)
        # All restart settings change in one restart.
        restarts = [self.change_costs[k.name] for k in changed if k.cost is Cost.RESTART]
        return indexes + max(restarts, default=0.0)

    # ------------------------------------------------------------------ statements

    def _run_round(self, number: int, spent: float) -> dict[str, float]:
        seconds: dict[str, float] = {}
        with classified():
            self._limit_statements(spent)
            last = time.perf_counter()
            for name in self.workload.run(self._connection, number):
                now = time.perf_counter()
                seconds[name], last = now - last, now
        return seconds

    def _limit_statements(self, spent: float) -> None:
        # 0 is no limit.
        milliseconds = 0 if self.limit is None else max(int(1000 * (self.limit - spent)), 1)
        statement = "SELECT set_config('statement_timeout', %s, false)"
        self._execute(statement, (str(milliseconds),))

    def _drop_indexes(self) -> None:
        for knob in self.knobs:
            if knob.index is not None:
                self._execute(knob.index.drop())

    def _refuse_existing_indexes(self) -> None:
        """Make sure that the indexes which will be dropped are those that were created here."""
        names = [knob.index.name for knob in self.knobs if knob.index is not None]
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname = ANY(%s)", (names,))
            existing = [name for (name,) in cursor.fetchall()]
        if existing:
            raise ValueError(
                f"The database already has the indexes {existing}, perhaps of a run that was "
                "killed. Please drop them first."
            )

    def _execute(self, statement: str | sql.Composable, values: tuple[Any, ...] = ()) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)


def _typical(knob: Knob) -> Any:
    """Return a value that is not the default, from the middle of a range."""
    if isinstance(knob.distribution, CategoricalDistribution):
        return knob.distribution.choices[0 if knob.index is not None else -1]
    assert isinstance(knob.distribution, (IntDistribution, FloatDistribution))
    middle = (knob.distribution.low + knob.distribution.high) / 2
    return int(middle) if isinstance(knob.distribution, IntDistribution) else middle
