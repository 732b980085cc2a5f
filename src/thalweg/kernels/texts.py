"""Texts out of an arena, side by side: the bytes of an Arrow string column."""

from __future__ import annotations

from numba import njit

from thalweg.kernels.arena import copy
from thalweg.kernels.bits import address


@njit(cache=True, nogil=True)
def lay_out(log, places, offsets, target):
    """Copy the text at places[k] = (offset in the log, size) to offsets[k] of the target, in order.

    The target has slack behind its last text: a copy writes whole words.
    """
    log_at = address(log)
    target_at = address(target)
    for k in range(len(places)):
        if places[k, 1] > 0:
            copy(target_at + offsets[k], log_at + places[k, 0], places[k, 1])
