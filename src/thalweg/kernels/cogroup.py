"""Co-groups: rows of several inputs by key, with counts, and the changes of the product of what inputs give for a key.

`groups` and `entries` are tables of cells, each with a hash table of its own (`slots`, open addressing, -1 empty). A
group is a key: its cells are, for each input, the sum of the counts, the number of entries and the first entry, and
then the key itself. An entry is a row of one input beyond the key: group, input, count, next, previous, and its cells.
Entries of a group and an input are a chain; one whose count is 0 is in no chain, and stays in the table until the
owner rebuilds it.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import mixed

ROWS, LEFT, SEMI, ANTI, MARK, MARK_NOT = range(6)

GROUP_TOTAL, GROUP_SIZE, GROUP_HEAD = 0, 1, 2
GROUP_CELLS = 3  # for each input
ENTRY_GROUP, ENTRY_INPUT, ENTRY_COUNT, ENTRY_NEXT, ENTRY_PREVIOUS, ENTRY_ROW = range(6)

USED_GROUPS, USED_ENTRIES, LIVE = 0, 1, 2

# Columns of the definition of an input: its rule, the cells of a row beyond the key, and where they go in the output.
INPUT_RULE, INPUT_CELLS, INPUT_OUT = 0, 1, 2

# What the change of an input has in its place: a row's own cells, or one of these.
_OWN, _NOTHING, _TRUE, _FALSE = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _hash(cells, k, first, count, seed):
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(seed)
    for c in range(first, first + count):
        h = mixed(h, cells[k, c])
    return np.int64(h >> np.uint64(1))


@njit(cache=True, nogil=True)
def _group_of(slots, groups, used, cells, k, key, inputs):
    """The group of a row's key, made where there is none."""
    mask = slots.shape[0] - 1
    slot = _hash(cells, k, 0, key, 0) & mask
    start = GROUP_CELLS * inputs
    while True:
        group = slots[slot]
        if group < 0:
            group = used[USED_GROUPS]
            used[USED_GROUPS] += 1
            slots[slot] = group
            for i in range(inputs):
                groups[group, GROUP_CELLS * i + GROUP_TOTAL] = 0
                groups[group, GROUP_CELLS * i + GROUP_SIZE] = 0
                groups[group, GROUP_CELLS * i + GROUP_HEAD] = -1
            for c in range(key):
                groups[group, start + c] = cells[k, c]
            return group
        c = 0
        while c < key and groups[group, start + c] == cells[k, c]:
            c += 1
        if c == key:
            return group
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _entry_of(slots, entries, used, group, input, cells, k, key, count):
    """The entry of a row, made where there is none."""
    mask = slots.shape[0] - 1
    slot = _hash(cells, k, key, count, group * 64 + input + 1) & mask
    while True:
        entry = slots[slot]
        if entry < 0:
            entry = used[USED_ENTRIES]
            used[USED_ENTRIES] += 1
            slots[slot] = entry
            entries[entry, ENTRY_GROUP] = group
            entries[entry, ENTRY_INPUT] = input
            entries[entry, ENTRY_COUNT] = 0
            for c in range(count):
                entries[entry, ENTRY_ROW + c] = cells[k, key + c]
            return entry
        if entries[entry, ENTRY_GROUP] == group and entries[entry, ENTRY_INPUT] == input:
            c = 0
            while c < count and entries[entry, ENTRY_ROW + c] == cells[k, key + c]:
                c += 1
            if c == count:
                return entry
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _count(groups, entries, used, entry, place, weight):
    """Adds a weight to an entry, which is in the chain of its group while its count is not 0."""
    before = entries[entry, ENTRY_COUNT]
    after = before + weight
    entries[entry, ENTRY_COUNT] = after
    group = entries[entry, ENTRY_GROUP]
    if before == 0 and after != 0:
        head = groups[group, place + GROUP_HEAD]
        entries[entry, ENTRY_NEXT] = head
        entries[entry, ENTRY_PREVIOUS] = -1
        if head >= 0:
            entries[head, ENTRY_PREVIOUS] = entry
        groups[group, place + GROUP_HEAD] = entry
        groups[group, place + GROUP_SIZE] += 1
        used[LIVE] += 1
    elif before != 0 and after == 0:
        following = entries[entry, ENTRY_NEXT]
        previous = entries[entry, ENTRY_PREVIOUS]
        if previous >= 0:
            entries[previous, ENTRY_NEXT] = following
        else:
            groups[group, place + GROUP_HEAD] = following
        if following >= 0:
            entries[following, ENTRY_PREVIOUS] = previous
        groups[group, place + GROUP_SIZE] -= 1
        used[LIVE] -= 1


@njit(cache=True, nogil=True)
def _given(groups, group, input, definition):
    """How many rows an input gives for a group, and the weight that all of them share: 0 where it gives none."""
    place = GROUP_CELLS * input
    total = groups[group, place + GROUP_TOTAL]
    rule = definition[input, INPUT_RULE]
    if rule == ROWS:
        if definition[input, INPUT_CELLS] == 0:
            return np.int64(1), total
        return groups[group, place + GROUP_SIZE], np.int64(1)
    if rule == LEFT:
        if definition[input, INPUT_CELLS] == 0:
            return np.int64(1), max(total, np.int64(1))
        size = groups[group, place + GROUP_SIZE]
        return size + (1 if total <= 0 else 0), np.int64(1)
    if rule == SEMI:
        return np.int64(1), np.int64(1 if total > 0 else 0)
    if rule == ANTI:
        return np.int64(1), np.int64(0 if total > 0 else 1)
    return np.int64(1), np.int64(1)


@njit(cache=True, nogil=True)
def step(
    times, weights, inputs, cells, definition, key, booleans,
    group_slots, groups, entry_slots, entries, used,
    out_times, out_weights, out_rows, cursor, emit, start,
):  # fmt: skip
    """Takes changes in time order from `start` on, and writes the changes of the product.

    Answers the change before which room ran out (or their number), how many were written, and how many the next one
    needs. `cursor` has a cell for each input.
    """
    count = definition.shape[0]
    written = np.int64(0)
    width = out_rows.shape[1]
    for k in range(start, times.shape[0]):
        own = inputs[k]
        group = _group_of(group_slots, groups, used, cells, k, key, count)
        product = np.int64(1)
        weight = np.int64(1)
        if emit:
            for i in range(count):
                if i != own:
                    size, shared = _given(groups, group, i, definition)
                    product *= size
                    weight *= shared
            if weight == 0:
                product = np.int64(0)
            if written + 2 * product > out_times.shape[0]:
                return k, written, 2 * product
        # The change of the input itself.
        place = GROUP_CELLS * own
        rule = definition[own, INPUT_RULE]
        own_cells = definition[own, INPUT_CELLS]
        before = groups[group, place + GROUP_TOTAL]
        after = before + weights[k]
        groups[group, place + GROUP_TOTAL] = after
        if before == 0 and after != 0:
            used[LIVE] += 1
        elif before != 0 and after == 0:
            used[LIVE] -= 1
        entry = np.int64(-1)
        if own_cells > 0:
            entry = _entry_of(entry_slots, entries, used, group, own, cells, k, key, own_cells)
            _count(groups, entries, used, entry, place, weights[k])
        if product == 0 or not emit:
            continue
        turn = np.int64(1 if before <= 0 and after > 0 else (-1 if before > 0 and after <= 0 else 0))
        for part in range(2):
            kind, change = np.int64(_NOTHING), np.int64(0)
            if rule == ROWS:
                if part == 0:
                    kind, change = np.int64(_OWN), weights[k]
            elif rule == LEFT:
                if own_cells == 0:
                    if part == 0:
                        change = max(after, np.int64(1)) - max(before, np.int64(1))
                elif part == 0:
                    kind, change = np.int64(_OWN), weights[k]
                else:
                    change = -turn
            elif rule == SEMI or rule == ANTI:
                if part == 0:
                    change = turn if rule == SEMI else -turn
            elif part == 0:
                kind, change = np.int64(_TRUE), turn if rule == MARK else -turn
            else:
                kind, change = np.int64(_FALSE), -turn if rule == MARK else turn
            if change == 0:
                continue
            for i in range(count):
                cursor[i] = groups[group, GROUP_CELLS * i + GROUP_HEAD]
            more = True
            while more:
                # One row of the product.
                total = change * weight
                for c in range(key):
                    out_rows[written, c] = cells[k, c]
                for c in range(key, width):
                    out_rows[written, c] = 0
                for i in range(count):
                    out = definition[i, INPUT_OUT]
                    size = definition[i, INPUT_CELLS]
                    what = definition[i, INPUT_RULE]
                    if i == own:
                        if kind == _OWN:
                            for c in range(size):
                                out_rows[written, out + c] = cells[k, key + c]
                        elif kind == _TRUE or kind == _FALSE:
                            out_rows[written, out] = booleans[1 if kind == _TRUE else 0]
                    elif what == MARK or what == MARK_NOT:
                        there = groups[group, GROUP_CELLS * i + GROUP_TOTAL] > 0
                        out_rows[written, out] = booleans[1 if there == (what == MARK) else 0]
                    elif size > 0 and (what == ROWS or what == LEFT) and cursor[i] >= 0:
                        total *= entries[cursor[i], ENTRY_COUNT]
                        for c in range(size):
                            out_rows[written, out + c] = entries[cursor[i], ENTRY_ROW + c]
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
                        cursor[i] = entries[cursor[i], ENTRY_NEXT]
                        # Behind the last entry comes the unbound row, if the input gives one.
                        if cursor[i] >= 0 or (
                            what == LEFT and groups[group, GROUP_CELLS * i + GROUP_TOTAL] <= 0
                        ):
                            more = True
                            break
                    cursor[i] = groups[group, GROUP_CELLS * i + GROUP_HEAD]
    return np.int64(times.shape[0]), written, np.int64(0)
