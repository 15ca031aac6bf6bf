"""Eight workers on a noisy objective that reports intermediate values: PCTS from OptunaHub."""

from __future__ import annotations

import random
import time

import optuna
import optunahub


EPOCHS = 9


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5, 5)
    y = trial.suggest_float("y", -5, 5)
    loss = x**2 + y**2
    for epoch in range(1, EPOCHS + 1):
        time.sleep(random.expovariate(1 / 0.001))  # a slow evaluation
        trial.report(loss + 1 / epoch + random.gauss(0, 0.1), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss + 1 / EPOCHS + random.gauss(0, 0.1)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pcts = optunahub.load_module(package="samplers/pcts")
    study = optuna.create_study(
        sampler=pcts.PCTSSampler(), pruner=pcts.PCTSPruner(max_resource=EPOCHS)
    )
    study.optimize(objective, n_trials=80, n_jobs=8)
    answer = pcts.recommend(study)
    print(f"recommended {answer.params}: {answer.value:.2f} ({1 / EPOCHS:.2f} is the optimum)")
    print(f"epochs      {sum(trial.last_step or 0 for trial in study.trials)} of {80 * EPOCHS}")
