"""Live figures in optuna-dashboard, without a browser."""

from __future__ import annotations

from itertools import pairwise
import json
import multiprocessing
from pathlib import Path
import pickle
import time
from typing import Any

from helpers import study_to_see
import optuna
from optuna.storages import BaseStorage
from optuna_dashboard import get_note
from optuna_dashboard import save_note
from optuna_dashboard._custom_plot_data import get_plotly_graph_objects
import pytest

from optuna_pcts import PCTSSampler
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts.dashboard import LiveFigures


def shown(study: optuna.Study) -> dict[str, Any]:
    """Return the figures as the dashboard reads them."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    return {name: json.loads(text) for name, text in get_plotly_graph_objects(attributes).items()}


def count_updates(live: LiveFigures, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note each time that figures are drawn."""
    drawn: list[float] = []
    update = live.update

    def counted(study: optuna.Study) -> float:
        drawn.append(time.monotonic())
        return update(study)

    monkeypatch.setattr(live, "update", counted)
    return drawn


def test_all_figures_and_a_note_are_kept_up_to_date(storage: BaseStorage) -> None:
    study = study_to_see(16, storage=storage)
    live = LiveFigures()
    save_note(study, "# Mine\n\nKeep this.")
    live.update(study)
    figures = shown(study)
    assert set(figures) == {f"pcts-{name}" for name in INFOS}
    assert "16 of 18 trials" in figures["pcts-tree"]["layout"]["title"]["text"]
    note = get_note(study)
    assert note.startswith("# Mine\n\nKeep this.\n\n## Procrastinated tree search\n")
    assert "- **Trials:** 18 (16 complete, 2 running)" in note
    assert "is recommended, with a value between" in note

    save_note(study, note + "\n## After\n\nThis too.\n")
    for number in (16, 17):
        study.tell(number, 1.0)
    live.update(study)
    assert "18 of 18 trials" in shown(study)["pcts-tree"]["layout"]["title"]["text"]
    note = get_note(study)
    assert note.startswith("# Mine\n\nKeep this.\n\n## Procrastinated tree search\n")
    assert note.endswith("## After\n\nThis too.\n")
    assert "(18 complete)" in note
    assert note.count("## Procrastinated tree search") == 1


def test_it_is_a_callback_that_draws_only_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    live = LiveFigures(every=1000)
    drawn = count_updates(live, monkeypatch)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=20, n_jobs=2, callbacks=[live])
    assert len(drawn) == 1
    # Another worker sees in the storage that it was done.
    other = LiveFigures(every=1000)
    drawn = count_updates(other, monkeypatch)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3, callbacks=[other])
    assert not drawn


def test_every_trial_has_its_depth_and_delay_as_attributes() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    live = pickle.loads(pickle.dumps(LiveFigures(figures=["delays"], note=False)))
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=4, callbacks=[live])
    assert all("pcts:delay" in t.user_attrs for t in study.trials)
    assert all("pcts:depth" in t.user_attrs for t in study.trials[1:])  # the first is random


def test_it_draws_less_often_if_drawing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    live = LiveFigures(every=0)
    drawn: list[float] = []

    def slow(study: optuna.Study) -> float:
        drawn.append(time.monotonic())
        return 0.025  # so half a second is to pass

    monkeypatch.setattr(live, "update", slow)
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1, callbacks=[live])
    assert 2 <= len(drawn) <= 3
    assert min(b - a for a, b in pairwise(drawn)) >= 0.5


def test_an_error_in_drawing_does_not_stop_the_study(
    monkeypatch: pytest.MonkeyPatch, optuna_log: pytest.LogCaptureFixture
) -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    live = LiveFigures(every=0)

    def broken(study: optuna.Study) -> float:
        raise OSError("disk full")

    monkeypatch.setattr(live, "update", broken)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3, callbacks=[live])
    assert len(study.trials) == 3
    assert "disk full" in optuna_log.text
    many = optuna.create_study(directions=["minimize", "minimize"])
    many.optimize(lambda t: (1.0, 2.0), n_trials=2, callbacks=[LiveFigures(every=0)])
    assert len(many.trials) == 2


def work(url: str, folder: Path, barrier: Any) -> None:
    """Run trials as one of several workers, and leave a file for each time it drew."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(study_name="s", storage=url, sampler=PCTSSampler(seed=0))
    live = LiveFigures(every=1, note=False)
    update = live.update

    def noted(study: optuna.Study) -> float:
        seconds = update(study)
        (folder / f"{time.time()}.drawn").touch()
        return seconds

    live.update = noted  # type: ignore[method-assign]
    barrier.wait(60)

    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.05)
        return trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1)

    study.optimize(objective, timeout=3, callbacks=[live])


def test_several_workers_draw_as_often_as_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(study_name="s", storage=url)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [context.Process(target=work, args=(url, tmp_path, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    n_drawn = len(list(tmp_path.glob("*.drawn")))
    # Two that did not know of each other would have drawn at their first trial each, and again.
    assert 1 <= n_drawn <= 4
    figures = shown(study)
    assert set(figures) >= {"pcts-tree", "pcts-partition", "pcts-regret", "pcts-delays"}


def test_it_can_be_copied_to_another_process() -> None:
    study = study_to_see(10)
    copy = pickle.loads(pickle.dumps(LiveFigures(figures=["tree"], note=False)))
    copy.update(study)
    assert set(shown(study)) == {"pcts-tree"}
    assert get_note(study) == ""


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="`figures` must be names out of"):
        LiveFigures(figures=["tree", "forest"])
    with pytest.raises(ValueError, match="`figures` must be names out of"):
        LiveFigures(figures="tree")
    with pytest.raises(ValueError, match="`every`"):
        LiveFigures(every=-1)
