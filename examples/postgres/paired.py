"""Two configurations measured in alternation, so that load on the machine affects both alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import statistics

from examples.postgres.evaluator import Evaluator
from examples.postgres.evaluator import Measurement
from examples.postgres.knobs import Configuration


@dataclass(frozen=True)
class Paired:
    """Full runs of the default and of the found configuration, pair by pair."""

    default: list[Measurement]
    found: list[Measurement]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast the found configuration is, in each pair."""
        return [a.estimate / b.estimate for a, b in zip(self.default, self.found)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def __str__(self) -> str:
        before, after = (
            statistics.median(m.estimate for m in side) for side in (self.default, self.found)
        )
        return (
            f"default {before:.2f} s, found {after:.2f} s: {self.ratio:.2f} times as fast "
            f"(median of {len(self.ratios)} pairs; {min(self.ratios):.2f} to "
            f"{max(self.ratios):.2f})"
        )


def full_run(evaluator: Evaluator, configuration: Configuration) -> Measurement:
    """Return the measurement of the whole workload.

    Raises:
        ConfigError:
            If the configuration fails.
    """
    *_, last = evaluator.measure(configuration)
    return last


def measure_pairs(
    evaluator: Evaluator,
    found: Configuration,
    *,
    n_pairs: int,
    on_run: Callable[[], object] = lambda: None,
) -> Paired:
    """Measure the default and a configuration in alternation.

    Args:
        evaluator:
            What measures.
        found:
            The configuration.
        n_pairs:
            How often each is run.
        on_run:
            Called after each run.
    """
    paired = Paired([], [])
    for _ in range(n_pairs):
        sides = ((paired.default, evaluator.knobs.defaults), (paired.found, found))
        for side, configuration in sides:
            side.append(full_run(evaluator, configuration))
            on_run()
    return paired
