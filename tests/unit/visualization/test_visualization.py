"""The figures: with plotly and with matplotlib, of the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
import json
import subprocess
import sys
from typing import Any

from helpers import python
from helpers import ROOT
from helpers import run_study
from helpers import study_to_see
import matplotlib
from matplotlib import pyplot as plt
import optuna
import pytest

from optuna_pcts import visualization
from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._analysis.partition_info import partition_info
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.tree_info import tree_info
from optuna_pcts.visualization import matplotlib as twin
from optuna_pcts.visualization._fidelity import draw_matplotlib
from optuna_pcts.visualization._fidelity import draw_plotly
from optuna_pcts.visualization._page import page_of


matplotlib.use("Agg")


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    return study_to_see()


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    yield
    plt.close("all")


def traces(figure: Any) -> dict[str, Any]:
    """Return the traces of a plotly figure by their names."""
    return {
        trace["name"]: trace for trace in json.loads(figure.to_json())["data"] if "name" in trace
    }


@pytest.mark.parametrize("name", [*INFOS])
def test_both_libraries_draw_each_figure(study: optuna.Study, name: str) -> None:
    assert visualization.is_available()
    assert twin.is_available()
    figure = getattr(visualization, f"plot_{name}")(study)
    text = figure.to_json()
    # The dashboard has a plotly that cannot read packed arrays; and each byte is stored and sent.
    assert "bdata" not in text
    assert len(text) < 100_000
    axes = getattr(twin, f"plot_{name}")(study)
    axes = axes[0] if name == "delays" else axes
    axes.figure.canvas.draw()
    title = axes.figure.get_suptitle() or axes.get_title()
    for line in title.splitlines():
        assert line in figure.layout.title.text
    if name != "tree":  # an icicle has no axes
        assert figure.layout.xaxis.title.text == axes.get_xlabel()
        assert figure.layout.yaxis.title.text == axes.get_ylabel()


def test_the_tree_is_all_cells_with_those_in_flight_outlined(study: optuna.Study) -> None:
    info = tree_info(Snapshot(study))
    (icicle,) = json.loads(visualization.plot_tree(study).to_json())["data"]
    assert icicle["type"] == "icicle"
    assert icicle["values"] == [cell.n_asked for cell in info.cells]
    assert icicle["labels"][0] == "60/62"
    outlined = [width > 0 for width in icicle["marker"]["line"]["width"]]
    assert outlined == [cell.is_in_flight for cell in info.cells]
    assert 1 <= sum(outlined) <= 2
    scale = [position for position, _ in icicle["marker"]["colorscale"]]
    assert (scale[0], scale[-1]) == (0, 1)  # otherwise plotly takes one of its own
    assert scale == sorted(scale)
    assert len(twin.plot_tree(study).patches) == len(info.cells)


def test_the_partition_shows_trials_and_the_recommended_point(study: optuna.Study) -> None:
    figure = visualization.plot_partition(study, params=["y", "x"])
    shown = traces(figure)
    assert len(shown["told back"]["x"]) == 60
    assert len(shown["in flight"]["x"]) == 2
    assert len(shown["recommended"]["x"]) == 1
    assert figure.layout.xaxis.title.text == "y"
    assert "kind = b" in figure.layout.title.text


def test_the_delays_show_their_mean_and_their_regime(study: optuna.Study) -> None:
    info = delay_info(Snapshot(study))
    figure = visualization.plot_delays(study)
    assert info.regime in figure.layout.title.text
    assert traces(figure)[f"mean {info.mean_trials:.3g}"]["x"] == [info.mean_trials] * 2
    bars = next(trace for trace in figure.data if trace.type == "bar")
    assert sum(bars.y) == len(info.trials)


def test_the_cost_shows_all_models_the_best_first(study: optuna.Study) -> None:
    names = list(traces(visualization.plot_cost(study)))
    assert names[:2] == ["trial", "median"]
    fit = cost_info(Snapshot(study)).fit
    assert fit is not None
    assert [name.split(" ")[0] for name in names[2:]] == [model.name for model in fit.models]


def test_the_regret_is_the_distance_to_the_optimum_if_that_is_known(study: optuna.Study) -> None:
    figure = visualization.plot_regret(study, target_name="loss")
    assert figure.layout.yaxis.title.text == "loss"
    assert traces(figure)["best trial so far"]["y"][-1] == study.best_value
    regret = visualization.plot_regret(study, optimum=-1.0)
    assert regret.layout.yaxis.type == "log"
    assert traces(regret)["best trial so far"]["y"][-1] == pytest.approx(study.best_value + 1)
    assert twin.plot_regret(study, optimum=-1.0).get_yscale() == "log"


@pytest.mark.parametrize("library", [visualization, twin])
def test_a_study_with_nothing_to_see_is_refused(library: Any) -> None:
    study = optuna.create_study()
    study.add_trial(optuna.trial.create_trial(value=1.0))
    for name in ("tree", "partition", "fidelity", "cost"):
        with pytest.raises(ValueError, match=r"(?i)no |at full fidelity"):
            getattr(library, f"plot_{name}")(study)


def test_a_missing_library_is_named_when_it_is_needed() -> None:
    script = """
import sys
for name in ("plotly", "matplotlib", "optuna_dashboard"):
    sys.modules[name] = None
import optuna, optuna_pcts, optuna_pcts.cli, optuna_pcts.dashboard
from optuna_pcts import visualization
from optuna_pcts.visualization import matplotlib
print(visualization.is_available(), matplotlib.is_available())
study = optuna.create_study()
for need in (
    lambda: visualization.plot_tree(study),
    lambda: matplotlib.plot_tree(study),
    lambda: optuna_pcts.dashboard.LiveFigures(),
):
    try:
        need()
    except ImportError as error:
        print(str(error).split(" but ")[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "False False",
        "Tried to import 'plotly.graph_objects'",
        "Tried to import 'matplotlib'",
        "Tried to import 'optuna_dashboard'",
    ]


def test_matplotlib_is_imported_when_it_is_needed() -> None:
    script = """
import sys
import optuna_pcts
assert not {"plotly", "matplotlib"} & set(sys.modules)
import optuna_pcts.dashboard, optuna_pcts.visualization
assert "plotly" in sys.modules
assert "matplotlib" not in sys.modules
"""
    python("-c", script)


def test_the_page_is_self_contained_and_escapes_names(study: optuna.Study) -> None:
    odd = optuna.create_study(study_name="</script><b>odd</b>")
    odd.add_trials(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
    page = page_of(Snapshot(odd))
    assert "&lt;/script&gt;&lt;b&gt;odd" in page
    assert "<b>odd</b>" not in page
    for name in INFOS:
        assert page.count(f'id="pcts-{name}"') == 1
    body = page[page.index("<body>") :]
    assert body.count("<script") == body.count("</script>")
    # Nothing is loaded from anywhere.
    assert "<script src" not in page
    assert "<link" not in page
    assert page.count("plotly.js v") == 1


def test_the_title_names_the_axis_of_the_fidelities(study: optuna.Study) -> None:
    info = fidelity_info(Snapshot(study))
    for by_depth, title in ((info.by_depth, "by depth"), ((), "by trial")):
        shown = info._replace(by_depth=by_depth)
        axes = draw_matplotlib(shown)
        assert title in (axes.figure.get_suptitle() or axes.get_title())
        assert title in draw_plotly(shown).layout.title.text


# ---------------------------------------------------------------------- conditional parameters


def branches(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    if trial.suggest_categorical("kind", ["a", "b"]) == "a":
        return x + trial.suggest_float("a0", 0, 1) + trial.suggest_float("a1", 0, 1) / 2
    return x + 5 + trial.suggest_float("b0", 0, 1)


def test_the_tree_shows_where_a_branch_opens() -> None:
    study = run_study(branches, 60)
    info = tree_info(Snapshot(study))
    opened = {name for cell in info.cells for name in cell.opens}
    assert opened == {"a0", "a1", "b0"}
    for cell in info.cells:
        if cell.opens:
            assert cell.ranges["kind"] == ("a" if "a0" in cell.opens else "b")
    text = json.dumps(visualization.plot_tree(study).to_dict(), default=str)
    assert "+ a0, a1" in text
    assert "opens a0, a1" in text
    assert any("+ a0, a1" in text.get_text() for text in twin.plot_tree(study).texts)


def test_the_partition_lies_in_the_branch_of_the_answer_or_where_its_parameters_exist() -> None:
    study = run_study(branches, 60)
    info = partition_info(Snapshot(study))
    assert (info.x.name, info.y.name) == ("a0", "a1")
    assert info.recommended is not None
    assert info.others.keys() == {"x", "kind"}
    assert len(info.points) == sum("a0" in trial.params for trial in study.trials)
    other = partition_info(Snapshot(study, params=["b0", "x"]))
    assert other.recommended is None
    assert other.others == {"kind": "b"}
    assert len(other.points) == sum("b0" in trial.params for trial in study.trials)
