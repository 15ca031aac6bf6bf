"""Constants of the Gaussian process, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass

from optuna_pcts._gp.kernels import gaussian
from optuna_pcts._gp.kernels import Kernel
from optuna_pcts._gp.kernels import matern


@dataclass(frozen=True, kw_only=True)
class GPConfig:
    """Constants of the Gaussian process; but for the kernels, the defaults are the local search's.

    Its unit of length is the spread, the standard deviation of the candidates along an axis; that
    of noise is the variance of the process without it. Where no measurement is named, a value is
    a round number that reasons speak for and that was not tuned.
    """

    # What to choose from: every setting counts with its marginal likelihood.

    kernels: tuple[Kernel, ...] = (matern, gaussian)
    """Kernels: one of functions that are somewhat rough, and one of functions as smooth as can
    be; few values tell these apart. (The local search has the first alone.)"""

    lengths: tuple[float, ...] = (1.5, 5.0, 16.0)
    """Length scales, in spreads: a factor of about 3 apart, as the settings are averaged and the
    ARD weights change the length too; up to where a function is all but a parabola."""

    noises: tuple[float, ...] = (1e-6, 1e-4, 3e-3, 0.03, 0.3, 3.0)
    """Variances of the noise, in that of the process: from none, as far as the covariance stays
    regular, to where three quarters of what is seen is noise."""

    learns_ard: bool = True
    """Whether to learn ARD weights, as an alternative to the same weight for all axes. Without
    them the regret was 1.16 times as large over a wider set of functions, 1.06 and 1.17 times
    over the paper's five (150 evaluations, 8 and 4 workers). (Ablation: "no ARD weights".)"""

    # How many trials it is fitted to.

    n_data: int = 256
    """Trials that the process is fitted to: a fit costs the third power, and every worker fits
    for itself. (Ablation: "512 trials tell".)"""

    n_probes: int = 128
    """Trials that tell which settings are worth a try on all of them, and that ARD weights are
    learned from: half as many cost an eighth of the time."""

    few: int = 64
    """Trials that are enough for where to begin; their matrices are factored in one piece and cost
    next to nothing."""

    least_share: float = 0.1
    """Settings are tried on all trials if their probability by the probes is at least this part of
    the best one's: the others together would hardly change the average."""

    noisy: float = 0.01
    """With less noise than this, as a share of the variance, there is no selection bias: then all
    candidates are training data too, however many there are."""

    # Distances.

    same_place: float = 0.5
    """Trials closer than this support each other, in spreads, root mean square over the axes: most
    of the candidates are further from each other."""

    few_have: int = 2
    """An axis that fewer of the candidates have is left out: it tells nothing about them."""

    category_distance: float = 2.0
    """How far apart two categories are, in spreads: somewhat more than two candidates are along an
    ordered axis, which is the square root of 2 (root mean square)."""

    # Values that are far off.

    far: float = 5.0
    """Values so many ranges (from the median to the best) below the median may be winsorised,
    to one range more at most: they may belong to a plateau, or to what diverges, and must not
    set the scale. To do so always took smooth functions for rough ones: on Branin the regret
    was 5 times as large (150 evaluations, 32 workers). (Ablation: "never winsorised".)"""

    too_far: float = 1e6
    """Values so many ranges below that bound are winsorised in any case: nothing else could be
    seen beside them, squared and in double precision."""

    clearly: float = 10.0
    """Otherwise they are winsorised if that is likelier by this logarithm: a few trials do not
    show how smooth a function is."""

    largest_bias: float = 1e3
    """A trial that may be off by so many standard deviations of the values tells nothing; a larger
    bias would only make the covariance singular."""

    # Learning ARD weights: gradient ascent in their logarithms.

    ard_std: float = 1.5
    """Standard deviation of the logarithm of an ARD weight beforehand (mean 0): a parameter may
    well matter 4.5 times more or less than the candidates' spread along it says."""

    ard_iterations: int = 10
    """Iterations of the ascent; each factors a covariance of the probes."""

    ard_first_step: float = 0.5
    """First step: with ten iterations, the end of a reasonable range is within reach."""

    ard_longest_step: float = 1.0
    """Longest step: a longer one would jump over the best weight."""

    # Posterior samples and the reach of steps.

    n_features: int = 128
    """Random Fourier features of a function before the data: the kernels around the trials make up
    for what so few get wrong where there are trials."""

    reach: tuple[float, float] = (1e-2, 1e3)
    """How far away a loss is sought, in steps: from all but nothing to beyond every face."""

    n_halvings: int = 8
    """Halvings of that range (of its logarithm): what is left of it is a factor of 1.05."""
