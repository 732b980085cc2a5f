"""Named graphs to timed events: which event a row belongs to, and when the time of an event is known.

The law: an event is a maximal run of quads with one graph name (statements of the default graph do not end
it). Its time is the last one that the default graph states of its graph before the run ends; where none was stated,
the first one that a quad of the run states, of whatever subject; else the first one that the default graph states
later. An event that still has no time when LIMIT later events have begun is refused. All this depends on the order of
rows only, never on how they are cut into chunks.
"""

from __future__ import annotations

from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import mix
from thalweg.kernels.times import NO_TIME

# Places in `control`: events begun, graph of the open one, number of the queue's first event, entries of the
# table, timestamps seen.
BEGUN, OPEN, FIRST, ENTRIES, STAMP = 0, 1, 2, 3, 4

# Columns of the queue, one row an event; states of an event.
GRAPH, TIME, CHAIN, STATE = 0, 1, 2, 3
WAITS, TIMED, REFUSED = 0, 1, 2

LIMIT = 1024
"""Later events that an untimed one waits for, and timestamps that are remembered at least."""

SLOTS = 8192
"""Rows of the table of graphs (graph, time, last waiting event + 1, stamp); graph 0 = free."""


@njit(cache=True, nogil=True)
def _slot(table, graph):
    i = mix(graph, 1) & (SLOTS - 1)
    while table[i, 0] != 0 and table[i, 0] != graph:
        i = (i + 1) & (SLOTS - 1)
    return i


@njit(cache=True, nogil=True)
def _copy(source, row, target, place):
    for k in range(4):
        target[place, k] = source[row, k]


@njit(cache=True, nogil=True)
def _entry(table, spare, control, graph):
    """Row of a graph in the table; a new one is made if there is none, and old ones are forgotten for it."""
    i = _slot(table, graph)
    if table[i, 0] == graph:
        return i
    if control[ENTRIES] >= SLOTS // 2:
        for k in range(SLOTS):
            _copy(table, k, spare, k)
            table[k, 0] = 0
        control[ENTRIES] = 0
        for k in range(SLOTS):
            recent = spare[k, 3] > control[STAMP] - LIMIT
            awaited = spare[k, 2] > control[BEGUN] - LIMIT - 1
            if spare[k, 0] != 0 and (recent or awaited):
                _copy(spare, k, table, _slot(table, spare[k, 0]))
                control[ENTRIES] += 1
        i = _slot(table, graph)
    table[i, 0] = graph
    table[i, 1] = NO_TIME
    table[i, 2] = 0
    table[i, 3] = -LIMIT
    control[ENTRIES] += 1
    return i


@njit(cache=True, nogil=True)
def enter_all(table, entries):
    """Enter rows into an empty table."""
    for k in range(entries.shape[0]):
        _copy(entries, k, table, _slot(table, entries[k, 0]))


@njit(cache=True, nogil=True)
def end_run(table, spare, control, queue):
    """End the open event: it takes the time that its graph has, or waits for one."""
    if control[OPEN] == 0:
        return
    event = control[BEGUN] - 1
    row = event - control[FIRST]
    i = _entry(table, spare, control, control[OPEN])
    if table[i, 1] != NO_TIME:
        queue[row, TIME] = table[i, 1]
    if queue[row, TIME] != NO_TIME:
        queue[row, STATE] = TIMED
    else:
        queue[row, CHAIN] = table[i, 2]
        table[i, 2] = event + 1
    control[OPEN] = 0


@njit(cache=True, nogil=True)
def _set_time(table, spare, control, queue, graph, time):
    i = _entry(table, spare, control, graph)
    control[STAMP] += 1
    table[i, 1] = time
    table[i, 3] = control[STAMP]
    waiting = table[i, 2] - 1
    table[i, 2] = 0
    while waiting >= control[FIRST]:
        row = waiting - control[FIRST]
        if queue[row, STATE] == WAITS:
            queue[row, TIME] = time
            queue[row, STATE] = TIMED
        waiting = queue[row, CHAIN] - 1


@njit(cache=True, nogil=True)
def number_rows(g, s, time, table, spare, control, queue, event):
    """Write the event of each row to `event` (-1 for the default graph), and keep queue and table up to date.

    The queue must have room for one more event a row; `spare` is another array like the table.
    """
    for k in range(g.size):
        event[k] = -1
        if g[k] == 0:
            if time[k] != NO_TIME:
                _set_time(table, spare, control, queue, s[k], time[k])
            continue
        if g[k] != control[OPEN]:
            end_run(table, spare, control, queue)
            row = control[BEGUN] - control[FIRST]
            queue[row, GRAPH] = g[k]
            queue[row, TIME] = NO_TIME
            queue[row, CHAIN] = 0
            queue[row, STATE] = WAITS
            control[OPEN] = g[k]
            control[BEGUN] += 1
            late = row - LIMIT
            if late >= 0 and queue[late, STATE] == WAITS:
                queue[late, STATE] = REFUSED
        event[k] = control[BEGUN] - 1
        row = event[k] - control[FIRST]
        if time[k] != NO_TIME and queue[row, TIME] == NO_TIME:
            queue[row, TIME] = time[k]


@njit(cache=True, nogil=True)
def scopes_of(base, event, scopes):
    """The blank node scope of each row: its stream and its event."""
    for k in range(event.size):
        scopes[k] = mix(base, event[k])
