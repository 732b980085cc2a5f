"""Counted rows: a hash map from a row of integers to its multiplicity.

`slots` is open addressing over entry numbers (-1 empty); `rows[entry]` is the key, `counts[entry]` its
multiplicity. An entry with count 0 stays until the owner rebuilds. All arrays are contiguous: inner functions take
their addresses, since Numba counts the references to arrays.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash_cells
from thalweg.kernels.memory import load64, store64


@njit(cache=True, nogil=True)
def _entry_of(slots, mask, rows, used, row, width):
    """The entry of the row at an address, made with the number `used` where there is none."""
    slot = hash_cells(row, 0, width, 0) & mask
    while True:
        entry = load64(slots, slot)
        if entry < 0:
            store64(slots, slot, used)
            for c in range(width):
                store64(rows, used * width + c, load64(row, c))
            return used
        at = 0
        while at < width and load64(rows, entry * width + at) == load64(row, at):
            at += 1
        if at == width:
            return entry
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def add(slots, rows, counts, used, weights, values, changes):
    """Adds weights to rows; `changes[k]` is +1 where a row appeared, -1 where it vanished, else 0.

    Answers the number of entries used. There must be room for every row.
    """
    width = np.int64(values.shape[1])
    table = np.int64(slots.ctypes.data)
    known = np.int64(rows.ctypes.data)
    given = np.int64(values.ctypes.data)
    mask = np.int64(slots.shape[0] - 1)
    for k in range(weights.shape[0]):
        entry = _entry_of(table, mask, known, used, given + k * (8 * width), width)
        if entry == used:
            counts[used] = 0
            used += 1
        before = counts[entry]
        counts[entry] = before + weights[k]
        changes[k] = 0
        if before <= 0 and counts[entry] > 0:
            changes[k] = 1
        elif before > 0 and counts[entry] <= 0:
            changes[k] = -1
    return used


@njit(cache=True, nogil=True)
def consolidate(times, weights, values, slots, rows, counts, sums, out_times, out_weights, out_values):
    """Nets signed rows instant by instant; answers how many rows are left.

    `times` ascends. Rows that come and go at one instant cancel; what is left keeps its order of first
    appearance, a multiplicity of k as one row of weight k. Where all weights of an instant have one sign, nothing
    cancels, and equal rows are put together with `sums` only.
    """
    n = times.shape[0]
    width = np.int64(values.shape[1])
    table = np.int64(slots.ctypes.data)
    known = np.int64(rows.ctypes.data)
    given = np.int64(values.ctypes.data)
    written = np.int64(0)
    start = np.int64(0)
    while start < n:
        end = start
        signs = np.int64(0)
        while end < n and times[end] == times[start]:
            signs |= np.int64(1) if weights[end] > 0 else np.int64(2)
            end += 1
        if (signs != 3 and not sums) or end - start == 1:
            for k in range(start, end):
                out_times[written] = times[k]
                out_weights[written] = weights[k]
                for c in range(width):
                    out_values[written, c] = values[k, c]
                written += 1
        else:
            size = np.int64(4)
            while size < 2 * (end - start):
                size *= 2
            for slot in range(size):
                slots[slot] = -1
            used = np.int64(0)
            for k in range(start, end):
                entry = _entry_of(table, size - 1, known, used, given + k * (8 * width), width)
                if entry == used:
                    counts[used] = 0
                    used += 1
                counts[entry] += weights[k]
            for entry in range(used):
                if counts[entry] != 0:
                    out_times[written] = times[start]
                    out_weights[written] = counts[entry]
                    for c in range(width):
                        out_values[written, c] = rows[entry, c]
                    written += 1
        start = end
    return written
