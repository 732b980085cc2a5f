"""Bodies of requests as events: a body is a whole document in one of the formats that streams are read from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np

from thalweg.errors import UsageError
from thalweg.io.replay import at_arrival
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.formats import FORMATS, Format, SequentialReader
from thalweg.rdf.framing import framer_of
from thalweg.rdf.headers import WholeRows
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune

_JSON_ROWS = "application/json"


@dataclass(frozen=True)
class Framing:
    """How the bodies of a stream become events."""

    per_event: int | None = None
    time_predicate: str | None = None
    mapping: str | None = None
    """The text of a YARRRML mapping, for rows."""
    arrival: bool = False
    """Whether events have the time at which they arrive, whatever they state."""

    def options(self, format: Format) -> RunOptions:
        """The options of the readers."""
        return _options(self, format)


@lru_cache(256)
def _options(framing: Framing, format: Format) -> RunOptions:
    """Made once: to check them takes as long as to read a small body."""
    return RunOptions(
        format=format.name,
        per_event=framing.per_event if not format.has_events else None,
        time_predicate=framing.time_predicate,
        mapping=None if framing.mapping is None else Mapping(framing.mapping),
    )


@dataclass(frozen=True)
class Read:
    """What was read of messages: their events, and of each message the counts and what was refused."""

    batches: tuple[EventBatch, ...]
    events: Ids
    triples: Ids
    rejects: dict[int, tuple[Reject, ...]]
    """By the place of the message."""
    left_out: int = 0
    """Statements that belong to no event; only bodies that are read alone have such."""

    def __len__(self) -> int:
        return len(self.events)


@dataclass(frozen=True)
class _Whole:
    """A body as the only piece of a source."""

    data: bytes
    rejects: tuple[Reject, ...] = ()

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        yield 0, memoryview(self.data)


def media_types() -> dict[str, str]:
    """The names of formats by media type."""
    found = {kind: one.name for one in FORMATS.values() for kind in one.media_types}
    return found | {_JSON_ROWS: "json-rows"}


def format_of_type(content_type: str | None) -> Format:
    """The format of a content type; another one is refused with the list of those that there are."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    known = media_types()
    if kind not in known:
        given = f"not {kind!r:.80}" if kind else "and none is given"
        raise UsageError(f"the content type is one of {', '.join(sorted(known))}, {given}")
    return FORMATS[known[kind]]


def read_body(
    data: bytes,
    format: Format,
    stream: str,
    framing: Framing,
    *,
    at: int,
    number: int,
    first_event: int,
    arena: Arena,
    prune: Prune,
) -> Read:
    """The events of a body. Those that state no time are at `at`, in microseconds.

    `number` is that of the body: blank nodes of different bodies are different. Events are numbered from `first_event`.
    """
    options = framing.options(format)
    mode = options.mode_for(format)
    source = f"body {number} of <{stream}>"
    framer = framer_of(f"{stream} {number}", mode, arena, per_event=options.per_event or 1)
    found = []
    statements = left_out = 0
    for chunk in _chunks(data, format, options, source, stream, arena, prune):
        statements += chunk.statements
        left_out += chunk.left_out
        if mode == "events":
            chunk.time[chunk.time == NO_TIME] = at
        found.append(framer.frame(chunk))
    found.append(framer.close())
    rejects = [reject for batch in found for reject in batch.rejects]
    if framer.ignored:
        reason = f"{framer.ignored:,} statements of the default graph belong to no graph with a time"
        rejects.append(Reject(source, 0, 0, reason, "", "untimed"))
    batches = []
    for batch in found:
        if batch.events:
            batch = replace(batch, rejects=())
            if mode == "triples" or framing.arrival:
                batch = at_arrival(batch, at)
            rows = replace(batch.rows, event=batch.rows.event + first_event)
            batches.append(
                replace(batch, stream=stream, rows=rows, first_event=batch.first_event + first_event)
            )
    events = sum(int(np.count_nonzero(batch.times != NO_TIME)) for batch in batches)
    found_rejects = {0: tuple(rejects)} if rejects else {}
    return Read(tuple(batches), np.array([events]), np.array([statements]), found_rejects, left_out)


def _chunks(
    data: bytes, format: Format, options: RunOptions, source: str, stream: str, arena: Arena, prune: Prune
) -> Iterator[Chunk]:
    if format.has_rows:
        mapping = format.required(options.mapping_for(stream), source)
        rows = WholeRows(_Whole(data), format, mapping, source)  # type: ignore[arg-type]
        reader = options.reader_for(format, arena, prune, source=source, stream=stream, header=rows.header)
        for offset, piece in rows:
            yield reader.read(piece, offset=offset)
        return
    reader = options.reader_for(format, arena, prune, source=source, stream=stream)
    if format.sequential:
        sequential = cast(SequentialReader, reader)
        yield sequential.feed(memoryview(data))
        yield sequential.finish()
    else:
        yield reader.read(data)
