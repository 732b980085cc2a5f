"""The events of a sequence: solutions of atoms in them, instants at which something happens, and pairs that agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.sequences import expand_ranges, find_ranges
from thalweg.kernels.times import NO_TIME

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_PAIRS = 1 << 18


@dataclass
class Solutions:
    """The solutions of an atom in some events, in the order of time: when, and the ids of its variables."""

    times: Ints
    rows: Ints
    events: Ints | None = None
    """The ordinals of the events, where it matters which events a match uses."""

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, chosen: Bools | slice) -> Solutions:
        return Solutions(
            self.times[chosen], self.rows[chosen], None if self.events is None else self.events[chosen]
        )


def instants_of(times: Ints) -> Ints:
    """The different ones of some times, which are in order."""
    if not len(times):
        return times
    return times[np.concatenate([[True], times[1:] != times[:-1]])]


class Instants:
    """The instants at which something happens that counts, by the value of the partition (0 without one)."""

    def __init__(self) -> None:
        self.values = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)

    def add(self, values: Ints, times: Ints) -> None:
        """Takes more of them, in any order."""
        if not len(times):
            return
        if not values.any() and (not len(self.times) or self.times[-1] < times[0]):
            # Without partitions they come in the order of time, each once.
            self.values = np.concatenate([self.values, values])
            self.times = np.concatenate([self.times, times])
            return
        values, times = np.concatenate([self.values, values]), np.concatenate([self.times, times])
        order = np.lexsort((times, values))
        values, times = values[order], times[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (values[1:] != values[:-1]) | (times[1:] != times[:-1])
        self.values, self.times = values[new], times[new]

    def before(self, values: Ints, times: Ints, many: int = 1) -> Ints:
        """For each time the instant before it, or that before the one before it; NO_TIME where there is none."""
        values, times = np.ascontiguousarray(values), np.ascontiguousarray(times)
        begin, end = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
        find_ranges(self.values, self.times, values, times, times, begin, end)
        place = begin - many
        found = np.full(len(times), NO_TIME, np.int64)
        there = place >= 0
        there[there] = self.values[place[there]] == values[there]
        found[there] = self.times[place[there]]
        return found

    def forget_all_but(self, many: int) -> None:
        """Lets go of all but the last ones, where there are no partitions."""
        self.values, self.times = self.values[-many:], self.times[-many:]

    def forget(self, until: int) -> None:
        """Lets go of instants before a time."""
        kept = self.times >= until
        if not kept.all():
            self.values, self.times = self.values[kept], self.times[kept]


def pairs(
    keys: Ints, times: Ints, wanted: Ints, low: Ints, high: Ints
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The pairs of places, left and right, where the hashes of keys agree and the left time is from low to high.

    In parts of a bounded size, unless one right row alone has more.
    """
    left_hash, right_hash = _hashed(keys), _hashed(wanted)
    order = np.lexsort((times, left_hash))
    begin, end = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    total = find_ranges(left_hash[order], times[order], right_hash, low, high, begin, end)
    if not total:
        return
    ends = np.cumsum(end - begin)
    first = 0
    while first < len(wanted):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
        count = int(ends[last - 1]) - done
        if count:
            left, right = np.empty(count, np.intp), np.empty(count, np.intp)
            expand_ranges(begin, end, order, first, last, left, right)
            yield left, right
        first = last


def _hashed(keys: Ints) -> Ints:
    """A number for each row of a key."""
    found = np.zeros(len(keys), np.uint64)
    for column in keys.T:
        found = (found ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found.view(np.int64)
