"""Side outputs as streams of their own: what came too late, and what was refused.

The folders that `run` is given as `late` and `quarantine` fill with files of JSON lines, one for each batch and shard
that has something to write. A file appears at once and whole, and a batch that is run again writes it again under the
same name: whoever reads the folder sees each record once.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

LATE_SCHEMA = "stream string, at timestamp, watermark timestamp, event long, reason string"
QUARANTINE_SCHEMA = "source string, line long, column long, reason string, text string"


def read_late(spark: SparkSession, folder: str, **options: str) -> DataFrame:
    """The streaming frame of events that came too late, with the columns of `LATE_SCHEMA`.

    `at` is the time of the event, `watermark` that of its stream when it came, `event` its number in the stream.
    `options` are those of Spark's file source (`cleanSource`).
    """
    written = LATE_SCHEMA.replace("timestamp", "long")  # microseconds
    times = {name: F.timestamp_micros(name) for name in ("at", "watermark")}
    return _lines(spark, folder, written, options).withColumns(times)


def read_quarantine(spark: SparkSession, folder: str, **options: str) -> DataFrame:
    """The streaming frame of input that was refused, with the columns of `QUARANTINE_SCHEMA`.

    `source`, `line` and `column` are where it was (0 where that is not known), `reason` why, and `text` how it begins.
    `options` are those of Spark's file source.
    """
    return _lines(spark, folder, QUARANTINE_SCHEMA, options)


def _lines(spark: SparkSession, folder: str, schema: str, options: dict[str, str]) -> DataFrame:
    path = os.path.abspath(folder)
    if isinstance(spark, SparkSession):  # else it is of Connect, and the folder may be the server's
        os.makedirs(path, exist_ok=True)  # nothing may have been late as yet
    return (
        spark.readStream.schema(schema)
        .option("pathGlobFilter", "batch-*.jsonl")
        .options(**options)
        .json(path)
    )
