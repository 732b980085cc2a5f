"""The stateful step of Spark without Spark: an engine that is fed with chunks, and one that catches up from the log."""

from __future__ import annotations

from pathlib import Path

from thalweg.bench.workload import STREAM
from thalweg.io.job import Job
from thalweg.rdf.arena import Arena
from thalweg.rdf.timestamped import join_blobs
from thalweg.spark.shard_engine import Arrival, LogEntry, ShardEngine
from thalweg.spark.shard_plan import ShardPlan

_PIECE = 4 << 20


class Rehearsal:
    """One shard with one query over a file, as often as it takes."""

    def __init__(self, text: str, plain: Path) -> None:
        self._plan = ShardPlan.of(Job.of(text))
        self._engine = ShardEngine(self._plan)
        self._log: dict[int, LogEntry] = {}
        self._next = self._lap = 0
        self._text = plain.read_bytes()
        self._waiting: list[Arrival] = []
        self.statements = 0
        """Of the last chunk."""

    def _arrival(self) -> Arrival:
        """The next chunk. Every time that the file has been read, its universities are other ones."""
        if not self._waiting:
            text = self._text.replace(b"<http://www.Dep", b"<http://www.%d.Dep" % self._lap)
            start = 0
            while start < len(text):
                end = text.find(b"\n", start + _PIECE) + 1 or len(text)
                self._waiting.append(self._encoded(text[start:end]))
                start = end
            self._waiting.reverse()
            self._lap += 1
        return self._waiting.pop()

    def _encoded(self, text: bytes) -> Arrival:
        arena = Arena()
        chunk = self._plan.reading.reader(arena, {"syntax": "nt", "source": "", "stream": STREAM}).read(text)
        self.statements = chunk.statements
        return Arrival(0, STREAM, 0, "", "nt", False, chunk.pack(arena))

    def fill(self, triples: int) -> None:
        """Feed so many triples, and some more."""
        fed = 0
        while fed < triples * 1.1:
            self.prepare()
            self.batch()
            fed += self.statements

    def prepare(self) -> None:
        """Read the next chunk, which a batch is going to feed."""
        self._arrived = self._arrival()

    def batch(self) -> None:
        """Feed a chunk, and keep the log as the host does."""
        list(self._engine.batch([self._arrived], 0, self._next))
        for place, entry, _ in self._engine.result.entries:
            self._log[place] = entry._replace(chunks=join_blobs([self._arrived.chunk]))
            self._next = place + 1
        for place in self._engine.result.expired:
            del self._log[place]

    def rebuild(self) -> None:
        """Make a new engine, and let it catch up."""
        engine = ShardEngine(self._plan)
        for place, entry in self._log.items():
            engine.replay(place, entry)
        engine.resume(self._engine.result.positions)
        self._engine = engine

    @property
    def entries(self) -> int:
        """The length of the log."""
        return len(self._log)

    @property
    def log_bytes(self) -> int:
        """Its size."""
        return sum(len(entry.chunks) + len(entry.before) for entry in self._log.values())
