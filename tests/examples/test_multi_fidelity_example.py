"""The multi-fidelity example: both arms, what it prints, and an interrupt halfway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

from helpers import ROOT
from helpers import start
import optuna
from optuna.trial import TrialState
import pytest


# The environment with the oldest Optuna has no scikit-learn.
pytest.importorskip("sklearn")

NUMBER = r"-?\d+\.\d+"


@contextmanager
def example(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the example; kill it if the test is over before it ends."""
    with start(ROOT, sys.executable, "examples/multi_fidelity.py", *arguments) as process:
        try:
            yield process
        finally:
            process.kill()


def test_both_arms_train_for_the_same_budget_and_print_what_they_found() -> None:
    with example("--budget", "800", "--seeds", "1", "--checks", "1") as process:
        out, progress = process.communicate(timeout=120)
    assert process.returncode == 0, out + progress
    for arm in ("with fidelity", "without fidelity"):
        found = re.search(
            rf"seed 0, {arm}\n"
            rf"  cost +(\d+) epochs, {NUMBER} s\n"
            r"  trials +(\d+), of which (\d+) ended early(.*)\n"
            r"  recommended +layers=\d.*learning_rate=.*\n"
            rf"  estimate +validation loss {NUMBER} \(95 % interval {NUMBER} to {NUMBER}\)\n"
            rf"  really +validation loss {NUMBER}, test loss {NUMBER}, test accuracy {NUMBER}%",
            out,
        )
        assert found, out
        epochs, n_trials, n_pruned = map(int, found.groups()[:3])
        assert 800 <= epochs < 850  # at most one trial too many
        if arm == "with fidelity":
            assert n_trials > 16
            assert 0 < n_pruned < n_trials
            # Epochs, or ranges of them, and how many trials ended there: "2: 7, 3-4: 1".
            assert len(re.findall(r"[\d-]+: \d+", found[4])) > 1, found[4]
        else:
            assert (n_trials, n_pruned) == (16, 0)
        assert re.search(rf"^{arm} +{NUMBER} +{epochs} +{NUMBER} +{NUMBER} ", out, re.MULTILINE)


# A single worker is the main thread, where an interrupt may get lost in scikit-learn.
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_prints_what_was_found_so_far_and_keeps_it(
    workers: str, tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path / 'a.db'}"
    with example("--budget", "9999", "--workers", workers, "--storage", storage) as process:
        assert process.stderr is not None
        progress, deadline = "", time.monotonic() + 60
        while not re.search(r"\b[1-9]\d*/", progress):  # a trial has ended
            assert time.monotonic() < deadline
            assert process.poll() is None, progress
            progress += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=60)
    assert process.returncode == 0, out + progress + rest
    assert "Traceback" not in rest
    assert "Interrupted; this is what was found so far." in out
    assert re.search(rf"estimate +validation loss {NUMBER}", out), out
    assert "really" not in out  # nobody wants to wait for that now
    study = optuna.load_study(study_name="multi_fidelity, with fidelity, seed 0", storage=storage)
    trials = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    assert f"trials       {len(trials)}," in out
    assert all(trial.user_attrs["pcts:cost"] == trial.last_step for trial in trials)
    assert all(trial.state.is_finished() for trial in study.trials)
