"""The content of a store's table at an instant, pattern by pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thalweg.algebra.query import DEFAULT_GRAPH, Source
from thalweg.algebra.terms import Const, Pattern
from thalweg.rdf.arena import Arena
from thalweg.spark.store_table import FOREVER, DataFile, Frequency, Table

SCHEMA = "stream string, time long, op byte, s string, sid long, p string, pid long, o string, oid long, until long"
_TRIPLE = ("s", "sid", "p", "pid", "o", "oid")


@dataclass(frozen=True)
class Content:
    """What is in a table at the instant `end` of what came after `start`, both in microseconds or None."""

    spark: SparkSession
    table: Table
    files: tuple[DataFile, ...]
    """The files that counted when the question was asked."""
    start: int | None = None
    end: int | None = None

    @cached_property
    def frequencies(self) -> dict[str, Frequency]:
        """The predicate frequency table."""
        return self.table.frequencies()

    def triples(self, pattern: Pattern, source: Source) -> DataFrame:
        """The triples of a graph that a pattern can match, as a set; constants are compared, variables are not."""
        files = [file for file in self.files if self._concerns(file, pattern)]
        streams = {stream for file in files for stream in file.streams}
        chosen = _streams(source)
        if chosen is not None:
            files = [file for file in files if chosen.intersection(file.streams)]
        if not files:
            return self.spark.createDataFrame([], SCHEMA).select(*_TRIPLE)
        rows = self.read([file.path for file in files])
        for place, term in zip("spo", pattern.terms, strict=True):
            if isinstance(term, Const):
                rows = rows.filter((F.col(f"{place}id") == id_of(term.text)) & (F.col(place) == term.text))
        if chosen is not None and not streams <= chosen:
            rows = rows.filter(F.col("stream").isin(*chosen))
            streams &= chosen
        if self.start is not None:
            rows = rows.filter(F.col("time") > self.start)
        if self.end is not None:
            rows = rows.filter(F.col("time") <= self.end)
        if all(file.closed for file in files):
            # A triple of a stream has one row at a time that neither ended nor begins later.
            alive = F.col("until") == FOREVER if self.end is None else F.col("until") > self.end
            rows = rows.filter((F.col("op") > 0) & alive)
            return rows.select(*_TRIPLE) if len(streams) == 1 else rows.select(*_TRIPLE).dropDuplicates()
        if not any(file.deletes for file in files):
            return rows.select(*_TRIPLE).dropDuplicates()
        latest = F.max(F.struct("time", "op"))
        found = rows.groupBy("stream", *_TRIPLE).agg(latest.alias("latest")).filter("latest.op > 0")
        return found.select(*_TRIPLE) if len(streams) == 1 else found.select(*_TRIPLE).dropDuplicates()

    def _concerns(self, file: DataFile, pattern: Pattern) -> bool:
        if isinstance(pattern.p, Const) and file.p != pattern.p.text:
            return False
        return (self.end is None or file.first <= self.end) and (self.start is None or file.last > self.start)

    def read(self, paths: list[str]) -> DataFrame:
        """The rows of files."""
        whole = [str(self.table.path / path) for path in paths]
        return self.spark.read.schema(SCHEMA).parquet(*whole)


def _streams(source: Source) -> set[str] | None:
    """The streams whose graphs a source is made of; None: all. FROM NAMED alone leaves the default graph none."""
    return None if DEFAULT_GRAPH in source.graphs else set(source.graphs)


def id_of(text: str) -> int:
    """The id of a term: the same in all processes."""
    arena = Arena()
    return arena.intern(text.encode())
