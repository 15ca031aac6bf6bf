"""Whatever an objective returns, and however its trials end, no ask stops the study."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
import itertools
import math

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import optuna
from optuna.study import StudyDirection
import pytest

from optuna_pcts import DepthFidelity
from optuna_pcts import fidelity
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts._search.local import LocalSearch
from optuna_pcts._study.notices import Notices


Value = Callable[[float, np.random.Generator], float]
VALUES: dict[str, Value] = {
    "constant": lambda x, rng: 1.0,
    "zero": lambda x, rng: 0.0,
    "two values": lambda x, rng: float(x > 0.5),
    "a needle": lambda x, rng: float(abs(x - 0.3) < 0.02),
    "tiny": lambda x, rng: 1e-300 * x,
    "the smallest floats": lambda x, rng: 5e-324 * int(10 * x),
    "huge": lambda x, rng: 1e300 * (x - 0.5),
    "the largest floats": lambda x, rng: 1.7e308 * (2 * x - 1),
    "all sizes": lambda x, rng: 10.0 ** (600 * x - 300),
    "all sizes, turned": lambda x, rng: -(10.0 ** (600 * x - 300)),
    "far from zero": lambda x, rng: 1e16 + x,
    "outliers below": lambda x, rng: x - 1e30 * (rng.random() < 0.1),
    "outliers above": lambda x, rng: x + 1e30 * (rng.random() < 0.1),
    "infinities": lambda x, rng: x + math.inf if rng.random() < 0.1 else x,
    "heavy tails": lambda x, rng: 1e100 * float(rng.standard_cauchy()),
}
MODES = ("plain", "sized", "reported", "pruned")


@pytest.fixture(autouse=True)
def numpy_raises() -> Iterator[None]:
    """As strict as a user may have made it."""
    with np.errstate(all="raise"):
        yield


def ask_for_anything(
    value: Value, mode: str, share: float, direction: str, seed: int, n_trials: int
) -> optuna.Study:
    """Run an objective, a share of whose trials fail or are pruned."""
    rng = np.random.default_rng(seed)

    def objective(trial: optuna.Trial) -> float:
        if mode == "sized":
            assert 0 < fidelity(trial) <= 1
        x = trial.suggest_float("x", 0, 1)
        trial.suggest_int("n", 1, 5)
        with np.errstate(all="ignore"):
            y = float(value(x, rng))
            if rng.random() < share:
                if rng.random() < 0.5:
                    raise optuna.TrialPruned
                return math.nan
            for step in range(1, 6) if mode in ("reported", "pruned") else ():
                trial.report(y * (1 - 0.5 / step), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
        return y

    study = optuna.create_study(
        direction=StudyDirection[direction.upper()],
        sampler=PCTSSampler(seed=seed),
        pruner=PCTSPruner(5) if mode == "pruned" else optuna.pruners.NopPruner(),
    )
    study.optimize(objective, n_trials=n_trials)
    return study


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(sorted(VALUES)),
    mode=st.sampled_from(MODES),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    direction=st.sampled_from(["minimize", "maximize"]),
    seed=st.integers(0, 3),
)
def test_a_study_goes_on_whatever_its_values(
    kind: str, mode: str, share: float, direction: str, seed: int
) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        failures: list[Exception] = []
        patch.setattr(Notices, "of_failure", lambda self, error: failures.append(error))
        study = ask_for_anything(VALUES[kind], mode, share, direction, seed, 30)
        assert len(study.trials) == 30
        assert failures == []  # not even as a tree ask in the place of a local one


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", VALUES)
def test_a_long_study_goes_on_whatever_its_values(kind: str, mode: str, direction: str) -> None:
    for share, seed in itertools.product((0.0, 0.2), range(2)):
        study = ask_for_anything(VALUES[kind], mode, share, direction, seed, 100)
        assert len(study.trials) == 100


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_objective_that_sizes_its_own_work(seed: int) -> None:
    """The bias at low fidelity is divided by the spread of the values, which is 0."""
    sampler = PCTSSampler(seed=seed, fidelity=DepthFidelity(full_share=0.0))
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        fidelity(trial)
        trial.suggest_float("x", 0, 1)
        return 1.0

    study.optimize(objective, n_trials=40)
    assert len(study.trials) == 40


def test_where_local_asks_fail_the_tree_asks_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, optuna_log: pytest.LogCaptureFixture
) -> None:
    def fails(self: LocalSearch, *data: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(LocalSearch, "_fit", fails)
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=60)
    assert len(study.trials) == 60
    assert study.best_value < 1e-3  # the tree searches
    assert optuna_log.text.count("not positive definite") == 1
