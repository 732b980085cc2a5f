"""Generations: rows that serve only the queries which were registered before they arrived.

The generation of a row of the input is how many registrations in mid-stream came before it; that of a unit, how many
came before its query. A unit may use what arrived in its own generation or later. In a store with generations, a row
of the ring therefore serves a range of them, LOW to HIGH: with its interval, it is a rectangle of time and
generations. The rows of a triple have no point in common, and a solution has the rectangle that its rows share.

What arrives in generation g concerns the units of the generations 0 to g. Their rows of this triple may differ: a unit
that is older than the last arrival has a row to prolong, a younger one has none. So an arrival or a delete is applied
in parts, from generation 0 on; each part is a range of generations that have the same row, and the delta plans run for
each.

No search that begins later looks at what a row did before: all that counts of a FROM that has come is that it has. So
rows of neighbouring generations that end together are joined again, and as a rule a triple has one row.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.memory import load32, load64, store32, store64
from thalweg.kernels.store import (
    COUNTED,
    CUT,
    DUPLICATE,
    ENDED,
    EXPEL,
    FIRST_LINK,
    FULL_ROWS,
    GENERATIONS,
    HEAD,
    INDEXES,
    INVISIBLE,
    KIND,
    NEVER,
    NOW,
    RANGE,
    RENEWED,
    ROW_FROM,
    ROW_TIME,
    ROW_TO,
    SPAN,
    SPO,
    STEPPED,
    STRIDE,
    TAIL,
    UNFIT_TABLE,
    arrival,
    enter,
    evict,
    first_instant,
    has_room,
    is_hidden,
    newest,
    older_row,
    row_address,
    set_hidden,
    set_range,
)

_SPLITS = 3  # the rows that a part may add: its own, and one that it divides


@njit(cache=True, nogil=True)
def first_generation(desc, row):
    """The first generation that the row at an address serves."""
    return load32(row, load64(desc, GENERATIONS)) >> INDEXES


@njit(cache=True, nogil=True)
def last_generation(desc, row):
    """The last generation that the row at an address serves."""
    return load32(row, load64(desc, GENERATIONS) + 1)


@njit(cache=True, nogil=True)
def _entered(desc, row):
    """The bit set of the indexes that the row at an address is in."""
    return load32(row, load64(desc, GENERATIONS)) & ((1 << INDEXES) - 1)


@njit(cache=True, nogil=True)
def _serving(desc, low, most, s, p, o):
    """The newest row of a triple that serves generation `low`, or -1, and up to which generation that is so.

    It is at most `most`.
    """
    number = newest(desc, SPO, s, p, o)
    tail = load64(desc, TAIL)
    while number >= tail:
        row = row_address(desc, number)
        first = first_generation(desc, row)
        last = last_generation(desc, row)
        if first <= low <= last:
            return number, min(most, last)
        if low < first <= last:
            most = min(most, first - 1)
        number = older_row(desc, SPO, number)
    return np.int64(-1), most


@njit(cache=True, nogil=True)
def _add(desc, kinds, s, p, o, begin, end, stamp, low, high, hidden):
    """Adds a row for some generations at HEAD, in these indexes; there is room. Answers its number."""
    number = load64(desc, HEAD)
    enter(desc, kinds, s, p, o, begin, end, stamp)
    row = row_address(desc, number)
    set_range(desc, row, low, high, kinds)
    set_hidden(row, hidden)
    return number


@njit(cache=True, nogil=True)
def _cut(desc, number, low, high, s, p, o):
    """Takes the generations from `low` to `high` out of a row's range; it may need another row, or none."""
    row = row_address(desc, number)
    first = first_generation(desc, row)
    last = last_generation(desc, row)
    kinds = _entered(desc, row)
    if first < low:
        set_range(desc, row, first, low - 1, kinds)
        if high < last:
            begin = load64(row, ROW_FROM)
            end = load64(row, ROW_TO)
            stamp = load64(row, ROW_TIME)
            _add(desc, kinds, s, p, o, begin, end, stamp, high + 1, last, is_hidden(row))
    elif high < last:
        set_range(desc, row, high + 1, last, kinds)
    else:
        set_range(desc, row, 1, 0, kinds)
        store64(row, ROW_TO, NEVER)
        store64(desc, ENDED, load64(desc, ENDED) + 1)


@njit(cache=True, nogil=True)
def _own_row(desc, number, low, high, s, p, o):
    """A row that has what row `number` has, for the generations from `low` to `high` only: itself, or another."""
    row = row_address(desc, number)
    if first_generation(desc, row) == low and last_generation(desc, row) == high:
        return number
    begin = load64(row, ROW_FROM)
    end = load64(row, ROW_TO)
    stamp = load64(row, ROW_TIME)
    kinds = _entered(desc, row)
    hidden = is_hidden(row)
    _cut(desc, number, low, high, s, p, o)
    return _add(desc, kinds, s, p, o, begin, end, stamp, low, high, hidden)


@njit(cache=True, nogil=True)
def insert_part(desc, indexes, time, event, s, p, o, low, generation):
    """Applies an arrival in `generation` to the generations from `low` on, as far as they have the same row.

    Answers the row number or why nothing is new, from when on it is new, and the last generation of this part. See
    `insert` for the rest.
    """
    kind = load64(desc, KIND)
    begin, end, stamp = arrival(desc, time, event)
    if begin >= end:
        return np.int64(INVISIBLE), begin, generation
    for index in range(INDEXES):
        if indexes >> index & 1 and not has_room(desc, index):
            return np.int64(UNFIT_TABLE - index), begin, low
    if not _has_rows(desc):
        return np.int64(FULL_ROWS), begin, low

    number, high = _serving(desc, low, generation, s, p, o)
    since = begin  # when the part's new life begins
    start = begin  # from when on it is new
    if number >= 0:
        row = row_address(desc, number)
        until = load64(row, ROW_TO)
        if until >= end:
            if load64(row, ROW_TIME) != stamp:
                row = row_address(desc, _own_row(desc, number, low, high, s, p, o))
                store64(row, ROW_TIME, stamp)
                if kind == COUNTED:
                    store32(row, FIRST_LINK, load32(row, FIRST_LINK) | RENEWED)
            return np.int64(DUPLICATE), begin, high
        if until >= begin:
            start = until
            since = load64(row, ROW_FROM)
        elif until > time:
            number = np.int64(-1)  # a row of another window may still meet it: it stays

    if low > 0 and since <= time:
        other, _ = _serving(desc, low - 1, low - 1, s, p, o)
        if other >= 0:
            row = row_address(desc, other)
            if (
                last_generation(desc, row) == low - 1
                and load64(row, ROW_TO) == end
                and load64(row, ROW_FROM) <= time
                and load64(row, ROW_TIME) == stamp
                and indexes & ~_entered(desc, row) == 0
            ):
                if number >= 0:
                    _cut(desc, number, low, high, s, p, o)
                set_range(desc, row, first_generation(desc, row), high, _entered(desc, row))
                return other, start, high

    if number < 0:
        return _add(desc, indexes, s, p, o, since, end, stamp, low, high, False), start, high
    row = row_address(desc, number)
    if (
        first_generation(desc, row) == low
        and last_generation(desc, row) == high
        and indexes & ~_entered(desc, row) == 0
    ):
        store64(row, ROW_FROM, since)
        store64(row, ROW_TO, end)
        store64(row, ROW_TIME, stamp)
        store32(row, FIRST_LINK, load32(row, FIRST_LINK) | RENEWED)
        return number, start, high
    kinds = indexes | _entered(desc, row)
    _cut(desc, number, low, high, s, p, o)
    return _add(desc, kinds, s, p, o, since, end, stamp, low, high, False), start, high


@njit(cache=True, nogil=True)
def _has_rows(desc):
    """Whether a ring has room for all rows that a part may add."""
    rows = load64(desc, HEAD) - load64(desc, TAIL) + _SPLITS
    return rows * load64(desc, STRIDE) <= load64(desc, SPAN)


@njit(cache=True, nogil=True)
def delete_part(desc, op, time, event, s, p, o, low, generation):
    """Finds the row that a delete in `generation` ends for the generations from `low` on, as far as they have the same.

    Answers its number, or -1 where there is nothing to delete, or FULL_ROWS, and the last generation of this part. See
    `row_to_delete` for the rest.
    """
    kind = load64(desc, KIND)
    if kind == NOW:
        return np.int64(-1), generation
    if kind == RANGE or kind == STEPPED:
        evict(desc, time)
    if not _has_rows(desc):
        return np.int64(FULL_ROWS), low
    number, high = _serving(desc, low, generation, s, p, o)
    if number < 0:
        return np.int64(-1), high
    row = row_address(desc, number)
    if load64(row, ROW_TO) <= first_instant(desc, time):
        return np.int64(-1), high
    stamp = load64(row, ROW_TIME)
    if op == CUT:
        ends = load64(row, ROW_TO) > event
    elif op == EXPEL:
        ends = stamp == event
    else:
        ends = stamp < (event if kind == COUNTED else time)
    if not ends:
        return np.int64(-1), high
    return _own_row(desc, number, low, high, s, p, o), high
