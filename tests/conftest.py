"""Settings for all tests."""

from __future__ import annotations

from collections.abc import Iterator
import os

from hypothesis import settings
import optuna
import pytest


# A machine that is busy with something else must not fail a property. Continuous integration tries
# the same examples each time; everybody else's machine looks for new ones.
settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out a line of log per trial."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def optuna_log(
    caplog: pytest.LogCaptureFixture,
) -> Iterator[pytest.LogCaptureFixture]:
    """Capture what Optuna's logger says."""
    optuna.logging.enable_propagation()
    yield caplog
    optuna.logging.disable_propagation()
