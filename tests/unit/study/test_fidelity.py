"""Fidelity: by depth, enforced by the pruner, read by the objective, with a learned bias."""

from __future__ import annotations

from collections.abc import Callable
import math
import pickle
from typing import Any
import warnings

from helpers import new_trial
from helpers import propose
from helpers import tree_of
from helpers import UNIT
import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.pruners import HyperbandPruner
from optuna.pruners import MedianPruner
from optuna.pruners import NopPruner
from optuna.pruners import PatientPruner
from optuna.pruners import PercentilePruner
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import BaseSampler
from optuna.samplers import PartialFixedSampler
from optuna.samplers import RandomSampler
from optuna.samplers import TPESampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
import pytest

from optuna_pcts import CostBudget
from optuna_pcts import DepthFidelity
from optuna_pcts import DUCBV
from optuna_pcts import fidelity
from optuna_pcts import LinearBias
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import Smoothness
from optuna_pcts._space.space import SearchSpace
from optuna_pcts._study.attributes import PROPOSAL_KEY
from optuna_pcts._study.history import History
from optuna_pcts._tree.fidelity import BiasModel
from optuna_pcts._tree.messages import Feedback
from optuna_pcts._tree.tree import Tree


STEPS = 27
SPACE: dict[str, BaseDistribution] = {"x": UNIT, "y": UNIT}


def loss(x: float, y: float, z: float = 1.0) -> float:
    """Return a learning curve: it falls from its start to (x - 0.3)^2 + (y - 0.6)^2."""
    return (x - 0.3) ** 2 + (y - 0.6) ** 2 + 0.5 * (1 - z) ** 2


def train(
    curve: Callable[..., float] = loss, steps: int = STEPS, noise: float = 0.0, seed: int = 0
) -> Callable[[optuna.Trial], float]:
    """Return an ordinary Optuna training loop."""
    rng = np.random.default_rng(seed)

    def objective(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, 0, 1) for name in ("x", "y"))
        value = math.nan
        for step in range(1, steps + 1):
            value = curve(x, y, step / steps) + noise * rng.normal()
            trial.report(value, step)
            if step < steps and trial.should_prune():
                break
        trial.set_user_attr("pcts:cost", step)
        if step < steps:
            raise optuna.TrialPruned
        return value

    return objective


def run(
    n_trials: int = 60,
    objective: Callable[[optuna.Trial], float] | None = None,
    pruner: BasePruner | None = None,
    sampler: PCTSSampler | None = None,
    **options: Any,
) -> optuna.Study:
    study = optuna.create_study(
        sampler=sampler or PCTSSampler(seed=0), pruner=pruner or PCTSPruner(STEPS), **options
    )
    study.optimize(objective or train(), n_trials=n_trials)
    return study


def reached(trial: FrozenTrial) -> float:
    return (trial.last_step or 0) / STEPS


def feedback(study: optuna.Study) -> dict[int, Feedback]:
    history = History(study)
    history.update(None)
    return {f.number: f for f in history.replay()}


# ---------------------------------------------------------------------- by depth


def test_with_a_known_bias_the_fidelity_is_the_formula_of_the_paper() -> None:
    """z_h = 1 - nu rho^h / C for zeta(z) = C (1 - z), in units of the reward."""
    tree = Tree(
        SearchSpace({"x": UNIT}),
        DUCBV(),
        Smoothness(0.5, 0.8).instances,
        bias=BiasModel(LinearBias(scale=4.0)),
    )
    for number, value in enumerate((0.0, 1.0, 3.0)):  # one reward is 3 - 1 = 2
        tree.place(number, [number / 3 + 0.1])
        tree.tell(number, value)
    tree.refresh()
    for depth in range(20):
        assert tree.fidelity(depth, n_active=1) == pytest.approx(1 - 2 * 0.5 * 0.8**depth / 4)


def test_fidelity_increases_with_depth_and_the_pruner_ends_the_trial() -> None:
    bias = LinearBias(scale=0.1)
    study = run(
        100,
        sampler=PCTSSampler(
            seed=0,
            smoothness=Smoothness(nu=0.5, rho=0.9),
            fidelity=DepthFidelity(bias=bias, full_share=0.0),
        ),
    )
    trials = [t for t in study.trials if "pcts:fidelity" in t.user_attrs]
    assert len(trials) >= 95
    for t in trials:
        z = t.user_attrs["pcts:fidelity"]
        assert 1 / STEPS <= z <= 1
        assert reached(t) == z
        assert (t.state == TrialState.COMPLETE) == (z == 1)
    late = trials[50:]  # the scale, and with it the formula, changes less and less
    by_depth = sorted((t.user_attrs["pcts:depth"], t.user_attrs["pcts:fidelity"]) for t in late)
    assert len({z for _, z in by_depth}) >= 4
    depths, fidelities = zip(*by_depth)
    assert np.corrcoef(depths, fidelities)[0, 1] > 0.5


def test_full_share_is_evaluated_at_full_fidelity() -> None:
    for share, n_full in ((0.0, 0), (0.25, 15), (1.0, 60)):
        depth_fidelity = DepthFidelity(full_share=share, bias=LinearBias(scale=1e3))
        tiny = Smoothness(nu=1e9, rho=0.5)  # so large a diameter that the lowest fidelity does
        n_at_full = []
        for local_share in (0.0, 0.9):
            sampler = PCTSSampler(
                seed=0, fidelity=depth_fidelity, smoothness=tiny, search_space=SPACE,
                local_share=local_share,
            )  # fmt: skip
            study = run(60, sampler=sampler)
            n_at_full.append(sum(t.state == TrialState.COMPLETE for t in study.trials))
        assert n_at_full[0] == n_full
        if share < 1:  # and those around the posterior mean argmax
            assert n_full + 3 <= n_at_full[1] <= n_full + 40


def test_the_last_trials_are_at_full_fidelity_around_the_best() -> None:
    for n_trials, options in ((80, DepthFidelity(n_trials=80)), (400, None)):
        study = optuna.create_study(
            sampler=PCTSSampler(seed=0, fidelity=options), pruner=PCTSPruner(STEPS)
        )
        callbacks = [] if options else [CostBudget(budget=25 * STEPS)]
        study.optimize(train(noise=0.01), n_trials=n_trials, callbacks=callbacks)
        assert len(study.trials) < 400
        last = study.trials[-2:] if options is None else study.trials[-8:]
        assert all(t.state == TrialState.COMPLETE for t in last)
        assert np.mean([loss(**t.params) for t in last]) < 0.05
        assert any(t.state == TrialState.PRUNED for t in study.trials)


def test_a_larger_budget_allows_low_fidelities_again() -> None:
    sampler = PCTSSampler(seed=0)
    study = optuna.create_study(sampler=sampler, pruner=PCTSPruner(STEPS))
    study.optimize(train(), n_trials=200, callbacks=[CostBudget(budget=10 * STEPS)])
    assert sampler._is_finishing
    study.optimize(train(), n_trials=30, callbacks=[CostBudget(budget=1000 * STEPS)])
    assert not sampler._is_finishing
    assert any(t.state == TrialState.PRUNED for t in study.trials[-25:])


def test_enqueued_trials_are_at_full_fidelity() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0), pruner=PCTSPruner(STEPS))
    study.optimize(train(), n_trials=20)
    study.enqueue_trial({"x": 0.5, "y": 0.5})
    study.enqueue_trial({"x": 0.5})
    study.optimize(train(), n_trials=2)
    assert [t.state for t in study.trials[-2:]] == [TrialState.COMPLETE] * 2


def test_a_retried_trial_keeps_its_fidelity() -> None:
    study = run(21)
    low = next(t for t in reversed(study.trials) if t.state == TrialState.PRUNED)
    study.add_trial(
        optuna.create_trial(
            state=TrialState.WAITING,
            system_attrs={**low.system_attrs, "fixed_params": low.params},
        )
    )
    study.optimize(train(), n_trials=1)
    assert study.trials[-1].params == low.params
    assert study.trials[-1].last_step == low.last_step


@pytest.mark.parametrize("resources", [(1, 1), (9, 9), (81, 3)])
def test_resources_are_limits(resources: tuple[int, int]) -> None:
    most, least = resources
    study = run(40, train(steps=most), PCTSPruner(max_resource=most, min_resource=least))
    assert all(least <= (t.last_step or 0) <= most for t in study.trials)
    assert all(t.state == TrialState.COMPLETE for t in study.trials if t.last_step == most)


def test_steps_that_start_at_zero_or_skip_some() -> None:
    """As for Optuna's Hyperband: a trial ends at the first step that is not below its resource."""

    def objective(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, 0, 1) for name in ("x", "y"))
        for epoch in range(0, STEPS, 2):
            trial.report(loss(x, y, (epoch + 1) / STEPS), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return loss(x, y)

    study = run(80, objective)
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert len(pruned) > 20
    for t in pruned:
        resource = t.user_attrs["pcts:fidelity"] * STEPS
        assert resource <= (t.last_step or 0) < resource + 2


# ---------------------------------------------------------------------- sized by the objective


def sized(curve: Callable[..., float] = loss) -> Callable[[optuna.Trial], float]:
    def objective(trial: optuna.Trial) -> float:
        z = fidelity(trial)
        assert fidelity(trial) == z  # again
        x, y = (trial.suggest_float(name, 0, 1) for name in ("x", "y"))
        trial.set_user_attr("z", z)
        return curve(x, y, z)

    return objective


def test_an_objective_that_sizes_its_own_work_counts_at_its_fidelity(
    storage: BaseStorage,
) -> None:
    study = run(40, sized(), NopPruner(), storage=storage)
    told = feedback(study)
    given = [t.user_attrs["z"] for t in study.trials]
    assert len(set(given)) >= 4
    assert min(given) == 0.05
    for t in study.trials:
        assert t.state == TrialState.COMPLETE
        assert told[t.number].fidelity == t.user_attrs["z"] == fidelity(t)
        assert t.user_attrs.get("pcts:fidelity", 1.0) == t.user_attrs["z"]
    assert told[recommend(study).number].fidelity == 1


def test_full_share_holds_for_objectives_that_size_their_own_work() -> None:
    sampler = PCTSSampler(seed=0, fidelity=DepthFidelity(minimum=0.2, full_share=0.5))
    study = run(40, sized(), NopPruner(), sampler)
    given = [t.user_attrs["z"] for t in study.trials]
    assert 20 <= given.count(1.0) <= 30
    assert min(given) >= 0.2


def test_fidelity_of_fixed_and_finished_trials() -> None:
    assert fidelity(optuna.trial.FixedTrial({})) == 1.0
    assert fidelity(optuna.create_trial(value=1.0)) == 1.0
    with pytest.raises(TypeError, match="`trial`"):
        fidelity("trial")  # type: ignore[arg-type]


def test_fidelity_outside_of_a_pcts_study_warns_and_is_full() -> None:
    study = optuna.create_study(sampler=TPESampler(seed=0))
    with pytest.warns(UserWarning, match="TPESampler"):
        assert fidelity(study.ask()) == 1.0
    wrapped = PartialFixedSampler({"x": 0.5}, PCTSSampler(seed=0))
    study = optuna.create_study(sampler=wrapped)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(sized(), n_trials=10)
    assert len({t.user_attrs["z"] for t in study.trials}) > 1


# ---------------------------------------------------------------------- feedback at its fidelity


def ask_and_report(study: optuna.Study, values: dict[int, float]) -> optuna.Trial:
    trial = study.ask(SPACE)
    for step, value in values.items():
        trial.report(value, step)
    return trial


def test_running_trials_count_with_what_they_have_reported_so_far(storage: BaseStorage) -> None:
    sampler = PCTSSampler(seed=0, search_space=SPACE)
    study = optuna.create_study(storage=storage, sampler=sampler, pruner=PCTSPruner(10))
    slow = ask_and_report(study, {1: 5.0})
    study.ask(SPACE)
    trials = tree_of(sampler)._trials
    assert (trials.value[0], trials.fidelity[0], trials.ended[0]) == (-5.0, 0.1, False)
    slow.report(4.0, 2)
    study.ask(SPACE)
    assert (trials.value[0], trials.fidelity[0], trials.ended[0]) == (-4.0, 0.2, False)
    assert tree_of(sampler).n_told == 1
    study.tell(slow, 3.0)
    study.ask(SPACE)
    assert (trials.value[0], trials.fidelity[0], trials.ended[0]) == (-3.0, 1.0, True)
    assert tree_of(sampler).n_told == 1


def test_reports_that_cannot_be_trusted() -> None:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.tell(ask_and_report(study, {5: 1.0, 10: 0.5}), 0.5)  # shows: 10 steps
    out_of_order = ask_and_report(study, {8: 2.0, 3: 7.0})
    study.tell(out_of_order, state=TrialState.PRUNED)
    diverged = ask_and_report(study, {2: 1.0, 4: math.nan})
    study.tell(diverged, state=TrialState.PRUNED)
    gap = ask_and_report(study, {2: 1.0, 4: math.nan, 6: 3.0})
    study.tell(gap, state=TrialState.PRUNED)
    running = ask_and_report(study, {2: 1.0, 4: math.nan})
    nothing = ask_and_report(study, {1: math.nan})
    with pytest.warns(UserWarning, match="already reported"):
        running.report(9.0, 2)  # Optuna keeps the first
    told = feedback(study)
    assert (told[1].value, told[1].fidelity) == (-2.0, 0.8)
    assert math.isnan(told[2].value)  # the worst: it went wrong
    assert (told[3].value, told[3].fidelity) == (-3.0, 0.6)
    assert (told[running.number].value, told[running.number].fidelity) == (-1.0, 0.2)
    assert math.isnan(told[nothing.number].value)


def test_a_trial_that_diverges_is_ended_at_its_fidelity_and_counts_as_failed() -> None:
    fidelity = DepthFidelity(bias=LinearBias(scale=0.0))
    sampler = PCTSSampler(seed=0, fidelity=fidelity, local_share=0.0)
    study = run(30, sampler=sampler)
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    trial.suggest_float("y", 0, 1)
    step = 0
    while not trial.should_prune() and step < STEPS:
        step += 1
        trial.report(math.nan, step)
    assert step < STEPS
    study.tell(trial, state=TrialState.PRUNED)
    study.ask()
    assert math.isnan(tree_of(sampler)._trials.value[trial.number])


def test_a_pruned_trial_never_counts_at_full_fidelity() -> None:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    for step in (0, 7):  # nobody has completed one, so nobody knows
        study.tell(ask_and_report(study, {step: -9.0}), state=TrialState.PRUNED)
    assert max(f.fidelity for f in feedback(study).values()) < 1
    study.tell(ask_and_report(study, {7: 1.0}), 1.0)
    study.tell(ask_and_report(study, {7: -5.0}), state=TrialState.PRUNED)
    assert [f.fidelity < 1 for f in feedback(study).values()] == [True, True, False, True]
    assert recommend(study).number == 2


def test_a_max_resource_that_is_too_small_is_warned_of_once() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0), pruner=PCTSPruner(max_resource=5))
    with pytest.warns(UserWarning, match=r"step 6.*`max_resource` is 5") as caught:
        study.optimize(train(steps=20), n_trials=30)
    assert len([w for w in caught if "max_resource" in str(w.message)]) == 1
    told = feedback(study)
    whole = [t for t in study.trials if t.state == TrialState.COMPLETE]
    assert all(told[t.number].fidelity == 1 for t in whole)
    assert all((t.last_step or 0) <= 5 for t in study.trials if t not in whole)
    assert loss(**recommend(study).params) < 0.1


@pytest.mark.parametrize(
    "sampler", [RandomSampler(seed=0), PartialFixedSampler({"x": 0.5}, RandomSampler(seed=0))]
)
def test_a_pruner_without_its_sampler_does_nothing_and_says_so_once(sampler: BaseSampler) -> None:
    study = optuna.create_study(sampler=sampler, pruner=PCTSPruner(STEPS))
    name = type(sampler).__name__
    with pytest.warns(UserWarning, match=f"prunes nothing .* whose sampler is {name}") as caught:
        study.optimize(train(), n_trials=10)
    assert len([w for w in caught if "prunes nothing" in str(w.message)]) == 1
    assert caught[0].filename == __file__
    assert all(t.state == TrialState.COMPLETE for t in study.trials)


def test_wrapped_sampler_and_pruner_find_each_other() -> None:
    sampler = PCTSSampler(seed=0)
    for wrapped in (
        PartialFixedSampler({}, sampler),
        PartialFixedSampler({}, PartialFixedSampler({"x": 0.3}, sampler)),
    ):
        sampler.finish(False)
        pruner = PatientPruner(PCTSPruner(STEPS), patience=0)
        study = optuna.create_study(sampler=wrapped, pruner=pruner)
        study.optimize(train(), n_trials=80, callbacks=[CostBudget(budget=10 * STEPS)])
        assert sampler._is_finishing
        assert {t.system_attrs[PROPOSAL_KEY]["max_resource"] for t in study.trials[1:]} == {STEPS}


def test_malformed_attributes_are_full_fidelity() -> None:
    study = run(10)
    trial = study.ask(SPACE)
    attributes: list[Any] = [{"depth": 1, "point": {}, "fidelity": "low"}, {"fidelity": -1}, 7]
    for attribute in attributes:
        study._storage.set_trial_system_attr(trial._trial_id, "optuna_pcts:cell", attribute)
        trial.report(1.0, (trial._get_latest_trial().last_step or 0) + 1)
        assert not trial.should_prune()
        assert fidelity(trial) == 1.0


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_a_live_and_a_fresh_sampler_agree(storage: BaseStorage, n_jobs: int) -> None:
    live = PCTSSampler(seed=1)
    study = optuna.create_study(storage=storage, sampler=live, pruner=PCTSPruner(9))
    study.optimize(train(noise=0.05, steps=9), n_trials=30, n_jobs=n_jobs)
    study.tell(ask_and_report(study, {3: 0.5}), state=TrialState.PRUNED)
    ask_and_report(study, {3: 0.5})
    fresh = pickle.loads(pickle.dumps(live))
    trial_id = new_trial(study)
    assert propose(fresh, study, trial_id) == propose(live, study, trial_id)
    ours, theirs = tree_of(live), tree_of(fresh)
    assert [ours.fidelity(h, 2) for h in range(9)] == [theirs.fidelity(h, 2) for h in range(9)]
    assert ours._nodes.bias[0] == pytest.approx(theirs._nodes.bias[0])
    assert ours._nodes.total[0] == pytest.approx(theirs._nodes.total[0])


# ---------------------------------------------------------------------- the bias


def biased_loss(x: float, y: float, z: float = 1.0) -> float:
    """Return a loss with its optimum at (0.8, 0.3), and at low fidelity at (0.2, 0.7)."""
    false_optimum = 4.0 * math.exp(-((x - 0.2) ** 2 + (y - 0.7) ** 2) / 0.1)
    return 3 * ((x - 0.8) ** 2 + (y - 0.3) ** 2) - (1 - z) * false_optimum


def test_ignoring_the_bias_misleads_and_learning_it_does_not() -> None:
    wrong, regret = {}, {}
    for name, bias in (("ignored", LinearBias(scale=0.0)), ("learned", None)):
        near, found = [], []
        for seed in range(6):
            # Points off the centre are misled less often, whatever the bias.
            sampler = PCTSSampler(seed=seed, point="center", fidelity=DepthFidelity(bias=bias))
            study = optuna.create_study(sampler=sampler, pruner=PCTSPruner(STEPS))
            objective = train(biased_loss, noise=0.02, seed=seed)
            study.optimize(objective, n_trials=999, callbacks=[CostBudget(budget=25 * STEPS)])
            gaps = [abs(t.params["x"] - 0.2) + abs(t.params["y"] - 0.7) for t in study.trials]
            near.append(np.mean(np.array(gaps) < 0.4))
            found.append(biased_loss(**recommend(study).params))
        wrong[name], regret[name] = float(np.median(near)), float(np.mean(found))
    assert wrong["ignored"] > 0.5  # of the trials are at the false optimum
    assert wrong["learned"] < 0.2
    assert regret["learned"] < 0.5 * regret["ignored"]


# ---------------------------------------------------------------------- other pruners, errors


@pytest.mark.parametrize(
    "pruner",
    [
        HyperbandPruner(min_resource=1, max_resource=STEPS, reduction_factor=3),
        HyperbandPruner(),
        SuccessiveHalvingPruner(),
        MedianPruner(n_startup_trials=5),
        PercentilePruner(25.0),
        NopPruner(),
    ],
    ids=lambda pruner: type(pruner).__name__,
)
def test_other_pruners(pruner: BasePruner) -> None:
    sampler = PCTSSampler(seed=0)
    study = run(80, train(noise=0.01), pruner, sampler)
    told = feedback(study)
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert bool(pruned) != isinstance(pruner, NopPruner)
    for t in study.trials:
        assert "pcts:fidelity" not in t.user_attrs
        expected = reached(t) if t.state == TrialState.PRUNED else 1.0
        assert told[t.number].fidelity == pytest.approx(expected, abs=1 / STEPS)
    assert loss(**recommend(study).params) < 0.05
    assert tree_of(sampler).n_told >= 79 - 80 // 10


def test_without_a_pruner_and_without_reports_all_is_full_fidelity() -> None:
    study = optuna.create_study(sampler=PCTSSampler(seed=0))
    study.optimize(
        lambda t: loss(t.suggest_float("x", 0, 1), t.suggest_float("y", 0, 1)), n_trials=30
    )
    assert {f.fidelity for f in feedback(study).values()} == {1.0}
    assert not any("pcts:fidelity" in t.user_attrs for t in study.trials)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_resource": 0}, "max_resource"),
        ({"max_resource": 5, "min_resource": 6}, "min_resource"),
        ({"max_resource": 5, "min_resource": 0}, "min_resource"),
        ({"max_resource": 2.5}, "max_resource"),
        ({"max_resource": True}, "max_resource"),
    ],
)
def test_wrong_resources(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        PCTSPruner(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"minimum": -0.1}, "minimum"),
        ({"minimum": 1.1}, "minimum"),
        ({"full_share": 2}, "full_share"),
        ({"n_trials": 0}, "n_trials"),
        ({"n_trials": 1.5}, "n_trials"),
        ({"bias": 0.5}, "bias"),
        ({"bias": lambda z: z}, "increase"),
        ({"bias": lambda z: -1.0}, "negative"),
        ({"bias": lambda z: math.nan}, "finite"),
    ],
)
def test_wrong_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        DepthFidelity(**arguments)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="`fidelity`"):
        PCTSSampler(fidelity=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`scale`"):
        LinearBias(scale=-1.0)
