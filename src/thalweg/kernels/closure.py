"""Closures: which nodes a path of one or more edges connects, kept up to date edge by edge.

Each root has a tree of the nodes that it reaches. An *entry* is a pair of a root and a node that it reaches, with its
parent in the tree; it is there once, whatever the number of ways. A new edge (u, v) is followed in the trees that have
u: breadth first, as far as nodes are new to a tree. Where an edge goes, the subtrees that hang on it are detached; what
another edge connects with the rest of its tree is attached again, and what is left is removed. All edges that go at one
instant are taken together, so that an entry is looked at once. (Streaming regular path queries: Pacaci, Bonifati, Özsu,
SIGMOD 2020. Delete and rederive: Gupta, Mumick, Subrahmanian, SIGMOD 1993.)

`nodes`, `edges` and `entries` are tables of 32-bit cells. A node is found by its cells in `keys` (the event's columns
and the id of a term), an edge and an entry by their first two cells; each table has a hash table of its own (`slots`,
open addressing, -1 empty), and a chain of free rows. The entry of a root itself has no parent, is in no hash table and
is no pair. A kernel that lacks room stops, says what it lacks, and goes on where it was when it is called again.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.chains import link, unlink
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import mixed

# Heads of chains: outgoing edges, incoming edges, entries; the entry of the root, if it is one; how many edges and
# roots use the node (below 0: it is free); how often it is asked for as a root.
NODE_OUT, NODE_IN, NODE_ENTRIES, NODE_ROOT, NODE_USES, NODE_ASKED = range(6)
NODE_CELLS = 6
# The count has 64 bits, in two cells: a step of a path inside has as many copies as it has ways.
EDGE_FROM, EDGE_TO, EDGE_COUNT, EDGE_NEXT_OUT, EDGE_LAST_OUT, EDGE_NEXT_IN, EDGE_LAST_IN, EDGE_MORE = range(8)
EDGE_CELLS = 8
# Root and node; parent, first child and neighbours among the children of the parent; neighbours among the entries of
# the node.
ENTRY_ROOT, ENTRY_NODE, ENTRY_PARENT, ENTRY_CHILD, ENTRY_NEXT, ENTRY_LAST, ENTRY_AFTER, ENTRY_BEFORE = range(
    8
)
ENTRY_CELLS = 8
_NONE, _DETACHED = -1, -2  # of parents

# What is in use: rows of tables that ever were, the first free one of each, those that are.
USED_NODES, USED_EDGES, USED_ENTRIES, FREE_NODE, FREE_EDGE, FREE_ENTRY = range(6)
LIVE_NODES, LIVE_EDGES, PAIRS, ROOTS = 6, 7, 8, 9
# Where a kernel stopped: phase, the changes of the instant, the change, the entry to follow it from, the queue.
PHASE, START, END, CHANGE, CURSOR, HEAD, TAIL, NEXT_EDGE = range(10, 18)
MARKS = 18

# The definition: cells of the event, how roots are chosen, the id of the only root, the id of the only node that is
# reported, whether a node's way back to itself is left out, how many pairs there may be.
LEAD, ROOTED, ROOT_ID, TARGET_ID, PROPER, MOST_PAIRS = range(6)
DEFINITION = 6
EVERY_NODE, ONE_NODE, ASKED_NODES = range(3)

DONE, NEEDS_ENTRIES, NEEDS_OUTPUT, TOO_MANY = range(4)

_APPLY, _GROW, _DETACH, _REMOVE = range(4)
_TOUCHED, _NEW_EDGE, _GONE_EDGE, _NEW_ROOT, _GONE_ROOT = range(5)


@njit(cache=True, nogil=True)
def _hash(a, b):
    h = mixed(mixed(np.uint64(0x9E3779B97F4A7C15), a), b)
    return np.int64(h >> np.uint64(1))


@njit(cache=True, nogil=True)
def _slot_of(slots, table, a, b):
    """The slot of the row whose first cells are a and b, or of the empty place where it would be."""
    mask = slots.shape[0] - 1
    slot = _hash(a, b) & mask
    while True:
        row = np.int64(slots[slot])
        if row < 0 or (table[row, 0] == a and table[row, 1] == b):
            return slot
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _forget(slots, table, slot):
    """Empties a slot; what follows moves up, so that it is still found (Knuth 3, 6.4, algorithm R)."""
    mask = slots.shape[0] - 1
    hole, place = slot, (slot + 1) & mask
    while slots[place] >= 0:
        other = slots[place]
        home = _hash(np.int64(table[other, 0]), np.int64(table[other, 1])) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            slots[hole] = other
            hole = place
        place = (place + 1) & mask
    slots[hole] = -1


@njit(cache=True, nogil=True)
def index(slots, table, used):
    """Fills an empty hash table with the rows of a table that are in use: their first cell is not below 0."""
    for row in range(used):
        if table[row, 0] >= 0:
            slots[_slot_of(slots, table, np.int64(table[row, 0]), np.int64(table[row, 1]))] = row


@njit(cache=True, nogil=True)
def index_entries(slots, table, used):
    """The same for entries: those of roots themselves are found through their nodes."""
    for row in range(used):
        if table[row, ENTRY_ROOT] >= 0 and table[row, ENTRY_PARENT] != _NONE:
            slots[_slot_of(slots, table, np.int64(table[row, 0]), np.int64(table[row, 1]))] = row


@njit(cache=True, nogil=True)
def _key_hash(row, lead, id):
    h = mixed(np.uint64(0x9E3779B97F4A7C15), id)
    for c in range(lead):
        h = mixed(h, row[c])
    return np.int64(h >> np.uint64(1))


@njit(cache=True, nogil=True)
def index_nodes(slots, keys, nodes, used):
    """Fills an empty hash table with the nodes that are in use."""
    mask = slots.shape[0] - 1
    lead = keys.shape[1] - 1
    for node in range(used):
        if nodes[node, NODE_USES] >= 0:
            slot = _key_hash(keys[node], lead, keys[node, lead]) & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = node


@njit(cache=True, nogil=True)
def _node_of(slots, keys, nodes, marks, row, id):
    """The node of a term, in the event of a row; it is made where there is none."""
    mask = slots.shape[0] - 1
    lead = keys.shape[1] - 1
    slot = _key_hash(row, lead, id) & mask
    while slots[slot] >= 0:
        node = np.int64(slots[slot])
        same = keys[node, lead] == id
        for c in range(lead):
            same = same and keys[node, c] == row[c]
        if same:
            return node
        slot = (slot + 1) & mask
    node = marks[FREE_NODE]
    if node >= 0:
        marks[FREE_NODE] = nodes[node, NODE_OUT]
    else:
        node = marks[USED_NODES]
        marks[USED_NODES] += 1
    marks[LIVE_NODES] += 1
    slots[slot] = node
    for c in range(lead):
        keys[node, c] = row[c]
    keys[node, lead] = id
    for cell in (NODE_OUT, NODE_IN, NODE_ENTRIES, NODE_ROOT):
        nodes[node, cell] = -1
    nodes[node, NODE_USES] = 0
    nodes[node, NODE_ASKED] = 0
    return node


@njit(cache=True, nogil=True)
def _release_node(slots, keys, nodes, marks, node):
    """Frees a node that nothing uses."""
    if nodes[node, NODE_USES] != 0 or nodes[node, NODE_ROOT] >= 0:
        return
    mask = slots.shape[0] - 1
    lead = keys.shape[1] - 1
    hole = _key_hash(keys[node], lead, keys[node, lead]) & mask
    while slots[hole] != node:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    while slots[place] >= 0:
        other = slots[place]
        home = _key_hash(keys[other], lead, keys[other, lead]) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            slots[hole] = other
            hole = place
        place = (place + 1) & mask
    slots[hole] = -1
    nodes[node, NODE_USES] = -1
    nodes[node, NODE_OUT] = marks[FREE_NODE]
    marks[FREE_NODE] = node
    marks[LIVE_NODES] -= 1


@njit(cache=True, nogil=True)
def _count_edge(slots, edges, nodes, marks, u, v, weight):
    """Adds a weight to an edge, which is in the chains of its ends while its count is above 0; what became of it."""
    slot = _slot_of(slots, edges, u, v)
    edge = np.int64(slots[slot])
    if edge < 0:
        edge = marks[FREE_EDGE]
        if edge >= 0:
            marks[FREE_EDGE] = edges[edge, EDGE_TO]
        else:
            edge = marks[USED_EDGES]
            marks[USED_EDGES] += 1
        marks[LIVE_EDGES] += 1
        slots[slot] = edge
        edges[edge, EDGE_FROM] = u
        edges[edge, EDGE_TO] = v
        edges[edge, EDGE_COUNT] = edges[edge, EDGE_MORE] = 0
        nodes[u, NODE_USES] += 1
        nodes[v, NODE_USES] += 1
    before = np.int64(edges[edge, EDGE_MORE]) << 32 | np.int64(edges[edge, EDGE_COUNT]) & 0xFFFF_FFFF
    after = before + weight
    edges[edge, EDGE_COUNT] = np.int32(after & 0xFFFF_FFFF)
    edges[edge, EDGE_MORE] = np.int32(after >> 32)
    result = np.int64(_TOUCHED)
    if before <= 0 and after > 0:
        link(edges, nodes, edge, EDGE_FROM, NODE_OUT, EDGE_NEXT_OUT, EDGE_LAST_OUT)
        link(edges, nodes, edge, EDGE_TO, NODE_IN, EDGE_NEXT_IN, EDGE_LAST_IN)
        result = np.int64(_NEW_EDGE)
    elif before > 0 and after <= 0:
        unlink(edges, nodes, edge, EDGE_FROM, NODE_OUT, EDGE_NEXT_OUT, EDGE_LAST_OUT)
        unlink(edges, nodes, edge, EDGE_TO, NODE_IN, EDGE_NEXT_IN, EDGE_LAST_IN)
        result = np.int64(_GONE_EDGE)
    if after == 0:
        _forget(slots, edges, slot)
        nodes[u, NODE_USES] -= 1
        nodes[v, NODE_USES] -= 1
        edges[edge, EDGE_FROM] = -1
        edges[edge, EDGE_TO] = marks[FREE_EDGE]
        marks[FREE_EDGE] = edge
        marks[LIVE_EDGES] -= 1
    return result


@njit(cache=True, nogil=True)
def _ask(nodes, node, weight):
    """Adds a weight to how often a node is asked for as a root; what became of it."""
    before = np.int64(nodes[node, NODE_ASKED])
    after = before + weight
    nodes[node, NODE_ASKED] = after
    if before == 0 and after != 0:
        nodes[node, NODE_USES] += 1
    elif before != 0 and after == 0:
        nodes[node, NODE_USES] -= 1
    if before <= 0 and after > 0:
        return np.int64(_NEW_ROOT)
    if before > 0 and after <= 0:
        return np.int64(_GONE_ROOT)
    return np.int64(_TOUCHED)


@njit(cache=True, nogil=True)
def _has_room(entries, marks):
    return marks[FREE_ENTRY] >= 0 or marks[USED_ENTRIES] < entries.shape[0]


@njit(cache=True, nogil=True)
def _take_entry(entries, marks, root, node):
    """A free entry, for which there is room."""
    entry = marks[FREE_ENTRY]
    if entry >= 0:
        marks[FREE_ENTRY] = entries[entry, ENTRY_NODE]
    else:
        entry = marks[USED_ENTRIES]
        marks[USED_ENTRIES] += 1
    entries[entry, ENTRY_ROOT] = root
    entries[entry, ENTRY_NODE] = node
    entries[entry, ENTRY_PARENT] = _NONE
    entries[entry, ENTRY_CHILD] = -1
    return entry


@njit(cache=True, nogil=True)
def _free_entry(entries, marks, entry):
    entries[entry, ENTRY_ROOT] = -1
    entries[entry, ENTRY_NODE] = marks[FREE_ENTRY]
    marks[FREE_ENTRY] = entry


@njit(cache=True, nogil=True)
def _attach(entries, entry, parent):
    """Makes an entry a child of another one."""
    entries[entry, ENTRY_PARENT] = parent
    link(entries, entries, entry, ENTRY_PARENT, ENTRY_CHILD, ENTRY_NEXT, ENTRY_LAST)


@njit(cache=True, nogil=True)
def _detach(entries, entry):
    """Takes an entry from its parent."""
    unlink(entries, entries, entry, ENTRY_PARENT, ENTRY_CHILD, ENTRY_NEXT, ENTRY_LAST)
    entries[entry, ENTRY_PARENT] = _DETACHED


@njit(cache=True, nogil=True)
def _reach(slots, entries, nodes, marks, parent, node):
    """Makes the entry of a node that a parent's edge leads to, for which there is room; -1 where it is known."""
    root = np.int64(entries[parent, ENTRY_ROOT])
    slot = _slot_of(slots, entries, root, node)
    if slots[slot] >= 0:
        return np.int64(-1)
    entry = _take_entry(entries, marks, root, node)
    slots[slot] = entry
    _attach(entries, entry, parent)
    link(entries, nodes, entry, ENTRY_NODE, NODE_ENTRIES, ENTRY_AFTER, ENTRY_BEFORE)
    marks[PAIRS] += 1
    return entry


@njit(cache=True, nogil=True)
def _remove(slots, entries, nodes, marks, entry):
    """Removes a detached entry that has no children."""
    unlink(entries, nodes, entry, ENTRY_NODE, NODE_ENTRIES, ENTRY_AFTER, ENTRY_BEFORE)
    root, node = np.int64(entries[entry, ENTRY_ROOT]), np.int64(entries[entry, ENTRY_NODE])
    _forget(slots, entries, _slot_of(slots, entries, root, node))
    _free_entry(entries, marks, entry)
    marks[PAIRS] -= 1


@njit(cache=True, nogil=True)
def _emit(keys, entries, entry, definition, out_rows, written):
    """Writes the pair of an entry, if it is one that is reported; how many were written then."""
    lead = definition[LEAD]
    root, node = entries[entry, ENTRY_ROOT], entries[entry, ENTRY_NODE]
    if definition[TARGET_ID] != 0 and keys[node, lead] != definition[TARGET_ID]:
        return written
    for c in range(lead):
        out_rows[written, c] = keys[root, c]
    out_rows[written, lead] = keys[root, lead]
    out_rows[written, lead + 1] = keys[node, lead]
    return written + 1


@njit(cache=True, nogil=True)
def _grow(
    definition, marks, todo, keys, nodes, edges, entry_slots, entries, queue,
    time, out_times, out_weights, out_rows, written,
):  # fmt: skip
    """Follows the new edges and roots of an instant; answers what is lacking, and how many pairs were written."""
    room = out_times.shape[0]
    while True:
        # What was reached and has not been followed.
        while marks[HEAD] < marks[TAIL]:
            parent = np.int64(queue[marks[HEAD]])
            edge = marks[NEXT_EDGE]
            if edge == -2:
                edge = np.int64(nodes[entries[parent, ENTRY_NODE], NODE_OUT])
            while edge >= 0:
                node = np.int64(edges[edge, EDGE_TO])
                if definition[PROPER] == 0 or node != entries[parent, ENTRY_ROOT]:
                    if (
                        not _has_room(entries, marks)
                        or written == room
                        or marks[PAIRS] >= definition[MOST_PAIRS]
                    ):
                        slot = _slot_of(entry_slots, entries, np.int64(entries[parent, ENTRY_ROOT]), node)
                        if entry_slots[slot] < 0:
                            marks[NEXT_EDGE] = edge
                            if written == room:
                                return NEEDS_OUTPUT, written
                            return TOO_MANY if marks[PAIRS] >= definition[
                                MOST_PAIRS
                            ] else NEEDS_ENTRIES, written
                    else:
                        entry = _reach(entry_slots, entries, nodes, marks, parent, node)
                        if entry >= 0:
                            more = _emit(keys, entries, entry, definition, out_rows, written)
                            if more > written:
                                out_times[written] = time
                                out_weights[written] = 1
                                written = more
                            # From the root on, its own entry is followed.
                            if entries[entry, ENTRY_ROOT] != node:
                                queue[marks[TAIL]] = entry
                                marks[TAIL] += 1
                edge = np.int64(edges[edge, EDGE_NEXT_OUT])
            marks[HEAD] += 1
            marks[NEXT_EDGE] = -2
        marks[HEAD] = 0
        marks[TAIL] = 0
        # The next place from which something new is followed.
        if marks[CHANGE] == marks[END]:
            return DONE, written
        kind, u, v = (
            todo[marks[CHANGE], 0],
            np.int64(todo[marks[CHANGE], 1]),
            np.int64(todo[marks[CHANGE], 2]),
        )
        if kind == _NEW_EDGE and marks[CURSOR] == -2:
            if nodes[u, NODE_ROOT] < 0 and (
                definition[ROOTED] == EVERY_NODE
                or (definition[ROOTED] == ONE_NODE and keys[u, definition[LEAD]] == definition[ROOT_ID])
            ):
                if not _has_room(entries, marks):
                    return NEEDS_ENTRIES, written
                nodes[u, NODE_ROOT] = _take_entry(entries, marks, u, u)
                marks[ROOTS] += 1
            marks[CURSOR] = np.int64(nodes[u, NODE_ROOT])
            if marks[CURSOR] < 0:
                marks[CURSOR] = np.int64(nodes[u, NODE_ENTRIES])
        if kind == _NEW_EDGE and marks[CURSOR] >= 0:
            parent = marks[CURSOR]
            is_root = entries[parent, ENTRY_PARENT] == _NONE
            follow = is_root or entries[parent, ENTRY_ROOT] != u
            if follow and (definition[PROPER] == 0 or v != entries[parent, ENTRY_ROOT]):
                if not _has_room(entries, marks):
                    return NEEDS_ENTRIES, written
                if written == room:
                    return NEEDS_OUTPUT, written
                slot = _slot_of(entry_slots, entries, np.int64(entries[parent, ENTRY_ROOT]), v)
                if entry_slots[slot] < 0:
                    if marks[PAIRS] >= definition[MOST_PAIRS]:
                        return TOO_MANY, written
                    entry = _reach(entry_slots, entries, nodes, marks, parent, v)
                    more = _emit(keys, entries, entry, definition, out_rows, written)
                    if more > written:
                        out_times[written] = time
                        out_weights[written] = 1
                        written = more
                    if entries[entry, ENTRY_ROOT] != v:
                        queue[0] = entry
                        marks[TAIL] = 1
                        marks[NEXT_EDGE] = -2
            marks[CURSOR] = np.int64(nodes[u, NODE_ENTRIES] if is_root else entries[parent, ENTRY_AFTER])
            continue
        if kind == _NEW_ROOT:
            if not _has_room(entries, marks):
                return NEEDS_ENTRIES, written
            nodes[u, NODE_ROOT] = _take_entry(entries, marks, u, u)
            marks[ROOTS] += 1
            queue[0] = nodes[u, NODE_ROOT]
            marks[TAIL] = 1
            marks[NEXT_EDGE] = -2
        marks[CHANGE] += 1
        marks[CURSOR] = -2


@njit(cache=True, nogil=True)
def _detach_all(marks, todo, nodes, entries, queue):
    """Detaches what hangs on edges and roots that go: first the tops of subtrees, then all that is below them."""
    tail = np.int64(0)
    for k in range(marks[START], marks[END]):
        kind, u, v = todo[k, 0], np.int64(todo[k, 1]), np.int64(todo[k, 2])
        if kind == _GONE_EDGE:
            entry = np.int64(nodes[v, NODE_ENTRIES])
            while entry >= 0:
                parent = entries[entry, ENTRY_PARENT]
                if parent >= 0 and entries[parent, ENTRY_NODE] == u:
                    _detach(entries, entry)
                    queue[tail] = entry
                    tail += 1
                entry = np.int64(entries[entry, ENTRY_AFTER])
        elif kind == _GONE_ROOT:
            root = np.int64(nodes[u, NODE_ROOT])
            entry = np.int64(entries[root, ENTRY_CHILD])
            while entry >= 0:
                entries[entry, ENTRY_PARENT] = _DETACHED
                queue[tail] = entry
                tail += 1
                entry = np.int64(entries[entry, ENTRY_NEXT])
            _free_entry(entries, marks, root)
            marks[ROOTS] -= 1
            nodes[u, NODE_ROOT] = -1
    head = np.int64(0)
    while head < tail:
        top = queue[head]
        head += 1
        entry = np.int64(entries[top, ENTRY_CHILD])
        entries[top, ENTRY_CHILD] = -1
        while entry >= 0:
            entries[entry, ENTRY_PARENT] = _DETACHED
            queue[tail] = entry
            tail += 1
            entry = np.int64(entries[entry, ENTRY_NEXT])
    marks[HEAD] = 0
    marks[TAIL] = tail


@njit(cache=True, nogil=True)
def _attach_again(marks, nodes, edges, slots, entries, queue, found):
    """Attaches what another edge connects with the rest of its tree."""
    for k in range(marks[TAIL]):
        entry = np.int64(queue[k])
        if entries[entry, ENTRY_PARENT] != _DETACHED:
            continue
        root = np.int64(entries[entry, ENTRY_ROOT])
        edge = np.int64(nodes[entries[entry, ENTRY_NODE], NODE_IN])
        parent = np.int64(-1)
        while edge >= 0 and parent < 0:
            other = np.int64(edges[edge, EDGE_FROM])
            if other == root:
                parent = np.int64(nodes[root, NODE_ROOT])
            else:
                parent = np.int64(slots[_slot_of(slots, entries, root, other)])
                if parent >= 0 and entries[parent, ENTRY_PARENT] == _DETACHED:
                    parent = np.int64(-1)
            edge = np.int64(edges[edge, EDGE_NEXT_IN])
        if parent < 0:
            continue
        _attach(entries, entry, parent)
        found[0] = entry
        head, tail = np.int64(0), np.int64(1)
        while head < tail:
            parent = np.int64(found[head])
            head += 1
            if entries[parent, ENTRY_NODE] == root:
                continue
            edge = np.int64(nodes[entries[parent, ENTRY_NODE], NODE_OUT])
            while edge >= 0:
                other = np.int64(slots[_slot_of(slots, entries, root, np.int64(edges[edge, EDGE_TO]))])
                if other >= 0 and entries[other, ENTRY_PARENT] == _DETACHED:
                    _attach(entries, other, parent)
                    found[tail] = other
                    tail += 1
                edge = np.int64(edges[edge, EDGE_NEXT_OUT])


@njit(cache=True, nogil=True)
def step(
    times, weights, inputs, rows, definition, marks, todo,
    node_slots, keys, nodes, edge_slots, edges, entry_slots, entries, queue, found,
    out_times, out_weights, out_rows,
):  # fmt: skip
    """Takes changes of edges (input 0: the event's cells, two terms) and of roots (input 1: one term), in time order.

    Answers what is lacking, and how many changes of pairs were written. There is room for all nodes and edges. To
    begin, all marks from PHASE on are 0.
    """
    written = np.int64(0)
    room = out_times.shape[0]
    lead = definition[LEAD]
    count = times.shape[0]
    while True:
        if marks[PHASE] == _APPLY:
            if marks[END] == count:
                return DONE, written
            start = marks[END]
            end = start
            while end < count and times[end] == times[start]:
                row = rows[end]
                u = _node_of(node_slots, keys, nodes, marks, row, row[lead])
                v = u
                if inputs[end] == 0:
                    v = _node_of(node_slots, keys, nodes, marks, row, row[lead + 1])
                    todo[end, 0] = _count_edge(edge_slots, edges, nodes, marks, u, v, weights[end])
                else:
                    todo[end, 0] = _ask(nodes, u, weights[end])
                todo[end, 1] = u
                todo[end, 2] = v
                end += 1
            marks[START], marks[END], marks[CHANGE], marks[CURSOR] = start, end, start, -2
            marks[HEAD], marks[TAIL], marks[NEXT_EDGE] = 0, 0, -2
            marks[PHASE] = _GROW
        if marks[PHASE] == _GROW:
            lacking, written = _grow(
                definition, marks, todo, keys, nodes, edges, entry_slots, entries, queue,
                times[marks[START]], out_times, out_weights, out_rows, written,
            )  # fmt: skip
            if lacking != DONE:
                return lacking, written
            marks[PHASE] = _DETACH
        if marks[PHASE] == _DETACH:
            _detach_all(marks, todo, nodes, entries, queue)
            _attach_again(marks, nodes, edges, entry_slots, entries, queue, found)
            marks[PHASE] = _REMOVE
        while marks[HEAD] < marks[TAIL]:
            entry = np.int64(queue[marks[HEAD]])
            if entries[entry, ENTRY_PARENT] == _DETACHED:
                if written == room:
                    return NEEDS_OUTPUT, written
                more = _emit(keys, entries, entry, definition, out_rows, written)
                if more > written:
                    out_times[written] = times[marks[START]]
                    out_weights[written] = -1
                    written = more
                _remove(entry_slots, entries, nodes, marks, entry)
            marks[HEAD] += 1
        for k in range(marks[START], marks[END]):
            for end in range(1, 3):
                node = np.int64(todo[k, end])
                if (
                    definition[ROOTED] != ASKED_NODES
                    and nodes[node, NODE_ROOT] >= 0
                    and nodes[node, NODE_OUT] < 0
                ):
                    _free_entry(entries, marks, np.int64(nodes[node, NODE_ROOT]))
                    marks[ROOTS] -= 1
                    nodes[node, NODE_ROOT] = -1
                _release_node(node_slots, keys, nodes, marks, node)
        marks[PHASE] = _APPLY
