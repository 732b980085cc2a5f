"""The timeline: signed rows that wait for their instant, in a binary heap.

A heap entry is (time, slot); `rows[slot]` holds the weight and the bindings. Free slots form a chain through
column 0. Kernels never grow an array: the owner makes room first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernels.store import FOREVER


@njit(cache=True, nogil=True)
def _push(heap, size, time, slot):
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent, 0] <= time:
            break
        heap[at, 0] = heap[parent, 0]
        heap[at, 1] = heap[parent, 1]
        at = parent
    heap[at, 0] = time
    heap[at, 1] = slot


@njit(cache=True, nogil=True)
def schedule(heap, size, rows, free, solutions, first):
    """Puts solutions on the timeline: their weight at `from`, its opposite at `to`.

    `solutions` has the columns (weight, from, to) from `first` - 4 on and bindings from `first` on. Answers (heap
    size, head of the free chain). There must be room for two entries a solution.
    """
    width = rows.shape[1] - 1
    for k in range(solutions.shape[0]):
        weight = solutions[k, first - 4]
        for end in range(2):
            time = solutions[k, first - 3 + end]
            if end == 1:
                if time == FOREVER:
                    break
                weight = -weight
            slot = free
            free = rows[slot, 0]
            rows[slot, 0] = weight
            for c in range(width):
                rows[slot, 1 + c] = solutions[k, first + c]
            _push(heap, size, time, slot)
            size += 1
    return size, free


@njit(cache=True, nogil=True)
def pop(heap, size, rows, free, until, times, weights, values):
    """Takes rows due at or before `until`, in time order, as many as fit.

    Answers (heap size, head of the free chain, rows taken).
    """
    width = values.shape[1]
    taken = np.int64(0)
    while size > 0 and heap[0, 0] <= until and taken < times.shape[0]:
        slot = heap[0, 1]
        times[taken] = heap[0, 0]
        weights[taken] = rows[slot, 0]
        for c in range(width):
            values[taken, c] = rows[slot, 1 + c]
        taken += 1
        rows[slot, 0] = free
        free = slot
        size -= 1
        time = heap[size, 0]
        last = heap[size, 1]
        at = np.int64(0)
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
                child += 1
            if heap[child, 0] >= time:
                break
            heap[at, 0] = heap[child, 0]
            heap[at, 1] = heap[child, 1]
            at = child
        heap[at, 0] = time
        heap[at, 1] = last
    return size, free, taken


@njit(cache=True, nogil=True)
def chain_free(rows, start, end, next_free):
    """Links the slots [start, end) into the free chain; answers its new head."""
    for slot in range(end - 1, start - 1, -1):
        rows[slot, 0] = next_free
        next_free = slot
    return next_free
