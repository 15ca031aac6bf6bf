"""Eight workers, noisy and slow evaluations, one study: PCTS with no setting.

Run it with ``python examples/quickstart.py``. It takes a few seconds.
"""

from __future__ import annotations

import argparse
import random
import threading
import time

import optuna
from tqdm import tqdm

from optuna_pcts import delays
from optuna_pcts import PCTSSampler


def true_value(x: float, y: float, layers: int, activation: str) -> float:
    """Return what the objective would be without noise: 0 at best."""
    penalty = {"relu": 0.0, "gelu": 0.05, "tanh": 0.2}[activation]
    return (x - 0.3) ** 2 + (y + 1.2) ** 2 / 4 + abs(layers - 5) / 20 + penalty


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -2, 2)
    y = trial.suggest_float("y", -5, 5)
    layers = trial.suggest_int("layers", 1, 12)
    activation = trial.suggest_categorical("activation", ["relu", "gelu", "tanh"])
    time.sleep(random.expovariate(1 / 0.02))  # a slow evaluation
    return true_value(x, y, layers, activation) + random.gauss(0, 0.05)  # with noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=300, help="number of trials (300)")
    parser.add_argument("--workers", type=int, default=8, help="number of threads (8)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the sampler")
    parser.add_argument(
        "--storage", default=None, help="URL of a storage to keep the study, e.g. sqlite:///a.db"
    )
    args = parser.parse_args()

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=PCTSSampler(seed=args.seed),
        storage=args.storage,
        study_name="quickstart",
        load_if_exists=True,
    )
    lock = threading.Lock()
    bar = tqdm(total=args.trials, unit="trial")

    def advance(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        with lock:
            bar.update()

    try:
        study.optimize(objective, n_trials=args.trials, n_jobs=args.workers, callbacks=[advance])
    except KeyboardInterrupt:
        print("\nInterrupted; this is what was found so far.")
    bar.close()

    seen = delays(study)
    if not seen:
        raise SystemExit("No trial has finished.")
    best = study.best_trial
    print(f"best trial   {best.params}")
    print(f"  measured   {best.values[0]:.4f} (noise 0.05)")
    print(f"  really     {true_value(**best.params):.4f} (0 is the optimum)")
    print(
        f"delay        {sum(d.seconds for d in seen) / len(seen):.3f} s on average: "
        f"{sum(d.trials for d in seen) / len(seen):.1f} other trials were asked meanwhile"
    )


if __name__ == "__main__":
    main()
