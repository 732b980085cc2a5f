"""Ordered multisets of rows: treaps in one table of nodes, with log cost to add and to take away.

A node is a row of cells: children, priority, count, then the sort key and the row; in a tree with ranks, the last cell
is the total of the counts from the node down. The key has four cells for each condition: the class of the term, two
numbers, and the term's id. The row begins at a cell of the key, or behind it. The law: rows are in the order of the
conditions, by class, then by number, and where the class goes by text, by content; rows that are equal by all
conditions are in the order of the N-Triples texts of their cells. That order is total.

Priorities are random, so that a tree of n nodes is about 2 log n deep whatever the order of arrival (Seidel and Aragon
1996). Inner functions take addresses, since Numba counts the references to arrays.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.arena import RECORD, find
from thalweg.kernels.bits import load8, load_half, load_word
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import mixed
from thalweg.kernels.memory import load64, store64

LEFT, RIGHT, PRIORITY, COUNT, KEY = range(5)
CONDITION = 4
"""Cells of a condition: class, number, rest of the number, id."""
USED, FREE, SPARE, WHERE, HEAD = range(5)
"""Cells of the head of a table: nodes that were ever used, the first free one, how many are free, and where the last
row was added."""
FIRST, LAST, GONE = 1, 2, 4
"""Bits of `WHERE`: the row is the first one of its tree, the last one, was taken away with its last copy."""
DEEPEST = 1024
"""Room for a path: a hundred times the depth that a treap of any size has."""

_UNBOUND, _BLANK, _IRI, _NUMBER, _STRING, _LANG, _BOOLEAN, _DATE_TIME, _DATE, _TIME, _DURATION, _OTHER = (
    range(12)
)
CLASSES = {
    "unbound": _UNBOUND,
    "blank": _BLANK,
    "iri": _IRI,
    "number": _NUMBER,
    "string": _STRING,
    "lang": _LANG,
    "boolean": _BOOLEAN,
    "dateTime": _DATE_TIME,
    "date": _DATE,
    "time": _TIME,
    "duration": _DURATION,
    "other": _OTHER,
}
"""Classes of terms in their order."""
BY_TEXT = 1 << _BLANK | 1 << _IRI | 1 << _STRING | 1 << _LANG | 1 << _OTHER
_LESS, _QUOTE, _BACKSLASH = 60, 34, 92


@njit(cache=True, nogil=True)
def _raw(a, a_size, b, b_size):
    """-1, 0 or 1: the order of two texts by their bytes."""
    size = min(a_size, b_size)
    k = np.int64(0)
    while k + 8 <= size and load_word(a + k) == load_word(b + k):
        k += 8
    while k < size:
        x, y = load8(a + k), load8(b + k)
        if x != y:
            return -1 if x < y else 1
        k += 1
    return np.int64(a_size > b_size) - np.int64(a_size < b_size)


@njit(cache=True, nogil=True)
def _decoded(at):
    """The byte that is written at an address of a literal, and how many bytes it is written with."""
    char = np.int64(load8(at))
    if char != _BACKSLASH:
        return char, 1
    char = np.int64(load8(at + 1))
    if char == 110:
        return np.int64(10), 2
    if char == 114:
        return np.int64(13), 2
    if char == 116:
        return np.int64(9), 2
    if char == 98:
        return np.int64(8), 2
    if char == 102:
        return np.int64(12), 2
    if char == 117:  # only control characters are written so
        value = np.int64(0)
        for k in range(2, 6):
            digit = np.int64(load8(at + k))
            value = value * 16 + (digit - 48 if digit < 58 else (digit | 32) - 87)
        return value, 6
    return char, 2


@njit(cache=True, nogil=True)
def _content(a, a_size, b, b_size):
    """The order of two terms of one class by what they say: IRI, label or lexical form, then the rest."""
    first = load8(a)
    if first != _QUOTE:
        last = np.int64(1) if first == _LESS else np.int64(0)
        return _raw(a, a_size - last, b, b_size - last)
    a_end, b_end = a_size - 1, b_size - 1
    while load8(a + a_end) != _QUOTE:
        a_end -= 1
    while load8(b + b_end) != _QUOTE:
        b_end -= 1
    i = j = np.int64(1)
    while i < a_end and j < b_end:
        x, more = _decoded(a + i)
        y, others = _decoded(b + j)
        if x != y:
            return -1 if x < y else 1
        i += more
        j += others
    if i < a_end or j < b_end:
        return 1 if i < a_end else -1
    return _raw(a + a_end, a_size - a_end, b + b_end, b_size - b_end)


@njit(cache=True, nogil=True)
def _texts(a, b, whole, slots_at, last, log_at):
    """The order of two different terms by text: of the whole N-Triples text, or by content first."""
    if a == 0 or b == 0:
        return -1 if a == 0 else 1
    one = log_at + find(slots_at, last, a)
    other = log_at + find(slots_at, last, b)
    a_size, b_size = np.int64(load_half(one + 8)), np.int64(load_half(other + 8))
    if whole:
        return _raw(one + RECORD, a_size, other + RECORD, b_size)
    return _content(one + RECORD, a_size, other + RECORD, b_size)


@njit(cache=True, nogil=True)
def compare(a, b, conditions, descending, row, width, slots_at, last, log_at):
    """-1, 0 or 1: the order of the keys and rows at two addresses; `descending` has a bit for each condition, and `row`
    is the cell at which rows begin.
    """
    for c in range(conditions):
        base = CONDITION * c
        found = np.int64(0)
        for k in range(3):
            x, y = load64(a, base + k), load64(b, base + k)
            if x != y:
                found = np.int64(-1) if x < y else np.int64(1)
                break
        if found == 0:
            x, y = load64(a, base + 3), load64(b, base + 3)
            if x != y and (BY_TEXT >> load64(a, base)) & 1:
                found = _texts(x, y, False, slots_at, last, log_at)
        if found != 0:
            return -found if (descending >> c) & 1 else found
    for r in range(row, row + width):
        x, y = load64(a, r), load64(b, r)
        if x != y:
            return _texts(x, y, True, slots_at, last, log_at)
    return np.int64(0)


@njit(cache=True, nogil=True)
def _cell(nodes, cells, node, place):
    return load64(nodes, node * cells + place)


@njit(cache=True, nogil=True)
def _total(nodes, cells, node):
    return np.int64(0) if node < 0 else load64(nodes, node * cells + cells - 1)


@njit(cache=True, nogil=True)
def _set_total(nodes, cells, node, total):
    store64(nodes, node * cells + cells - 1, total)


@njit(cache=True, nogil=True)
def _retotal(nodes, cells, node):
    left, right = _cell(nodes, cells, node, LEFT), _cell(nodes, cells, node, RIGHT)
    total = _cell(nodes, cells, node, COUNT) + _total(nodes, cells, left) + _total(nodes, cells, right)
    _set_total(nodes, cells, node, total)


@njit(cache=True, nogil=True)
def _new(nodes, cells, head, probe, key_cells, weight, ranked):
    """A node for a key and row; there must be room."""
    node = load64(head, FREE)
    if node >= 0:
        store64(head, FREE, _cell(nodes, cells, node, LEFT))
        store64(head, SPARE, load64(head, SPARE) - 1)
    else:
        node = load64(head, USED)
        store64(head, USED, node + 1)
    at = node * cells
    store64(nodes, at + LEFT, np.int64(-1))
    store64(nodes, at + RIGHT, np.int64(-1))
    random = mixed(mixed(np.uint64(0x9E3779B97F4A7C15), node), load64(probe, key_cells - 1))
    store64(nodes, at + PRIORITY, np.int64(random >> np.uint64(1)))
    store64(nodes, at + COUNT, weight)
    for c in range(cells - KEY):
        store64(nodes, at + KEY + c, load64(probe, c) if c < key_cells else np.int64(0))
    if ranked:
        _set_total(nodes, cells, node, weight)
    return node


@njit(cache=True, nogil=True)
def _link(nodes, cells, path, depth, root, node):
    """Puts a node where a path of that depth ends; answers the root."""
    if depth == 0:
        return node
    step = load64(path, depth - 1)
    store64(nodes, (step >> 1) * cells + (step & 1), node)
    return root


@njit(cache=True, nogil=True)
def _remove(nodes, cells, head, path, depth, root, node, ranked):
    """Takes a node without copies out of its tree: its children are merged in its place."""
    left, right = _cell(nodes, cells, node, LEFT), _cell(nodes, cells, node, RIGHT)
    while left >= 0 and right >= 0:
        if _cell(nodes, cells, left, PRIORITY) >= _cell(nodes, cells, right, PRIORITY):
            if ranked:
                _set_total(nodes, cells, left, _total(nodes, cells, left) + _total(nodes, cells, right))
            root = _link(nodes, cells, path, depth, root, left)
            store64(path, depth, 2 * left + RIGHT)
            left = _cell(nodes, cells, left, RIGHT)
        else:
            if ranked:
                _set_total(nodes, cells, right, _total(nodes, cells, left) + _total(nodes, cells, right))
            root = _link(nodes, cells, path, depth, root, right)
            store64(path, depth, 2 * right + LEFT)
            right = _cell(nodes, cells, right, LEFT)
        depth += 1
    root = _link(nodes, cells, path, depth, root, left if left >= 0 else right)
    store64(nodes, node * cells + LEFT, load64(head, FREE))
    store64(head, FREE, node)
    store64(head, SPARE, load64(head, SPARE) + 1)
    return root


@njit(cache=True, nogil=True)
def add(
    nodes, cells, head, path, root, probe, weight, conditions, descending, row, width, ranked,
    slots_at, last, log_at,
):  # fmt: skip
    """Adds a weight to the copies of the row at an address; answers the root of the tree. The head gets `WHERE`."""
    depth = np.int64(0)
    node = root
    where = np.int64(FIRST | LAST)
    while node >= 0:
        order = compare(
            probe,
            nodes + 8 * (node * cells + KEY),
            conditions,
            descending,
            row,
            width,
            slots_at,
            last,
            log_at,
        )
        if order == 0:
            break
        side = RIGHT if order > 0 else LEFT
        where &= LAST if order > 0 else FIRST
        store64(path, depth, 2 * node + side)
        depth += 1
        node = _cell(nodes, cells, node, side)
    if ranked:
        for d in range(depth):
            above = load64(path, d) >> 1
            _set_total(nodes, cells, above, _total(nodes, cells, above) + weight)
    if node >= 0:
        count = _cell(nodes, cells, node, COUNT) + weight
        store64(nodes, node * cells + COUNT, count)
        if ranked:
            _set_total(nodes, cells, node, _total(nodes, cells, node) + weight)
        if _cell(nodes, cells, node, LEFT) >= 0:
            where &= ~FIRST
        if _cell(nodes, cells, node, RIGHT) >= 0:
            where &= ~LAST
        if count == 0:
            where |= GONE
            root = _remove(nodes, cells, head, path, depth, root, node, ranked)
        store64(head, WHERE, where)
        return root
    store64(head, WHERE, where)
    node = _new(nodes, cells, head, probe, row + width, weight, ranked)
    while depth > 0:
        step = load64(path, depth - 1)
        parent, side = step >> 1, step & 1
        if _cell(nodes, cells, parent, PRIORITY) >= _cell(nodes, cells, node, PRIORITY):
            store64(nodes, parent * cells + side, node)
            return root
        other = RIGHT if side == LEFT else LEFT
        store64(nodes, parent * cells + side, _cell(nodes, cells, node, other))
        store64(nodes, node * cells + other, parent)
        if ranked:
            _retotal(nodes, cells, parent)
            _retotal(nodes, cells, node)
        depth -= 1
    return node


@njit(cache=True, nogil=True)
def outermost(nodes, cells, root, side):
    """The first (`LEFT`) or last (`RIGHT`) node of a tree; -1 of an empty one."""
    node = root
    while node >= 0:
        below = _cell(nodes, cells, node, side)
        if below < 0:
            break
        node = below
    return node


@njit(cache=True, nogil=True)
def in_order(nodes, cells, root, path, places):
    """Writes the nodes of a tree in their order; answers how many there are."""
    depth = written = np.int64(0)
    nodes_at, path_at = np.int64(nodes.ctypes.data), np.int64(path.ctypes.data)
    node = root
    while node >= 0 or depth > 0:
        while node >= 0:
            store64(path_at, depth, node)
            depth += 1
            node = _cell(nodes_at, cells, node, LEFT)
        depth -= 1
        node = load64(path_at, depth)
        places[written] = node
        written += 1
        node = _cell(nodes_at, cells, node, RIGHT)
    return written


@njit(cache=True, nogil=True)
def _rank(nodes, cells, root, probe, conditions, descending, width, slots_at, last, log_at):
    """How many rows of a tree come before the row at an address."""
    before = np.int64(0)
    node = root
    while node >= 0:
        order = compare(
            probe,
            nodes + 8 * (node * cells + KEY),
            conditions,
            descending,
            CONDITION * conditions,
            width,
            slots_at,
            last,
            log_at,
        )
        left = _cell(nodes, cells, node, LEFT)
        if order <= 0:
            if order == 0:
                return before + _total(nodes, cells, left)
            node = left
        else:
            before += _total(nodes, cells, left) + _cell(nodes, cells, node, COUNT)
            node = _cell(nodes, cells, node, RIGHT)
    return before


@njit(cache=True, nogil=True)
def _select(nodes, cells, root, rank):
    """The node of the row of a rank, which the tree has."""
    node = root
    while True:
        left = _cell(nodes, cells, node, LEFT)
        below = _total(nodes, cells, left)
        if rank < below:
            node = left
            continue
        rank -= below
        count = _cell(nodes, cells, node, COUNT)
        if rank < count:
            return node
        rank -= count
        node = _cell(nodes, cells, node, RIGHT)


@njit(cache=True, nogil=True)
def step(
    times, weights, probes, root, conditions, descending, width, low, high,
    nodes, head, path, arena_slots, arena_log, out_times, out_weights, out_rows, start, left_out, least,
):  # fmt: skip
    """Takes changes of rows from `start` on; writes what enters and leaves the ranks from `low` to below `high`.

    The law: the rows with these ranks, before and after each copy of a row, differ by what is written. Changes that are
    `left_out` are not taken. Answers where it stopped, the root, and how many rows were written. It stops for want of
    room in the output, and before a change that leaves less than `least` rows. There must be room for the nodes.
    """
    nodes_at, cells = np.int64(nodes.ctypes.data), np.int64(nodes.shape[1])
    head_at, path_at = np.int64(head.ctypes.data), np.int64(path.ctypes.data)
    probes_at, size = np.int64(probes.ctypes.data), np.int64(probes.shape[1])
    texts_at, last = np.int64(arena_slots.ctypes.data), np.int64(arena_slots.size // 2 - 1)
    log_at = np.int64(arena_log.ctypes.data)
    first = KEY + CONDITION * conditions
    written = np.int64(0)
    room = np.int64(out_times.size)
    for k in range(start, times.size):
        if left_out[k]:
            continue
        probe = probes_at + 8 * k * size
        weight = np.int64(weights[k])
        if weight < 0 and _total(nodes_at, cells, root) + weight < least:
            return k, root, written
        sign = np.int64(1) if weight > 0 else np.int64(-1)
        if written + 2 * abs(weight) > room and written > 0:
            return k, root, written
        rank = np.int64(high)
        inside = high > low
        if inside and _total(nodes_at, cells, root) >= high:
            # Most rows come behind the range: one comparison with its last row tells them.
            bound = nodes_at + 8 * (_select(nodes_at, cells, root, high - 1) * cells + KEY)
            row = CONDITION * conditions
            inside = compare(probe, bound, conditions, descending, row, width, texts_at, last, log_at) <= 0
        if inside:
            rank = _rank(nodes_at, cells, root, probe, conditions, descending, width, texts_at, last, log_at)
        if rank >= high:
            root = add(
                nodes_at, cells, head_at, path_at, root, probe, weight, conditions, descending,
                CONDITION * conditions, width, True, texts_at, last, log_at,
            )  # fmt: skip
            continue
        for _ in range(abs(weight)):
            total = _total(nodes_at, cells, root)
            # The row that moves over the upper end, and the one that moves over the lower end, or is there itself.
            over = np.int64(-1)
            if sign > 0 and total >= high:
                over = _select(nodes_at, cells, root, high - 1)
            elif sign < 0 and total > high:
                over = _select(nodes_at, cells, root, high)
            under = np.int64(-1)
            if rank < low:
                if sign > 0 and total >= low:
                    under = _select(nodes_at, cells, root, low - 1)
                elif sign < 0 and total > low:
                    under = _select(nodes_at, cells, root, low)
            for which in range(2):
                node = over if which == 0 else under
                if node < 0 and (which == 0 or rank < low):
                    continue
                out_times[written] = times[k]
                out_weights[written] = -sign if which == 0 else sign
                for c in range(width):
                    if node >= 0:
                        out_rows[written, c] = load64(nodes_at, node * cells + first + c)
                    else:
                        out_rows[written, c] = load64(probe, CONDITION * conditions + c)
                written += 1
            root = add(
                nodes_at, cells, head_at, path_at, root, probe, sign, conditions, descending,
                CONDITION * conditions, width, True, texts_at, last, log_at,
            )  # fmt: skip
    return np.int64(times.size), root, written
