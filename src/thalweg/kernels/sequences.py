"""Kernels of sequences: the pairs of runs and events that agree in a key and in time."""

from __future__ import annotations

from thalweg.kernels.checking import njit


@njit(cache=True, nogil=True)
def _first_at_least(keys, times, key, time, end):
    """The first place below `end` whose (key, time) is not smaller; both columns are sorted by key, then by time."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key or (keys[middle] == key and times[middle] < time):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def find_ranges(keys, times, wanted, low, high, begin, end):
    """For each row the range of places with its key and a time from `low` to `high`; answers how many places in all."""
    total = 0
    count = keys.shape[0]
    for k in range(wanted.shape[0]):
        begin[k] = end[k] = 0
        if low[k] <= high[k]:
            begin[k] = _first_at_least(keys, times, wanted[k], low[k], count)
            end[k] = _first_at_least(keys, times, wanted[k], high[k] + 1, count)
            total += end[k] - begin[k]
    return total


@njit(cache=True, nogil=True)
def expand_ranges(begin, end, order, first, last, left, right):
    """The pairs of the rows from `first` to `last` and the places of their ranges, which `order` maps to entries."""
    at = 0
    for k in range(first, last):
        for place in range(begin[k], end[k]):
            left[at] = order[place]
            right[at] = k
            at += 1
    return at
