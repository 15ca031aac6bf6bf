"""Matrix products and the factor of a covariance, without the threads of BLAS.

The times below are from ``python -m benchmarks.linear_algebra``.
"""

from __future__ import annotations

import numpy as np

from optuna_pcts._arrays import FloatArray


# Multiplications of a matrix product up to which BLAS starts no threads. With threads, products
# are slower by orders of magnitude where the cores are busy with other workers.
#
# threadpoolctl is no alternative. Its limit holds for the whole process: it would slow down an
# objective in another thread, and where two threads set it and the first one leaves first, the
# second one restores 1, for good. (A controller that is kept would be fast enough: a call costs
# 0.3 of a product of 128 x 128 and 128 x 24; `threadpool_limits`, which looks for the libraries
# each time, costs 26 of them.)
_SMALL = 64**3


def whitening(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return W (n, n), lower triangular with W K W' = 1, and log det K.

    K, the matrix, is positive definite. Recursive by quarters, so that no product is too large
    (see :data:`_SMALL`): with K = [[A, B], [B', C]], S = W_A B and W_S that of C - S'S,
    W = [[W_A, 0], [-W_S S' W_A, W_S]].
    """
    # W is the inverse of the Cholesky factor. To solve with the factor instead, for two columns
    # and 40 candidates, takes 1.8 times as long with 64 and with 128 trials, 0.6 times with 300
    # and 0.15 times with 600, by substitution in blocks of 64; 1.6, 2.3, 1.7 and 0.75 times by
    # `np.linalg.solve`, which does not know that the factor is triangular. Errors are 0.5 to 1.5
    # of these, which are 1e-10 at most (condition 3e7). Most settings are tried on up to 128
    # trials, and slopes of the likelihood and leave-one-out errors need W itself.
    n = len(matrix)
    if n**3 <= _SMALL:
        factor = np.linalg.cholesky(matrix)
        return np.linalg.inv(factor), 2 * float(np.log(np.diag(factor)).sum())
    half = n // 2
    w = np.zeros_like(matrix)
    first, log_det = whitening(matrix[:half, :half])
    side = product(first, matrix[:half, half:])
    last, last_log_det = whitening(matrix[half:, half:] - product(side.T, side))
    w[:half, :half] = first
    w[half:, half:] = last
    w[half:, :half] = -product(product(last, side.T), first)
    return w, log_det + last_log_det


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a matrix product in pieces that are too small for BLAS to start its threads."""
    rows = max(_SMALL // max(a.shape[1] * b.shape[1], 1), 1)
    return np.concatenate([a[i : i + rows] @ b for i in range(0, len(a), rows)])
