"""The streaming data source `format("rdf")`: it plans pieces of growing files and carries no payload.

The rows are byte ranges; the step that encodes them reads the bytes in the same task, so that no byte of a
file crosses the JVM.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from glob import has_magic
from typing import Any

from pyspark import accumulators
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from thalweg.errors import UsageError
from thalweg.rdf.formats import FORMATS, readable_suffixes
from thalweg.spark.batch import STATEMENT_SCHEMA, RdfReader, check_statements, planned
from thalweg.spark.pieces import (
    BY_SUFFIX,
    Found,
    Piece,
    Position,
    admissible,
    admit,
    format_for,
    listing,
    local_path,
    plan,
)

PIECE_SCHEMA = (
    "stream string, path string, source string, start long, end long, seq long, syntax string, last boolean"
)
MIB = 1 << 20
_WAVES = 4
"""Tasks for each core that read a large batch, at most."""
_WORTH = 256 * MIB
"""Bytes that are worth a task of their own."""
_READABLE = f"{readable_suffixes()}; others with option syntax"
_OPTIONS = (
    *("path", "stream", "syntax", "maxBytesPerTrigger", "maxFilesPerTrigger", "pieceBytes", "settle"),
    *("endOfStream", "order", "partitions", "rows"),
)
_NAMES = {name.lower(): name for name in _OPTIONS}
"""Options by the names that Spark compares, in small letters."""
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size_of(text: str, option: str) -> int:
    """A number of bytes, as `4096`, `64k`, `16m` or `1g`.

    >>> size_of("16m", "pieceBytes")
    16777216
    """
    number = text.strip().lower().removesuffix("ib").removesuffix("b").strip()
    unit = number[-1:] if number[-1:].isalpha() else ""
    digits = number.removesuffix(unit).strip()
    if unit not in _UNITS or not digits.isdigit() or int(digits) == 0:
        raise UsageError(
            f"option {option} of the rdf source: {text!r} is not a size; write 4096, 64k, 16m or 1g"
        )
    return int(digits) * _UNITS[unit]


def _is_of_a_table(name: str) -> bool:
    """Whether Spark adds an option by itself, as it does for tables of its catalog."""
    return name.startswith("option.") or name in ("owner", "provider", "location", "external", "comment")


def _nearest(name: str) -> str:
    """Which option was meant, or which there are.

    >>> _nearest("endofstreams")
    'did you mean endOfStream?'
    """
    near = get_close_matches(name.lower(), _NAMES, n=1)
    return f"did you mean {_NAMES[near[0]]}?" if near else f"there are {', '.join(_OPTIONS)}"


def _flag(text: str, option: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise UsageError(f"option {option} of the rdf source: {text!r} is neither true nor false")
    return text.strip().lower() == "true"


@dataclass(frozen=True)
class SourceOptions:
    """The options of the source, checked."""

    path: str
    given: str
    stream: str
    syntax: str | None = None
    max_bytes: int | None = 1 << 30
    max_files: int | None = None
    piece_bytes: int = 32 * MIB
    settle: float = 5.0
    end_of_stream: bool = False
    order: str = "name"
    partitions: int = 0
    rows: str = "pieces"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SourceOptions:
        """Options from their texts; whatever is wrong is refused with a sentence."""
        options = {key.lower(): value for key, value in given.items()}
        for name in given:
            if name.lower() not in _NAMES and not _is_of_a_table(name.lower()):
                raise UsageError(f"the rdf source has no option {name}: {_nearest(name)}")
        if "path" not in options:
            raise UsageError("the rdf source needs a path: .load(path) or .option('path', path)")
        path = local_path(options["path"])
        if not os.path.exists(path) and not has_magic(path):
            raise UsageError("no such file or folder", source=options["path"])
        syntax = options.get("syntax")
        if syntax is not None and syntax not in (*FORMATS, BY_SUFFIX):
            raise UsageError(
                f"option syntax of the rdf source: {syntax!r} is not one of {', '.join(FORMATS)}"
            )
        if os.path.isfile(path) and format_for(path, syntax) is None:
            raise UsageError(
                f"unknown suffix (expected {readable_suffixes()}): set the option syntax",
                source=options["path"],
            )
        ends = _flag(options.get("endofstream", "false"), "endOfStream")
        # With a syntax all files can be read. A folder without any is an empty stream.
        if ends and not listing(path, syntax) and listing(path, "nt"):
            raise UsageError(f"there is no file to read here ({_READABLE})", source=options["path"])
        order = options.get("order", "name")
        if order not in ("name", "mtime"):
            raise UsageError(f"option order of the rdf source: {order!r} is neither name nor mtime")
        rows = options.get("rows", "pieces")
        if rows not in ("pieces", "statements"):
            raise UsageError(f"option rows of the rdf source: {rows!r} is neither pieces nor statements")
        limit = options.get("maxbytespertrigger", "1g")
        try:
            settle = float(options.get("settle", "5"))
            files = int(options["maxfilespertrigger"]) if "maxfilespertrigger" in options else None
            partitions = int(options.get("partitions", "0"))
        except ValueError as wrong:
            raise UsageError(
                f"options settle, maxFilesPerTrigger and partitions are numbers: {wrong}"
            ) from None
        if files is not None and files < 1:
            raise UsageError("option maxFilesPerTrigger of the rdf source is at least 1")
        return cls(
            path=path,
            given=options["path"] if ":" not in options["path"] else path,
            stream=options.get("stream", "file://" + path),
            syntax=syntax,
            max_bytes=None if limit == "none" else size_of(limit, "maxBytesPerTrigger"),
            max_files=files,
            piece_bytes=size_of(options.get("piecebytes", "32m"), "pieceBytes"),
            settle=settle,
            end_of_stream=ends,
            order=order,
            partitions=partitions,
            rows=rows,
        )


class RdfSource(DataSource):
    """The data source behind `spark.readStream.format("rdf")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "rdf"

    def schema(self) -> str:
        """One row is one piece of a file; on request, in batch, one statement."""
        options = SourceOptions.of(self.options)
        _send_no_profile()
        return PIECE_SCHEMA if options.rows == "pieces" else STATEMENT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of what is there now, in batch."""
        _send_no_profile()
        options = SourceOptions.of(self.options)
        if options.rows == "statements":
            found = [format_for(file.path, options.syntax) for file in listing(options.path, options.syntax)]
            check_statements([format for format in found if format is not None])
        return RdfReader(planned(RdfStreamReader(options)), statements=options.rows == "statements")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The planner of this source's batches."""
        _send_no_profile()
        options = SourceOptions.of(self.options)
        if options.rows == "statements":
            raise UsageError(
                "rows=statements is for spark.read: a stream has pieces, which tw.spark.run takes"
            )
        return RdfStreamReader(options)


class Share(InputPartition):
    """The pieces of one task."""

    def __init__(self, stream: str, pieces: list[Piece]) -> None:
        self.stream = stream
        self.pieces = pieces


class RdfStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches over files that grow and folders that fill. Lives on the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.target: dict[str, int] | None = None
        self.shrunk: set[str] = set()
        self.grown: set[str] = set()
        self.waiting = False
        self.seen: dict[str, tuple[int, int]] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Nothing admitted."""
        return Position().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of the options; bytes where both are set (files are then respected as well)."""
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        if self.options.max_files is not None:
            return ReadMaxFiles(self.options.max_files)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix what this run reads: what is there now."""
        self.target = self._snapshot()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch within the limit; `start` itself where nothing is new."""
        position = Position.of_json(start)
        if self.options.end_of_stream and self.target is None:
            self.target = self._snapshot()
        bounded = not isinstance(limit, ReadAllAvailable)
        available = self._available(position)
        end = admit(
            position,
            available,
            max_bytes=self.options.max_bytes if bounded else None,
            max_files=self.options.max_files if bounded else None,
        )
        nothing_new = end.seq == position.seq
        if not self.options.end_of_stream:
            # One that ended and is now followed is reopened at once, so that streams beside it wait for it.
            return start if nothing_new and not position.ended else end.to_json()
        if nothing_new and position.ended:
            return start
        if all(end.files.get(found.name, 0) >= reach for found, reach in available):
            return Position(end.files, end.seq, ended=True).to_json()
        return start if nothing_new else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The pieces of a batch, dealt to tasks so that each has about as many bytes."""
        first, after = Position.of_json(start), Position.of_json(end)
        size = after.seq - first.seq
        # A large batch is dealt to more tasks than cores: one that is slower than the others takes fewer of them.
        cores = max(2, os.cpu_count() or 2)
        tasks = self.options.partitions or cores * max(1, min(_WAVES, size // (cores * _WORTH)))
        share = -(-size // tasks)
        pieces = plan(
            first,
            after,
            path_of=self._path_of,
            syntax=self.options.syntax,
            # small batches are cut smaller, so that all cores parse; a piece below 1 MiB is not worth a task
            piece_bytes=min(self.options.piece_bytes, max(share, MIB)),
        )
        hands: list[list[Piece]] = [[] for _ in range(min(tasks, len(pieces)))]
        weight = [0] * len(hands)
        for piece in pieces:
            lightest = weight.index(min(weight))
            hands[lightest].append(piece)
            weight[lightest] += max(1, piece.end - piece.start)
        return [Share(self.options.stream, hand) for hand in hands]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of one task: its pieces. Runs in the task."""
        assert isinstance(partition, Share)
        for p in partition.pieces:
            yield (partition.stream, p.path, p.source, p.start, p.end, p.seq, p.syntax, p.last)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is held for batches that are done."""

    def stop(self) -> None:
        """Nothing is held open."""

    def _path_of(self, name: str) -> tuple[str, str]:
        """The path of a file, and what it is called: as the in-process runner would, for a path as given."""
        given = self.options.given
        if not os.path.isabs(name):
            return os.path.join(self.options.path, name), os.path.join(given, name)
        if name == self.options.path:
            return name, given
        return name, name if os.path.isabs(given) else os.path.relpath(name)

    def _listing(self) -> list[Found]:
        found = listing(self.options.path, self.options.syntax)
        if not found and not self.waiting:
            self.waiting = True
            print(
                f"thalweg: there is no file to read in {self.options.path} yet ({_READABLE})", file=sys.stderr
            )
        if self.options.order == "mtime":
            found.sort(key=lambda f: (f.mtime, f.name))
        return found

    def _snapshot(self) -> dict[str, int]:
        complete = self.options.end_of_stream
        return {f.name: self._reach(f, 0, complete=complete) for f in self._listing()}

    def _available(self, position: Position) -> list[tuple[Found, int]]:
        # Files that were begun come first and in the order of their first sight: a line of them is older.
        begun = {name: rank for rank, name in enumerate(position.files)}
        found = sorted(self._listing(), key=lambda f: begun.get(f.name, len(begun)))
        reached = []
        for file in found:
            done = position.files.get(file.name, 0)
            if file.size < done and file.name not in self.shrunk:
                self.shrunk.add(file.name)
                print(
                    f"thalweg: {file.path} shrank from {done} to {file.size} bytes; "
                    "it is read on when it has grown again",
                    file=sys.stderr,
                )
            if done and file.size > done and file.whole:
                self._note_grown(file)
                reach = done
            elif self.target is not None:
                reach = min(self.target.get(file.name, 0), max(file.size, done))
            else:
                reach = self._reach(file, done, complete=False)
            reached.append((file, reach))
        return reached

    def _note_grown(self, file: Found) -> None:
        if file.name not in self.grown:
            self.grown.add(file.name)
            why = "it is compressed" if file.splittable else "it is one document"
            print(
                f"thalweg: {file.path} has grown and is not read again, because {why}; "
                "put what is new into another file",
                file=sys.stderr,
            )

    def _reach(self, file: Found, done: int, *, complete: bool) -> int:
        """How far a file may be read now; where it was if it is gone since it was listed."""
        try:
            return self._whole(file, done, complete=complete)
        except OSError:
            return done

    def _whole(self, file: Found, done: int, *, complete: bool) -> int:
        if complete or time.time() - file.mtime >= self.options.settle:
            return admissible(file, done, complete=True)
        known = self.seen.get(file.name)
        if known is not None and known[0] == file.size and known[1] >= done:
            return known[1]
        reach = admissible(file, done, complete=False)
        self.seen[file.name] = (file.size, reach)
        return reach


def _send_no_profile() -> None:
    """Keep the processes that plan a source from sending profiles which nobody asked for.

    The Connect client of Spark 4.3.0 takes them for a failure of whatever long command is under way: the run of a
    pipeline, or a listener (SPARK-59135).
    """
    ids = accumulators.SpecialAccumulatorIds
    for number in (ids.SQL_UDF_PROFIER, ids.SQL_UDF_PROFIER_V2):
        accumulators._accumulatorRegistry.pop(number, None)


def register(spark: SparkSession) -> None:
    """Make `format("rdf")` known to a session; doing it twice is harmless."""
    spark.dataSource.register(RdfSource)
