"""The first step of a task: pieces of files become packed chunks of the rows that the query can use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import UsageError
from thalweg.io.files import ReadOptions, pieces
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.ntriples import Reader
from thalweg.rdf.prune import Prune
from thalweg.spark.pieces import is_gzip

CHUNK_SCHEMA = (
    "shard int, stream string, source string, seq long, part int, syntax string, last boolean, "
    "bytes long, statements long, kept long, rejected long, chunk binary"
)
_ARROW = pa.schema(
    [
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
        pa.field("rejected", pa.int64()),
        pa.field("chunk", pa.binary()),
    ]
)
_PART = 16 << 20
Part = tuple[Arena, Chunk, int]
_buffer = bytearray()


@dataclass(frozen=True)
class Reading:
    """How bytes become rows: what is kept, and what an event and a blank node are."""

    prune: Prune
    options: ReadOptions

    def reader(self, arena: Arena, piece: dict[str, Any]) -> Reader:
        """A reader of one piece into an arena, as the in-process runner makes it."""
        options = self.options
        timed = options.mode_for(piece["syntax"]) == "graphs"
        return Reader(
            arena,
            self.prune,
            syntax=piece["syntax"],
            source=piece["source"],
            blank_nodes=options.blank_nodes,
            per_event=options.per_event,
            time_predicate=options.time_predicate if timed else b"",
        )


def shard_of(chunk: Chunk) -> int:
    """The shard that a chunk goes to: one holds everything. Splitting chunks by a key would start here."""
    return 0


def encoder(reading: Reading) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: rows of the rdf source to rows of `CHUNK_SCHEMA`."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.to_pylist():
                yield from encode_piece(reading, piece)

    return encode


def encode_piece(reading: Reading, piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """The chunks of one piece: one for a byte range, one for every 16 MiB of text of a gzipped file."""
    if not piece["path"]:
        parts = iter([(Arena(), nothing(""), 0)])
    elif is_gzip(piece["path"]):
        parts = _gunzipped(reading, piece)
    else:
        parts = _plain(reading, piece)
    held: pa.RecordBatch | None = None
    for number, (arena, chunk, size) in enumerate(parts):
        if held is not None:
            yield held
        held = _row(piece, number, arena, chunk, size)
    if held is not None:
        # Only the last chunk of the last piece ends the stream, and which one that is, is known here.
        place = _ARROW.get_field_index("last")
        yield held.set_column(place, _ARROW.field(place), pa.array([piece["last"]]))


def _plain(reading: Reading, piece: dict[str, Any]) -> Iterator[Part]:
    arena = Arena()
    start, size = piece["start"], piece["end"] - piece["start"]
    try:
        data = read_range(piece["path"], start, size)
    except OSError as failure:
        reason = f"bytes {start} to {start + size} cannot be read: {failure.strerror}"
        yield arena, nothing(piece["source"], reason), 0
        return
    chunk = reading.reader(arena, piece).read(data, offset=start)
    if len(data) < size:
        lost = nothing(
            piece["source"], f"the file shrank: bytes {start + len(data)} to {start + size} are gone"
        )
        chunk = replace(chunk, rejects=(*chunk.rejects, *lost.rejects))
    yield arena, chunk, len(data)


def _gunzipped(reading: Reading, piece: dict[str, Any]) -> Iterator[Part]:
    text = pieces(piece["path"], _PART)
    try:
        for offset, data in text:
            arena = Arena()
            yield arena, reading.reader(arena, piece).read(data, offset=offset), len(data)
    except (UsageError, OSError) as failure:
        text.rejects.append(Reject(piece["source"], 0, 0, str(failure), ""))
    refused = tuple(replace(reject, source=piece["source"]) for reject in text.rejects)
    yield Arena(), replace(nothing(piece["source"]), rejects=refused), 0


def read_range(path: str, start: int, size: int) -> memoryview:
    """A byte range of a file, as much of it as is there. The view is good until the next call."""
    global _buffer
    if len(_buffer) < size:
        # One buffer per worker: fresh pages for every piece would cost as much as reading it.
        _buffer = bytearray(size)
    view = memoryview(_buffer)[:size]
    done = 0
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while done < size:
            count = file.readinto(view[done:])
            if not count:
                break
            done += count
    return view[:done]


def nothing(source: str, reason: str = "") -> Chunk:
    """A chunk without rows, which may say why there are none."""
    none = np.empty(0, np.int64)
    rejects = (Reject(source, 0, 0, reason, ""),) if reason else ()
    return Chunk(0, 0, none, none, none, none, none, none, rejects=rejects, source=source)


def _row(piece: dict[str, Any], part: int, arena: Arena, chunk: Chunk, size: int) -> pa.RecordBatch:
    cells = {
        **{name: piece[name] for name in ("stream", "source", "seq", "syntax")},
        "shard": shard_of(chunk),
        "part": part,
        "last": False,
        "bytes": size,
        "statements": chunk.statements,
        "kept": int(np.count_nonzero(chunk.p)),
        "rejected": len(chunk.rejects),
        "chunk": chunk.pack(arena),
    }
    return pa.RecordBatch.from_pylist([cells], schema=_ARROW)
