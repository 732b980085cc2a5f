"""What one piece of a source became, and its packed form for the wire."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DataError
from thalweg.kernels.times import NO_TIME
from thalweg.rdf.arena import Arena, FrontCoded, Ids

__all__ = ["NO_TIME", "SAME_TIME", "Chunk", "Reject", "RejectKind", "replace_ids"]

_MAGIC = b"TWC4"
_HEADER = struct.Struct("<4sBxxxQQ")
_COLUMNS = ("number", "g", "s", "p", "o", "time", "op")

SAME_TIME = NO_TIME + 1
"""In a chunk of events: the time of the event before, with which this one makes one update."""

RejectKind = Literal["malformed", "truncated", "damaged", "oversized", "untimed"]
"""Why input is refused: what is written, a compressed file that ends too soon, is damaged or unpacks to too much, a
graph without a time."""


@dataclass(frozen=True)
class Reject:
    """A piece of input that was refused: where it is, why, and how its text begins."""

    source: str
    line: int
    column: int
    reason: str
    text: str
    kind: RejectKind = "malformed"

    def error(self) -> DataError:
        """The error of a run that malformed input ends; a line or column of 0 is unknown."""
        return DataError(
            self.reason, source=self.source or None, line=self.line or None, column=self.column or None
        )


@dataclass(slots=True)
class Chunk:
    """Kept rows of a piece in source order; their ids live in the arena that the reader was given.

    number: position of a row among the statements of the piece; time: microseconds where the row is the
    timestamp of the graph s (then g is 0) or of the graph g that it is in, else NO_TIME. A row with s = 0 only
    marks that the graph g begins or goes on here; a timestamp that no query wants as data has p = o = 0. bnodes
    counts blank-node terms whose labels still await the scope of their event.

    In a chunk of whole events (the mode `events`), number is the place of the row's event among those of the chunk,
    from 0 and without gaps, and time is the time of the event; see `EventFramer` for events without triples or times.
    """

    statements: int
    lines: int
    number: Ids
    g: Ids
    s: Ids
    p: Ids
    o: Ids
    time: Ids
    bnodes: int = 0
    rejects: tuple[Reject, ...] = ()
    unnamed: int = 0
    """Statements of the default graph that are not timestamps."""
    source: str = ""
    blanks: int = 0
    """Blank nodes in the rows, whether their labels await a scope or not."""
    left_out: int = 0
    """Events that are left out without being refused: aborted ones, and those of other streams."""
    refused: bool = False
    """The piece is a document of which nothing could be read: where a piece is an event, this is none."""
    whole: bool = False
    """The piece is a whole document and one event, however many statements it has."""
    op: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """1 or -1, insert or delete (0: the row of an event without triples); left out, all rows are inserts."""

    def __post_init__(self) -> None:
        rows = self.s.size
        if not self.op.size:
            self.op = np.ones(rows, dtype=np.int64)
        if (
            not self.number.size
            == self.g.size
            == rows
            == self.p.size
            == self.o.size
            == self.time.size
            == self.op.size
        ):
            raise ValueError("columns of different lengths")

    def __len__(self) -> int:
        return int(self.s.size)

    def pack(self, arena: Arena) -> bytes:
        """The chunk and the terms that it needs, as bytes.

        Terms are numbered within the chunk and begin where they differ from the one before, columns are as narrow as
        their values: what is sent is paid for several times on the way.
        """
        numbers, terms = arena.export(np.concatenate([self.g, self.s, self.p, self.o]))
        g, s, p, o = numbers.reshape(4, -1)
        rows = _steps(self.number), _steps(g), _steps(s), p, o, self.time, self.op
        columns = [narrow(column) for column in (*rows, terms.shared, terms.sizes)]
        front = json.dumps(
            {
                "statements": self.statements,
                "lines": self.lines,
                "bnodes": self.bnodes,
                "unnamed": self.unnamed,
                "blanks": self.blanks,
                "left_out": self.left_out,
                "source": self.source,
                "refused": self.refused,
                "whole": self.whole,
                "rejects": [asdict(reject) for reject in self.rejects],
                "rows": len(self),
                "terms": len(terms.sizes),
                "columns": [c if isinstance(c, int) else c.dtype.str for c in columns],
            }
        ).encode()
        body = b"".join([front, *(c.data for c in columns if not isinstance(c, int)), terms.rests.data])
        squeezed = pa.compress(body, codec="lz4_raw", asbytes=True)
        pays = len(squeezed) < len(body) * 9 // 10
        header = _HEADER.pack(_MAGIC, int(pays), len(body), len(front))
        return header + (squeezed if pays else body)

    @staticmethod
    def unpack(data: bytes | memoryview, arena: Arena) -> Chunk:
        """The chunk of packed bytes; its terms enter the arena."""
        if len(data) < _HEADER.size:
            raise ValueError("not a packed chunk")
        magic, squeezed, size, front_size = _HEADER.unpack(data[: _HEADER.size])
        if magic != _MAGIC:
            raise ValueError(f"not a packed chunk of this version: {bytes(magic)!r}")
        body = memoryview(data)[_HEADER.size :]
        if squeezed:
            body = memoryview(pa.decompress(pa.py_buffer(body), size, codec="lz4_raw", asbytes=True))
        front = json.loads(bytes(body[:front_size]))
        at = front_size
        columns: list[NDArray[Any]] = []
        lengths = [front["rows"]] * len(_COLUMNS) + [front["terms"]] * 2
        for kind, length in zip(front["columns"], lengths, strict=True):
            if isinstance(kind, int):
                columns.append(np.full(length, kind, dtype=np.int64))
            else:
                columns.append(np.frombuffer(body, np.dtype(kind), length, at))
                at += columns[-1].nbytes
        number, g, s, p, o, time, op, shared, sizes = columns
        rests = np.frombuffer(body, np.uint8, offset=at)
        ids = arena.enter(FrontCoded(shared.astype(np.uint8), sizes.astype(np.uint32), rests))
        return Chunk(
            statements=front["statements"],
            lines=front["lines"],
            number=_sums(number),
            g=ids[_sums(g)],
            s=ids[_sums(s)],
            p=ids[p],
            o=ids[o],
            time=time.astype(np.int64),
            bnodes=front["bnodes"],
            rejects=tuple(Reject(**reject) for reject in front["rejects"]),
            unnamed=front["unnamed"],
            blanks=front.get("blanks", 0),
            left_out=front.get("left_out", 0),
            source=front["source"],
            refused=front.get("refused", False),
            whole=front.get("whole", False),
            op=op.astype(np.int64),
        )

    @staticmethod
    def concatenate(chunks: Sequence[Chunk]) -> Chunk:
        """Chunks of one source that follow each other, as one."""
        if len(chunks) == 1:
            return chunks[0]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in _COLUMNS
        }
        rejects: list[Reject] = []
        row = statements = lines = 0
        for chunk in chunks:
            columns["number"][row : row + len(chunk)] += statements
            rejects += (replace(reject, line=reject.line and reject.line + lines) for reject in chunk.rejects)
            row += len(chunk)
            statements += chunk.statements
            lines += chunk.lines
        return replace(
            chunks[0],
            **columns,
            statements=statements,
            lines=lines,
            bnodes=sum(chunk.bnodes for chunk in chunks),
            unnamed=sum(chunk.unnamed for chunk in chunks),
            blanks=sum(chunk.blanks for chunk in chunks),
            left_out=sum(chunk.left_out for chunk in chunks),
            rejects=tuple(rejects),
        )

    def picked(self, rows: Ids) -> Chunk:
        """These rows of the chunk, with everything else as it is."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def later(self, shift: int) -> Chunk:
        """The chunk with all times later by so many microseconds."""
        return replace(self, time=np.where(self.time <= SAME_TIME, self.time, self.time + shift))

    def records(self, arena: Arena) -> bytes:
        """The terms that the chunk needs, from the arena that it was read into."""
        return arena.records_of(np.concatenate([self.g, self.s, self.p, self.o]))

    def adopted(self, records: bytes | memoryview, arena: Arena) -> Chunk:
        """The chunk with its terms in another arena, where ids that collide are replaced."""
        differing = arena.merge(records)
        if differing is None:
            return self
        g, s, p, o = (replace_ids(column, *differing) for column in (self.g, self.s, self.p, self.o))
        return replace(self, g=g, s=s, p=p, o=o)


def _steps(column: NDArray[Any]) -> NDArray[Any]:
    """What each value adds to the one before: little, where they come in order."""
    return np.diff(column, prepend=column.dtype.type(0))


def _sums(steps: NDArray[Any]) -> Ids:
    return np.cumsum(steps, dtype=np.int64)


def narrow(column: NDArray[Any]) -> NDArray[Any] | int:
    """The column in as few bytes as it fits into; if all values are the same, that value."""
    if not column.size:
        return 0
    low, high = int(column.min()), int(column.max())
    if low == high:
        return low
    kinds = (np.uint8, np.uint16, np.uint32) if low >= 0 else (np.int8, np.int16, np.int32)
    fits = (kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return column.astype(next(fits, np.int64))


def replace_ids(column: Ids, old: Ids, new: Ids) -> Ids:
    """The column with each id of `old` replaced by its neighbour in `new`."""
    order = np.argsort(old)
    place = np.searchsorted(old[order], column).clip(max=old.size - 1)
    hit = old[order][place] == column
    return np.where(hit, new[order][place], column)
