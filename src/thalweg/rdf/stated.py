"""Events as formats state them: rows and what is known of their events, put together to a chunk of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME, SAME_TIME, Chunk, Reject

SHOWN = 500
"""Characters of a refused text that are kept."""
OPS = {None: 1, "insert": 1, "+": 1, "delete": -1, "-": -1}
"""The ops of events by their names; one that is not named inserts."""


@dataclass(frozen=True)
class Stated:
    """What is known of events, one entry each, in order."""

    times: Ids
    ops: Ids
    statements: Ids
    """How many statements each has, kept or not."""

    def __len__(self) -> int:
        return len(self.times)


def event_chunk(
    rows: Chunk,
    event: Ids,
    stated: Stated,
    *,
    lines: int = 0,
    rejects: Sequence[Reject] = (),
    left_out: int = 0,
) -> Chunk:
    """A chunk of events: each row with the event whose number `event` has, and each event with at least one row."""
    kept = np.flatnonzero((rows.s != 0) & (rows.p != 0))
    filled = np.zeros(len(stated), np.bool_)
    filled[event[kept]] = True
    bare = np.flatnonzero(~filled)
    number = np.concatenate([event[kept], bare])
    blank = np.zeros(bare.size, np.int64)
    g, s, p, o = (np.concatenate([column[kept], blank]) for column in (rows.g, rows.s, rows.p, rows.o))
    if bare.size or not (number[1:] >= number[:-1]).all():
        order = np.argsort(number, kind="stable")
        number, g, s, p, o = (column[order] for column in (number, g, s, p, o))
    # An event without any triple, wanted or not, counts in no window: it has no op.
    ops = np.where(stated.statements != 0, stated.ops, 0)
    return Chunk(
        statements=rows.statements,
        lines=lines,
        number=number,
        g=one_graph(g, s, number),
        s=s,
        p=p,
        o=o,
        time=stated.times[number],
        bnodes=rows.bnodes,
        rejects=tuple(rejects),
        source=rows.source,
        blanks=rows.blanks,
        left_out=left_out,
        op=ops[number],
    )


def updates(unit: Ids, op: Ids, units: int) -> tuple[Ids, Ids, Ids]:
    """The events of units of changes: one that deletes, then one that inserts, as far as a unit has such statements.

    `unit` and `op` are those of each statement. Gives the event of each statement, and the unit and op of each event; a
    unit without statements is one event.

    >>> [column.tolist() for column in updates(np.array([0, 0, 2]), np.array([1, -1, 1]), 3)]
    [[1, 0, 3], [0, 0, 1, 2], [-1, 1, 1, 1]]
    """
    deletes = np.zeros(units, np.bool_)
    deletes[unit[op < 0]] = True
    inserts = ~deletes
    inserts[unit[op > 0]] = True
    first = np.concatenate([[0], np.cumsum(deletes.astype(np.int64) + inserts)])
    event = first[unit] + (deletes[unit] & (op > 0))
    owner = np.repeat(np.arange(units), np.diff(first))
    ops = np.ones(int(first[-1]), np.int64)
    ops[first[:-1][deletes]] = -1
    return event, owner, ops


def joined_times(owner: Ids, times: Ids) -> Ids:
    """The times of events by those of their units: an insert after a delete of its unit has the same."""
    stated = times[owner]
    stated[1:][owner[1:] == owner[:-1]] = SAME_TIME
    return stated


def last_of_each(rows: Chunk, unit: Ids, op: Ids) -> Ids:
    """The rows that count: where a unit inserts and deletes one triple, the last row of it.

    At one instant deletes come before inserts, and changes in sequence do not.
    """
    deleting, inserting = np.unique(unit[op < 0]), np.unique(unit[op > 0])
    both = np.intersect1d(deleting, inserting, assume_unique=True)
    if not both.size:
        return np.arange(len(rows))
    inside = np.flatnonzero(np.isin(unit, both))
    keys = [column[inside] for column in (rows.o, rows.p, rows.s, unit)]
    order = np.lexsort(keys)
    same = np.ones(max(order.size - 1, 0), np.bool_)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    counts = np.ones(len(rows), np.bool_)
    counts[inside[order[:-1][same]]] = False
    return np.flatnonzero(counts)


def at_one_time(chunk: Chunk, time: int) -> tuple[Chunk, int]:
    """A chunk of events in which those without a time are one update at a given one; where there is none, they go.

    Gives the number of those that went, too.
    """
    first = changes(chunk.number)
    stated = chunk.time[first]
    leader = np.maximum.accumulate(np.where(stated != SAME_TIME, np.arange(stated.size), 0))
    bare = stated[leader] == NO_TIME
    if not bare.any():
        return chunk, 0
    place = np.cumsum(first) - 1
    others = np.flatnonzero(~bare[place])
    number = (np.cumsum(~bare) - 1)[place]
    if time == NO_TIME:
        return replace(chunk.picked(others), number=number[others]), int(np.count_nonzero(stated == NO_TIME))
    mine = np.flatnonzero(bare[place])
    update = chunk.picked(mine)
    counted = mine[last_of_each(update, np.zeros(mine.size, np.int64), update.op)]
    deletes = bool((update.op < 0).any())
    ops = [op for op, there in ((-1, deletes), (1, bool((update.op > 0).any()))) if there] or [0]
    rows = np.concatenate([others, counted])
    base = int(np.count_nonzero(~bare))
    number[mine] = base + (deletes & (chunk.op[mine] > 0))
    timed = Stated(
        np.concatenate([stated[~bare], np.full(len(ops), time)]),
        np.concatenate([chunk.op[first][~bare], ops]),
        np.ones(base + len(ops), np.int64),
    )
    made = event_chunk(
        chunk.picked(rows), number[rows], timed, rejects=chunk.rejects, left_out=chunk.left_out
    )
    return made, 0


def one_graph(g: Ids, s: Ids, number: Ids) -> Ids:
    """The graph of each event, where all of its triples are in one."""
    if not g.size:
        return g
    first = np.flatnonzero(changes(number))
    least = np.minimum.reduceat(np.where(s != 0, g, np.iinfo(np.int64).max), first)
    most = np.maximum.reduceat(np.where(s != 0, g, np.iinfo(np.int64).min), first)
    place = np.cumsum(changes(number)) - 1
    return np.where(least == most, least, 0)[place]


def changes(column: Ids) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first one does."""
    return np.concatenate([np.ones(min(column.size, 1), np.bool_), column[1:] != column[:-1]])


def shown(text: bytes | memoryview) -> str:
    """How a refused text begins."""
    return bytes(text[: 4 * SHOWN]).decode("utf-8", "replace")[:SHOWN]
