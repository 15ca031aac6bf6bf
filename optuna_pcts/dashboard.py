"""Live figures of a search in optuna-dashboard, and a note with its report.

It needs the extra ``dashboard``: ``pip install "optuna-pcts[dashboard]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
import re
import secrets
import threading
import time
from typing import Any

import optuna
from optuna._imports import try_import
from optuna.trial import FrozenTrial

from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.infos import INFOS
from optuna_pcts._analysis.report import report_of
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.tree_info import tree_info
from optuna_pcts._checks import check_number
from optuna_pcts._study.attributes import FIGURES_KEY
from optuna_pcts._study.sampler import PCTSSampler
from optuna_pcts.visualization._figures import DRAW_PLOTLY


with try_import() as _imports:
    from optuna_dashboard import get_note
    from optuna_dashboard import save_note
    from optuna_dashboard import save_plotly_graph_object
    import plotly.graph_objects  # noqa: F401  (for drawing; if missing, fail at once)


# The part of the note that is replaced: from its heading to the next one, or to the end.
_HEADING = "## Procrastinated tree search"
_PART = re.compile(rf"{re.escape(_HEADING)}\n.*?(?=^##? |\Z)", flags=re.DOTALL | re.MULTILINE)

# Smaller than for other figures: a storage takes them in pieces of 2 kB.
_MAX_CELLS = 120
_MAX_POINTS = 200
# At most this share of one worker's time is spent on drawing, however long a study gets.
_MAX_SHARE = 0.05

_logger = optuna.logging.get_logger(f"optuna.{__name__}")


class LiveFigures:
    """Keeps figures and a note about the search up to date in optuna-dashboard: a callback.

    The figures of :mod:`optuna_pcts.visualization` appear below those of the dashboard, and the
    study's note says in words and numbers what the search is doing. Other text in the note is
    kept. Depth, fidelity and delay of each trial are in the dashboard's table of trials, as the
    user attributes ``pcts:depth``, ``pcts:fidelity`` and ``pcts:delay``. :class:`PCTSSampler`
    writes them; the delay only in processes that have made such an object.

    Give it to every worker: the first to finish a trial when an update is due draws for all of
    them. If two draw at the very same time, the dashboard may keep an old figure until the next
    update. A failure to draw is logged, and never fails a trial or a study.

    Example:

        .. code-block:: python

            from optuna_pcts.dashboard import LiveFigures

            live = LiveFigures(every=30)
            study.optimize(objective, n_trials=1000, callbacks=[live])
            live.update(study)  # the last trials too

        and in a terminal ``optuna-dashboard sqlite:///study.db``.

    Args:
        every:
            Seconds from one update to the next, of all workers together. It is longer where an
            update takes long, so that it takes no more than a twentieth of one worker's time.
        figures:
            Which figures to keep: names out of "tree", "partition", "regret", "delays",
            "fidelity" and "cost". By default all of them. A figure for which a study has no data
            is left out.
        params:
            The two parameters of the partition. By default the first two by name.
        note:
            Whether to keep the note.

    Raises:
        ImportError:
            If optuna-dashboard or plotly is not installed.
    """

    def __init__(
        self,
        *,
        every: float = 30.0,
        figures: Sequence[str] | None = None,
        params: Sequence[str] | None = None,
        note: bool = True,
    ) -> None:
        _imports.check()
        check_number("every", every, low=0.0, open_low=False)
        chosen = list(INFOS) if figures is None else list(figures)
        unknown = sorted(set(chosen) - set(INFOS))
        if unknown or isinstance(figures, str):
            raise ValueError(f"`figures` must be names out of {list(INFOS)}, but got {figures!r}.")
        self._every = float(every)
        self._figures = chosen
        self._params = None if params is None else list(params)
        self._note = note
        self._next: dict[tuple[int, str], float] = {}  # by study, on the monotonic clock
        self._lock = threading.Lock()  # the threads of `n_jobs` share this object
        PCTSSampler.shows_delays = True

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Update the dashboard if it is time."""
        key = study._study_id, study.study_name
        if time.monotonic() < self._next.get(key, 0.0) or not self._lock.acquire(blocking=False):
            return
        try:
            wait = self._claim(study)
            if not wait:
                seconds = self.update(study)
                wait = max(self._every, seconds / _MAX_SHARE)
            self._next[key] = time.monotonic() + wait
        except Exception as error:  # no error in drawing may stop the study
            self._next[key] = time.monotonic() + self._every
            _logger.warning(f"The figures in the dashboard were not updated: {error!r}")
        finally:
            self._lock.release()

    def update(self, study: optuna.Study) -> float:
        """Draw everything now: at the end of a study, say, for the trials since the last time.

        Args:
            study:
                The study.

        Returns:
            The seconds of processor time that it took. (Not of wall clock, which on a busy
            machine includes the time of other processes.)
        """
        start = time.thread_time()
        source = Snapshot(study, params=self._params, max_cells=_MAX_CELLS, max_points=_MAX_POINTS)
        for name in self._figures:
            info = source.info(INFOS[name])
            if info is not None:
                figure = DRAW_PLOTLY[name](info)
                save_plotly_graph_object(study, figure, graph_object_id=f"pcts-{name}")
        if self._note:
            save_note(study, _with_part(get_note(study), _note_of(source)))
        seconds = time.thread_time() - start
        self._write_claim(study, seconds)
        return seconds

    def _claim(self, study: optuna.Study) -> float:
        """Return how many seconds to wait; 0 if this worker has claimed the update."""
        last = study._storage.get_study_system_attrs(study._study_id).get(FIGURES_KEY)
        if isinstance(last, dict):
            wait = max(self._every, float(last.get("seconds", 0.0)) / _MAX_SHARE)
            # The clocks of two machines may differ: a claim in the future counts by its distance.
            age = abs(time.time() - float(last.get("at", 0.0)))
            if age < wait:
                return wait - age
        token = self._write_claim(study)
        claim = study._storage.get_study_system_attrs(study._study_id).get(FIGURES_KEY)
        is_ours = isinstance(claim, dict) and claim.get("by") == token
        return 0.0 if is_ours else self._every

    def _write_claim(self, study: optuna.Study, seconds: float = 0.0) -> str:
        token = secrets.token_hex(4)
        claim: dict[str, Any] = {
            "at": round(time.time(), 3),
            "by": token,
            "seconds": round(seconds, 3),
        }
        study._storage.set_study_system_attr(study._study_id, FIGURES_KEY, claim)
        return token

    def __getstate__(self) -> dict[str, Any]:
        # A lock cannot be copied, and monotonic times of another process are meaningless.
        return {**self.__dict__, "_next": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        PCTSSampler.shows_delays = True


def _note_of(source: Snapshot) -> str:
    """Return what the search is doing, as Markdown."""
    found = report_of(source)
    lines = [_HEADING, "", _summary(source), ""]
    for name, texts in found.rows():
        if name.lower() not in found.missing:
            first, *others = map(_escaped, texts)
            lines.append(f"- **{name}:** {first}")
            lines += [f"  - {text}" for text in others]
    lines += ["", f"*Updated at {datetime.now():%Y-%m-%d %H:%M:%S}.*", ""]
    return "\n".join(lines)


def _summary(source: Snapshot) -> str:
    """Return a summary in one sentence."""
    tree, delays = source.info(tree_info), source.info(delay_info)
    n_in_flight, n_stale = len(source.in_flight), len(source.stale)
    parts = [f"{n_in_flight} {'trial is' if n_in_flight == 1 else 'trials are'} in flight"]
    if n_stale:
        parts.append(f"{n_stale} {'seems' if n_stale == 1 else 'seem'} lost")
    if tree is not None:
        parts.append(f"the tree is {tree.depth} deep")
    if delays is not None:
        parts.append(f"the delay of the feedback is {delays.regime}")
    found = source.recommendation
    if found is not None:
        low, high = found.interval
        parts.append(
            f"trial {found.number} is recommended, with a value between {low:.4g} and {high:.4g}"
        )
    return "; ".join(parts).capitalize() + "."


def _escaped(text: str) -> str:
    """Return a text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


def _with_part(note: str, part: str) -> str:
    """Return a note with our part replaced, or added at its end."""
    if _PART.search(note):
        return _PART.sub(lambda _: part, note, count=1)
    return f"{note.rstrip()}\n\n{part}".lstrip()
