"""Conditions learned from which trials have which parameters.

A parameter that some trials lack may depend on a discrete one: it has been seen with some of its
values only. Of all such parents the one is taken that explains best where the parameter is and
where not, if it does so better than the price of saying which values these are (a minimum
description length). Where trials still lack the parameter, a second parent is sought among these,
and a third. What no parent explains (a condition on a float, chance, an early return) is no
condition: the parameter is optional, and searched everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from optuna_pcts._space.axes import axis_of
from optuna_pcts._space.axes import DiscreteAxis
from optuna_pcts._space.conditions import Clause
from optuna_pcts._space.conditions import Condition
from optuna_pcts._space.conditions import is_parent


# A condition has so many parents of its own at most, besides theirs.
_MAX_CLAUSES = 3
# Where a parameter is no more often than this, it is by accident: in somebody else's trial, say.
_ACCIDENT = 0.05
# What a second parent must explain beyond its price, in nats: it may be so by chance.
_DOUBT = 2.0

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]


class _Candidate(NamedTuple):
    """A parameter that others may depend on."""

    name: str
    axis: DiscreteAxis
    codes: IntArray  # slot of each trial; -1 where it lacks the parameter
    n_trials: int  # that have it


class _Explanation(NamedTuple):
    """What one parent says about where a parameter is."""

    gain: float  # in nats, its price not subtracted
    price: float
    parent: _Candidate
    slots: IntArray  # those that were seen
    allowed: BoolArray  # which of them allow the parameter


def learn_conditions(
    rows: Sequence[Mapping[str, Any]],
    distributions: Mapping[str, BaseDistribution],
    others: Sequence[str] = (),
) -> dict[str, Condition]:
    """Return the conditions that explain which trials have which parameters.

    Args:
        rows:
            The parameters of each trial.
        distributions:
            Those to explain; of these, what is discrete may be a parent.
        others:
            Parameters to explain that are no parents.
    """
    names = sorted([*distributions, *others])
    has = np.array([[name in row for name in names] for row in rows], dtype=bool)
    has = has.reshape(len(rows), len(names))
    counts = has.sum(axis=0)
    conditional = [i for i in range(len(names)) if 0 < counts[i] < len(rows)]
    if not conditional:
        return {}
    candidates = []
    for name, count in zip(names, counts.tolist()):
        if count and name in distributions and is_parent(name, distributions[name]):
            axis = axis_of(name, distributions[name])
            assert isinstance(axis, DiscreteAxis)
            codes = np.array([_slot(axis, row, name) for row in rows], dtype=np.intp)
            candidates.append(_Candidate(name, axis, codes, count))
    n_values = {c.name: c.axis.n_values for c in candidates}
    conditions: dict[str, Condition] = {}
    known: dict[bytes, Condition] = {}  # parameters of the same trials have the same condition
    for i in sorted(conditional, key=lambda i: -counts[i]):  # parents first
        key = has[:, i].tobytes()
        if key not in known:
            known[key] = _explain(has[:, i], candidates)
        # That a parent exists says something only if it does not always.
        clauses = tuple(
            clause
            for clause in known[key]
            if len(clause.slots) < n_values[clause.parent] or clause.parent in conditions
        )
        if clauses:
            conditions[names[i]] = clauses
    return conditions


def _slot(axis: DiscreteAxis, row: Mapping[str, Any], name: str) -> int:
    slot = axis.index(row[name]) if name in row else None
    return -1 if slot is None else slot


def _explain(has: BoolArray, candidates: Sequence[_Candidate]) -> Condition:
    """Return the condition of a parameter that these trials have."""
    clauses: list[Clause] = []
    among, doubt = np.ones(len(has), dtype=bool), 0.0
    parents = [c for c in candidates if c.n_trials > np.count_nonzero(has)]
    while parents and len(clauses) < _MAX_CLAUSES and not has[among].all():
        found = [e for c in parents if (e := _explanation(has, c, among)) is not None]
        found = [e for e in found if e.gain > e.price + doubt]
        if not found:
            break
        # As good: one that more trials have, as the parent's parent is; then the simplest.
        best = min(
            found, key=lambda e: (-round(e.gain, 6), -e.parent.n_trials, e.price, e.parent.name)
        )
        slots = _allowed_slots(best)
        clauses.append(Clause(best.parent.name, slots))
        parents = [c for c in parents if c is not best.parent]
        among &= np.isin(best.parent.codes, list(slots))
        doubt = _DOUBT
    return tuple(sorted(clauses, key=lambda clause: clause.parent))


def _explanation(has: BoolArray, parent: _Candidate, among: BoolArray) -> _Explanation | None:
    """Return what a parent says about some trials; None if the parameter is without it."""
    known = parent.codes >= 0
    with_it = has & among
    n_with = np.count_nonzero(with_it)
    if np.count_nonzero(with_it & ~known) > _ACCIDENT * n_with:
        return None
    # A trial without the parent is one of those that the condition explains.
    codes = np.where(known, parent.codes, -1)[among]
    slots, inverse = np.unique(codes, return_inverse=True)
    n = np.bincount(inverse)
    n_has = np.bincount(inverse, weights=has[among])
    allowed = (n_has > _ACCIDENT * n) & (slots >= 0)
    if allowed.all():
        return None
    inside = _log_likelihood(float(n_has[allowed].sum()), float(n[allowed].sum()))
    outside = _log_likelihood(float(n_has[~allowed].sum()), float(n[~allowed].sum()))
    gain = inside + outside - _log_likelihood(float(n_has.sum()), float(n.sum()))
    is_value = slots >= 0
    k, k_allowed = int(np.count_nonzero(is_value)), int(np.count_nonzero(allowed))
    if parent.axis.n_categories:
        price = math.lgamma(k + 1) - math.lgamma(k_allowed + 1) - math.lgamma(k - k_allowed + 1)
    else:
        n_changes = int(np.count_nonzero(np.diff(allowed[is_value])))
        price = n_changes * math.log(max(k, 1))
    return _Explanation(gain, price, parent, slots[is_value], allowed[is_value])


def _log_likelihood(k: float, n: float) -> float:
    """Return that of k of n trials having a parameter, each as probably as it is frequent."""
    if k <= 0 or k >= n:
        return 0.0
    return k * math.log(k / n) + (n - k) * math.log(1 - k / n)


def _allowed_slots(found: _Explanation) -> frozenset[int]:
    """Return the slots that allow the parameter, those among them that nobody has seen.

    A category that was never seen is a branch of its own. A number goes with the next larger one
    that was seen, or else with the largest: that holds when another one of the kind comes.
    """
    slots, allowed = found.slots, found.allowed
    if found.parent.axis.n_categories:
        return frozenset(slots[allowed].tolist())
    following = np.searchsorted(slots, np.arange(found.parent.axis.n_values))
    allows = allowed[np.minimum(following, len(slots) - 1)]
    return frozenset(np.flatnonzero(allows).tolist())
