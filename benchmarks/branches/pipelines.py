"""Pipelines of scikit-learn and XGBoost on data that comes with scikit-learn, to be tuned.

A pipeline prepares the features and then learns. Either is a choice with parameters of its own,
some of which have choices again. What is minimised is the error of a cross-validation with three
folds, in per cent: of the classes, or of the variance that is not explained.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray

from benchmarks.branches.problem import Parameters
from benchmarks.branches.problem import Params


N_FOLDS = 3
# Errors are never above this: a model that has diverged is as bad as one that knows nothing.
WORST = 100.0
_EPOCHS = 30
# Words of an error that says that numbers have become too large.
_DIVERGED = ("NaN", "infinity", "finite", "overflow")


@dataclass(frozen=True)
class Task:
    """Data to learn from.

    Attributes:
        name:
            Its name.
        loader:
            The function of ``sklearn.datasets``.
        n_samples:
            How many of the samples are used, drawn once.
        n_features:
            Of the data.
        is_regression:
            Whether a number is learned, not a class.
    """

    name: str
    loader: str
    n_samples: int
    n_features: int
    is_regression: bool = False

    def parameters(self) -> Parameters:
        """Return what is tuned."""
        most = self.n_features
        found = Parameters()
        found.choice("prep", "none", "standard", "minmax", "pca", "kbest")
        found.number("pca_components", 2, most, log=True, prep="pca")
        found.choice("pca_whiten", False, True, prep="pca")
        found.number("kbest_k", 2, most, log=True, prep="kbest")
        found.choice("learner", "svm", "forest", "linear", "knn", "boosting", "mlp")
        found.number("svm_c", 1e-2, 1e3, log=True, learner="svm")
        found.choice("svm_kernel", "linear", "rbf", "poly", learner="svm")
        found.number("svm_gamma", 1e-4, 10.0, log=True, svm_kernel=("rbf", "poly"))
        found.number("svm_degree", 2, 4, svm_kernel="poly")
        found.number("svm_coef0", 0.0, 2.0, svm_kernel="poly")
        found.number("forest_trees", 4, 48, log=True, learner="forest")
        found.number("forest_depth", 2, 16, learner="forest")
        found.number("forest_features", 0.1, 1.0, learner="forest")
        found.number("forest_leaf", 1, 20, log=True, learner="forest")
        found.choice("linear_penalty", "l1", "l2", "elasticnet", learner="linear")
        found.number("linear_alpha", 1e-5, 10.0, log=True, learner="linear")
        found.number("linear_l1_ratio", 0.05, 0.95, linear_penalty="elasticnet")
        found.number("knn_k", 1, 40, log=True, learner="knn")
        found.choice("knn_weights", "uniform", "distance", learner="knn")
        found.choice("knn_metric", "minkowski", "cosine", learner="knn")
        found.number("knn_p", 1.0, 4.0, knn_metric="minkowski")
        found.choice("boost_booster", "gbtree", "dart", "gblinear", learner="boosting")
        found.number("boost_rounds", 4, 40, log=True, learner="boosting")
        found.number("boost_rate", 0.02, 1.0, log=True, learner="boosting")
        found.number("boost_lambda", 1e-3, 30.0, log=True, learner="boosting")
        trees = ("gbtree", "dart")
        found.number("boost_depth", 1, 7, boost_booster=trees)
        found.number("boost_subsample", 0.3, 1.0, boost_booster=trees)
        found.number("boost_colsample", 0.3, 1.0, boost_booster=trees)
        found.number("boost_drop", 0.0, 0.5, boost_booster="dart")
        found.number("mlp_layers", 1, 3, learner="mlp")
        for i in range(3):
            found.number(f"mlp_units{i}", 4, 64, log=True, mlp_layers=tuple(range(i + 1, 4)))
        found.number("mlp_rate", 1e-3, 0.3, log=True, learner="mlp")
        found.number("mlp_alpha", 1e-5, 1.0, log=True, learner="mlp")
        found.choice("mlp_activation", "relu", "tanh", "logistic", learner="mlp")
        return found

    def load(self) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return features and targets."""
        from sklearn import datasets

        features, targets = getattr(datasets, self.loader)(return_X_y=True)
        drawn = np.random.default_rng(0).permutation(len(targets))[: self.n_samples]
        return np.asarray(features, dtype=float)[drawn], targets[drawn]

    def error(self, params: Params, split: int = 0) -> float:
        """Return the error of a pipeline, in per cent; ``split`` is the seed of its folds."""
        features, targets = self.load()
        folds = self._folds(targets, split)
        missed = []
        for k, test in enumerate(folds):
            train = np.concatenate([*folds[:k], *folds[k + 1 :]])
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # not to converge is one of the results
                    model = self._pipeline(params)
                    model.fit(features[train], targets[train])
                    missed.append(self._missed(targets[test], model.predict(features[test])))
            except ValueError as reason:
                if not any(word in str(reason) for word in _DIVERGED):
                    raise
                missed.append(math.inf)
        error = 100 * float(np.mean(missed))
        return min(error, WORST) if math.isfinite(error) else WORST

    def _folds(self, targets: NDArray[Any], split: int) -> list[NDArray[np.intp]]:
        """Return the folds: of classes with as many of each."""
        order = np.random.default_rng([split, 1]).permutation(len(targets))
        if not self.is_regression:
            order = order[np.argsort(targets[order], kind="stable")]
        return [order[k::N_FOLDS] for k in range(N_FOLDS)]

    def _missed(self, targets: NDArray[Any], found: NDArray[Any]) -> float:
        if self.is_regression:
            return float(np.mean((targets - found) ** 2) / np.var(targets))
        return float(np.mean(targets != found))

    def _pipeline(self, params: Params) -> Any:
        from sklearn.pipeline import make_pipeline

        steps = [*self._prep(params), self._learner(params)]
        if self.is_regression:  # some learners need targets of a usual size
            from sklearn.compose import TransformedTargetRegressor
            from sklearn.preprocessing import StandardScaler

            return TransformedTargetRegressor(make_pipeline(*steps), transformer=StandardScaler())
        return make_pipeline(*steps)

    def _prep(self, params: Params) -> list[Any]:
        from sklearn.decomposition import PCA
        from sklearn.feature_selection import f_classif
        from sklearn.feature_selection import f_regression
        from sklearn.feature_selection import SelectKBest
        from sklearn.preprocessing import MinMaxScaler
        from sklearn.preprocessing import StandardScaler

        match params["prep"]:
            case "standard":
                return [StandardScaler()]
            case "minmax":
                return [MinMaxScaler()]
            case "pca":
                n, whiten = params["pca_components"], params["pca_whiten"]
                return [StandardScaler(), PCA(n, whiten=whiten, random_state=0)]
            case "kbest":
                score = f_regression if self.is_regression else f_classif
                return [StandardScaler(), SelectKBest(score, k=params["kbest_k"])]
        return []

    def _learner(self, params: Params) -> Any:
        learner = str(params["learner"])
        prefix = {"boosting": "boost"}.get(learner, learner) + "_"
        own = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
        make = {
            "svm": _svm,
            "forest": _forest,
            "linear": _linear,
            "knn": _knn,
            "boosting": _boosting,
            "mlp": _mlp,
        }[learner]
        return make(own, self.is_regression)


def _svm(own: Params, is_regression: bool) -> Any:
    from sklearn.svm import SVC
    from sklearn.svm import SVR

    return (SVR if is_regression else SVC)(
        C=own["c"],
        kernel=own["kernel"],
        gamma=own.get("gamma", "scale"),
        degree=own.get("degree", 3),
        coef0=own.get("coef0", 0.0),
        max_iter=2000,  # features that nobody has scaled would take it minutes
    )


def _forest(own: Params, is_regression: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.ensemble import RandomForestRegressor

    return (RandomForestRegressor if is_regression else RandomForestClassifier)(
        n_estimators=own["trees"],
        max_depth=own["depth"],
        max_features=own["features"],
        min_samples_leaf=own["leaf"],
        random_state=0,
    )


def _linear(own: Params, is_regression: bool) -> Any:
    from sklearn.linear_model import SGDClassifier
    from sklearn.linear_model import SGDRegressor

    settings = {
        "penalty": own["penalty"],
        "alpha": own["alpha"],
        "l1_ratio": own.get("l1_ratio", 0.5),
        "max_iter": _EPOCHS,
        "tol": None,
        "random_state": 0,
    }
    return SGDRegressor(**settings) if is_regression else SGDClassifier("log_loss", **settings)


def _knn(own: Params, is_regression: bool) -> Any:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neighbors import KNeighborsRegressor

    return (KNeighborsRegressor if is_regression else KNeighborsClassifier)(
        n_neighbors=own["k"], weights=own["weights"], metric=own["metric"], p=own.get("p", 2.0)
    )


def _boosting(own: Params, is_regression: bool) -> Any:
    import xgboost

    settings = {
        "booster": own["booster"],
        "n_estimators": own["rounds"],
        "learning_rate": own["rate"],
        "reg_lambda": own["lambda"],
        "n_jobs": 1,
        "random_state": 0,
        "verbosity": 0,
    }
    if own["booster"] != "gblinear":
        settings |= {
            "max_depth": own["depth"],
            "subsample": own["subsample"],
            "colsample_bytree": own["colsample"],
            "tree_method": "hist",
            "max_bin": 16,  # enough for a few hundred samples
        }
    if own["booster"] == "dart":
        settings["rate_drop"] = own["drop"]
    return (xgboost.XGBRegressor if is_regression else xgboost.XGBClassifier)(**settings)


def _mlp(own: Params, is_regression: bool) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.neural_network import MLPRegressor

    return (MLPRegressor if is_regression else MLPClassifier)(
        hidden_layer_sizes=[own[f"units{i}"] for i in range(own["layers"])],
        learning_rate_init=own["rate"],
        alpha=own["alpha"],
        activation=own["activation"],
        batch_size=32,
        max_iter=_EPOCHS,
        random_state=0,
    )


TASKS = (
    Task("digits", "load_digits", 500, 64),
    Task("cancer", "load_breast_cancer", 400, 30),
    Task("diabetes", "load_diabetes", 442, 10, is_regression=True),
)
