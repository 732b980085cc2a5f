"""The runner of this process: files in, results out, several streams read side by side."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from thalweg.answers import ContinuousQuery
from thalweg.engine import Session
from thalweg.io.files import PIECE, FileEvents, ReadOptions, read_events
from thalweg.io.job import Job, Outcome, count
from thalweg.io.outputs import open_writer
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.writers import Records, Writer
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.ntriples import GENERATED_AT

_ROWS = 1 << 16
_MOST_THREADS = 4  # reading is then no longer what a run waits for
_SCOPED = re.compile(rb"_:e[0-9a-f]+-")


def run_job(job: Job, meter: Meter) -> Outcome:
    """Run a job to the end of its files, or to Ctrl-C."""
    begin = time.perf_counter()
    session = Session(
        lateness=f"{job.lateness}us", on_error=job.on_error, blank_nodes=job.reading.blank_nodes
    )
    for producer in job.derive:
        session.register(producer)
    query = session.register(job.query)
    sources = _open(job, session)
    quarantine, late = Records(job.outputs.quarantine), Records(job.outputs.late)
    outcome = Outcome()
    try:
        with open_writer(job.outputs.results, job.query) as writer, Interrupts() as interrupts:
            for _ in _side_by_side(sources, session, quarantine, drain=job.drain):
                late.write(session.late())
                _deliver(query, writer)
                meter.update(
                    size=sum(source.bytes for source in sources.values()),
                    triples=sum(source.statements for source in sources.values()),
                    results=writer.rows,
                )
                if interrupts.wanted:
                    outcome.interrupted = True
                    break
            outcome.results = writer.rows
    finally:
        quarantine.close()
        late.close()
    outcome.events = session.stats.events
    outcome.triples = sum(source.statements for source in sources.values())
    outcome.quarantined, outcome.late = session.stats.quarantined, session.stats.late
    outcome.seconds = time.perf_counter() - begin
    outcome.hints = list(_hints(job, sources, quarantine, late, session))
    return outcome


def _open(job: Job, session: Session) -> dict[str, FileEvents]:
    reading = job.reading
    files = job.files()
    predicate = reading.time_predicate
    options = ReadOptions(
        per_event=reading.per_event,
        rate=reading.rate,
        blank_nodes=reading.blank_nodes,
        time_predicate=GENERATED_AT if predicate is None else f"<{predicate.strip('<>')}>".encode(),
        # What one stream is ahead of another waits in memory, so that several are read in smaller steps.
        piece=PIECE if len(files) == 1 else PIECE // 8,
        threads=min(os.cpu_count() or 1, _MOST_THREADS),
    )
    sources = {
        stream: read_events(paths, stream, session.arena, session.prune(), options)
        for stream, paths in files.items()
    }
    session.keep(lambda: [source.live() for source in sources.values()])
    return sources


def _side_by_side(
    sources: dict[str, FileEvents], session: Session, quarantine: Records, *, drain: bool
) -> Iterator[None]:
    """Feed the session, always from the stream whose clock is behind; a step is a batch or an end."""
    clocks = dict.fromkeys(sources, NO_TIME)
    while clocks:
        stream = min(clocks, key=clocks.__getitem__)
        batch = next(sources[stream], None)
        if batch is None:
            del clocks[stream]
            session.finish(stream, drain=drain)
        else:
            clocks[stream] = batch.clock
            quarantine.write(batch.rejects)
            session.push_events(batch)
        yield


def _deliver(query: ContinuousQuery, writer: Writer) -> None:
    delta = query.drain()
    if query.query.tells_empty:  # rows of two shapes
        writer.write(query.rows(delta))
    else:
        for start in range(0, len(delta), _ROWS):
            part = delta[start : start + _ROWS]
            texts, graphs = query.texts(part)
            writer.columns(part.at.tolist(), part.signs, texts, graphs if query.query.per_event else None)
    if len(delta):
        writer.flush()


def _hints(
    job: Job,
    sources: dict[str, FileEvents],
    quarantine: Records,
    late: Records,
    session: Session,
) -> Iterator[str]:
    yield from hints(job, quarantine, late)
    ignored = sum(source.framer.ignored for source in sources.values())
    if ignored:
        yield f"left out: {count(ignored, 'statement')} of the default graph that say no time"
    if session.stats.late > late.count:
        yield f"only {late.count:,} of {session.stats.late:,} late events could be written down"
    joins = job.reading.blank_nodes == "event" and len(job.query.patterns) > 1 and not job.query.per_event
    if joins and _SCOPED.search(session.arena.log[: session.arena.used_bytes].data):
        yield (
            "blank nodes were taken as local to their events, so that no two events share one; "
            "if the labels are stable, say --blank-nodes stable"
        )


def hints(job: Job, quarantine: Records, late: Records) -> Iterator[str]:
    """What a newcomer may want to know about the outcome of a run, wherever it ran."""
    for stream in job.unread:
        yield f"the query does not read <{stream}>"
    if quarantine.first is not None and job.outputs.quarantine is None:
        yield f"malformed input, e.g. {place(quarantine.first)} (--quarantine PATH keeps all of it)"
    if late.first is not None and job.outputs.late is None:
        yield "events came too late: --lateness waits for them, --late PATH keeps them"


def place(reject: object) -> str:
    """Where and why a piece of input was refused."""
    cells = reject if isinstance(reject, dict) else vars(reject)
    where = ":".join(str(cells[key]) for key in ("source", "line", "column") if cells[key])
    return f"{where}: {cells['reason']}"
