"""The rows of a log's records: as facts, as the states that they end in, and as the content at an instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.events import Rows
from thalweg.store.facts import Facts
from thalweg.store.log import Head, Log, Record

GROUP = 1 << 18
"""Rows of a record that a compaction writes."""
LAST = 1 << 62
"""A time after all others."""


def facts_of(log: Log, records: Sequence[Record], arena: Arena) -> Facts:
    """The rows of records, with ids of an arena."""
    parts = []
    for record in records:
        chunk = Chunk.unpack(log.body(record), arena)
        none = np.zeros(len(chunk), np.int64)
        rows = Rows(chunk.time, chunk.number, none, chunk.s, chunk.p, chunk.o, chunk.op)
        parts.append(Facts.of(arena.intern(f"<{record.head.stream}>".encode()), rows))
    return Facts.concat(parts)


def groups_of_rows(records: Sequence[Record], begin: int, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of records from a place on, each of about so many rows."""
    while begin < len(records):
        end, rows = begin, 0
        while end < len(records) and rows < most:
            rows += records[end].head.rows
            end += 1
        yield begin, end
        begin = end


def states_of(log: Log, begin: int, end: int, arena: Arena) -> Facts:
    """The states in which some records leave their triples, after all records before them.

    While times ascend, the latest row of a triple decides. For a row that is older than the clock, records whose times
    overlap it are read again.
    """
    records = log.records
    facts = facts_of(log, records[begin:end], arena)
    if not len(facts):
        return facts
    clock = max((record.head.last for record in records[:begin] if record.head.rows), default=-LAST)
    doubtful = (facts.time < clock) | ((facts.time == clock) & (facts.op < 0))
    is_doubtful = bool(doubtful.any())
    if is_doubtful:
        asked = facts[doubtful]
        low = int(asked.time.min())
        overlapping = [r for r in records[:begin] if r.head.rows and r.head.last >= low]
        before = facts_of(log, overlapping, arena)
        same = (before.time >= low) & np.isin(before.s, asked.s) & np.isin(before.o, asked.o)
        facts = Facts.concat([before[same], facts])
    return facts.latest() if is_doubtful or (facts.op < 0).any() else facts


def content_at(log: Log, start: int | None, end: int, arena: Arena) -> Facts:
    """The triples that are there at an instant, of what came after `start`."""
    records = [
        record
        for record in log.records
        if record.head.rows and record.head.first <= end and (start is None or record.head.last > start)
    ]
    return facts_of(log, records, arena).content(start, end)


def write_compacted(log: Log, merged: Log, cut: int | None) -> None:
    """Write the records of a log to another one, merged into few; with `cut`, without the history up to it."""
    for stream, group in _groups(log.records, whole=cut is not None):
        arena = Arena()
        facts = facts_of(log, group, arena)
        if cut is not None:
            facts = _without_history(facts, cut)
        _write(merged, stream, facts, sum(record.head.events for record in group), arena)


def _groups(records: Sequence[Record], *, whole: bool) -> Iterator[tuple[str, list[Record]]]:
    """Records of one stream that become one: all of them, or up to so many rows."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if not record.head.rows:
            continue
        group = groups.setdefault(record.head.stream, [])
        if not whole and sum(one.head.rows for one in group) >= GROUP:
            yield record.head.stream, list(group)
            group.clear()
        group.append(record)
    for stream, group in groups.items():
        if group:
            yield stream, group


def _without_history(facts: Facts, cut: int) -> Facts:
    """The content at an instant, and all that came after it."""
    old = facts.time <= cut
    kept = facts[old].latest()
    return Facts.concat([kept[kept.op > 0], facts[~old]])


def _write(log: Log, stream: str, facts: Facts, events: int, arena: Arena) -> None:
    order = np.argsort(facts.time, kind="stable")
    facts = facts[order]
    for start in range(0, len(facts), GROUP):
        part = facts[start : start + GROUP]
        none = np.zeros(len(part), np.int64)
        chunk = Chunk(len(part), 0, none, none, part.s, part.p, part.o, part.time)
        chunk.op = part.op
        head = Head(
            stream,
            rows=len(part),
            events=events if not start else 0,
            deletes=int(np.count_nonzero(part.op < 0)),
            first=int(part.time[0]),
            last=int(part.time[-1]),
        )
        log.append(head, chunk.pack(arena))
