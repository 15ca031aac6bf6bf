"""The numbers behind the figure of the delays: their tail, and their price (theorem 2)."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from optuna_pcts._analysis.delays import delays_of
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._study.stamps import clock


# The tail of the delays is their longest tenth, but at least 10; unknown with fewer than 50.
_TAIL_SHARE = 0.1
_TAIL_AT_LEAST = 10
_TAIL_NEEDS = 50
# Half width of a 95 % interval, in standard deviations.
_Z = 1.96


class DelayInfo(NamedTuple):
    """How late the feedback of a study is.

    By consequence 4 of the paper's theorem 2, a mean delay tau of O(log T) trials is *benign*:
    the price of the delay, ``1 + tau / log T``, is a constant. Delays whose tail decays like
    ``x^-alpha`` with alpha < 1 are *adversarial*: their mean grows like T^(1 - alpha), and so
    does the price. A study has a single T, so O(log T) is read as "at most log T": the price is
    at most 2, to the power of 1 / (d + 2). Other delays are *long*: a mean of more than log T
    with a light tail, whose price falls while the study goes on.
    """

    seconds: tuple[float, ...]  # of the finished trials
    trials: tuple[int, ...]  # of the same trials: how many others were asked in the meantime
    mean_seconds: float
    mean_trials: float
    longest_seconds: float
    log_t: float
    price: float  # 1 + tau / log T
    tail: float | None  # alpha; infinite if nothing is longer than the rest; None: too few
    tail_interval: tuple[float, float] | None  # 95 %
    tail_from: float  # seconds
    regime: str  # "benign", "adversarial" or "long"

    @property
    def verdict(self) -> str:
        """The regime in a sentence."""
        mean = f"a mean delay of {self.mean_trials:.3g} trials"
        if self.regime == "adversarial":
            assert self.tail is not None
            return (
                f"adversarial: the tail exponent of {self.tail:.2g} is below 1, so that the mean "
                "delay grows with the study"
            )
        if self.regime == "benign":
            return f"benign: {mean} is at most log T = {self.log_t:.3g}"
        return f"long: {mean} is more than log T = {self.log_t:.3g}, but its tail is not heavy"


def delay_info(source: Snapshot) -> DelayInfo:
    """Return how late feedback is; see :class:`DelayInfo`."""
    found = delays_of(source.trials)
    if not found:
        raise ValueError(
            f"The study `{source.study.study_name}` has no finished trial with time stamps, so "
            "that it has no delays."
        )
    seconds = [max(d.seconds, 0.0) for d in found]
    trials = [d.trials for d in found]
    # Trials in flight are censored delays; without them the longest would be missing. Up to the
    # newest time stamp, so that the result depends on the storage alone.
    in_flight = set(source.in_flight)
    stamps = [s for t in source.trials for s in (t.datetime_start, t.datetime_complete) if s]
    newest = max(map(clock, stamps))
    ages = [
        newest - clock(trial.datetime_start)
        for trial in source.trials
        if trial.number in in_flight and trial.datetime_start is not None
    ]
    tail, interval, tail_from = tail_exponent(seconds, ages)
    mean_trials = float(np.mean(trials))
    log_t = math.log(max(len(source.trials), 2))
    if interval is not None and interval[1] < 1:
        regime = "adversarial"
    else:
        regime = "benign" if mean_trials <= log_t else "long"
    return DelayInfo(
        seconds=tuple(seconds),
        trials=tuple(trials),
        mean_seconds=float(np.mean(seconds)),
        mean_trials=mean_trials,
        longest_seconds=max(seconds),
        log_t=log_t,
        price=1 + mean_trials / log_t,
        tail=tail,
        tail_interval=interval,
        tail_from=tail_from,
        regime=regime,
    )


def tail_exponent(
    finished: Sequence[float], running: Sequence[float] = ()
) -> tuple[float | None, tuple[float, float] | None, float]:
    """Estimate alpha of a tail ``P(delay > x) ~ x^-alpha`` (Hill's estimator).

    Args:
        finished:
            Delays.
        running:
            Censored delays, of trials still in flight: each is at least so long.

    Returns:
        The exponent and its 95 % interval, None and None if there are too few delays; and where
        the tail begins.
    """
    ended = np.array([x for x in finished if x > 0])
    open_ = np.array([x for x in running if x > 0])
    both = np.sort(np.concatenate([ended, open_]))
    n = len(both)
    if n < _TAIL_NEEDS:
        return None, None, 0.0
    start = float(both[-1 - max(_TAIL_AT_LEAST, int(_TAIL_SHARE * n))])
    k = int(np.count_nonzero(ended > start))
    total = float(np.log(both[both > start] / start).sum())
    if not k or total <= 0:
        # All delays are equal: no tail. Or all of the tail is still in flight: unknown.
        return (None, None, start) if len(open_) else (math.inf, (math.inf, math.inf), start)
    alpha = k / total
    spread = _Z / math.sqrt(k)
    return alpha, (alpha * max(1 - spread, 0.0), alpha * (1 + spread)), start
