"""Files of events from one format to another: what is kept, what is lost, and what is refused."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np

from thalweg.algebra.scope import TRIPLE
from thalweg.errors import DataError, UsageError
from thalweg.instants import show_instant
from thalweg.io.event_lines import EventLines
from thalweg.io.files import FileEvents, pieces
from thalweg.io.graphs import GraphWriter, Statements, name_of
from thalweg.io.inputs import files_of
from thalweg.io.live import STDIN, is_live
from thalweg.io.opening import open_file
from thalweg.io.outcome import count, error_of
from thalweg.io.outputs import output_format, writer_of
from thalweg.io.progress import Interrupts
from thalweg.io.records import Records
from thalweg.io.writers import Answer, Writer
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch
from thalweg.rdf.formats import Format
from thalweg.rdf.prune import Prune

STREAM = "urn:thalweg:stream"
"""The stream of events whose stream has no name."""
_MOST_TERMS = 256 * 1024 * 1024
"""Bytes of terms that are kept before those of earlier batches are dropped."""
_ROWS = 1 << 16
_SETS = ("nq", "trig")
"""Formats of datasets: their graphs can be events, and the times of these are statements of the default graph."""
_GRAPHS = ("nt", "turtle")
"""Formats of one graph."""


@dataclass(frozen=True)
class Conversion:
    """What is converted into what."""

    source: str
    target: Path
    options: RunOptions
    out_format: str | None = None
    stream: str | None = None
    quarantine: Path | None = None


@dataclass
class Converted:
    """What a conversion did."""

    events: int = 0
    statements: int = 0
    quarantined: int = 0
    empty: int = 0
    """Events without triples."""
    untimed: int = 0
    """Statements that belong to no event."""
    lost: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False
    first_reject: DataError | None = None

    def lines(self) -> list[str]:
        """Hints, and then a summary."""
        hints = [f"lost: {what}" for what, number in self.lost.items() if number]
        if self.first_reject is not None:
            hints.append(f"malformed input, e.g. {self.first_reject} (--quarantine PATH keeps all of it)")
        if self.untimed:
            hints.append(
                f"left out: {count(self.untimed, 'statement')} of the default graph without a time "
                "(--as-statements keeps everything, --time-predicate names the predicate of times)"
            )
        if self.empty:
            hints.append(f"left out: {count(self.empty, 'event')} without triples")
        state = "interrupted after " if self.interrupted else ""
        events = "" if self.events == self.statements else f"{count(self.events, 'event')}, "
        return [
            *hints,
            f"{state}{events}{count(self.statements, 'statement')} in {self.seconds:.2f} s, "
            f"{self.quarantined:,} quarantined",
        ]


def convert(job: Conversion) -> Converted:
    """Convert a file, or the standard input, into a file that appears when it is complete."""
    begin = time.perf_counter()
    target = output_format(job.target, job.out_format)
    with source_files(job.source, job.options) as (paths, live):
        formats = [job.options.format_for(path) for path in paths]
        options = _framing(job.options, formats, target)
        timed = options.mode_for(formats[0]) != "triples" or not formats[0].has_graphs
        arena, done = Arena(), Converted()
        stream = job.stream or STREAM
        events = FileEvents(paths, stream, arena, Prune.everything(), options, live=live)
        with whole_file(job.target) as out, closing(Records(job.quarantine)) as quarantine:
            answer = Answer(stream if target.name in _SETS else job.stream or "", "additions", timed=timed)
            writer = _writer(target, out, answer)
            with writer, Interrupts() as interrupts:
                named = _Named(stream, target.name in _SETS and timed)
                for batch in events:
                    _refuse_malformed(batch, options)
                    quarantine.write(batch.rejects)
                    for at, statements in _statements(batch, arena, named):
                        _put(writer, at, statements, done, target)
                    done.events += batch.events
                    done.empty += batch.events - _events_with_rows(batch)
                    if arena.used_bytes > _MOST_TERMS:
                        arena.compact(events.live_ids())
                    if interrupts.wanted:
                        done.interrupted = True
                        break
        done.untimed = events.framer.ignored
        done.quarantined = quarantine.count
        if quarantine.first is not None and job.quarantine is None:
            done.first_reject = error_of(quarantine.first)
        _note_times(done, formats, target)
    done.seconds = time.perf_counter() - begin
    return done


def check_conversion(job: Conversion) -> None:
    """Refuse a conversion that cannot be done, before anything is opened."""
    if job.source == STDIN and job.options.format is None:
        raise UsageError("the standard input has no suffix: --format names its format")
    if job.source != STDIN and is_live(job.source):
        raise UsageError("a file or the standard input (-) is converted", source=job.source)
    _writer_kind(output_format(job.target, job.out_format))


def _writer_kind(target: Format) -> type[Writer]:
    kind = EventLines if target.name == "jsonl" else writer_of(target)
    if kind.of in ("select", "solutions"):
        raise UsageError(
            f"{target.title} are of a query: triples are written to .nt, .ttl, .nq, .trig, .rdfp or .jsonl"
        )
    return kind


def _writer(target: Format, out: IO[bytes], answer: Answer) -> Writer:
    return _writer_kind(target)(out, TRIPLE, answer, close=out is not sys.stdout.buffer)


def _framing(options: RunOptions, formats: list[Format], target: Format) -> RunOptions:
    """The options of the reading: a dataset that stays one, or becomes a graph, is read statement by statement."""
    plain = target.name in _SETS or target.name in _GRAPHS
    if options.mode is None and plain and all(format.has_graphs for format in formats):
        return replace(options, mode="triples", per_event=1)
    return options


def _refuse_malformed(batch: EventBatch, options: RunOptions) -> None:
    if batch.rejects and options.on_error == "fail":
        raise batch.rejects[0].error()


def _events_with_rows(batch: EventBatch) -> int:
    event = batch.rows.event
    return int(np.count_nonzero(event[1:] != event[:-1])) + 1 if len(event) else 0


def _statements(batch: EventBatch, arena: Arena, named: _Named) -> Iterator[tuple[list[int], Statements]]:
    for start in range(0, len(batch), _ROWS):
        rows = batch.rows[start : start + _ROWS]
        at = rows.time.tolist()
        shown = {instant: show_instant(instant) for instant in set(at)}
        graphs: list[str | None] = [None] * len(at)
        places = np.flatnonzero(rows.graph)
        for place, text in zip(places.tolist(), arena.texts(rows.graph[places]), strict=True):
            graphs[place] = text
        events = rows.event.tolist()
        yield (
            at,
            Statements(
                [shown[instant] for instant in at],
                ["+" if op > 0 else "-" for op in rows.op.tolist()],
                named(events, at, graphs),
                [arena.texts(column) for column in (rows.s, rows.p, rows.o)],
                events,
            ),
        )


class _Named:
    """Names for events, where each has to be a graph of its own."""

    def __init__(self, stream: str, needed: bool) -> None:
        self._stream, self._needed = stream, needed
        self._last: tuple[str, int] | None = None

    def __call__(self, events: list[int], at: list[int], graphs: list[str | None]) -> list[str | None]:
        if not self._needed:
            return graphs
        names: list[str | None] = []
        for event, instant, graph in zip(events, at, graphs, strict=True):
            if graph is None:
                names.append(name_of(self._stream, str(event)))
                continue
            if self._last is not None and self._last[0] == graph and self._last[1] != instant:
                raise DataError(
                    f"the graph {graph} is two events in a row, at {show_instant(self._last[1])} and at "
                    f"{show_instant(instant)}: as quads they would be one; convert to .jsonl or .rdfp"
                )
            self._last = graph, instant
            names.append(graph)
        return names


def _put(writer: Writer, at: list[int], statements: Statements, done: Converted, target: Format) -> None:
    if writer.holds != "changes" and "-" in statements.op:
        place = statements.op.index("-")
        raise DataError(
            f"{target.title} has no deletes, and at {statements.times[place]} "
            f"{' '.join(column[place] for column in statements.triples)} is deleted: convert to .rdfp or .jsonl"
        )
    if target.name in _GRAPHS:
        names = sum(graph is not None for graph in statements.graphs)
        key = "the names of graphs, which the target does not have"
        done.lost[key] = done.lost.get(key, 0) + names
    if isinstance(writer, GraphWriter):
        writer.statements(statements)
    else:
        writer.columns(
            at, statements.op, dict(zip(TRIPLE, statements.triples, strict=True)), statements.graphs
        )
    done.statements += len(statements)


def _note_times(done: Converted, formats: list[Format], target: Format) -> None:
    if target.name in _GRAPHS and any(format.has_events for format in formats):
        done.lost["the times of events, which the target does not have"] = done.events


@contextmanager
def source_files(source: str, options: RunOptions) -> Iterator[tuple[list[str], pieces | None]]:
    """The files to read; the standard input is copied to one, because formats are read in pieces of a file."""
    if source != STDIN:
        yield files_of(source, options), None
        return
    with tempfile.NamedTemporaryFile(prefix="thalweg-stdin-") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool, 1 << 20)
        spool.flush()
        yield [STDIN], pieces(spool.name, unpack_ratio=options.unpack_ratio)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """The file that is written: another name until it is complete, so that a failure leaves what was there."""
    if str(path) == "-":
        yield sys.stdout.buffer
        return
    real = Path(os.path.realpath(path))
    if not (real.is_file() or not real.exists()):
        with open_file(path) as out:
            yield out
        return
    part = real.with_name(f".part-{os.getpid()}-{real.name}")
    try:
        with open_file(part) as out:
            yield out
        if real.exists():
            shutil.copymode(real, part)
        os.replace(part, real)
    finally:
        part.unlink(missing_ok=True)
