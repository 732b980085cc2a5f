"""The runner of this process: files in, results out, several streams read side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from thalweg.answers import ContinuousQuery
from thalweg.engine import Session
from thalweg.io.feeds import Feed, Feeds, wall_clock
from thalweg.io.files import PIECE, FileEvents
from thalweg.io.job import Job
from thalweg.io.live import LivePieces, open_live
from thalweg.io.outcome import Outcome, Seen, conclude, untimed_statement
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.records import Records
from thalweg.io.replay import Pace
from thalweg.io.writers import Writer
from thalweg.operators.views import GAP
from thalweg.options import RunOptions
from thalweg.plan.coverage import Coverage
from thalweg.rdf.events import EventBatch

_ROWS = 1 << 16
_MOST_THREADS = 4  # reading is then no longer what a run waits for


def run_in_process(job: Job, meter: Meter) -> Outcome:
    """Run a job to the end of its files, or to Ctrl-C."""
    begin = time.perf_counter()
    # The results of each batch are written before the next one.
    session = Session.of(replace(job.options, max_pending=None), static=job.static)
    for producer in job.derive:
        session.register(producer).discard()
    query = session.register(job.query)
    feeds = _open(job, session)
    sources = {feed.events.framer.stream: feed.events for feed in feeds.feeds}
    quarantine, late = Records(job.outputs.quarantine), Records(job.outputs.late)
    outcome = Outcome()
    coverage, begun = Coverage(job.queries, job.inputs, static=job.static.names), set[str]()

    def look(batch: EventBatch) -> None:
        coverage.observe(batch.stream, batch.rows, session.arena)
        if batch.events:
            begun.add(batch.stream)
        outcome.untimed = sum(source.framer.ignored for source in sources.values())
        if outcome.untimed and job.options.on_error == "fail":
            raise untimed_statement(job)
        quarantine.write(batch.rejects)

    try:
        with job.open_writer() as writer, Interrupts() as interrupts:
            for _ in _side_by_side(feeds, session, look, job.options):
                late.write(session.late())
                outcome.gaps += _deliver(query, writer)
                meter.update(
                    size=sum(source.bytes for source in sources.values()),
                    triples=sum(source.statements for source in sources.values()),
                    results=writer.rows,
                    more=f"{session.stats.events / (time.perf_counter() - begin):,.0f} events/s",
                )
                if interrupts.wanted:
                    outcome.interrupted = True
                    break
            outcome.results = writer.rows
    finally:
        feeds.stop()
        quarantine.close()
        late.close()
    outcome.events = session.stats.events
    outcome.triples = sum(source.statements for source in sources.values())
    outcome.quarantined, outcome.late = session.stats.quarantined, session.stats.late
    outcome.gaps = max(outcome.gaps, session.stats.shed > 0)  # also those of a query that feeds it
    outcome.left_out = sum(source.left_out for source in sources.values())
    outcome.seconds = time.perf_counter() - begin
    blanks = sum(source.blanks for source in sources.values())
    conclude(outcome, job, Seen(quarantine, late, begun, coverage.unmatched, blanks))
    return outcome


def _open(job: Job, session: Session) -> Feeds:
    files = job.files()
    # What one stream is ahead of another waits in memory, so that several are read in smaller steps.
    piece = PIECE if len(files) == 1 else PIECE // 8
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    options = job.options
    pace = None if options.speedup is None else Pace(options.speedup)
    arrival = (lambda: 1000 * wall_clock()) if options.arrival else None
    feeds = []
    for stream, paths in files.items():
        live = None
        if stream in job.live:
            live = LivePieces(open_live(paths[0]), lines=options.format_for(paths[0]).splittable)
        events = FileEvents(
            paths,
            stream,
            session.arena,
            session.prune,
            options,
            piece=piece,
            # What is read ahead would not be answered at once.
            threads=1 if live is not None or pace is not None or options.arrival else threads,
            live=live,
            messages=live is not None and live.messages,
        )
        feeds.append(Feed(events, live, pace, arrival))
    session.keep(lambda: [ids for feed in feeds for ids in feed.live_ids()])
    return Feeds(feeds)


def _side_by_side(
    feeds: Feeds, session: Session, look: Callable[[EventBatch], None], options: RunOptions
) -> Iterator[None]:
    """Feed the session until all streams have ended; a step is a batch, an end, or a wait in which nothing came.

    `look` is called with each batch before the session takes it.
    """
    while feeds:
        taken = feeds.take()
        if taken is None:
            if options.arrival:  # time goes on without events
                session.advance(wall_clock())
        elif taken[1] is None:
            session.finish(taken[0].events.framer.stream, drain=options.drain)
        else:
            look(taken[1])
            session.push_events(taken[1])
        yield


def _deliver(query: ContinuousQuery, writer: Writer) -> int:
    """Writes the new rows; answers how many of them mark gaps."""
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
    return int((delta.op == GAP).sum())
