"""The kernel of the shared buffer: partial matches of a sequence as nodes and lists that they share.

A node stands for all runs that end in one state by one event: it has the values of that event, and a list of the nodes
that came before. A list is a chain of cells; lists share their ends. Where no condition distinguishes the runs before
an event, its list is that of all nodes of the state before, which exists already: the step costs the same however many
runs there are. Where a condition does, the list has the nodes that fulfil it; a condition on a value further back makes
restricted copies of the nodes between. So every path through lists is a run, and enumerating them meets no dead end.

An iteration of a repetition takes over the list of the one before: what came between is of no use to later events. A
list that one comparison of the repetition cuts is kept in the order of the compared number: what fails is a prefix.

A cell has the latest beginning of the runs of its node and of all behind it: what is outside of the window ends a walk.
Cells point to older cells, nodes to older ones, so that a single pass marks what is still needed. The model is the tECS
of CORE (Bucchi, Grez, Quintana, Riveros, Vansummeren: CORE, a complex event recognition engine, VLDB 2022).
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.sequence_steps import (
    ALL,
    AT_LEAST,
    AT_MOST,
    EVENT,
    FIXED,
    GREATER,
    LATEST,
    LESS,
    NEXT,
    NEXT_BUT_ONE,
    SAME,
    _holds,
    _mixed,
)
from thalweg.kernels.times import NO_TIME

# Columns of states and edges.
(
    ATOM,
    LATER_TOO,
    AT_ONCE_TOO,
    ACCEPTS,
    FIRST_EDGE,
    LAST_EDGE,
    KEEP,
    MARK,
    REPEATS,
    SORT,
    DESCENDS,
    STATE_WIDTH,
) = range(12)
(
    PARENT,
    OP,
    AGAIN,
    SHARES,
    POPS,
    FIRST_OWN,
    LAST_OWN,
    FIRST_RUN,
    LAST_RUN,
    FIRST_CLEAR,
    LAST_CLEAR,
    EDGE_WIDTH,
) = range(12)
"""SHARES: nothing tells the runs before apart. POPS: what fails is a prefix of the list."""
CONDITION, LEFT_EVENT, LEFT, COLUMN, SLOT, CONDITION_WIDTH = range(6)
"""A condition compares a value of the event, or a constant, with a value of the run."""
LIST, LATER_CELL, ONCE_CELL, LATER_HASH, ONCE_HASH, STAMP, LINKS = range(7)
"""Columns of links: the list before a node (-1: the node has all values of its run), the cells by which later events
and those of the same instant find it and those before it, the next node of other values in its chains, and how many
cells there were when it was made."""
NODE, BEHIND, TOP, CELL_WIDTH = range(4)
"""Columns of cells: a node, the cell behind, and the latest beginning of the runs here and behind."""
NODES, MATCHES, INSTANT, BEFORE_LAST, LAST, CELLS, STEPS, SHORT, META = range(9)
"""Where a call goes on. STEPS counts the nodes and cells that were visited; SHORT: only matches need more room."""
_FULL, _FRESH = -2, -2


@njit(cache=True, nogil=True, inline="always")
def _find(rows, links, heads, once, state, keys, atom, values, solution, key_columns):
    """The newest node of a state with the key of a solution of an atom; -1: there is none."""
    hashed = np.int64(state)
    for k in range(key_columns.shape[0]):
        hashed = _mixed(hashed, values[solution, keys[atom, k]])
    place = (hashed ^ (hashed >> 32)) & (heads.shape[1] - 1)
    node = heads[once, place]
    while node >= 0:
        if rows[node, rows.shape[1] - 1] == state:
            equal = True
            for k in range(key_columns.shape[0]):
                if rows[node, key_columns[k]] != values[solution, keys[atom, k]]:
                    equal = False
                    break
            if equal:
                break
        node = links[node, LATER_HASH + once]
    return node


@njit(cache=True, nogil=True, inline="always")
def _enter(rows, links, heads, cells, cell, once, keep, key_columns, node):
    """Makes a node the newest one of its state and key, with `cell` as its cell."""
    width = rows.shape[1] - 1
    state = rows[node, width]
    hashed = np.int64(state)
    for k in range(key_columns.shape[0]):
        hashed = _mixed(hashed, rows[node, key_columns[k]])
    place = (hashed ^ (hashed >> 32)) & (heads.shape[1] - 1)
    before, at = np.int64(-1), heads[once, place]
    while at >= 0:
        if rows[at, width] == state:
            equal = True
            for k in range(key_columns.shape[0]):
                if rows[at, key_columns[k]] != rows[node, key_columns[k]]:
                    equal = False
                    break
            if equal:
                break
        before, at = at, links[at, LATER_HASH + once]
    behind = np.int64(-1)
    following = heads[once, place]
    if at >= 0:
        # It takes the place of the one before it.
        if keep == ALL or rows[at, 1] == rows[node, 1]:
            behind = links[at, LATER_CELL + once]
        following = links[at, LATER_HASH + once]
        if before >= 0:
            links[before, LATER_HASH + once] = node
        else:
            heads[once, place] = node
    else:
        heads[once, place] = node
    links[node, LATER_HASH + once] = following
    links[node, LATER_CELL + once] = cell
    cells[cell, NODE] = node
    cells[cell, BEHIND] = behind
    cells[cell, TOP] = rows[node, 0] if behind < 0 else max(rows[node, 0], cells[behind, TOP])


@njit(cache=True, nogil=True)
def put_together(rows, numbers, links, cells, heads, nodes, many, states, key_columns, oldest, latest):
    """Keeps what later events can reach, in its order; answers how many nodes and cells that is."""
    width = rows.shape[1] - 1
    node_to, cell_to = np.zeros(nodes + 1, np.int64), np.zeros(many + 1, np.int64)
    cell = many
    for k in range(nodes):
        node = nodes - 1 - k
        # Cells that are younger than the node come first: they can point to it.
        while cell > links[node, STAMP]:
            cell -= 1
            if cell_to[cell] != 0:
                if rows[cells[cell, NODE], 0] >= oldest:
                    node_to[cells[cell, NODE]] = 1
                if cells[cell, BEHIND] >= 0 and cells[cells[cell, BEHIND], TOP] >= oldest:
                    cell_to[cells[cell, BEHIND]] = 1
        if rows[node, 0] < oldest:
            node_to[node] = 0
            continue
        if links[node, LATER_CELL] >= 0:
            keep = states[rows[node, width], KEEP]
            if keep == ALL or (keep == LATEST and rows[node, 1] == latest):
                # Its cell is younger than it, and was passed: what it needs is marked now.
                node_to[node] = 1
                own = links[node, LATER_CELL]
                cell_to[own] = 1
                if cells[own, BEHIND] >= 0 and cells[cells[own, BEHIND], TOP] >= oldest:
                    cell_to[cells[own, BEHIND]] = 1
        if node_to[node] != 0 and links[node, LIST] >= 0:
            cell_to[links[node, LIST]] = 1
    return _moved(
        rows, numbers, links, cells, heads, nodes, many, states, key_columns, oldest, latest, node_to, cell_to
    )


@njit(cache=True, nogil=True)
def _moved(
    rows, numbers, links, cells, heads, nodes, many, states, key_columns, oldest, latest, node_to, cell_to
):
    """Moves what is marked to the front, with new numbers, and enters nodes anew."""
    width = rows.shape[1] - 1
    kept = 0
    for node in range(nodes):
        if node_to[node] == 0:
            node_to[node] = -1
            continue
        node_to[node] = kept
        if kept != node:
            for c in range(rows.shape[1]):
                rows[kept, c] = rows[node, c]
            for c in range(numbers.shape[1]):
                numbers[kept, c] = numbers[node, c]
            for c in range(LINKS):
                links[kept, c] = links[node, c]
        kept += 1
    # Stamps are in order: how many cells before each are kept is found in one pass.
    stay, at = 0, 0
    for cell in range(many + 1):
        while at < kept and links[at, STAMP] <= cell:
            links[at, STAMP] = stay
            at += 1
        if cell == many:
            break
        node = cells[cell, NODE]
        if cell_to[cell] != 0 and node_to[node] >= 0:
            behind = cells[cell, BEHIND]
            behind = cell_to[behind] if behind >= 0 else np.int64(-1)
            cell_to[cell] = stay
            cells[stay, NODE] = node_to[node]
            cells[stay, BEHIND] = behind
            cells[stay, TOP] = rows[node_to[node], 0]
            if behind >= 0:
                cells[stay, TOP] = max(cells[stay, TOP], cells[behind, TOP])
            stay += 1
        else:
            # A list goes on behind a cell that went.
            cell_to[cell] = cell_to[cells[cell, BEHIND]] if cells[cell, BEHIND] >= 0 else -1
    for node in range(kept):
        if links[node, LIST] >= 0:
            links[node, LIST] = cell_to[links[node, LIST]]
    heads[:] = -1
    for node in range(kept):
        own = links[node, LATER_CELL]
        links[node, ONCE_CELL] = -1
        if own >= 0:
            keep = states[rows[node, width], KEEP]
            if keep == ALL or (keep == LATEST and rows[node, 1] == latest):
                _enter(rows, links, heads, cells, cell_to[own], 0, keep, key_columns, node)
            else:
                links[node, LATER_CELL] = -1
    return kept, stay


@njit(cache=True, nogil=True, inline="always")
def _checked(rows, numbers, links, binds, conditions, lefts, first, node, mask):
    """Asks a node the conditions about its values; answers those about values before it, and which one failed."""
    width = rows.shape[1] - 1
    closed = links[node, LIST] < 0
    state = rows[node, width]
    c, rest = first, mask
    while rest != 0:
        if rest & 1:
            slot = conditions[c, SLOT]
            if closed or binds[state, slot]:
                if rows[node, conditions[c, COLUMN]] == 0 or not _holds(
                    conditions[c, CONDITION], lefts[c - first], numbers[node, slot]
                ):
                    return mask, c
                mask ^= np.int64(1) << (c - first)
        rest >>= 1
        c += 1
    return mask, np.int64(-1)


@njit(cache=True, nogil=True, inline="always")
def _ends_list(states, state, op, slot):
    """Whether, in lists of a state, nothing behind a node fulfils a condition that it fails."""
    if states[state, SORT] != slot:
        return False
    if states[state, DESCENDS]:
        return op == LESS or op == AT_MOST
    return op == GREATER or op == AT_LEAST


@njit(cache=True, nogil=True)
def _restricted(
    rows,
    numbers,
    links,
    cells,
    states,
    binds,
    conditions,
    lefts,
    first,
    mask,
    earliest,
    node,
    temp,
    top,
    frames,
    meta,
):
    """A node with the runs that fulfil conditions on values before it: itself, a copy with another list, or -1.

    _FULL: there is no room for it.
    """
    width = rows.shape[1] - 1
    depth = 0
    frames[0, 0], frames[0, 1], frames[0, 2], frames[0, 3], frames[0, 4] = (
        node,
        links[node, LIST],
        mask,
        top,
        1,
    )
    while True:
        cell = frames[depth, 1]
        if cell >= 0 and cells[cell, TOP] >= earliest:
            meta[STEPS] += 1
            frames[depth, 1] = cells[cell, BEHIND]
            one = cells[cell, NODE]
            if rows[one, 0] < earliest:
                continue
            left, failed = _checked(
                rows, numbers, links, binds, conditions, lefts, first, one, frames[depth, 2]
            )
            if failed >= 0:
                frames[depth, 4] = 0
                state = rows[frames[depth, 0], width]
                if _ends_list(states, state, conditions[failed, CONDITION], conditions[failed, SLOT]):
                    frames[depth, 1] = -1
                continue
            if top >= temp.shape[0]:
                return np.int64(_FULL)
            if left == 0:
                temp[top] = one
                top += 1
                continue
            depth += 1
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = one, links[one, LIST], left
            frames[depth, 3], frames[depth, 4] = top, 1
            continue
        base = frames[depth, 3]
        made = frames[depth, 0]
        if top == base:
            made = np.int64(-1)
        elif frames[depth, 4] == 0:
            if meta[CELLS] + top - base > cells.shape[0] or meta[NODES] == rows.shape[0]:
                return np.int64(_FULL)
            behind = np.int64(-1)
            while top > base:
                top -= 1
                behind = _push(rows, cells, meta, temp[top], behind)
            made = meta[NODES]
            meta[NODES] += 1
            source = frames[depth, 0]
            for c in range(1, width + 1):
                rows[made, c] = rows[source, c]
            for c in range(numbers.shape[1]):
                numbers[made, c] = numbers[source, c]
            rows[made, 0] = cells[behind, TOP]
            links[made, LIST], links[made, STAMP] = behind, meta[CELLS]
            links[made, LATER_CELL] = links[made, ONCE_CELL] = -1
        top = base
        if depth == 0:
            return made
        if made != frames[depth, 0]:
            frames[depth - 1, 4] = 0
        depth -= 1
        if made >= 0:
            temp[top] = made
            top += 1


@njit(cache=True, nogil=True, inline="always")
def _push(rows, cells, meta, node, behind):
    """A new cell in front of a list; there is room for it."""
    cell = meta[CELLS]
    meta[CELLS] += 1
    cells[cell, NODE], cells[cell, BEHIND] = node, behind
    cells[cell, TOP] = rows[node, 0] if behind < 0 else max(rows[node, 0], cells[behind, TOP])
    return cell


@njit(cache=True, nogil=True, inline="always")
def _comes_before(states, state, numbers, one, two):
    """Whether a node comes before another in a list of a state that is in order."""
    slot = states[state, SORT]
    if states[state, DESCENDS]:
        return numbers[one, slot] >= numbers[two, slot]
    return numbers[one, slot] <= numbers[two, slot]


@njit(cache=True, nogil=True, inline="always")
def _listed(rows, numbers, cells, states, state, temp, base, top, tail, earliest, meta):
    """The list of some nodes in front of another list; _FULL: there is no room for it."""
    if meta[CELLS] + top - base > cells.shape[0]:
        return np.int64(_FULL)
    while tail >= 0 and rows[cells[tail, NODE], 0] < earliest:
        tail = cells[tail, BEHIND]
    if states[state, SORT] < 0:
        while top > base:
            top -= 1
            tail = _push(rows, cells, meta, temp[top], tail)
        return tail
    for k in range(base, top):
        # Those before its place are put in front of it anew.
        node, at, room = temp[k], tail, top
        while at >= 0 and not _comes_before(states, state, numbers, node, cells[at, NODE]):
            meta[STEPS] += 1
            if room == temp.shape[0]:
                return np.int64(_FULL)
            if rows[cells[at, NODE], 0] >= earliest:
                temp[room] = cells[at, NODE]
                room += 1
            at = cells[at, BEHIND]
        if meta[CELLS] + 1 + room - top > cells.shape[0]:
            return np.int64(_FULL)
        tail = _push(rows, cells, meta, node, at)
        while room > top:
            room -= 1
            tail = _push(rows, cells, meta, temp[room], tail)
    return tail


@njit(cache=True, nogil=True, inline="always")
def _written(
    rows,
    numbers,
    links,
    cells,
    states,
    binds,
    conditions,
    lefts,
    first,
    own,
    own_ranges,
    end,
    start,
    mask,
    earliest,
    path,
    matches,
    found,
    meta,
):
    """Writes the runs that end in a node by way of `start`, which may be the node itself, and fulfil conditions.

    Answers how many rows there are then, or -1: there is no room.
    """
    width = rows.shape[1] - 1
    last, state = rows[end, 1], rows[end, width]
    depth, node = 0, start
    path[0, 0], path[0, 1], path[0, 2] = end, -1, 0
    if links[start, LIST] >= 0:
        if start == end:
            path[0, 1], path[0, 2] = links[end, LIST], mask
        else:
            depth = 1
            path[1, 0], path[1, 1], path[1, 2] = start, links[start, LIST], mask
    while depth >= 0:
        if links[node, LIST] < 0:
            if found == matches.shape[0]:
                found = np.int64(-1)
                break
            for c in range(width):
                matches[found, c] = rows[node, c]
            before = node
            for k in range(depth, -1, -1):
                one = path[k, 0]
                if one == node:
                    continue
                here = rows[one, width]
                mark = states[here, MARK]
                if mark >= 0:
                    matches[found, 2 + 2 * mark] = rows[before, 1]
                    matches[found, 3 + 2 * mark] = rows[one, 1]
                for c in range(own_ranges[here], own_ranges[here + 1]):
                    value = rows[one, own[c]]
                    if value != 0:
                        matches[found, own[c]] = value
                before = one
            matches[found, 1] = last
            matches[found, width] = state
            found += 1
        # The next node of the deepest list that is not at its end.
        left = np.int64(0)
        while depth >= 0:
            cell = path[depth, 1]
            if cell < 0 or cells[cell, TOP] < earliest:
                depth -= 1
                continue
            meta[STEPS] += 1
            path[depth, 1] = cells[cell, BEHIND]
            node = cells[cell, NODE]
            if rows[node, 0] < earliest:
                continue
            left, failed = _checked(
                rows, numbers, links, binds, conditions, lefts, first, node, path[depth, 2]
            )
            if failed < 0:
                break
            owner = rows[path[depth, 0], width]
            if _ends_list(states, owner, conditions[failed, CONDITION], conditions[failed, SLOT]):
                path[depth, 1] = -1
        if depth >= 0 and links[node, LIST] >= 0:
            depth += 1
            path[depth, 0], path[depth, 1], path[depth, 2] = node, links[node, LIST], left
    return found


@njit(cache=True, nogil=True)
def enumerate_runs(
    rows,
    numbers,
    links,
    cells,
    states,
    binds,
    conditions,
    lefts,
    own,
    own_ranges,
    end,
    earliest,
    path,
    matches,
    found,
    meta,
):
    """Writes the runs of a node, one row each; answers how many rows there are then, or -1: there is no room."""
    return _written(
        rows,
        numbers,
        links,
        cells,
        states,
        binds,
        conditions,
        lefts,
        0,
        own,
        own_ranges,
        end,
        end,
        0,
        earliest,
        path,
        matches,
        found,
        meta,
    )


@njit(cache=True, nogil=True, inline="always")
def _own_holds(own_conditions, c, events, event_numbers, solution, constants):
    """Whether a condition that is about the event alone holds; of nothing that is unbound."""
    one = two = 0.0
    for side in range(2):
        where, place = own_conditions[c, 1 + 2 * side], own_conditions[c, 2 + 2 * side]
        if where == FIXED:
            number = constants[place]
        elif where == EVENT and events[solution, place] != 0:
            number = event_numbers[solution, place]
        else:
            return False
        if side == 0:
            one = number
        else:
            two = number
    return _holds(own_conditions[c, 0], one, two)


@njit(cache=True, nogil=True, inline="always")
def _new_node(rows, numbers, links, meta, first, now, state):
    """A node without values; there is room for it. Its list and stamp are still to be set."""
    node = meta[NODES]
    meta[NODES] += 1
    width = rows.shape[1] - 1
    for c in range(width):
        rows[node, c] = 0
    rows[node, 0], rows[node, 1], rows[node, width] = first, now, state
    links[node, LATER_CELL] = links[node, ONCE_CELL] = -1
    return node


@njit(cache=True, nogil=True)
def take_instants(
    states,
    edges,
    conditions,
    own_conditions,
    constants,
    clears,
    binds,
    own,
    own_ranges,
    keys,
    key_columns,
    bind_places,
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
    cells,
    heads,
    matches,
    temp,
    frames,
    path,
    lefts,
    meta,
    within,
    floor,
):
    """Extends nodes by the solutions of atoms, instant by instant, for as long as there is room.

    Arguments and answer are those of `sequence_steps.take_instants`; runs that began before `floor` do not count.
    """
    atoms = starts.shape[0]
    begins_at = starts.copy()
    width = rows.shape[1] - 1
    found = meta[MATCHES]
    before_last, last = meta[BEFORE_LAST], meta[LAST]
    partitioned = previous.shape[0] > 0
    room, cell_room = rows.shape[0], cells.shape[0]
    for k in range(meta[INSTANT], instants.shape[0]):
        now = instants[k]
        earliest = max(now - within, floor)
        any_here = False
        for atom in range(atoms):
            at = starts[atom]
            begins_at[atom] = at
            while at < ends[atom] and times[at] == now:
                at += 1
            starts[atom] = at
            any_here |= at > begins_at[atom]
        if any_here:
            full = short = False
            if 8 * meta[NODES] > 7 * room or 8 * meta[CELLS] > 7 * cell_room:
                meta[NODES], meta[CELLS] = put_together(
                    rows,
                    numbers,
                    links,
                    cells,
                    heads,
                    meta[NODES],
                    meta[CELLS],
                    states,
                    key_columns,
                    earliest,
                    last,
                )
                full = 8 * meta[NODES] > 5 * room or 8 * meta[CELLS] > 5 * cell_room
            first_node, first_cell, first_match = meta[NODES], meta[CELLS], found
            for state in range(states.shape[0] - 1):
                atom = states[state, ATOM]
                stored = states[state, LATER_TOO] != 0 or states[state, AT_ONCE_TOO] != 0
                repeats = states[state, REPEATS] != 0
                # Matches that nothing goes on from are written at once, and no list is made for them.
                direct = not stored and not repeats
                first_edge, last_edge = states[state, FIRST_EDGE], states[state, LAST_EDGE]
                for solution in range(begins_at[atom], starts[atom]):
                    if full:
                        break
                    if partitioned:
                        before_last, last = previous[solution, 1], previous[solution, 0]
                    top, tail = 0, np.int64(-1)
                    for e in range(first_edge, last_edge):
                        before_nodes, before_cells = meta[NODES], meta[CELLS]
                        holds = True
                        for c in range(edges[e, FIRST_OWN], edges[e, LAST_OWN]):
                            if not _own_holds(own_conditions, c, events, event_numbers, solution, constants):
                                holds = False
                                break
                        begins = edges[e, PARENT] < 0
                        if holds and not begins:
                            op = edges[e, OP]
                            low, high = earliest, now - 1
                            if op == NEXT:
                                holds = last != NO_TIME
                                low = high = last
                            elif op == SAME:
                                low = high = now
                            elif op == NEXT_BUT_ONE:
                                low = max(low, before_last)
                            once = 1 if op == SAME else 0
                            cell = np.int64(-1)
                            if holds:
                                newest = _find(
                                    rows,
                                    links,
                                    heads,
                                    once,
                                    edges[e, PARENT],
                                    keys,
                                    atom,
                                    events,
                                    solution,
                                    key_columns,
                                )
                                if newest >= 0:
                                    cell = links[newest, LATER_CELL + once]
                            first, many = edges[e, FIRST_RUN], edges[e, LAST_RUN] - edges[e, FIRST_RUN]
                            for c in range(many):
                                place = conditions[first + c, LEFT]
                                if conditions[first + c, LEFT_EVENT] == 0:
                                    lefts[c] = constants[place]
                                elif events[solution, place] != 0:
                                    lefts[c] = event_numbers[solution, place]
                                else:
                                    cell = np.int64(-1)  # it is unbound
                            mask = (np.int64(1) << many) - 1
                            again = edges[e, AGAIN] != 0
                            end = np.int64(-1)
                            if direct and cell >= 0:
                                if meta[NODES] == room:
                                    full = True
                                    break
                                end = _new_node(rows, numbers, links, meta, now, now, state)
                                links[end, LIST] = -1
                                for c in range(bind_ranges[atom], bind_ranges[atom + 1]):
                                    rows[end, bind_places[c, 1]] = events[solution, bind_places[c, 0]]
                            elif edges[e, SHARES] != 0 and cell >= 0 and cells[cell, TOP] >= earliest:
                                if not repeats:
                                    tail = cell
                                else:
                                    # A node without values stands for the list among the others.
                                    if meta[NODES] == room:
                                        full = True
                                        break
                                    node = _new_node(
                                        rows,
                                        numbers,
                                        links,
                                        meta,
                                        cells[cell, TOP],
                                        now,
                                        states.shape[0] - 1,
                                    )
                                    links[node, LIST], links[node, STAMP] = cell, meta[CELLS]
                                    temp[top] = node
                                    top += 1
                                cell = np.int64(-1)
                            while cell >= 0 and cells[cell, TOP] >= earliest:
                                meta[STEPS] += 1
                                node = cells[cell, NODE]
                                cell = cells[cell, BEHIND]
                                if rows[node, 1] < low:
                                    break
                                if rows[node, 1] > high or rows[node, 0] < earliest:
                                    continue
                                if top + 1 >= temp.shape[0] or meta[NODES] == room:
                                    full = True
                                    break
                                left, failed = _checked(
                                    rows, numbers, links, binds, conditions, lefts, first, node, mask
                                )
                                if failed >= 0:
                                    continue
                                if again and links[node, LIST] < 0:
                                    # What the next iteration does not bind anew stays.
                                    entry = meta[NODES]
                                    meta[NODES] += 1
                                    for c in range(width + 1):
                                        rows[entry, c] = rows[node, c]
                                    for c in range(numbers.shape[1]):
                                        numbers[entry, c] = numbers[node, c]
                                    for c in range(edges[e, FIRST_CLEAR], edges[e, LAST_CLEAR]):
                                        rows[entry, clears[c]] = 0
                                    links[entry, LIST], links[entry, STAMP] = -1, meta[CELLS]
                                    links[entry, LATER_CELL] = links[entry, ONCE_CELL] = -1
                                    temp[top] = entry
                                    top += 1
                                    continue
                                if direct:
                                    many_found = _written(
                                        rows,
                                        numbers,
                                        links,
                                        cells,
                                        states,
                                        binds,
                                        conditions,
                                        lefts,
                                        first,
                                        own,
                                        own_ranges,
                                        end,
                                        node,
                                        left,
                                        earliest,
                                        path,
                                        matches,
                                        found,
                                        meta,
                                    )
                                    if many_found < 0:
                                        full = short = True
                                        break
                                    found = many_found
                                    continue
                                if left != 0 and not (again and edges[e, POPS] != 0):
                                    node = _restricted(
                                        rows,
                                        numbers,
                                        links,
                                        cells,
                                        states,
                                        binds,
                                        conditions,
                                        lefts,
                                        first,
                                        left,
                                        earliest,
                                        node,
                                        temp,
                                        top,
                                        frames,
                                        meta,
                                    )
                                    if node == _FULL:
                                        full = True
                                        break
                                    if node < 0:
                                        continue
                                if not again:
                                    temp[top] = node
                                    top += 1
                                    continue
                                entries = links[node, LIST]
                                if left != 0 and edges[e, POPS] != 0:
                                    while entries >= 0:
                                        _, failed = _checked(
                                            rows,
                                            numbers,
                                            links,
                                            binds,
                                            conditions,
                                            lefts,
                                            first,
                                            cells[entries, NODE],
                                            left,
                                        )
                                        if failed < 0:
                                            break
                                        meta[STEPS] += 1
                                        entries = cells[entries, BEHIND]
                                if tail < 0:
                                    tail = entries
                                    continue
                                while entries >= 0 and cells[entries, TOP] >= earliest:
                                    meta[STEPS] += 1
                                    if top == temp.shape[0]:
                                        full = True
                                        break
                                    temp[top] = cells[entries, NODE]
                                    top += 1
                                    entries = cells[entries, BEHIND]
                            if full:
                                break
                        if repeats and not begins and e + 1 < last_edge and edges[e + 1, PARENT] >= 0:
                            continue  # all edges but the first one of all lead into one node
                        if not begins and top > 0:
                            tail = _listed(
                                rows, numbers, cells, states, state, temp, 0, top, tail, earliest, meta
                            )
                            if tail == _FULL:
                                full = True
                                break
                        if not begins and (tail < 0 or cells[tail, TOP] < earliest):
                            meta[NODES], meta[CELLS] = before_nodes, before_cells
                            top, tail = 0, np.int64(-1)
                            continue
                        if begins and not holds:
                            continue
                        if meta[NODES] == room or meta[CELLS] == cell_room:
                            full = True
                            break
                        node = _new_node(
                            rows, numbers, links, meta, now if begins else cells[tail, TOP], now, state
                        )
                        links[node, LIST], links[node, STAMP] = tail if not begins else -1, meta[CELLS]
                        for c in range(bind_ranges[atom], bind_ranges[atom + 1]):
                            value = events[solution, bind_places[c, 0]]
                            rows[node, bind_places[c, 1]] = value
                            if bind_places[c, 2] >= 0:
                                numbers[node, bind_places[c, 2]] = event_numbers[solution, bind_places[c, 0]]
                        if states[state, ACCEPTS] != 0:
                            many_found = enumerate_runs(
                                rows,
                                numbers,
                                links,
                                cells,
                                states,
                                binds,
                                conditions,
                                lefts,
                                own,
                                own_ranges,
                                node,
                                earliest,
                                path,
                                matches,
                                found,
                                meta,
                            )
                            if many_found < 0:
                                full = short = True
                                break
                            found = many_found
                        if not stored:
                            meta[NODES], meta[CELLS] = before_nodes, before_cells
                        else:
                            links[node, LATER_CELL] = _FRESH if states[state, LATER_TOO] != 0 else -1
                            if states[state, AT_ONCE_TOO] != 0:
                                cell = meta[CELLS]
                                meta[CELLS] += 1
                                _enter(rows, links, heads, cells, cell, 1, LATEST, key_columns, node)
                        top, tail = 0, np.int64(-1)
                    if full:
                        break
                if full:
                    break
            if full or meta[CELLS] + meta[NODES] - first_node > cell_room:
                for atom in range(atoms):
                    starts[atom] = begins_at[atom]
                meta[NODES], meta[CELLS], meta[MATCHES], meta[INSTANT] = (
                    first_node,
                    first_cell,
                    first_match,
                    k,
                )
                meta[BEFORE_LAST], meta[LAST], meta[SHORT] = before_last, last, short
                return k
            for node in range(first_node, meta[NODES]):
                if links[node, LATER_CELL] == _FRESH:
                    cell = meta[CELLS]
                    meta[CELLS] += 1
                    keep = states[rows[node, width], KEEP]
                    _enter(rows, links, heads, cells, cell, 0, keep, key_columns, node)
        if not partitioned:
            before_last, last = last, now
    meta[MATCHES], meta[INSTANT] = found, instants.shape[0]
    meta[BEFORE_LAST], meta[LAST] = before_last, last
    return instants.shape[0]


@njit(cache=True, nogil=True)
def count_runs(rows, links, cells, nodes, many, states, oldest, latest):
    """How many runs there are that later events can extend; more than 2^62 count as that."""
    width = rows.shape[1] - 1
    most = np.int64(1) << 61
    of_node, of_list = np.zeros(nodes + 1, np.int64), np.zeros(many + 1, np.int64)
    total, cell = np.int64(0), 0
    for node in range(nodes):
        while cell < links[node, STAMP]:
            behind = cells[cell, BEHIND]
            of_list[cell] = min(of_node[cells[cell, NODE]] + (of_list[behind] if behind >= 0 else 0), most)
            cell += 1
        if links[node, LIST] < 0:
            of_node[node] = 1 if rows[node, 0] >= oldest else 0
        else:
            of_node[node] = of_list[links[node, LIST]]
        if links[node, LATER_CELL] >= 0:
            keep = states[rows[node, width], KEEP]
            if keep == ALL or (keep == LATEST and rows[node, 1] == latest):
                total = min(total + of_node[node], most)
    return total
