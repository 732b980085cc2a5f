"""The taxi suite: each trip is one event of 24 triples, NY-Q1 - Q3 are asked of every event ([NOW])."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyoxigraph

from thalweg.bench.report import Report, best_seconds
from thalweg.bench.workload import (
    STREAM,
    Encoded,
    best_costs,
    chunks,
    find_data,
    plain_query,
    query_text,
    text_rows,
)
from thalweg.engine import Session
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import LineReader
from thalweg.testing.generate import TYPE, XSD
from thalweg.testing.generate_rows import trips

TAXI = "http://thalweg.dev/taxi#"
NAMES = ("q1", "q2", "q3")
PER_EVENT = 24
_FILE = "taxi/trips_10k.csv.gz"


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: trips in all, those pushed one by one, and those that pyoxigraph gets."""

    trips: int = 50_000
    pushes: int = 5_000
    rival: int = 1_000
    repeat: int = 3


QUICK = Sizes(trips=10_000, pushes=1_000, rival=200)


def events(rows: Iterable[list[str]]) -> Iterator[str]:
    """The 24 triples of each trip."""
    for number, row in enumerate(rows):
        medallion, licence, pickup, dropoff, seconds, distance, *places = row[:10]
        payment, fare, surcharge, tax, tip, tolls, total = row[10:17]
        trip, info, start, end, money = (
            f"<http://thalweg.dev/trip/{number}{part}>"
            for part in ("", "/taxi", "/pickup", "/dropoff", "/fare")
        )
        said = [
            (trip, "trip_distance", _decimal(distance)),
            (trip, "trip_time_in_secs", f'"{seconds}"^^<{XSD}integer>'),
            (trip, "pickup_datetime", _moment(pickup)),
            (trip, "dropoff_datetime", _moment(dropoff)),
            (trip, "mta_tax", _decimal(tax)),
            (trip, "hasTaxiInfo", info),
            (info, "hasMedallion", f'"{medallion}"'),
            (info, "hasHack_license", f'"{licence}"'),
            (trip, "hasPickupLoc", start),
            (start, "hasPickupLong", _decimal(places[0])),
            (start, "hasPickupLat", _decimal(places[1])),
            (trip, "hasDropoffLoc", end),
            (end, "hasDropoffLong", _decimal(places[2])),
            (end, "hasDropoffLat", _decimal(places[3])),
            (trip, "hasFareInfo", money),
            (money, "hasPayment_type", f'"{payment}"'),
            (money, "hasFare_amount", _decimal(fare)),
            (money, "hasSurcharge", _decimal(surcharge)),
            (money, "hasTip_amount", _decimal(tip)),
            (money, "hasTolls_amount", _decimal(tolls)),
            (money, "hasTotal_amount", _decimal(total)),
        ]
        types = [(trip, "TaxiTrip"), (info, "TaxiInfo"), (money, "FareInfo")]
        lines = [f"{subject} {TYPE} <{TAXI}{name}> .\n" for subject, name in types]
        yield "".join(lines + [f"{s} <{TAXI}{p}> {o} .\n" for s, p, o in said])


def _decimal(text: str) -> str:
    return f'"{text}"^^<{XSD}decimal>'


def _moment(text: str) -> str:
    return f'"{text.replace(" ", "T")}Z"^^<{XSD}dateTime>'


def rows_of(data: Path | None, count: int) -> Iterator[list[str]]:
    """So many trips: those of the file again and again, or generated ones where there is no file."""
    path = find_data(_FILE, data)
    if path is None:
        yield from trips(count)
        return
    real = [row for row in text_rows(path) if len(row) >= 17]
    for number in range(count):
        yield real[number % len(real)]


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("taxi")
    texts = list(events(rows_of(data, sizes.trips)))
    stream = Encoded(chunks(texts, 1 << 10))
    for name in NAMES:
        query = query_text("taxi", name, "[NOW]")
        rival = _by_pyoxigraph(texts[: sizes.rival], plain_query("taxi", name))
        run = partial(
            stream.run, [query], tail=len(stream) * 4 // 5, warm=len(stream) // 5, per_event=PER_EVENT
        )
        (cost,) = best_costs([run], sizes.repeat)
        rate = cost.triples / PER_EVENT / cost.seconds
        report.add(
            "per event",
            f"{name}, triples as ids",
            rate / 1e3,
            "thousand events/s",
            note=f"{rate * PER_EVENT / 1e6:.1f} M triples/s, {cost.rows} rows",
        )
        text_rate = sizes.trips / best_seconds(lambda query=query: _from_text(texts, query), sizes.repeat)  # type: ignore[misc]
        report.add(
            "per event",
            f"{name}, from text",
            text_rate * rival,
            "x pyoxigraph",
            note=f"{text_rate / 1e3:.0f} thousand events/s against {1e-3 / rival:.1f} (parse, load, ask); "
            "the paper: about 10 x Jena",
        )
        taken = _one_by_one(texts[: sizes.pushes], query)
        report.add(
            "latency",
            f"{name}, push + poll of a trip, median",
            float(np.median(taken)) * 1e6,
            "microseconds",
            note=f"p99 {np.percentile(taken, 99) * 1e6:.0f}; pyoxigraph {rival * 1e6:.0f} on average",
        )
    return report


def _by_pyoxigraph(texts: list[str], query: str) -> float:
    """Seconds an event for the rival: a graph of its own for each, parsed, loaded and asked."""
    start = time.perf_counter()
    for text in texts:
        store = pyoxigraph.Store()
        store.load(text.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
        list(store.query(query))  # type: ignore[arg-type]
    return (time.perf_counter() - start) / len(texts)


def _from_text(texts: list[str], query: str) -> int:
    """Events as text in pieces of some thousand triples, framed by the reader; the number of rows."""
    session = Session()
    registered = session.register(query)
    reader = LineReader(session.arena, session.prune(), syntax="nt", source="bench", per_event=PER_EVENT)
    framer = StatementFramer(STREAM, per_event=PER_EVENT, arena=session.arena)
    session.keep(lambda: [framer.live_ids()])
    rows = 0
    for start in range(0, len(texts), 512):
        session.push_events(
            framer.frame(reader.read("".join(texts[start : start + 512]).encode(), offset=start))
        )
        rows += len(registered.drain())
    return rows


def _one_by_one(texts: list[str], query: str) -> list[float]:
    """Seconds of each push and poll."""
    session = Session()
    registered = session.register(query)
    taken = []
    for number, text in enumerate(texts):
        start = time.perf_counter()
        session.push(STREAM, at=number, graph=text)
        registered.poll()
        taken.append(time.perf_counter() - start)
    return taken
