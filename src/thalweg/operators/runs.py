"""Columns: runs of equal values, and the order of times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def runs(column: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where each run of equal neighbours begins and ends.

    >>> list(runs(np.array([7, 7, 8, 7])))
    [(0, 2), (2, 3), (3, 4)]
    >>> list(runs(np.array([], int)))
    []
    """
    if not len(column):
        return
    cuts = (np.flatnonzero(column[1:] != column[:-1]) + 1).tolist()
    yield from zip([0, *cuts], [*cuts, len(column)], strict=True)


def in_time_order(time: NDArray[np.int64]) -> bool:
    """Whether no time is before its predecessor."""
    return len(time) < 2 or not np.count_nonzero(time[1:] < time[:-1])
