"""Asking again at every event, as the rival: how much slower it is than increments, and from which window on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyoxigraph

from thalweg.bench.report import Report
from thalweg.bench.workload import Encoded, plain_query, power_of_ten, query_text
from thalweg.errors import UsageError
from thalweg.rdf.events import EventBatch

PYOXIGRAPH, OURSELVES = "re-evaluation by pyoxigraph", "re-evaluation by ourselves"
STREAMED, ONE_BY_ONE = "streamed", "one by one"
_TARGET_WIDTH = 10**5


@dataclass(frozen=True)
class Sizes:
    """Windows in triples, which LUBM queries, reports of the rivals, and events of ours that are timed in both ways."""

    widths: tuple[int, ...] = (1, 10, 100, 1000, 10_000, 100_000)
    names: tuple[str, ...] = tuple(f"q{number}" for number in range(1, 8))
    reports: int = 20
    events: int = 2_000
    streamed: int = 50_000
    repeat: int = 3


def measure(report: Report, stream: Encoded, sizes: Sizes) -> None:
    """The same one-triple events: in increments, and with all of the window asked again, there and here.

    Streamed, many events come in one batch, and the answer's changes are still told event by event; one by one, each
    event is a call of its own, and so is the drain. To pyoxigraph all events come one by one. Seconds are those of the
    process where single calls are timed: they are short, and others may use the machine.
    """
    # The windows end where the stream has as many triples before as the widest of them needs.
    start = max(sizes.widths)
    if len(stream) < start + max(sizes.events, sizes.streamed, 10 * sizes.reports + 1):
        raise UsageError(f"a stream of {len(stream)} triples is too short for a window of {start}")
    quads = stream.quads(0, start + 1 + 10 * sizes.reports)
    for name in sizes.names:
        again: dict[tuple[str, str], list[float]] = {
            (rival, how): [] for rival in (PYOXIGRAPH, OURSELVES) for how in (STREAMED, ONE_BY_ONE)
        }
        ours: dict[str, list[float]] = {STREAMED: [], ONE_BY_ONE: []}
        for width in sizes.widths:
            text = query_text("lubm", name, f"[RANGE {width}]")
            # Narrow windows take little time: more reports, less noise.
            reports = sizes.reports * (10 if width <= 1000 else 1)
            run = partial(stream.run, [text], tail=sizes.streamed, warm=width, end=start + sizes.streamed)
            works: list[Callable[[], float]] = [
                lambda run=run: run().a_triple,  # type: ignore[misc]
                partial(_one_by_one, stream, text, start, width, sizes.events),
                partial(pyoxigraph_seconds, quads, start, width, plain_query("lubm", name), reports),
                partial(_ourselves, stream, text, start, width, reports, reports),
                partial(_ourselves, stream, text, start, width, reports, 1),
            ]
            # In turns: what disturbs a minute disturbs all of them.
            rounds = [[work() for work in works] for _ in range(sizes.repeat)]
            in_batches, single, theirs, again_in_batches, again_single = map(min, zip(*rounds, strict=True))
            ours[STREAMED].append(in_batches)
            ours[ONE_BY_ONE].append(single)
            again[PYOXIGRAPH, STREAMED].append(theirs)
            again[PYOXIGRAPH, ONE_BY_ONE].append(theirs)
            again[OURSELVES, STREAMED].append(again_in_batches)
            again[OURSELVES, ONE_BY_ONE].append(again_single)
        for (rival, how), costs in again.items():
            _add_rows(report, rival, f"{name}, {how}", sizes.widths, costs, ours[how])


def _add_rows(
    report: Report, rival: str, name: str, widths: tuple[int, ...], again: list[float], ours: list[float]
) -> None:
    """The figures of one query against one rival: a ratio for each width, and where it passes 1."""
    ratios = [(width, theirs / own) for width, theirs, own in zip(widths, again, ours, strict=True)]
    for (width, ratio), theirs, own in zip(ratios, again, ours, strict=True):
        report.add(
            rival,
            f"{name}, window {power_of_ten(width)}",
            ratio,
            "x increments",
            target=100 if rival == PYOXIGRAPH and width == _TARGET_WIDTH else None,
            note=f"{theirs * 1e6:,.3g} microseconds an event against {own * 1e6:.3g}",
        )
    report.add(rival, f"{name}, break-even", break_even(ratios), "triples", note=_verdict(ratios))


def _verdict(ratios: list[tuple[int, float]]) -> str:
    if all(ratio >= 1 for _, ratio in ratios):
        return "increments are quicker at every width"
    if ratios[-1][1] < 1:
        return "increments are not quicker even at the widest"
    return "the window above which increments are quicker"


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
    begun = time.process_time()
    for batch in batches:
        session.push_events(batch)
        query.drain()
    return (time.process_time() - begun) / events


def pyoxigraph_seconds(
    quads: list[pyoxigraph.Quad], start: int, width: int, text: str, reports: int
) -> float:
    """Seconds an event for pyoxigraph: the oldest triple out, the next one in, the query from the beginning."""
    store = pyoxigraph.Store()
    store.bulk_extend(quads[start - width : start])
    begun = 0.0
    for number in range(reports + 1):
        if number == 1:  # the first one pays for what bulk loading left to do
            begun = time.process_time()
        store.remove(quads[start - width + number])
        store.add(quads[start + number])
        for _ in store.query(text):  # type: ignore[union-attr]
            pass
    return (time.process_time() - begun) / reports


def _ourselves(stream: Encoded, text: str, start: int, width: int, reports: int, size: int) -> float:
    """Seconds an event for our own re-evaluation, in batches of `size` events."""
    session, (query,) = stream.session([text], "reevaluate")
    for batch in (*_filling(stream, start, width, reports + 1), stream.batch(start, start + 1)):
        session.push_events(batch)
        query.drain()
    batches = list(stream.batches(start + 1, start + 1 + reports, size=size))
    begun = time.process_time()
    for batch in batches:
        session.push_events(batch)
        query.drain()
    return (time.process_time() - begun) / reports


def _filling(stream: Encoded, start: int, width: int, reports: int) -> Iterator[EventBatch]:
    """The window before `start` without an answer at each of its events: that would take a day.

    Those that leave while the next `reports` events come have their own times, so that one triple leaves with each of
    these; the rest come in one instant.
    """
    first = start - width
    yield stream.batch(first, min(first + reports, start))
    if reports < width:
        rest = stream.batch(first + reports, start)
        at_once = replace(rest.rows, time=np.full(len(rest), rest.clock))
        yield replace(rest, rows=at_once)
