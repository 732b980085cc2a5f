"""The runner of this process: files in, results out, several streams read side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from thalweg.answers import ContinuousQuery
from thalweg.engine import Session
from thalweg.io.files import PIECE, FileEvents, read_events
from thalweg.io.job import Job
from thalweg.io.outcome import Outcome, Seen, conclude, untimed_statement
from thalweg.io.outputs import open_writer
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.writers import Records, Writer
from thalweg.plan.coverage import Coverage
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.events import EventBatch

_ROWS = 1 << 16
_MOST_THREADS = 4  # reading is then no longer what a run waits for


def run_in_process(job: Job, meter: Meter) -> Outcome:
    """Run a job to the end of its files, or to Ctrl-C."""
    begin = time.perf_counter()
    # The results of each batch are written before the next one.
    session = Session.of(replace(job.options, max_pending=None))
    for producer in job.derive:
        session.register(producer).discard()
    query = session.register(job.query)
    sources = _open(job, session)
    quarantine, late = Records(job.outputs.quarantine), Records(job.outputs.late)
    outcome = Outcome()
    coverage, begun = Coverage(job.queries, job.inputs), set[str]()

    def look(batch: EventBatch) -> None:
        coverage.observe(batch.stream, batch.rows, session.arena)
        if batch.events:
            begun.add(batch.stream)
        outcome.untimed = sum(source.framer.ignored for source in sources.values())
        if outcome.untimed and job.options.on_error == "fail":
            raise untimed_statement(job)
        quarantine.write(batch.rejects)

    try:
        with open_writer(job.outputs.results, job.query) as writer, Interrupts() as interrupts:
            for _ in _side_by_side(sources, session, look, drain=job.options.drain):
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
    blanks = sum(source.blanks for source in sources.values())
    conclude(outcome, job, Seen(quarantine, late, begun, coverage.unmatched, blanks))
    return outcome


def _open(job: Job, session: Session) -> dict[str, FileEvents]:
    files = job.files()
    # What one stream is ahead of another waits in memory, so that several are read in smaller steps.
    piece = PIECE if len(files) == 1 else PIECE // 8
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    sources = {
        stream: read_events(
            paths, stream, session.arena, session.prune, job.options, piece=piece, threads=threads
        )
        for stream, paths in files.items()
    }
    session.keep(lambda: [source.live_ids() for source in sources.values()])
    return sources


def _side_by_side(
    sources: dict[str, FileEvents], session: Session, look: Callable[[EventBatch], None], *, drain: bool
) -> Iterator[None]:
    """Feed the session, always from the stream whose clock is behind; a step is a batch or an end.

    `look` is called with each batch before the session takes it.
    """
    clocks = dict.fromkeys(sources, NO_TIME)
    while clocks:
        stream = min(clocks, key=clocks.__getitem__)
        batch = next(sources[stream], None)
        if batch is None:
            del clocks[stream]
            session.finish(stream, drain=drain)
        else:
            clocks[stream] = batch.clock
            look(batch)
            session.push_events(batch)
        yield


def _deliver(query: ContinuousQuery, writer: Writer) -> None:
    delta = query.drain()
    if query.query.reports_empty or not delta.ids.all():  # rows of several shapes
        writer.write(query.rows(delta))
    else:
        for start in range(0, len(delta), _ROWS):
            part = delta[start : start + _ROWS]
            texts, graphs = query.texts(part)
            writer.columns(part.at.tolist(), part.signs, texts, graphs if query.query.per_event else None)
    if len(delta):
        writer.flush()
