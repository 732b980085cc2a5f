"""The smart grid suite: a sequence over three streams of sensors (thesis, UC 1, figures 9.17 and 9.18).

Power (each second), weather (each minute) and generation with its battery (each five seconds) of the Smart* home. Where
there are no files, rows with the same distances are generated. A day is repeated until there are enough events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Optimisations
from thalweg.bench.report import Report
from thalweg.bench.stock import with_optimisations
from thalweg.bench.workload import find_data, text_rows
from thalweg.engine import Session
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows

SEQUENCES = ("A; B; C", "A; B+, C", "A, B+, C", "A, B, C")
STREAMS = {
    "power": "http://smartgrid.org/house",
    "weather": "http://smartgrid.org/weather",
    "storage": "http://smartgrid.org/storage",
}
_FILES = {
    "power": "power_2012-07-05.csv.gz",
    "weather": "environmental_2012-07-05.csv.gz",
    "storage": "generation_2011-08-01.csv.gz",
}
_PREDICATES = {"power": ("watts",), "weather": ("temperature", "wind"), "storage": ("battery",)}
_COLUMNS = {"power": (1,), "weather": (1, 5), "storage": (6,)}
_DAY = 86_400
# Weather and generation were recorded in different years. Generation comes a second after the minute: `,` can hold.
_LATER = {"power": 0, "weather": 0, "storage": 1}


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: events of all streams, windows in seconds, seconds of a batch, places of figure 9.18."""

    events: int = 200_000
    widths: tuple[int, ...] = (60, 120, 300, 600)
    batch: int = 3_600
    repeat: int = 3
    houses: int = 20


QUICK = Sizes(events=30_000, widths=(60, 120), repeat=2)
INDEXES = {
    "by state and values": Optimisations(),
    "by state alone": Optimisations(index_by_values=False),
}
"""Thesis, figure 9.18. Runs are always kept by state, so by the stream that they wait for."""


@dataclass(frozen=True)
class Sensor:
    """The rows of a stream: seconds since the first midnight, and values."""

    seconds: NDArray[np.int64]
    values: NDArray[np.float64]


def query_of(sequence: str, width: int, watts: float, volts: float) -> str:
    """Much power is used, there is wind, and the battery is charged: thesis, query 8.2, on these sensors."""
    clauses = " ".join(f"FROM STREAM {name} <{iri}>" for name, iri in STREAMS.items())
    return f"""PREFIX : <http://smartgrid.org/> SELECT ?house ?w ?v WITHIN {width} SECONDS {clauses}
WHERE {{ SEQ ({sequence})
  DEFINE GPM A ON power {{ ?house :loc ?l . ?house :watts ?w  FILTER(?w > {watts}) }}
  DEFINE GPM B ON weather {{ ?station :loc ?l . ?station :wind ?s . ?station :temperature ?t  FILTER(?s > 0) }}
  DEFINE GPM C ON storage {{ ?storage :loc ?l . ?storage :battery ?v  FILTER(?v > {volts}) }} }}"""


def sensors(data: Path | None, events: int) -> tuple[dict[str, Sensor], str]:
    """The rows of all streams, and where they come from."""
    folder = data.parent if data is not None else None
    paths = {
        name: folder / file if folder is not None else find_data(f"smarthome/{file}")
        for name, file in _FILES.items()
    }
    days = -(-events // 104_715)
    if any(path is None or not path.is_file() for path in paths.values()):
        return {name: _cut(_generated(name), events, days) for name in STREAMS}, "generated sensors"
    found = {}
    for name, path in paths.items():
        assert path is not None
        table = np.array([[float(row[k]) for k in (0, *_COLUMNS[name])] for row in text_rows(path)])
        order = np.argsort(table[:, 0], kind="stable")
        seconds = table[order, 0].astype(np.int64)
        seconds, first = np.unique(seconds - seconds[0] // _DAY * _DAY, return_index=True)
        found[name] = _cut(Sensor(seconds + _LATER[name], table[order][first, 1:]), events, days)
    return found, "the Smart* home"


def _generated(name: str) -> Sensor:
    chosen = np.random.default_rng(len(name))
    distance = {"power": 1, "weather": 60, "storage": 5}[name]
    seconds = np.arange(0, _DAY, distance)
    walk = np.abs(np.cumsum(chosen.normal(0, 1, (len(seconds), len(_PREDICATES[name]))), axis=0))
    return Sensor(seconds + _LATER[name], np.round(walk, 1).astype(np.float64))


def _cut(one: Sensor, events: int, days: int) -> Sensor:
    """Days of rows, and so many of them that all streams together have about as many events as are wanted."""
    seconds = np.concatenate([one.seconds + _DAY * day for day in range(days)])
    end = events * _DAY // 104_715
    kept = seconds < end
    return Sensor(seconds[kept], np.concatenate([one.values] * days)[kept])


def batches_of(
    arena: Arena, found: dict[str, Sensor], batch: int, houses: int = 1
) -> Iterator[list[EventBatch]]:
    """The events as ids, some seconds of all streams at a time; of several houses, one after the other."""
    rows = {name: _rows_of(arena, name, sensor, houses) for name, sensor in found.items()}
    last = max(int(sensor.seconds[-1]) for sensor in found.values() if len(sensor.seconds))
    for start in range(0, last + 1, batch):
        bounds = (start * 1_000_000, (start + batch) * 1_000_000)
        parts = []
        for name, mine in rows.items():
            begin, end = np.searchsorted(mine.time, bounds)
            parts.append(EventBatch(STREAMS[name], mine[begin:end], bounds[1] - 1_000_000))
        yield parts


def _rows_of(arena: Arena, name: str, sensor: Sensor, houses: int) -> Rows:
    predicates = arena.intern_all(
        [f"<http://smartgrid.org/{p}>".encode() for p in ("loc", *_PREDICATES[name])]
    )
    each, many = len(predicates), len(sensor.seconds)
    house = np.arange(many) % houses
    subjects = arena.intern_all([f"<http://smartgrid.org/{name}{k + 1}>".encode() for k in range(houses)])
    places = arena.intern_all([f"<http://smartgrid.org/l{k + 1}>".encode() for k in range(houses)])
    values, spots = np.unique(sensor.values.ravel(), return_inverse=True)
    decimal = "http://www.w3.org/2001/XMLSchema#decimal"
    ids = arena.intern_all([f'"{value:.4f}"^^<{decimal}>'.encode() for value in values.tolist()])
    objects = np.concatenate(
        [places[house][:, None], ids[spots].reshape(many, each - 1)], axis=1, dtype=np.int64
    )
    number = np.repeat(np.arange(many), each)
    return Rows.inserts(
        np.repeat(sensor.seconds * 1_000_000, each),
        number,
        np.zeros_like(number),
        np.repeat(subjects[house], each),
        np.tile(predicates, many),
        objects.ravel(),
    )


def timed(text: str | Query, found: dict[str, Sensor], sizes: Sizes, houses: int = 1) -> tuple[float, int]:
    """The CPU seconds that all events take, and how many matches they have; the best of some runs."""
    best, matches = float("inf"), 0
    for _ in range(sizes.repeat):
        session = Session(max_pending=None)
        query = session.register(text)
        batches = list(batches_of(session.arena, found, sizes.batch, houses))
        begun, matches = process_time(), 0
        for parts in batches:
            for part in parts:
                session.push_events(part)
            matches += len(query.drain())
        session.finish()
        matches += len(query.drain())
        best = min(best, process_time() - begun)
    return best, matches


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark. `data` is the file of power; the others are beside it."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("smartgrid")
    found, source = sensors(data, sizes.events)
    events = sum(len(sensor.seconds) for sensor in found.values())
    watts = float(np.quantile(found["power"].values, 0.9))
    volts = float(np.quantile(found["storage"].values, 0.5))
    chart = report.chart(
        "Figure 9.17: followed by and immediately followed by", "seconds of a window", "k events/s"
    )
    for sequence in SEQUENCES:
        for width in sizes.widths:
            seconds, matches = timed(
                query_of(sequence, width, round(watts, 4), round(volts, 4)), found, sizes
            )
            rate = events / seconds / 1000
            chart.add(f"SEQ({sequence})", width, rate)
            report.add(
                "three sensors, figure 9.17",
                f"SEQ({sequence}), window {width} s",
                rate,
                "k events/s",
                note=f"{matches:,} matches in {events:,} events of {source}",
            )
    _indexes(report, found, sizes)
    return report


def _indexes(report: Report, found: dict[str, Sensor], sizes: Sizes) -> None:
    """Figure 9.18: UC 1 by `;` in several houses, with all events of power, so that there are many runs."""
    events = sum(len(sensor.seconds) for sensor in found.values())
    chart = report.chart("Figure 9.18: index of runs", "seconds of a window", "k events/s")
    for width in sizes.widths:
        answers = set()
        for name, optimisations in INDEXES.items():
            asked = with_optimisations(query_of("A; B; C", width, 0, 0), optimisations)
            seconds, matches = timed(asked, found, sizes, sizes.houses)
            answers.add(matches)
            chart.add(name, width, events / seconds / 1000)
            report.add(
                f"index of runs, {sizes.houses} houses, figure 9.18",
                f"{name}, window {width} s",
                events / seconds / 1000,
                "k events/s",
                note=f"{matches:,} matches",
            )
        if len(answers) > 1:
            raise AssertionError(f"an index of runs changed the matches: {sorted(answers)}")
