"""The stateful step: Spark's host of the live engine. The log of chunks in the state store is the truth.

The live engine is kept in the Python worker between batches. It is taken out of that cache while a task uses
it and put back, with its new version, only when the task has delivered everything; a task that fails drops
it. Before use its version is compared with that of the state: after a retry, a restart or a change of worker
they differ, and a new engine is fed with the log.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import TimerValues

from thalweg.errors import UsageError
from thalweg.spark.live import Arrival, Entry, Job, Live, Standing
from thalweg.spark.routing import EVENTS

FORMAT = 2
HEADER_SCHEMA = (
    "format int, job string, token string, version long, digest long, first long, next long, standing binary"
)
ENTRY_SCHEMA = "stream string, mode string, latest long, clock long, watermark long, last boolean, before binary, chunks binary"
OUTPUT_SCHEMA = "shard int, events long, late long, rejected long, replayed long, held long, results binary"
_KEPT_ENGINES = 8

Key = tuple[str, int]


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


class Cache:
    """Live engines of this worker by shard, a few of the most recently used."""

    def __init__(self, limit: int = _KEPT_ENGINES) -> None:
        self._limit = limit
        self._engines: OrderedDict[Key, tuple[int, int, Live]] = OrderedDict()

    def take(self, key: Key, version: int, digest: int) -> Live | None:
        """The engine at exactly this version, out of the cache; one of any other version is dropped."""
        found = self._engines.pop(key, None)
        return found[2] if found is not None and found[:2] == (version, digest) else None

    def put(self, key: Key, version: int, digest: int, live: Live) -> None:
        """Keep an engine for the next batch."""
        self._engines[key] = (version, digest, live)
        while len(self._engines) > self._limit:
            self._engines.popitem(last=False)


CACHE = Cache()


class Host(StatefulProcessor):
    """Runs the engine of one shard on the chunks of a batch."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables."""
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
        yield from self._batch(self.job.reading.keys.index(int(key[0])), sorted(_arrivals(rows)), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Some stream has been silent for too long: the others go on without it."""
        yield from self._batch(self.job.reading.keys.index(int(key[0])), [], timerValues)

    def _batch(self, shard: int, arrived: list[Arrival], timers: TimerValues) -> Iterator[pd.DataFrame]:
        header = self._load()
        live = CACHE.take((header.token, shard), header.version, header.digest)
        replayed = 0
        if live is None:
            live, replayed = self._rebuild(header, shard)
        live.events = 0
        fresh: list[Entry] = []
        for together in _together(arrived):
            entry, blobs = live.take(together)
            if entry is not None:
                fresh.append(entry)
            for blob in blobs:
                yield _output(shard, results=blob)
        for arrival in arrived:
            header.digest = zlib.crc32(f"{arrival[:3]} {len(arrival.chunk)}".encode(), header.digest)
        if self.job.idle is not None:
            now = timers.getCurrentProcessingTimeInMs()
            header.digest = zlib.crc32(str(now).encode(), header.digest)
            live.hear({arrival.stream for arrival in arrived}, now)
            self._wake_up(live.patience(now))
        for blob in live.results():
            yield _output(shard, results=blob)
        late, rejected = len(live.late), len(live.rejects)
        self._tell(shard, header.version, live)
        held = live.session.live_triples
        yield _output(shard, events=live.events, late=late, rejected=rejected, replayed=replayed, held=held)
        self._store(header, live, fresh)
        CACHE.put((header.token, shard), header.version, header.digest, live)

    def _wake_up(self, instant: int | None) -> None:
        """Leave one timer: that of the next stream that will have been silent for too long."""
        for old in list(self.handle.listTimers()):
            self.handle.deleteTimer(old)
        if instant is not None:
            self.handle.registerTimer(instant)

    def close(self) -> None:
        """Nothing is held for the task alone."""

    def _load(self) -> Header:
        stored = self.header.get()
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

    def _rebuild(self, header: Header, shard: int) -> tuple[Live, int]:
        live = Live(self.job, shard)
        for place in range(header.first, header.next):
            stored = self.log.getValue((place,))
            if stored is None:
                raise UsageError(
                    f"the checkpoint's log lacks entry {place}: start with a new checkpoint directory"
                )
            entry = Entry(*stored)
            live.replay(entry)
            live.index.append((place, entry.latest))
        if header.standing is not None:
            live.resume(header.standing)
        return live, header.next - header.first

    def _store(self, header: Header, live: Live, fresh: list[Entry]) -> None:
        """Bring the state to where the engine is: drop what expired, add what has not."""
        old, entries = header.next, dict(enumerate(fresh, header.next))
        live.index.extend((place, entry.latest) for place, entry in entries.items())
        header.next += len(fresh)
        for place in live.expired():
            header.first = place + 1
            if place < old:
                self.log.removeKey((place,))
            # An entry that came and went within this batch is never written.
            entries.pop(place, None)
        for place, entry in entries.items():
            self.log.updateValue((place,), tuple(entry))
        header.version += 1
        self.header.update(
            (
                *(FORMAT, header.job, header.token, header.version, header.digest, header.first, header.next),
                _packed(live.stand()),
            )
        )

    def _tell(self, shard: int, version: int, live: Live) -> None:
        """Write what was refused and what was late; a batch that runs again writes the same file again."""
        name = f"batch-{version:08d}-shard-{shard}.jsonl"
        if self.job.quarantine is not None and live.rejects:
            _write(self.job.quarantine, name, (asdict(reject) for reject in live.rejects))
        if self.job.late is not None and live.late:
            _write(self.job.late, name, (asdict(late) for late in live.late))
        live.rejects.clear()
        live.late.clear()


def _arrivals(frames: Iterable[pd.DataFrame]) -> Iterator[Arrival]:
    for frame in frames:
        columns = (frame[name].tolist() for name in Arrival._fields)
        for seq, stream, part, source, syntax, last, chunk in zip(*columns, strict=True):
            yield Arrival(int(seq), stream, int(part), source, syntax, bool(last), bytes(chunk))


def _together(arrived: list[Arrival]) -> Iterator[list[Arrival]]:
    """Chunks of files one by one, in their order; messages of a stream all together, for they have none."""
    messages: dict[str, list[Arrival]] = {}
    for arrival in arrived:
        if arrival.syntax == EVENTS:
            messages.setdefault(arrival.stream, []).append(arrival)
        else:
            yield [arrival]
    yield from messages.values()


def _output(
    shard: int,
    *,
    events: int = 0,
    late: int = 0,
    rejected: int = 0,
    replayed: int = 0,
    held: int = 0,
    results: bytes | None = None,
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "shard": [shard],
            "events": [events],
            "late": [late],
            "rejected": [rejected],
            "replayed": [replayed],
            "held": [held],
            "results": [results],
        }
    )


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
