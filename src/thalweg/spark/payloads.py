"""Payloads: rows of any frame, each with a text of RDF, become a chunk of events.

A payload with a time of its own is one event. In one without, each graph is an event, and the payload states its time.
All texts are read at once, behind marks where each of them begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from thalweg.instants import checked_instant, instant
from thalweg.io.files import ReadOptions
from thalweg.lines import count
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.ntriples import Reader
from thalweg.rdf.prune import Prune

LINES = ("nt", "nq")
FORMATS = {
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdfxml": ox.RdfFormat.RDF_XML,
    "n3": ox.RdfFormat.N3,
}
OPS = {None: 1, "insert": 1, "+": 1, "delete": -1, "-": -1}
_SHOWN = 500


@dataclass
class _Taken:
    """The payloads that can be read, and why the others cannot."""

    texts: list[bytes] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Take a row of the frame, or say why not."""
        source = row["source"] or row["stream"]
        try:
            if not row["stream"]:
                raise ValueError("there is no stream")
            text, time, op = _text(row["payload"], row["syntax"]), _time(row), OPS[row["op"]]
        except (ValueError, KeyError) as wrong:
            reason = (
                f"op is insert or delete, not {row['op']!r}" if isinstance(wrong, KeyError) else str(wrong)
            )
            self.rejects.append(Reject(source, 0, 0, reason, _shown(row["payload"])))
            return
        self.texts.append(text if text.endswith(b"\n") else text + b"\n")
        self.sources.append(source)
        self.times.append(time)
        self.ops.append(op)

    def refuse(self, payload: int, reason: str) -> None:
        """Refuse a payload that was taken, or something in it."""
        self.rejects.append(Reject(self.sources[payload], 0, 0, reason, _shown(self.texts[payload])))


def read_payloads(prune: Prune, options: ReadOptions, batch: pa.RecordBatch) -> tuple[Arena, Chunk, int]:
    """The events of payloads as a chunk (for `TimestampedFramer`), its arena, and the size of the texts."""
    taken = _Taken()
    for row in batch.to_pylist():
        taken.add(row)
    arena = Arena()
    chunk, mark = _read(prune, options, arena, taken)
    marks = (chunk.s == mark) & (chunk.g == 0) & (chunk.time != NO_TIME)
    payload = np.cumsum(marks) - 1
    known = np.array(taken.times, np.int64)
    timed = known[payload] != NO_TIME
    member = np.flatnonzero(timed | (chunk.g != 0))
    key = np.where(timed, 0, chunk.g)[member]
    order = np.lexsort((key, payload[member]))
    member, key = member[order], key[order]
    begins = _changes(payload[member]) | _changes(key)
    stamps = _stamps(chunk, payload, np.flatnonzero((chunk.time != NO_TIME) & ~marks & ~timed))
    times = np.empty(int(np.count_nonzero(begins)), np.int64)
    for k, (number, graph) in enumerate(
        zip(payload[member[begins]].tolist(), key[begins].tolist(), strict=True)
    ):
        times[k] = known[number] if known[number] != NO_TIME else stamps.get((number, graph), NO_TIME)
        if times[k] == NO_TIME:
            taken.refuse(number, f"graph {arena.text(graph)} has no time")
    seen = set(payload[member].tolist())
    for number in range(len(taken.texts)):
        if number not in seen:
            taken.refuse(number, "no graph of this payload has a time")
    event = np.cumsum(begins) - 1
    data = (chunk.s != 0) & (chunk.p != 0) & ~marks
    filled = np.zeros(times.size, np.bool_)
    filled[event[data[member]]] = True
    # An event without data has a row without any.
    rows = np.flatnonzero((data[member] | (begins & ~filled[event])) & (times[event] != NO_TIME))
    event, member = event[rows], member[rows]
    number = np.cumsum(_changes(event)) - 1
    s, p, o = (np.where(data[member], column[member], 0) for column in (chunk.s, chunk.p, chunk.o))
    # One without any triple, wanted or not, counts in no window: it has no op.
    statements = np.diff(chunk.number[marks], append=chunk.statements) - 1
    op = np.where(statements[payload[member]] != 0, np.array(taken.ops, np.int64)[payload[member]], 0)
    whole = replace(
        chunk,
        statements=chunk.statements - len(taken.texts),
        lines=0,
        number=number,
        g=_one_graph(chunk.g[member], s, number),
        s=s,
        p=p,
        o=o,
        time=times[event],
        op=op,
        rejects=tuple(taken.rejects),
        unnamed=0,
    )
    return arena, whole, sum(map(len, taken.texts))


def _read(prune: Prune, options: ReadOptions, arena: Arena, taken: _Taken) -> tuple[Chunk, int]:
    """All texts as one chunk, and the id of the mark before each of them; its rejects are noted as `taken`'s."""
    mark = f"<urn:uuid:{uuid.uuid4()}>".encode()  # which nobody who writes payloads can guess
    data = b"".join(
        b'%s %s "%d" .\n%s' % (mark, options.time_predicate, k, text) for k, text in enumerate(taken.texts)
    )
    reader = Reader(
        arena,
        prune,
        syntax="nq",
        source="",
        blank_nodes=options.blank_nodes,
        per_event=2,  # any number but one: blank nodes wait for the scope of their event
        time_predicate=options.time_predicate,
    )
    chunk = reader.read(data, offset=1)
    starts = np.cumsum([0, *(count(text) + 1 for text in taken.texts)])
    for reject in chunk.rejects:
        payload = int(np.searchsorted(starts, reject.line, side="left")) - 1
        line = reject.line - 1 - int(starts[payload])
        taken.rejects.append(replace(reject, source=taken.sources[payload], line=line))
    return chunk, arena.find(mark) or -1


def _text(payload: bytes | None, syntax: str) -> bytes:
    """A payload as lines of N-Quads; a complete parser translates the other formats."""
    if payload is None:
        raise ValueError("there is no payload")
    if syntax in LINES:
        return payload
    try:
        return ox.serialize(ox.parse(payload, FORMATS[syntax]), format=ox.RdfFormat.N_QUADS) or b""
    except (SyntaxError, UnicodeDecodeError) as wrong:
        raise ValueError(f"not {syntax}: {wrong}") from None


def _time(row: dict[str, Any]) -> int:
    """The time of a payload in microseconds; NO_TIME where it has to say it itself."""
    if not row["timed"]:
        return NO_TIME
    if row["said"] is not None:
        return instant(row["said"])
    if row["time"] is None:
        raise ValueError("there is no time")
    return checked_instant(int(row["time"]))


def _stamps(chunk: Chunk, payload: Ids, rows: Ids) -> dict[tuple[int, int], int]:
    """The times that payloads say of their graphs; the last one counts."""
    pairs = zip(payload[rows].tolist(), chunk.s[rows].tolist(), strict=True)
    return dict(zip(pairs, chunk.time[rows].tolist(), strict=True))


def _one_graph(g: Ids, s: Ids, number: Ids) -> Ids:
    """The graph of each event, where all of its triples are in one."""
    if not g.size:
        return g
    first = np.flatnonzero(_changes(number))
    least = np.minimum.reduceat(np.where(s != 0, g, np.iinfo(np.int64).max), first)
    most = np.maximum.reduceat(np.where(s != 0, g, np.iinfo(np.int64).min), first)
    return np.where(least == most, least, 0)[number]


def _changes(column: Ids) -> np.ndarray:
    """Where a value differs from the one before it; the first one does."""
    return np.concatenate([np.ones(min(column.size, 1), np.bool_), column[1:] != column[:-1]])


def _shown(text: Sequence[int] | bytes | None) -> str:
    return bytes(text or b"")[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
