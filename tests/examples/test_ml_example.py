"""The example that people copy: mixed parameters, fidelity, worker processes."""

from __future__ import annotations

from pathlib import Path
import re
import signal
import sys
import time

from helpers import ROOT
from helpers import start
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import fidelity


pytest.importorskip("sklearn")


def trials(journal: Path) -> list[FrozenTrial]:
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.load_study(study_name="hyperparameters", storage=storage).trials


def test_two_workers_share_a_study_and_an_interrupt_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "study.log"
    command = sys.executable, "examples/hyperparameters.py", "--journal", journal, "--seconds"
    with start(ROOT, *command, 300) as process:
        deadline = time.monotonic() + 60
        while not journal.is_file() or len(trials(journal)) < 8:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, out + errors
    assert "Interrupted;" in out
    assert "Traceback" not in errors
    before = trials(journal)
    assert {trial.state for trial in before} == {TrialState.COMPLETE}
    assert {"solver", "layers", "width"} <= set(before[-1].params)
    assert len({fidelity(trial) for trial in before}) > 1

    with start(ROOT, *command, 2) as process:  # goes on
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, out + errors
    assert len(trials(journal)) > len(before)
    found = re.search(r"trials +(\d+), of which (\d+) with all images", out)
    assert found is not None
    assert int(found[1]) == len(trials(journal))
    assert 5 <= int(found[2]) < int(found[1])
    accuracy = re.search(r"on new images +accuracy (\d\.\d+)", out)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.85
