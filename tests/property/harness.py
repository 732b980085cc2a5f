"""How the property tests feed a session: the same events by every door, in any batches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import show_instant
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.testing.snapshot import TRIPLE, Event, Now, Oracle, Question, Row, blur, canonical

NEVER, FOREVER = -(2**62), 2**62
GENERATED_AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
DATE_TIME = "<http://www.w3.org/2001/XMLSchema#dateTime>"


def at_argument(us: int) -> int | str:
    """A time as `push` takes it: a number of milliseconds, or a text where that is too coarse."""
    return date_time(us) if us % 1000 else us // 1000


def date_time(us: int) -> str:
    return show_instant(us)


@dataclass
class Emitted:
    """Everything that a query has emitted, with what had been promised at each poll."""

    question: Question
    query: Any
    rows: list[tuple[int, str, Row]] = field(default_factory=list)
    graphs: list[str | None] = field(default_factory=list)
    settled: int = NEVER
    opened: int = FOREVER
    """The earliest `advance` that the query has seen."""

    def poll(self, watermarks: dict[str, int]) -> None:
        """Take what is there, and check that it is in order and does not rewrite settled instants."""
        low = min(watermarks[stream] for stream in self.query.query.streams)
        before = self.rows[-1][0] if self.rows else NEVER
        for row in self.query.poll():
            assert before <= row.at, "rows come in order of time"
            assert self.settled <= row.at, f"instant {row.at} was settled: the watermark had passed it"
            assert row.at <= low, f"instant {row.at} has not come yet: the watermark is {low}"
            self.rows.append((int(row.at), row.op, frozenset(row.bindings.items())))
            self.graphs.append(row.graph)
            before = row.at
        self.settled = low

    def per_instant(self) -> dict[int, Counter[tuple[str, Row]]]:
        result: dict[int, Counter[tuple[str, Row]]] = defaultdict(Counter)
        for at, op, row in self.rows:
            result[at][op, row] += 1
        return dict(result)

    def check_sums(self, oracle: Oracle) -> None:
        """The snapshot law: at every settled instant, inserts minus deletes are the oracle's answer."""
        emitted = sorted(self.rows, key=lambda row: row[0])
        total: Counter[Row] = Counter()
        done = 0
        for t in oracle.instants():
            if t >= self.settled:
                break
            while done < len(emitted) and emitted[done][0] <= t:
                _, op, row = emitted[done]
                total[blur(row)] += 1 if op == "+" else -1
                done += 1
            expected: Counter[Row] = Counter()
            for row, n in oracle.answer(t).items():
                expected[blur(row)] += n
            have = {row: n for row, n in total.items() if n}
            assert have == dict(expected), (
                f"at {t}:\n{self.question.text()}\nhave {have}\nwant {dict(expected)}"
            )

    def check_stream(self, oracle: Oracle) -> None:
        """R2S operators: every settled instant is told once, and netted."""
        have = {t: rows for t, rows in self.per_instant().items() if t < self.settled}
        want = {t: rows for t, rows in oracle.stream(self.settled).items() if t < self.settled}
        assert have == want, self.question.text()

    def check_events(self, oracle: Oracle) -> None:
        """[NOW]: each event is answered alone, with its time and its graph's name."""
        assert {op for _, op, _ in self.rows} <= {"+"}
        have = Counter(
            (at, graph, blur(row)) for (at, _, row), graph in zip(self.rows, self.graphs, strict=True)
        )
        want: Counter[object] = Counter()
        for (at, graph, row), n in oracle.per_event().items():
            if at <= self.settled:  # the slowest stream has got there
                want[at, f"<{graph}>" if graph else None, blur(row)] += n
        assert have == want, self.question.text()

    def check_graphs(self, oracle: Oracle) -> None:
        """Whichever law the question asks for, of graphs: they are equal up to the names of their blank nodes, which
        are the same ones at all instants.
        """
        have: set[tuple[str, ...]] = set()
        want: set[tuple[str, ...]] = set()
        if isinstance(self.question.blocks[0].window, Now):
            assert {op for _, op, _ in self.rows} <= {"+"}
            pairs = zip(self.rows, self.graphs, strict=True)
            told = Counter((f"{(graph or '<urn:none>')[1:-1]}#{at}", row) for (at, _, row), graph in pairs)
            have = {_quad(row, name) for name, row in told}
            answers = oracle.per_event()
            want = {
                _quad(row, f"{graph or 'urn:none'}#{at}") for at, graph, row in answers if at <= self.settled
            }
        elif self.question.operator:
            told = Counter((f"urn:{t}{op}", row) for t, op, row in self.rows if t < self.settled)
            have = {_quad(row, name) for name, row in told}
            for t, rows in oracle.stream(self.settled).items():
                want |= {_quad(row, f"urn:{t}{op}") for op, row in rows if t < self.settled}
        else:
            told = Counter()
            for t in (t for t in oracle.instants() if t < self.settled):
                now: Counter[Row] = Counter()
                for at, op, row in self.rows:
                    now[row] += (1 if op == "+" else -1) * (at <= t)
                assert set(now.values()) <= {0, 1}, "a graph is a set"
                have |= {_quad(row, f"urn:{t}") for row, n in now.items() if n}
                want |= {_quad(row, f"urn:{t}") for row in oracle.answer(t)}
        assert set(told.values()) <= {1}, "a triple is told once"
        assert canonical(have) == canonical(want), f"{self.question.text()}\nhave {have}\nwant {want}"

    def check(self, oracle: Oracle) -> None:
        """Whichever law the question asks for."""
        if self.question.template is not None:
            self.check_graphs(oracle)
        elif isinstance(self.question.blocks[0].window, Now):
            self.check_events(oracle)
        elif self.question.operator:
            self.check_stream(oracle)
        else:
            self.check_sums(oracle)


def _quad(row: Row, graph: str) -> tuple[str, ...]:
    """A triple of an answer in the graph of its instant; a report of an empty one is a triple of its own."""
    terms = dict(row) or dict.fromkeys(TRIPLE, "<urn:empty>")
    return (*(terms[name] for name in TRIPLE), f"<{graph}>")


def _is_kept(triple: tuple[str, ...], prune: Prune) -> bool:
    """Whether some signature agrees with a triple."""
    return any(
        all(
            constant is None or constant == term.encode()
            for constant, term in zip((one.s, one.p, one.o), triple, strict=True)
        )
        for one in prune.signatures
    )


class Feed:
    """A session, its queries, and the watermarks that follow from what was pushed."""

    def __init__(self, questions: Sequence[Question], **options: Any) -> None:
        self.session = tw.Session(**options)
        self.emitted: list[Emitted] = []
        self.watermarks: dict[str, int] = {}
        self.numbers: Counter[str] = Counter()
        self.derived: dict[str, set[str]] = defaultdict(set)
        self.clocks: dict[str, int] = defaultdict(lambda: NEVER)
        self.ended: set[str] = set()
        self.drains = False
        for question in questions:
            self.register(question)

    def register(self, question: Question, **options: Any) -> Emitted:
        emitted = Emitted(question, self.session.register(question.text(), **options))
        self.emitted.append(emitted)
        for stream in question.streams:
            self.watermarks.setdefault(stream, NEVER)
        if question.output is not None:
            self.derived[question.output] |= question.streams
        return emitted

    def unregister(self, emitted: Emitted) -> None:
        """Take what there is, and let the query go; it is checked for nothing after that."""
        emitted.poll(self.watermarks)
        self.session.unregister(emitted.query)
        self.emitted.remove(emitted)

    def restart(self) -> None:
        """Go on with what was saved, as if the process had ended."""
        self.session = tw.Session.restore(self.session.save(), threads=self.session.threads)
        for emitted, query in zip(self.emitted, self.session.queries, strict=True):
            emitted.query = query

    def push(self, event: Event) -> None:
        """One event through the front door."""
        self.session.push(
            event.stream, at=at_argument(event.time), graph=event.text, name=event.graph, op=event.op
        )
        self._came(event.stream, event.time)
        self.clocks[event.stream] = max(self.clocks[event.stream], event.time)
        self.numbers[event.stream] += 1

    def push_batch(self, events: Sequence[Event]) -> None:
        """Events of one stream as columns, terms interned by hand; as a reader does, it keeps what queries can use."""
        intern, prune = self.session.arena.intern, self.session.prune()
        rows = []
        first = self.numbers[events[0].stream]
        for event in events:
            number = self.numbers[event.stream]
            self.numbers[event.stream] += 1
            for triple in event.triples:
                if not _is_kept(triple, prune):
                    continue
                graph = intern(f"<{event.graph}>".encode())
                op = 1 if event.op == "insert" else -1
                rows.append((event.time, number, graph, *(intern(term.encode()) for term in triple), op))
        latest = max(event.time for event in events)
        clock = self.clocks[events[0].stream] = max(self.clocks[events[0].stream], latest)
        self.session.push_events(
            EventBatch(
                events[0].stream,
                Rows(*np.array(rows, dtype=np.int64).reshape(-1, 7).T.copy()),
                clock=clock,
                event_time=np.array([event.time for event in events]),
                first_event=first,
                inserts=np.array([event.op == "insert" for event in events]),
            )
        )
        self._came(events[0].stream, latest)

    def advance(self, t: int) -> None:
        """The watermark of all streams."""
        self.session.advance(at_argument(t))
        for emitted in self.emitted:
            if any(self.watermarks[stream] < t for stream in emitted.query.query.streams):
                emitted.opened = min(emitted.opened, t)
        for stream in self.watermarks:
            self._came(stream, t)

    def finish(self, stream: str | None = None, *, drain: bool = False) -> None:
        """The end of one stream or of all."""
        self.session.finish(stream, drain=drain)
        self.ended |= {stream} if stream is not None else set(self.watermarks)
        self.drains = self.drains or drain

    def poll(self) -> None:
        for emitted in self.emitted:
            emitted.poll(self._reached(set(emitted.query.query.streams)))

    def _reached(self, streams: Collection[str]) -> dict[str, int]:
        """How far each of some streams has come: one that has ended holds nothing back.

        When all have ended, the last instant is complete; if they drain, so are all after it.
        """
        if not self.ended.issuperset(streams):
            return {name: FOREVER if name in self.ended else self.watermarks[name] for name in streams}
        last = max(self.clocks[name] for name in streams)
        if last == NEVER or self.drains:
            return dict.fromkeys(streams, FOREVER)
        return dict.fromkeys(streams, max([last + 1, *(self.watermarks[name] for name in streams)]))

    def _came(self, stream: str, time: int) -> None:
        self.watermarks[stream] = max(self.watermarks.get(stream, NEVER), time)
        for _ in self.derived:  # one may be derived from another, in any order
            for derived, read in self.derived.items():
                self.watermarks[derived] = min(self.watermarks[name] for name in read)


def arrivals(events: Sequence[Event]) -> st.SearchStrategy[list[Event]]:
    """The events as they may arrive: each stream in its order, the streams interleaved anyhow."""

    @st.composite
    def build(draw: st.DrawFn) -> list[Event]:
        queues = defaultdict(list)
        for event in events:
            queues[event.stream].append(event)
        if draw(st.booleans()):
            return list(events)
        result = []
        while queues:
            name = draw(st.sampled_from(sorted(queues)))
            result.append(queues[name].pop(0))
            if not queues[name]:
                del queues[name]
        return result

    return build()


def feed(
    feed: Feed,
    events: Sequence[Event],
    draw: Callable[[st.SearchStrategy[Any]], Any],
    between: Callable[[list[Event]], None] = lambda rest: None,
) -> None:
    """Push events singly or in batches, with polls and advances in between, and advance past the end.

    `between` is called before each batch, with the events that are still to come.
    """
    rest = list(events)
    while rest:
        between(rest)
        size = draw(st.integers(1, 4))
        batch = [rest.pop(0)]
        while rest and len(batch) < size and rest[0].stream == batch[0].stream:
            batch.append(rest.pop(0))
        blank = any(term.startswith("_:") for event in batch for triple in event.triples for term in triple)
        if blank or draw(st.booleans()):
            for event in batch:
                feed.push(event)
        else:
            feed.push_batch(batch)
        if draw(st.booleans()):
            feed.poll()
        if draw(st.integers(0, 3)) == 0:
            # As far as no event that is still to come would be late.
            latest = max(event.time for event in batch)
            limit = min((event.time for event in rest), default=latest + 9_000)
            if limit >= latest:
                feed.advance(draw(st.sampled_from([latest, (latest + limit) // 2, limit])))
                feed.poll()
    end = max(event.time for event in events) + draw(st.sampled_from([1, 5_001, 60_007]))
    feed.advance(end)
    feed.poll()


def quads(events: Sequence[Event], *, stamp: str, end: bytes = b"\n") -> bytes:
    """A stream of timestamped graphs as N-Quads, the timestamp before, after or inside its graph."""
    lines = []
    for event in events:
        rows = [f"{s} {p} {o} <{event.graph}> ." for s, p, o in event.triples]
        time = f'<{event.graph}> {GENERATED_AT} "{date_time(event.time)}"^^{DATE_TIME} .'
        rows.insert({"before": 0, "after": len(rows), "inside": min(1, len(rows))}[stamp], time)
        lines += rows
    return b"".join(line.encode() + end for line in lines)


def feed_quads(feed: Feed, stream: str, data: bytes, cuts: Sequence[int]) -> None:
    """A stream through the reader and the framer, in pieces that are cut anywhere between lines."""
    reader = LineReader(feed.session.arena, feed.session.prune(), syntax="nq", source=stream)
    framer = StatementFramer(stream, mode="graphs", arena=feed.session.arena)
    lines = data.splitlines(keepends=True)
    bounds = [0, *sorted(cut % (len(lines) + 1) for cut in cuts), len(lines)]
    offset = 0
    for start, stop in pairwise(bounds):
        piece = b"".join(lines[start:stop])
        batch = framer.frame(reader.read(piece, offset=offset))
        assert not batch.rejects
        feed.session.push_events(batch)
        offset += len(piece)
    feed.session.push_events(framer.close())


def made(question: Question, events: Sequence[Event]) -> list[Event]:
    """The events of the stream that is derived from a question, beyond the end of all tests."""
    return Oracle(question, events).derived(max(event.time for event in events) + 2 * 60_007)


def merged(events: Sequence[Event], more: Sequence[Event]) -> list[Event]:
    """Two streams as one, in order of time."""
    return sorted([*events, *more], key=lambda event: event.time)
