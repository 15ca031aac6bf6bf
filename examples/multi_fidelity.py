"""Train a neural network with and without multi-fidelity, for the same number of epochs.

The objective is an ordinary training loop: it reports its validation loss after each epoch, and
ends when it is pruned. With ``PCTSPruner`` most trials end after a few epochs, and only some
networks are trained to the end. Without it, each trial costs all of its epochs.

The networks that both find are then compared: what ``recommend`` returns is trained again, with
all epochs and other random numbers, and tested on images that the search has never seen. A single
study is not enough to compare, so both are repeated with several seeds.

Run it with ``python examples/multi_fidelity.py``. It needs scikit-learn (the extra ``examples``)
and takes about a minute.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
import signal
import threading
import time
from types import FrameType
from typing import Any

import numpy as np
import optuna
from optuna.trial import BaseTrial
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from optuna_pcts import CostBudget
from optuna_pcts import PCTSPruner
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend
from optuna_pcts import trial_cost


EPOCHS = 50
ARMS = ("with fidelity", "without fidelity")
# Seeds that no trial has.
CHECK_SEED = 1_000_000
IS_INTERRUPTED = threading.Event()

# 1797 images of 8 x 8 pixels, which come with scikit-learn: 797 to train, 400 to validate.
_images, _digits = load_digits(return_X_y=True)
_rest, TEST_X, _rest_digits, TEST_Y = train_test_split(
    _images / 16, _digits, test_size=600, stratify=_digits, random_state=0
)
TRAIN_X, VALID_X, TRAIN_Y, VALID_Y = train_test_split(
    _rest, _rest_digits, test_size=400, stratify=_rest_digits, random_state=0
)


# ------------------------------------------------------------------ what is optimised


def suggest(trial: BaseTrial) -> dict[str, Any]:
    """Return the arguments of a network."""
    layers = trial.suggest_int("layers", 1, 4)
    width = trial.suggest_int("width", 8, 64, log=True)
    return {
        "hidden_layer_sizes": (width,) * layers,
        "activation": trial.suggest_categorical("activation", ["relu", "tanh", "logistic"]),
        "learning_rate_init": trial.suggest_float("learning_rate", 1e-5, 1, log=True),
        "momentum": trial.suggest_float("momentum", 0, 0.99),
        "batch_size": trial.suggest_int("batch_size", 32, 256, log=True),
        "alpha": trial.suggest_float("alpha", 1e-7, 10, log=True),
    }


def interrupt(number: int, frame: FrameType | None) -> None:
    """Note a Ctrl-C, to be raised after the epoch; the second one is raised at once.

    Raised at any point, it may get lost: MLPClassifier ends one training at it, and finalisers
    drop it.
    """
    if IS_INTERRUPTED.is_set():
        raise KeyboardInterrupt
    IS_INTERRUPTED.set()


def train(arguments: Mapping[str, Any], seed: int) -> Iterator[MLPClassifier]:
    """Yield a network after each of its epochs."""
    network = MLPClassifier(**arguments, solver="sgd", random_state=seed)
    for _ in range(EPOCHS):
        network.partial_fit(TRAIN_X, TRAIN_Y, classes=np.arange(10))
        if IS_INTERRUPTED.is_set():
            raise KeyboardInterrupt
        yield network


def loss(network: MLPClassifier, images: Any, digits: Any) -> float:
    return float(log_loss(digits, network.predict_proba(images)))


def objective(trial: optuna.Trial) -> float:
    # The number of the trial is its seed: no two trainings begin with the same weights.
    for epoch, network in enumerate(train(suggest(trial), seed=trial.number), start=1):
        value = loss(network, VALID_X, VALID_Y)
        trial.set_user_attr("pcts:cost", epoch)  # CostBudget counts epochs, then, not seconds
        trial.report(value, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return value


# ------------------------------------------------------------------ the two arms


@dataclass(frozen=True)
class Quality:
    """The quality of a network: means over several trainings, since a single one is noisy."""

    n_checks: int
    validation_loss: float
    test_loss: float
    test_accuracy: float


@dataclass
class Run:
    """One arm with one seed."""

    arm: str
    seed: int
    study: optuna.Study
    seconds: float = 0.0
    quality: Quality | None = None  # of what it recommends; None until that has been measured
    covered: bool = False  # whether the interval of the recommendation covers the validation loss

    @property
    def trials(self) -> list[FrozenTrial]:
        """The trials that have a value. One that Ctrl-C ended has none."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        return self.study.get_trials(deepcopy=False, states=states)

    @property
    def epochs(self) -> float:
        finished = [t for t in self.study.get_trials(deepcopy=False) if t.state.is_finished()]
        return sum(trial_cost(trial) or 0.0 for trial in finished)


def create_run(arm: str, seed: int, storage: str | None) -> Run:
    """Create a study, or continue the one in the storage. The arms differ in the pruner only."""
    fidelity = arm == ARMS[0]
    study = optuna.create_study(
        sampler=PCTSSampler(seed=seed),
        pruner=PCTSPruner(max_resource=EPOCHS) if fidelity else optuna.pruners.NopPruner(),
        storage=storage,
        study_name=f"multi_fidelity, {arm}, seed {seed}",
        load_if_exists=True,
    )
    return Run(arm, seed, study)


def search(run: Run, budget: CostBudget, workers: int, bar: tqdm[Any]) -> None:
    """Spend the budget."""
    lock, end = threading.Lock(), bar.n + int(budget.budget)
    started = time.perf_counter()

    def advance(study: optuna.Study, trial: FrozenTrial) -> None:
        with lock:  # the last trial may take more than what is left
            bar.update(min(int(trial_cost(trial) or 0), end - bar.n))
            run.seconds = time.perf_counter() - started

    if budget.remaining(run.study) > 0:  # else an earlier run has spent it
        run.study.optimize(objective, n_jobs=workers, callbacks=[budget, advance])
    bar.update(end - bar.n)


def check(run: Run, n_checks: int) -> None:
    """Train what a study recommends again, with all epochs and fresh seeds."""
    answer = recommend(run.study)
    arguments = suggest(optuna.trial.FixedTrial(dict(answer.params)))
    scores = []
    for seed in range(CHECK_SEED, CHECK_SEED + n_checks):
        *_, network = train(arguments, seed)
        test = network.score(TEST_X, TEST_Y)
        scores.append((loss(network, VALID_X, VALID_Y), loss(network, TEST_X, TEST_Y), test))
    run.quality = Quality(n_checks, *np.mean(scores, axis=0).tolist())
    run.covered = answer.interval[0] <= run.quality.validation_loss <= answer.interval[1]


# ------------------------------------------------------------------ what is printed


def describe(run: Run) -> str:
    """Return what a study cost and what it found."""
    trials = run.trials
    pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
    lines = [
        f"seed {run.seed}, {run.arm}",
        f"  cost         {run.epochs:.0f} epochs, {run.seconds:.1f} s",
        f"  trials       {len(trials)}, of which {len(pruned)} ended early"
        + (f" (after epoch {histogram(pruned)})" if pruned else ""),
    ]
    if not trials:
        return "\n".join(lines)
    answer = recommend(run.study)
    low, high = answer.interval
    lines += [
        f"  recommended  {', '.join(f'{k}={_short(v)}' for k, v in answer.params.items())}",
        f"  estimate     validation loss {answer.value:.4f} "
        f"(95 % interval {low:.4f} to {high:.4f})",
    ]
    if run.quality is not None:
        lines.append(
            f"  really       validation loss {run.quality.validation_loss:.4f}, test loss "
            f"{run.quality.test_loss:.4f}, test accuracy {run.quality.test_accuracy:.2%} "
            f"(mean of {run.quality.n_checks} trainings)"
        )
    return "\n".join(lines)


def histogram(trials: Sequence[FrozenTrial]) -> str:
    """Return how many trials ended after how many epochs, such as ``2: 30, 3-4: 12``."""
    edges = [0, *(2**i for i in range(EPOCHS.bit_length())), EPOCHS]
    steps = Counter(
        next((low + 1, high) for low, high in pairwise(edges) if step <= high)
        for step in (trial.last_step or 0 for trial in trials)
    )
    return ", ".join(
        f"{low}: {n}" if low == high else f"{low}-{high}: {n}"
        for (low, high), n in sorted(steps.items())
    )


def summary(runs: Sequence[Run]) -> str:
    """Return a table of medians, a row for each arm."""
    lines = [
        f"{f'median, {len(runs) // len(ARMS)} seeds':<17}  trials  epochs  seconds"
        "  validation loss  test loss  test accuracy"
    ]
    for arm in ARMS:
        rows = [
            (
                len(run.trials),
                run.epochs,
                run.seconds,
                run.quality.validation_loss,
                run.quality.test_loss,
                run.quality.test_accuracy,
            )
            for run in runs
            if run.arm == arm and run.quality is not None
        ]
        trials, epochs, seconds, validation, test, accuracy = np.median(rows, axis=0).tolist()
        lines.append(
            f"{arm:<17}  {trials:6.1f}  {epochs:6.0f}  {seconds:7.1f}  {validation:15.4f}"
            f"  {test:9.4f}  {accuracy:13.2%}"
        )
    losses = {(run.arm, run.seed): run.quality.test_loss for run in runs if run.quality}
    seeds = sorted({run.seed for run in runs})
    n_better = sum(losses[ARMS[0], seed] < losses[ARMS[1], seed] for seed in seeds)
    lines += [
        f"{ARMS[0].capitalize()} the test loss is lower for {n_better} of {len(seeds)} seeds.",
        f"The interval holds the real validation loss in {sum(run.covered for run in runs)} of "
        f"{len(runs)} studies.",
    ]
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--budget", type=int, default=1000, help="epochs that one study may train in all (1000)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of studies of each arm (3)")
    parser.add_argument(
        "--checks", type=int, default=5, help="how often a recommended network is trained anew (5)"
    )
    # Threads: small networks spend most of their time in Python, and gain little from more.
    parser.add_argument("--workers", type=int, default=1, help="threads of one study (1)")
    parser.add_argument(
        "--storage", default=None, help="URL of a storage to keep the studies, e.g. sqlite:///a.db"
    )
    args = parser.parse_args()

    signal.signal(signal.SIGINT, interrupt)
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # an interrupt is no failure to report
    bar = tqdm(total=args.budget * args.seeds * len(ARMS), unit="epoch")
    runs: list[Run] = []
    try:
        # One thread: the matrices are too small for more.
        with threadpool_limits(limits=1):
            for seed in range(args.seeds):
                for arm in ARMS:
                    run = create_run(arm, seed, args.storage)
                    runs.append(run)
                    bar.set_description(f"seed {seed}, {arm}")
                    search(run, CostBudget(budget=args.budget), args.workers, bar)
                    check(run, args.checks)
                    bar.write(describe(run))
    except KeyboardInterrupt:
        bar.write("\nInterrupted; this is what was found so far.")
        if runs and runs[-1].quality is None:
            bar.write(describe(runs[-1]))
    bar.close()

    if not any(run.trials for run in runs):
        raise SystemExit("No trial has finished.")
    # Of each seed, both arms or none.
    checked = [run for run in runs if run.quality is not None]
    checked = checked[: len(checked) // len(ARMS) * len(ARMS)]
    if checked:
        print(f"\n{summary(checked)}")


if __name__ == "__main__":
    main()
