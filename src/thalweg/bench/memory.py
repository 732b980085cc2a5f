"""The memory suite: bytes per live triple and per cached term, and a stream of ever new terms that leaves no trace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thalweg.bench.report import Report, resident_bytes
from thalweg.bench.workload import STREAM, Encoded, chunks, query_text
from thalweg.engine import Session
from thalweg.io.files import pieces
from thalweg.kernels.arena import RECORD, USED
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import LineReader
from thalweg.testing.generate import lubm

_KNOWS = "http://thalweg.dev/knows"
_PATH = f"SELECT * FROM STREAM <{STREAM}> [RANGE %d] WHERE {{ ?x <{_KNOWS}> ?y . ?y <{_KNOWS}> ?z }}"
_DIGITS = 12


@dataclass(frozen=True)
class Sizes:
    """Triples of LUBM and its window; triples of ever new terms, and the small window that they pass through."""

    triples: int = 650_000
    window: int = 100_000
    new_terms: int = 100_000_000
    small: int = 10_000


QUICK = Sizes(triples=120_000, window=40_000, new_terms=5_000_000)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark. `data` is a LUBM file."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("memory")
    source = chunks(lubm(sizes.triples), 1) if data is None else (bytes(piece) for _, piece in pieces(data))
    held(report, Encoded(source), sizes.window)
    passing(report, sizes.new_terms, sizes.small)
    return report


def held(report: Report, stream: Encoded, window: int) -> None:
    """Bytes of all but the terms by live triples, and of the arena by its terms, as a session has them at the end."""
    everything = f"SELECT * FROM STREAM <{STREAM}> [RANGE {window}] WHERE {{ ?s ?p ?o }}"
    queries = {name: query_text("lubm", name, f"[RANGE {window}]") for name in ("q1", "q2", "q7")}
    for name, text in (queries | {"every triple": everything}).items():
        session = Session()
        query = session.register(text)
        reader = LineReader(session.arena, session.prune(), syntax="nt", source="bench")
        framer = StatementFramer(STREAM, arena=session.arena)
        for document in stream.documents(max(0, len(stream) - 2 * window), len(stream)):
            session.push_events(framer.frame(reader.read(document)))
            query.drain()
        live = max(1, session.live_triples)
        arena = session.arena
        rows = (session.nbytes - arena.nbytes) / live
        parts = session.memory()
        by_purpose = {part: parts[part] for part in ("windows", "answers", "output", "terms")}
        split = ", ".join(f"{part} {size / live:.0f}" for part, size in by_purpose.items())
        note = f"{live:,} live; {split}"
        report.add("bytes", f"{name}, a live triple", rows, "bytes", target=150, at_most=True, note=note)
        text_bytes = int(arena.head[USED]) - RECORD * len(arena)
        over = (arena.nbytes - text_bytes) / max(1, len(arena))
        note = f"{len(arena):,} terms, whose texts have {text_bytes / max(1, len(arena)):.0f} bytes"
        report.add(
            "bytes", f"{name}, a cached term", over, "bytes + its text", target=120, at_most=True, note=note
        )


@dataclass
class Passage:
    """What the memory was while ever new terms passed through: samples after equal parts of the stream."""

    session: list[int] = field(default_factory=list)
    process: list[int] = field(default_factory=list)
    rows: int = 0
    seconds: float = 0.0

    def growth(self, samples: list[int]) -> float:
        """How much larger, in percent, the largest of the last third is than the largest before it."""
        third = len(samples) // 3
        before, after = max(samples[third : 2 * third]), max(samples[2 * third :])
        return 100 * (after / before - 1) if before else 0.0


def passing(report: Report, triples: int, window: int) -> Passage:
    """Whether memory stays when every triple brings new terms and a small window forgets them."""
    passage = pass_through(triples, window)
    for name, samples in (("session", passage.session), ("process", passage.process)):
        note = f"{samples[len(samples) // 3] / 2**20:.1f} MiB after a third, {samples[-1] / 2**20:.1f} at the end"
        growth = passage.growth(samples)
        report.add("ever new terms", f"growth of the {name}", growth, "%", target=5, at_most=True, note=note)
    rate = triples / passage.seconds / 1e6
    note = f"{triples:,} triples, window {window:,}, {passage.rows:,} rows out"
    report.add("ever new terms", "text to answers", rate, "M triples/s", note=note)
    return passage


def pass_through(triples: int, window: int, piece: int = 20_000) -> Passage:
    """Runs a path query over a chain of new terms, from text, and samples the memory thirty times."""
    session = Session()
    query = session.register(_PATH % window)
    reader = LineReader(session.arena, session.prune(), syntax="nt", source="bench")
    framer = StatementFramer(STREAM, arena=session.arena)
    session.keep(lambda: [framer.live_ids()])
    passage = Passage()
    count = -(-triples // piece)
    start = time.perf_counter()
    for number, document in enumerate(chain(count, piece)):
        session.push_events(framer.frame(reader.read(document, offset=number)))
        passage.rows += len(query.drain())
        if number * 30 // count != (number + 1) * 30 // count:
            passage.session.append(session.nbytes)
            passage.process.append(resident_bytes())
    passage.seconds = time.perf_counter() - start
    return passage


def chain(count: int, size: int) -> Iterator[NDArray[np.uint8]]:
    """Pieces of a document in which each node knows the next: no term but the predicate comes in a third line."""
    blank = "0" * _DIGITS
    line = f"<http://thalweg.dev/n{blank}> <{_KNOWS}> <http://thalweg.dev/n{blank}> .\n".encode()
    places = [line.index(blank.encode()), line.rindex(blank.encode())]
    lines = np.tile(np.frombuffer(line, np.uint8), (size, 1))
    for number in range(count):
        for shift, place in enumerate(places):
            value = np.arange(number * size + shift, (number + 1) * size + shift)
            for digit in range(_DIGITS):
                lines[:, place + _DIGITS - 1 - digit] = 48 + value % 10
                value //= 10
        yield lines.ravel()
