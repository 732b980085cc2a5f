"""The timeline: signed rows that wait for their instant, in a queue and a radix heap.

Solutions come in order of time, mostly: their beginnings wait in a queue. Their ends wait in a heap. Time runs forward,
so rows need no order until their instant is near. BASE is an instant at or before which everything was taken. A row
waits in the bucket that its time names: the level is the highest digit (of six bits) in which the time differs from
BASE, the number in the level is that digit. Every row of a level is thus earlier than those of the levels above, and
every row of a bucket earlier than those of the buckets behind it. When the first bucket becomes due, BASE moves to its
earliest instant and its rows fall to lower levels: a row falls at most once a level, and all of that runs through
memory in blocks. (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, 1990.)

A row is a time, a weight and the bindings. A bucket is a chain of blocks of slots, full but for the newest; a
block's link is the block before it, or the next free one. `marks` holds the addresses of the arrays, BASE and its like
and, for each level, the set of buckets in use: a call with one array is cheaper than with many, and Numba counts the
references to arrays that are passed on. Kernels never grow an array: the owner makes room first.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import ctz, lshr
from thalweg.kernels.checking import njit
from thalweg.kernels.memory import load64, prefetch64, store64
from thalweg.kernels.store import FOREVER, NEVER

_OFFSET = 3  # bits that number the slots of a block
BLOCK = 1 << _OFFSET  # what is lost is at most a block for each bucket in use
DIGIT = 6
BUCKETS = 1 << DIGIT  # in a level
_MOST_LEVELS = 11  # for all 64 bits

ROW_TIME, ROW_WEIGHT, ROW_BINDINGS = range(3)
BUCKET_NEWEST, BUCKET_LEAST = range(2)  # the newest slot, or -1; the earliest instant
BUCKET_CELLS = 2

# Columns of the marks: addresses of the arrays; cells of a row; buckets come in levels; length of the queue's array.
QUEUE, ROWS, LINKS, HEADS, CELLS, LEVELS, ROOM = range(7)
# The queue is [FIRST, END) of its array; FREE is the first free block, SPARE their number; all rows WAITING; DUE first.
BASE, FIRST, END, FREE, SPARE, WAITING, DUE = range(7, 14)
RETRACTED = 14  # solutions that took others back: their ends wait to cancel those of the others
USED = 15  # from here on the sets of buckets in use
MARKS = USED + _MOST_LEVELS


@njit(cache=True, nogil=True)
def _level(differing):
    """The highest digit that is not zero."""
    level = np.int64(0)
    differing = lshr(differing, DIGIT)
    while differing != 0:
        differing = lshr(differing, DIGIT)
        level += 1
    return level


@njit(cache=True, nogil=True)
def _bucket(state, number):
    return load64(state, HEADS) + number * (8 * BUCKET_CELLS)


@njit(cache=True, nogil=True)
def _row(state, slot):
    return load64(state, ROWS) + slot * (8 * load64(state, CELLS))


@njit(cache=True, nogil=True)
def _queued(state, place):
    return load64(state, QUEUE) + place * (8 * load64(state, CELLS))


@njit(cache=True, nogil=True)
def _place(state, time):
    """Takes a slot of the heap for a row of that time; answers the row's address."""
    level = _level(time ^ load64(state, BASE))
    # With the sign turned, instants before 1970 are earlier as bits, too.
    digit = lshr(time ^ NEVER, DIGIT * level) & (BUCKETS - 1)
    bucket = _bucket(state, level * BUCKETS + digit)
    slot = load64(bucket, BUCKET_NEWEST)
    if slot < 0:
        store64(state, USED + level, load64(state, USED + level) | np.int64(1) << digit)
        store64(bucket, BUCKET_LEAST, time)
    elif time < load64(bucket, BUCKET_LEAST):
        store64(bucket, BUCKET_LEAST, time)
    if (slot + 1) & (BLOCK - 1) == 0:  # none yet, or a full block
        links = load64(state, LINKS)
        block = load64(state, FREE)
        store64(state, FREE, load64(links, block))
        store64(state, SPARE, load64(state, SPARE) - 1)
        store64(links, block, slot >> _OFFSET)
        slot = (block << _OFFSET) - 1
    store64(bucket, BUCKET_NEWEST, slot + 1)
    return _row(state, slot + 1)


@njit(cache=True, nogil=True)
def _first_bucket(state):
    """The number of the bucket of the earliest rows in the heap, or -1, and their instant."""
    for level in range(load64(state, LEVELS)):
        used = load64(state, USED + level)
        if used != 0:
            number = level * BUCKETS + ctz(used)
            return number, load64(_bucket(state, number), BUCKET_LEAST)
    return np.int64(-1), np.int64(FOREVER)


@njit(cache=True, nogil=True)
def _note_due(state):
    _, due = _first_bucket(state)
    if load64(state, FIRST) < load64(state, END):
        due = min(due, load64(_queued(state, load64(state, FIRST)), ROW_TIME))
    store64(state, DUE, due)


@njit(cache=True, nogil=True)
def _joins(solutions, first, k, last):
    """Whether the beginning of a solution goes to the queue: not before its last, nor after the next solution's."""
    time = solutions[k, first - 3]
    return time >= last and (k + 1 == solutions.shape[0] or time <= solutions[k + 1, first - 3])


@njit(cache=True, nogil=True)
def _last_queued(state, in_order):
    """The instant before which nothing can join the queue."""
    if not in_order:
        return np.int64(FOREVER)
    end = load64(state, END)
    return load64(_queued(state, end - 1), ROW_TIME) if load64(state, FIRST) < end else np.int64(NEVER)


@njit(cache=True, nogil=True)
def _survey(state, solutions, first, in_order):
    """What solutions need: (levels, spare blocks, room in the queue). No level: there is something before BASE.

    An empty heap gets a new BASE.
    """
    last = _last_queued(state, in_order)
    queued = np.int64(0)
    lowest = np.int64(FOREVER)
    for k in range(solutions.shape[0]):
        lowest = min(lowest, solutions[k, first - 3], solutions[k, first - 2])
        if _joins(solutions, first, k, last):
            last = solutions[k, first - 3]
            queued += 1
    if load64(state, WAITING) == load64(state, END) - load64(state, FIRST):
        store64(state, BASE, lowest)
    base = load64(state, BASE)
    if lowest < base:
        return np.int64(0), np.int64(0), np.int64(0)
    heaped = solutions.shape[0] - queued
    differing = np.int64(0)
    for k in range(solutions.shape[0]):
        differing |= solutions[k, first - 3] ^ base
        if solutions[k, first - 2] != FOREVER:
            differing |= solutions[k, first - 2] ^ base
            heaped += 1
    levels = _level(differing) + 1
    return levels, heaped // BLOCK + min(heaped, BUCKETS * levels), queued


@njit(cache=True, nogil=True)
def _write(row, time, weight, solutions, k, first, width):
    store64(row, ROW_TIME, time)
    store64(row, ROW_WEIGHT, weight)
    for c in range(width):
        store64(row, ROW_BINDINGS + c, solutions[k, first + c])


@njit(cache=True, nogil=True)
def schedule(marks, solutions, first, in_order):
    """Puts solutions on the timeline: their weight at `from`, its opposite at `to`.

    `solutions` has the columns (weight, from, to) from `first` - 4 on and bindings from `first` on; unless they are
    `in_order`, nothing is queued. Answers (True, ...), or (False, levels, spare blocks, room in the queue) where it
    needs these first; no level where there is something before BASE.
    """
    state = np.int64(marks.ctypes.data)
    levels, blocks, queued = _survey(state, solutions, first, in_order)
    end = load64(state, END)
    if (
        levels == 0
        or levels > load64(state, LEVELS)
        or blocks > load64(state, SPARE)
        or end + queued > load64(state, ROOM)
    ):
        return False, levels, blocks, queued
    width = load64(state, CELLS) - ROW_BINDINGS
    last = _last_queued(state, in_order)
    entries = np.int64(0)
    retracted = np.int64(0)
    for k in range(solutions.shape[0]):
        weight = solutions[k, first - 4]
        time = solutions[k, first - 3]
        if _joins(solutions, first, k, last):
            last = time
            row = _queued(state, end)
            end += 1
        else:
            row = _place(state, time)
        _write(row, time, weight, solutions, k, first, width)
        time = solutions[k, first - 2]
        if time != FOREVER:
            _write(_place(state, time), time, -weight, solutions, k, first, width)
            entries += 1
            retracted += np.int64(weight < 0)
    store64(state, END, end)
    store64(state, WAITING, load64(state, WAITING) + solutions.shape[0] + entries)
    store64(state, RETRACTED, load64(state, RETRACTED) + retracted)
    _note_due(state)
    return True, levels, blocks, queued


@njit(cache=True, nogil=True)
def _free(state, block):
    """Gives a block back; answers the one before it in its chain."""
    links = load64(state, LINKS)
    before = load64(links, block)
    store64(links, block, load64(state, FREE))
    store64(state, FREE, block)
    store64(state, SPARE, load64(state, SPARE) + 1)
    return before


@njit(cache=True, nogil=True)
def _vacate(state, number):
    used = USED + number // BUCKETS
    store64(_bucket(state, number), BUCKET_NEWEST, np.int64(-1))
    store64(state, used, load64(state, used) & ~(np.int64(1) << (number & (BUCKETS - 1))))


@njit(cache=True, nogil=True)
def _fall(state, number):
    """Moves BASE to the earliest instant of the first bucket and its rows to lower levels."""
    rows = load64(state, ROWS)
    links = load64(state, LINKS)
    cells = load64(state, CELLS)
    newest = load64(_bucket(state, number), BUCKET_NEWEST)
    store64(state, BASE, load64(_bucket(state, number), BUCKET_LEAST))
    _vacate(state, number)
    block = newest >> _OFFSET
    end = newest + 1
    while block >= 0:
        before = load64(links, block)
        if before >= 0:
            prefetch64(links, before)
            for line in range(cells):
                prefetch64(rows, (before * cells + line) * BLOCK)
        for slot in range(block << _OFFSET, end):
            row = rows + slot * (8 * cells)
            target = _place(state, load64(row, ROW_TIME))
            for c in range(cells):
                store64(target, c, load64(row, c))
        block = _free(state, block)
        end = (block + 1) << _OFFSET


@njit(cache=True, nogil=True)
def _blocks_to_fall(links, block, level):
    """How many spare blocks the rows of a chain may need when they fall from a level."""
    most = BUCKETS * level
    rows = np.int64(0)
    while block >= 0 and rows < most:
        rows += BLOCK
        block = load64(links, block)
    return min(rows, most)


@njit(cache=True, nogil=True)
def pop(marks, until, times, weights, values):
    """Takes rows due at or before `until`, in time order, as many as fit or as spare blocks allow for.

    Answers (rows taken, spare blocks that are wanted: 0 if that is not why it stopped).
    """
    state = np.int64(marks.ctypes.data)
    links = load64(state, LINKS)
    cells = load64(state, CELLS)
    width = values.shape[1]
    room = times.shape[0]
    place = load64(state, FIRST)
    end = load64(state, END)
    order = np.empty(BLOCK, np.int64)
    taken = np.int64(0)
    wanted = np.int64(0)
    while taken + BLOCK <= room:
        number, least = _first_bucket(state)
        limit = min(least, until)
        while place < end and taken < room:
            row = _queued(state, place)
            if load64(row, ROW_TIME) > limit:
                break
            times[taken] = load64(row, ROW_TIME)
            weights[taken] = load64(row, ROW_WEIGHT)
            for c in range(width):
                values[taken, c] = load64(row, ROW_BINDINGS + c)
            place += 1
            taken += 1
        if number < 0 or least > until or taken + BLOCK > room:
            break
        bucket = _bucket(state, number)
        newest = load64(bucket, BUCKET_NEWEST)
        block = newest >> _OFFSET
        if number >= BUCKETS and load64(links, block) >= 0:
            wanted = _blocks_to_fall(links, block, number // BUCKETS)
            if load64(state, SPARE) < wanted:
                break
            wanted = np.int64(0)
            _fall(state, number)
            continue
        # One block, or blocks of one instant: what is due before the queue's next leaves in order.
        limit = min(until, load64(_queued(state, place), ROW_TIME)) if place < end else until
        due = np.int64(0)
        left = _row(state, block << _OFFSET)
        remaining = np.int64(0)
        least = np.int64(FOREVER)
        for slot in range(block << _OFFSET, newest + 1):
            row = _row(state, slot)
            time = load64(row, ROW_TIME)
            if time <= limit:
                at = due
                while at > 0 and load64(order[at - 1], ROW_TIME) > time:
                    order[at] = order[at - 1]
                    at -= 1
                order[at] = row
                due += 1
        for k in range(due):
            times[taken] = load64(order[k], ROW_TIME)
            weights[taken] = load64(order[k], ROW_WEIGHT)
            for c in range(width):
                values[taken, c] = load64(order[k], ROW_BINDINGS + c)
            taken += 1
        if block << _OFFSET <= newest - due:  # the others close up
            for slot in range(block << _OFFSET, newest + 1):
                row = _row(state, slot)
                if load64(row, ROW_TIME) > limit:
                    least = min(least, load64(row, ROW_TIME))
                    for c in range(cells):
                        store64(left, c, load64(row, c))
                    left += 8 * cells
                    remaining += 1
            store64(bucket, BUCKET_NEWEST, (block << _OFFSET) + remaining - 1)
            store64(bucket, BUCKET_LEAST, least)
            continue
        before = _free(state, block)
        if before >= 0:
            store64(bucket, BUCKET_NEWEST, (before << _OFFSET) + BLOCK - 1)
        else:
            _vacate(state, number)
    if place == end:
        place = end = np.int64(0)
    store64(state, FIRST, place)
    store64(state, END, end)
    store64(state, WAITING, load64(state, WAITING) - taken)
    _note_due(state)
    return taken, wanted


@njit(cache=True, nogil=True)
def gather(marks, solutions, first):
    """Copies everything that waits, in no order, as the beginnings of solutions."""
    state = np.int64(marks.ctypes.data)
    width = load64(state, CELLS) - ROW_BINDINGS
    written = np.int64(0)
    for place in range(load64(state, FIRST), load64(state, END)):
        _copy(_queued(state, place), width, solutions, written, first)
        written += 1
    for number in range(load64(state, LEVELS) * BUCKETS):
        newest = load64(_bucket(state, number), BUCKET_NEWEST)
        block = newest >> _OFFSET
        end = newest + 1
        while block >= 0:
            for slot in range(block << _OFFSET, end):
                _copy(_row(state, slot), width, solutions, written, first)
                written += 1
            block = load64(load64(state, LINKS), block)
            end = (block + 1) << _OFFSET


@njit(cache=True, nogil=True)
def _copy(row, width, solutions, k, first):
    solutions[k, first - 4] = load64(row, ROW_WEIGHT)
    solutions[k, first - 3] = load64(row, ROW_TIME)
    for c in range(width):
        solutions[k, first + c] = load64(row, ROW_BINDINGS + c)


@njit(cache=True, nogil=True)
def chain_free(links, marks, start, end):
    """Links the blocks [start, end) into the free chain."""
    for block in range(end - 1, start - 1, -1):
        links[block] = marks[FREE]
        marks[FREE] = block
    marks[SPARE] += end - start
