"""Supports: which asserted triples of a window a derived triple follows from, newest first.

`asserted` int64[n, 6] has a row for each asserted triple: s, p, o, the stamp of its latest arrival (a time, or in a
window by count the number of the element), its first node, and how many nodes it has (-1: it is not there). `derived`
int64[m, 4] has the triples that follow: s, p, o, and the newest node (-1: none). `nodes` int64[k, 4] are the supports:
the next newer and the next older one of the same derived triple, the derived and the asserted triple. `heads` has how
many rows of each are in use. Two tables of open addressing find rows by their triples (-1 = free).

In a window by time, what came last ends last: the newest support decides how long a derived triple lives. Nothing
here expires by itself: the owner makes everything anew from what is alive, once the arrays are full.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.chains import link, unlink
from thalweg.kernels.checking import njit
from thalweg.kernels.store import CUT, DELETE, EXPEL, FOREVER, INSERT, NEVER

STAMP, FIRST, COUNT = 3, 4, 5
HEAD = 3
NEWER, OLDER, DERIVED, ASSERTED = range(4)
USED_ASSERTED, USED_DERIVED, USED_NODES, ABSENT = range(4)

# How a window shows time; see `store.first_instant`.
COUNTED, WIDTH, LAG, STEP, ORIGIN, PERIOD, PHASE = range(7)
"""A window's cells: 1 where stamps are numbers; its width, or -1 where triples do not expire; then as in a store."""


@njit(cache=True, nogil=True)
def shown(window, time):
    """The first instant at which a window shows what happens at `time`."""
    time += window[LAG]
    if window[STEP] != 0:
        time += (window[ORIGIN] - time) % window[STEP]
    if window[PERIOD] != 0:
        time += (window[PHASE] - time) % window[PERIOD]
    return time


@njit(cache=True, nogil=True)
def end_of(window, stamp):
    """When a triple leaves a window that came at `stamp`, and was not deleted."""
    if window[WIDTH] < 0:
        return np.int64(FOREVER)
    end = shown(window, stamp + window[WIDTH])
    return np.int64(FOREVER) if end < stamp else end


@njit(cache=True, nogil=True)
def _slot(s, p, o, last):
    h = np.uint64(s) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= np.uint64(p) * np.uint64(0x94D049BB133111EB)
    h = (h << np.uint64(29)) | (h >> np.uint64(35))
    h += np.uint64(o) * np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xE7037ED1A0B428DB)
    return np.int64(h >> np.uint64(33)) & last


@njit(cache=True, nogil=True)
def _find(slots, rows, s, p, o):
    """The row of a triple or -1, and its slot or the one that it may take."""
    last = np.int64(slots.shape[0] - 1)
    slot = _slot(s, p, o, last)
    while slots[slot] >= 0:
        row = slots[slot]
        if rows[row, 0] == s and rows[row, 1] == p and rows[row, 2] == o:
            return row, slot
        slot = (slot + 1) & last
    return np.int64(-1), slot


@njit(cache=True, nogil=True)
def apply(
    time,
    event,
    op,
    rows_of,
    triples,
    made,
    window,
    heads,
    asserted,
    asserted_slots,
    derived,
    derived_slots,
    nodes,
    out,
):
    """Applies asserted rows in time order; answers how many rows it wrote to `out`.

    `triples` (3, n) are the rows, `rows_of[i]` where the triples begin that follow from row i: `made` (3, k). A row
    of `out` is the row that it is due to, s, p, o, its op (INSERT or CUT), and for CUT the instant at which the triple
    ends. There is room for all rows.
    """
    written = np.int64(0)
    expires = window[WIDTH] >= 0
    for i in range(time.shape[0]):
        first = rows_of[i]
        last = rows_of[i + 1]
        if first == last:
            continue
        s = triples[0, i]
        p = triples[1, i]
        o = triples[2, i]
        row, slot = _find(asserted_slots, asserted, s, p, o)
        stamp = event[i] if window[COUNTED] != 0 else time[i]
        if op[i] == INSERT:
            if row < 0:
                row = heads[USED_ASSERTED]
                heads[USED_ASSERTED] += 1
                asserted_slots[slot] = row
                asserted[row, 0] = s
                asserted[row, 1] = p
                asserted[row, 2] = o
                asserted[row, COUNT] = -1
            if asserted[row, COUNT] < 0:
                asserted[row, FIRST] = heads[USED_NODES]
                asserted[row, COUNT] = last - first
                for k in range(first, last):
                    found, at = _find(derived_slots, derived, made[0, k], made[1, k], made[2, k])
                    if found < 0:
                        found = heads[USED_DERIVED]
                        heads[USED_DERIVED] += 1
                        derived_slots[at] = found
                        derived[found, 0] = made[0, k]
                        derived[found, 1] = made[1, k]
                        derived[found, 2] = made[2, k]
                        derived[found, HEAD] = -1
                    node = heads[USED_NODES]
                    heads[USED_NODES] += 1
                    nodes[node, DERIVED] = found
                    nodes[node, ASSERTED] = row
                    if derived[found, HEAD] < 0 or expires:
                        out[written, 0] = i
                        out[written, 1] = made[0, k]
                        out[written, 2] = made[1, k]
                        out[written, 3] = made[2, k]
                        out[written, 4] = INSERT
                        out[written, 5] = event[i]
                        written += 1
                    link(nodes, derived, node, DERIVED, HEAD, OLDER, NEWER)
            elif asserted[row, STAMP] != stamp:
                for node in range(asserted[row, FIRST], asserted[row, FIRST] + asserted[row, COUNT]):
                    unlink(nodes, derived, node, DERIVED, HEAD, OLDER, NEWER)
                    link(nodes, derived, node, DERIVED, HEAD, OLDER, NEWER)
                    if expires:
                        found = nodes[node, DERIVED]
                        out[written, 0] = i
                        out[written, 1] = derived[found, 0]
                        out[written, 2] = derived[found, 1]
                        out[written, 3] = derived[found, 2]
                        out[written, 4] = INSERT
                        out[written, 5] = event[i]
                        written += 1
            asserted[row, STAMP] = stamp
            continue
        now = shown(window, time[i])
        gone = row < 0 or asserted[row, COUNT] < 0
        if not gone:
            before = asserted[row, STAMP]
            if op[i] == EXPEL:
                gone = before != stamp
            else:
                gone = before >= stamp or end_of(window, before) <= now
        if gone:
            heads[ABSENT] += op[i] == DELETE
            continue
        own_end = end_of(window, asserted[row, STAMP])
        for node in range(asserted[row, FIRST], asserted[row, FIRST] + asserted[row, COUNT]):
            newest = nodes[node, NEWER] < 0
            unlink(nodes, derived, node, DERIVED, HEAD, OLDER, NEWER)
            if not newest:
                continue
            found = nodes[node, DERIVED]
            end = np.int64(NEVER)
            if nodes[node, OLDER] >= 0:
                end = end_of(window, asserted[nodes[nodes[node, OLDER], ASSERTED], STAMP])
            if end >= own_end:
                continue
            out[written, 0] = i
            out[written, 1] = derived[found, 0]
            out[written, 2] = derived[found, 1]
            out[written, 3] = derived[found, 2]
            out[written, 4] = CUT
            out[written, 5] = end if end > now else np.int64(NEVER)
            written += 1
        asserted[row, COUNT] = -1
    return written


@njit(cache=True, nogil=True)
def last_of_each(rows, slots, kept):
    """Marks the last of the columns of `rows` (s, p, o, ...) with each triple; `slots` is an empty table for all."""
    last = np.int64(slots.shape[0] - 1)
    for i in range(rows.shape[1] - 1, -1, -1):
        slot = _slot(rows[0, i], rows[1, i], rows[2, i], last)
        kept[i] = True
        while slots[slot] >= 0:
            other = slots[slot]
            if rows[0, other] == rows[0, i] and rows[1, other] == rows[1, i] and rows[2, other] == rows[2, i]:
                kept[i] = False
                break
            slot = (slot + 1) & last
        if kept[i]:
            slots[slot] = i
