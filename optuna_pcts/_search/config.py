"""Constants of the local search, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field

from optuna_pcts._gp.config import GPConfig
from optuna_pcts._gp.kernels import matern


@dataclass(frozen=True, kw_only=True)
class LocalSearchConfig:
    """Constants of the local search.

    Where no measurement is named, a value is a round number that reasons speak for and that was
    not tuned. ``python -m benchmarks.run --methods ablations`` measures what names an ablation.
    """

    gp: GPConfig = field(default_factory=lambda: GPConfig(kernels=(matern,)))
    """The Gaussian process that estimates the values of the best trials. Its kernel is Matern's
    alone: if a Gaussian one may be chosen as well, the regret is .97 +- .06 times as large over a
    wide set of functions after 150 evaluations, 1.08 +- .08 times over the paper's five after 600.
    (Ablation: "Gaussian kernel too".)"""

    # Whose turn it is.

    level_share: float = 0.35
    """This part of the asks that are the tree's goes level by level, whatever the bounds say.
    With less, a narrow basin under noise is missed (with 0.25 by 6 of 10 studies of
    `benchmarks.exploration`); with more, regret grows where there is one basin. (Ablation: "no
    asks level by level", "half level by level".)"""

    nothing_left_share: float = 0.9
    """The same where nothing is left to gain: something better can only be elsewhere."""

    new_branch_share: float = 0.5
    """Where parameters are conditional, every other ask is in a branch (a category of a parent)
    that no trial has been in, as long as there is one: each is tried soon, whatever is known of
    others. From then on its cells compete like all others. (To try each again whenever the number
    of trials has doubled brought nothing: 1.03 +- .05 times the regret of
    `benchmarks.conditional`.)"""

    # When to fit.

    growth: float = 17 / 16
    """It is fitted anew when the number of ended trials has grown by this factor: an ask then
    costs little on average, and nothing is out of date by more than 6 %."""

    late_growth: float = 9 / 8
    """The same factor once there are more trials than the process takes in: then a fit brings
    less, and every worker fits for itself."""

    # The best trials.

    elite_share: float = 1 / 8
    """The search distribution is fitted to this part of the trials, the best ones: enough to give
    a shape, few enough to be in one region."""

    elite_per_dim: tuple[int, int] = (2, 10)
    """... but to no fewer and no more trials per parameter: fewer have no shape, and more would
    not be local any more in a study that has many trials of others."""

    n_candidates: int = 40
    """Maximum number of candidates, the best trials (half of all if that is less): those below are
    very unlikely to be the best."""

    failed: float = -1.0
    """The reward of a failure for the process: how bad it is relative to values is not known; this
    is as far below the median (0) as the best (1) is above it."""

    settled_per_dim: int = 10
    """With so many trials per parameter there may be flanks and other modes: with few the fit is
    overconfident about what is far away. (Ablation: "never settled".)"""

    # The sample maximizers.

    n_samples: int = 24
    """Posterior samples whose maximizers are sought (Thompson sampling): they are to show a
    mean, a spread, and how probable each mode is; the time of a fit grows with them. (Ablation:
    "8 samples".)"""

    n_starts: int = 150
    """Points drawn around the best trials from whose best one the ascent begins in each sample:
    the ascent makes up for what is not among them."""

    cloud: tuple[float, float] = (1.5, 3.5)
    """They are drawn so many times as wide as the best trials lie: the first without noise, the
    second if there is nothing else. The more of what is seen is noise, the further away the
    best point may be."""

    n_iterations: int = 16
    """Iterations of the gradient ascent: with many parameters draws alone are sparse. On
    Borehole (8 parameters, optimum in a corner) the regret after 150 delayed evaluations was 2
    without any and .0006 with. (Ablation: "no ascent".)"""

    first_step: float = 0.2
    """First step of the ascent, in standard deviations of the search distribution: in 16
    iterations it reaches beyond the cloud."""

    on_face: float = 0.5
    """If more than this part of the maximizers lies on a face of the cube, points are drawn on
    it. Without, the regret of Borehole, whose optimum is in a corner, was hundreds of times as
    large with fidelity at cost 30; after 150 full evaluations, 1.04 +- .05 times over a wide set
    of functions. (Ablation: "no faces".)"""

    least_spread: float = 0.1
    """The distribution of where the best point is stays so wide at least, relative to that of the
    best trials: 24 samples may agree by chance."""

    # Modes.

    apart: float = 4.0
    """Points are on two modes if the gap between them is so many times as wide as they spread:
    a gap like this is rare among normal draws of one. (Ablation: "one mode".)"""

    n_far_starts: int = 32
    """The best trials may all be on one mode, and another one be higher: from so many trials all
    over the cube an ascent leads to other modes."""

    far_first_step: float = 0.1
    """First step of that ascent, in standard deviations of all trials: short, so as not to leave
    the mode that a trial is on."""

    # What is drawn.

    at_argmax: float = 0.3
    """Every other point is drawn around the argmax of the posterior mean, so many times as
    closely: the search distribution itself is as wide as what is not known. (Ablation: "around
    the argmax alone".)"""

    flank_share: float = 1 / 3
    """Under noise a top is found from its flanks, not from its middle: this part of the draws
    is there. Without, the regret over the paper's functions was 1.7 +- .3 times as large with
    fidelity at cost 120, .99 +- .06 times after 150 full evaluations of a wide set. (Ablation:
    "no flanks".)"""

    flank_loss: float = 3.0
    """Flanks are at the distance with this mean loss, in standard deviations of the noise: what is
    lost there is clearly seen, and no more than that."""

    n_flank_steps: int = 32
    """So many steps tell how far away that is."""

    mutations: float = 0.5
    """Unordered coordinates of a point that are drawn from all their values, on average: the
    best trials may all have the same one, and never try another. (Ablation: "no mutations".)"""

    # Parameters that exist in some branches only.

    n_known: int = 512
    """So many of the best trials are kept for other branches: it bounds what a draw costs."""

    n_donors: int = 8
    """Along axes that do not exist where a point comes from, it has the coordinates of one of so
    many of the best trials that have them: enough to differ."""

    donor_step: float = 0.1
    """... with so much noise, in the cube's side: what is good there need not be so here."""

    anywhere: float = 0.5
    """... but for this part of the points, which have any coordinates there: those trials may all
    be alike."""

    # Rugged functions.

    noisy: float = 0.01
    """If noise may be this part of the variance, the best trials are asked again."""

    trials_per_repeat: int = 12
    """One of them after so many trials: less than a tenth of all."""

    n_repeats: int = 4
    """Up to so many: enough to tell noise from ruggedness, and a small price where it is noise.
    (Ablation: "no repetitions".)"""

    rugged: float = 0.5
    """The function is rugged if at least this part of what the process takes for noise is real."""

    at_bases: float = 0.9
    """Then this part of the draws moves one of the best trials along few axes: neighbours say
    little there, so the rest is for the case that they do after all."""

    n_bases: int = 4
    """So many best trials may be moved: one may be a dead end."""

    base_rank: float = 0.5
    """Mean of the exponential distribution of which one it is: the first six times in seven."""

    one_axis: float = 0.6
    """It is moved along one axis with this probability, otherwise along a second one with the
    same, and so on: what is good about a point is most of its coordinates."""

    far_step: float = 0.2
    """Standard deviation of such a move, in the cube's side (as DDS: Tolson and Shoemaker,
    2007)."""
