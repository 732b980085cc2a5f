"""Rows of any frame as events by a mapping: columns travel as Arrow, and no text is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from thalweg.errors import UsageError
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune
from thalweg.rdf.rows import joined
from thalweg.rdf.table_rows import TableBuilder

ROWS = "rows"
"""The syntax of payloads that are rows in Arrow's format."""
_SCHEMA = "stream string, source string, syntax string, payload binary, mapping string"
_ARROW = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("source", pa.string()),
        pa.field("syntax", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("mapping", pa.string()),
    ]
)
_STREAM = "__thalweg_stream"
_NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


def rows(df: DataFrame, *, mapping: Mapping | str, stream: str | Column) -> DataFrame:
    """The rows of a streaming frame as events for `run`, by a mapping; a row is an event.

    Only the columns that the mapping names are read, with their types: a number, a timestamp or a truth value has its
    natural datatype unless the mapping gives another one. A name `a.b` is the field `b` of the column `a`. `stream` is
    the stream's IRI, or a Column with it. The order of rows means nothing within a batch.
    """
    given = Mapping(mapping) if isinstance(mapping, str) else mapping
    if given.rules.time is None:
        raise UsageError(
            "the rows of a frame need a time: add `event: {time: $(column)}` to the mapping",
            source=given.source,
        )
    used = []
    for name in given.rules.columns:
        column = df[f"`{name}`"] if name in df.columns else _field(df, name, given)
        kind = df.select(column).schema[0].dataType
        if isinstance(kind, _NESTED):
            raise UsageError(
                f"column {name} is {kind.simpleString()}: a cell is a text, a number, a time or bytes"
            )
        used.append(column.alias(name))
    named = F.lit(stream) if isinstance(stream, str) else F.coalesce(stream, F.lit(""))
    return df.select(named.alias(_STREAM), *used).mapInArrow(_packer(given.text), _SCHEMA)


def _field(df: DataFrame, name: str, mapping: Mapping) -> Column:
    """A field of a column of structs."""
    if "." in name and name.partition(".")[0] in df.columns:
        return F.col(name)
    mapping.rules.places(df.columns, "the frame")
    raise UsageError(f"there is no column {name!r}")


def _packer(text: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: batches of columns to rows, each with a batch of one stream as bytes."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = batch.column(_STREAM)
            plain = batch.drop_columns([_STREAM])
            for stream in names.unique().to_pylist():
                own = plain.filter(pc.equal(names, stream))
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, own.schema) as writer:
                    writer.write_batch(own)
                payload = sink.getvalue().to_pybytes()
                row = {"stream": stream, "source": None, "syntax": ROWS, "payload": payload, "mapping": text}
                yield pa.RecordBatch.from_pylist([row], schema=_ARROW)

    return pack


def read_rows(prune: Prune, payloads: list[dict[str, Any]]) -> tuple[Arena, Chunk, int]:
    """The events of packed rows of one stream as a chunk, its arena, and the size of the payloads."""
    arena = Arena()
    chunks = []
    size = 0
    for row in payloads:
        table = pa.ipc.open_stream(row["payload"]).read_all()
        builder = TableBuilder(Mapping(row["mapping"]), table.schema, prune, row["stream"])
        chunks.append(builder.build(arena, table))
        size += table.nbytes
    return arena, joined(chunks, [], 0, payloads[0]["stream"]), size
