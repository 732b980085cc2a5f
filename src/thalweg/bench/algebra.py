"""The algebra suite: each operator by the size of its state, against a join, and against re-evaluation; its memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thalweg.answers import ContinuousQuery
from thalweg.bench import groups, paths, seas
from thalweg.bench.reevaluation import pyoxigraph_seconds
from thalweg.bench.report import Report
from thalweg.bench.workload import Cost, Encoded, best_costs, chunks, plain_query, power_of_ten, query_text
from thalweg.engine import Session
from thalweg.testing.generate import XSD

ALGEBRA = "http://thalweg.dev/algebra/"
PAIR, STAR = "pq", "pqabcd"
"""The predicates of the two streams."""
PER_KEY = {PAIR: 4, STAR: 6}
"""Triples of a window for each subject."""
OPERATORS = {
    "filter": "pattern",
    "filter-two": "join",
    "bind": "pattern",
    "optional": "join",
    "optionals": "star",
    "union": "pattern",
    "minus": "join",
    "not-exists": "join",
    "mark": "join",
    "values": "pattern",
    "distinct": "join",
    "path": "join",
}
"""Queries, and the basic pattern that each is compared with."""
MOST = {"optional": 2.5, "optionals": 8}
"""The most that an operator may take, as a multiple of its basic pattern."""
_VALUES = 1000
_TARGET_WIDTH = 10**5


@dataclass(frozen=True)
class Sizes:
    """How much a run measures.

    `widths` are windows in triples, `window` is the one of all figures but growth. `tail` events are timed in batches,
    `events` one by one, and `reports` of the rival. `seas` are triples of power measurements.
    """

    widths: tuple[int, ...] = (10**3, 10**5, 10**6)
    window: int = _TARGET_WIDTH
    tail: int = 200_000
    events: int = 5_000
    reports: int = 3
    seas: int = 400_000
    repeat: int = 3


QUICK = Sizes(widths=(10**3, 10**4), window=10**4, tail=20_000, events=500, reports=2, seas=100_000, repeat=2)


def stream_of(name: str) -> str:
    """The predicates of the stream that a query reads."""
    return STAR if OPERATORS.get(name, name) == "star" else PAIR


def triples(count: int, window: int, predicates: str, *, seed: int = 0) -> Iterator[str]:
    """Triples of random subjects, predicates and numbers: any window has as many for each of its subjects."""
    chance = np.random.default_rng(seed)
    subjects = chance.integers(0, max(1, window // PER_KEY[predicates]), count).tolist()
    which = chance.integers(0, len(predicates), count).tolist()
    values = chance.integers(0, _VALUES, count).tolist()
    for subject, predicate, value in zip(subjects, which, values, strict=True):
        yield (f'<{ALGEBRA}x{subject}> <{ALGEBRA}{predicates[predicate]}> "{value}"^^<{XSD}integer> .\n')


def encoded(count: int, window: int, predicates: str = PAIR) -> Encoded:
    """The stream as ids."""
    return Encoded(chunks(triples(count, window, predicates)))


def filled(width: int) -> int:
    """Events after which a window is full, and the memory for what leaves it has its size."""
    return width + width // 2


def length(width: int, sizes: Sizes) -> int:
    """The events of a stream for a window: those that fill it, and those that are timed."""
    return filled(width) + max(sizes.tail, sizes.events, sizes.reports + 1)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark. `data` is a file of power measurements, as in `seas`.

    Seconds are those of the process: the ratios are between runs in turns, and others may use the machine.
    """
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("algebra")
    growth(report, sizes)
    streams = {kind: encoded(length(sizes.window, sizes), sizes.window, kind) for kind in (PAIR, STAR)}
    ratios(report, streams, sizes)
    one_by_one(report, streams, sizes)
    selective(report, data, sizes)
    groups.growth(report, sizes.widths, min(sizes.tail, 100_000))
    groups.top(report, sizes.window, min(sizes.tail, 100_000))
    paths.measure(
        report,
        width=sizes.window,
        tail=min(sizes.tail, sizes.window),
        reports=sizes.reports,
        repeat=sizes.repeat,
    )
    return report


def growth(report: Report, sizes: Sizes) -> None:
    """Time per event by the width of the window: the widest at most 2 x the narrowest (10^3 to 10^6: a logarithm)."""
    widths = sizes.widths
    for kind in (PAIR, STAR):
        streams = [encoded(length(width, sizes), width, kind) for width in widths]
        for name in (*OPERATORS, "join", "star"):
            if stream_of(name) != kind:
                continue
            runs = [
                partial(_timed, stream, name, width, sizes.tail)
                for width, stream in zip(widths, streams, strict=True)
            ]
            costs = best_costs(runs, max(1, sizes.repeat - 1))
            times = ", ".join(
                f"{power_of_ten(width)}: {cost.a_triple * 1e6:.3g}"
                for width, cost in zip(widths, costs, strict=True)
            )
            report.add(
                "growth",
                f"{name}, window {power_of_ten(widths[-1])} to {power_of_ten(widths[0])}",
                costs[-1].a_triple / costs[0].a_triple,
                "x time an event",
                target=2,
                at_most=True,
                note=f"microseconds at {times}; {costs[-1].rows / costs[-1].triples:.2g} rows out an event",
            )


def _timed(stream: Encoded, name: str, width: int, tail: int) -> Cost:
    text = query_text("algebra", name, f"[RANGE {width}]")
    warm = filled(width)
    return stream.run([text], tail=tail, warm=warm, end=warm + tail, clock=time.process_time)


def ratios(report: Report, streams: dict[str, Encoded], sizes: Sizes) -> None:
    """Each operator against the basic pattern with the same triples, and against pyoxigraph at every event."""
    width = sizes.window
    where = f"window {power_of_ten(width)}"
    ours: dict[str, float] = {}
    for name, basic in OPERATORS.items():
        stream = streams[stream_of(name)]
        runs = [partial(_timed, stream, one, width, sizes.tail) for one in (basic, name)]
        least, most = best_costs(runs, sizes.repeat)
        ours[name] = most.a_triple
        report.add(
            "against a basic pattern",
            f"{name} to {basic}, {where}",
            most.a_triple / least.a_triple,
            "x time an event",
            target=MOST.get(name),
            at_most=True,
            note=f"{least.a_triple * 1e6:.3g} to {most.a_triple * 1e6:.3g} microseconds; rows out an event: "
            f"{least.rows / least.triples:.3g} to {most.rows / most.triples:.3g}",
        )
    quads = {kind: stream.quads(0, width + sizes.reports + 1) for kind, stream in streams.items()}
    for name, own in ours.items():
        text = plain_query("algebra", name)
        again = pyoxigraph_seconds(quads[stream_of(name)], width, width, text, sizes.reports)
        report.add(
            "re-evaluation by pyoxigraph",
            f"{name}, {where}, streamed",
            again / own,
            "x increments",
            target=100 if width == _TARGET_WIDTH else None,
            note=f"{again * 1e6:,.3g} microseconds an event against {own * 1e6:.3g}",
        )


def one_by_one(report: Report, streams: dict[str, Encoded], sizes: Sizes) -> None:
    """The memory of operators by live triples once the window is full, and the latency of single events then."""
    latencies = {}
    for name in (*OPERATORS, "join", "star"):
        stream, width = streams[stream_of(name)], sizes.window
        session, (query,) = stream.session([query_text("algebra", name, f"[RANGE {width}]")])
        for batch in stream.batches(0, filled(width)):
            session.push_events(batch)
            query.drain()
        live = session.live_triples
        parts = {part: size / live for part, size in session.memory()["operators"].items()}
        note = f"{live:,} live; " + ", ".join(f"{part} {size:.0f}" for part, size in parts.items())
        report.add("bytes", name, sum(parts.values()), "bytes a live triple", note=note)
        latencies[name] = _latency(session, query, stream, filled(width), sizes.events)
    for name, taken in latencies.items():
        for which, quantile in (("median", 50), ("p99", 99)):
            value = float(np.percentile(taken, quantile)) * 1e6
            report.add("latency", f"{name}, one event, {which}", value, "microseconds")


def _latency(
    session: Session, query: ContinuousQuery, stream: Encoded, start: int, events: int
) -> NDArray[np.float64]:
    """Seconds of the process for each of so many events from `start` on: a push and a drain."""
    taken = np.empty(events)
    for k in range(events):
        event = stream.batch(start + k, start + k + 1)
        begun = time.process_time()
        session.push_events(event)
        query.drain()
        taken[k] = time.process_time() - begun
    return taken


def selective(report: Report, data: Path | None, sizes: Sizes) -> None:
    """SEAS-Q2's filter: its time per triple read against that of SEAS-Q1, the same query without the filter."""
    stream = seas.encoded(data, sizes.seas)
    tail = len(stream) // 2
    width = min(sizes.window, tail)
    runs = [
        partial(
            stream.run,
            [query_text("seas", name, f"[RANGE {width}]")],
            tail=tail,
            warm=width,
            clock=time.process_time,
        )
        for name in seas.NAMES
    ]
    every, some = best_costs(runs, sizes.repeat + 2)
    report.add(
        "filter of SEAS-Q2",
        f"SEAS-Q2 to SEAS-Q1, window {power_of_ten(width)}",
        some.a_triple / every.a_triple,
        "x time a triple",
        target=1.3,
        at_most=True,
        note=f"{every.a_triple * 1e9:.0f} to {some.a_triple * 1e9:.0f} ns; rows out: {every.rows:,} to {some.rows:,}",
    )
