"""The window store: live triples in arrival order, with hash indexes that expire by themselves.

Rows sit in a ring; row number r lives at slot r & mask. A row is `s p o from to time` and a uint32 link for each
index kind: one cache line for the kinds up to P, two where patterns with a variable predicate need S or O.
A row's link is the distance back to the next older row with the same key (0 = none), so a chain runs from the
newest row to the oldest and may stop at the first row below TAIL. Eviction moves TAIL; no chain and no
table is touched. A deleted row has its interval cut short and stays until TAIL passes it, or until the ring
is full and mostly dead.

`time` is when the triple last arrived (in a window by count: the number of that element): what arrives and is
deleted at one instant is there afterwards, in whatever order the two came (SEMANTICS 4).

An index is an open-addressing table of int64 entries: the newest row of a key in the low 44 bits, some bits of the
key's fingerprint above. An entry whose newest row is below TAIL is dead and may be reused; the fingerprint
only saves looking at rows in vain, the row's own key decides.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thalweg.kernels.memory import load32, load64, prefetch, store32, store64

FOREVER = np.iinfo(np.int64).max
NEVER = np.iinfo(np.int64).min

# Fields of a store's descriptor, one row of int64.
ROWS, MASK, HEAD, TAIL, KIND, WIDTH, STEP, ORIGIN, EVENT, STRIDE, LAG, PERIOD, PHASE = range(13)
TABLES = 13  # then, for each index kind: address, mask, used entries
INDEXES = 6
FIELDS = TABLES + 3 * INDEXES

# Window kinds.
UNBOUNDED, RANGE, STEPPED, NOW, COUNTED = range(5)

# Index kinds; ALL is the scan of every live row and has no table.
SPO, SP, PO, P, S, O, ALL = range(7)

# Columns of a row.
ROW_S, ROW_P, ROW_O, ROW_FROM, ROW_TO, ROW_TIME = range(6)
FIRST_LINK = 12  # in 32-bit cells
NARROW, WIDE = 64, 128  # bytes of a row, without and with links of S and O

# Parts of an index entry; 0 is the empty one. The bit above the row number is always set.
NUMBER_BITS = 44
NUMBER = (1 << NUMBER_BITS) - 1
USED = 1 << NUMBER_BITS

# What a row of a batch does.
INSERT, DELETE, EXPEL, RETRACT = 1, -1, -2, -3

# What `insert` answers where it did not insert.
DUPLICATE, INVISIBLE, FULL_ROWS, FULL_TABLE = -1, -2, -3, -4


@njit(cache=True, nogil=True)
def fingerprint(kind, s, p, o):
    """A 64-bit hash of the key that index `kind` makes of a triple."""
    h = np.uint64(0x9E3779B97F4A7C15)
    if kind == SPO or kind == SP or kind == S:
        h ^= np.uint64(s) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h << np.uint64(31)) | (h >> np.uint64(33))
    if kind == SPO or kind == SP or kind == PO or kind == P:
        h ^= np.uint64(p) * np.uint64(0x94D049BB133111EB)
        h = (h << np.uint64(29)) | (h >> np.uint64(35))
    if kind == SPO or kind == PO or kind == O:
        h ^= np.uint64(o) * np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xE7037ED1A0B428DB)
    h ^= h >> np.uint64(29)
    return np.int64(h)


@njit(cache=True, nogil=True)
def same_key(kind, row, s, p, o):
    """Whether the row at address `row` has the key that index `kind` makes of (s, p, o)."""
    if (kind == SPO or kind == SP or kind == S) and load64(row, ROW_S) != s:
        return False
    if (kind == SPO or kind == SP or kind == PO or kind == P) and load64(row, ROW_P) != p:
        return False
    return not ((kind == SPO or kind == PO or kind == O) and load64(row, ROW_O) != o)


@njit(cache=True, nogil=True)
def descriptor(stores, store):
    """The address of a store's descriptor. Functions pass it instead of arrays, which Numba counts references to."""
    return np.int64(stores.ctypes.data) + np.int64(store) * np.int64(8 * FIELDS)


@njit(cache=True, nogil=True)
def row_address(desc, number):
    """The address of row `number` of a store."""
    return load64(desc, ROWS) + (number & load64(desc, MASK)) * load64(desc, STRIDE)


@njit(cache=True, nogil=True)
def newest(desc, kind, s, p, o):
    """The newest live row with the key that `kind` makes of (s, p, o), or -1."""
    table = load64(desc, TABLES + 3 * kind)
    mask = load64(desc, TABLES + 3 * kind + 1)
    tail = load64(desc, TAIL)
    hashed = fingerprint(kind, s, p, o)
    mark = (hashed | USED) & ~NUMBER
    slot = hashed & mask
    while True:
        entry = load64(table, slot)
        if entry == 0:
            return np.int64(-1)
        if entry & ~NUMBER == mark:
            number = entry & NUMBER
            if number >= tail and same_key(kind, row_address(desc, number), s, p, o):
                return number
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _place(desc, kind, s, p, o):
    """Where the entry of a key is or will be: (slot, newest row or -1)."""
    table = load64(desc, TABLES + 3 * kind)
    mask = load64(desc, TABLES + 3 * kind + 1)
    tail = load64(desc, TAIL)
    hashed = fingerprint(kind, s, p, o)
    mark = (hashed | USED) & ~NUMBER
    slot = hashed & mask
    free = np.int64(-1)
    while True:
        entry = load64(table, slot)
        if entry == 0:
            return (slot if free < 0 else free), np.int64(-1)
        number = entry & NUMBER
        if number < tail:
            if free < 0:
                free = slot
        elif entry & ~NUMBER == mark and same_key(kind, row_address(desc, number), s, p, o):
            return slot, number
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _link(desc, kind, slot, older, number, s, p, o):
    """Makes row `number` the newest of its key, and `older` the next in its chain."""
    table = load64(desc, TABLES + 3 * kind)
    if load64(table, slot) == 0:
        store64(desc, TABLES + 3 * kind + 2, load64(desc, TABLES + 3 * kind + 2) + 1)
    store64(table, slot, ((fingerprint(kind, s, p, o) | USED) & ~NUMBER) | number)
    store32(row_address(desc, number), FIRST_LINK + kind, number - older if older >= 0 else 0)


@njit(cache=True, nogil=True)
def evict(desc, now):
    """Moves TAIL past the rows whose interval ended at or before `now`."""
    tail = load64(desc, TAIL)
    head = load64(desc, HEAD)
    while tail < head and load64(row_address(desc, tail), ROW_TO) <= now:
        tail += 1
    store64(desc, TAIL, tail)


@njit(cache=True, nogil=True)
def evict_all(stores, now):
    """Evicts in every store that has a window by time or by count."""
    for store in range(stores.shape[0]):
        desc = descriptor(stores, store)
        kind = load64(desc, KIND)
        if kind == RANGE or kind == STEPPED or kind == COUNTED:
            evict(desc, now)


@njit(cache=True, nogil=True)
def first_instant(desc, time):
    """The first instant at which a window shows what happens at `time`.

    LAG is 1 where the content at an instant is of what came before it, else 0. STEP and PERIOD are distances of
    instants at which the content may change, counted from ORIGIN and PHASE.
    """
    time += load64(desc, LAG)
    if load64(desc, KIND) == STEPPED:
        step = load64(desc, STEP)
        time += (load64(desc, ORIGIN) - time) % step
    period = load64(desc, PERIOD)
    if period != 0:
        time += (load64(desc, PHASE) - time) % period
    return time


@njit(cache=True, nogil=True)
def insert(desc, indexes, time, event, s, p, o):
    """Adds a triple that arrives at `time`; answers its row number, or why there is none.

    A triple that is alive already is one triple (SEMANTICS 1): its new row begins where the old one ends.
    `indexes` is the bit set of the index kinds that some plan probes for such a triple. `event` is the number of the
    event, or in a window by count that of the element.
    """
    kind = load64(desc, KIND)
    begin = first_instant(desc, time)
    end = np.int64(FOREVER)
    stamp = time
    if kind == RANGE or kind == STEPPED:
        evict(desc, time)
        end = first_instant(desc, time + load64(desc, WIDTH))
        if end < time:
            end = np.int64(FOREVER)
        if begin >= end:
            return np.int64(INVISIBLE)
    elif kind == NOW:
        if load64(desc, EVENT) != event:
            store64(desc, EVENT, event)
            store64(desc, TAIL, load64(desc, HEAD))
        end = time + 1
    elif kind == COUNTED:
        evict(desc, time)
        stamp = event

    place, alive = _place(desc, SPO, s, p, o)
    if alive >= 0:
        until = load64(row_address(desc, alive), ROW_TO)
        if until >= end:
            store64(row_address(desc, alive), ROW_TIME, stamp)
            return np.int64(DUPLICATE)
        if until > begin:
            begin = until

    number = load64(desc, HEAD)
    if number - load64(desc, TAIL) > load64(desc, MASK):
        return np.int64(FULL_ROWS)
    for index in range(INDEXES):
        if indexes >> index & 1:
            base = TABLES + 3 * index
            if load64(desc, base + 2) * 5 > load64(desc, base + 1) * 3:
                return np.int64(FULL_TABLE - index)

    row = row_address(desc, number)
    store64(row, ROW_S, s)
    store64(row, ROW_P, p)
    store64(row, ROW_O, o)
    store64(row, ROW_FROM, begin)
    store64(row, ROW_TO, end)
    store64(row, ROW_TIME, stamp)
    store64(desc, HEAD, number + 1)
    _link(desc, SPO, place, alive, number, s, p, o)
    for index in range(1, INDEXES):
        if indexes >> index & 1:
            slot, older = _place(desc, index, s, p, o)
            _link(desc, index, slot, older, number, s, p, o)
    return number


@njit(cache=True, nogil=True)
def doomed(desc, op, time, event, s, p, o):
    """The newest row that a delete ends, or -1 where the triple is not there.

    DELETE spares what arrived at the same instant; in a window by count these are the elements from number `event` on.
    RETRACT is such a delete that meets elements which were not visible before. EXPEL ends what element number `event`
    brought, if no later one brought it again.
    """
    kind = load64(desc, KIND)
    if kind == NOW:
        return np.int64(-1)
    if kind == RANGE or kind == STEPPED:
        evict(desc, time)
    alive = newest(desc, SPO, s, p, o)
    if alive < 0:
        return np.int64(-1)
    row = row_address(desc, alive)
    if load64(row, ROW_TO) <= first_instant(desc, time):
        return np.int64(-1)
    stamp = load64(row, ROW_TIME)
    if op == EXPEL:
        return alive if stamp == event else np.int64(-1)
    return alive if stamp < (event if kind == COUNTED else time) else np.int64(-1)


@njit(cache=True, nogil=True)
def older_row(desc, kind, number):
    """The next older row in the chain of `kind`, or -1; it may be below TAIL."""
    if kind == ALL:
        return number - 1
    link = load32(row_address(desc, number), FIRST_LINK + kind)
    return number - link if link != 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def expect(desc, s, p, o):
    """Asks for the memory that the arrival of a triple will touch first."""
    table = load64(desc, TABLES + 3 * SPO)
    prefetch(table, fingerprint(SPO, s, p, o) & load64(desc, TABLES + 3 * SPO + 1))


@njit(cache=True, nogil=True)
def relocate(rows, tail, head, target):
    """Copies the rows from TAIL to HEAD of a ring into a larger one, each to its own slot."""
    mask = np.int64(rows.shape[0] - 1)
    wide = np.int64(target.shape[0] - 1)
    for number in range(tail, head):
        for cell in range(rows.shape[1]):
            target[number & wide, cell] = rows[number & mask, cell]


@njit(cache=True, nogil=True)
def dead_rows(rows, tail, head, now):
    """How many rows between TAIL and HEAD have ended at or before `now`."""
    mask = np.int64(rows.shape[0] - 1)
    count = np.int64(0)
    for number in range(tail, head):
        if rows[number & mask, ROW_TO] <= now:
            count += 1
    return count


@njit(cache=True, nogil=True)
def live_entries(table, tail):
    """How many entries of an index still lead to a live row."""
    count = np.int64(0)
    for slot in range(table.shape[0]):
        if table[slot] != 0 and table[slot] & NUMBER >= tail:
            count += 1
    return count


@njit(cache=True, nogil=True)
def rebuild(kind, table, rows, tail, target):
    """Moves the live entries of an index into an empty table; answers their number."""
    mask = np.int64(target.shape[0] - 1)
    ring = np.int64(rows.shape[0] - 1)
    count = np.int64(0)
    for slot in range(table.shape[0]):
        entry = table[slot]
        number = entry & NUMBER
        if entry != 0 and number >= tail:
            at = number & ring
            place = fingerprint(kind, rows[at, ROW_S], rows[at, ROW_P], rows[at, ROW_O]) & mask
            while target[place] != 0:
                place = (place + 1) & mask
            target[place] = entry
            count += 1
    return count


@njit(cache=True, nogil=True)
def replant(rows, tail, head, now, stores, store, indexes):
    """Moves the rows that end after `now` to the empty ring and tables of a store, with new numbers from HEAD on."""
    mask = np.int64(rows.shape[0] - 1)
    desc = descriptor(stores, store)
    for old in range(tail, head):
        at = old & mask
        if rows[at, ROW_TO] <= now:
            continue
        number = load64(desc, HEAD)
        row = row_address(desc, number)
        for cell in range(ROW_TIME + 1):
            store64(row, cell, rows[at, cell])
        store64(desc, HEAD, number + 1)
        for index in range(INDEXES):
            if indexes >> index & 1:
                s, p, o = rows[at, ROW_S], rows[at, ROW_P], rows[at, ROW_O]
                slot, older = _place(desc, index, s, p, o)
                _link(desc, index, slot, older, number, s, p, o)
