"""pyoxigraph asking again at every event, as the rival: how much slower, and from which window on."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial

import pyoxigraph

from thalweg.bench.report import Report
from thalweg.bench.workload import Encoded, best_costs, plain_query, power_of_ten, query_text
from thalweg.errors import UsageError

_TARGET_WIDTH = 10**5


@dataclass(frozen=True)
class Sizes:
    """Windows in triples, which LUBM queries, reports of the rival, and events of ours that are timed in both ways."""

    widths: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000)
    names: tuple[str, ...] = tuple(f"q{number}" for number in range(1, 8))
    reports: int = 20
    events: int = 2_000
    streamed: int = 50_000


def measure(report: Report, stream: Encoded, sizes: Sizes) -> None:
    """The same one-triple events: pushed here, and there removed, added and asked again.

    Streamed, many events come in one batch, and the answer's changes are still told event by event; one by one, each
    event is a call of its own, and so is the drain.
    """
    # The windows end where the stream has as many triples before as the widest of them needs.
    start = max(sizes.widths)
    if len(stream) < start + max(sizes.events, sizes.streamed, 10 * sizes.reports + 1):
        raise UsageError(f"a stream of {len(stream)} triples is too short for a window of {start}")
    quads = stream.quads(0, start + 1 + 10 * sizes.reports)
    for name in sizes.names:
        again: dict[int, float] = {}
        ours: dict[str, dict[int, float]] = {"streamed": {}, "one by one": {}}
        for width in sizes.widths:
            text = query_text("lubm", name, f"[RANGE {width}]")
            # Narrow windows take little time: more reports, less noise.
            reports = sizes.reports * (10 if width <= 1000 else 1)
            again[width] = _again(quads, start, width, plain_query("lubm", name), reports)
            run = partial(stream.run, [text], tail=sizes.streamed, warm=width, end=start + sizes.streamed)
            ours["streamed"][width] = best_costs([run], 2)[0].a_triple
            ours["one by one"][width] = _one_by_one(stream, text, start, width, sizes.events)
        for how, cost in ours.items():
            ratios = [(width, again[width] / cost[width]) for width in sizes.widths]
            for width, ratio in ratios:
                report.add(
                    "re-evaluation",
                    f"{name}, {how}, window {power_of_ten(width)}",
                    ratio,
                    "x ours",
                    target=100 if width == _TARGET_WIDTH else None,
                    note=f"{again[width] * 1e6:,.0f} microseconds an event against {cost[width] * 1e6:.3g}",
                )
            note = "the window above which increments are quicker"
            report.add(
                "re-evaluation", f"{name}, {how}, break-even", break_even(ratios), "triples", note=note
            )


def break_even(ratios: list[tuple[int, float]]) -> float:
    """The width at which the ratio passes 1, between the last width below it and the next, on logarithmic scales.

    The first width where it is above 1 from the start; the last one where it never is.

    >>> round(break_even([(10, 0.1), (1000, 10.0), (10_000, 100.0)]))
    100
    >>> break_even([(10, 3.0), (100, 5.0)])
    10.0
    """
    below = [place for place, (_, ratio) in enumerate(ratios) if ratio < 1]
    if not below:
        return float(ratios[0][0])
    if below[-1] == len(ratios) - 1:
        return float(ratios[-1][0])
    (narrow, less), (wide, more) = ratios[below[-1]], ratios[below[-1] + 1]
    share = -math.log(less) / (math.log(more) - math.log(less))
    return math.exp(math.log(narrow) + share * (math.log(wide) - math.log(narrow)))


def _one_by_one(stream: Encoded, text: str, start: int, width: int, events: int) -> float:
    """Seconds an event of our own, after `width` triples that fill the window."""
    session, (query,) = stream.session([text])
    for batch in stream.batches(start - width, start):
        session.push_events(batch)
        query.drain()
    batches = [stream.batch(place, place + 1) for place in range(start, start + events)]
    begun = time.perf_counter()
    for batch in batches:
        session.push_events(batch)
        query.drain()
    return (time.perf_counter() - begun) / events


def _again(quads: list[pyoxigraph.Quad], start: int, width: int, text: str, reports: int) -> float:
    """Seconds an event for the rival: the oldest triple out, the next one in, the query from the beginning."""
    store = pyoxigraph.Store()
    store.bulk_extend(quads[start - width : start])
    begun = 0.0
    for number in range(reports + 1):
        if number == 1:  # the first one pays for what bulk loading left to do
            begun = time.perf_counter()
        store.remove(quads[start - width + number])
        store.add(quads[start + number])
        for _ in store.query(text):  # type: ignore[union-attr]
            pass
    return (time.perf_counter() - begun) / reports
