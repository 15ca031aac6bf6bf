"""The tasks: what is tuned, on which data, and what one evaluation is.

An evaluation is the accuracy of a k-fold cross-validation on samples that are drawn anew each
time: so it is noisy. The fidelity z in [0, 1] is the number of samples, from the smallest to the
largest, as in the paper (section 5). Each task comes in three sizes:

- ``digits``: scikit-learn's small images, which are fast and need no download;
- ``recorded``: a part of the paper's data, small enough to record a full grid;
- ``paper``: as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
import math
import time
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution
from optuna.distributions import FloatDistribution
from optuna.distributions import IntDistribution

from benchmarks.ml.data import Dataset
from benchmarks.ml.data import digits
from benchmarks.ml.data import mnist
from benchmarks.ml.data import newsgroups
from benchmarks.problems import Space


# Steps at which a trial in several steps reports, and the last of them: each is a training with
# three times as much data as the one before, at a rung of Hyperband and successive halving.
STEPS = (1, 3, 9)
MAX_STEP = STEPS[-1]
# Passes over the data that a neural network is trained for.
_EPOCHS = 20

Params = Mapping[str, Any]
Folds = Sequence[NDArray[np.intp]]


@dataclass(frozen=True)
class Evaluation:
    """The result of one evaluation, and its time.

    Attributes:
        accuracy:
            Mean over the folds.
        spread:
            Standard deviation over the folds.
        seconds:
            Of computing, on one core.
    """

    accuracy: float
    spread: float
    seconds: float

    @classmethod
    def of(cls, accuracies: Sequence[float], seconds: float) -> Evaluation:
        return cls(float(np.mean(accuracies)), float(np.std(accuracies)), seconds)


# Evaluations at several values of ``Task.staged``: of one, unless there is such a parameter.
Model = Callable[[Params, Dataset, Folds, int, Sequence[int]], list[Evaluation]]


@dataclass(frozen=True)
class Task:
    """A model and its data.

    Attributes:
        name:
            ``svm``, ``xgb`` or ``mlp``.
        title:
            For reports.
        space:
            The parameters to tune.
        load:
            Returns the data.
        samples:
            Number of samples at fidelities 0 and 1.
        n_folds:
            Of the cross-validation.
        model:
            How it is trained and tested.
        staged:
            A parameter of which one training evaluates several values.
    """

    name: str
    title: str
    space: Space
    load: Callable[[], Dataset]
    samples: tuple[int, int]
    n_folds: int
    model: Model
    staged: str | None = None

    def n_samples(self, fidelity: float) -> int:
        """Return the number of samples of a fidelity."""
        low, high = self.samples
        return round(low + fidelity * (high - low))

    def evaluate(self, params: Params, n_samples: int, seed: int) -> Evaluation:
        """Train and test once.

        Args:
            params:
                A value for each parameter of the space.
            n_samples:
                How many samples to draw.
            seed:
                Of the draw, and of whatever is random in the model.
        """
        stages = [] if self.staged is None else [params[self.staged]]
        return self.evaluate_stages(params, n_samples, seed, stages)[0]

    def evaluate_stages(
        self, params: Params, n_samples: int, seed: int, stages: Sequence[int]
    ) -> list[Evaluation]:
        """Train once, and test at several values of the parameter ``staged``, ascending."""
        data = self.load()
        order = np.random.default_rng(seed).permutation(len(data.classes))[:n_samples]
        folds = np.array_split(order, self.n_folds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of networks that have not converged
            return self.model(params, data, folds, seed, stages)


def _splits(folds: Folds) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return samples to train on and samples to test on, for each fold."""
    return [(np.concatenate([*folds[:i], *folds[i + 1 :]]), fold) for i, fold in enumerate(folds)]


def _svm(
    params: Params, data: Dataset, folds: Folds, seed: int, stages: Sequence[int]
) -> list[Evaluation]:
    """Evaluate a support vector machine with the kernel exp(-gamma |x - y|^2).

    The kernel is computed once for all folds: libsvm computes it pair by pair, which takes ten
    times as long.
    """
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.svm import SVC

    started = time.process_time()
    everything = np.concatenate(folds)
    squares = euclidean_distances(data.features[everything], squared=True).astype(np.float64)
    kernel = np.exp(-params["gamma"] * squares)
    classes = data.classes[everything]
    ends = np.cumsum([len(fold) for fold in folds])
    places = np.split(np.arange(len(everything)), ends[:-1])
    accuracies = []
    for train, test in _splits(places):
        machine = SVC(C=params["C"], kernel="precomputed", cache_size=500)
        machine.fit(kernel[np.ix_(train, train)], classes[train])
        accuracies.append(machine.score(kernel[np.ix_(test, train)], classes[test]))
    return [Evaluation.of(accuracies, time.process_time() - started)]


def _xgb(
    params: Params, data: Dataset, folds: Folds, seed: int, stages: Sequence[int]
) -> list[Evaluation]:
    """Evaluate boosted trees, at several numbers of rounds."""
    import xgboost

    class Watch(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        """Notes the time when each stage is reached."""

        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch + 1 in stages:
                self.times.append(time.process_time())
            return False

    accuracies = np.zeros((len(stages), len(folds)))
    seconds = np.zeros((len(stages), len(folds)))
    settings = {
        "objective": "multi:softprob",
        "num_class": int(data.classes.max()) + 1,
        "max_depth": params["max_depth"],
        "colsample_bytree": params["colsample_bytree"],
        "gamma": params["gamma"],
        "learning_rate": params["learning_rate"],
        "tree_method": "hist",
        "max_bin": 64,  # pixels need no more
        "nthread": 1,
        "seed": seed,
        "verbosity": 0,
    }
    for k, (train, test) in enumerate(_splits(folds)):
        started = time.process_time()
        watch = Watch()
        table = xgboost.QuantileDMatrix(
            data.features[train], data.classes[train], max_bin=64, nthread=1
        )
        booster = xgboost.train(settings, table, max(stages), callbacks=[watch])
        tests = xgboost.DMatrix(data.features[test], nthread=1)
        for i, (n_rounds, reached) in enumerate(zip(stages, watch.times)):
            tested = time.process_time()
            chances = booster.predict(tests, iteration_range=(0, n_rounds))
            accuracies[i, k] = np.mean(chances.argmax(axis=1) == data.classes[test])
            seconds[i, k] = reached - started + time.process_time() - tested
    return [Evaluation.of(a.tolist(), float(s)) for a, s in zip(accuracies, seconds.sum(axis=1))]


def _mlp(
    params: Params, data: Dataset, folds: Folds, seed: int, stages: Sequence[int]
) -> list[Evaluation]:
    """Evaluate a network of three hidden layers."""
    from sklearn.neural_network import MLPClassifier

    started = time.process_time()
    accuracies = []
    for train, test in _splits(folds):
        network = MLPClassifier(
            [params["layer_1"], params["layer_2"], params["layer_3"]],
            learning_rate_init=params["learning_rate"],
            solver=params["solver"],
            activation=params["activation"],
            early_stopping=params["early_stopping"] == "enable",
            max_iter=_EPOCHS,
            random_state=seed,
        )
        try:
            network.fit(data.features[train], data.classes[train])
            accuracies.append(network.score(data.features[test], data.classes[test]))
        except ValueError:  # it diverged: its weights are not finite any more
            accuracies.append(0.0)
    return [Evaluation.of(accuracies, time.process_time() - started)]


_SVM = partial(
    Task,
    name="svm",
    space={
        "C": FloatDistribution(math.exp(-5), math.exp(5), log=True),
        "gamma": FloatDistribution(math.exp(-5), math.exp(5), log=True),
    },
    n_folds=5,
    model=_svm,
)
_XGB = partial(
    Task,
    name="xgb",
    space={
        "max_depth": IntDistribution(2, 13),
        "n_estimators": IntDistribution(10, 400),
        "colsample_bytree": FloatDistribution(0.2, 0.9),
        "gamma": FloatDistribution(0.0, 0.7),
        "learning_rate": FloatDistribution(0.05, 0.3),
    },
    n_folds=3,
    model=_xgb,
    staged="n_estimators",
)
_MLP = partial(
    Task,
    name="mlp",
    space={
        "layer_1": IntDistribution(32, 128),
        "layer_2": IntDistribution(128, 256),
        "layer_3": IntDistribution(256, 512),
        "learning_rate": FloatDistribution(math.exp(-5), math.exp(-1), log=True),
        "solver": CategoricalDistribution(["lbfgs", "sgd", "adam"]),
        "activation": CategoricalDistribution(["tanh", "relu", "logistic"]),
        "early_stopping": CategoricalDistribution(["enable", "disable"]),
    },
    n_folds=3,
    model=_mlp,
)
_NEWS, _DIGITS, _MNIST = "20 Newsgroups", "digits", "MNIST"
_SMALL_MNIST = partial(mnist, side=14)

TASKS: Mapping[str, Mapping[str, Task]] = {
    "digits": {
        "svm": _SVM(title=f"SVM on {_DIGITS}", load=digits, samples=(100, 1000)),
        "xgb": _XGB(title=f"XGBoost on {_DIGITS}", load=digits, samples=(100, 500)),
        "mlp": _MLP(title=f"MLP on {_DIGITS}", load=digits, samples=(100, 600)),
    },
    "recorded": {
        "svm": _SVM(title=f"SVM on {_NEWS}", load=newsgroups, samples=(100, 7000)),
        "xgb": _XGB(title=f"XGBoost on {_MNIST}", load=_SMALL_MNIST, samples=(500, 3000)),
        "mlp": _MLP(title=f"MLP on {_MNIST}", load=mnist, samples=(500, 2500)),
    },
    "paper": {
        "svm": _SVM(title=f"SVM on {_NEWS}", load=newsgroups, samples=(100, 7000)),
        "xgb": _XGB(title=f"XGBoost on {_MNIST}", load=mnist, samples=(500, 20000)),
        "mlp": _MLP(title=f"MLP on {_MNIST}", load=mnist, samples=(1000, 60000)),
    },
}
NAMES: Collection[str] = list(TASKS["digits"])
_NEEDS = {"svm": "sklearn", "xgb": "xgboost", "mlp": "sklearn"}


def lacks(task: str) -> str | None:
    """Return what a task lacks, and how to install it; None if it can be run."""
    if find_spec(_NEEDS[task]) is not None:
        return None
    return f'{task} needs the package {_NEEDS[task]}: pip install "optuna-pcts[ml]"'
