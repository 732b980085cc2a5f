"""What the suites share: query texts, where the real data are, and streams of ids that a session is timed with."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyoxigraph
from numpy.typing import NDArray

from thalweg.answers import ContinuousQuery
from thalweg.bench.report import Report
from thalweg.engine import Session
from thalweg.operators.streamset import Strategy
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.static.data import StaticData
from thalweg.testing.generate import lubm, write

Ints = NDArray[np.int64]
STREAM = "http://thalweg.dev/stream"
_MILLISECOND = 1000
_BATCH = 1 << 15
_TYPE = b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_SALT = 0x1234567


def plain_query(suite: str, name: str) -> str:
    """A query of a suite as SPARQL without a stream."""
    return files("thalweg.bench").joinpath(f"queries/{suite}/{name}.rq").read_text()


def query_text(suite: str, name: str, window: str = "", stream: str = STREAM) -> str:
    """A query of a suite over a stream under a window."""
    head, where = plain_query(suite, name).split("WHERE", 1)
    return f"{head}FROM STREAM <{stream}> {window} WHERE{where}"


def find_data(name: str, given: Path | None = None) -> Path | None:
    """A file of real data: the one given, or `name` under $THALWEG_DATA or ../shared/data; None if there is none."""
    if given is not None:
        return given
    folders = [Path("../shared/data"), Path(__file__).parents[4] / "shared" / "data"]
    if "THALWEG_DATA" in os.environ:
        folders.insert(0, Path(os.environ["THALWEG_DATA"]))
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def lay_out(data: Path | None, plain: Path, triples: int) -> None:
    """Writes a LUBM stream as plain N-Triples: that of a file, or a generated one of so many triples."""
    if data is None:
        write(lubm(triples), plain)
        return
    with (
        gzip.open(data, "rb") if data.suffix == ".gz" else data.open("rb") as source,
        plain.open("wb") as target,
    ):
        shutil.copyfileobj(source, target)


def text_rows(path: Path) -> Iterator[list[str]]:
    """The rows of a file of comma-separated values without quotes, plain or gzipped."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            yield line.rstrip("\n").split(",")


def chunks(lines: Iterable[str], size: int = 1 << 14) -> Iterator[bytes]:
    """Pieces of an N-Triples document joined to larger ones, as bytes."""
    waiting: list[str] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) == size:
            yield "".join(waiting).encode()
            waiting = []
    yield "".join(waiting).encode()


@dataclass(frozen=True)
class Cost:
    """What a part of a stream took: seconds, triples in, rows (+ and -) out, and the triples held at the end."""

    seconds: float
    triples: int
    rows: int
    live: int

    @property
    def a_triple(self) -> float:
        """Seconds a triple."""
        return self.seconds / self.triples

    @property
    def a_row(self) -> float:
        """Seconds a row that went in or came out."""
        return self.seconds / (self.triples + self.rows)


class Encoded:
    """Triples as ids, in order, with the arena of their texts; parsed once, run many times."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.arena = Arena()
        reader = LineReader(self.arena, Prune.everything(), syntax="nt", source="bench", blank_nodes="stable")
        read = [reader.read(piece) for piece in pieces]
        self.s, self.p, self.o = (np.concatenate([getattr(part, name) for part in read]) for name in "spo")
        self.op = np.ones(len(self.s), np.int64)
        self._ids = [np.unique(np.concatenate([self.s, self.p, self.o]))]

    def _with(self, s: Ints, p: Ints, o: Ints, op: Ints) -> Encoded:
        """Other triples over the same arena."""
        other = copy(self)
        other.s, other.p, other.o, other.op = s, p, o, op
        return other

    def with_objects(self, o: Ints) -> Encoded:
        """The same triples with other objects, of the same arena."""
        return self._with(self.s, self.p, o, self.op)

    def with_triples(self, s: Ints, p: Ints, o: Ints) -> Encoded:
        """Other inserts, of the same arena."""
        other = self._with(s, p, o, np.ones(len(s), np.int64))
        other._ids = [np.unique(np.concatenate([s, p, o]))]
        return other

    def ids(self) -> list[Ints]:
        """The ids that are in use, for `Session.keep`."""
        return self._ids

    def __len__(self) -> int:
        return len(self.s)

    def session(
        self, texts: Iterable[str], strategy: Strategy = "incremental", static: StaticData | None = None
    ) -> tuple[Session, list[ContinuousQuery]]:
        """A session with queries, over this arena; kernels are compiled and the arena is tidy."""
        session = Session(arena=self.arena, strategy=strategy, static=static)
        session.keep(lambda: self._ids)
        queries = [session.register(text) for text in texts]
        session.push_events(EventBatch.empty(STREAM))
        return session, queries

    def batch(self, start: int, end: int, per_event: int = 1) -> EventBatch:
        """Triples [start, end) as events of so many triples, one event a millisecond."""
        return self.batch_of(start, end, np.arange(start, end) // per_event)

    def batch_of(self, start: int, end: int, event: Ints) -> EventBatch:
        """Triples [start, end) as events of these numbers, one event a millisecond."""
        part = slice(start, end)
        rows = Rows(
            time=event * _MILLISECOND,
            event=event,
            graph=np.zeros(end - start, np.int64),
            s=self.s[part],
            p=self.p[part],
            o=self.o[part],
            op=self.op[part],
        )
        return EventBatch(STREAM, rows, clock=int(event[-1]) * _MILLISECOND)

    def batches(self, start: int, end: int, per_event: int = 1, size: int = _BATCH) -> Iterator[EventBatch]:
        """The same in batches of whole events."""
        size = max(per_event, size // per_event * per_event)
        for begin in range(start, end, size):
            yield self.batch(begin, min(begin + size, end), per_event)

    def with_deletes(self, share: float, reach: int, seed: int = 0) -> Encoded:
        """The same inserts with so large a share of deletes among them: each of a triple up to `reach` inserts old."""
        chance = np.random.default_rng(seed)
        gone = np.flatnonzero(chance.random(len(self)) < share / (1 - share))
        when = np.concatenate([np.arange(len(self)), gone + chance.random(len(gone)) * reach + 0.5])
        order = np.argsort(when, kind="stable")
        which = np.concatenate([np.arange(len(self)), gone])[order]
        op = np.where(order < len(self), 1, -1)
        return self._with(self.s[which], self.p[which], self.o[which], op)

    def repeated(self, times: int) -> Encoded:
        """The stream so many times over, each time with other nodes; predicates and classes stay the same.

        The nodes of the repetitions are ids without a text: nothing that is timed with them shows a row.
        """
        is_type = self.p == self.arena.intern(_TYPE)
        salts = [np.int64(_SALT * lap) for lap in range(times)]
        return self._with(
            np.concatenate([self.s ^ salt for salt in salts]),
            np.tile(self.p, times),
            np.concatenate([np.where(is_type, self.o, self.o ^ salt) for salt in salts]),
            np.tile(self.op, times),
        )

    def run(
        self,
        texts: Sequence[str],
        *,
        tail: int,
        warm: int,
        per_event: int = 1,
        end: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        static: StaticData | None = None,
    ) -> Cost:
        """The cost of the last `tail` triples after `warm` others that fill the windows.

        `end` is where the stream ends, if before its last triple. `clock` gives seconds: of the day or of the process.
        """
        end = len(self) if end is None else end
        start = max(0, end - tail - warm) // per_event * per_event
        middle = max(0, end - tail) // per_event * per_event
        session, queries = self.session(texts, static=static)
        for batch in self.batches(start, middle, per_event):
            session.push_events(batch)
            for query in queries:
                query.drain()
        rows = 0
        begun = clock()
        for batch in self.batches(middle, end, per_event):
            session.push_events(batch)
            rows += sum(len(query.drain()) for query in queries)
        return Cost(clock() - begun, end - middle, rows, session.live_triples)

    def documents(self, start: int, end: int, size: int = 1 << 14) -> Iterator[bytes]:
        """The same triples as pieces of N-Triples."""
        for begin in range(start, end, size):
            part = slice(begin, min(begin + size, end))
            texts = [self.arena.texts(column[part]) for column in (self.s, self.p, self.o)]
            yield "".join(f"{s} {p} {o} .\n" for s, p, o in zip(*texts, strict=True)).encode()

    def quads(self, start: int, end: int) -> list[pyoxigraph.Quad]:
        """The same triples as pyoxigraph has them."""
        document = b"".join(self.documents(start, end))
        return list(pyoxigraph.parse(document, format=pyoxigraph.RdfFormat.N_TRIPLES))


class Rounds:
    """Costs of several runs, taken in turns a number of times: what disturbs a minute disturbs all of them."""

    def __init__(self, runs: Sequence[Callable[[], Cost]], repeat: int) -> None:
        self._rounds = [[run() for run in runs] for _ in range(repeat)]

    @property
    def best(self) -> list[Cost]:
        """The best of each."""
        return [min(costs, key=lambda cost: cost.seconds) for costs in zip(*self._rounds, strict=True)]

    def ratio(self, one: int, other: int) -> float:
        """The seconds of one run divided by those of another: the median of the rounds.

        On a machine that others use it varies less than the quotient of the best ones, which may come from two minutes.
        """
        return float(np.median([costs[one].seconds / costs[other].seconds for costs in self._rounds]))


def best_costs(runs: Sequence[Callable[[], Cost]], repeat: int) -> list[Cost]:
    """The best of several runs of each, taken in turns."""
    return Rounds(runs, repeat).best


def flat_cost(
    report: Report,
    stream: Encoded,
    suite: str,
    names: Sequence[str],
    *,
    widths: Sequence[int],
    tail: int,
    per_event: int = 1,
    repeat: int = 2,
) -> None:
    """Time per triple of a sliding window (slide 1) by its width in triples: the widest at most 2 x the narrowest.

    The same last triples are timed at each width. Where the answer itself grows with the window, time per
    triple cannot stay: there a second figure divides by the rows that go in and come out.
    """
    group = f"sliding window, {per_event} triples an event" if per_event > 1 else "sliding window"
    for name in names:
        texts = [query_text(suite, name, f"[RANGE {max(1, width // per_event)}]") for width in widths]
        runs = [
            partial(stream.run, [text], tail=tail, warm=width, per_event=per_event)
            for width, text in zip(widths, texts, strict=True)
        ]
        costs = dict(zip(widths, best_costs(runs, repeat), strict=True))
        least, most = costs[widths[0]], costs[widths[-1]]
        times = ", ".join(
            f"{power_of_ten(width)}: {cost.a_triple * 1e9:.0f}" for width, cost in costs.items()
        )
        grown = ", ".join(f"{cost.rows / cost.triples:.3g}" for cost in costs.values())
        span = f"{power_of_ten(widths[-1])} to {power_of_ten(widths[0])}"
        rate = 1e-6 / most.a_triple
        report.add(
            group,
            f"{name}, window {power_of_ten(widths[-1])}",
            rate,
            "M triples/s",
            note=f"ns a triple at {times}",
        )
        ratio = most.a_triple / least.a_triple
        note = f"rows out a triple: {grown}"
        report.add(group, f"{name}, {span}", ratio, "x time a triple", target=2, at_most=True, note=note)
        if most.rows > 1.5 * least.rows:
            ratio = most.a_row / least.a_row
            note = "for rows in and rows out"
            report.add(group, f"{name}, {span}", ratio, "x time a row", target=2, at_most=True, note=note)


def power_of_ten(number: int) -> str:
    """A round number as it is written in the tables.

    >>> power_of_ten(1000), power_of_ten(2500)
    ('10^3', '2500')
    """
    text = str(number)
    return f"10^{len(text) - 1}" if text == "1" + "0" * (len(text) - 1) else text
