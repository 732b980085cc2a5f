"""Groups and the top k in the suite `algebra`: time per event by the size of the window, and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Encoded, chunks, power_of_ten
from thalweg.testing.generate import XSD

_PREFIX = "http://thalweg.dev/algebra/"
_VALUES = 1000
AGGREGATES = {
    **{name: f"({name}(?v) AS ?{name})" for name in ("COUNT", "SUM", "AVG", "MIN", "MAX")},
    "all five": " ".join(f"({name}(?v) AS ?{name})" for name in ("COUNT", "SUM", "AVG", "MIN", "MAX")),
}
"""Columns of the queries that are measured."""


def triples(count: int, groups: int, *, seed: int = 0) -> Iterator[str]:
    """Triples of a random one of so many subjects and a random number."""
    chance = np.random.default_rng(seed)
    subjects = chance.integers(0, groups, count).tolist()
    for subject, value in zip(subjects, chance.integers(0, _VALUES, count).tolist(), strict=True):
        yield f'<{_PREFIX}x{subject}> <{_PREFIX}p> "{value}"^^<{XSD}integer> .\n'


def asked(columns: str, width: int, tail: str = "") -> str:
    """A query by subject over a sliding window of so many events."""
    where = f"WHERE {{ ?g <{_PREFIX}p> ?v }}"
    return f"SELECT ?g {columns} FROM STREAM <{STREAM}> [RANGE {width}] {where} GROUP BY ?g {tail}"


def growth(report: Report, widths: tuple[int, ...], tail: int, *, groups: int = 10**4) -> None:
    """Each aggregate over a window that slides by one event: microseconds an event, by the width of the window."""
    times: dict[str, list[float]] = {name: [] for name in AGGREGATES}
    kept: dict[str, float] = {}
    for width in widths:
        warm = width + width // 2
        stream = Encoded(chunks(triples(warm + tail, groups)))
        for name, columns in AGGREGATES.items():
            cost = stream.run(
                [asked(columns, width)], tail=tail, warm=warm, end=warm + tail, clock=time.process_time
            )
            times[name].append(cost.a_triple * 1e6)
        kept = _bytes(stream, width, warm)
    for name, taken in times.items():
        shown = ", ".join(
            f"{power_of_ten(width)}: {one:.3g}" for width, one in zip(widths, taken, strict=True)
        )
        memory = ", ".join(f"{part} {size:.0f}" for part, size in kept.items()) if name == "all five" else ""
        report.add(
            "groups",
            f"{name} by {groups:,} keys, window {power_of_ten(widths[-1])}",
            taken[-1],
            "microseconds an event",
            target=3,
            at_most=True,
            note=f"microseconds at {shown}" + (f"; bytes a live triple: {memory}" if memory else ""),
        )


def _bytes(stream: Encoded, width: int, warm: int) -> dict[str, float]:
    """The memory of operators by live triples, of the query with all aggregates."""
    session, (query,) = stream.session([asked(AGGREGATES["all five"], width)])
    for batch in stream.batches(0, warm):
        session.push_events(batch)
        query.drain()
    live = max(1, session.live_triples)
    return {part: size / live for part, size in session.memory()["operators"].items()}


def top(report: Report, groups: int, tail: int, *, limit: int = 10) -> None:
    """The first groups by their counts, of so many, over a window of four times as many events."""
    width = 4 * groups
    warm = width + width // 2
    stream = Encoded(chunks(triples(warm + tail, groups)))
    text = asked(AGGREGATES["COUNT"], width, f"ORDER BY DESC(?COUNT) LIMIT {limit}")
    cost = stream.run([text], tail=tail, warm=warm, end=warm + tail, clock=time.process_time)
    report.add(
        "top k",
        f"top {limit} of {power_of_ten(groups)} groups",
        cost.a_triple * 1e6,
        "microseconds an event",
        target=10,
        at_most=True,
        note=f"window of {width:,}; {cost.rows / cost.triples:.2g} rows out an event",
    )
