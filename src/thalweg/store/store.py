"""A store on disk: the log of all events, and the current content, which answers SPARQL through Oxigraph."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import pyoxigraph as ox

from thalweg.arguments import stream_of, time_of
from thalweg.errors import DataError, UsageError
from thalweg.instants import Time, show_instant
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import format_named
from thalweg.rdf.prune import Prune
from thalweg.statements import lines_of
from thalweg.store.asking import Wanted, as_query_error, wanted_of
from thalweg.store.facts import Facts
from thalweg.store.log import Head, Log, Record, sync_folder

AsOf = Time | tuple[Time, Time]
"""An instant, or a window: what came after its first instant, up to and including its second."""

_FORMAT = 1
_GROUP = 1 << 18
"""Rows that are brought into the content at once."""
_BULK = 50_000
"""Rows from which on Oxigraph's bulk loader is quicker."""
_SNAPSHOTS = 2
"""Contents at earlier instants that are kept in memory."""
_OPS = {"insert": 1, "delete": -1}


@dataclass(frozen=True)
class _Manifest:
    """What a store knows beside its log: replaced as a whole, so that it always fits one generation of the log."""

    format: int = _FORMAT
    generation: int = 0
    """Which folder of segments is the log."""
    applied: int = 0
    """How many records of the log are sure to be in the content on disk."""
    horizon: int | None = None
    """The instant before which the history was dropped."""
    streams: tuple[str, ...] = ()
    """The streams whose events are in the content."""
    writers: dict[str, int] = field(default_factory=dict)
    """How far writers had come when the log was last compacted."""


@dataclass(frozen=True)
class StoreStats:
    """How much a store holds."""

    events: int
    rows: int
    deletes: int
    triples: int
    """Triples of the default graph now."""
    streams: dict[str, int]
    """Rows by stream."""
    predicates: dict[str, int]
    """Triples of the default graph by predicate, most frequent first."""
    first: int | None
    last: int | None
    horizon: int | None
    records: int
    log_bytes: int
    content_bytes: int

    def lines(self) -> Iterator[str]:
        """The figures as text."""
        yield f"{self.events:,} events, {self.rows:,} triples in them, {self.deletes:,} of them deletes"
        if self.first is not None and self.last is not None:
            yield f"from {show_instant(self.first)} to {show_instant(self.last)}"
        if self.horizon is not None:
            yield f"the history before {show_instant(self.horizon)} was dropped"
        yield f"{self.triples:,} triples now"
        yield f"{self.log_bytes:,} bytes of events in {self.records:,} records, {self.content_bytes:,} of content"
        for stream, rows in self.streams.items():
            yield f"stream <{stream}>: {rows:,} triples in events"
        for predicate, triples in self.predicates.items():
            yield f"predicate <{predicate}>: {triples:,}"


class Store:
    """Events on disk, with time, stream and op, and SPARQL over their content now or at an earlier instant.

    Each stream is a named graph; the default graph is the union of all streams, as a set. A triple is there at an
    instant if its latest event up to then inserted it; at one instant deletes come before inserts. Only one process
    can open a store.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = Path(path)
        if create:
            self.path.mkdir(parents=True, exist_ok=True)
        elif not (self.path / "store.json").is_file():
            raise UsageError(
                "there is no store here: create it with `thalweg store create`", source=str(path)
            )
        self._lock = _locked(self.path)
        self._alone = RLock()
        try:
            self._open(create)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, create: bool) -> None:
        manifest = self.path / "store.json"
        if create and not manifest.exists():
            if any(child.name != "lock" for child in self.path.iterdir()):
                raise UsageError("this folder is not empty, and it is no store", source=str(self.path))
            self._manifest = _Manifest()
            self._save(self._manifest)
        else:
            self._manifest = _read(manifest)
        for old in self.path.glob("log-*"):
            if old.name != self._log_folder.name:  # a compaction was interrupted
                shutil.rmtree(old)
        self._log = Log(self._log_folder)
        self._content = ox.Store(str(self.path / "content"))
        self._applied = min(self._manifest.applied, len(self._log.records))
        self._streams = list(self._manifest.streams)
        self._writers = dict(self._manifest.writers)
        for record in self._log.records:
            self._note(record.head)
        self._snapshots: dict[Any, tuple[int, ox.Store]] = {}
        self._closed = False

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """The store in a folder."""
        return cls(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """The store in a folder, which is made if there is none."""
        return cls(path, create=True)

    @property
    def _log_folder(self) -> Path:
        return self.path / f"log-{self._manifest.generation}"

    def _save(self, manifest: _Manifest) -> None:
        part = self.path / "store.json.part"
        with part.open("wb") as out:
            out.write(json.dumps(asdict(manifest)).encode())
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / "store.json")
        sync_folder(self.path)
        self._manifest = manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Bring the content up to date on disk, and let go of the folder."""
        with self._alone:
            if self._closed:
                return
            try:
                self._checkpoint()
            finally:
                self._closed = True
                self._log.close()
                del self._content
                os.close(self._lock)

    # Writing

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to, or None if it has written nothing."""
        return self._writers.get(writer)

    def append(
        self,
        batch: EventBatch,
        arena: Arena,
        *,
        writer: str | None = None,
        number: int | None = None,
        rescope: bool = False,
    ) -> bool:
        """Keep the events of a batch whose terms are in an arena; when this returns, they are on disk.

        A writer with a name numbers its batches, ascending: one whose number it has already come to is a repetition
        and is left out (False). With `rescope`, blank nodes get labels that no other call has.
        """
        with self._alone:
            return self._append(batch, arena, writer, number, rescope)

    def _append(
        self, batch: EventBatch, arena: Arena, writer: str | None, number: int | None, rescope: bool
    ) -> bool:
        self._check_open()
        if (writer is None) != (number is None):
            raise UsageError("a writer and a number are given together: the writer numbers its batches")
        if writer is not None and number is not None and number <= self._writers.get(writer, number - 1):
            return False
        rows = batch.rows
        data = rows.s != 0
        if not data.all():
            rows = rows[data]
        if not len(rows) and writer is None:
            return False
        s, o = rows.s, rows.o
        if rescope:
            s, o = s.copy(), o.copy()
            # No other call has this number: a compaction begins a new generation.
            scope = (self._manifest.generation << 32) + len(self._log.records)
            scopes = np.full(len(rows), scope, np.int64)
            arena.rescope(s, scopes)
            arena.rescope(o, scopes)
        none = np.zeros(len(rows), np.int64)
        chunk = Chunk(len(rows), 0, rows.event - rows.event.min(initial=0), none, s, rows.p, o, rows.time)
        chunk.op = rows.op
        head = Head(
            stream_of(batch.stream),
            rows=len(rows),
            events=len(np.unique(rows.event)),
            deletes=int(np.count_nonzero(rows.op < 0)),
            first=int(rows.time.min(initial=_LAST)) if len(rows) else 0,
            last=int(rows.time.max(initial=-_LAST)) if len(rows) else 0,
            writer=writer,
            number=number,
        )
        self._log.append(head, chunk.pack(arena))
        self._note(head)
        return True

    def push(
        self, stream: str, *, at: Time, graph: Any, op: str = "insert", format: str | None = None
    ) -> None:
        """Keep one event, given as `Session.push` takes it; malformed text is refused."""
        if op not in _OPS:
            raise UsageError(f'op is "insert" or "delete", not {op!r:.60}')
        if isinstance(graph, str | bytes):
            data = graph.encode("utf-8", "surrogatepass") if isinstance(graph, str) else graph
            name = format or "nt"
        else:
            data, name = lines_of(graph)
        known = format_named(name)
        if known.has_events:
            raise UsageError(f"{known.title} states events, and push takes one graph: use append")
        arena, time = Arena(), time_of(at)
        reader = known.reader(arena, Prune.everything(), source=stream, per_event=0, time_predicate=b"")
        chunk = reader.read(data)
        if chunk.rejects:
            raise chunk.rejects[0].error()
        columns = np.zeros((4, len(chunk)), np.int64)
        columns[0], columns[3] = time, _OPS[op]
        when, event, graphs, ops = columns
        rows = Rows(when, event, graphs, chunk.s, chunk.p, chunk.o, ops)
        self.append(EventBatch(stream_of(stream), rows, time), arena, rescope=True)

    def _note(self, head: Head) -> None:
        if head.writer is not None and head.number is not None:
            self._writers[head.writer] = max(head.number, self._writers.get(head.writer, head.number))

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the store is closed")

    # The content

    def _facts(self, records: Sequence[Record], arena: Arena) -> Facts:
        parts = []
        for record in records:
            chunk = Chunk.unpack(self._log.body(record), arena)
            none = np.zeros(len(chunk), np.int64)
            rows = Rows(chunk.time, chunk.number, none, chunk.s, chunk.p, chunk.o, chunk.op)
            parts.append(Facts.of(arena.intern(f"<{record.head.stream}>".encode()), rows))
        return Facts.concat(parts)

    def _catch_up(self) -> None:
        """Bring all records of the log into the content."""
        with self._alone:
            records = self._log.records
            while self._applied < len(records):
                end, rows = self._applied, 0
                while end < len(records) and rows < _GROUP:
                    rows += records[end].head.rows
                    end += 1
                self._apply(self._applied, end)
                self._applied = end

    def _apply(self, begin: int, end: int) -> None:
        """Set the state of each triple of some records; what is there already changes nothing (a replay)."""
        records = self._log.records
        arena = Arena()
        facts = self._facts(records[begin:end], arena)
        if not len(facts):
            return
        clock = max((record.head.last for record in records[:begin] if record.head.rows), default=-_LAST)
        doubtful = (facts.time < clock) | ((facts.time == clock) & (facts.op < 0))
        if doubtful.any():
            asked = facts[doubtful]
            low = int(asked.time.min())
            overlapping = [r for r in records[:begin] if r.head.rows and r.head.last >= low]
            before = self._facts(overlapping, arena)
            same = (before.time >= low) & np.isin(before.s, asked.s) & np.isin(before.o, asked.o)
            facts = Facts.concat([before[same], facts])
        if doubtful.any() or (facts.op < 0).any():
            facts = facts.latest()
        added = facts[facts.op > 0]
        streams = [record.head.stream for record in records[begin:end]]
        self._admit(dict.fromkeys(streams))
        self._remove(facts[facts.op < 0], arena)
        quads = ox.parse(
            added.lines(arena, named=True, default=len(self._streams) > 1), format=ox.RdfFormat.N_QUADS
        )
        if len(added) >= _BULK:
            self._content.bulk_extend(quads)
        else:
            self._content.extend(quads)

    def _admit(self, streams: dict[str, None]) -> None:
        """Take streams into the content. Of one stream alone its graph is the default graph; several have a union."""
        new = [stream for stream in streams if stream not in self._streams]
        if len(self._streams) == 1 and new:
            only = ox.NamedNode(self._streams[0])
            self._content.bulk_extend(
                ox.Quad(quad.subject, quad.predicate, quad.object)
                for quad in list(self._content.quads_for_pattern(None, None, None, only))
            )
        self._streams += new

    def _remove(self, rows: Facts, arena: Arena) -> None:
        several = len(self._streams) > 1
        for quad in ox.parse(rows.lines(arena, named=True, default=False), format=ox.RdfFormat.N_QUADS):
            self._content.remove(quad)
            if several:
                triple = quad.subject, quad.predicate, quad.object
                found = self._content.quads_for_pattern(*triple, None)
                if all(other.graph_name == ox.DefaultGraph() for other in found):
                    self._content.remove(ox.Quad(*triple))

    def _checkpoint(self) -> None:
        """Have the content on disk, so that the next process need not bring these records into it again."""
        self._catch_up()
        if self._manifest.applied != self._applied or list(self._manifest.streams) != self._streams:
            self._content.flush()
            self._save(replace(self._manifest, applied=self._applied, streams=tuple(self._streams)))

    # Asking

    def ask(
        self, text: str, *, as_of: AsOf | None = None
    ) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        """The answer of a SPARQL query over the current content, or over that at an instant or of a window.

        The window `(start, end)` holds what came after `start` and up to `end`.
        """
        self._check_open()
        if as_of is None:
            self._catch_up()
            content, streams = self._content, self._streams
        else:
            bounds, wanted = self._bounds(as_of), wanted_of(text)
            with self._alone:
                content, streams = self._snapshot(*bounds, wanted)
        one = ox.NamedNode(streams[0]) if len(streams) == 1 else None
        try:
            return content.query(text, default_graph=one)
        except SyntaxError as error:
            message = str(error.args[0] if error.args else error)
        finally:
            del content  # a traceback that someone keeps must not keep the store open
        raise as_query_error(text, message)

    def _bounds(self, as_of: AsOf) -> tuple[int | None, int]:
        start, end = as_of if isinstance(as_of, tuple) else (None, as_of)
        low, high = None if start is None else time_of(start), time_of(end)
        if low is not None and low >= high:
            raise UsageError(f"the window ends before it begins: {start} to {end}")
        horizon = self._manifest.horizon
        if horizon is not None and (high < horizon or (low is not None and low < horizon)):
            raise UsageError(
                f"the history before {show_instant(horizon)} was dropped when the store was compacted"
            )
        return low, high

    def _snapshot(self, start: int | None, end: int, wanted: Wanted | None) -> tuple[ox.Store, list[str]]:
        """The content at an instant, in memory; of it only what a query can use."""
        key, size = (start, end, wanted), len(self._log.records)
        records = [
            record
            for record in self._log.records
            if record.head.rows and record.head.first <= end and (start is None or record.head.last > start)
        ]
        streams = list(dict.fromkeys(record.head.stream for record in records))
        known = self._snapshots.pop(key, None)
        if known is not None and known[0] == size:
            self._snapshots[key] = known
            return known[1], streams
        arena = Arena()
        facts = self._facts(records, arena)
        if wanted is not None:
            facts = facts[wanted.mask(facts, arena)]
        facts = facts.content(start, end)
        content = ox.Store()
        lines = facts.lines(arena, named=True, default=len(streams) > 1)
        content.bulk_extend(ox.parse(lines, format=ox.RdfFormat.N_QUADS))
        self._snapshots[key] = size, content
        while len(self._snapshots) > _SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]
        return content, streams

    def history(
        self, *, start: int | None = None, end: int | None = None
    ) -> Iterator[tuple[str, Rows, Arena]]:
        """The kept rows, record by record, with the arena of their terms; times are in microseconds."""
        for record in self._log.records:
            head = record.head
            if head.rows and (end is None or head.first <= end) and (start is None or head.last > start):
                arena = Arena()
                facts = self._facts([record], arena)
                none = np.zeros(len(facts), np.int64)
                yield head.stream, Rows(facts.time, none, none, facts.s, facts.p, facts.o, facts.op), arena

    def stats(self) -> StoreStats:
        """How much the store holds."""
        self._check_open()
        self._catch_up()
        heads = [record.head for record in self._log.records if record.head.rows]
        streams: dict[str, int] = {}
        for head in heads:
            streams[head.stream] = streams.get(head.stream, 0) + head.rows
        counted: Any = self.ask("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n) ?p")
        predicates = {row["p"].value: int(row["n"].value) for row in counted}
        files = (path for path in (self.path / "content").rglob("*") if path.is_file())
        return StoreStats(
            events=sum(head.events for head in heads),
            rows=sum(head.rows for head in heads),
            deletes=sum(head.deletes for head in heads),
            triples=sum(predicates.values()),
            streams=streams,
            predicates=predicates,
            first=min((head.first for head in heads), default=None),
            last=max((head.last for head in heads), default=None),
            horizon=self._manifest.horizon,
            records=len(self._log.records),
            log_bytes=self._log.nbytes,
            content_bytes=sum(path.stat().st_size for path in files),
        )

    # Compaction

    def compact(self, *, before: Time | None = None) -> None:
        """Merge the records of the log into few; with `before`, drop the history up to that instant.

        Of what came up to `before`, the content at that instant is kept. Earlier instants cannot be asked for then.
        """
        with self._alone:
            self._compact(None if before is None else time_of(before))

    def _compact(self, cut: int | None) -> None:
        self._check_open()
        self._checkpoint()
        horizon = self._manifest.horizon
        if cut is not None and (horizon is None or cut > horizon):
            horizon = cut
        generation = self._manifest.generation + 1
        folder = self.path / f"log-{generation}"
        shutil.rmtree(folder, ignore_errors=True)
        merged = Log(folder)
        try:
            for stream, group in self._groups(whole=cut is not None):
                arena = Arena()
                facts = self._facts(group, arena)
                if cut is not None:
                    facts = _without_history(facts, cut)
                _write(merged, stream, facts, sum(record.head.events for record in group), arena)
        finally:
            merged.close()
        manifest = replace(
            self._manifest, generation=generation, horizon=horizon, writers=dict(self._writers)
        )
        self._log.close()
        old = self._log_folder
        self._log = Log(folder)
        self._applied = len(self._log.records)
        self._save(replace(manifest, applied=self._applied))
        shutil.rmtree(old)
        self._snapshots.clear()
        self._content.optimize()

    def _groups(self, *, whole: bool) -> Iterator[tuple[str, list[Record]]]:
        """Records of one stream that become one: all of them, or up to so many rows."""
        groups: dict[str, list[Record]] = {}
        for record in self._log.records:
            if not record.head.rows:
                continue
            group = groups.setdefault(record.head.stream, [])
            if not whole and sum(one.head.rows for one in group) >= _GROUP:
                yield record.head.stream, list(group)
                group.clear()
            group.append(record)
        for stream, group in groups.items():
            if group:
                yield stream, group


def _without_history(facts: Facts, cut: int) -> Facts:
    """The content at an instant, and all that came after it."""
    old = facts.time <= cut
    kept = facts[old].latest()
    return Facts.concat([kept[kept.op > 0], facts[~old]])


def _write(log: Log, stream: str, facts: Facts, events: int, arena: Arena) -> None:
    order = np.argsort(facts.time, kind="stable")
    facts = facts[order]
    for start in range(0, len(facts), _GROUP):
        part = facts[start : start + _GROUP]
        none = np.zeros(len(part), np.int64)
        chunk = Chunk(len(part), 0, none, none, part.s, part.p, part.o, part.time)
        chunk.op = part.op
        head = Head(
            stream,
            rows=len(part),
            events=events if not start else 0,
            deletes=int(np.count_nonzero(part.op < 0)),
            first=int(part.time[0]),
            last=int(part.time[-1]),
        )
        log.append(head, chunk.pack(arena))


_LAST = 1 << 62


def _locked(path: Path) -> int:
    """A lock of a folder, which ends with the process."""
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with suppress(OSError):
            os.close(lock)
        raise UsageError("another process has opened this store", source=str(path)) from None
    return lock


def _read(path: Path) -> _Manifest:
    try:
        found = json.loads(path.read_bytes())
        manifest = _Manifest(**{**found, "streams": tuple(found["streams"])})
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"this is not the manifest of a store: {error}", source=str(path)) from None
    if manifest.format != _FORMAT:
        raise UsageError(
            f"the store has format {manifest.format}, and this version reads {_FORMAT}", source=str(path)
        )
    return manifest
