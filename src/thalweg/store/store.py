"""A store on disk: the log of all events, and what is derived from it to answer SPARQL over their content."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np

from thalweg.arguments import stream_of, time_of
from thalweg.errors import DataError, LimitError, UsageError
from thalweg.instants import Time
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import format_named
from thalweg.rdf.prune import Prune
from thalweg.statements import lines_of
from thalweg.static.files import BrokenStaticFileError
from thalweg.store.answers import Answer, EngineAnswer, answer_of
from thalweg.store.asking import AsOf, bounds, check_syntax
from thalweg.store.content import Content
from thalweg.store.evaluating import Choice, choice_of, evaluate
from thalweg.store.history import LAST, content_at, facts_of, groups_of_rows, states_of, write_compacted
from thalweg.store.log import Head, Log, sync_folder
from thalweg.store.oxigraph import OxigraphContent
from thalweg.store.stats import StoreStats

_FORMAT = 1
_GROUP = 1 << 22
"""Rows that are brought into the content at once."""
_SNAPSHOTS = 2
"""Contents at earlier instants that are kept in memory."""
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_OPS = {"insert": 1, "delete": -1}


@dataclass(frozen=True)
class _Manifest:
    """What a store knows beside its log: replaced as a whole, so that it always fits one generation of the log."""

    format: int = _FORMAT
    generation: int = 0
    """Which folder of segments is the log."""
    horizon: int | None = None
    """The instant before which the history was dropped."""
    writers: dict[str, int] = field(default_factory=dict)
    """How far writers had come when the log was last compacted."""


@dataclass(frozen=True)
class Explanation:
    """How a question is answered."""

    choice: Choice
    triples: int | None = None
    """Triples that the engine reads for it."""
    rows: int | None = None

    def lines(self) -> Iterator[str]:
        """The explanation as text."""
        yield f"answered by: {self.choice.by} ({self.choice.reason})"
        if self.triples is not None:
            yield f"triples read: {self.triples:,}"
        if self.rows is not None:
            yield f"rows: {self.rows:,}"


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
        shutil.rmtree(
            self.path / "content", ignore_errors=True
        )  # of earlier versions, which had Oxigraph's there
        self._log = Log(self._log_folder)
        self._content = self._mapped()
        self._oxigraph: OxigraphContent | None = None
        self._writers = dict(self._manifest.writers)
        for record in self._log.records:
            self._note(record.head)
        self._snapshots: dict[Any, tuple[int, Content]] = {}
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
        self._manifest = manifest
        sync_folder(self.path)

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
                self._file_content()
            finally:
                self._closed = True
                self._log.close()
                self._oxigraph = None
                os.close(self._lock)

    # Writing

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to, or None if it has written nothing."""
        return self._writers.get(writer)

    def events_by_stream(self) -> dict[str, int]:
        """How many events are kept of each stream."""
        found: dict[str, int] = {}
        for record in self._log.records:
            if record.head.rows:
                found[record.head.stream] = found.get(record.head.stream, 0) + record.head.events
        return found

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
        if not _ABSOLUTE.match(batch.stream):
            raise UsageError(
                "a stream of a store is a graph, named by an absolute IRI such as http://example.org/s, "
                f"not {batch.stream!r:.80}"
            )
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
            first=int(rows.time.min(initial=LAST)) if len(rows) else 0,
            last=int(rows.time.max(initial=-LAST)) if len(rows) else 0,
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

    @property
    def _content_file(self) -> Path:
        return self.path / "content.bin"

    def _mapped(self) -> Content:
        """The content of the file, if it is of this generation of the log; else nothing, and the log is read again."""
        try:
            found = Content.mapped(self._content_file)
        except BrokenStaticFileError:
            return Content()
        fits = found.about.get("generation") == self._manifest.generation
        return found if fits and found.about["applied"] <= len(self._log.records) else Content()

    def _current(self) -> Content:
        """The content, with all records of the log."""
        content = self._content
        records = self._log.records
        for begin, end in groups_of_rows(records, content.about.get("reached", 0), _GROUP):
            content.set(states_of(self._log, begin, end, content.arena))
            content.about["reached"] = end
        if content.is_outgrown:
            self._save_content()
        return self._content

    def _save_content(self) -> None:
        reached = self._content.about.get("reached", 0)
        about = {"generation": self._manifest.generation, "applied": reached, "reached": reached}
        self._content = self._content.save(self._content_file, about)

    def _file_content(self) -> None:
        """Have the content in its file, unless little came since: then the next process reads that from the log."""
        reached = self._content.about.get("reached", 0)
        later = sum(record.head.rows for record in self._log.records[reached:])
        if self._content.outgrown_by(later):
            self._current()

    def _in_oxigraph(self) -> OxigraphContent:
        """The content in Oxigraph, with all records of the log."""
        if self._oxigraph is None:
            self._oxigraph = OxigraphContent(self._current(), len(self._log.records))
        self._oxigraph.catch_up(self._log)
        return self._oxigraph

    # Asking

    def ask(self, text: str, *, as_of: AsOf | None = None) -> Answer:
        """The answer of a SPARQL query over the current content, or over that at an instant or of a window.

        The window `(start, end)` holds what came after `start` and up to `end`.
        """
        with self._alone:
            return self._ask(text, as_of)[0]

    def explain(self, text: str, *, as_of: AsOf | None = None) -> Explanation:
        """How a question is answered; to find that out, it is asked."""
        with self._alone:
            return self._ask(text, as_of)[1]

    def _ask(self, text: str, as_of: AsOf | None) -> tuple[Answer, Explanation]:
        self._check_open()
        content = self._current() if as_of is None else self._snapshot(as_of)
        choice = choice_of(text, content.names)
        if choice.query is not None:
            try:
                found = evaluate(choice.query, content)
            except LimitError as error:
                choice = Choice(None, f"the engine gives up: {error}")
            else:
                made = EngineAnswer(found, self._alone)
                return made, Explanation(choice, found.triples, len(found.delta))
        check_syntax(text)
        known = self._in_oxigraph() if content is self._content else OxigraphContent(content)
        answer = answer_of(known.query(text))
        return answer, Explanation(choice, rows=len(answer))

    def _snapshot(self, as_of: AsOf) -> Content:
        """The content at an instant or of a window, in memory."""
        start, end = bounds(as_of, self._manifest.horizon)
        assert end is not None
        records = self._log.records
        if start is None and all(record.head.last <= end for record in records if record.head.rows):
            return self._current()
        key, size = (start, end), len(records)
        known = self._snapshots.pop(key, None)
        if known is None or known[0] != size:
            arena = Arena()
            known = size, Content.of(content_at(self._log, start, end, arena), arena)
        self._snapshots[key] = known
        while len(self._snapshots) > _SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]
        return known[1]

    def history(
        self, *, start: int | None = None, end: int | None = None
    ) -> Iterator[tuple[str, Rows, Arena]]:
        """The kept rows, record by record, with the arena of their terms; times are in microseconds."""
        for record in self._log.records:
            head = record.head
            if head.rows and (end is None or head.first <= end) and (start is None or head.last > start):
                arena = Arena()
                facts = facts_of(self._log, [record], arena)
                none = np.zeros(len(facts), np.int64)
                yield head.stream, Rows(facts.time, none, none, facts.s, facts.p, facts.o, facts.op), arena

    def stats(self) -> StoreStats:
        """How much the store holds."""
        with self._alone:
            self._check_open()
            content = self._current()
            predicates = content.predicates()
        heads = [record.head for record in self._log.records if record.head.rows]
        streams: dict[str, int] = {}
        for head in heads:
            streams[head.stream] = streams.get(head.stream, 0) + head.rows
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
            content_bytes=self._content_file.stat().st_size if self._content_file.exists() else 0,
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
        self._current()
        horizon = self._manifest.horizon
        if cut is not None and (horizon is None or cut > horizon):
            horizon = cut
        generation = self._manifest.generation + 1
        folder = self.path / f"log-{generation}"
        shutil.rmtree(folder, ignore_errors=True)
        merged = Log(folder)
        try:
            write_compacted(self._log, merged, cut)
        finally:
            merged.close()
        manifest = replace(
            self._manifest, generation=generation, horizon=horizon, writers=dict(self._writers)
        )
        old, fresh = self._log_folder, Log(folder)
        try:
            self._save(manifest)
        finally:
            # Events that come later go to the log that the manifest names, also if it could not be replaced.
            if self._manifest is manifest:
                self._log.close()
                self._log = fresh
                self._content.about["reached"] = len(fresh.records)
                self._snapshots.clear()
                self._oxigraph = None
            else:
                fresh.close()
        shutil.rmtree(old)
        self._save_content()


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
        manifest = _Manifest(**{one.name: found[one.name] for one in fields(_Manifest)})
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"this is not the manifest of a store: {error}", source=str(path)) from None
    if manifest.format != _FORMAT:
        raise UsageError(
            f"the store has format {manifest.format}, and this version reads {_FORMAT}", source=str(path)
        )
    return manifest
