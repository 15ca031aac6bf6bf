"""What a sampler says once, or each time."""

from __future__ import annotations

import optuna
from optuna.samplers import BaseSampler
from optuna.samplers._base import _INDEPENDENT_SAMPLING_WARNING_TEMPLATE
from optuna.trial import FrozenTrial


_logger = optuna.logging.get_logger(f"optuna.{__name__}")


class Notices:
    """What a sampler warns of."""

    def __init__(self) -> None:
        self._has_warned_of_failure = False

    def of_failure(self, error: Exception) -> None:
        """Warn, once, that asks around the best trials cannot be had from these values."""
        if not self._has_warned_of_failure:
            self._has_warned_of_failure = True
            _logger.warning(
                f"No point could be drawn from where the best one may be ({error!r}). The tree "
                "asks instead. This is a bug: please report it, with the values of the study."
            )

    def of_independence(
        self, trial: FrozenTrial, param_name: str, sampler: BaseSampler | None
    ) -> None:
        """Warn that a parameter is drawn blindly though it could be searched."""
        _logger.warning(
            _INDEPENDENT_SAMPLING_WARNING_TEMPLATE.format(
                param_name=param_name,
                trial_number=trial.number,
                independent_sampler_name=(
                    "uniform sampling" if sampler is None else type(sampler).__name__
                ),
                sampler_name="PCTSSampler",
                fallback_reason="it is not part of the search space",
            )
        )
