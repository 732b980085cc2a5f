"""A node with very many edges: what an event costs that touches it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thalweg.bench.report import Report
from thalweg.bench.workload import Encoded, chunks, query_text

DYNAMIC = "http://thalweg.dev/dynamic#"
SHAPES = ("hub-path", "hub-triangle", "hub-star")
_HUB = "hub"
_FEW_ROWS = 50_000
"""An event whose answer has more rows is not held to the target: at about a microsecond a row, writing the answer alone
takes the 50 ms. A lower limit would excuse events that are slow for another reason."""


@dataclass(frozen=True)
class Sizes:
    """Edges of the hub, and the events that are timed one by one."""

    edges: int = 1_000_000
    events: int = 1_000


def edges(count: int, *, outgoing: bool) -> Iterator[str]:
    """All edges of the hub, after some ordinary people who follow, like and have names."""
    chance = random.Random(0)
    for _ in range(min(2000, count)):
        who, fan = f"u{chance.randrange(count)}", f"fan{chance.randrange(2000)}"
        yield _line(who, "follows", f"u{chance.randrange(count)}")
        # Those who like something have no edge with the hub: u0, u1, ... have.
        yield _line(fan, "follows", who)
        yield _line(fan, "likes", f"t{chance.randrange(50)}")
        yield _line(fan, "name", fan)
    for number in range(count):
        other = f"u{number}"
        yield _line(_HUB, "follows", other) if outgoing else _line(other, "follows", _HUB)


def changes(count: int, users: int, *, outgoing: bool) -> Iterator[tuple[str, int]]:
    """Events around the hub and elsewhere, with their op: lines that are inserted (1) or deleted (-1)."""
    chance = random.Random(1)
    for number in range(count):
        who, other = (f"u{chance.randrange(users)}" for _ in range(2))
        match number % 8:
            case 0 | 1:
                yield _line(who, "follows", other), 1
            case 2 | 3:  # against the direction of the many edges
                yield _line(who, "follows", _HUB) if outgoing else _line(_HUB, "follows", who), 1
            case 4:
                yield (
                    _line(_HUB, "follows", f"fan{number}")
                    if outgoing
                    else _line(f"v{number}", "follows", _HUB),
                    1,
                )
            case 5:
                yield _line(f"fan{chance.randrange(2000)}", "likes", f"t{number}"), 1
            case 6:
                yield _line(_HUB, "likes", f"t{number}"), 1
            case _:
                yield _line(_HUB, "follows", who) if outgoing else _line(who, "follows", _HUB), -1


def _line(s: str, p: str, o: str) -> str:
    return f"<{DYNAMIC}{s}> <{DYNAMIC}{p}> <{DYNAMIC}{o}> .\n"


def measure(report: Report, sizes: Sizes) -> None:
    """The time of single events next to a hub, for each shape and each direction of its edges."""
    for outgoing in (True, False):
        events = list(changes(sizes.events, sizes.edges, outgoing=outgoing))
        stream = Encoded(chunks([*edges(sizes.edges, outgoing=outgoing), *(line for line, _ in events)]))
        stream.op[-len(events) :] = [op for _, op in events]
        for name in SHAPES:
            _shape(report, stream, name, len(events), "out" if outgoing else "in")


def _shape(report: Report, stream: Encoded, name: str, events: int, way: str) -> None:
    session, (query,) = stream.session([query_text("dynamic", name)])
    loaded = len(stream) - events
    start = time.perf_counter()
    for batch in stream.batches(0, loaded):
        session.push_events(batch)
        query.drain()
    load = time.perf_counter() - start
    taken, rows = np.empty(events), np.empty(events, np.int64)
    for place in range(events):
        batch = stream.batch(loaded + place, loaded + place + 1)
        start = time.perf_counter()
        session.push_events(batch)
        rows[place] = len(query.drain())
        taken[place] = time.perf_counter() - start
    few = taken[rows <= _FEW_ROWS] * 1e3
    note = (
        f"{len(few)} of {events} events; median {np.median(few):.3g} ms, worst {few.max():.3g} ms; "
        f"most rows of an event {rows.max():,} in {taken[rows.argmax()] * 1e3:.3g} ms; "
        f"loading {load / loaded * 1e9:.0f} ns a triple"
    )
    p99 = float(np.percentile(few, 99))
    report.add("hub", f"{name}, {way}, p99 an event", p99, "ms", target=50, at_most=True, note=note)
