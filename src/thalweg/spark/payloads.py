"""Payloads: rows of any frame, each with a text of RDF, become a chunk of events.

A payload with a time of its own is one event. In one without, each graph is an event, and the payload states its time.
All texts of a format are read at once. Formats that state their events are read payload by payload.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.instants import checked_instant, instant
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.formats import FORMATS, format_named
from thalweg.rdf.prune import Prune
from thalweg.rdf.stated import OPS, at_one_time, changes, one_graph, shown
from thalweg.rdf.texts import ended
from thalweg.rdf.timestamped import merged


class _Payload(NamedTuple):
    """A payload that states its events."""

    syntax: str
    stream: str
    source: str
    text: bytes
    time: int


@dataclass
class _Taken:
    """The payloads that can be read, and why the others cannot."""

    texts: list[bytes] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    kinds: dict[tuple[str, bool], list[int]] = field(default_factory=dict)
    """The payloads of each format, those with a time apart from the others."""
    stated: list[_Payload] = field(default_factory=list)
    """Payloads of formats that state their events."""
    rejects: list[Reject] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Take a row of the frame, or note why not."""
        source = row["source"] or row["stream"]
        try:
            if not row["stream"]:
                raise ValueError("there is no stream")
            if row["payload"] is None:
                raise ValueError("there is no payload")
            if row["op"] is not None and FORMATS[row["syntax"]].has_events:
                raise ValueError(
                    f"{FORMATS[row['syntax']].title} states its ops itself: there is no op beside it"
                )
            time, op = _time(row), OPS[row["op"]]
        except (ValueError, KeyError) as wrong:
            reason = (
                f"op is insert or delete, not {row['op']!r}" if isinstance(wrong, KeyError) else str(wrong)
            )
            self.rejects.append(Reject(source, 0, 0, reason, shown(row["payload"] or b"")))
            return
        if FORMATS[row["syntax"]].has_events:
            self.stated.append(_Payload(row["syntax"], row["stream"], source, bytes(row["payload"]), time))
            return
        self.kinds.setdefault((row["syntax"], bool(row["timed"])), []).append(len(self.texts))
        self.texts.append(ended(row["payload"]))
        self.sources.append(source)
        self.times.append(time)
        self.ops.append(op)

    def refuse_untimed(self, payload: int, reason: str) -> None:
        """Refuse a payload that was taken, or a graph of it, for it has no time."""
        text = shown(self.texts[payload])
        self.rejects.append(Reject(self.sources[payload], 0, 0, reason, text, "untimed"))


@dataclass
class _Found:
    """The rows of payloads, in no order."""

    payload: Ids
    rows: Chunk
    refused: set[int]
    """The payloads of which nothing could be read."""
    statements: Ids
    """The number of statements of each payload."""


def read_payloads(prune: Prune, options: RunOptions, batch: pa.RecordBatch) -> tuple[Arena, Chunk, int]:
    """The events of payloads as a chunk (for `TimestampedFramer`), its arena, and the size of the texts."""
    taken = _Taken()
    for row in batch.to_pylist():
        taken.add(row)
    arena = Arena()
    stated = [_stated(prune, options, arena, payload) for payload in taken.stated]
    whole = merged([_events(prune, options, arena, taken), *stated])
    size = sum(map(len, taken.texts)) + sum(len(payload.text) for payload in taken.stated)
    return arena, whole, size


def _stated(prune: Prune, options: RunOptions, arena: Arena, payload: _Payload) -> Chunk:
    """The events that a payload states; those without a time have that of the payload, or are refused."""
    format = FORMATS[payload.syntax]
    reader = options.reader_for(format, arena, prune, source=payload.source, stream=payload.stream)
    chunk, untimed = at_one_time(reader.read(payload.text), payload.time)
    if untimed:
        reason = f"{untimed} event{'s' * (untimed > 1)} of this payload without a time"
        reject = Reject(payload.source, 0, 0, reason, shown(payload.text), "untimed")
        chunk = replace(chunk, rejects=(*chunk.rejects, reject))
    return replace(chunk, lines=0, source="")


def _events(prune: Prune, options: RunOptions, arena: Arena, taken: _Taken) -> Chunk:
    """The events of payloads that are graphs."""
    found = _read(prune, options, arena, taken)
    payload, chunk = found.payload, found.rows
    known = np.array(taken.times, np.int64)
    timed = known[payload] != NO_TIME
    member = np.flatnonzero(timed | (chunk.g != 0))
    key = np.where(timed, 0, chunk.g)[member]
    order = np.lexsort((key, payload[member]))
    member, key = member[order], key[order]
    begins = changes(payload[member]) | changes(key)
    stamps = _stamps(chunk, payload, np.flatnonzero((chunk.time != NO_TIME) & ~timed))
    times = np.empty(int(np.count_nonzero(begins)), np.int64)
    for k, (number, graph) in enumerate(
        zip(payload[member[begins]].tolist(), key[begins].tolist(), strict=True)
    ):
        times[k] = known[number] if known[number] != NO_TIME else stamps.get((number, graph), NO_TIME)
        if times[k] == NO_TIME:
            taken.refuse_untimed(number, f"graph {arena.text(graph)} has no time")
    seen = set(payload[member].tolist()) | found.refused
    for number in range(len(taken.texts)):
        if number not in seen:
            taken.refuse_untimed(number, "no graph of this payload has a time")
    event = np.cumsum(begins) - 1
    data = (chunk.s != 0) & (chunk.p != 0)
    filled = np.zeros(times.size, np.bool_)
    filled[event[data[member]]] = True
    # An event without data has a row without any.
    rows = np.flatnonzero((data[member] | (begins & ~filled[event])) & (times[event] != NO_TIME))
    event, member = event[rows], member[rows]
    number = np.cumsum(changes(event)) - 1
    s, p, o = (np.where(data[member], column[member], 0) for column in (chunk.s, chunk.p, chunk.o))
    # One without any triple, wanted or not, counts in no window: it has no op.
    ops = np.where(found.statements != 0, np.array(taken.ops, np.int64), 0)
    return Chunk(
        statements=chunk.statements,
        lines=0,
        number=number,
        g=one_graph(chunk.g[member], s, number),
        s=s,
        p=p,
        o=o,
        time=times[event],
        bnodes=chunk.bnodes,
        rejects=tuple(taken.rejects),
        blanks=chunk.blanks,
        op=chunk.op[member] * ops[payload[member]],
    )


def _read(prune: Prune, options: RunOptions, arena: Arena, taken: _Taken) -> _Found:
    """All texts, each read by the reader of its format; rejects are noted as `taken`'s."""
    with_time = np.flatnonzero(np.array(taken.times, np.int64) != NO_TIME)
    refused: set[int] = set()
    statements = np.zeros(len(taken.texts), np.int64)
    parts: list[tuple[Ids, Chunk]] = []
    for (syntax, timed), numbers in taken.kinds.items():
        reader = format_named(syntax).reader(
            arena,
            prune,
            source="",
            blank_nodes=options.blank_nodes,
            per_event=2,  # any number but one: blank nodes wait for the scope of their event
            time_predicate=b"" if timed else options.time_term,
        )
        places = np.array(numbers, np.int64)
        read = reader.read_texts([taken.texts[k] for k in numbers], [taken.sources[k] for k in numbers])
        refused |= {numbers[k] for k in read.refused}
        taken.rejects += read.chunk.rejects
        statements[places] = read.statements
        parts.append((places[read.text], read.chunk))
    # An event whose time is given is one without triples, too.
    named = with_time[~np.isin(with_time, list(refused))]
    parts.insert(0, (named, _blank_rows(named.size)))
    payload = np.concatenate([numbers for numbers, _ in parts])
    return _Found(payload, Chunk.concatenate([chunk for _, chunk in parts]), refused, statements)


def _blank_rows(count: int) -> Chunk:
    none = np.zeros(count, np.int64)
    return Chunk(0, 0, none, none, none, none, none, np.full(count, NO_TIME))


def _time(row: dict[str, Any]) -> int:
    """The time of a payload in microseconds; NO_TIME where it has to state it itself."""
    if not row["timed"]:
        return NO_TIME
    if row["said"] is not None:
        return instant(row["said"])
    if row["time"] is None:
        raise ValueError("there is no time")
    return checked_instant(int(row["time"]))


def _stamps(chunk: Chunk, payload: Ids, rows: Ids) -> dict[tuple[int, int], int]:
    """The times that payloads state of their graphs: the last one of the default graph, else the first in the graph."""
    within = chunk.g[rows] != 0
    rows = np.concatenate([rows[within][::-1], rows[~within]])
    graph = np.where(chunk.g[rows] != 0, chunk.g[rows], chunk.s[rows])
    pairs = zip(payload[rows].tolist(), graph.tolist(), strict=True)
    return dict(zip(pairs, chunk.time[rows].tolist(), strict=True))
