"""Co-groups: rows of several inputs by key, with counts, and the changes of the product of what inputs give for a key.

`groups` and `entries` are tables of cells, each with a hash table of its own (`slots`, open addressing, -1 empty). A
group is a key: its cells are, for each input, the sum of the counts, the number of entries and the first entry, and
then the key itself. An entry is a row of one input beyond the key: group, tag (hash and input), count, next, previous,
and its cells. Entries of a group and an input are a chain. An entry whose count becomes 0, and a group without entries
and counts, leave their hash table at once and are reused (Knuth, The Art of Computer Programming 3, 6.4, algorithm R):
the tables are as large as what they hold, and no change waits for a rebuild of them.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash_cells
from thalweg.kernels.memory import load64, prefetch64, store64

ROWS, LEFT, SEMI, ANTI, MARK, MARK_NOT, OUTER = range(7)

GROUP_TOTAL, GROUP_SIZE, GROUP_HEAD = 0, 1, 2
GROUP_CELLS = 3  # for each input
ENTRY_GROUP, ENTRY_TAG, ENTRY_COUNT, ENTRY_NEXT, ENTRY_PREVIOUS, ENTRY_ROW = range(6)

# Groups and entries that were ever in use; rows and keys that are there; the first free group and entry, and how many.
USED_GROUPS, USED_ENTRIES, LIVE, FREE_GROUP, FREE_ENTRY, SPARE_GROUPS, SPARE_ENTRIES = range(7)
USED_CELLS = 7
TAG_INPUT = 16  # bits of a tag that are the number of the input
_TAG_HASH = (1 << 47) - 1
_AHEAD = 8  # changes between two stages of prefetching

# Columns of the definition of an input: its rule, the cells of a row beyond the key, and where they go in the output.
INPUT_RULE, INPUT_CELLS, INPUT_OUT = 0, 1, 2
INPUT_KEPT = 3  # the cells of its entries: none for an outer input, whose rows are not kept

# What the change of an input has in its place: a row's own cells, or one of these.
_OWN, _NOTHING, _TRUE, _FALSE = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _group_of(slots, mask, groups, width, used, row, key, inputs, h):
    """The address of the group of a row's key, whose hash is `h`; it is made where there is none."""
    slot = h & mask
    start = GROUP_CELLS * inputs
    while True:
        number = load64(slots, slot)
        if number < 0:
            number = load64(used, FREE_GROUP)
            if number < 0:
                number = load64(used, USED_GROUPS)
                store64(used, USED_GROUPS, number + 1)
            else:
                store64(used, FREE_GROUP, load64(groups + 8 * width * number, GROUP_HEAD))
                store64(used, SPARE_GROUPS, load64(used, SPARE_GROUPS) - 1)
            store64(slots, slot, number)
            group = groups + 8 * width * number
            for i in range(inputs):
                store64(group, GROUP_CELLS * i + GROUP_TOTAL, 0)
                store64(group, GROUP_CELLS * i + GROUP_SIZE, 0)
                store64(group, GROUP_CELLS * i + GROUP_HEAD, -1)
            for c in range(key):
                store64(group, start + c, load64(row, c))
            return group
        group = groups + 8 * width * number
        same = np.int64(0)
        while same < key and load64(group, start + same) == load64(row, same):
            same += 1
        if same == key:
            return group
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _may_move(home, place, hole, mask):
    """Whether what is in a place of a hash table is still found from its home if it moves to an earlier hole."""
    return ((place - home) & mask) >= ((place - hole) & mask)


@njit(cache=True, nogil=True)
def _forget_group(slots, mask, groups, width, used, group, key, inputs):
    """Takes a group out of its hash table, if there is nothing in it."""
    for i in range(inputs):
        cells = GROUP_CELLS * i
        if load64(group, cells + GROUP_TOTAL) != 0 or load64(group, cells + GROUP_SIZE) != 0:
            return
    start = GROUP_CELLS * inputs
    number = (group - groups) // (8 * width)
    hole = hash_cells(group, start, key, 0) & mask
    while load64(slots, hole) != number:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    other = load64(slots, place)
    while other >= 0:
        if _may_move(hash_cells(groups + 8 * width * other, start, key, 0) & mask, place, hole, mask):
            store64(slots, hole, other)
            hole = place
        place = (place + 1) & mask
        other = load64(slots, place)
    store64(slots, hole, -1)
    store64(group, GROUP_HEAD, load64(used, FREE_GROUP))
    store64(used, FREE_GROUP, number)
    store64(used, SPARE_GROUPS, load64(used, SPARE_GROUPS) + 1)


@njit(cache=True, nogil=True)
def _tag(row, key, count, input):
    """The hash of a row, and its input."""
    return (hash_cells(row, 0, key + count, input + 1) & _TAG_HASH) << TAG_INPUT | input


@njit(cache=True, nogil=True)
def _forget_entry(slots, mask, entries, width, used, entry):
    """Takes an entry, which is in no chain, out of its hash table."""
    at = entries + 8 * width * entry
    hole = (load64(at, ENTRY_TAG) >> TAG_INPUT) & mask
    while load64(slots, hole) != entry:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    other = load64(slots, place)
    while other >= 0:
        home = (load64(entries + 8 * width * other, ENTRY_TAG) >> TAG_INPUT) & mask
        if _may_move(home, place, hole, mask):
            store64(slots, hole, other)
            hole = place
        place = (place + 1) & mask
        other = load64(slots, place)
    store64(slots, hole, -1)
    store64(at, ENTRY_NEXT, load64(used, FREE_ENTRY))
    store64(used, FREE_ENTRY, entry)
    store64(used, SPARE_ENTRIES, load64(used, SPARE_ENTRIES) + 1)


@njit(cache=True, nogil=True)
def _entry_of(slots, mask, entries, width, used, number, tag, row, key, count):
    """The entry of a row in group `number`, made where there is none."""
    slot = (tag >> TAG_INPUT) & mask
    while True:
        entry = load64(slots, slot)
        at = entries + 8 * width * entry
        if entry < 0:
            entry = load64(used, FREE_ENTRY)
            if entry < 0:
                entry = load64(used, USED_ENTRIES)
                store64(used, USED_ENTRIES, entry + 1)
            else:
                store64(used, FREE_ENTRY, load64(entries + 8 * width * entry, ENTRY_NEXT))
                store64(used, SPARE_ENTRIES, load64(used, SPARE_ENTRIES) - 1)
            store64(slots, slot, entry)
            at = entries + 8 * width * entry
            store64(at, ENTRY_GROUP, number)
            store64(at, ENTRY_TAG, tag)
            store64(at, ENTRY_COUNT, 0)
            for c in range(count):
                store64(at, ENTRY_ROW + c, load64(row, key + c))
            return entry
        if load64(at, ENTRY_TAG) == tag and load64(at, ENTRY_GROUP) == number:
            same = np.int64(0)
            while same < count and load64(at, ENTRY_ROW + same) == load64(row, key + same):
                same += 1
            if same == count:
                return entry
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _count(group, entries, width, used, entry, place, weight):
    """Adds a weight to an entry, which is in the chain of its group while its count is not 0; answers the count."""
    at = entries + 8 * width * entry
    before = load64(at, ENTRY_COUNT)
    after = before + weight
    store64(at, ENTRY_COUNT, after)
    if before == 0 and after != 0:
        head = load64(group, place + GROUP_HEAD)
        store64(at, ENTRY_NEXT, head)
        store64(at, ENTRY_PREVIOUS, -1)
        if head >= 0:
            store64(entries + 8 * width * head, ENTRY_PREVIOUS, entry)
        store64(group, place + GROUP_HEAD, entry)
        store64(group, place + GROUP_SIZE, load64(group, place + GROUP_SIZE) + 1)
        store64(used, LIVE, load64(used, LIVE) + 1)
    elif before != 0 and after == 0:
        following = load64(at, ENTRY_NEXT)
        previous = load64(at, ENTRY_PREVIOUS)
        if previous >= 0:
            store64(entries + 8 * width * previous, ENTRY_NEXT, following)
        else:
            store64(group, place + GROUP_HEAD, following)
        if following >= 0:
            store64(entries + 8 * width * following, ENTRY_PREVIOUS, previous)
        store64(group, place + GROUP_SIZE, load64(group, place + GROUP_SIZE) - 1)
        store64(used, LIVE, load64(used, LIVE) - 1)
    return after


@njit(cache=True, nogil=True)
def _given(group, input, rule, cells):
    """How many rows an input gives for a group, and the weight that all of them share: 0 where it gives none."""
    place = GROUP_CELLS * input
    total = load64(group, place + GROUP_TOTAL)
    if rule == ROWS:
        if cells == 0:
            return np.int64(1), total
        return load64(group, place + GROUP_SIZE), np.int64(1)
    if rule == LEFT:
        if cells == 0:
            return np.int64(1), max(total, np.int64(1))
        return load64(group, place + GROUP_SIZE) + (1 if total <= 0 else 0), np.int64(1)
    if rule == SEMI:
        return np.int64(1), np.int64(1 if total > 0 else 0)
    if rule == ANTI or rule == OUTER:
        return np.int64(1), np.int64(0 if total > 0 else 1)
    return np.int64(1), np.int64(1)


@njit(cache=True, nogil=True)
def _change(rule, part, cells, weight, before, after):
    """What a change of an input's total changes in what it gives: kind and weight of the first or second part."""
    turn = np.int64(1 if before <= 0 and after > 0 else (-1 if before > 0 and after <= 0 else 0))
    if rule == ROWS:
        return np.int64(_OWN), weight if part == 0 else np.int64(0)
    if rule == LEFT or rule == OUTER:
        if cells == 0 and rule == LEFT:
            change = max(after, np.int64(1)) - max(before, np.int64(1))
            return np.int64(_NOTHING), change if part == 0 else np.int64(0)
        if part == 0:
            return np.int64(_OWN), weight
        return np.int64(_NOTHING), -turn
    if rule == SEMI or rule == ANTI:
        change = turn if rule == SEMI else -turn
        return np.int64(_NOTHING), change if part == 0 else np.int64(0)
    change = turn if rule == MARK else -turn
    if part == 0:
        return np.int64(_TRUE), change
    return np.int64(_FALSE), -change


@njit(cache=True, nogil=True)
def step(
    times, weights, inputs, rows, definition, key, booleans,
    group_slots, group_table, entry_slots, entry_table, used_table,
    out_times, out_weights, out_rows, cursor, emit, start,
):  # fmt: skip
    """Takes changes in time order from `start` on, and writes the changes of the product.

    Answers the change before which room ran out (or their number), how many were written, and how many the next one
    needs. `cursor` has a cell for each input.
    """
    count = definition.shape[0]
    changes = times.shape[0]
    written = np.int64(0)
    given = np.int64(rows.ctypes.data)
    cells = rows.shape[1]
    slots = np.int64(group_slots.ctypes.data)
    mask = np.int64(group_slots.shape[0] - 1)
    groups = np.int64(group_table.ctypes.data)
    group_width = np.int64(group_table.shape[1])
    entries = np.int64(entry_table.ctypes.data)
    entry_width = np.int64(entry_table.shape[1])
    entries_slots = np.int64(entry_slots.ctypes.data)
    entry_mask = np.int64(entry_slots.shape[0] - 1)
    used = np.int64(used_table.ctypes.data)
    out = np.int64(out_rows.ctypes.data)
    width = np.int64(out_rows.shape[1])
    for k in range(start, changes):
        # First the slots of key and row are prefetched, then group and entry, then the first entries of the group.
        if k + 3 * _AHEAD < changes:
            later = given + 8 * cells * (k + 3 * _AHEAD)
            prefetch64(slots, hash_cells(later, 0, key, 0) & mask)
            kept = definition[inputs[k + 3 * _AHEAD], INPUT_KEPT]
            if kept > 0:
                tag = _tag(later, key, kept, inputs[k + 3 * _AHEAD])
                prefetch64(entries_slots, (tag >> TAG_INPUT) & entry_mask)
        if k + 2 * _AHEAD < changes:
            later = given + 8 * cells * (k + 2 * _AHEAD)
            number = load64(slots, hash_cells(later, 0, key, 0) & mask)
            if number >= 0:
                prefetch64(groups, group_width * number)
                prefetch64(groups, group_width * (number + 1) - 1)
            kept = definition[inputs[k + 2 * _AHEAD], INPUT_KEPT]
            if kept > 0:
                tag = _tag(later, key, kept, inputs[k + 2 * _AHEAD])
                entry = load64(entries_slots, (tag >> TAG_INPUT) & entry_mask)
                if entry >= 0:
                    prefetch64(entries, entry_width * entry)
        if k + _AHEAD < changes:
            number = load64(slots, hash_cells(given + 8 * cells * (k + _AHEAD), 0, key, 0) & mask)
            if number >= 0:
                for i in range(count):
                    head = load64(groups, group_width * number + GROUP_CELLS * i + GROUP_HEAD)
                    if head >= 0:
                        prefetch64(entries, entry_width * head)
        row = given + 8 * cells * k
        own = inputs[k]
        group = _group_of(slots, mask, groups, group_width, used, row, key, count, hash_cells(row, 0, key, 0))
        rule = definition[own, INPUT_RULE]
        own_cells = definition[own, INPUT_CELLS]
        place = GROUP_CELLS * own
        product = np.int64(1)
        weight = np.int64(1)
        if emit:
            for i in range(count):
                if i != own:
                    size, shared = _given(group, i, definition[i, INPUT_RULE], definition[i, INPUT_CELLS])
                    product *= size
                    weight *= shared
            if weight == 0 and rule != OUTER:
                product = np.int64(0)
            if written + 2 * product > out_times.shape[0]:
                return np.int64(k), written, 2 * product
        before = load64(group, place + GROUP_TOTAL)
        after = before + weights[k]
        store64(group, place + GROUP_TOTAL, after)
        if before == 0 and after != 0:
            store64(used, LIVE, load64(used, LIVE) + 1)
        elif before != 0 and after == 0:
            store64(used, LIVE, load64(used, LIVE) - 1)
        if definition[own, INPUT_KEPT] > 0:
            number = (group - groups) // (8 * group_width)
            tag = _tag(row, key, own_cells, own)
            entry = _entry_of(
                entries_slots, entry_mask, entries, entry_width, used, number, tag, row, key, own_cells
            )
            if _count(group, entries, entry_width, used, entry, place, weights[k]) == 0:
                _forget_entry(entries_slots, entry_mask, entries, entry_width, used, entry)
        for part in range(2 if emit and product != 0 else 0):
            kind, change = _change(rule, part, own_cells, weights[k], before, after)
            # The rows of an outer input are there with their own weight: they are solutions already.
            factor = np.int64(1) if rule == OUTER and kind == _OWN else weight
            if change * factor == 0:
                continue
            for i in range(count):
                cursor[i] = load64(group, GROUP_CELLS * i + GROUP_HEAD)
            more = True
            while more:
                # One row of the product.
                total = change * factor
                made = out + 8 * width * written
                for c in range(key):
                    store64(made, c, load64(row, c))
                for c in range(key, width):
                    store64(made, c, 0)
                for i in range(count):
                    to = definition[i, INPUT_OUT]
                    size = definition[i, INPUT_CELLS]
                    what = definition[i, INPUT_RULE]
                    if i == own:
                        if kind == _OWN:
                            for c in range(size):
                                store64(made, to + c, load64(row, key + c))
                        elif kind == _TRUE or kind == _FALSE:
                            store64(made, to, booleans[1 if kind == _TRUE else 0])
                    elif what == MARK or what == MARK_NOT:
                        there = load64(group, GROUP_CELLS * i + GROUP_TOTAL) > 0
                        store64(made, to, booleans[1 if there == (what == MARK) else 0])
                    elif size > 0 and (what == ROWS or what == LEFT) and cursor[i] >= 0:
                        at = entries + 8 * entry_width * cursor[i]
                        total *= load64(at, ENTRY_COUNT)
                        for c in range(size):
                            store64(made, to + c, load64(at, ENTRY_ROW + c))
                out_times[written] = times[k]
                out_weights[written] = total
                written += 1
                # The next one: the first input that has another row takes it, those before it begin anew.
                more = False
                for i in range(count):
                    what = definition[i, INPUT_RULE]
                    if i == own or definition[i, INPUT_CELLS] == 0 or (what != ROWS and what != LEFT):
                        continue
                    if cursor[i] >= 0:
                        cursor[i] = load64(entries + 8 * entry_width * cursor[i], ENTRY_NEXT)
                        # Behind the last entry comes the unbound row, if the input gives one.
                        if cursor[i] >= 0 or (
                            what == LEFT and load64(group, GROUP_CELLS * i + GROUP_TOTAL) <= 0
                        ):
                            more = True
                            break
                    cursor[i] = load64(group, GROUP_CELLS * i + GROUP_HEAD)
        if after == 0:
            _forget_group(slots, mask, groups, group_width, used, group, key, count)
    return np.int64(changes), written, np.int64(0)
