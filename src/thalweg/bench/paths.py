"""The part `paths` of the algebra suite: `knows+` over a window of edges, by density, against re-evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from thalweg.bench.reevaluation import pyoxigraph_seconds
from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Encoded, best_costs, chunks, power_of_ten

SOCIAL = "http://thalweg.dev/social/"
SPARSE = 0.5
"""Edges for each node, of which less than one keep the parts of a random graph small."""
DENSE = {2.0: 500, 8.0: 500}
"""Denser graphs, and their nodes: most of these are connected both ways."""
_TARGET_WIDTH = 10**5


def edges(count: int, nodes: int, *, seed: int = 0) -> Iterator[str]:
    """Edges between random nodes."""
    chance = np.random.default_rng(seed)
    for one, other in chance.integers(0, nodes, (count, 2)).tolist():
        yield f"<{SOCIAL}n{one}> <{SOCIAL}knows> <{SOCIAL}n{other}> .\n"


def text_of(body: str, width: int | None = None) -> str:
    """A query over all edges, or over a window of the last ones."""
    window = "" if width is None else f"FROM STREAM <{STREAM}> [RANGE {width}] "
    return f"PREFIX : <{SOCIAL}> SELECT * {window}WHERE {{ {body} }}"


def measure(report: Report, *, width: int, tail: int, reports: int, repeat: int) -> None:
    """Time an event of a window that slides by one edge, in batches; and what pyoxigraph takes to answer anew."""
    nodes = round(width / SPARSE)
    stream = Encoded(chunks(edges(2 * width + tail, nodes)))
    quads = stream.quads(0, width + reports + 1)
    for name, body in (("knows+", "?x :knows+ ?y"), ("knows+ from a node", ":n1 :knows+ ?y")):
        run = partial(
            stream.run,
            [text_of(body, width)],
            tail=tail,
            warm=width,
            end=width + tail,
            clock=time.process_time,
        )
        (own,) = best_costs([run], repeat)
        again = pyoxigraph_seconds(quads, width, width, text_of(body), reports)
        report.add(
            "paths",
            f"{name}, {power_of_ten(width)} edges, {SPARSE} a node",
            again / own.a_triple,
            "x increments",
            target=100 if width == _TARGET_WIDTH and name == "knows+" else None,
            note=f"pyoxigraph {again * 1e6:,.3g} microseconds an event against {own.a_triple * 1e6:.3g}; "
            f"{own.rows / own.triples:.2g} rows out an event",
        )
    for degree, many in DENSE.items():
        held = round(degree * many)
        events = min(tail, 2_000)
        dense = Encoded(chunks(edges(held + 2 * events, many)))
        run = partial(
            dense.run,
            [text_of("?x :knows+ ?y", held)],
            tail=events,
            warm=held,
            end=held + events,
            clock=time.process_time,
        )
        (own,) = best_costs([run], repeat)
        report.add(
            "paths",
            f"knows+, {held:,} edges of {many} nodes",
            own.a_triple * 1e6,
            "microseconds an event",
            note=f"{own.rows / own.triples:.3g} rows out an event",
        )
