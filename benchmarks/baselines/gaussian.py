"""Bayesian optimisation with Gaussian processes, with and without fidelities.

- GP-UCB: N. Srinivas, A. Krause, S. Kakade, M. Seeger, "Gaussian process optimization in the
  bandit setting: no regret and experimental design", ICML 2010.
- GP-EI: D. Jones, M. Schonlau, W. Welch, "Efficient global optimization of expensive black-box
  functions", J. Global Optimization 13 (1998).
- MF-GP-UCB: K. Kandasamy, G. Dasarathy, J. Oliva, J. Schneider, B. Poczos, "Gaussian process
  bandit optimisation with multi-fidelity evaluations", NIPS 2016.
- BOCA: K. Kandasamy, G. Dasarathy, J. Schneider, B. Poczos, "Multi-fidelity Bayesian optimisation
  with continuous approximations", ICML 2017.
- MF-SKO: D. Huang, T. Allen, W. Notz, R. Miller, "Sequential kriging optimization using
  multiple-fidelity evaluations", Structural and Multidisciplinary Optimization 32 (2006).

The process is scikit-learn's. Its hyperparameters are fitted whenever the number of values has
grown by a fifth; in between only the values are new.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
import math
import warnings

import numpy as np
from optuna.distributions import BaseDistribution
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.gaussian_process.kernels import Matern
from sklearn.gaussian_process.kernels import WhiteKernel

from benchmarks.baselines.base import Baseline
from benchmarks.baselines.base import Knowledge
from benchmarks.problems import FloatArray


# The acquisition is maximised over so many random points, and as many around the best ones.
_N_PLACES = 400
_GROWTH = 1.2
# Fidelities to choose from; a process for each in MF-GP-UCB, which has a finite number of them.
_FIDELITIES = np.linspace(0.1, 1.0, 10)
_LEVELS = (0.33, 0.67, 1.0)


class Surrogate:
    """A Gaussian process over points; its hyperparameters are refitted only now and then."""

    def __init__(self, n_dims: int, seed: int) -> None:
        self._seed = seed
        self._kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(
            np.full(n_dims, 0.3), (0.02, 10.0), nu=2.5
        ) + WhiteKernel(0.1, (1e-6, 2.0))
        self._fitted_at = 0
        self._process: GaussianProcessRegressor | None = None
        self._noise = 0.0

    def fit(self, points: FloatArray, rewards: FloatArray) -> None:
        is_due = len(points) >= _GROWTH * self._fitted_at
        process = GaussianProcessRegressor(
            self._kernel,
            optimizer="fmin_l_bfgs_b" if is_due else None,
            normalize_y=True,
            random_state=self._seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(points, rewards)
        if is_due:
            self._fitted_at = len(points)
            self._kernel = process.kernel_
        self._process = process
        self._noise = float(process.kernel_.k2.noise_level) * float(np.var(rewards))

    @property
    def noise_std(self) -> float:
        return math.sqrt(self._noise)

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the function, without noise."""
        assert self._process is not None, "fit comes first"
        mean, std = self._process.predict(points, return_std=True)
        return mean, np.sqrt(np.maximum(std**2 - self._noise, 1e-12))

    def correlation(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """Return the correlation of the function at each point with that at another one."""
        assert self._process is not None, "fit comes first"
        both = np.concatenate([points, others])
        _, covariance = self._process.predict(both, return_cov=True)
        covariance = covariance - self._noise * np.eye(len(both))
        n = len(points)
        std = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        correlation: FloatArray = np.diag(covariance[:n, n:]) / (std[:n] * std[n:])
        return np.clip(correlation, 0.0, 1.0)


class GaussianBaseline(Baseline):
    """Random points first, then those that maximise an acquisition function."""

    n_inputs_more = 0  # of the process: 1 if the fidelity is an input
    n_surrogates = 1

    def __init__(
        self,
        space: Mapping[str, BaseDistribution],
        *,
        seed: int,
        knowledge: Knowledge | None = None,
    ) -> None:
        super().__init__(space, seed=seed, knowledge=knowledge)
        self._n_random = 2 * self.n_dims + 2
        self._surrogates = [
            Surrogate(self.n_dims + self.n_inputs_more, seed) for _ in range(self.n_surrogates)
        ]
        self._asked: dict[int, tuple[FloatArray, float]] = {}
        self._points: list[FloatArray] = []
        self._fidelity_of: list[float] = []
        self._rewards: list[float] = []

    def ask(self, number: int) -> tuple[FloatArray, float]:
        if len(self._points) < self._n_random:
            choice = self.rng.random(self.n_dims), self.first_fidelity()
        else:
            choice = self.choose(
                np.array(self._points), np.array(self._fidelity_of), np.array(self._rewards)
            )
        self._asked[number] = choice
        return choice

    def tell(self, number: int, reward: float) -> None:
        point, fidelity = self._asked.pop(number)
        self._points.append(point)
        self._fidelity_of.append(fidelity)
        self._rewards.append(reward)

    def first_fidelity(self) -> float:
        """Return the fidelity of a random point."""
        return 1.0

    @abstractmethod
    def choose(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the next point and its fidelity."""

    @property
    def _beta(self) -> float:
        """The weight of the uncertainty: 0.2 d log(2 t), as in Kandasamy's programs."""
        return 0.2 * self.n_dims * math.log(2 * len(self._points) + 2)

    def _places(self, points: FloatArray, rewards: FloatArray) -> FloatArray:
        best = points[np.argsort(-rewards)[:5]]
        width = self.rng.choice([0.2, 0.05, 0.01], size=(_N_PLACES, 1))
        near = best[self.rng.integers(len(best), size=_N_PLACES)]
        near = near + width * self.rng.standard_normal((_N_PLACES, self.n_dims))
        far = self.rng.random((_N_PLACES, self.n_dims))
        return np.concatenate([far, np.clip(near, 0.0, 1.0)])


class GPUCB(GaussianBaseline):
    """GP-UCB."""

    def choose(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, float]:
        (surrogate,) = self._surrogates
        surrogate.fit(points, rewards)
        places = self._places(points, rewards)
        return places[np.argmax(self._acquisition(surrogate, places, points))], 1.0

    def _acquisition(
        self, surrogate: Surrogate, places: FloatArray, points: FloatArray
    ) -> FloatArray:
        mean, std = surrogate.predict(places)
        value: FloatArray = mean + math.sqrt(self._beta) * std
        return value


class GPEI(GPUCB):
    """GP-EI; the best so far is the best mean at the points seen, since values are noisy."""

    def _acquisition(
        self, surrogate: Surrogate, places: FloatArray, points: FloatArray
    ) -> FloatArray:
        best = float(surrogate.predict(points)[0].max())
        return expected_improvement(*surrogate.predict(places), best)


def expected_improvement(mean: FloatArray, std: FloatArray, best: float) -> FloatArray:
    """Return by how much a normal variable is above a level, on average."""
    u = (mean - best) / std
    improvement: FloatArray = (mean - best) * norm.cdf(u) + std * norm.pdf(u)
    return improvement


class MFGPUCB(GaussianBaseline):
    """MF-GP-UCB with three fidelities, each with its own process and a known bias."""

    n_surrogates = len(_LEVELS)

    def first_fidelity(self) -> float:
        return float(_LEVELS[len(self._points) % len(_LEVELS)])

    def choose(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, float]:
        places = self._places(points, rewards)
        bounds, widths = [], []
        for level, surrogate in zip(_LEVELS, self._surrogates):
            here = fidelities == level
            if not here.any():
                return places[self.rng.integers(len(places))], level
            surrogate.fit(points[here], rewards[here])
            mean, std = surrogate.predict(places)
            widths.append(math.sqrt(self._beta) * std)
            bounds.append(mean + widths[-1] + self.knowledge.bias(level))
        chosen = int(np.argmax(np.min(bounds, axis=0)))
        for i, level in enumerate(_LEVELS[:-1]):
            # gamma: the uncertainty that justifies an evaluation at this cost.
            ratio = self.knowledge.cost(level) / self.knowledge.cost(_LEVELS[i + 1])
            threshold = self.knowledge.bias(level) * math.sqrt(ratio)
            if widths[i][chosen] > max(threshold, 0.01 * self.knowledge.value_range):
                return places[chosen], level
        return places[chosen], 1.0


class BOCA(GaussianBaseline):
    """BOCA: one process over points and fidelities."""

    n_inputs_more = 1

    def first_fidelity(self) -> float:
        return float(self.rng.choice(_FIDELITIES))

    def choose(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, float]:
        surrogate = self._fitted(points, fidelities, rewards)
        places = self._places(points, rewards)
        mean, std = surrogate.predict(_with(places, 1.0))
        chosen = places[np.argmax(mean + math.sqrt(self._beta) * std)]
        return chosen, self._fidelity_for(surrogate, chosen)

    def _fitted(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> Surrogate:
        (surrogate,) = self._surrogates
        surrogate.fit(np.column_stack([points, fidelities]), rewards)
        return surrogate

    def _fidelity_for(self, surrogate: Surrogate, point: FloatArray) -> float:
        """Return the cheapest fidelity that is uncertain enough and close enough to 1."""
        queries = np.column_stack([np.tile(point, (len(_FIDELITIES), 1)), _FIDELITIES])
        _, std = surrogate.predict(queries)
        ends = _with(queries[:, :-1], 1.0)
        gap = np.sqrt(np.maximum(1 - surrogate.correlation(queries, ends) ** 2, 0.0))  # xi(z)
        exponent = 1 / (self.n_dims + 3)
        scale = float(std[-1]) + 1e-12
        for z, s, xi in zip(_FIDELITIES[:-1], std, gap):
            price = (self.knowledge.cost(float(z)) / self.knowledge.cost(1.0)) ** exponent
            if s > scale * xi * price and xi > float(gap.max()) / math.sqrt(self._beta + 1):
                return float(z)
        return 1.0


class MFSKO(BOCA):
    """MF-SKO: augmented expected improvement per cost."""

    def choose(
        self, points: FloatArray, fidelities: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, float]:
        surrogate = self._fitted(points, fidelities, rewards)
        at_end = surrogate.predict(_with(points, 1.0))
        best = float(at_end[0][np.argmax(at_end[0] - at_end[1])])  # the effective best
        places = self._places(points, rewards)
        improvement = expected_improvement(*surrogate.predict(_with(places, 1.0)), best)
        # All fidelities of all points are too many for their covariance.
        few = places[np.argsort(-improvement)[:20]]
        improvement = np.sort(improvement)[::-1][:20]
        choices = []
        for z in _FIDELITIES:
            queries = _with(few, float(z))
            _, std = surrogate.predict(queries)
            correlation = surrogate.correlation(queries, _with(few, 1.0)) if z < 1 else 1.0
            noise = surrogate.noise_std
            worth = 1 - noise / np.sqrt(std**2 + noise**2 + 1e-300)
            ratio = self.knowledge.cost(1.0) / self.knowledge.cost(float(z))
            choices.append(improvement * correlation * worth * ratio)
        level, which = np.unravel_index(int(np.argmax(choices)), (len(_FIDELITIES), len(few)))
        return few[which], float(_FIDELITIES[level])


def _with(points: FloatArray, fidelity: float) -> FloatArray:
    return np.column_stack([points, np.full(len(points), fidelity)])
