"""Optimisers of other libraries: each finds an easy optimum with several asks open."""

from __future__ import annotations

from pathlib import Path
import sys

from helpers import skip_if_lacking
import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution
from optuna.pruners import NopPruner
from optuna.trial import TrialState
import pytest

from benchmarks import methods
from benchmarks import run
from benchmarks.methods import EXTERNAL
from benchmarks.methods import Task
from benchmarks.problems import FloatArray
from benchmarks.problems import Problem
from benchmarks.simulation import ConstantDelay
from benchmarks.simulation import Simulation


def unimodal(x: FloatArray, z: float) -> float:
    """One mode: rate 0.01, 2 layers, width 0.4, "b"."""
    rate, layers, width, kind = x
    return -float(
        abs(np.log10(rate) + 2) + abs(layers - 2) / 20 + abs(width - 0.4) / 5 + (kind != 1)
    )


UNIMODAL = Problem(
    name="unimodal",
    space={
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "layers": IntDistribution(1, 8),
        "width": FloatDistribution(0.0, 1.0, step=0.1),
        "kind": CategoricalDistribution(("a", "b", None)),
    },
    function=unimodal,
    best_points=((0.01, 2.0, 0.4, 1.0),),
    noise_std=0.05,
    cost=lambda z: 1.0,
)


@pytest.mark.parametrize("name", EXTERNAL)
def test_it_optimises_an_easy_function_with_several_asks_open(name: str) -> None:
    skip_if_lacking(name)
    entry = EXTERNAL[name](Task(UNIMODAL, 0, 48))
    simulation = Simulation(
        UNIMODAL, entry.sampler, NopPruner(),
        n_workers=4, n_steps=1, seed=0, delay=ConstantDelay(1.0),
    )  # fmt: skip
    simulation.spend(48.0)
    trials = simulation.study.get_trials(deepcopy=False)
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 48
    regrets = [UNIMODAL.regret(UNIMODAL.point(t.params)) for t in trials]
    assert np.median(regrets[24:]) < np.median(regrets[:10])  # the first ten are random
    assert len({t.params["rate"] for t in trials}) > 24


def test_parameters_keep_their_types() -> None:
    skip_if_lacking("SMAC3")
    sampler = EXTERNAL["SMAC3"](Task(UNIMODAL, 0, 48)).sampler
    study = optuna.create_study(sampler=sampler)
    for _ in range(8):
        params = study.ask(UNIMODAL.space).params
        assert all(d._contains(d.to_internal_repr(params[n])) for n, d in UNIMODAL.space.items())
        assert [type(params[name]) for name in ("rate", "layers", "width")] == [float, int, float]
        assert params["kind"] in ("a", "b", None)


def test_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A method that cannot run is an error if it is named alone; of a group, the others run."""
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    command = ["run", "--problems", "Branin", "--seeds", "0", "--results", str(tmp_path)]
    for asked in (["--methods", "SMAC3"], ["--methods", "GP"]):
        monkeypatch.setattr(sys, "argv", [*command, *asked])
        with pytest.raises(SystemExit):
            run.main()
        assert 'pip install "optuna-pcts[peers]"' in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*command, "--methods", "peers", "external"])
    run.main()
    said = capsys.readouterr().err
    assert "left out: GP needs the package torch" in said
    assert "left out: SMAC3 needs the package smac" in said
