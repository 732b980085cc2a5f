"""The stateful step: Spark's host of the shard engine. The log of chunks in the state store is the truth.

The engine runs in a process beside the tasks (see `engine_processes`) and is used at exactly the version of the state,
or not at all: after
a retry, a restart or a change of machine they differ, and a new engine is fed with the log.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import TimerValues

from thalweg.errors import UsageError
from thalweg.plan.shares import plain_stream
from thalweg.rdf.timestamped import join_blobs
from thalweg.spark import engine_processes
from thalweg.spark.daemon import freeze_loaded_objects
from thalweg.spark.engine_processes import Engine, StateVersion
from thalweg.spark.shard_engine import Arrival, BatchResult, LogEntry, Positions
from thalweg.spark.shard_plan import STATE_FORMAT, StagePlan

FORMAT = STATE_FORMAT
HEADER_SCHEMA = (
    "format int, job string, token string, version long, digest long, first long, next long, positions binary"
)
ENTRY_SCHEMA = (
    "stream string, mode string, latest long, clock long, watermark long, last boolean, "
    "before binary, chunks binary"
)
_READ = ("bytes", "statements", "kept", "sent", "reading")
_DONE = ("events", "answers", "late", "rejected", "untimed", "left_out", "blanks")
COUNTS = (*_READ, *_DONE, "replayed", "held", "micros", "engine")
"""Counts of a batch in a shard; `reading`, `micros` (here) and `engine` (a part of that) are microseconds."""
BITS = 63
MASKS = ("matched", "begun")
"""Sets of small numbers as bits, of all batches so far: patterns that a triple fitted, streams that had an event."""
OUTPUT_SCHEMA = (
    f"shard int, {', '.join(f'{name} long' for name in (*COUNTS, *MASKS))}, key int, part int, results binary"
)
"""Results have a number within the batch and the shard (`part`), and the key of the next stage's shard."""


@dataclass
class Header:
    """The small part of a shard's state: which job, how many batches, where its log begins and ends."""

    job: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: int = 0
    digest: int = 0
    first: int = 0
    next: int = 0
    positions: Positions | None = None

    @property
    def state_version(self) -> StateVersion:
        """What distinguishes this state of the shard from all others."""
        return self.version, self.digest


class Host(StatefulProcessor):
    """Runs the engine of one shard of a stage on the chunks of a batch."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
        freeze_loaded_objects()
        self.handle = handle
        self.header = handle.getValueState("header", HEADER_SCHEMA)
        self.log = handle.getMapState("log", "place long", ENTRY_SCHEMA)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """One batch of one shard: chunks in, results and counts out."""
        read: Counter[str] = Counter()
        arrived = sorted(_arrivals(rows, read))
        yield from self._batch(self.plan.keys.index(int(key[0])), arrived, read, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Some stream has been idle for too long: the others go on without it."""
        yield from self._batch(self.plan.keys.index(int(key[0])), [], {}, timerValues)

    def _batch(
        self, shard: int, arrived: list[Arrival], read: Mapping[str, int], timers: TimerValues
    ) -> Iterator[pd.DataFrame]:
        header = self._load()
        now = timers.getCurrentProcessingTimeInMs() if self.plan.idle is not None else 0
        before = header.state_version
        header.version += 1
        header.digest = zlib.crc32(str([now, *(a[:3] for a in arrived)]).encode(), header.digest)
        for arrival in arrived:
            header.digest = zlib.crc32(arrival.chunk, header.digest)
        begun, spent = perf_counter_ns(), 0
        with engine_processes.engine(self.plan, (header.token, shard), before) as engine:
            replayed = self._catch_up(engine, header) if not engine.ready else 0
            made = engine.batch(arrived, now, header.next, header.state_version)
            for part, (target, packed) in enumerate(made):
                spent += perf_counter_ns() - begun
                yield _output(shard, {}, (self.plan.keys[target], part, packed))
                begun = perf_counter_ns()
            result = engine.result
        if self.plan.idle is not None:
            self._wake_up(result.wake_up)
        self._write_side_outputs(shard, header.version - 1, result)
        self._store(header, result, arrived)
        begun_streams = set(map(plain_stream, result.positions.clocks))
        counts = {
            **read,
            "events": result.events,
            "answers": result.answers,
            "late": len(result.late),
            "rejected": len(result.rejects),
            "untimed": result.untimed,
            "left_out": result.left_out,
            "blanks": result.blanks,
            "replayed": replayed,
            "held": result.held,
            "micros": (spent + perf_counter_ns() - begun) // 1000,
            "engine": result.micros,
            "matched": bits_of(result.positions.matched),
            "begun": bits_of(k for k, stream in enumerate(self.plan.sources) if stream in begun_streams),
        }
        yield _output(shard, counts)

    def _wake_up(self, instant: int | None) -> None:
        """Leave one timer: that of the next stream that will have been idle for too long."""
        for old in list(self.handle.listTimers()):
            self.handle.deleteTimer(old)
        if instant is not None:
            self.handle.registerTimer(instant)

    def close(self) -> None:
        """Nothing is held for the task alone."""

    def _load(self) -> Header:
        # Spark logs a warning when a value is read that is not there.
        stored = self.header.get() if self.header.exists() else None
        if stored is None:
            return Header(self.plan.fingerprint)
        form, job, token, version, digest, first, after, packed = stored
        if form != FORMAT:
            raise UsageError(
                f"the checkpoint's state has format {form}, and this is format {FORMAT}: start a new one"
            )
        if job != self.plan.fingerprint:
            raise UsageError(
                "the checkpoint belongs to another query, to other static data or to other options: "
                "start with a new directory"
            )
        return Header(job, token, version, digest, first, after, _unpacked(packed))

    def _catch_up(self, engine: Engine, header: Header) -> int:
        """Feed a new engine with the log; the number of entries."""
        if header.positions is not None:
            engine.open(header.positions)
        for place in range(header.first, header.next):
            stored = self.log.getValue((place,))
            if stored is None:
                raise UsageError(
                    f"the checkpoint's log lacks entry {place}: start with a new checkpoint directory"
                )
            engine.replay(place, LogEntry(*stored))
        if header.positions is not None:
            engine.resume(header.positions)
        return header.next - header.first

    def _store(self, header: Header, result: BatchResult, arrived: list[Arrival]) -> None:
        """Bring the state to where the engine is: drop what expired, add what has not."""
        old = header.next
        header.next += len(result.entries)
        for place in result.expired:
            header.first = place + 1
            if place < old:
                self.log.removeKey((place,))
        for place, entry, numbers in result.entries:
            # An entry that came and went within this batch is never written.
            if place >= header.first:
                if numbers:
                    entry = entry._replace(chunks=join_blobs([arrived[k].chunk for k in numbers]))
                self.log.updateValue((place,), tuple(entry))
        self.header.update(
            (
                *(FORMAT, header.job, header.token, header.version, header.digest, header.first, header.next),
                _packed(result.positions),
            )
        )

    def _write_side_outputs(self, shard: int, version: int, result: BatchResult) -> None:
        """Write rejected input and late events; a batch that runs again writes the same file again."""
        name = f"batch-{version:08d}-shard-{shard}.jsonl"
        if self.plan.quarantine is not None and result.rejects:
            _write(self.plan.quarantine, name, (asdict(reject) for reject in result.rejects))
        if self.plan.late is not None and result.late:
            _write(self.plan.late, name, (asdict(late) for late in result.late))


def _arrivals(frames: Iterable[pd.DataFrame], read: Counter[str]) -> Iterator[Arrival]:
    """The packed chunks in rows of the encoding step, whose counts are added to `read`."""
    for frame in frames:
        read.update({name: int(frame[name].sum()) for name in _READ if name in frame})
        columns = (frame[name].tolist() for name in Arrival._fields)
        for seq, stream, part, source, syntax, last, chunk in zip(*columns, strict=True):
            yield Arrival(int(seq), stream, int(part), source, syntax, bool(last), bytes(chunk))


def _output(
    shard: int, counts: Mapping[str, int], results: tuple[int, int, bytes | None] = (0, 0, None)
) -> pd.DataFrame:
    cells = {name: [counts.get(name, 0)] for name in (*COUNTS, *MASKS)}
    key, part, packed = results
    return pd.DataFrame({"shard": [shard], **cells, "key": [key], "part": [part], "results": [packed]})


def bits_of(numbers: Iterable[int]) -> int:
    """A set of numbers as the bits of a long. Those that have no bit in it are left out.

    >>> bits_of([0, 2]), bits_of([63])
    (5, 0)
    """
    return sum(1 << number for number in set(numbers) if number < BITS)


def _write(folder: str, name: str, rows: Iterable[dict[str, Any]]) -> None:
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    draft = path / f".{name}.{os.getpid()}"
    with draft.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    draft.replace(path / name)


def _packed(positions: Positions) -> bytes:
    values = asdict(positions)
    values["framers"] = {stream: state.hex() for stream, state in positions.framers.items()}
    return zlib.compress(json.dumps(values).encode(), 1)


def _unpacked(packed: bytes) -> Positions:
    values = json.loads(zlib.decompress(packed))
    values["framers"] = {stream: bytes.fromhex(state) for stream, state in values["framers"].items()}
    return Positions(**values)
