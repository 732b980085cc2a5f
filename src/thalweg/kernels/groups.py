"""Groups: rows by key, with the accumulators of aggregates.

A group is a row of cells: how many rows it has, marks, `SLOT` cells for each accumulator, and the key. An accumulator
counts, sums, or has the root of an ordered multiset. The law: what an accumulator holds depends on the rows of the
group alone, not on how they came: sums are exact, as billions of billions, units and billionths, and what is no
such number is left to the caller (`EXACT` counts it).
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels import ordered
from thalweg.kernels.bits import address, prefetch
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash_cells
from thalweg.kernels.memory import load64, store64
from thalweg.kernels.values import DECIMAL, INTEGER, NONE, OTHER

ROWS, STARTS, DIRTY, SHOWN, SLOTS = range(5)
"""Cells of a group; `SLOTS` is where its accumulators begin."""
SLOT = 7
"""Cells of an accumulator."""
NUMBER, BAD, DECIMALS, EXACT, LARGE, UNITS, BILLIONTHS = range(SLOT)
"""Cells of a count or sum: values, errors, decimals, values that the caller sums, and the sum."""
ROOT, FIRST, LAST, LOST = 2, 3, 4, 5
"""Cells of an ordered multiset: its root, its first and last term, 0 of none, and which of them (`ordered.FIRST`,
`ordered.LAST`) have to be looked for."""
_AHEAD = 8
"""How many changes ahead the rows of groups are prefetched."""
COUNTS, SUMS, BY_VALUE, BY_TEXT = range(4)
"""Kinds of accumulators."""
ARGUMENT = 5
"""Cells of an argument: of a sum its code, units, billionths and whether it is a decimal; of an ordered multiset the
key and the row; of a count whether it is bound."""
FAST, BY_CALLER, ERROR = range(3)
"""Codes of an argument of a sum."""
RECORD = 3
"""Cells of a record before those of the accumulators: time, group, and whether the group is there."""
BILLION = 1_000_000_000
_LARGE = BILLION * BILLION


@njit(cache=True, nogil=True)
def sum_arguments(kinds, numbers, column, arguments):
    """The arguments of a sum from the kinds and numbers of terms, to a column of `arguments`.

    A decimal of at most 15 digits follows from its nearest double: the only candidate with so many digits is tried.
    """
    for k in range(kinds.size):
        kind = kinds[k]
        arguments[k, column, 1] = arguments[k, column, 2] = 0
        arguments[k, column, 3] = 1 if kind == DECIMAL else 0
        code = BY_CALLER
        if kind == INTEGER:
            code = FAST
            arguments[k, column, 1] = np.int64(numbers[k])
        elif kind == DECIMAL:
            number = numbers[k]
            units = np.int64(number)
            scale = np.int64(1)
            digits = np.int64(15)
            rest = abs(units)
            while rest > 0:
                rest //= 10
                digits -= 1
            for _ in range(digits if digits < 9 else 9):
                scale *= 10
            fraction = np.int64(np.rint((number - units) * scale))
            if np.float64(units * scale + fraction) / np.float64(scale) == number:
                code = FAST
                arguments[k, column, 1] = units
                arguments[k, column, 2] = fraction * (BILLION // scale)
        elif kind != OTHER and (kind < INTEGER or kind > DECIMAL + 1):
            code = ERROR
        if kind == NONE:
            code = ERROR
        arguments[k, column, 0] = code


@njit(cache=True, nogil=True)
def _group_of(slots, mask, groups, cells, first, used, row, key):
    """The group of the key at an address, with the number `used` where there is none yet."""
    slot = hash_cells(row, 0, key, 0) & mask
    while True:
        group = load64(slots, slot)
        if group < 0:
            store64(slots, slot, used)
            for c in range(cells):
                store64(groups, used * cells + c, np.int64(0))
            for c in range(key):
                store64(groups, used * cells + first + c, load64(row, c))
            return used
        at = np.int64(0)
        while at < key and load64(groups, group * cells + first + at) == load64(row, at):
            at += 1
        if at == key:
            return group
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def find(rows, key, definition, slots, groups, used, group_of):
    """The groups of rows, which are made where there are none; answers how many are used. There must be room."""
    slots_at, mask = address(slots), np.int64(slots.shape[0] - 1)
    groups_at, cells = address(groups), np.int64(groups.shape[1])
    rows_at, width = address(rows), np.int64(rows.shape[1])
    count = np.int64(definition.shape[0])
    first = SLOTS + SLOT * count
    size = np.int64(rows.shape[0])
    for k in range(size):
        if k + 2 * _AHEAD < size:
            prefetch(slots_at + 8 * (hash_cells(rows_at + 8 * (k + 2 * _AHEAD) * width, 0, key, 0) & mask))
        if k + _AHEAD < size:
            ahead = load64(slots_at, hash_cells(rows_at + 8 * (k + _AHEAD) * width, 0, key, 0) & mask)
            prefetch(groups_at + 8 * (ahead * cells + first))
        group = _group_of(slots_at, mask, groups_at, cells, first, used, rows_at + 8 * k * width, key)
        if group == used:
            used += 1
            for s in range(count):
                if definition[s, 0] >= BY_VALUE:
                    store64(groups_at, group * cells + SLOTS + SLOT * s + ROOT, np.int64(-1))
        group_of[k] = group
    return used


@njit(cache=True, nogil=True)
def index(slots, groups, used, first, key):
    """Enters groups that are known to differ into empty slots."""
    mask = np.int64(slots.shape[0] - 1)
    groups_at = address(groups)
    cells = np.int64(groups.shape[1])
    for group in range(used):
        slot = hash_cells(groups_at + 8 * (group * cells + first), 0, key, 0) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = group


@njit(cache=True, nogil=True)
def _sum(at, weight, argument):
    """Adds a number as often as a weight says to the sum whose cells are at an address."""
    code = load64(argument, 0)
    if code == ERROR:
        store64(at, BAD, load64(at, BAD) + weight)
        return
    store64(at, NUMBER, load64(at, NUMBER) + weight)
    if code == BY_CALLER:
        store64(at, EXACT, load64(at, EXACT) + weight)
        return
    store64(at, DECIMALS, load64(at, DECIMALS) + weight * load64(argument, 3))
    step = np.int64(1) if weight > 0 else np.int64(-1)
    large, units, billionths = load64(at, LARGE), load64(at, UNITS), load64(at, BILLIONTHS)
    for _ in range(abs(weight)):
        billionths += step * load64(argument, 2)
        units += step * load64(argument, 1)
        carry = billionths // BILLION
        billionths -= carry * BILLION
        units += carry
        carry = units // _LARGE
        units -= carry * _LARGE
        large += carry
    store64(at, LARGE, large)
    store64(at, UNITS, units)
    store64(at, BILLIONTHS, billionths)


@njit(cache=True, nogil=True)
def step(
    times, weights, starts, definition, own_weights, arguments, implicit,
    groups, nodes, head, path, arena_slots, arena_log, group_of, records, start, by_instant,
):  # fmt: skip
    """Takes changes from `start` on; writes a record of each group that an instant changed, when the instant is done.

    `by_instant`: stops after the first instant. Answers where it stopped, and how many records were written. There must
    be room for all.
    """
    groups_at, cells = address(groups), np.int64(groups.shape[1])
    nodes_at, node_cells = address(nodes), np.int64(nodes.shape[1])
    head_at, path_at = address(head), address(path)
    arguments_at = address(arguments)
    texts_at, last, log_at = address(arena_slots), np.int64(arena_slots.size // 2 - 1), address(arena_log)
    count = np.int64(definition.shape[0])
    used_cells = SLOTS + SLOT * count
    written = np.int64(0)
    k = np.int64(start)
    while k < times.size:
        time = times[k]
        changed = written
        while k < times.size and times[k] == time:
            group = group_of[k]
            at = groups_at + 8 * group * cells
            if k + 2 * _AHEAD < times.size:
                ahead = groups_at + 8 * group_of[k + 2 * _AHEAD] * cells
                for c in range(0, used_cells, 8):
                    prefetch(ahead + 8 * c)
            if k + _AHEAD < times.size:
                ahead = groups_at + 8 * group_of[k + _AHEAD] * cells
                for s in range(count):
                    if definition[s, 0] >= BY_VALUE:
                        prefetch(nodes_at + 8 * load64(ahead, SLOTS + SLOT * s + ROOT) * node_cells)
            if load64(at, DIRTY) == 0:
                store64(at, DIRTY, np.int64(1))
                records[written, 0] = time
                records[written, 1] = group
                written += 1
            if starts[k]:
                store64(at, STARTS, load64(at, STARTS) + weights[k])
            else:
                store64(at, ROWS, load64(at, ROWS) + weights[k])
                for s in range(count):
                    weight = own_weights[k, s]
                    slot = at + 8 * (SLOTS + SLOT * s)
                    argument = arguments_at + 8 * ARGUMENT * (k * count + s)
                    if weight == 0:
                        continue
                    kind = definition[s, 0]
                    if kind == COUNTS:
                        store64(slot, NUMBER, load64(slot, NUMBER) + weight * load64(argument, 0))
                    elif kind == SUMS:
                        _sum(slot, weight, argument)
                    elif load64(argument, 3) == 0:
                        store64(slot, BAD, load64(slot, BAD) + weight)
                    else:
                        store64(slot, NUMBER, load64(slot, NUMBER) + weight)
                        # The term is the last cell of its own key; by text, it is the row alone.
                        conditions = np.int64(1) if kind == BY_VALUE else np.int64(0)
                        probe = argument if kind == BY_VALUE else argument + 32
                        root = ordered.add(
                            nodes_at, node_cells, head_at, path_at, load64(slot, ROOT), probe, weight,
                            conditions, np.int64(0), 3 * conditions, np.int64(1), False, texts_at, last, log_at,
                        )  # fmt: skip
                        store64(slot, ROOT, root)
                        where = load64(head_at, ordered.WHERE)
                        ends = where & (ordered.FIRST | ordered.LAST)
                        if where & ordered.GONE:
                            store64(slot, LOST, load64(slot, LOST) | ends)
                        elif ends:
                            store64(slot, LOST, load64(slot, LOST) & ~ends)
                            if ends & ordered.FIRST:
                                store64(slot, FIRST, load64(argument, 3))
                            if ends & ordered.LAST:
                                store64(slot, LAST, load64(argument, 3))
            k += 1
        for r in range(changed, written):
            at = groups_at + 8 * records[r, 1] * cells
            store64(at, DIRTY, np.int64(0))
            there = load64(at, STARTS) if implicit else load64(at, ROWS)
            records[r, 2] = 1 if there > 0 else 0
            for s in range(count):
                slot = at + 8 * (SLOTS + SLOT * s)
                for c in range(SLOT):
                    records[r, RECORD + SLOT * s + c] = load64(slot, c)
                kind = definition[s, 0]
                if kind >= BY_VALUE and load64(slot, LOST) != 0:
                    cell = ordered.KEY + (3 if kind == BY_VALUE else 0)
                    for side in range(2):
                        if (load64(slot, LOST) >> side) & 1:
                            node = ordered.outermost(nodes_at, node_cells, load64(slot, ROOT), side)
                            found = np.int64(0) if node < 0 else load64(nodes_at, node * node_cells + cell)
                            store64(slot, FIRST + side, found)
                            records[r, RECORD + SLOT * s + FIRST + side] = found
                    store64(slot, LOST, np.int64(0))
        if by_instant:
            break
    return k, written


@njit(cache=True, nogil=True)
def emit(records, values, groups, shown, first, key, out_times, out_weights, out_rows):
    """The changes that records make to what groups show; answers how many. `shown` has what each group shows now."""
    written = np.int64(0)
    width = values.shape[1]
    for r in range(values.shape[0]):
        group = records[r, 1]
        was, is_ = groups[group, SHOWN] != 0, records[r, 2] != 0
        same = was and is_
        if same:
            for c in range(width):
                if shown[group, c] != values[r, c]:
                    same = False
        if same:
            continue
        for sign in (-1, 1):
            if (sign < 0 and was) or (sign > 0 and is_):
                out_times[written] = records[r, 0]
                out_weights[written] = sign
                for c in range(key):
                    out_rows[written, c] = groups[group, first + c]
                for c in range(width):
                    if sign > 0:
                        shown[group, c] = values[r, c]
                    out_rows[written, key + c] = shown[group, c]
                written += 1
        groups[group, SHOWN] = 1 if is_ else 0
    return written
