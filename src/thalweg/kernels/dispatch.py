"""Dispatch: the entries of the patterns that a triple may fit, found by the constants they name."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.layout import (
    BASE_SLOT,
    DISPATCH_CELLS,
    DISPATCH_COUNT,
    DISPATCH_FIRST,
    DISPATCH_INDEXES,
    DISPATCH_KEY,
    DISPATCH_MASKS,
    LOOKAHEAD_COUNT,
    LOOKAHEAD_INDEXES,
    LOOKAHEAD_RANGES,
    PREDICATE,
    RANGE_CELLS,
)
from thalweg.kernels.memory import load64, store64

_SLOT = (1 << BASE_SLOT) - 1


@njit(cache=True, nogil=True)
def signature_key(store, mask, s, p, o):
    """The dispatch key of the triples of a store that agree with constants at the positions in `mask`."""
    h = np.uint64(store * 8 + mask + 1) * np.uint64(0x9E3779B97F4A7C15)
    if mask & 1:
        h = (h ^ np.uint64(s)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(31)
    if mask & 2:
        h = (h ^ np.uint64(p)) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(29)
    if mask & 4:
        h = (h ^ np.uint64(o)) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    return np.int64(h | np.uint64(1))


@njit(cache=True, nogil=True)
def look_up(dispatch, last, key):
    """The entry (an address) of a signature in the dispatch table of slots 0 to `last`, or 0."""
    slot = (key >> np.int64(1)) & last
    while True:
        entry = dispatch + slot * (8 * DISPATCH_CELLS)
        found = load64(entry, DISPATCH_KEY)
        if found == key:
            return entry
        if found == 0:
            return np.int64(0)
        slot = (slot + 1) & last


@njit(cache=True, nogil=True)
def dispatch_triple(s, p, o, store, masks, dispatch, last, lookahead):
    """Writes the entries that a triple may fit, as ranges, and the indexes that it needs, to a slot of the lookahead.

    `masks` is the bit set of signature masks that leave the predicate open.
    """
    ranges = lookahead + 8 * LOOKAHEAD_RANGES
    count = np.int64(0)
    indexes = np.int64(0)
    own = look_up(dispatch, last, signature_key(store, PREDICATE, s, p, o))
    if own != 0:
        masks |= load64(own, DISPATCH_MASKS)
    mask = np.int64(0)
    while masks:
        if masks & 1:
            entry = own if mask == PREDICATE else look_up(dispatch, last, signature_key(store, mask, s, p, o))
            if entry != 0:
                first = load64(entry, DISPATCH_FIRST)
                store64(ranges, RANGE_CELLS * count, first)
                store64(ranges, RANGE_CELLS * count + 1, first + load64(entry, DISPATCH_COUNT))
                store64(ranges, RANGE_CELLS * count + 2, (entry - dispatch) // (8 * DISPATCH_CELLS))
                indexes |= load64(entry, DISPATCH_INDEXES)
                count += 1
        masks >>= 1
        mask += 1
    store64(lookahead, LOOKAHEAD_COUNT, count)
    store64(lookahead, LOOKAHEAD_INDEXES, indexes)


@njit(cache=True, nogil=True)
def partner_is_empty(others, until, begin):
    """Whether some other pattern of the query has no row that lives beyond `begin`.

    `others` lists the patterns' signatures, ended by -1; `until` has the end of the last row of each signature. A
    deleted row still counts, so the answer may be a wrong False, but never a wrong True.
    """
    while load64(others, 0) >= 0:
        slot = load64(others, 0)
        if load64(until, slot & _SLOT) <= begin:
            base = slot >> BASE_SLOT
            if base == 0 or load64(until, base - 1) <= begin:
                return True
        others += 8
    return False
