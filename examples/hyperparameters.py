"""Tune the hyperparameters of a neural network with several worker processes, for some seconds.

What to copy: ``objective``, which reads ``fidelity(trial)`` and trains on that share of the data;
``work``, which any number of processes may run on the same storage, on any number of machines; and
``recommend(study)``, the answer. Most trials train on few images, and only promising ones on all.

Run it with ``python examples/hyperparameters.py``. It needs scikit-learn (the extra ``examples``)
and takes about half a minute. With ``--journal study.log`` the same command goes on later.
"""

from __future__ import annotations

import argparse
import multiprocessing
from multiprocessing.synchronize import Event
import os
from pathlib import Path
import signal
import tempfile
from types import FrameType
from typing import Any
import warnings

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import BaseTrial
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from optuna_pcts import CostBudget
from optuna_pcts import fidelity
from optuna_pcts import PCTSSampler
from optuna_pcts import recommend


# 1797 images of 8 x 8 pixels, which come with scikit-learn; the search never sees 600 of them.
_images, _digits = load_digits(return_X_y=True)
IMAGES, TEST_IMAGES, DIGITS, TEST_DIGITS = train_test_split(
    _images / 16, _digits, test_size=600, stratify=_digits, random_state=0
)
SMALLEST = 100  # so many images at fidelity 0, and all at fidelity 1


def network(trial: BaseTrial, seed: int) -> MLPClassifier:
    """Return a network with the hyperparameters of a trial: integers, floats, categories."""
    solver = trial.suggest_categorical("solver", ["sgd", "adam", "lbfgs"])
    layers = trial.suggest_int("layers", 1, 3)
    return MLPClassifier(
        hidden_layer_sizes=[trial.suggest_int("width", 8, 128, log=True)] * layers,
        solver=solver,
        activation=trial.suggest_categorical("activation", ["relu", "tanh", "logistic"]),
        learning_rate_init=trial.suggest_float("learning_rate", 1e-4, 0.3, log=True),
        alpha=trial.suggest_float("alpha", 1e-6, 1, log=True),
        max_iter=30,
        random_state=seed,
    )


def objective(trial: optuna.Trial) -> float:
    """Return the accuracy of a cross-validation on as many images as the fidelity says."""
    n = round(SMALLEST + fidelity(trial) * (len(IMAGES) - SMALLEST))
    chosen = np.random.default_rng(trial.number).permutation(len(IMAGES))[:n]
    model = network(trial, seed=trial.number)
    return float(cross_val_score(model, IMAGES[chosen], DIGITS[chosen], cv=3).mean())


def open_study(journal: Path) -> optuna.Study:
    """Open the study, or make it."""
    return optuna.create_study(
        study_name="hyperparameters",
        storage=JournalStorage(JournalFileBackend(str(journal))),
        load_if_exists=True,
        direction="maximize",
        sampler=PCTSSampler(),
    )


def work(journal: Path, budget: float, is_interrupted: Event) -> None:
    """Be one of the workers, until all of them together have spent their seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a trial is finished: nothing is lost
    warnings.simplefilter("ignore")  # of networks that have not converged
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def heed_interrupt(study: optuna.Study, trial: FrozenTrial) -> None:
        if is_interrupted.is_set():
            study.stop()

    # It also has the sampler evaluate the last trials at full fidelity.
    cost = CostBudget(budget=budget)
    open_study(journal).optimize(objective, callbacks=[cost, heed_interrupt])


def describe(study: optuna.Study) -> str:
    """Return what was found, and how good it is on images that no trial has seen."""
    trials = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    n_whole = sum(fidelity(trial) == 1 for trial in trials)
    answer = recommend(study)
    model = network(optuna.trial.FixedTrial(dict(answer.params)), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test = model.fit(IMAGES, DIGITS).score(TEST_IMAGES, TEST_DIGITS)
    low, high = answer.interval
    return "\n".join(
        [
            f"trials         {len(trials)}, of which {n_whole} with all images",
            f"recommended    {', '.join(f'{k}={_short(v)}' for k, v in answer.params.items())}",
            f"estimate       accuracy {answer.value:.4f} (95 % interval {low:.4f} to {high:.4f})",
            f"on new images  accuracy {test:.4f}",
        ]
    )


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--seconds", type=float, default=20, help="of each worker (20)")
    parser.add_argument(
        "--journal", type=Path, default=None, help="file that keeps the study; made if need be"
    )
    args = parser.parse_args()
    if args.workers < 1 or args.seconds <= 0:
        parser.error("workers and seconds must be positive")

    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of each worker
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        journal = args.journal or Path(folder) / "study.log"
        study = open_study(journal)
        budget = args.workers * args.seconds
        budget += CostBudget(budget=budget).spent(study)  # what an earlier command has spent
        spawn = multiprocessing.get_context("spawn")
        is_interrupted = spawn.Event()
        arguments = journal, budget, is_interrupted
        workers = [spawn.Process(target=work, args=arguments) for _ in range(args.workers)]

        def interrupt(number: int, frame: FrameType | None) -> None:
            print("\nInterrupted; the trials that run are finished.")
            is_interrupted.set()

        signal.signal(signal.SIGINT, interrupt)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if not study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
            raise SystemExit("No trial has finished.")
        print(describe(study))


if __name__ == "__main__":
    main()
