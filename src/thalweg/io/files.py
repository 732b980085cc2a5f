"""Local files, plain or compressed: the events in them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.formats import Format, Mode, Reader, SequentialReader
from thalweg.rdf.framing import framer_of
from thalweg.rdf.headers import WholeRows
from thalweg.rdf.pieces import PIECE, pieces
from thalweg.rdf.prune import Prune

__all__ = ["PIECE", "FileEvents", "Pieces", "pieces", "read_events"]
_FILE_PIECE = 4 * 1024 * 1024
"""Bytes read at once: large enough to make a call worth it, small enough for the cache."""


class Pieces(Protocol):
    """Whole lines or documents of a source, as pairs (offset, bytes); `rejects` has what could not be read."""

    @property
    def rejects(self) -> list[Reject]:
        """What could not be read, after the iteration."""

    def __iter__(self) -> Iterator[tuple[int, memoryview]]: ...


@dataclass(frozen=True)
class _Lap:
    """The pieces of a file that is read again: blank nodes are scoped by their place, and each lap has its own."""

    source: Pieces
    lap: int

    @property
    def rejects(self) -> list[Reject]:
        return self.source.rejects

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        base = self.lap << 48  # longer than any file
        return ((base + offset, data) for offset, data in self.source)


class FileEvents:
    """The events of files, one after the other, as an iterator of batches; the last closes the stream."""

    def __init__(
        self,
        paths: Iterable[str | Path],
        stream: str,
        arena: Arena,
        prune: Prune | Callable[[], Prune],
        options: RunOptions | None = None,
        *,
        piece: int = _FILE_PIECE,
        threads: int = 1,
        live: Pieces | None = None,
        messages: bool = False,
    ) -> None:
        """`prune` may be a function that gives the current one: queries come and go while files are read.

        With several `threads`, pieces are read in parallel to each other and to the matching. `live` are the pieces
        of a source that is no file; the only path is its name. With `messages`, each of them is a whole document.
        """
        self.options = options or RunOptions()
        self._piece, self._threads = piece, threads
        self._live, self._messages = live, messages
        self.arena = arena
        self._prune = (lambda: prune) if isinstance(prune, Prune) else prune
        self._files = [(str(path), self.options.format_for(path)) for path in paths]
        modes: set[Mode] = {self.options.mode_for(format) for _, format in self._files} or {"triples"}
        if len(modes) > 1:
            found = " and of ".join(sorted(modes, reverse=True))
            raise UsageError(f"the stream has files of {found}: set mode, or give them as several streams")
        self._mode = modes.pop()
        self.framer = framer_of(
            stream,
            self._mode,
            arena,
            per_event=self.options.per_event or 1,
            unit_us=self.options.unit_us,
            rate=self.options.rate,
        )
        self.statements = 0
        self.blanks = 0
        self.left_out = 0
        """Events that are left out without being refused: aborted ones, and those of other streams."""
        self.bytes = 0
        self._batches = self._read()

    def __iter__(self) -> Iterator[EventBatch]:
        return self

    def __next__(self) -> EventBatch:
        return next(self._batches)

    def live_ids(self) -> Ids:
        """Ids that a compaction of the arena between two batches must keep."""
        return self.framer.live_ids()

    def _read(self) -> Iterator[EventBatch]:
        """The events of all files, as often as the options say; a lap begins where the times of the one before end."""
        first, shift = NO_TIME, 0
        for lap in range(self.options.loop) if self.options.loop else itertools.count():
            if lap and self._mode != "triples" and first != NO_TIME:
                shift = self.framer.clock - first + self.options.unit_us
            for batch in self._lap(lap, shift):
                if first == NO_TIME and batch.events:
                    first = int(batch.times[batch.times != NO_TIME].min())
                yield batch

    def _lap(self, lap: int, shift: int) -> Iterator[EventBatch]:
        stream = self.framer.stream
        for path, format in self._files:
            make = partial(self.options.reader_for, format, source=path, stream=stream)
            alone = self._threads == 1 or format.sequential
            source: Pieces = self._live or pieces(
                path, self._piece, reuse=alone, unpack_ratio=self.options.unpack_ratio
            )
            if format.has_rows:
                source = WholeRows(
                    source, format, format.required(self.options.mapping_for(stream), path), path
                )
                make = partial(make, header=source.header)
            for chunk in self._chunks(_Lap(source, lap), format, make):
                self.statements += chunk.statements
                self.blanks += chunk.blanks
                self.left_out += chunk.left_out
                yield self.framer.frame(chunk.later(shift) if shift else chunk)
            if source.rejects:
                yield EventBatch.empty(stream, self.framer.clock, tuple(source.rejects))
        yield self.framer.close()

    def _in_order(self, source: Pieces, reader: SequentialReader) -> Iterator[Chunk]:
        """The chunks of a file whose reader keeps what is unfinished."""
        for offset, data in source:
            self.bytes += len(data)
            reader.prune = self._prune()
            yield reader.feed(data, offset=offset)
        reader.prune = self._prune()
        yield reader.finish(broken=bool(source.rejects))

    def _chunks(
        self, source: Pieces, format: Format, make: Callable[[Arena, Prune], Reader]
    ) -> Iterator[Chunk]:
        """The chunks of a file in order, read here or by several threads, each pruned as is right when it is taken."""
        if format.sequential and not self._messages:
            yield from self._in_order(source, cast(SequentialReader, make(self.arena, self._prune())))
            return
        if self._threads == 1:
            reader = make(self.arena, self._prune())
            for offset, data in source:
                self.bytes += len(data)
                if reader.prune is not self._prune():
                    reader = make(self.arena, self._prune())
                yield reader.read(data, offset=offset)
            return

        def read(ahead: _Ahead) -> tuple[Chunk, bytes]:
            # An arena of its own: that of the session belongs to the thread that matches.
            arena = Arena()
            chunk = make(arena, ahead.prune).read(ahead.data, offset=ahead.offset)
            return chunk, chunk.records(arena)

        def taken(ahead: _Ahead, future: Future[tuple[Chunk, bytes]]) -> Chunk:
            chunk, records = future.result()
            if ahead.prune is not self._prune():  # a query has come or gone since it was read
                chunk, records = read(replace(ahead, prune=self._prune()))
            return chunk.adopted(records, self.arena)

        with ThreadPoolExecutor(self._threads, "thalweg-read") as pool:
            under_way: deque[tuple[_Ahead, Future[tuple[Chunk, bytes]]]] = deque()
            for offset, data in source:
                self.bytes += len(data)
                ahead = _Ahead(offset, data, self._prune())
                under_way.append((ahead, pool.submit(read, ahead)))
                if len(under_way) > self._threads + 1:
                    yield taken(*under_way.popleft())
            while under_way:
                yield taken(*under_way.popleft())


@dataclass(frozen=True)
class _Ahead:
    """A piece that is read ahead, and what of it is kept."""

    offset: int
    data: memoryview
    prune: Prune


def read_events(
    paths: Iterable[str | Path],
    stream: str,
    arena: Arena,
    prune: Prune | Callable[[], Prune],
    options: RunOptions | None = None,
    *,
    piece: int = _FILE_PIECE,
    threads: int = 1,
) -> FileEvents:
    """The events of local files for a runner in this process."""
    return FileEvents(paths, stream, arena, prune, options, piece=piece, threads=threads)
