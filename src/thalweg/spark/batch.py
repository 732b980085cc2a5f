"""Files as tables: `spark.read.format("rdf")` in batch, with the pieces of files or with their statements as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.rdf.formats import FORMATS, Format

if TYPE_CHECKING:
    from thalweg.rdf.arena import Arena, Ids
    from thalweg.rdf.chunk import Chunk, Reject
    from thalweg.rdf.formats import Reader
    from thalweg.spark.source import RdfStreamReader, Share

_NAMES = ("stream", "source", "subject", "predicate", "object", "graph", "error")
STATEMENT_SCHEMA = ", ".join(f"{name} string" for name in _NAMES)
_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in _NAMES])


def statements(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """The statements of a file, a folder or a pattern as a table (in batch), with the options of `format("rdf")`."""
    return spark.read.format("rdf").options(**options, rows="statements").load(path)


class RdfReader(DataSourceReader):
    """Reads all files that are there, in pieces that tasks share."""

    def __init__(self, planner: RdfStreamReader, *, statements: bool) -> None:
        """`planner` plans the pieces of a stream that ends with what is there now."""
        self.planner = planner
        self.statements = statements

    def partitions(self) -> Sequence[InputPartition]:
        """The pieces of all files, dealt to tasks."""
        start = self.planner.initialOffset()
        end = self.planner.latestOffset(start, ReadAllAvailable())
        return self.planner.partitions(start, end) or [_nothing(self.planner.options.stream)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task."""
        if not self.statements:
            yield from self.planner.read(partition)
            return
        share: Any = partition
        for piece in share.pieces:
            if piece.path:
                yield from statements_of(share.stream, piece.__dict__)


def _nothing(stream: str) -> Share:
    from thalweg.spark.source import Share

    return Share(stream, [])


@dataclass(frozen=True)
class _Reading:
    """How the bytes of a table become rows: every statement as it is, blank nodes with the labels of their file."""

    options: RunOptions = field(default_factory=RunOptions)

    def reader(self, arena: Arena, piece: dict[str, Any]) -> Reader:
        """A reader of one piece into an arena."""
        from thalweg.rdf.prune import Prune

        return FORMATS[piece["syntax"]].reader(
            arena,
            Prune.everything(),
            source=piece["source"],
            blank_nodes="stable",
            per_event=0,
            time_predicate=b"",
        )


def statements_of(stream: str, piece: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """The statements of a piece of a file, and a row with an `error` for each malformed part of it."""
    from thalweg.spark.encode import parts_of

    for arena, chunk, _ in parts_of(_Reading(), piece):
        if len(chunk.s):
            yield _table(stream, piece["source"], arena, chunk)
        if chunk.rejects:
            errors = [_shown(reject, piece["start"]) for reject in chunk.rejects]
            yield _batch(len(errors), stream=stream, source=piece["source"], error=errors)


def _table(stream: str, source: str, arena: Arena, chunk: Chunk) -> pa.RecordBatch:
    terms = {
        "subject": arena.texts(chunk.s),
        "predicate": arena.texts(chunk.p),
        "object": arena.texts(chunk.o),
        "graph": _graphs(arena, chunk.g),
    }
    return _batch(len(chunk.s), stream=stream, source=source, **terms)


def _graphs(arena: Arena, g: Ids) -> list[str | None]:
    texts: list[str | None] = [None] * len(g)
    named = g.nonzero()[0]
    for place, text in zip(named.tolist(), arena.texts(g[named]), strict=True):
        texts[place] = text
    return texts


def _batch(count: int, **columns: Any) -> pa.RecordBatch:
    cells = (
        [columns[name]] * count if isinstance(columns.get(name), str) else columns.get(name)
        for name in _NAMES
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(c or [None] * count, pa.string()) for c in cells], schema=_SCHEMA
    )


def _shown(reject: Reject, start: int) -> str:
    after = f" after byte {start}" if start else ""
    return f"line {reject.line}{after}, column {reject.column}: {reject.reason}: {reject.text}"


def check_statements(formats: Sequence[Format]) -> None:
    """Refuses files whose formats hold changes and not statements."""
    for format in formats:
        if format.has_events:
            raise UsageError(
                f"{format.title} holds events, and a table of statements has no place for them: use readStream"
            )


def planned(planner: RdfStreamReader) -> RdfStreamReader:
    """The planner of a stream as one that ends with what is there."""
    planner.options = replace(planner.options, end_of_stream=True, max_bytes=None, max_files=None)
    return planner
