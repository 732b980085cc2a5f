"""The kernel that takes events of a sequence one instant after the other: runs in one pool, found by an index.

A run is a row of the pool: first and last time, times around negations, the ids of variables, and its state. Rows are
appended in the order of their last times. An index is a hash table of chains for the runs of one state, by the
variables that runs and events have in common for certain; a chain goes from the newest run to older ones, so that a
walk ends at the first run that is too old, and nothing is ever searched for what expires. Rows of the past are left
where they are until the pool is full; then it is put together.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.times import NO_TIME

# Columns of states, edges and indexes.
ATOM, STORED, ACCEPTS, FIRST_EDGE, LAST_EDGE, KEEP, FIRST_INDEX, LAST_INDEX, STATE_WIDTH = range(9)
(
    PARENT,
    OP,
    MARK,
    INDEX,
    LINK,
    FIRST_CHECK,
    LAST_CHECK,
    FIRST_CONDITION,
    LAST_CONDITION,
    FIRST_CLEAR,
    LAST_CLEAR,
    FIRST_KEY,
    EDGE_WIDTH,
) = range(13)
OF_STATE, AT_ONCE_ONLY, FIRST_COLUMN, LAST_COLUMN, INDEX_WIDTH = range(5)
LATER, NEXT, SAME, NEXT_BUT_ONE = range(4)
"""Operators of edges."""
NOTHING, LATEST, ALL = range(3)
"""Runs of a state that later events can extend: none, those of the last instant, those in the window."""
RUN, EVENT, EITHER, FIXED, UNBOUND = range(5)
"""Where an operand is: in the run, in the event, in the event or else in the run, in a constant, or nowhere."""
EQUAL, UNEQUAL, LESS, GREATER, AT_MOST, AT_LEAST = range(6)
COUNT, MATCHES, INSTANT, BEFORE_LAST, LAST, META = range(6)
"""Where a call goes on: rows of the pool, rows of matches, the next instant, and the two instants before it."""
AT_ONCE_TOO = 2
"""STORED of a state whose runs can be extended at the same instant."""


@njit(cache=True, nogil=True, inline="always")
def _mixed(hashed, value):
    hashed = (hashed ^ value) * np.int64(-7046029254386353131)
    return hashed ^ ((hashed >> 29) & np.int64(0x7FFFFFFFF))


@njit(cache=True, nogil=True, inline="always")
def _link(rows, links, heads, state_indexes, indexes, index_columns, states, row, at_once):
    """Puts a row in front of its chains: those for the same instant, or those for later ones."""
    state = rows[row, rows.shape[1] - 1]
    first = states[state, FIRST_INDEX]
    for k in range(first, states[state, LAST_INDEX]):
        index = state_indexes[k]
        if (indexes[index, AT_ONCE_ONLY] != 0) != at_once:
            continue
        hashed = np.int64(0)
        for c in range(indexes[index, FIRST_COLUMN], indexes[index, LAST_COLUMN]):
            hashed = _mixed(hashed, rows[row, index_columns[c]])
        place = hashed & (heads.shape[1] - 1)
        links[row, k - first] = heads[index, place]
        heads[index, place] = row


@njit(cache=True, nogil=True)
def put_together(rows, numbers, count, states, oldest, latest):
    """Keeps the rows that later events can extend, in their order; answers how many there are."""
    kept = 0
    last_column = rows.shape[1] - 1
    for row in range(count):
        keep = states[rows[row, last_column], KEEP]
        if rows[row, 0] >= oldest and (keep == ALL or (keep == LATEST and rows[row, 1] == latest)):
            if kept != row:
                for c in range(rows.shape[1]):
                    rows[kept, c] = rows[row, c]
                for c in range(numbers.shape[1]):
                    numbers[kept, c] = numbers[row, c]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def link_all(rows, links, heads, count, state_indexes, indexes, index_columns, states):
    """Makes the chains of all rows anew; those for one instant are empty between instants."""
    heads[:] = -1
    for row in range(count):
        _link(rows, links, heads, state_indexes, indexes, index_columns, states, row, False)


@njit(cache=True, nogil=True, inline="always")
def _holds(op, one, two):
    if op == EQUAL:
        return one == two
    if op == UNEQUAL:
        return one != two
    if op == LESS:
        return one < two
    if op == GREATER:
        return one > two
    if op == AT_MOST:
        return one <= two
    return one >= two


@njit(cache=True, nogil=True, inline="always")
def _operand(conditions, c, at, rows, numbers, row, events, event_numbers, solution, constants):
    """The number of an operand, and whether it is bound."""
    where, place = conditions[c, at], conditions[c, at + 1]
    if where == FIXED:
        return constants[place], True
    if (where == EVENT or where == EITHER) and events[solution, place] != 0:
        return event_numbers[solution, place], True
    if (where == RUN or where == EITHER) and row >= 0 and rows[row, conditions[c, at + 2]] != 0:
        return numbers[row, conditions[c, at + 3]], True
    return 0.0, False


@njit(cache=True, nogil=True)
def take_instants(
    states,
    edges,
    indexes,
    state_indexes,
    index_columns,
    edge_keys,
    checks,
    conditions,
    constants,
    clears,
    binds,
    bind_ranges,
    instants,
    starts,
    ends,
    times,
    events,
    event_numbers,
    previous,
    rows,
    numbers,
    links,
    heads,
    matches,
    meta,
    within,
):
    """Extends runs by the solutions of atoms, instant by instant, for as long as there is room.

    The next solution of atom k is starts[k], and its last is before ends[k]; they are in the order of time. `previous`
    has the instants before each of them, by the partition; without rows, the instants are those of all events.
    Answers the number of the first instant that was not taken, because it needs more room; `meta` and `starts` are as
    they were before it.
    """
    atoms = starts.shape[0]
    begins_at = starts.copy()
    width = rows.shape[1] - 1
    slots = numbers.shape[1]
    mask = heads.shape[1] - 1
    count, found = meta[COUNT], meta[MATCHES]
    before_last, last = meta[BEFORE_LAST], meta[LAST]
    partitioned = previous.shape[0] > 0
    room, match_room = rows.shape[0], matches.shape[0]
    for k in range(meta[INSTANT], instants.shape[0]):
        now = instants[k]
        earliest = now - within
        any_here = False
        for atom in range(atoms):
            at = starts[atom]
            begins_at[atom] = at
            while at < ends[atom] and times[at] == now:
                at += 1
            starts[atom] = at
            any_here |= at > begins_at[atom]
        if any_here:
            first_row, first_match = count, found
            full = 4 * count > 3 * room
            for state in range(states.shape[0]):
                atom = states[state, ATOM]
                stored, accepts = states[state, STORED], states[state, ACCEPTS]
                for solution in range(begins_at[atom], starts[atom]):
                    if full:
                        break
                    if partitioned:
                        before_last, last = previous[solution, 1], previous[solution, 0]
                    for e in range(states[state, FIRST_EDGE], states[state, LAST_EDGE]):
                        begins = edges[e, PARENT] < 0
                        row = np.int64(-1)
                        low, high = earliest, now - 1
                        if not begins:
                            index, op = edges[e, INDEX], edges[e, OP]
                            if op == NEXT:
                                if last == NO_TIME:
                                    continue
                                low = high = last
                            elif op == SAME:
                                low = high = now
                            elif op == NEXT_BUT_ONE:
                                low = max(low, before_last)
                            hashed = np.int64(0)
                            key = edges[e, FIRST_KEY]
                            for c in range(indexes[index, LAST_COLUMN] - indexes[index, FIRST_COLUMN]):
                                hashed = _mixed(hashed, events[solution, edge_keys[key + c]])
                            row = heads[index, hashed & mask]
                            if row < 0:
                                continue
                        link = edges[e, LINK]
                        first_check, last_check = edges[e, FIRST_CHECK], edges[e, LAST_CHECK]
                        first_condition, last_condition = edges[e, FIRST_CONDITION], edges[e, LAST_CONDITION]
                        following = np.int64(-1)
                        while True:
                            fits = True
                            if not begins:
                                if rows[row, 1] < low:
                                    break
                                following = links[row, link]
                                fits = rows[row, 1] <= high and rows[row, 0] >= earliest
                                if fits:
                                    for c in range(first_check, last_check):
                                        one, two = events[solution, checks[c, 0]], rows[row, checks[c, 1]]
                                        if one != two and one != 0 and two != 0:
                                            fits = False
                                            break
                            if fits:
                                for c in range(first_condition, last_condition):
                                    left, bound = _operand(
                                        conditions,
                                        c,
                                        1,
                                        rows,
                                        numbers,
                                        row,
                                        events,
                                        event_numbers,
                                        solution,
                                        constants,
                                    )
                                    if not bound:
                                        fits = False
                                        break
                                    right, bound = _operand(
                                        conditions,
                                        c,
                                        5,
                                        rows,
                                        numbers,
                                        row,
                                        events,
                                        event_numbers,
                                        solution,
                                        constants,
                                    )
                                    if not bound or not _holds(conditions[c, 0], left, right):
                                        fits = False
                                        break
                            if fits:
                                if count == room or (accepts != 0 and found == match_room):
                                    full = True
                                    break
                                # The new run is made behind the pool, and counts if it is to be stored.
                                if begins:
                                    for c in range(width):
                                        rows[count, c] = 0
                                    rows[count, 0] = now
                                else:
                                    for c in range(width):
                                        rows[count, c] = rows[row, c]
                                    for c in range(slots):
                                        numbers[count, c] = numbers[row, c]
                                    for c in range(edges[e, FIRST_CLEAR], edges[e, LAST_CLEAR]):
                                        rows[count, clears[c]] = 0
                                    mark = edges[e, MARK]
                                    if mark >= 0:
                                        rows[count, 2 + 2 * mark] = rows[row, 1]
                                        rows[count, 3 + 2 * mark] = now
                                rows[count, 1] = now
                                rows[count, width] = state
                                for c in range(bind_ranges[atom], bind_ranges[atom + 1]):
                                    value = events[solution, binds[c, 0]]
                                    if value != 0:
                                        rows[count, binds[c, 1]] = value
                                        if binds[c, 2] >= 0:
                                            numbers[count, binds[c, 2]] = event_numbers[solution, binds[c, 0]]
                                if accepts != 0:
                                    for c in range(width + 1):
                                        matches[found, c] = rows[count, c]
                                    found += 1
                                if stored != 0:
                                    if stored == AT_ONCE_TOO:
                                        _link(
                                            rows,
                                            links,
                                            heads,
                                            state_indexes,
                                            indexes,
                                            index_columns,
                                            states,
                                            count,
                                            True,
                                        )
                                    count += 1
                            row = following
                            if row < 0:
                                break
                        if full:
                            break
            if full:
                for atom in range(atoms):
                    starts[atom] = begins_at[atom]
                meta[COUNT], meta[MATCHES], meta[INSTANT] = first_row, first_match, k
                meta[BEFORE_LAST], meta[LAST] = before_last, last
                return k
            for made in range(first_row, count):
                _link(rows, links, heads, state_indexes, indexes, index_columns, states, made, False)
        if not partitioned:
            before_last, last = last, now
    meta[COUNT], meta[MATCHES], meta[INSTANT] = count, found, instants.shape[0]
    meta[BEFORE_LAST], meta[LAST] = before_last, last
    return instants.shape[0]
