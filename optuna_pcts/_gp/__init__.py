"""A small Gaussian process in numpy.

Its files, from the lowest layer: ``kernels``, ``linalg``, ``ascent``; ``places`` embeds points;
``config`` has the constants; ``setting`` is the process with one choice of kernel, length scale
and noise; ``fit`` averages over these choices by marginal likelihood; ``posterior`` has the
posterior mean, samples and maximizers.

Notation: n trials, m other points, d columns (axes of the cube, what is ordered first).

=========  =====================  ==================  ============================================
symbol     name                   shape               meaning
=========  =====================  ==================  ============================================
x          ``points``             (n, d)              positions in the unit cube
X          ``places``             n rows              the same for the kernel: in units of the
                                                      spread, categories as corners of a simplex
y          ``values``             (n,)                the objective, larger is better
b          ``relative_bias``      (n,)                bias of y due to its fidelity, in standard
                                                      deviations of y
w          ``ard_weights``        (d,)                ARD weights: inverse length scales, relative
                                                      to each other
r          ``distance``           (m, n) or (n, n)    distances of places, with ARD weights
l          ``length``             scalar              length scale, in spreads
k          ``kernel``, ``cross``  as r                correlation at r / l
s          ``noise``              scalar              variance of the noise, in sigma^2
K          ``covariance``         (n, n)              k (1 + b b') + s 1, in sigma^2
W          ``whitening(K)``       (n, n)              lower triangular, W K W' = 1, W'W = K^-1
u          ``sums``               (n,)                K^-1 1, the sums of the rows of K^-1
1'u        ``precision``          scalar              that of the level
mu         ``level``              scalar              u'y / 1'u, the mean of the process
a          ``weights``            (n,) or (n, count)  K^-1 (y - mu)
sigma^2    ``scale``              scalar              (y - mu)'a / (n - 1), its variance
p          ``shares``             (settings,)         probability of each setting
f          ``Features``           functions           prior samples: random Fourier features
g          ``Functions``          functions           posterior mean or posterior samples
=========  =====================  ==================  ============================================
"""
