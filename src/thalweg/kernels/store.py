"""The window store: live triples in arrival order, with hash indexes that expire by themselves.

Rows sit in a ring of any size, each on a cache line of its own: `s p o from to time` and a uint32 link for each index
that the store has (a fifth and a sixth make the row longer than a line). A row's link is the distance back to the next
older row with the same key (0 = none), so a chain runs from the newest row to the oldest and may stop at the
first row below TAIL. Eviction moves TAIL; no chain and no table is touched. A deleted row has its interval cut
short and stays until TAIL passes it, or until half of the rows are such.

A triple has one row. When it comes again, the row's interval is prolonged where it is, and the row is marked as
RENEWED: it now ends after rows that are behind it. When TAIL comes to a renewed row that is still alive, the row moves
to HEAD. So the rows that are not renewed end in the order in which they are in the ring (docs/decisions/0020).

A store may have a BASE: another store, of static data, with which it is one set. A triple that is in both is HIDDEN in
the first: it is matched in the base only, and shows again when it leaves the base (docs/decisions/0038).

`time` is when the triple last arrived (in a window by count: the number of that element): what arrives and is
deleted at one instant is there afterwards, in whatever order the two came (SEMANTICS 4).

An index is an open-addressing table of int64 entries: the newest row of a key in the low 32 bits, counted modulo
2^32 from TAIL, and 31 bits of the key's hash above, which also give the home of the entry. So a table can be
rebuilt, at any size, without a look at the rows. An entry whose row is not alive is dead and may be reused; it has to
go before 2^32 rows have come after it (SWEEP), or it would seem alive again. The hash only saves looking at rows in
vain, the row's own key decides.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import lshr
from thalweg.kernels.checking import njit
from thalweg.kernels.key_filter import add_key
from thalweg.kernels.memory import load32, load64, prefetch64, store32, store64

FOREVER = np.iinfo(np.int64).max
NEVER = np.iinfo(np.int64).min

# Fields of a store's descriptor, one row of int64. The ring ends at address END and has SPAN bytes. ROWS is where row 0
# would be if the ring had begun with it: rows beyond END are SPAN bytes before.
ROWS, END, SPAN, STRIDE, HEAD, TAIL, SWEEP, KIND, WIDTH, STEP, ORIGIN, EVENT, LAG, PERIOD, PHASE = range(15)
# Then the bit set of the store's index kinds; the rows that deletes ended since they were last counted; and the 32-bit
# cell of a row where its generations are (LOW above the bit set of the indexes that it is in, then HIGH), or 0.
# BASE is the number of the store that it is one set with, plus 1, or 0.
HAS, ENDED, GENERATIONS, BASE = range(15, 19)
TABLES = 19  # then, for each index kind, four cells:
TABLE, SIZE, TAKEN, LINK = range(
    4
)  # address, entries, those that are not empty, the 32-bit cell of a row's link
INDEX_CELLS = 4
INDEXES = 6
# Of a store of static data: the address of the filter of its keys, how many lines that has, and a word with a bit for
# each predicate.
FILTER, FILTER_LINES, PREDICATES = range(TABLES + INDEX_CELLS * INDEXES, TABLES + INDEX_CELLS * INDEXES + 3)
FIELDS = PREDICATES + 1

# Window kinds.
UNBOUNDED, RANGE, STEPPED, NOW, COUNTED, STATIC = range(6)

# Index kinds; ALL is the scan of every live row and has no table.
SPO, SP, PO, P, S, O, ALL = range(7)

# The index kinds, as bit sets, whose keys have each term. Terms are masked by them: no jumps, which differ by kind.
WITH_S = 1 << SPO | 1 << SP | 1 << S
WITH_P = 1 << SPO | 1 << SP | 1 << PO | 1 << P
WITH_O = 1 << SPO | 1 << PO | 1 << O

# Columns of a row.
ROW_S, ROW_P, ROW_O, ROW_FROM, ROW_TO, ROW_TIME = range(6)
ROW_LOW, ROW_HIGH, ROW_CELLS = 6, 7, 8  # of a row that is kept outside a ring: the generations that it serves
FIRST_LINK = 12  # in 32-bit cells; that of SPO

# Parts of a link; the first one also has the flags of a renewed row and of a hidden one.
DISTANCE = (1 << 30) - 1
HIDDEN = 1 << 30
RENEWED = 1 << 31

# Parts of an index entry; 0 is the empty one, and USED is set in all others.
NUMBER = (1 << 32) - 1
USED = 1 << 32
HASH_BITS = 31
SWEEP_EVERY = 1 << 31  # rows

_HELD = 128  # slots that are tidied together
FEW_ENTRIES = 512  # of the index of an empty store
MANY_ROWS = 1024  # of which a ring may have too many without being slack

# What a row of a batch does. HIDE and SHOW are for the rows of a triple that enters or leaves the base of their store.
INSERT, DELETE, EXPEL, RETRACT, CUT = 1, -1, -2, -3, -4
SHOW, HIDE = 2, -5

# What `insert` answers where it did not insert.
DUPLICATE, INVISIBLE, FULL_ROWS, SLACK_ROWS, UNFIT_TABLE = -1, -2, -3, -4, -5  # less by 1 for each index kind


@njit(cache=True, nogil=True)
def fingerprint(kind, s, p, o):
    """A 64-bit hash of the key that index `kind` makes of a triple."""
    h = np.uint64(s & -(WITH_S >> kind & 1)) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= np.uint64(p & -(WITH_P >> kind & 1)) * np.uint64(0x94D049BB133111EB)
    h = (h << np.uint64(29)) | (h >> np.uint64(35))
    h += np.uint64(o & -(WITH_O >> kind & 1)) * np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xE7037ED1A0B428DB)
    h ^= h >> np.uint64(29)
    return np.int64(h)


@njit(cache=True, nogil=True)
def same_key(kind, row, s, p, o):
    """Whether the row at address `row` has the key that index `kind` makes of (s, p, o)."""
    return (
        ((load64(row, ROW_S) ^ s) & -(WITH_S >> kind & 1))
        | ((load64(row, ROW_P) ^ p) & -(WITH_P >> kind & 1))
        | ((load64(row, ROW_O) ^ o) & -(WITH_O >> kind & 1))
    ) == 0


@njit(cache=True, nogil=True)
def descriptor(stores, store):
    """The address of a store's descriptor. Functions pass it instead of arrays, which Numba counts references to."""
    return np.int64(stores.ctypes.data) + np.int64(store) * np.int64(8 * FIELDS)


@njit(cache=True, nogil=True)
def row_address(desc, number):
    """The address of a row of a store that is between TAIL and HEAD, or is the next to come."""
    at = load64(desc, ROWS) + number * load64(desc, STRIDE)
    return at - load64(desc, SPAN) if at >= load64(desc, END) else at


@njit(cache=True, nogil=True)
def home(mark, size):
    """Where the entry with a hash belongs in a table of any size."""
    return (lshr(mark, 64 - HASH_BITS) * size) >> HASH_BITS


@njit(cache=True, nogil=True)
def find(desc, kind, s, p, o):
    """The key that `kind` makes of (s, p, o) in its index: its newest live row or -1, its slot, its mark.

    Where there is no such row, the slot is the one that its entry may take.
    """
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    table = load64(index, TABLE)
    size = load64(index, SIZE)
    tail = load64(desc, TAIL)
    live = load64(desc, HEAD) - tail
    mark = (fingerprint(kind, s, p, o) | USED) & ~NUMBER
    slot = home(mark, size)
    free = np.int64(-1)
    while True:
        entry = load64(table, slot)
        if entry == 0:
            return np.int64(-1), (slot if free < 0 else free), mark
        age = (entry - tail) & NUMBER
        if entry & ~NUMBER == mark and age < live and same_key(kind, row_address(desc, tail + age), s, p, o):
            return tail + age, slot, mark
        # Whether an entry is dead cannot be foretold, so this had better not become a jump.
        free = slot if (age >= live) & (free < 0) else free
        slot += 1
        if slot == size:
            slot = np.int64(0)


@njit(cache=True, nogil=True)
def newest(desc, kind, s, p, o):
    """The newest live row with the key that `kind` makes of (s, p, o), or -1."""
    return find(desc, kind, s, p, o)[0]


@njit(cache=True, nogil=True)
def _link(desc, kind, number, found):
    """Makes row `number` the newest of the key that was found, or not, in an index."""
    older, slot, mark = found
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    table = load64(index, TABLE)
    if load64(table, slot) == 0:
        store64(index, TAKEN, load64(index, TAKEN) + 1)
    store64(table, slot, mark | (number & NUMBER))
    store32(row_address(desc, number), load64(index, LINK), number - older if older >= 0 else 0)


@njit(cache=True, nogil=True)
def _put(table, size, entry):
    """Puts an entry into the first empty slot from its home on."""
    slot = home(entry, size)
    while load64(table, slot) != 0:
        slot += 1
        if slot == size:
            slot = np.int64(0)
    store64(table, slot, entry)


@njit(cache=True, nogil=True)
def tidy(desc, kind):
    """Rids an index of its dead entries.

    From an empty slot on, entries are taken out and the live ones put in again, a few slots at a time: an entry stays
    where it is or comes nearer to its home, and none that was put in before needs the slot that it leaves.
    """
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    table = load64(index, TABLE)
    size = load64(index, SIZE)
    tail = load64(desc, TAIL)
    live = load64(desc, HEAD) - tail
    held = np.empty(_HELD, np.int64)
    first = np.int64(0)
    while load64(table, first) != 0:
        first += 1
    taken = np.int64(0)
    done = np.int64(0)
    while done < size:
        count = np.int64(0)
        for step in range(done, min(done + _HELD, size)):
            slot = first + step
            slot -= size if slot >= size else 0
            entry = load64(table, slot)
            held[count] = entry
            # Which entries are dead cannot be foretold: no jumps here.
            count += np.int64((entry != 0) & ((entry - tail) & NUMBER < live))
            store64(table, slot, 0)
        for k in range(count):
            _put(table, size, held[k])
        taken += count
        done += _HELD
    store64(index, TAKEN, taken)


@njit(cache=True, nogil=True)
def sweep(desc):
    """Rids all indexes of dead entries, long before their row numbers come again."""
    for kind in range(INDEXES):
        tidy(desc, kind)
    store64(desc, SWEEP, load64(desc, HEAD) + SWEEP_EVERY)


@njit(cache=True, nogil=True)
def live_entries(desc, kind):
    """How many entries of an index are alive."""
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    table = load64(index, TABLE)
    tail = load64(desc, TAIL)
    live = load64(desc, HEAD) - tail
    count = np.int64(0)
    for slot in range(load64(index, SIZE)):
        entry = load64(table, slot)
        count += np.int64((entry != 0) & ((entry - tail) & NUMBER < live))
    return count


@njit(cache=True, nogil=True)
def has_room(desc, kind):
    """Whether an index can take one more entry; if not, it is much smaller or larger than it should be."""
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    size = load64(index, SIZE)
    if load64(index, TAKEN) * 3 < size * 2:
        return True
    # To tidy a table is for nothing where it has to be rebuilt.
    count = live_entries(desc, kind)
    if 2 * count < size < 5 * (count + FEW_ENTRIES):
        tidy(desc, kind)
        return True
    return False


@njit(cache=True, nogil=True)
def slack(desc):
    """Whether a ring is far larger than its rows need."""
    live = load64(desc, HEAD) - load64(desc, TAIL)
    return load64(desc, SPAN) > (live + live // 2 + MANY_ROWS) * load64(desc, STRIDE)


@njit(cache=True, nogil=True)
def _set_tail(desc, tail):
    """Drops the rows below `tail`."""
    store64(desc, TAIL, tail)
    rows = load64(desc, ROWS)
    if rows + tail * load64(desc, STRIDE) >= load64(desc, END):
        store64(desc, ROWS, rows - load64(desc, SPAN))


@njit(cache=True, nogil=True)
def _write(row, s, p, o, begin, end, stamp):
    """Writes a row, without its links, at an address."""
    store64(row, ROW_S, s)
    store64(row, ROW_P, p)
    store64(row, ROW_O, o)
    store64(row, ROW_FROM, begin)
    store64(row, ROW_TO, end)
    store64(row, ROW_TIME, stamp)


@njit(cache=True, nogil=True)
def set_range(desc, row, low, high, kinds):
    """Writes which generations a row serves (none where `low` is above `high`), and which indexes it is in."""
    generations = load64(desc, GENERATIONS)
    store32(row, generations, low << INDEXES | kinds)
    store32(row, generations + 1, high)


@njit(cache=True, nogil=True)
def is_hidden(row):
    """Whether the row at an address is hidden: its triple is in the base of the store."""
    return load32(row, FIRST_LINK) & HIDDEN != 0


@njit(cache=True, nogil=True)
def set_hidden(row, hidden):
    """Hides the row at an address, or shows it."""
    link = load32(row, FIRST_LINK)
    store32(row, FIRST_LINK, (link | HIDDEN) if hidden else (link & ~np.int64(HIDDEN)))


@njit(cache=True, nogil=True)
def filter_key(kind, s, p, o):
    """The term of a key of index `kind` that says in which line of a filter it is, and a hash of the key.

    Terms are hashes themselves. The line comes from the high bits of the term, so these are low bits of the hash.
    """
    s &= -(WITH_S >> kind & 1)
    p &= -(WITH_P >> kind & 1)
    o &= -(WITH_O >> kind & 1)
    term = s if WITH_S >> kind & 1 else (o if WITH_O >> kind & 1 else p)
    return term, (s << 32 | lshr(s, 32)) ^ (p << 21 | lshr(p, 43)) ^ (o << 42 | lshr(o, 22))


@njit(cache=True, nogil=True)
def may_have_predicate(desc, kind, p):
    """Whether a store of static data may have a triple with a predicate; always, if keys of `kind` have none."""
    return load64(desc, PREDICATES) >> (p & 63) & 1 | ~(WITH_P >> kind) & 1


@njit(cache=True, nogil=True)
def add_keys(desc, s, p, o):
    """Adds the keys that the indexes make of a triple to the filter of a store of static data, and its predicate."""
    store64(desc, PREDICATES, load64(desc, PREDICATES) | np.int64(1) << (p & 63))
    for kind in range(INDEXES):
        if load64(desc, HAS) >> kind & 1:
            term, key = filter_key(kind, s, p, o)
            add_key(load64(desc, FILTER), load64(desc, FILTER_LINES), term, key)


@njit(cache=True, nogil=True)
def _to_head(desc, tail):
    """Moves the row at TAIL to HEAD, in the indexes that it is in; it may enter others if that takes no room.

    Where it was the newest row of its key, its entry is dead now: no empty slot comes before that.
    """
    number = load64(desc, HEAD)
    row = row_address(desc, tail)
    s = load64(row, ROW_S)
    p = load64(row, ROW_P)
    o = load64(row, ROW_O)
    begin = load64(row, ROW_FROM)
    end = load64(row, ROW_TO)
    stamp = load64(row, ROW_TIME)
    generations = load64(desc, GENERATIONS)
    low = load32(row, generations) >> INDEXES
    high = load32(row, generations + 1)
    hidden = is_hidden(row)
    _set_tail(desc, tail + 1)
    row = row_address(desc, number)
    _write(row, s, p, o, begin, end, stamp)
    kinds = np.int64(0)
    for kind in range(INDEXES):
        if load64(desc, HAS) >> kind & 1:
            found = find(desc, kind, s, p, o)
            if load64(load64(desc, TABLES + INDEX_CELLS * kind + TABLE), found[1]) != 0:
                _link(desc, kind, number, found)
                kinds |= 1 << kind
    set_hidden(row, hidden)
    if load64(desc, KIND) == STATIC:
        add_keys(desc, s, p, o)
    if generations != 0:
        set_range(desc, row, low, high, kinds)
    store64(desc, HEAD, number + 1)


@njit(cache=True, nogil=True)
def evict(desc, now):
    """Moves TAIL past the rows whose interval ended at or before `now`; renewed rows that are alive go to HEAD."""
    tail = load64(desc, TAIL)
    head = load64(desc, HEAD)
    while tail < head and load64(row_address(desc, tail), ROW_TO) <= now:
        tail += 1
    while tail < head and load32(row_address(desc, tail), FIRST_LINK) & RENEWED != 0:
        if load64(row_address(desc, tail), ROW_TO) > now:
            _to_head(desc, tail)
        tail += 1
        while tail < head and load64(row_address(desc, tail), ROW_TO) <= now:
            tail += 1
    _set_tail(desc, tail)


@njit(cache=True, nogil=True)
def settle(stores, now):
    """Evicts in every store; answers one that is loose: far larger than its rows need or half ended, or -1.

    Making it fit costs as much as what has gone since it last did.
    """
    loose = np.int64(-1)
    for store in range(stores.shape[0]):
        desc = descriptor(stores, store)
        evict(desc, now)
        live = load64(desc, HEAD) - load64(desc, TAIL)
        if (
            load64(desc, SPAN) > (3 * live + MANY_ROWS) * load64(desc, STRIDE)
            or 2 * load64(desc, ENDED) > live + MANY_ROWS
        ):
            loose = np.int64(store)
    return loose


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
def arrival(desc, time, event):
    """Makes a store ready for a triple that arrives: its interval, which may be empty, and what to stamp it with."""
    kind = load64(desc, KIND)
    begin = first_instant(desc, time)
    end = np.int64(FOREVER)
    stamp = time
    if kind == RANGE or kind == STEPPED:
        evict(desc, time)
        end = first_instant(desc, time + load64(desc, WIDTH))
        if end < time:
            end = np.int64(FOREVER)
    elif kind == NOW:
        if load64(desc, EVENT) != event:
            store64(desc, EVENT, event)
            _set_tail(desc, load64(desc, HEAD))
        end = time + 1
    elif kind == COUNTED:
        evict(desc, time)
        stamp = event
    elif kind == STATIC:
        stamp = np.int64(NEVER)  # a delete of the same instant ends it
    if load64(desc, HEAD) >= load64(desc, SWEEP):
        sweep(desc)
    return begin, end, stamp


@njit(cache=True, nogil=True)
def insert(desc, indexes, time, event, s, p, o):
    """Adds a triple that arrives at `time`; answers its row number, or why nothing is new, and from when on it is new.

    A triple that is alive already is one triple (SEMANTICS 1): it lives longer, and its row is new from its old end on.
    A row that has ended begins anew. `indexes` is the bit set of the index kinds that some plan probes for such a
    triple. `event` is the number of the event, or in a window by count that of the element.
    """
    kind = load64(desc, KIND)
    begin, end, stamp = arrival(desc, time, event)
    if begin >= end:
        return np.int64(INVISIBLE), begin
    number = load64(desc, HEAD)
    for index in range(INDEXES):
        if indexes >> index & 1 and not has_room(desc, index):
            return np.int64(UNFIT_TABLE - index), begin
    found = find(desc, SPO, s, p, o)
    alive = found[0]
    if alive >= 0:
        row = row_address(desc, alive)
        until = load64(row, ROW_TO)
        if until >= end:
            store64(row, ROW_TIME, stamp)
            if kind == COUNTED:  # it leaves with a later element
                store32(row, FIRST_LINK, load32(row, FIRST_LINK) | RENEWED)
            return np.int64(DUPLICATE), begin
        # A row of another window may still meet what ends after `time`.
        if until >= begin or until <= time:
            if until >= begin:
                begin = until
            else:
                store64(row, ROW_FROM, begin)
            store64(row, ROW_TO, end)
            store64(row, ROW_TIME, stamp)
            store32(row, FIRST_LINK, load32(row, FIRST_LINK) | RENEWED)
            return alive, begin

    if (number - load64(desc, TAIL)) * load64(desc, STRIDE) == load64(desc, SPAN):
        return np.int64(FULL_ROWS), begin

    row = row_address(desc, number)
    # Once in a round: what has been copied by then is less than what has come. A ring that was made anew has its first
    # row there, unless it is empty and too small to be slack.
    if row == load64(desc, END) - load64(desc, SPAN) and slack(desc):
        return np.int64(SLACK_ROWS), begin
    _write(row, s, p, o, begin, end, stamp)
    store64(desc, HEAD, number + 1)
    _link(desc, SPO, number, found)
    for index in range(1, INDEXES):
        if indexes >> index & 1:
            _link(desc, index, number, find(desc, index, s, p, o))
    if kind == STATIC:
        add_keys(desc, s, p, o)
    return number, begin


@njit(cache=True, nogil=True)
def row_to_delete(desc, op, time, event, s, p, o):
    """The row that a delete ends, or -1 where the triple is not there.

    DELETE spares what arrived at the same instant; in a window by count these are the elements from number `event` on.
    RETRACT is such a delete that meets elements which were not visible before. EXPEL ends what element number `event`
    brought, if no later one brought it again. CUT ends what is there at instant `event`, or now if that is earlier.
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
    if op == CUT:
        return alive if load64(row, ROW_TO) > event else np.int64(-1)
    stamp = load64(row, ROW_TIME)
    if op == EXPEL:
        return alive if stamp == event else np.int64(-1)
    return alive if stamp < (event if kind == COUNTED else time) else np.int64(-1)


@njit(cache=True, nogil=True)
def older_row(desc, kind, number):
    """The next older row in the chain of `kind`, or -1; it may be below TAIL."""
    if kind == ALL:
        return number - 1
    link = load32(row_address(desc, number), load64(desc, TABLES + INDEX_CELLS * kind + LINK)) & DISTANCE
    return number - link if link != 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def prefetch_entries(desc, indexes, s, p, o):
    """Prefetches the entries that the arrival of a triple will touch in these indexes."""
    for kind in range(INDEXES):
        if indexes >> kind & 1:
            index = desc + 8 * (TABLES + INDEX_CELLS * kind)
            prefetch64(load64(index, TABLE), home(fingerprint(kind, s, p, o), load64(index, SIZE)))


@njit(cache=True, nogil=True)
def rebuild(desc, kind, target):
    """Copies the live entries of an index into an empty table of another size."""
    index = desc + 8 * (TABLES + INDEX_CELLS * kind)
    table = load64(index, TABLE)
    tail = load64(desc, TAIL)
    live = load64(desc, HEAD) - tail
    for slot in range(load64(index, SIZE)):
        entry = load64(table, slot)
        if entry != 0 and (entry - tail) & NUMBER < live:
            _put(np.int64(target.ctypes.data), np.int64(target.shape[0]), entry)


@njit(cache=True, nogil=True)
def enter(desc, indexes, s, p, o, begin, end, stamp):
    """Adds a row at HEAD, which has room for it, to these indexes."""
    number = load64(desc, HEAD)
    _write(row_address(desc, number), s, p, o, begin, end, stamp)
    for index in range(INDEXES):
        if indexes >> index & 1:
            _link(desc, index, number, find(desc, index, s, p, o))
    if load64(desc, KIND) == STATIC:
        add_keys(desc, s, p, o)
    store64(desc, HEAD, number + 1)


@njit(cache=True, nogil=True)
def replant(rows, stores, store, indexes):
    """Adds some rows to a store, which has room for all of them."""
    desc = descriptor(stores, store)
    for k in range(rows.shape[0]):
        row = row_address(desc, load64(desc, HEAD))
        enter(
            desc,
            indexes,
            rows[k, ROW_S],
            rows[k, ROW_P],
            rows[k, ROW_O],
            rows[k, ROW_FROM],
            rows[k, ROW_TO],
            rows[k, ROW_TIME],
        )
        if load64(desc, GENERATIONS) != 0:
            set_range(desc, row, rows[k, ROW_LOW], rows[k, ROW_HIGH], indexes)
