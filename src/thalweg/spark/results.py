"""Result rows as Arrow: from the engine's columns of ids to a Spark frame without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from thalweg.algebra.query import Query
from thalweg.algebra.scope import TRIPLE
from thalweg.algebra.windows import Range
from thalweg.answers import ContinuousQuery
from thalweg.errors import UsageError
from thalweg.instants import as_instant, show_instant
from thalweg.io.graphs import events_of
from thalweg.kernels.arena import locate
from thalweg.kernels.bits import SLACK
from thalweg.kernels.texts import lay_out
from thalweg.operators.views import SIGNS, Delta
from thalweg.rdf.arena import Arena
from thalweg.rows import Row

RESULT_SCHEMA = (
    "at timestamp, op string, window struct<start timestamp, end timestamp>, event string, "
    "bindings map<string, string>"
)
_TIME = pa.timestamp("us", tz="UTC")
ARROW = pa.schema(
    [
        pa.field("at", _TIME),
        pa.field("op", pa.string()),
        pa.field("window", pa.struct([pa.field("start", _TIME), pa.field("end", _TIME)])),
        pa.field("event", pa.string()),
        pa.field("bindings", pa.map_(pa.string(), pa.string())),
    ]
)
_QUERY = b"thalweg.query"
"""The key, in the metadata of packed rows, of the name of their query."""
VARIABLES = "thalweg.variables"
"""The key, in the metadata of the column of the bindings, of the variables that there are."""
QUADS_SCHEMA = "at timestamp, value string"
BLOB_SCHEMA = "shard int, results binary"
_ROWS = 1 << 16
_SIGNS = pa.array([SIGNS[sign] for sign in range(min(SIGNS), max(SIGNS) + 1)])


def texts_of(arena: Arena, ids: np.ndarray) -> pa.Array:
    """The texts of ids as an Arrow column, each distinct one copied once from the arena; 0 is null."""
    coded = pa.array(ids.ravel()).dictionary_encode()
    distinct = coded.dictionary.to_numpy()
    places = np.empty((len(distinct), 2), np.int64)
    locate(arena.slots, arena.log, distinct, places)
    if (places[distinct != 0, 0] < 0).any():
        raise KeyError("the arena lacks a term of the answer")
    offsets = np.zeros(len(distinct) + 1, np.int32)
    np.cumsum(places[:, 1], out=offsets[1:])
    target = np.empty(int(offsets[-1]) + 4 * SLACK, np.uint8)
    lay_out(arena.log, places, offsets, target)
    known = pa.py_buffer(np.packbits(distinct != 0, bitorder="little")) if (distinct == 0).any() else None
    buffers = [known, pa.py_buffer(offsets), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.string(), len(distinct), buffers).take(coded.indices)


def columns_of(query: ContinuousQuery, arena: Arena, delta: Delta) -> pa.RecordBatch:
    """A delta as a record batch of `RESULT_SCHEMA`; an unbound variable is not in the map."""
    rows = len(delta)
    shown, fixed, names = query.names, query.fixed, query.query.columns
    width = len(names)
    # The texts of the kernel's columns lie row by row, the constants behind them: a take puts them in place.
    values = pa.concat_arrays([texts_of(arena, delta.ids), pa.array(fixed.values(), pa.string())])
    place = np.empty((rows, width), np.int64)
    for k, name in enumerate(names):
        if name in fixed:
            place[:, k] = delta.ids.size + list(fixed).index(name)
        else:
            place[:, k] = np.arange(rows) * len(shown) + shown.index(name)
    column = values.take(pa.array(place.ravel()))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(width), rows)))
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32) if width else np.zeros(rows + 1, np.int32)
    if column.null_count or not delta.op.all():
        # A report with an empty answer binds nothing, constants neither.
        bound = column.is_valid().to_numpy(zero_copy_only=False) & np.repeat(delta.op != 0, width)
        offsets = np.concatenate([[0], np.cumsum(bound)])[offsets].astype(np.int32)
        column, keys = column.filter(pa.array(bound)), keys.filter(pa.array(bound))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(delta.at).cast(_TIME),
            _SIGNS.take(pa.array(delta.op + 1)),
            _windows(query.query, delta.at),
            texts_of(arena, delta.graph) if query.query.per_event else pa.nulls(rows, pa.string()),
            pa.MapArray.from_arrays(pa.array(offsets), keys, column),
        ],
        schema=ARROW,
    )


def _windows(query: Query, at: np.ndarray) -> pa.Array:
    """The window of each row, from its start to its end, where all windows of a query have one length."""
    kind = ARROW.field("window").type
    widths = {w.width if isinstance(w, Range) else None for w in query.windows}
    (width, *others) = widths
    if width is None or others:
        return pa.nulls(len(at), kind)
    bounds = [pa.array(instant).cast(_TIME) for instant in (at - width, at)]
    return pa.StructArray.from_arrays(bounds, fields=list(kind))


def pack_results(query: ContinuousQuery, arena: Arena, delta: Delta, name: str = "") -> Iterator[bytes]:
    """The new rows of a query, as Arrow streams of some ten thousand rows each; of a set of queries with its name."""
    for start in range(0, len(delta), _ROWS):
        yield packed_rows(columns_of(query, arena, delta[start : start + _ROWS]), name)


def packed_rows(batch: pa.RecordBatch, name: str = "") -> bytes:
    """Rows of `RESULT_SCHEMA` as an Arrow stream, with the name of the query that they are of."""
    sink = pa.BufferOutputStream()
    schema = ARROW.with_metadata({_QUERY: name.encode()}) if name else ARROW
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def unpack_results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The step after the engine: packed results as the rows that they hold."""
    for batch in batches:
        for blob in batch.column("results"):
            yield from pa.ipc.open_stream(blob.as_buffer())


def unpack_named_results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for a set of queries: the first column has the name of the query."""
    for batch in batches:
        for blob in batch.column("results"):
            stream = pa.ipc.open_stream(blob.as_buffer())
            name = stream.schema.metadata[_QUERY].decode()
            for rows in stream:
                names = pa.array([name] * rows.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays([names, *rows.columns], ["query", *ARROW.names])


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Collected results as the rows of the in-process engine."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        at = batch.column("at").cast(pa.int64()).to_pylist()
        columns = (batch.column(name).to_pylist() for name in ("op", "event", "bindings"))
        for when, op, graph, bindings in zip(at, *columns, strict=True):
            yield Row(as_instant(when), op, dict(bindings), graph)


def pack_quads(stream: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a CONSTRUCT as graphs of N-Quads, one a row; all of a task at once, so that no graph is cut."""
    rows = [row for row in rows_of(pa.Table.from_batches(batches, ARROW)) if row.op != "0"]
    if any(row.op == "-" for row in rows):
        raise UsageError(
            "N-Quads cannot take a triple back: register the query as ISTREAM (what comes) or RSTREAM (all of it)"
        )
    if any(row.bindings.keys() != set(TRIPLE) for row in rows):
        raise UsageError("quads are made of the results of a CONSTRUCT: these are of a SELECT")
    times, graphs = [show_instant(row.at) for row in rows], [row.graph for row in rows]
    events = list(events_of(stream, times, graphs, [[row[name] for row in rows] for name in TRIPLE]))
    at = pa.array([rows[first].at for first, _ in events], pa.int64()).cast(_TIME)
    value = pa.array([lines.removesuffix("\n") for _, lines in events], pa.string())
    yield pa.RecordBatch.from_arrays([at, value], ["at", "value"])
