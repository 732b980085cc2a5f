"""The dynamic graph suite: inserts and deletes, hubs, many queries at once, and re-evaluation as the rival."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from thalweg.bench import hub, many, memory, reevaluation
from thalweg.bench.hub import DYNAMIC
from thalweg.bench.report import Report
from thalweg.bench.workload import Encoded, best_costs, chunks, query_text
from thalweg.io.files import pieces
from thalweg.testing.generate import lubm

SHAPES = ("ground", "star", "loose", "connected", "cyclic")
LUBM = tuple(f"q{number}" for number in range(1, 8))
DELETES = 0.2


@dataclass(frozen=True)
class Sizes:
    """How much a run measures."""

    triples: int = 600_000
    window: int = 100_000
    repeat: int = 4
    hub: hub.Sizes = field(default_factory=hub.Sizes)
    many: many.Sizes = field(default_factory=many.Sizes)
    reevaluation: reevaluation.Sizes = field(default_factory=reevaluation.Sizes)


QUICK = Sizes(
    triples=150_000,
    window=20_000,
    repeat=2,
    hub=hub.Sizes(edges=100_000, events=500),
    many=many.Sizes(triples=50_000, queries=200),
    reevaluation=reevaluation.Sizes(
        widths=(1, 10, 100, 1000, 10_000), names=("q2", "q4"), reports=10, streamed=20_000, repeat=1
    ),
)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark. `data` is a LUBM file."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("dynamic")
    deletes(report, "random graph", random_graph(sizes.triples), "dynamic", SHAPES, sizes)
    university = Encoded(
        chunks(lubm(sizes.triples), 1) if data is None else (bytes(piece) for _, piece in pieces(data))
    )
    deletes(report, "LUBM", university, "lubm", LUBM, sizes)
    hub.measure(report, sizes.hub)
    many.measure(report, university, sizes.many)
    many.measure_in_flow(report, university, sizes.many)
    memory.held(report, university, min(sizes.window, len(university) // 2))
    reevaluation.measure(report, university, sizes.reevaluation)
    return report


def random_triples(triples: int, *, seed: int = 0) -> Iterator[str]:
    """Edges of four kinds between nodes that come and go: few of them point at hot nodes, and a core repeats itself."""
    chance = random.Random(seed)
    for number in range(triples):
        newest = number // 8 + 400
        source = f"n{newest - int(400 * chance.random() ** 2)}"
        target = f"n{newest - int(400 * chance.random() ** 2)}"
        draw = chance.random()
        if draw < 0.02:
            source, target = (f"core{chance.randrange(3)}" for _ in range(2))
        elif draw < 0.03:
            target = f"hot{chance.randrange(4)}"
        yield f"<{DYNAMIC}{source}> <{DYNAMIC}{chance.choice('abcd')}> <{DYNAMIC}{target}> .\n"


def random_graph(triples: int) -> Encoded:
    """The random stream as ids."""
    return Encoded(chunks(random_triples(triples)))


def deletes(
    report: Report, group: str, stream: Encoded, suite: str, names: tuple[str, ...], sizes: Sizes
) -> None:
    """A window, and a graph without one, with 20 % of the events being deletes, against the same inserts alone."""
    changing = stream.with_deletes(DELETES, reach=sizes.window // 2)
    for window in (f"[RANGE {sizes.window}]", ""):
        where = f"window {sizes.window:,}" if window else "no window"
        for name in names:
            text = query_text(suite, name, window)
            # Without a window the graph grows with the stream: the whole of it is timed.
            tail, warm = (sizes.triples // 2, sizes.window) if window else (len(stream), 0)
            runs = [
                partial(stream.run, [text], tail=tail, warm=warm),
                partial(changing.run, [text], tail=tail if window else len(changing), warm=warm),
            ]
            without, with_them = best_costs(runs, sizes.repeat)
            note = (
                f"{without.a_triple * 1e9:.0f} to {with_them.a_triple * 1e9:.0f} ns; rows an event: "
                f"{without.rows / without.triples:.3g} to {with_them.rows / with_them.triples:.3g}; "
                f"live: {without.live:,} to {with_them.live:,}"
            )
            report.add(
                f"{group}, 20 % deletes",
                f"{name}, {where}",
                with_them.a_triple / without.a_triple,
                "x time an event",
                target=2,
                at_most=True,
                note=note,
            )
