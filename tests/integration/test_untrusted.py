"""Malformed or hostile content of a shared storage: it is ignored, and breaks nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
import math
import time
from typing import Any

from helpers import new_trial
from helpers import propose
from helpers import tree_of
import optuna
from optuna.distributions import BaseDistribution
from optuna.distributions import FloatDistribution
from optuna.storages import BaseStorage
from optuna.trial import create_trial
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from psycopg2 import sql
import pytest

from examples.postgres.server import EmbeddedServer
from optuna_pcts import CostBudget
from optuna_pcts import fidelity
from optuna_pcts import fit_cost
from optuna_pcts import LinearGrowth
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import trial_cost
from optuna_pcts._study.attributes import COST_KEY
from optuna_pcts._study.attributes import DEPTH_KEY
from optuna_pcts._study.attributes import FIDELITY_KEY
from optuna_pcts._study.attributes import MAX_DEPTH
from optuna_pcts._study.attributes import PROPOSAL_KEY
from optuna_pcts._study.attributes import recorded_proposal
from optuna_pcts._study.attributes import SIZED_KEY


SPACE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
}
POINT = {"x": 0.5, "y": 0.25}
# What would be executed by a reader that evaluates, formats or unpickles what it reads.
CODE = "__import__('os').abort()"
PICKLE = "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjANpZHGUhZRSlC4="

ANYTHING: list[Any] = [
    None,
    True,
    -1,
    10**400,
    math.nan,
    math.inf,
    "",
    CODE,
    PICKLE,
    "{0.__class__}%s%n\x00\n\u202e",
    "x" * 1_000_000,
    [],
    [[[[]]]],
    {},
    {"__class__": CODE, "__reduce__": [CODE]},
]
CELLS: list[Any] = [
    *ANYTHING,
    {"depth": 10**400, "point": POINT},
    {"depth": MAX_DEPTH + 1, "point": POINT},
    {"depth": 2, "point": {f"p{i}": 0.5 for i in range(20_000)}},
    {"depth": 2, "point": {"x": 10**400}},
    {"depth": 2, "point": POINT, "fidelity": CODE},
    {"depth": 2, "point": POINT, "fidelity": -0.1},
    {"depth": 2, "point": POINT, "fidelity": math.nan},
    {"depth": 2, "point": POINT, "max_resource": 10**400},
    {"depth": 2, "point": POINT, "max_resource": True},
    {"depth": 2, "point": POINT, "max_resource": 0},
]


def told(number: int, *, system: Any = None, user: Any = None, **options: Any) -> FrozenTrial:
    return create_trial(
        params={"x": (number * 0.37) % 1, "y": (number * 0.59) % 1},
        distributions=SPACE,
        value=float(number),
        system_attrs=system or {},
        user_attrs=user or {},
        **options,
    )


def warnings_of(log: pytest.LogCaptureFixture, key: str) -> int:
    return sum(key in record.message for record in log.records)


@pytest.mark.parametrize("cell", CELLS[1:], ids=lambda cell: repr(cell)[:40])
def test_a_malformed_proposal_record_is_ignored(
    cell: Any, optuna_log: pytest.LogCaptureFixture
) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0), pruner=PCTSPruner(max_resource=10))
    system = {PROPOSAL_KEY: cell, SIZED_KEY: cell}
    study.add_trials([told(n, system=system, intermediate_values={3: 1.0}) for n in range(8)])
    assert recorded_proposal(study.trials[0]) is None
    assert fidelity(study.trials[0]) == 1.0
    assert study.pruner.prune(study, study.trials[0]) is False
    for _ in range(3):
        trial = study.ask(SPACE)
        study.tell(trial, 0.5)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_told == 10
    assert warnings_of(optuna_log, PROPOSAL_KEY) == 1
    assert len(optuna_log.text) < 1000
    assert recommend(study).params.keys() == SPACE.keys()


def test_hostile_attributes_pass_through_each_storage(
    storage: BaseStorage, optuna_log: pytest.LogCaptureFixture
) -> None:
    """While a trial runs, and after: by the storage's own interface, as others would write."""
    study = optuna.create_study(storage=storage, sampler=PCTSSampler(seed=0))
    for value in (CODE, PICKLE, [CODE], {"depth": CODE, "point": CODE}, 10**30):
        trial = study.ask(SPACE)
        for key in (PROPOSAL_KEY, SIZED_KEY, "retry_history"):
            storage.set_trial_system_attr(trial._trial_id, key, value)
        for key in (DEPTH_KEY, FIDELITY_KEY, COST_KEY):
            storage.set_trial_user_attr(trial._trial_id, key, value)
        study.tell(trial, trial.params["x"])
    study.ask(SPACE)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_told == 5
    assert warnings_of(optuna_log, PROPOSAL_KEY) == 1


def test_a_study_of_deep_cells_is_read_in_bounded_time_and_memory() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    deep = [told(n, system={PROPOSAL_KEY: {"depth": 10**9, "point": POINT}}) for n in range(2000)]
    study.add_trials(deep)
    start = time.monotonic()
    study.ask(SPACE)
    assert time.monotonic() - start < 60  # minutes if each was split down to the last bit
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_nodes < 10 * len(deep)


def test_the_deepest_cell_of_an_attribute_bounds_the_tree() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.add_trial(told(1, system={PROPOSAL_KEY: {"depth": MAX_DEPTH, "point": POINT}}))
    study.ask(SPACE)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_nodes <= 2 * MAX_DEPTH + 5


@pytest.mark.parametrize("cost", ANYTHING[1:], ids=lambda cost: repr(cost)[:40])
def test_a_malformed_cost_is_ignored(cost: Any, optuna_log: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study()
    study.add_trials([told(n, user={COST_KEY: cost, DEPTH_KEY: n % 4}) for n in range(8)])
    study.add_trials([told(n, user={COST_KEY: 2.0, DEPTH_KEY: n % 4}) for n in range(40)])
    budget = CostBudget(budget=1000)
    assert budget.spent(study) == pytest.approx(80, abs=1)
    assert warnings_of(optuna_log, COST_KEY) == 1
    assert fit_cost(study).n_trials >= 40
    assert warnings_of(optuna_log, COST_KEY) == 2
    assert len(optuna_log.text) < 2000
    assert trial_cost(study.trials[0]) == pytest.approx(0, abs=1)


@pytest.mark.parametrize("depth", ANYTHING[1:], ids=lambda depth: repr(depth)[:40])
def test_a_malformed_depth_is_ignored(depth: Any, optuna_log: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study()
    study.add_trials([told(n, user={DEPTH_KEY: depth}) for n in range(8)])
    assert CostBudget(budget=1000, cost=LinearGrowth(beta=2.0)).spent(study) == 16
    with pytest.raises(ValueError, match="none of the 8"):
        fit_cost(study)
    assert warnings_of(optuna_log, DEPTH_KEY) == 1


def test_costs_that_overflow_are_spent() -> None:
    study = optuna.create_study()
    for _ in range(3):
        trial = study.ask(SPACE)
        trial.set_user_attr(COST_KEY, 1.7e308)
    assert CostBudget(budget=1000).spent(study) == math.inf


@pytest.mark.parametrize(
    "fixed", [CODE, 7, [CODE], {"x": CODE}, {"x": None}, {"x": 10**400}, {"x": math.nan}]
)
def test_malformed_fixed_parameters_are_ignored(fixed: Any) -> None:
    """Optuna raises for most of them, in their own trial; this package does not."""
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.add_trials([told(n) for n in range(3)])
    trial_id = new_trial(study)
    study._storage.set_trial_system_attr(trial_id, "fixed_params", fixed)
    assert isinstance(study.sampler, PCTSSampler)
    assert propose(study.sampler, study, trial_id).keys() == SPACE.keys()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    assert [t.state for t in study.trials[4:]] == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize("steps", [{10**400: 1.0}, {-5: 1.0}, {0: math.nan}, {2**60: math.inf}])
def test_huge_steps_are_no_error(steps: Mapping[int, float]) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.add_trials([told(n, intermediate_values=dict(steps)) for n in range(8)])
    study.ask(SPACE)
    assert isinstance(study.sampler, PCTSSampler)
    assert tree_of(study.sampler).n_told == 8


# ---------------------------------------------------------------------- the PostgreSQL example

HOSTILE_TEXT = ["'; DROP TABLE orders; --", "1\nfsync = off", "\\'", 'a"b', "'' OR 1 = 1", "\\"]


@pytest.mark.parametrize("text", HOSTILE_TEXT)
def test_a_setting_is_one_quoted_value_whatever_its_text(
    database: EmbeddedServer, text: str
) -> None:
    """It is read back by a real server as it was given, and nothing beside it."""
    from examples.postgres.knobs import conf_line

    line = conf_line("application_name", text)
    assert "\n" not in line
    database.restart({"application_name": text})
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%tuning.conf'"
        )
        assert cursor.fetchall() == [("application_name", text)]
        cursor.execute("SHOW fsync")
        assert cursor.fetchall() == [("on",)]


@pytest.mark.parametrize("name", [*HOSTILE_TEXT, "../../etc/passwd", "x" * 200])
def test_names_of_tables_and_columns_are_quoted(database: EmbeddedServer, name: str) -> None:
    from examples.postgres.knobs import Index

    name = name.replace(".", "_").encode()[:63].decode()  # dots are schemas, 63 the server's limit
    index = Index(name, (name,))
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        columns = (sql.Identifier(name), sql.Identifier(name))
        cursor.execute(sql.SQL("CREATE TABLE {} ({} integer)").format(*columns))
        cursor.execute(index.create())
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", (name,))
        assert cursor.fetchall() == [(index.name,)]
        cursor.execute(index.drop())
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", (name,))
        assert cursor.fetchall() == []


def test_a_report_of_the_example_survives_what_others_wrote() -> None:
    from examples.postgres.report import means_by_depth
    from examples.postgres.tune import COST
    from examples.postgres.tune import spent

    study = optuna.create_study()
    for value in ANYTHING:
        if value is not True:  # a number, for Python
            study.add_trial(told(0, user={COST: value, DEPTH_KEY: value, "seconds": value}))
    study.add_trial(told(0, user={COST: 2.0, DEPTH_KEY: 3, "seconds": 4.0}))
    assert spent(study) == 2.0
    assert means_by_depth(study.trials, "seconds") == ([4], [4.0])
