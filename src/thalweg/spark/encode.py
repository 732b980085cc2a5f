"""The first step of a task: pieces of files and payloads become packed chunks of the rows that a shard can use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from thalweg.errors import UsageError
from thalweg.io.files import Pieces, pieces
from thalweg.lines import last_end
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.compression import compression_of
from thalweg.rdf.formats import FORMATS, Reader, SequentialReader
from thalweg.rdf.headers import WholeRows
from thalweg.rdf.prune import Prune
from thalweg.rdf.timestamped import merged
from thalweg.spark.daemon import freeze_loaded_objects
from thalweg.spark.payloads import read_payloads
from thalweg.spark.routing import MESSAGES, Router
from thalweg.spark.row_frames import ROWS, read_rows

CHUNK_SCHEMA = (
    "key int, shard int, stream string, source string, seq long, part int, syntax string, last boolean, "
    "bytes long, statements long, kept long, sent long, reading long, chunk binary"
)
CHUNK_ARROW = pa.schema(
    [
        pa.field("key", pa.int32()),
        pa.field("shard", pa.int32()),
        pa.field("stream", pa.string()),
        pa.field("source", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("part", pa.int32()),
        pa.field("syntax", pa.string()),
        pa.field("last", pa.bool_()),
        pa.field("bytes", pa.int64()),
        pa.field("statements", pa.int64()),
        pa.field("kept", pa.int64()),
        pa.field("sent", pa.int64()),
        pa.field("reading", pa.int64()),
        pa.field("chunk", pa.binary()),
    ]
)
_PART = 16 << 20
Part = tuple[Arena, Chunk, int]
# One for each worker: fresh pages for every piece would cost as much as reading it.
_buffer = bytearray(2 << 20)
_ARENA = Arena()


class PieceReading(Protocol):
    """How the bytes of a piece become statements."""

    @property
    def options(self) -> RunOptions:
        """The options of the run."""

    def reader(self, arena: Arena, piece: dict[str, Any]) -> Reader:
        """A reader of one piece into an arena."""


@dataclass(frozen=True)
class Reading:
    """How bytes become rows: what is kept, what an event and a blank node are, and which shards need them."""

    prune: Prune
    options: RunOptions
    router: Router
    keys: tuple[int, ...] = (0,)
    """The key of each shard in Spark's shuffle."""

    def reader(self, arena: Arena, piece: dict[str, Any]) -> Reader:
        """A reader of one piece into an arena, as the in-process runner makes it."""
        format = FORMATS[piece["syntax"]]
        return self.options.reader_for(
            format,
            arena,
            self.prune,
            source=piece["source"],
            stream=piece["stream"],
            header=piece.get("header"),
        )


def encoder(reading: Reading) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: rows of pieces or of payloads to rows of `CHUNK_SCHEMA`."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded_objects()
        for number, batch in enumerate(batches):
            from_file = batch.column("path").is_valid()
            for piece in batch.filter(from_file).to_pylist():
                yield from encode_piece(reading, piece)
            yield from encode_payloads(reading, batch.filter(pc.invert(from_file)), number)

    return encode


def encode_piece(reading: Reading, piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """The chunks of one piece: one for a byte range or a document, one for every 16 MiB of a compressed text."""
    parts = parts_of(reading, piece) if piece["path"] else iter([(Arena(), nothing(""), 0)])
    mode = reading.options.mode_for(FORMATS[piece["syntax"]]) if piece["syntax"] else "triples"
    cells = {name: piece[name] for name in ("stream", "source", "seq", "syntax")}
    held: Part | None = None
    number = 0
    begun = perf_counter_ns()
    for part in parts:
        if held is not None:
            yield _rows(reading, mode, {**cells, "part": number, "last": False}, held, begun)
            number += 1
            begun = perf_counter_ns()
        held = part
    if held is not None:
        # Only the last chunk of the last piece ends the stream, and which one that is, is known here.
        yield _rows(reading, mode, {**cells, "part": number, "last": piece["last"]}, held, begun)


def parts_of(reading: PieceReading, piece: dict[str, Any]) -> Iterator[Part]:
    """The statements of a piece of a file in parts, each with its arena and the number of its bytes."""
    return _plain(reading, piece) if _is_divided(piece) else _whole_file(reading, piece)


def encode_payloads(reading: Reading, batch: pa.RecordBatch, number: int) -> Iterator[pa.RecordBatch]:
    """The chunks of payloads: one for each stream among them."""
    task = TaskContext.get()
    assert task is not None, "payloads are encoded in a task"
    for stream in batch.column("stream").unique().to_pylist():
        own = batch.filter(pc.equal(batch.column("stream"), stream))
        cells = {
            "stream": stream,
            "source": "",
            "seq": number,
            "part": task.partitionId(),
            "syntax": MESSAGES,
            "last": False,
        }
        packed = pc.fill_null(pc.equal(own.column("syntax"), ROWS), False)
        for texts, place in (
            (own.filter(pc.invert(packed)), 2 * number),
            (own.filter(packed), 2 * number + 1),
        ):
            if texts.num_rows:
                begun = perf_counter_ns()
                if place % 2:
                    part = read_rows(reading.prune, texts.to_pylist())
                else:
                    part = read_payloads(reading.prune, reading.options, texts)
                yield _rows(reading, MESSAGES, {**cells, "seq": place}, part, begun)


def _plain(reading: PieceReading, piece: dict[str, Any]) -> Iterator[Part]:
    arena = _ARENA
    arena.clear()
    start, size = piece["start"], piece["end"] - piece["start"]
    reader = reading.reader(arena, piece)
    chunks: list[Chunk] = []
    reached = start
    try:
        for offset, lines in blocks(piece["path"], start, size):
            chunks.append(reader.read(lines, offset=offset))
            reached = offset + len(lines)
        lost = (
            f"the file shrank: bytes {reached} to {start + size} are gone" if reached < start + size else ""
        )
    except OSError as failure:
        lost = f"bytes {reached} to {start + size} cannot be read: {failure.strerror}"
    if lost:
        chunks.append(nothing(piece["source"], lost))
    join = merged if FORMATS[piece["syntax"]].has_events else Chunk.concatenate
    yield arena, join(chunks or [nothing(piece["source"])]), reached - start


def _whole_file(reading: PieceReading, piece: dict[str, Any]) -> Iterator[Part]:
    format = FORMATS[piece["syntax"]]
    text: Pieces = pieces(piece["path"], _PART, unpack_ratio=reading.options.unpack_ratio)
    if format.has_rows:
        mapping = format.required(reading.options.mapping_for(piece["stream"]), piece["source"])
        text = WholeRows(text, format, mapping, piece["source"])
        piece = {**piece, "header": text.header}
    arena = Arena()
    reader = reading.reader(arena, piece)
    try:
        for offset, data in text:
            if format.sequential:
                yield arena, cast(SequentialReader, reader).feed(data, offset=offset), len(data)
                arena = cast(SequentialReader, reader).arena = Arena()
            else:
                yield arena, reader.read(data, offset=offset), len(data)
                arena = Arena()
                reader = reading.reader(arena, piece)
        if format.sequential:
            yield arena, cast(SequentialReader, reader).finish(broken=bool(text.rejects)), 0
            arena = Arena()
    except (UsageError, OSError) as failure:
        text.rejects.append(Reject(piece["source"], 0, 0, str(failure), ""))
    refused = tuple(replace(reject, source=piece["source"]) for reject in text.rejects)
    yield arena, replace(nothing(piece["source"]), rejects=refused), 0


def _is_divided(piece: dict[str, Any]) -> bool:
    """Whether a file is read in byte ranges: not if only a read from its beginning tells where its rows end."""
    format = FORMATS[piece["syntax"]]
    return format.splittable and not format.quotes and compression_of(piece["path"]) is None


def blocks(path: str, start: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """Whole lines of a byte range of a file, as much of it as is there, with their offsets: so many at a time that they
    stay in the cache. A view is good until the next one.
    """
    global _buffer
    end = start + size
    with open(path, "rb", buffering=0) as file:
        while start < end:
            room = memoryview(_buffer)[: end - start]
            count = os.preadv(file.fileno(), [room], start)
            if not count:
                return
            cut = count
            if start + count < end:
                cut = last_end(_buffer, 0, count)
                if not cut and count == len(room):
                    _buffer = bytearray(2 * count)
                    continue
            yield start, room[: cut or count]
            start += cut or count


def nothing(source: str, reason: str = "") -> Chunk:
    """A chunk without rows, with the reason, if there is one."""
    none = np.empty(0, np.int64)
    rejects = (Reject(source, 0, 0, reason, ""),) if reason else ()
    return Chunk(0, 0, none, none, none, none, none, none, rejects=rejects, source=source)


def _rows(reading: Reading, mode: str, cells: dict[str, Any], part: Part, begun: int) -> pa.RecordBatch:
    """The parcels of a chunk, a row each; counts are in the first, as is the time since the reading was `begun`."""
    arena, chunk, size = part
    counts = {
        "bytes": size,
        "statements": chunk.statements,
        "kept": int(np.count_nonzero(chunk.p)),
        "reading": 0,
    }
    rows: list[dict[str, Any]] = []
    for shard, stream, parcel in reading.router.split(cells["stream"], mode, chunk, arena):
        sent = int(np.count_nonzero(parcel.p))
        packed = parcel.pack(arena)
        key = reading.keys[shard]
        rows.append(
            {**cells, **counts, "stream": stream, "key": key, "shard": shard, "sent": sent, "chunk": packed}
        )
        counts = dict.fromkeys(counts, 0)
    # Rows of a task that is run again then differ, and Spark, which detects that, repeats all that was made of them.
    if reading.options.clocked:
        rows[0]["reading"] = (perf_counter_ns() - begun) // 1000
    return pa.RecordBatch.from_pylist(rows, schema=CHUNK_ARROW)
