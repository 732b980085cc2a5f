"""The plan of a set of queries on Spark: every shard reads all events, and has some of the queries."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thalweg.algebra.query import Query
from thalweg.engine import Session
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.prune import Prune
from thalweg.spark.encode import Reading
from thalweg.spark.routing import Parcel, keys_for
from thalweg.spark.shard_plan import STATE_FORMAT
from thalweg.spark.static_files import sent_folders
from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles


@dataclass(frozen=True)
class Copies:
    """A router that gives each chunk to every shard: which queries come is not known when a job starts."""

    shards: int

    def split(self, stream: str, mode: str, chunk: Chunk, arena: Arena) -> Iterator[Parcel]:
        """The parcels of a chunk; what it has to say beside its rows is in the first one only."""
        for shard in range(self.shards):
            yield Parcel(shard, stream, chunk)
            chunk = replace(chunk, rejects=(), unnamed=0, blanks=0, left_out=0)


@dataclass(frozen=True)
class SetPlan:
    """What every task of a set of queries needs. Which queries these are is a part of the state."""

    options: RunOptions
    sources: tuple[str, ...] = ()
    quarantine: str | None = None
    late: str | None = None
    static: StaticFiles = field(default_factory=StaticFiles)
    """The files of the static data, which all queries can read."""

    @property
    def shards(self) -> int:
        """Over how many tasks the queries are spread."""
        return self.options.shards or 1

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the shards."""
        return keys_for(self.shards)

    @property
    def reading(self) -> Reading:
        """How bytes become rows; all of them, for queries may come that need them."""
        router = Copies(self.shards)
        return Reading(Prune.everything(), self.options, router, self.keys)  # type: ignore[arg-type]

    @property
    def idle(self) -> int | str | None:
        """After what time a silent stream no longer holds the others."""
        return self.options.idle

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the answers, but for the queries."""
        digest = [self.static.fingerprint] if self.static else []
        parts = (STATE_FORMAT, "set", self.options.deciding, self.shards, *digest)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    def session(self, shard: int = 0) -> Session:
        """The engine of a shard before the first query comes."""
        options = replace(self.options, max_pending=None, on_error="quarantine")
        return Session.of(options, static=self.static_data(shard))

    def static_data(self, shard: int) -> StaticData:
        """The static data of a shard: all of them, for it has all events."""
        return self.static.opened(sent_folders()) if self.static else StaticData()

    @property
    def static_names(self) -> list[str]:
        """The names of the static graphs."""
        return [name for name, _ in self.static.graphs]

    def queries(self, shard: int) -> tuple[Query, ...]:
        """No query: those of a saved session are parsed again."""
        return ()

    def shard_of(self, name: str) -> int:
        """The shard of a query."""
        return zlib.crc32(name.encode()) % self.shards
