"""Spark's part of the stateful step, played in this process, with a state that can go back."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from thalweg.answers import Row
from thalweg.arguments import static_data_of
from thalweg.engine import Session
from thalweg.instants import show_instant
from thalweg.io.files import read_events
from thalweg.io.job import Job
from thalweg.options import RunOptions
from thalweg.spark import encode, engine_processes, host
from thalweg.spark.encode import encode_piece
from thalweg.spark.payloads import read_payloads
from thalweg.spark.pieces import Position, plan
from thalweg.spark.results import rows_of
from thalweg.spark.routing import MESSAGES
from thalweg.spark.shard_engine import LogEntry, Positions
from thalweg.spark.shard_plan import ShardPlan, StagePlan
from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles
from thalweg.testing.snapshot import Event

# Engines live in this process, so that a test can take one away.
engine_processes.IN_PROCESSES = False

_FILES = tempfile.TemporaryDirectory(prefix="thalweg-test-static-")
_HANDED_ON = ["key", "seq", "part", "chunk"]
_TEXTS = ("stream", "source", "syntax", "said", "op")
_PAYLOADS = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("payload", pa.binary()),
        ("time", pa.int64()),
        ("timed", pa.bool_()),
    ]
)


class Store:
    """The state of one shard; values are pickled, as on their way to the JVM."""

    def __init__(self) -> None:
        self.values: dict[Any, bytes] = {}
        self.timers: set[int] = set()

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        yield from self.timers

    def registerTimer(self, instant: int) -> None:  # noqa: N802
        self.timers.add(instant)

    def deleteTimer(self, instant: int) -> None:  # noqa: N802
        self.timers.remove(instant)

    def getValueState(self, name: str, schema: str) -> Store.Value:  # noqa: N802
        return Store.Value(self, name)

    def getMapState(self, name: str, key: str, value: str) -> Store.Map:  # noqa: N802
        return Store.Map(self, name)

    class Value:
        def __init__(self, store: Store, name: str) -> None:
            self.store, self.name = store, name

        def exists(self) -> bool:
            return self.name in self.store.values

        def get(self) -> Any:
            value = self.store.values.get(self.name)
            return None if value is None else pickle.loads(value)

        def update(self, value: tuple[Any, ...]) -> None:
            self.store.values[self.name] = pickle.dumps(value)

    class Map(Value):
        def getValue(self, key: tuple[int]) -> Any:  # noqa: N802
            value = self.store.values.get((self.name, key))
            return None if value is None else pickle.loads(value)

        def updateValue(self, key: tuple[int], value: tuple[Any, ...]) -> None:  # noqa: N802
            self.store.values[self.name, key] = pickle.dumps(value)

        def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
            del self.store.values[self.name, key]


class Play:
    """A query over pieces, batch by batch, with what clusters do to it in between."""

    def __init__(self, job: ShardPlan) -> None:
        self.job = job
        self.plans: list[StagePlan] = [job, *([job.second] if job.second is not None else [])]
        self.shards = len(job.keys)
        self.stages = [[Store() for _ in plan.keys] for plan in self.plans]
        self.stores = self.stages[0]
        self.rows: list[Row] = []
        self.replayed: list[int] = []
        self.counts = {"events": 0, "late": 0, "rejected": 0, "untimed": 0, "blanks": 0}
        self.bits = {"matched": 0, "begun": 0}
        self.clock = 0

    def batch(
        self, chunks: Sequence[pa.RecordBatch], *, retry: bool = False, fail_after: int | None = None
    ) -> None:
        """Run a batch; with `retry`, once more on the state as it was before, as after a lost commit."""
        # In any order: the step has to sort.
        frames = [chunk.to_pandas() for chunk in reversed(chunks)]
        for stage in range(len(self.plans)):
            made: list[pd.DataFrame] = []
            for shard, store in enumerate(self.stages[stage]):
                before = copy.copy(store.values)
                if fail_after is not None:
                    running = self._run(stage, shard, frames)
                    for _ in range(fail_after):
                        next(running, None)
                    running.close()
                    store.values = copy.copy(before)
                if retry:
                    list(self._run(stage, shard, frames))
                    store.values = copy.copy(before)
                made += self._run(stage, shard, frames)
            frames = self._taken(stage, made)

    def wake_up(self, clock: int) -> None:
        """Let the runner's clock reach a time: what waited for it is woken, in a batch without rows."""
        self.clock = clock
        made: list[pd.DataFrame] = []
        for shard, store in enumerate(self.stores):
            due = {instant for instant in store.timers if instant <= clock}
            store.timers -= due
            for instant in sorted(due):
                made += self._wake(shard, instant)
        frames = self._taken(0, made)
        if len(self.plans) > 1 and frames:
            self._taken(1, [one for k in range(len(self.stages[1])) for one in self._run(1, k, frames)])

    def log(self) -> int:
        """The number of entries in the logs of the first stage."""
        return sum(len(self.entries(shard)) for shard in range(self.shards))

    def entries(self, shard: int = 0) -> dict[Any, LogEntry]:
        """The entries of a shard's log, by their places."""
        found = self.stores[shard].values.items()
        return {key: LogEntry(*pickle.loads(value)) for key, value in found if isinstance(key, tuple)}

    def positions(self, shard: int = 0) -> Positions:
        """Where the engine of a shard stood at the end of the last batch."""
        *_, packed = pickle.loads(self.stores[shard].values["header"])
        return host._unpacked(packed)

    def _wake(self, shard: int, instant: int) -> Iterator[pd.DataFrame]:
        info = ExpiredTimerInfo(instant)
        timers = TimerValues(self.clock)
        yield from self._host(0, shard).handleExpiredTimer((self.job.keys[shard],), timers, info)

    def _host(self, stage: int, shard: int) -> host.Host:
        processor = host.Host(pickle.loads(pickle.dumps(self.plans[stage])))
        processor.init(self.stages[stage][shard])  # type: ignore[arg-type]
        return processor

    def _run(self, stage: int, shard: int, frames: Sequence[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        processor = self._host(stage, shard)
        key = self.plans[stage].keys[shard]
        own = (frame[frame["key"] == key] for frame in frames)
        yield from processor.handleInputRows((key,), own, TimerValues(self.clock))

    def _taken(self, stage: int, made: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
        """Take the output of a stage; what of it goes to the next one, in another order."""
        changes = []
        for frame in made:
            for key in self.counts:
                self.counts[key] += frame[key].item()  # a frame has one row
            for key in self.bits:
                self.bits[key] |= frame[key].item()
            results = frame["results"].item()
            if results is None:
                self.replayed.append(frame["replayed"].item())
            elif stage == len(self.plans) - 1:
                self.rows += rows_of(pa.ipc.open_stream(results).read_all())
            else:
                named = frame.rename(columns={"shard": "seq", "results": "chunk"})[_HANDED_ON]
                changes.append(named.assign(stream="", source="", syntax="", last=False))
        return changes[::-1]


def new_worker() -> None:
    """Forget all live engines, as when the next batch comes to another Python worker."""
    engine_processes.ENGINES = engine_processes.EngineCache()


def job_of(
    text: str,
    options: RunOptions | None = None,
    shards: int = 1,
    *,
    derive: Sequence[str] = (),
    quarantine: str | None = None,
    late: str | None = None,
    static: object = None,
    **more: Any,
) -> ShardPlan:
    """The job of a query, spread over shards."""
    chosen = replace(options or RunOptions(), shards=shards, **more)
    job = Job.of(text, chosen, derive=derive, static=static_data_of(static))
    files = StaticFiles.of(job.static, Path(_FILES.name)) if job.static else None
    return ShardPlan.of(job, quarantine=quarantine, late=late, static=files)


def static_of(job: ShardPlan) -> StaticData | None:
    """The static data of a job, for a session of this process."""
    return None if job.static is None else job.static.opened()


def chunks_of(
    job: ShardPlan, stream: str, path: Path, *, piece_bytes: int, last: bool = True
) -> list[pa.RecordBatch]:
    """The encoded pieces of a file that is a whole stream, or a part of one."""
    size = path.stat().st_size
    pieces = plan(
        Position(),
        Position({str(path): size}, size, ended=last),
        path_of=lambda name: (name, name),
        syntax=None,
        piece_bytes=piece_bytes,
    )
    rows = [{"stream": stream, **vars(piece)} for piece in pieces]
    return [chunk for row in rows for chunk in encode_piece(job.reading, row)]


def in_process(job: ShardPlan, streams: dict[str, Path]) -> list[Row]:
    """What the runner of this process makes of the same files."""
    return in_process_with_late(job, streams)[0]


def in_process_with_late(job: ShardPlan, streams: dict[str, Path]) -> tuple[list[Row], int]:
    """The same, and the number of late events."""
    options = job.job.options
    session = Session(lateness=options.lateness, static=static_of(job))
    for producer in job.job.derive:
        session.register(producer)
    query = session.register(job.job.query)
    for stream, path in streams.items():
        events = read_events([path], stream, session.arena, session.prune(), options)
        session.keep(lambda events=events: [events.live_ids()])
        for batch in events:
            session.push_events(batch)
        session.finish(stream, drain=options.drain)
    return query.poll(), session.stats.late


def told(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Rows in an order that two runners share. What comes and goes at one instant is nothing: the sum is what counts,
    and two shards may each tell their part of it.
    """
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        key = row.at, tuple(sorted(row.bindings.items())), row.graph or ""
        sums[(*key, "0") if row.op == "0" else key] += -1 if row.op == "-" else 1
    return sorted((*key, count) for key, count in sums.items() if count)


def run_frame(frame: Any, checkpoint: str) -> tuple[list[Row], list[Any]]:
    """Runs what is available of a streaming frame of results; the rows, and the progress of each batch."""
    rows: list[Row] = []
    query = (
        frame.writeStream.foreachBatch(lambda part, _: rows.extend(rows_of(part.toArrow())))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows, [step for step in query.recentProgress if step.numInputRows]


def timed_graph(number: int, at: int) -> str:
    """An event as N-Quads: a graph with one triple, and its time."""
    return (
        f'<http://ex/g{number}> <http://www.w3.org/ns/prov#generatedAtTime> "{at}" .\n'
        f"<http://ex/a> <http://ex/p> <http://ex/b{number}> <http://ex/g{number}> .\n"
    )


def payloads_of(job: ShardPlan, events: Sequence[Event]) -> list[pa.RecordBatch]:
    """Events, inserts and deletes, as the encoding step hands on the payloads of one batch."""
    found: list[pa.RecordBatch] = []
    for stream in sorted({event.stream for event in events}):
        rows = [
            {
                "stream": stream,
                "source": None,
                "syntax": "nt",
                "payload": event.text.encode(),
                "time": event.time,
                "said": None,
                "timed": True,
                "op": event.op,
            }
            for event in events
            if event.stream == stream
        ]
        cells = {"stream": stream, "source": "", "seq": 0, "part": 0, "syntax": MESSAGES, "last": False}
        part = read_payloads(
            job.reading.prune, job.reading.options, pa.RecordBatch.from_pylist(rows, schema=_PAYLOADS)
        )
        found.append(encode._rows(job.reading, MESSAGES, cells, part, 0))
    return found


def pushed(job: ShardPlan, events: Sequence[Event]) -> list[Row]:
    """What the runner of this process makes of the same events."""
    session = Session(lateness=job.job.options.lateness, static=static_of(job))
    for producer in job.job.derive:
        session.register(producer)
    query = session.register(job.job.query)
    for event in events:
        at = event.time // 1000 if event.time % 1000 == 0 else show_instant(event.time)
        session.push(event.stream, at=at, graph=event.text, op=event.op)
    return query.poll()
