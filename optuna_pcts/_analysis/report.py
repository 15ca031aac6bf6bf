"""A study in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import TrialState

from optuna_pcts._analysis.cost_info import cost_info
from optuna_pcts._analysis.cost_info import CostInfo
from optuna_pcts._analysis.delay_info import delay_info
from optuna_pcts._analysis.delay_info import DelayInfo
from optuna_pcts._analysis.fidelity_info import fidelity_info
from optuna_pcts._analysis.fidelity_info import FidelityInfo
from optuna_pcts._analysis.recommend import Recommendation
from optuna_pcts._analysis.snapshot import NextCell
from optuna_pcts._analysis.snapshot import Snapshot
from optuna_pcts._analysis.text import cell_line
from optuna_pcts._analysis.text import condition_lines
from optuna_pcts._analysis.text import cost_lines
from optuna_pcts._analysis.text import delay_lines
from optuna_pcts._analysis.text import numbers_text
from optuna_pcts._analysis.text import plain_json
from optuna_pcts._analysis.text import recommended_lines
from optuna_pcts._analysis.tree_info import tree_info
from optuna_pcts._analysis.tree_info import TreeInfo


# The parts of a report that may be missing, with the reason.
_PARTS: dict[str, Callable[[Snapshot], object]] = {
    "tree": tree_info,
    "delays": delay_info,
    "fidelity": fidelity_info,
    "cost": cost_info,
}


@dataclass(frozen=True)
class Report:
    """A study in words and numbers. Print it to read it; :meth:`to_dict` for programs.

    Parts for which a study has no data are :obj:`None`, with the reason in ``missing``.

    Attributes:
        study_name:
            Name of the study.
        direction:
            "minimize" or "maximize".
        n_trials:
            Number of trials.
        states:
            How many trials are in each state, in small letters.
        conditions:
            When each conditional parameter exists.
        tree:
            Depth, cells, trials asked and told.
        delays:
            How late feedback is.
        fidelity:
            How far trials were evaluated.
        cost:
            What they cost.
        in_flight:
            Numbers of the trials that run.
        stale:
            Numbers of the trials that run but count as lost.
        infeasible:
            Numbers of the trials that ended and violate a constraint.
        best:
            Number and value of Optuna's best trial, of those that are feasible.
        recommendation:
            The recommended configuration.
        next_cells:
            The cells that the tree asks for next, if nothing is told and centres are asked.
        missing:
            For each missing part, the reason.
    """

    study_name: str
    direction: str
    n_trials: int
    states: Mapping[str, int]
    conditions: Mapping[str, str]
    tree: TreeInfo | None
    delays: DelayInfo | None
    fidelity: FidelityInfo | None
    cost: CostInfo | None
    in_flight: tuple[int, ...]
    stale: tuple[int, ...]
    infeasible: tuple[int, ...]
    best: tuple[int, float] | None
    recommendation: Recommendation | None
    next_cells: tuple[NextCell, ...]
    missing: Mapping[str, str]

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return a heading and its lines for each part."""
        states = ", ".join(f"{n} {state}" for state, n in self.states.items())
        rows = [("Trials", [f"{self.n_trials:,} ({states})" if states else "none"])]
        if self.conditions:
            rows.append(("Conditional", condition_lines(self.conditions)))
        if self.tree is not None:
            t = self.tree
            rows.append(
                (
                    "Tree",
                    [
                        f"depth {t.depth}, {t.n_cells:,} cells; {t.n_asked:,} trials asked, "
                        f"{t.n_told:,} told back"
                    ],
                )
            )
        if self.delays is not None:
            rows.append(("Delays", delay_lines(self.delays)))
        if self.fidelity is not None:
            z = self.fidelity
            rows.append(
                (
                    "Fidelity",
                    [
                        f"{z.mean:.2f} on average, {100 * z.whole:.0f} % at full fidelity; "
                        f"{z.n_trials:,} trials amount to {z.work:.1f} full evaluations"
                    ],
                )
            )
        if self.cost is not None:
            rows.append(("Cost", cost_lines(self.cost)))
        rows.append(("In flight", [numbers_text(self.in_flight)]))
        rows.append(("Stale", [numbers_text(self.stale)]))
        if self.infeasible:
            none = "" if self.best is not None else "; no completed trial is feasible"
            rows.append(("Infeasible", [numbers_text(self.infeasible) + none]))
        if self.recommendation is not None:
            rows.append(("Recommended", recommended_lines(self.recommendation)))
        if self.best is not None:
            number, value = self.best
            rows.append(("Best trial", [f"{value:.6g} (trial {number}; biased under noise)"]))
        if self.next_cells:
            rows.append(("Next cells", [cell_line(cell) for cell in self.next_cells]))
        rows.extend((name.capitalize(), [f"- {why}"]) for name, why in self.missing.items())
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows) + 2
        lines = [f"Study {self.study_name} ({self.direction})", ""]
        for name, texts in rows:
            for i, text in enumerate(texts):
                lines.append(f"{'' if i else name:<{width}}{text}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON: no NaN and no infinity, no cells and no lists of trials."""
        result: dict[str, Any] = {
            "study": self.study_name,
            "direction": self.direction,
            "n_trials": self.n_trials,
            "states": dict(self.states),
            "conditions": dict(self.conditions),
            "in_flight": list(self.in_flight),
            "stale": list(self.stale),
            "infeasible": list(self.infeasible),
            "best": None if self.best is None else {"trial": self.best[0], "value": self.best[1]},
            "recommendation": None if self.recommendation is None else asdict(self.recommendation),
            "next_cells": [cell._asdict() for cell in self.next_cells],
            "missing": dict(self.missing),
        }
        result["tree"] = _numbers_of(self.tree, {"cells"})
        result["delays"] = _numbers_of(self.delays, {"seconds", "trials"})
        trials = {"numbers", "depths", "infeasible"}
        result["fidelity"] = _numbers_of(self.fidelity, {*trials, "fidelities"})
        result["cost"] = _numbers_of(self.cost, {*trials, "costs", "fit"})
        if self.cost is not None and self.cost.fit is not None:
            result["cost"]["models"] = [
                {"name": fitted.name, "support": fitted.support, **asdict(fitted.model)}
                for fitted in self.cost.fit.models
            ]
        plain: dict[str, Any] = plain_json(result)
        return plain


def report(study: optuna.Study, *, n_next: int = 3) -> Report:
    """Report what a study is doing, in words and numbers.

    Example:

        .. code-block:: python

            print(report(study))

    Args:
        study:
            A study with one objective, by whatever sampler.
        n_next:
            How many of the next cells to name.

    Returns:
        The report. The tree has the settings of the study's sampler if that is a
        :class:`PCTSSampler`, and the default ones otherwise.
    """
    return report_of(Snapshot(study), n_next=n_next)


def report_of(source: Snapshot, *, n_next: int = 3) -> Report:
    """Return the report of a snapshot."""
    study, trials = source.study, source.trials
    tree = source.info(tree_info)
    out = set(source.infeasible)
    complete = [t for t in trials if t.state == TrialState.COMPLETE and t.number not in out]
    best = max(complete, key=lambda t: source.sign * t.values[0], default=None)
    counts = Counter(trial.state.name.lower() for trial in trials)
    return Report(
        study_name=study.study_name,
        direction="maximize" if source.sign > 0 else "minimize",
        n_trials=len(trials),
        states=dict(counts.most_common()),
        conditions={} if tree is None else source.space.conditions,
        tree=tree,
        delays=source.info(delay_info),
        fidelity=source.info(fidelity_info),
        cost=source.info(cost_info),
        in_flight=source.in_flight,
        stale=source.stale,
        infeasible=source.infeasible,
        best=None if best is None else (best.number, best.values[0]),
        recommendation=source.recommendation,
        next_cells=() if tree is None else tuple(source.next_cells(n_next)),
        missing={name: source.missing[of] for name, of in _PARTS.items() if of in source.missing},
    )


def _numbers_of(info: Any, without: set[str]) -> dict[str, Any] | None:
    if info is None:
        return None
    return {name: value for name, value in info._asdict().items() if name not in without}
