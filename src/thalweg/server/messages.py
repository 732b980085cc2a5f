"""Messages of N-Triples as events: many small bodies are read at once, and each has counts and errors of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.kernels.frame import scopes_of
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.ntriples import LineReader, scope_of
from thalweg.rdf.prune import Prune
from thalweg.rdf.texts import ended
from thalweg.server.bodies import Read

FORMAT = "nt"
"""The format that is read so, whether one message comes or many: then blank nodes have the same names in both."""
RUN_BYTES = 1 << 17
"""Bytes of several messages that are read at once: fewer events than a session keeps late ones of."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Divided:
    """A chunk of several messages: of each row its message and its statement's place in that; counts of messages."""

    chunk: Chunk
    message: Ids
    place: Ids
    statements: Ids
    rejects: dict[int, tuple[Reject, ...]]


class MessageReader:
    """The reader of one stream's messages. It keeps nothing from call to call but memory.

    A blank node belongs to its event, and events have numbers in their stream: so its name does not depend on which
    messages came together.
    """

    def __init__(self, stream: str, arena: Arena, prune: Prune) -> None:
        self.stream = stream
        self.arena = arena
        self.prune = prune
        self._scope = scope_of(stream)
        # With more than one statement an event, blank nodes wait for the scope that is given here.
        self._reader = LineReader(arena, prune, syntax=FORMAT, source=stream, per_event=2)

    def read(self, text: bytes, sizes: Sequence[int], at: Ids, *, per_event: int, first_event: int) -> Read:
        """The events of messages with so many bytes, each of which ends with a line feed, at the times `at`."""
        found = self._divided(text, sizes)
        chunk = found.chunk
        events = -(-found.statements // per_event)
        total = int(events.sum())
        batches: tuple[EventBatch, ...] = ()
        if total:
            starts = first_event + np.cumsum(events) - events
            event = starts[found.message] + found.place // per_event
            times = np.repeat(at, events)
            s, o = self._scoped(chunk, event)
            rows = Rows.inserts(times[event - first_event], event, chunk.g, s, chunk.p, o)
            if not chunk.p.all():
                rows = rows[np.flatnonzero(chunk.p)]
            batches = (EventBatch(self.stream, rows, int(times.max()), (), times, first_event),)
        return Read(batches, events, found.statements, found.rejects)

    def _scoped(self, chunk: Chunk, event: Ids) -> tuple[Ids, Ids]:
        """Subjects and objects, blank nodes in the scope of their event."""
        if not chunk.bnodes:
            return chunk.s, chunk.o
        scopes = np.empty(event.size, np.int64)
        scopes_of(self._scope, event, scopes)
        s, o = chunk.s.copy(), chunk.o.copy()
        self.arena.rescope(s, scopes)
        self.arena.rescope(o, scopes)
        return s, o

    def _divided(self, text: bytes, sizes: Sequence[int]) -> Divided:
        count = len(sizes)
        if count == 1:
            chunk = self._reader.read(text)
            rejects = {0: chunk.rejects} if chunk.rejects else {}
            nothing = np.zeros(len(chunk), np.int64)
            return Divided(chunk, nothing, chunk.number, np.array([chunk.statements]), rejects)
        marked = _BOM in text
        if not marked and text.count(b"\n") == count and b"\r" not in text:
            found = self._lines(text, count)
            if found is not None:
                return found
        ends = np.cumsum(sizes).tolist()
        texts = [text[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        if marked:
            texts = [ended(one.removeprefix(_BOM)) for one in texts]
        return self._texts(texts)

    def _lines(self, text: bytes, count: int) -> Divided | None:
        """Messages of one line each; None where a line is empty or a comment."""
        chunk = self._reader.read(text, offset=1)
        if chunk.statements + len(chunk.rejects) != count:
            return None
        statements = np.ones(count, np.int64)
        rejects: dict[int, tuple[Reject, ...]] = {
            one.line - 1: (replace(one, line=1),) for one in chunk.rejects
        }
        message = chunk.number
        if rejects:
            statements[list(rejects)] = 0
            message = np.flatnonzero(statements)[message]
        return Divided(chunk, message, np.zeros(len(chunk), np.int64), statements, rejects)

    def _texts(self, texts: Sequence[bytes]) -> Divided:
        found = self._reader.read_texts(texts, [str(k) for k in range(len(texts))])
        starts = np.cumsum(found.statements) - found.statements
        place = found.chunk.number - (found.text + 1) - starts[found.text]
        rejects: dict[int, tuple[Reject, ...]] = {}
        for one in found.chunk.rejects:
            message = int(one.source)
            rejects[message] = (*rejects.get(message, ()), replace(one, source=self.stream))
        return Divided(found.chunk, found.text, place, found.statements, rejects)
