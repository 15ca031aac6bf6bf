"""How figures show trials that violate a constraint."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from helpers import constrained_study
from helpers import infeasible
import matplotlib
from matplotlib import pyplot as plt
import optuna
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts import visualization
from optuna_pcts.visualization import matplotlib as twin


matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    study = constrained_study(60, PCTSSampler(seed=0))
    study.ask({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})
    return study


def test_where_nothing_is_feasible_that_is_said() -> None:
    study = constrained_study(8, RandomSampler(seed=0), least=2.0)
    with pytest.raises(ValueError, match="no feasible trial: all 8 completed ones"):
        visualization.plot_regret(study)
    twin.plot_partition(study).figure.canvas.draw()
    visualization.plot_partition(study).to_json()


def marked(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.name == "infeasible"]


def twins_marked(axes: Any) -> Sequence[Any]:
    return [drawn for drawn in axes.collections if drawn.get_label() == "infeasible"]


@pytest.mark.parametrize("name", ["partition", "regret", "fidelity", "cost"])
def test_figures_mark_them(study: optuna.Study, name: str) -> None:
    out = infeasible(study)
    (marks,) = marked(getattr(visualization, f"plot_{name}")(study))
    axes = getattr(twin, f"plot_{name}")(study)
    (same,) = twins_marked(axes)
    no_depth = {0} if name in ("fidelity", "cost") else set()
    shown = [f"trial {n}" for n in out if n not in no_depth]
    texts = [text.split(":")[0] for text in marks.text or ()]
    assert (texts or [f"trial {n}" for n in marks.customdata]) == shown
    assert len(same.get_offsets()) == len(shown)
    assert "infeasible" in [text.get_text() for text in axes.get_legend().get_texts()]
    without = constrained_study(30, PCTSSampler(seed=0), least=0.0)
    assert not marked(getattr(visualization, f"plot_{name}")(without))
    axes = getattr(twin, f"plot_{name}")(without)
    assert not twins_marked(axes)
