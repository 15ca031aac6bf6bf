"""How an objective gets its fidelity: the pruner ends it there, or it reads :func:`fidelity`."""

from __future__ import annotations

import math
import warnings

import optuna
from optuna.pruners import BasePruner
from optuna.trial import BaseTrial
from optuna.trial import FrozenTrial

from optuna_pcts._checks import check_integer
from optuna_pcts._study.attributes import record_use_of_fidelity
from optuna_pcts._study.attributes import recorded_proposal
from optuna_pcts._study.unwrap import sampler_of
from optuna_pcts._tree.fidelity import DepthFidelity
from optuna_pcts._tree.messages import Kind
from optuna_pcts._tree.messages import Proposal


# The lowest fidelity of an objective that sizes its own work, unless the settings say otherwise.
_LEAST_FIDELITY = 0.05


class PCTSPruner(BasePruner):
    """Ends a trial when it has reached the fidelity that :class:`PCTSSampler` gave it.

    The deeper the cell of a trial, the further it is evaluated. Nothing else is needed: with
    this pruner the sampler gives each trial a fidelity between ``min_resource / max_resource``
    and 1, and the usual ``trial.report(value, step)`` and ``trial.should_prune()`` do the rest.
    Under another sampler, which chooses no fidelities, no trial is pruned, with a warning.

    Steps mean what they mean for Optuna's ``HyperbandPruner``: step s is resource s, and a trial
    that is to stop at resource r does so at the first report with ``step >= r``.

    Args:
        max_resource:
            The step at which a trial is at full fidelity: the number of epochs, say.
        min_resource:
            The smallest step at which a trial may end.

    Raises:
        TypeError, ValueError:
            If an argument is not what it should be. The message names it.
    """

    def __init__(self, max_resource: int, min_resource: int = 1) -> None:
        check_integer("max_resource", max_resource)
        check_integer("min_resource", min_resource)
        if not 1 <= min_resource <= max_resource:
            raise ValueError(
                "`min_resource` must be at least 1 and at most `max_resource`, but got "
                f"min_resource={min_resource!r} and max_resource={max_resource!r}."
            )
        self._max_resource = max_resource
        self._min_resource = min_resource
        self._warned: set[str] = set()

    @property
    def max_resource(self) -> int:
        return self._max_resource

    @property
    def min_resource(self) -> int:
        return self._min_resource

    def last_step(self, fidelity: float) -> int:
        """Return the step at which a trial of a fidelity ends."""
        # 0.3 of 10 is 3 steps, although 0.3 * 10 may be a little more.
        step = math.ceil(fidelity * self._max_resource - 1e-9)
        return min(max(step, self._min_resource), self._max_resource)

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None:
            return False
        if step > self._max_resource:
            self._warn(
                "step",
                f"Trial {trial.number} reported step {step}, but `max_resource` is "
                f"{self._max_resource}. Fidelities are wrong: give the number of steps of a full "
                "evaluation.",
            )
        proposal = recorded_proposal(trial)
        if proposal is None and not _has_fidelities(study):
            self._warn(
                "sampler",
                f"PCTSPruner prunes nothing in a study whose sampler is {_name(study.sampler)}: "
                "only PCTSSampler chooses how far to evaluate a trial.",
            )
        if proposal is None or proposal.fidelity >= 1:
            return False
        return step >= self.last_step(proposal.fidelity)

    def _warn(self, about: str, message: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(message, stacklevel=4)


def _has_fidelities(study: optuna.Study) -> bool:
    """Whether the sampler of a study chooses fidelities."""
    # By a method that it has: this module cannot import the class.
    return hasattr(sampler_of(study), "finish")


def _name(thing: object) -> str:
    return type(thing).__name__


def fidelity(trial: BaseTrial) -> float:
    """Return how far to evaluate a trial, from 0 to 1: for an objective that sizes its own work.

    The value that the objective then returns counts at this fidelity. Read it once at the start,
    and use that share of the samples, queries, seconds::

        def objective(trial):
            n_samples = int(100 + fidelity(trial) * 6900)
            ...

    An objective that reports steps needs none of this, but a :class:`PCTSPruner`.

    Args:
        trial:
            The trial that is evaluated. For a finished trial, the fidelity that it was given; an
            ``optuna.trial.FixedTrial`` is always at full fidelity.

    Returns:
        At least ``DepthFidelity.minimum``. It is 1 for trials that the tree did not ask for: the
        first one, enqueued ones, and all trials of a study with another sampler (with a
        warning, since its search would take a value at low fidelity for one at full fidelity).
    """
    if isinstance(trial, FrozenTrial):
        proposal = recorded_proposal(trial)
        return 1.0 if proposal is None else proposal.fidelity
    if not isinstance(trial, optuna.Trial):
        if isinstance(trial, BaseTrial):
            return 1.0
        raise TypeError(f"`trial` must be an Optuna trial, but got {trial!r}.")
    storage = trial.study._storage
    trial.relative_params  # noqa: B018  (Optuna samples when the first parameter is asked for)
    # The sampler has written it into the storage, not into this object.
    frozen = storage.get_trial(trial._trial_id)
    proposal = recorded_proposal(frozen)
    if proposal is not None:
        record_use_of_fidelity(storage, frozen, proposal.fidelity)
        return proposal.fidelity
    if not _has_fidelities(trial.study):
        warnings.warn(
            f"`fidelity` was read in a study whose sampler is {_name(trial.study.sampler)}. Only "
            "PCTSSampler chooses fidelities; all trials are evaluated at full fidelity.",
            stacklevel=2,
        )
    return 1.0


def fidelity_of(
    trial: FrozenTrial,
    proposal: Proposal,
    pruner: BasePruner,
    settings: DepthFidelity,
    *,
    is_fixed: bool,
    is_last: bool,
) -> tuple[float, int | None]:
    """Decide how far a trial is evaluated.

    Args:
        trial:
            The trial.
        proposal:
            What is proposed for it.
        pruner:
            The pruner of the study.
        settings:
            What the user has chosen.
        is_fixed:
            Whether somebody has fixed parameters.
        is_last:
            Whether the study is about to end.

    Returns:
        The fidelity, and the steps of a full evaluation if the pruner knows them.
    """
    if is_fixed:  # enqueued, or a retry
        retried = recorded_proposal(trial)
        fidelity = 1.0 if retried is None else retried.fidelity
    elif is_last or settings.is_full(trial.number) or proposal.kind is Kind.ANSWER:
        fidelity = 1.0  # always around the posterior mean argmax
    else:
        fidelity = proposal.fidelity
    if not isinstance(pruner, PCTSPruner):
        least = _LEAST_FIDELITY if settings.minimum is None else settings.minimum
        return max(fidelity, least), None
    step = pruner.last_step(max(fidelity, settings.minimum or 0.0))
    return step / pruner.max_resource, pruner.max_resource
