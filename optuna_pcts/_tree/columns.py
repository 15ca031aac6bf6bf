"""The arrays of a tree: one row per node, one row per trial."""

from __future__ import annotations

from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optuna_pcts._arrays import FloatArray


class Columns:
    """Named numpy columns of one common, growing length."""

    def __init__(self, **columns: tuple[Any, Any, tuple[int, ...]]) -> None:
        self._fill = {name: fill for name, (_, fill, _) in columns.items()}
        self.length = 0
        for name, (dtype, fill, shape) in columns.items():
            setattr(self, name, np.full((*shape, 16), fill, dtype=dtype))
        self._capacity = 16

    def extend(self, length: int) -> None:
        """Make room for at least ``length`` rows."""
        self.length = max(self.length, length)
        if length <= self._capacity:
            return
        capacity = max(length, self._capacity * 3 // 2)
        for name, fill in self._fill.items():
            old = getattr(self, name)
            new = np.full((*old.shape[:-1], capacity), fill, dtype=old.dtype)
            new[..., : self._capacity] = old
            setattr(self, name, new)
        self._capacity = capacity


class Nodes(Columns):
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    n_active: NDArray[np.int32]  # axes that exist everywhere in the cell
    first_child: NDArray[np.int32]  # -1: a leaf; children stand side by side, after the parent
    n_children: NDArray[np.int32]
    dim: NDArray[np.int32]
    cuts: FloatArray  # (2, n); the second is inf where there are two children
    final: NDArray[np.bool_]  # cannot be split
    n_asked: NDArray[np.int32]
    n_told: NDArray[np.int32]
    n_ended: NDArray[np.int32]  # told for good
    total: FloatArray  # sum of rewards
    square: FloatArray  # sum of their squares
    bias: FloatArray  # sum of the zeta of their fidelities
    merit: FloatArray  # sum of by how much they are better than a random point
    center: NDArray[np.float32]  # (n_dims, n)
    first_trial: NDArray[np.int32]  # head of the list of trials whose deepest cell this is
    b_min: FloatArray  # (n_instances, n)

    def scalars(self) -> Scalars:
        """Return views for reading one node at a time. They are invalid once a column grows."""
        return Scalars(
            self.first_child.data,
            self.n_children.data,
            self.n_asked.data,
            self.dim.data,
            (self.cuts[0].data, self.cuts[1].data),
        )


class Scalars(NamedTuple):
    """Columns as memoryviews, whose items are Python numbers: three times as fast to read."""

    first_child: Any
    n_children: Any
    n_asked: Any
    dim: Any
    cuts: tuple[Any, Any]


class Trials(Columns):
    """One row per trial number."""

    node: NDArray[np.int32]  # deepest cell that holds its point; -1: not in the tree
    next: NDArray[np.int32]  # next trial of the same cell
    told: NDArray[np.bool_]
    ended: NDArray[np.bool_]  # what it was told is final
    ended_at: FloatArray  # seconds
    value: FloatArray  # larger is better; NaN: failed
    believed: FloatArray  # the same, with outliers replaced
    fidelity: FloatArray  # of the value
    point: FloatArray  # (n_dims, n)
