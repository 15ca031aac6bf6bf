"""Times of the linear algebra of the Gaussian process, beside alternatives.

``OPENBLAS_NUM_THREADS=1 python -m benchmarks.linear_algebra`` takes seconds and prints the numbers
in the comments of ``optuna_pcts/_gp/linalg.py``: solving with the Cholesky factor beside its
inverse, and threadpoolctl (where it is installed) beside products in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._gp.kernels import matern
from optuna_pcts._gp.linalg import product
from optuna_pcts._gp.linalg import whitening


_BLOCK = 64
_N_CANDIDATES = 40
Array = NDArray[Any]
Solve = Callable[[Array], Array]


def forward(factor: Array, columns: Array) -> Array:
    """Solve with a lower triangular matrix, in blocks."""
    solved = np.empty_like(columns)
    for i in range(0, len(factor), _BLOCK):
        rows = slice(i, i + _BLOCK)
        rest = columns[rows] - product(factor[rows, :i], solved[:i]) if i else columns[rows]
        solved[rows] = np.linalg.solve(factor[rows, rows], rest)
    return solved


def backward(factor: Array, columns: Array) -> Array:
    """Solve with its transpose: reversed, that is lower triangular."""
    turned = np.ascontiguousarray(factor.T[::-1, ::-1])
    return forward(turned, np.ascontiguousarray(columns[::-1]))[::-1]


def by_inverse(matrix: Array) -> tuple[Solve, Solve]:
    """Factor a covariance; return how to whiten columns and how to solve for them."""
    w, _ = whitening(matrix)
    return lambda c: product(w, c), lambda c: product(w.T, product(w, c))


def by_substitution(matrix: Array) -> tuple[Solve, Solve]:
    """Do the same by substitution in blocks."""
    factor = np.linalg.cholesky(matrix)
    return lambda c: forward(factor, c), lambda c: backward(factor, forward(factor, c))


def by_numpy(matrix: Array) -> tuple[Solve, Solve]:
    """Do the same with numpy, which does not know that the factor is triangular."""
    factor = np.linalg.cholesky(matrix)
    return (
        lambda c: np.linalg.solve(factor, c),
        lambda c: np.linalg.solve(factor.T, np.linalg.solve(factor, c)),
    )


def shortest(call: Callable[[], object], n_times: int = 30) -> float:
    """Return the shortest time of a call, in seconds."""
    times = []
    for _ in range(n_times):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def compare_solves(n: int) -> str:
    """Return a row: times relative to the inverse, and errors of all three."""
    rng = np.random.default_rng(0)
    points = rng.random((n, 3))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    matrix = matern(gaps / 0.45) + 1e-6 * np.eye(n)
    truth = rng.normal(size=(n, 1))
    wide = np.longdouble
    columns = np.asarray(matrix.astype(wide) @ truth.astype(wide), dtype=float)
    times, errors = [], []
    for way in (by_inverse, by_substitution, by_numpy):

        def fit(way: Callable[[Array], tuple[Solve, Solve]] = way) -> Array:
            whiten, solve = way(matrix)
            solve(np.ones((n, 1)))
            whiten(matrix[:, :_N_CANDIDATES])
            return solve(columns)

        times.append(shortest(fit))
        errors.append(float(np.linalg.norm(fit() - truth) / np.linalg.norm(truth)))
    ratios = " | ".join(f"{t / times[0]:.2f}" for t in times[1:])
    return f"| {n} | {ratios} | " + " | ".join(f"{e:.1e}" for e in errors) + " |"


def main() -> None:
    print("| trials | substitution | numpy | error: inverse | substitution | numpy |")
    print("|---|---|---|---|---|---|")
    for n in (64, 128, 300, 600):
        print(compare_solves(n))
    try:
        from threadpoolctl import threadpool_limits
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return
    a, b = np.ones((128, 128)), np.ones((128, 24))
    controller = ThreadpoolController()

    def limit_anew() -> None:
        with threadpool_limits(1, user_api="blas"):
            pass

    def limit_again() -> None:
        with controller.limit(limits=1, user_api="blas"):
            pass

    one = shortest(lambda: product(a, b), 300)
    print("\nIn products of 128 x 128 and 128 x 24:")
    print(f"`@` {shortest(lambda: a @ b, 300) / one:.2f}", end=", ")
    print(f"`threadpool_limits` {shortest(limit_anew, 300) / one:.1f}", end=", ")
    print(f"a controller that is kept {shortest(limit_again, 300) / one:.2f}")


if __name__ == "__main__":
    main()
