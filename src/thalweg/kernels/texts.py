"""Texts side by side: the bytes of an Arrow string column, and front coding, which leaves out shared prefixes."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.arena import copy
from thalweg.kernels.bits import address, ctz, differences
from thalweg.kernels.checking import njit

MOST_SHARED = 255
"""Bytes that a front-coded text has in common with the one before it, at most."""


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


@njit(cache=True, nogil=True)
def front_code(log, places, shared, target):
    """Copy the texts at places[k] = (offset in the log, size) one after the other, each without its first shared[k]
    bytes, which are those of the text before it; gives how many bytes that are.

    The target has room for the whole texts, and slack.
    """
    log_at = address(log)
    start = address(target)
    at = start
    before = np.int64(0)
    limit = np.int64(0)
    for k in range(len(places)):
        text = log_at + places[k, 0]
        size = places[k, 1]
        limit = min(limit, size, np.int64(MOST_SHARED))
        common = np.int64(0)
        while common < limit:
            found = ctz(differences(before + common, text + common))
            common += found
            if found < 64:
                break
        common = min(common, limit)
        shared[k] = common
        copy(at, text + common, size - common)
        at += size - common
        before = text
        limit = size
    return at - start


@njit(cache=True, nogil=True)
def front_decode(source, shared, rests, target):
    """Write whole texts one after the other: shared[k] bytes of the text before, then rests[k] of the source.

    The texts are sound: none shares more than the one before it has. Source and target have slack.
    """
    at = address(source)
    goal = address(target)
    before = goal
    for k in range(len(shared)):
        text = goal
        copy(goal, before, np.int64(shared[k]))
        goal += np.int64(shared[k])
        copy(goal, at, np.int64(rests[k]))
        goal += np.int64(rests[k])
        at += np.int64(rests[k])
        before = text
