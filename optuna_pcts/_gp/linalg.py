"""Matrix products and the factor of a covariance, without the threads of BLAS.

``python -m benchmarks.linear_algebra`` measures what is said here.
"""

from __future__ import annotations

import numpy as np

from optuna_pcts._policy import FloatArray


# Multiplications of a matrix product up to which BLAS does not start threads. They are slower by
# orders of magnitude where the cores are busy with other workers.
#
# threadpoolctl is no alternative. Its limit holds for the whole process: it would slow down the
# objective in another thread, and where two threads limit at the same time and end in the other
# order, one thread is left to everybody for good. (It would be fast enough with a controller that
# is kept: 0.3 products of 128 x 128 and 128 x 24 a call, but 27 with `threadpool_limits`, which
# looks for the libraries anew.)
_SMALL = 64**3


def whitening(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return W (n, n), lower triangular with W K W' = 1, and log det K.

    K, the matrix, is positive definite. By quarters, so that nothing is too large, see
    :data:`_SMALL`: with K = [[A, B], [B', C]], S = W_A B and W_S that of C - S'S,
    W = [[W_A, 0], [-W_S S' W_A, W_S]].
    """
    # W is the inverse of the Cholesky factor. To solve with the factor instead, by substitution in
    # blocks of 64, takes 1.7 of the time of a fit (factor, two columns, 40 candidates) with 64
    # trials, 1.6 with 128, 0.5 with 300 and 0.15 with 600; `np.linalg.solve`, which does not know
    # that the factor is triangular, 1.7, 2.3, 1.6 and 0.7. Its errors are 0.3 to 1 of these,
    # 1e-10 at most with a condition of 3e7. Most fits have up to 128 trials, and the leave-one-out
    # errors and the slopes of the likelihood need W itself.
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
