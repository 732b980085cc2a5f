"""The process suite: business processes in a store, asked of and followed while they come (seed 003, section IV)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from thalweg.bench.report import Report, best_seconds
from thalweg.bench.workload import power_of_ten
from thalweg.engine import Session
from thalweg.io.files import FileEvents
from thalweg.options import RunOptions
from thalweg.store.appending import Appendable, append_files
from thalweg.store.store import Store
from thalweg.testing.generate_processes import processes

STREAM = "http://ebtic.example/processes"
QUERIES = ("q1", "q2", "q3", "q4")
PAPER_MS = {"q1": 381, "q2": 241, "q3": 5400, "q4": 520}
"""Ten nodes, 10^6 triples, another decade: a lead, not a rival."""
PAPER_RATES = {"q1": 3150, "q3": 654}
PAPER_STORED = 3310


@dataclass(frozen=True)
class Sizes:
    """Triples in the store, to how many it grows, triples of the continuous queries, single messages, repetitions."""

    triples: int = 1_000_000
    grown: int = 10_000_000
    """0: it does not grow."""
    followed: int = 300_000
    singles: int = 200
    repeat: int = 3


QUICK = Sizes(triples=100_000, grown=0, followed=100_000, singles=50, repeat=2)


def query(name: str) -> str:
    """The text of a query."""
    return files("thalweg.bench").joinpath("queries", "process", f"{name}.rq").read_text()


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite. `data` is a file of N-Triples."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("process")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        path = data or Path(folder) / "processes.nt"
        if data is None:
            with path.open("w") as out:
                out.writelines(processes(sizes.triples))
        embedded(report, path, Path(folder) / "store", sizes)
        followed = Path(folder) / "followed.nt"
        with followed.open("w") as out:
            out.writelines(processes(sizes.followed))
        for name in PAPER_RATES:
            follow(report, name, followed)
        if spark:
            on_spark(report, path, Path(folder) / "table", sizes)
    return report


def embedded(report: Report, path: Path, folder: Path, sizes: Sizes) -> None:
    """The store of one process: appending, opening, the four questions, and the same with more triples."""
    with Store.create(folder) as store:
        rows = _append(report, "embedded", store, path)
        _asked(report, "embedded", store, rows, sizes.repeat)
        middle = rows // 2
        seconds = best_seconds(lambda: len(store.ask(query("q1"), as_of=middle).texts.rows), 1)
        report.add("embedded", "q1 as of the middle, first time", 1000 * seconds, "ms")
        begin = time.perf_counter()
        for k in range(sizes.singles):
            store.push(STREAM, at=rows + k, graph=f"<http://ebtic.example/one{k}> a 1 .", format="turtle")
        rate = sizes.singles / (time.perf_counter() - begin)
        report.add(
            "embedded", "one message at a time", rate, "messages/s", note="each on disk when acknowledged"
        )
    if sizes.grown > rows:
        grow(report, rows, folder, sizes)
    seconds = best_seconds(lambda: Store.open(folder).close(), 3)
    report.add(
        "embedded", "opened", 1000 * seconds, "ms", note=f"with {power_of_ten(sizes.grown or rows)} triples"
    )


def grow(report: Report, rows: int, folder: Path, sizes: Sizes) -> None:
    """The same questions when the store has grown."""
    group = f"embedded, {power_of_ten(sizes.grown)} triples"
    more = folder.parent / "more.nt"
    with more.open("w") as out:
        out.writelines(islice(processes(sizes.grown), rows, None))
    with Store.open(folder) as store:
        _append(report, group, store, more)
        more.unlink()
        _asked(report, group, store, sizes.grown, 1)
    peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024 / sizes.grown
    report.add(
        group, "memory", peak, "bytes/triple", note="the most that the process had, mapped pages included"
    )


def _asked(report: Report, group: str, store: Store, rows: int, repeat: int) -> None:
    start = time.process_time()
    store.ask("ASK {}")
    rate = rows / (time.process_time() - start)
    report.add(group, "content brought up to date", rate, "triples/s", note="by the first question, CPU time")
    _ask(report, group, rows, lambda text: len(store.ask(text).texts.rows), repeat)
    share = store.stats().content_bytes / rows
    report.add(
        group, "content on disk", share, "bytes/triple", note="sorted columns, their orders, and terms"
    )


def on_spark(report: Report, path: Path, folder: Path, sizes: Sizes) -> None:
    """The store on Spark: appending, compaction, and the four questions."""
    from thalweg import spark

    store: Any = spark.store(folder, spark=spark.session("thalweg-bench"))
    rows = _append(report, "Spark", store, path)
    seconds = best_seconds(store.compact, 1)
    report.add("Spark", "compaction", rows / seconds, "triples/s")
    _ask(report, "Spark", rows, lambda text: store.ask(text).toArrow().num_rows, sizes.repeat)


def follow(report: Report, name: str, path: Path) -> None:
    """A continuous query in this process while the triples come, from text to rows."""
    rates = []
    for _ in range(2):  # the first run also loads the kernels
        session = Session(max_pending=None)
        registered = session.register(query(name), stream=STREAM)
        events = FileEvents([path], STREAM, session.arena, session.prune, RunOptions(), piece=1 << 18)
        start, found = time.process_time(), 0
        for batch in events:
            session.push_events(batch)
            found += len(registered.drain())
        rates.append(session.stats.events / (time.process_time() - start))
    rate = max(rates)
    report.add(
        "continuous",
        f"{name}, in process",
        rate,
        "messages/s",
        target=100 * PAPER_RATES[name],
        note=f"{found:,} changes; the paper: {PAPER_RATES[name]:,}",
    )


def _append(report: Report, group: str, store: Appendable, path: Path) -> int:
    start = time.process_time()
    done = append_files(store, {STREAM: str(path)}, RunOptions())
    rate = done.rows / (time.process_time() - start)
    note = f"{power_of_ten(done.rows)} triples, CPU time; the paper: {PAPER_STORED:,} messages/s"
    report.add(group, "appended", rate, "triples/s", target=100 * PAPER_STORED, note=note)
    return done.rows


def _ask(report: Report, group: str, rows: int, ask: Callable[[str], int], repeat: int) -> None:
    for name in QUERIES:
        text, found = query(name), [0]

        def once(text: str = text, found: list[int] = found) -> None:
            found[0] = ask(text)

        seconds = best_seconds(once, repeat)
        # The paper's figures are of 10^6 triples.
        target = PAPER_MS[name] if rows == 1_000_000 else None
        note = f"{found[0]:,} rows; the paper: {PAPER_MS[name]:,} ms on ten nodes"
        report.add(group, name, 1000 * seconds, "ms", target=target, at_most=True, note=note)
