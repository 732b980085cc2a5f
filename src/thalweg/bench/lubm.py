"""The LUBM suite: a university as a stream of triples, queries Q1 - Q7, sliding windows, one triple an event."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyoxigraph

from thalweg.algebra.query import Query
from thalweg.answers import ContinuousQuery
from thalweg.bench import workload
from thalweg.bench.report import Report, best_seconds, resident_bytes
from thalweg.bench.workload import STREAM, Encoded, best_costs, lay_out
from thalweg.engine import Session
from thalweg.io.files import pieces, read_events
from thalweg.lang import parse
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch
from thalweg.rdf.prune import Prune, Signature

NAMES = tuple(f"q{number}" for number in range(1, 8))
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LAPS = 4


def query_text(name: str, window: str) -> str:
    """A query of the suite over the stream under a window."""
    return workload.query_text("lubm", name, window)


def run(*, data: Path | None = None, quick: bool = False, spark: bool = True) -> Report:
    """All figures of the suite."""
    report = Report("lubm")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        plain = Path(folder) / "lubm.nt"
        lay_out(data, plain, 100_000 if quick else 650_000)
        reading(report, plain)
        matching(report, plain, copies=2 if quick else 4)
        whole_way(report, plain)
        latency(report)
        memory(report, plain)
        baseline(report, plain)
        if spark:
            from thalweg.bench.spark import QUICK, Sizes, steady

            sizes = QUICK if quick else Sizes()
            steady(report, plain, Path(folder), sizes.copies, ("q1", "q2", "q5"))
    return report


def prune_for(query: Query) -> Prune:
    """What one query needs of the stream."""
    session = Session()
    session.register(query)
    return session.prune()


def _read(plain: Path, prune: Prune, laps: int = 1) -> None:
    """Reads, prunes, encodes and frames a file, as a run does before it matches."""
    for _ in read_events([plain] * laps, STREAM, Arena(), prune):
        pass


def reading(report: Report, plain: Path) -> None:
    """Reading, pruning and encoding on one core, next to pyoxigraph's parser on the same bytes."""
    content = plain.read_bytes()
    triples = content.count(b"\n")

    def parse_all() -> None:
        for _ in pyoxigraph.parse(content, format=pyoxigraph.RdfFormat.N_TRIPLES):
            pass

    rival = triples / best_seconds(parse_all, 1)
    report.add("reading", "pyoxigraph.parse", rival / 1e6, "M triples/s", note="the rival, to Python objects")
    report.add("reading", "bytes a triple", len(content) / triples, "bytes")

    def read_with(prune: Prune) -> float:
        return triples / best_seconds(lambda: _read(plain, prune))

    nothing = read_with(Prune.of([Signature(None, b"<http://nowhere>", None)]))
    report.add(
        "reading", "nothing kept", nothing / 1e6, "M triples/s", note=f"{nothing / rival:.1f} x pyoxigraph"
    )
    everything = read_with(Prune.everything())
    note = f"{everything / rival:.1f} x pyoxigraph"
    report.add("reading", "everything kept", everything / 1e6, "M triples/s", note=note)
    for name in NAMES:
        rate = read_with(prune_for(parse(query_text(name, ""))))
        report.add(
            "reading",
            f"pruned for {name}",
            rate / rival,
            "x pyoxigraph",
            target=5,
            note=f"{rate / 1e6:.1f} M triples/s",
        )


def matching(report: Report, plain: Path, copies: int) -> None:
    """Matching alone, triples already ids: the rate at 10^5, and how cost grows with the window."""
    stream = Encoded(bytes(piece) for _, piece in pieces(plain)).repeated(copies)
    widths = (10**3, 10**4, 10**5, 10**6)
    for name in NAMES:
        texts = [query_text(name, f"[RANGE {width}]") for width in widths]
        runs = [
            partial(stream.run, [text], tail=len(stream) * 3 // 5, warm=width)
            for width, text in zip(widths, texts, strict=True)
        ]
        cost = {w: c.a_triple for w, c in zip(widths, best_costs(runs, 2), strict=True)}
        rate = 1e-6 / cost[10**5]
        rates = ", ".join(f"10^{len(str(w)) - 1}: {1e-6 / c:.1f}" for w, c in cost.items())
        report.add("matching", f"{name}, window 10^5", rate, "M triples/s", target=10, note=f"M/s at {rates}")
        grown = cost[10**6] / cost[10**3]
        report.add("matching", f"{name}, 10^6 to 10^3", grown, "x time", target=2, at_most=True)


def _counted(query: ContinuousQuery, arena: Arena) -> int:
    return len(query.drain())


def drain_file(
    plain: Path, text: str, laps: int = 1, take: Callable[[ContinuousQuery, Arena], int] = _counted
) -> tuple[float, int, Session]:
    """From the file to the answers in this process: seconds, results, and the session. `take` takes what is new."""
    session = Session()
    query = session.register(text)
    events = read_events([plain] * laps, STREAM, session.arena, session.prune())
    session.keep(lambda: [events.live_ids()])
    results = 0
    start = time.perf_counter()
    for batch in events:
        session.push_events(batch)
        results += take(query, session.arena)
    return time.perf_counter() - start, results, session


def whole_way(report: Report, plain: Path) -> None:
    """From the file to the answers in one process, against reading alone; the file several times over."""
    triples = _LAPS * plain.read_bytes().count(b"\n")
    for name in NAMES:
        text = query_text(name, "[RANGE 100000]")
        prune = prune_for(parse(text))
        alone, seconds, results = float("inf"), float("inf"), 0
        for _ in range(4):  # in turns: the machine may be slower now than a moment ago
            alone = min(alone, best_seconds(partial(_read, plain, prune, _LAPS), 1))
            taken, results, _ = drain_file(plain, text, _LAPS)
            seconds = min(seconds, taken)
        note = f"{triples / seconds / 1e6:.1f} M triples/s, {results} results"
        report.add("file to answers", name, 100 * alone / seconds, "% of reading", target=60, note=note)


def latency(report: Report, pushes: int = 20_000) -> None:
    """One push and one poll at a time, as a notebook or a server does."""
    session = Session()
    query = session.register(query_text("q2", "[RANGE 1000]"))
    ub = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
    taken = np.empty(pushes)
    for k in range(pushes):
        subject = f"<http://www.University0.edu/Course{k // 2}>"
        graph = f'{subject} <{ub}name> "Course{k // 2}" .' if k % 2 else f"{subject} {_TYPE} <{ub}Course> ."
        start = time.perf_counter()
        session.push(STREAM, at=k, graph=graph)
        query.poll()
        taken[k] = time.perf_counter() - start
    taken = taken[pushes // 10 :] * 1e6
    for name, quantile, target in (("median", 50, 200), ("p99", 99, 2000), ("p99.9", 99.9, None)):
        value = float(np.percentile(taken, quantile))
        report.add("latency", f"push + poll, {name}", value, "microseconds", target=target, at_most=True)


def _delayed(batch: EventBatch, by: int) -> EventBatch:
    """The same events at later times."""
    assert batch.event_time is not None, "files are framed with the times of all events"
    rows = replace(batch.rows, time=batch.rows.time + by)
    return replace(batch, rows=rows, clock=batch.clock + by, event_time=batch.event_time + by)


def memory(report: Report, plain: Path) -> None:
    """Bytes per live triple of a window, and whether the process grows with the stream."""
    for name in ("q2", "q7"):
        _, _, session = drain_file(plain, query_text(name, "[RANGE 100000]"))
        live = session.live_triples
        terms = session.arena.nbytes
        note = f"{live} live; of the bytes {terms / live:.0f} are terms"
        report.add("memory", f"{name}, a live triple", session.nbytes / live, "bytes", note=note)
    session = Session()
    query = session.register(query_text("q2", "[RANGE 10000]"))
    sizes = []
    begin = 0
    for _ in range(10):
        for batch in read_events([plain], STREAM, session.arena, session.prune()):
            session.push_events(_delayed(batch, begin))
            query.drain()
        begin += batch.clock + 1
        sizes.append(resident_bytes())
    grown = (sizes[-1] - sizes[2]) / max(sizes[2], 1) * 100
    note = f"{sizes[2] / 2**20:.0f} MiB after 3 laps of the file, {sizes[-1] / 2**20:.0f} MiB after 10"
    report.add("memory", "growth of the process", grown, "%", target=5, at_most=True, note=note)


def baseline(report: Report, plain: Path, width: int = 10_000, reports: int = 20) -> None:
    """Re-evaluation by pyoxigraph on the same windows: what an answer costs without increments."""
    with plain.open("rb") as source:
        lines = [next(source) for _ in range(width + reports)]
    triples = [
        next(iter(pyoxigraph.parse(line, format=pyoxigraph.RdfFormat.N_TRIPLES))).triple for line in lines
    ]
    for name in NAMES:
        text = workload.plain_query("lubm", name)
        store = pyoxigraph.Store()
        store.extend(pyoxigraph.Quad(*triple) for triple in triples[:width])
        start = time.perf_counter()
        for k in range(reports):
            store.remove(pyoxigraph.Quad(*triples[k]))
            store.add(pyoxigraph.Quad(*triples[width + k]))
            list(store.query(text))  # type: ignore[arg-type]
        again = (time.perf_counter() - start) / reports
        ours, _, _ = drain_file(plain, query_text(name, f"[RANGE {width}]"))
        ours /= plain.read_bytes().count(b"\n")
        note = f"{again * 1e6:,.0f} microseconds an event against {ours * 1e9:.0f} ns, ours with reading"
        report.add("re-evaluation", f"{name}, window 10^4, every event", again / ours, "x ours", note=note)
