"""The stock suite: V shapes in a random walk of prices, as sequences of events (SPAseq, thesis A.5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from thalweg.bench.report import Report
from thalweg.engine import Session
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows

STREAM = "http://example.org/main"
SEQUENCES = ("A; B; C", "A, B, C", "A, B+, C")
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: events (one each millisecond), windows in events, companies, events of a batch."""

    events: int = 200_000
    widths: tuple[int, ...] = (10, 100, 1000)
    companies: tuple[int, ...] = (1, 100)
    batch: int = 10_000
    repeat: int = 3


QUICK = Sizes(events=50_000, widths=(10, 100), repeat=2)


def query_of(sequence: str, width: int) -> str:
    """The V shape of the thesis over a window."""
    return f"""PREFIX pred: <http://example/> SELECT ?company ?p1 ?p2 ?p3
WITHIN {width} MILLISECONDS FROM STREAM S1 <{STREAM}>
WHERE {{ SEQ ({sequence})
  DEFINE GPM A ON S1 {{ ?company pred:price ?p1 . ?company pred:volume ?vol1 }}
  DEFINE GPM B ON S1 {{ ?company pred:price ?p2 . ?company pred:volume ?vol2  FILTER(?p2 < ?p1) }}
  DEFINE GPM C ON S1 {{ ?company pred:price ?p3 . ?company pred:volume ?vol3  FILTER(?p3 > ?p2 && ?p3 > ?p1) }} }}"""


def events_of(arena: Arena, sizes: Sizes, companies: int) -> list[EventBatch]:
    """The stream as ids: two triples an event, prices by a random walk."""
    chosen = np.random.default_rng(companies)
    names = arena.intern_all([f"<http://example/c{k}>".encode() for k in range(companies)])
    numbers = arena.intern_all([f'"{k}"^^<{_INTEGER}>'.encode() for k in range(1000)])
    predicates = arena.intern_all([b"<http://example/price>", b"<http://example/volume>"])
    walk = 500 + np.cumsum(chosen.integers(-5, 6, sizes.events))
    prices = np.abs((walk - 999) % 1998 - 999)  # reflected at both ends
    subject = np.repeat(names[chosen.integers(0, companies, sizes.events)], 2)
    value = np.stack([numbers[prices], numbers[chosen.integers(0, 1000, sizes.events)]], axis=1).ravel()
    number = np.repeat(np.arange(sizes.events), 2)
    rows = Rows.inserts(
        number * 1000, number, np.zeros_like(number), subject, np.tile(predicates, sizes.events), value
    )
    starts = range(0, len(rows), 2 * sizes.batch)
    parts = [rows[start : start + 2 * sizes.batch] for start in starts]
    return [EventBatch(STREAM, part, int(part.time[-1])) for part in parts]


def timed(sequence: str, width: int, sizes: Sizes, companies: int) -> tuple[float, int]:
    """The seconds that all events take, and how many matches they have."""
    session = Session(max_pending=None)
    query = session.register(query_of(sequence, width))
    batches = events_of(session.arena, sizes, companies)
    begun, found = perf_counter(), 0
    for batch in batches:
        session.push_events(batch)
        found += len(query.drain())
    session.finish()
    return perf_counter() - begun, found + len(query.drain())


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; its stream is generated, and there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("stock")
    for companies in sizes.companies:
        for sequence in SEQUENCES:
            # The matches of one company by `;` grow with the square of the window.
            widths = sizes.widths[:1] if companies == 1 and ";" in sequence else sizes.widths
            for width in widths:
                runs = [timed(sequence, width, sizes, companies) for _ in range(sizes.repeat)]
                rate = sizes.events / min(seconds for seconds, _ in runs) / 1000
                note = f"{runs[0][1]:,} matches"
                many = "1 company" if companies == 1 else f"{companies} companies"
                report.add(many, f"SEQ({sequence}), window {width}", rate, "k events/s", note=note)
    return report
