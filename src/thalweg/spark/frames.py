"""Frames of any source as events: `events(df, payload="value", time="timestamp", stream=...)`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from thalweg.errors import UsageError
from thalweg.rdf.formats import format_named

_COLUMNS = {
    "stream": "string",
    "path": "string",
    "source": "string",
    "start": "long",
    "end": "long",
    "seq": "long",
    "syntax": "string",
    "last": "boolean",
    "payload": "binary",
    "timed": "boolean",
    "time": "long",
    "said": "string",
    "op": "string",
    "mapping": "string",
}
_KAFKA = ("topic", "partition", "offset")


def events(
    df: DataFrame,
    *,
    stream: str | Column,
    payload: str | Column = "value",
    format: str = "nt",
    time: str | Column | None = None,
    op: str | Column | None = None,
    source: str | Column | None = None,
) -> DataFrame:
    """The rows of a streaming frame as events for `run`; `df` may be of Kafka, files, Delta, rate, memory or any other.

    `payload` is the column with the RDF text (string or binary), `format` its format: nt, nq, turtle, trig,
    jsonld, rdfxml or n3; or one that states its events with ops and times of their own: rdfp, ru, jsonl or jelly, of
    which `time` is the time of those that have none. With `time` (a timestamp, integers of milliseconds, or
    xsd:dateTime texts) a payload of the other formats is one event; without, each graph in it is one, and the payload
    states its time (`prov:generatedAtTime`). `stream` is the stream's IRI, or a Column with it: rows of streams that
    the query does not read are left out. `op` is a column with insert or delete. `source` is a column with where a row
    came from, for messages; for Kafka it is topic, partition and offset.

    Several frames are joined with `unionByName`. The order of rows means nothing within a batch.
    """
    known = format_named(format)
    if known.has_rows:
        raise UsageError(
            f"{known.title} is no payload: make columns of it (from_csv, from_json) and use rows"
        )
    if time is None and not (known.has_graphs or known.has_events):
        raise UsageError(f"{known.title} has no time: name the column of the time (time=)")
    text = _column(df, payload, "payload")
    kind = df.select(text).schema[0].dataType
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise UsageError(f"the payload is a string or binary, not {kind.simpleString()}")
    if source is None and set(_KAFKA) <= set(df.columns):
        source = F.concat_ws("/", *(F.col(name).cast("string") for name in _KAFKA))
    when, said = _times(df, time)
    return df.select(
        # A row without a stream is refused where all rows are read.
        (F.lit(stream) if isinstance(stream, str) else F.coalesce(stream, F.lit(""))).alias("stream"),
        (F.lit(None) if source is None else _column(df, source, "source")).cast("string").alias("source"),
        F.lit(format).alias("syntax"),
        text.cast("binary").alias("payload"),
        F.lit(time is not None).alias("timed"),
        when.cast("long").alias("time"),
        said.cast("string").alias("said"),
        (F.lit(None) if op is None else _column(df, op, "op")).cast("string").alias("op"),
    )


def uniform(frame: DataFrame) -> DataFrame:
    """A frame of `format("rdf")`, of `events`, or of both, with all columns that the encoding step expects."""
    if not {"path", "payload"} & set(frame.columns) or "stream" not in frame.columns:
        raise UsageError(
            'the events must come from format("rdf") or from thalweg.spark.events: there is no column '
            f"{'path' if 'stream' in frame.columns else 'stream'!r}"
        )
    return frame.select(
        *(
            F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in _COLUMNS.items()
        )
    )


def _column(df: DataFrame, given: str | Column, what: str) -> Column:
    if isinstance(given, Column):
        return given
    if given not in df.columns:
        raise UsageError(f"{what}: there is no column {given!r} among {', '.join(df.columns)}")
    return df[given]


def _times(df: DataFrame, time: str | Column | None) -> tuple[Column, Column]:
    """The time as microseconds, or as a text that the encoding step reads."""
    nothing = F.lit(None)
    if time is None:
        return nothing, nothing
    column = _column(df, time, "time")
    kind = df.select(column).schema[0].dataType
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column), nothing
    if isinstance(kind, T.TimestampNTZType):
        # As a text: Spark would take it for a time of the session's zone. Ours is UTC.
        return nothing, F.concat(F.replace(column.cast("string"), F.lit(" "), F.lit("T")), F.lit("Z"))
    if isinstance(kind, T.IntegralType):
        return column.cast("long") * 1000, nothing
    if isinstance(kind, T.StringType):
        return nothing, column
    raise UsageError(
        f"the time is a timestamp, an integer of milliseconds or a text, not {kind.simpleString()}"
    )
