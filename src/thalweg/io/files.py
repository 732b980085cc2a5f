"""Local files, plain or gzipped: whole lines in pieces, and the events in them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from thalweg.errors import UsageError
from thalweg.lines import last_end
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.framing import Framer, Mode
from thalweg.rdf.ntriples import GENERATED_AT, BlankNodes, Reader, Syntax
from thalweg.rdf.prune import Prune

PIECE = 16 * 1024 * 1024
"""Bytes of a piece unless given."""

_SUFFIXES: dict[str, Syntax] = {".nt": "nt", ".nq": "nq"}
_GZIP = b"\x1f\x8b"


def syntax_of(path: str | Path) -> Syntax:
    """The line syntax of a file's name.

    >>> syntax_of("quads.nq.gz")
    'nq'
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        known = ", ".join(f"*{suffix}, *{suffix}.gz" for suffix in _SUFFIXES)
        raise UsageError(f"the name of {path} has no known suffix: expected {known}")
    return _SUFFIXES[suffixes[-1]]


@dataclass
class pieces:  # noqa: N801 - it is called like the generator that it would be without `rejects`
    """Whole lines of a file as pairs (offset in the unpacked file, bytes); the last may lack its line end.

    After the iteration `rejects` has what could not be read (a gzip file that breaks off). With `reuse`,
    bytes are good only until the next piece: that spares memory, and the cache.
    """

    path: str | Path
    size: int = PIECE
    reuse: bool = False
    rejects: list[Reject] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        try:
            with open(self.path, "rb") as file:
                packed = file.read(2) == _GZIP or str(self.path).lower().endswith(".gz")
                file.seek(0)
                yield from self._packed() if packed else self._plain(file.fileno())
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from None

    def _plain(self, file: int) -> Iterator[tuple[int, memoryview]]:
        # What follows the last line end is read again with the next piece: cheaper than joining bytes.
        offset = 0
        buffer = bytearray(self.size)
        while count := os.preadv(file, [buffer], offset):
            cut = last_end(buffer, 0, count)
            if cut == 0 or count < len(buffer):
                if count == len(buffer):
                    buffer = bytearray(2 * count)
                    continue
                # Perhaps the end of the file: only an empty read is sure.
                if os.pread(file, 1, offset + count):
                    continue
                cut = count
            yield offset, memoryview(buffer)[:cut]
            offset += cut
            if not self.reuse or len(buffer) > self.size:
                buffer = bytearray(self.size)

    def _packed(self) -> Iterator[tuple[int, memoryview]]:
        offset = 0
        rest: list[bytes] = []
        for data in self._unpacked():
            cut = last_end(data, 0, len(data))
            if cut == 0:
                rest.append(data)
                continue
            whole = b"".join([*rest, data[:cut]])
            yield offset, memoryview(whole)
            offset += len(whole)
            rest = [data[cut:]]
        last = b"".join(rest)
        if self.rejects:
            # The line at the break may look whole without being so.
            shown = last[:2000].decode("utf-8", "replace")[:500]
            self.rejects[-1] = Reject(str(self.path), 0, 0, self.rejects[-1].reason, shown)
        elif last:
            yield offset, memoryview(last)

    def _is_gzip(self) -> bool:
        with open(self.path, "rb") as file:
            return file.read(2) == _GZIP

    def _unpacked(self) -> Iterator[bytes]:
        with gzip.open(self.path, "rb") as file:
            waiting: list[bytes] = []
            size = 0
            try:
                while data := file.read1(min(self.size, 1 << 20)):
                    waiting.append(data)
                    size += len(data)
                    if size >= self.size:
                        yield b"".join(waiting)
                        waiting, size = [], 0
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                reason = (
                    f"the gzip file breaks off: {error}" if self._is_gzip() else "this is not a gzip file"
                )
                self.rejects.append(Reject(str(self.path), 0, 0, reason, ""))
            if waiting:
                yield b"".join(waiting)


@dataclass(frozen=True)
class ReadOptions:
    """How files become events; None is what the syntax suggests (N-Triples: triples, N-Quads: graphs)."""

    syntax: Syntax | None = None
    mode: Mode | None = None
    per_event: int = 1
    unit_us: int = 1000
    rate: int | float | Fraction | None = None
    blank_nodes: BlankNodes = "event"
    time_predicate: bytes = GENERATED_AT
    piece: int = 4 * 1024 * 1024
    """Bytes read at once: large enough to make a call worth it, small enough for the cache."""
    threads: int = 1
    """Cores that read; with more than one, pieces are read beside each other and beside the matching."""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1, got {self.threads}")
        if self.per_event < 1:
            raise UsageError(f"per_event must be at least 1, got {self.per_event}")
        if self.rate is not None and self.rate < 1e-6:
            raise UsageError(f"the rate must be at least 0.000001 events a second, got {self.rate}")
        if self.mode == "graphs" and self.syntax == "nt":
            raise UsageError("N-Triples has no named graphs: frame it as triples")

    def mode_for(self, syntax: Syntax) -> Mode:
        """How files of this syntax are framed."""
        if self.mode == "graphs" and syntax == "nt":
            raise UsageError("N-Triples has no named graphs: frame it as triples")
        return self.mode or ("triples" if syntax == "nt" else "graphs")


class FileEvents:
    """The events of files, one after the other, as an iterator of batches; the last closes the stream."""

    def __init__(
        self,
        paths: Iterable[str | Path],
        stream: str,
        arena: Arena,
        prune: Prune | Callable[[], Prune],
        options: ReadOptions | None = None,
    ) -> None:
        """`prune` may be a function that gives the current one: queries come and go while files are read."""
        self.options = options or ReadOptions()
        self.arena = arena
        self._prune = (lambda: prune) if isinstance(prune, Prune) else prune
        self._files = [(str(path), self.options.syntax or syntax_of(path)) for path in paths]
        modes: set[Mode] = {self.options.mode_for(syntax) for _, syntax in self._files} or {"triples"}
        if len(modes) > 1:
            raise UsageError("the stream has files of triples and of graphs: set mode")
        self.framer = Framer(
            stream,
            mode=modes.pop(),
            per_event=self.options.per_event,
            unit_us=self.options.unit_us,
            rate=self.options.rate,
            arena=arena,
        )
        self.statements = 0
        self.blanks = 0
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
        stream = self.framer.stream
        timed = self.framer.mode == "graphs"
        for path, syntax in self._files:
            make = partial(
                Reader,
                syntax=syntax,
                source=path,
                blank_nodes=self.options.blank_nodes,
                per_event=self.options.per_event,
                time_predicate=self.options.time_predicate if timed else b"",
            )
            source = pieces(path, self.options.piece, reuse=self.options.threads == 1)
            for chunk in self._chunks(source, make):
                self.statements += chunk.statements
                self.blanks += chunk.blanks
                yield self.framer.frame(chunk)
            if source.rejects:
                yield EventBatch.empty(stream, self.framer.clock, tuple(source.rejects))
        yield self.framer.close()

    def _chunks(self, source: pieces, make: Callable[[Arena, Prune], Reader]) -> Iterator[Chunk]:
        """The chunks of a file in order, read here or by several threads, each pruned as is right when it is taken."""
        if self.options.threads == 1:
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

        with ThreadPoolExecutor(self.options.threads, "thalweg-read") as pool:
            under_way: deque[tuple[_Ahead, Future[tuple[Chunk, bytes]]]] = deque()
            for offset, data in source:
                self.bytes += len(data)
                ahead = _Ahead(offset, data, self._prune())
                under_way.append((ahead, pool.submit(read, ahead)))
                if len(under_way) > self.options.threads + 1:
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
    options: ReadOptions | None = None,
) -> FileEvents:
    """The events of local files for a runner in this process."""
    return FileEvents(paths, stream, arena, prune, options)
