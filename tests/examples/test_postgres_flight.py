"""What a dead worker had in flight, and who may end it."""

from __future__ import annotations

from pathlib import Path
import tempfile

import optuna
import pytest

from examples.postgres.flight import FlightLog
from examples.postgres.flight import left_over
from examples.postgres.flight import PREFIX


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def die(study: optuna.Study, *trials: optuna.Trial) -> None:
    """Leave what a process leaves that ends without a chance to tidy up."""
    with FlightLog() as log:
        log.note(trials)


def test_trials_of_a_dead_process_are_found_once(tmp_path: Path) -> None:
    study = optuna.create_study()
    a, b, _ = study.ask(), study.ask(), study.ask()
    die(study, a)
    die(study, b)
    assert {t.number for t in left_over(study)} == {a.number, b.number}
    assert left_over(study) == []
    assert not list(tmp_path.iterdir())


def test_trials_of_a_living_process_are_not_taken() -> None:
    study = optuna.create_study()
    with FlightLog() as log:
        log.note([study.ask()])
        assert left_over(study) == []


def test_a_trial_that_another_worker_runs_now_is_not_taken() -> None:
    study = optuna.create_study()
    told, again = study.ask(), study.ask()
    die(study, told, again)
    study.tell(told, 0.0)
    study._storage.set_trial_state_values(again._trial_id, optuna.trial.TrialState.WAITING)
    assert study.ask().number == again.number  # another worker runs it now
    assert left_over(study) == []


def test_a_trial_of_another_study_is_not_mistaken_for_one() -> None:
    study, other = optuna.create_study(), optuna.create_study()
    trial, _ = study.ask(), other.ask()
    die(study, trial)
    assert left_over(other) == []


def test_a_process_that_ended_all_its_trials_leaves_none(tmp_path: Path) -> None:
    study = optuna.create_study()
    trial = study.ask()
    with FlightLog() as log:
        log.note([trial])
        study.tell(trial, 0.0)
        log.forget_ended(study)
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


def test_truncated_logs_and_other_entries_are_ignored(tmp_path: Path) -> None:
    study = optuna.create_study()
    trial = study.ask()
    (tmp_path / f"{PREFIX}torn").write_text('[[0, "2020')
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f"{PREFIX}folder").mkdir()
    die(study, trial)
    assert [t.number for t in left_over(study)] == [trial.number]
    assert (tmp_path / f"{PREFIX}link").is_symlink()
