"""The stateful step: Spark's host of the live engine. The log of chunks in the state store is the truth.

The engine lives beside the tasks (see `keepers`) and is used at exactly the version of the state, or not at all: after
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
from thalweg.rdf.stamped import joined
from thalweg.spark import keepers
from thalweg.spark.daemon import spare_what_is_loaded
from thalweg.spark.jobs import Job
from thalweg.spark.keepers import Engine, Mark
from thalweg.spark.live import Arrival, Entry, Standing, Turn

FORMAT = 5
HEADER_SCHEMA = (
    "format int, job string, token string, version long, digest long, first long, next long, standing binary"
)
ENTRY_SCHEMA = (
    "stream string, mode string, latest long, clock long, watermark long, last boolean, "
    "before binary, chunks binary"
)
_READ = ("bytes", "statements", "kept", "sent", "reading")
_DONE = ("events", "answers", "late", "rejected", "untimed", "blanks")
COUNTS = (*_READ, *_DONE, "replayed", "held", "micros", "engine")
"""What a shard tells of a batch; `reading`, `micros` (here) and `engine` (a part of that) are microseconds."""
BITS = 63
MASKS = ("matched", "begun")
"""Sets of small numbers as bits, of all batches so far: patterns that a triple fitted, streams that had an event."""
OUTPUT_SCHEMA = f"shard int, {', '.join(f'{name} long' for name in (*COUNTS, *MASKS))}, results binary"


@dataclass
class Header:
    """The small part of a shard's state: which job, how many batches, where its log begins and ends."""

    job: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: int = 0
    digest: int = 0
    first: int = 0
    next: int = 0
    standing: Standing | None = None

    @property
    def mark(self) -> Mark:
        """What tells one state of the shard from all others."""
        return self.version, self.digest


class Host(StatefulProcessor):
    """Runs the engine of one shard on the chunks of a batch."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
        spare_what_is_loaded()
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
        yield from self._batch(self.job.reading.keys.index(int(key[0])), arrived, read, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Some stream has been silent for too long: the others go on without it."""
        yield from self._batch(self.job.reading.keys.index(int(key[0])), [], {}, timerValues)

    def _batch(
        self, shard: int, arrived: list[Arrival], read: Mapping[str, int], timers: TimerValues
    ) -> Iterator[pd.DataFrame]:
        header = self._load()
        now = timers.getCurrentProcessingTimeInMs() if self.job.idle is not None else 0
        mark = header.mark
        header.version += 1
        header.digest = zlib.crc32(str([now, *(a[:3] for a in arrived)]).encode(), header.digest)
        for arrival in arrived:
            header.digest = zlib.crc32(arrival.chunk, header.digest)
        begun, spent = perf_counter_ns(), 0
        with keepers.engine(self.job, (header.token, shard), mark) as engine:
            replayed = self._catch_up(engine, header) if not engine.ready else 0
            for blob in engine.batch(arrived, now, header.next, header.mark):
                spent += perf_counter_ns() - begun
                yield _output(shard, {}, blob)
                begun = perf_counter_ns()
            turn = engine.turn
        if self.job.idle is not None:
            self._wake_up(turn.wake_up)
        self._tell(shard, header.version - 1, turn)
        self._store(header, turn, arrived)
        heard = set(map(plain_stream, turn.standing.clocks))
        counts = {
            **read,
            "events": turn.events,
            "answers": turn.answers,
            "late": len(turn.late),
            "rejected": len(turn.rejects),
            "untimed": turn.untimed,
            "blanks": turn.blanks,
            "replayed": replayed,
            "held": turn.held,
            "micros": (spent + perf_counter_ns() - begun) // 1000,
            "engine": turn.micros,
            "matched": bits_of(turn.standing.matched),
            "begun": bits_of(k for k, stream in enumerate(self.job.sources) if stream in heard),
        }
        yield _output(shard, counts)

    def _wake_up(self, instant: int | None) -> None:
        """Leave one timer: that of the next stream that will have been silent for too long."""
        for old in list(self.handle.listTimers()):
            self.handle.deleteTimer(old)
        if instant is not None:
            self.handle.registerTimer(instant)

    def close(self) -> None:
        """Nothing is held for the task alone."""

    def _load(self) -> Header:
        # Asked for a value that is not there, Spark logs a warning.
        stored = self.header.get() if self.header.exists() else None
        if stored is None:
            return Header(self.job.fingerprint)
        form, job, token, version, digest, first, after, packed = stored
        if form != FORMAT:
            raise UsageError(
                f"the checkpoint's state has format {form}, and this is format {FORMAT}: start a new one"
            )
        if job != self.job.fingerprint:
            raise UsageError(
                "the checkpoint belongs to another query or other options: start with a new directory"
            )
        return Header(job, token, version, digest, first, after, _standing(packed))

    def _catch_up(self, engine: Engine, header: Header) -> int:
        """Feed a new engine with the log; the number of entries."""
        for place in range(header.first, header.next):
            stored = self.log.getValue((place,))
            if stored is None:
                raise UsageError(
                    f"the checkpoint's log lacks entry {place}: start with a new checkpoint directory"
                )
            engine.replay(place, Entry(*stored))
        if header.standing is not None:
            engine.resume(header.standing)
        return header.next - header.first

    def _store(self, header: Header, turn: Turn, arrived: list[Arrival]) -> None:
        """Bring the state to where the engine is: drop what expired, add what has not."""
        old = header.next
        header.next += len(turn.entries)
        for place in turn.expired:
            header.first = place + 1
            if place < old:
                self.log.removeKey((place,))
        for place, entry, numbers in turn.entries:
            # An entry that came and went within this batch is never written.
            if place >= header.first:
                if numbers:
                    entry = entry._replace(chunks=joined([arrived[k].chunk for k in numbers]))
                self.log.updateValue((place,), tuple(entry))
        self.header.update(
            (
                *(FORMAT, header.job, header.token, header.version, header.digest, header.first, header.next),
                _packed(turn.standing),
            )
        )

    def _tell(self, shard: int, version: int, turn: Turn) -> None:
        """Write what was refused and what was late; a batch that runs again writes the same file again."""
        name = f"batch-{version:08d}-shard-{shard}.jsonl"
        if self.job.quarantine is not None and turn.rejects:
            _write(self.job.quarantine, name, (asdict(reject) for reject in turn.rejects))
        if self.job.late is not None and turn.late:
            _write(self.job.late, name, (asdict(late) for late in turn.late))


def _arrivals(frames: Iterable[pd.DataFrame], read: Counter[str]) -> Iterator[Arrival]:
    """The packed chunks in rows of the encoding step, whose counts are added to `read`."""
    for frame in frames:
        read.update({name: int(frame[name].sum()) for name in _READ})
        columns = (frame[name].tolist() for name in Arrival._fields)
        for seq, stream, part, source, syntax, last, chunk in zip(*columns, strict=True):
            yield Arrival(int(seq), stream, int(part), source, syntax, bool(last), bytes(chunk))


def _output(shard: int, counts: Mapping[str, int], results: bytes | None = None) -> pd.DataFrame:
    cells = {name: [counts.get(name, 0)] for name in (*COUNTS, *MASKS)}
    return pd.DataFrame({"shard": [shard], **cells, "results": [results]})


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


def _packed(standing: Standing) -> bytes:
    values = asdict(standing)
    values["framers"] = {stream: state.hex() for stream, state in standing.framers.items()}
    return zlib.compress(json.dumps(values).encode(), 1)


def _standing(packed: bytes) -> Standing:
    values = json.loads(zlib.decompress(packed))
    values["framers"] = {stream: bytes.fromhex(state) for stream, state in values["framers"].items()}
    return Standing(**values)
