"""The snapshot oracle: answers by recomputation, with pyoxigraph over what the windows hold at an instant.

It knows docs/semantics.md and nothing of the engine. It is slow, and meant to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyoxigraph as ox

Triple = tuple[str, str, str]
"""Three terms in N-Triples form; in a pattern also `?name`, and `_:name` as a variable without a column."""
Row = frozenset[tuple[str, str]]
"""One solution: pairs of variable and term."""


@dataclass(frozen=True)
class Event:
    """A graph event: its triples are inserted, or deleted, together at its time (microseconds)."""

    stream: str
    time: int
    triples: tuple[Triple, ...]
    graph: str | None = None
    op: str = "insert"

    @property
    def text(self) -> str:
        """The triples as an N-Triples document."""
        return "".join(f"{s} {p} {o} .\n" for s, p, o in self.triples)


@dataclass(frozen=True)
class Unbounded:
    """No window: everything that has arrived."""

    def holds(self, time: int, t: int) -> bool:
        """Whether the content at instant t has an event of that time."""
        return time <= t

    def seen(self, time: int, t: int) -> bool:
        """Whether the content at instant t has taken notice of what happened at that time."""
        return time <= t

    def turns(self, time: int) -> Iterator[int]:
        """Instants at which an event of that time enters or leaves."""
        yield time

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True)
class Range:
    """`[RANGE width]`, or `[RANGE width STEP step]` whose content stands still between reports."""

    width: int
    step: int | None = None

    def __post_init__(self) -> None:
        if self.width <= 0 or (self.step is not None and self.step <= 0):
            raise ValueError("a range and a step are positive numbers of microseconds")

    def holds(self, time: int, t: int) -> bool:
        """Whether the content at instant t has an event of that time."""
        if self.step is None:
            return t - self.width < time <= t
        report = t // self.step * self.step
        return report - self.width <= time < report

    def seen(self, time: int, t: int) -> bool:
        """Whether the content at instant t has taken notice of what happened at that time."""
        return time <= t if self.step is None else time < t // self.step * self.step

    def turns(self, time: int) -> Iterator[int]:
        """Instants at which an event of that time enters or leaves, and the reports in between.

        >>> list(Range(10).turns(3)), list(Range(10, step=5).turns(3))
        ([3, 13], [5, 10, 15])
        """
        if self.step is None:
            yield from (time, time + self.width)
        else:
            first = time // self.step * self.step + self.step
            yield from range(first, time + self.width + self.step + 1, self.step)

    def __str__(self) -> str:
        step = "" if self.step is None else f" STEP {duration_text(self.step)}"
        return f" [RANGE {duration_text(self.width)}{step}]"


@dataclass(frozen=True)
class Now:
    """`[NOW]`: each event is a graph of its own."""

    def __str__(self) -> str:
        return " [NOW]"


Window = Unbounded | Range | Now


@dataclass(frozen=True)
class Block:
    """A basic graph pattern and the window over one or more streams that it reads."""

    streams: tuple[str, ...]
    window: Window
    patterns: tuple[Triple, ...]


@dataclass(frozen=True)
class Question:
    """A query as the oracle sees it; `text()` says it in the engine's language."""

    blocks: tuple[Block, ...]
    select: tuple[str, ...] = ()
    distinct: bool = False
    operator: str | None = None

    @property
    def streams(self) -> frozenset[str]:
        """The streamset."""
        return frozenset(stream for block in self.blocks for stream in block.streams)

    def text(self) -> str:
        """The query in RSP-QL: FROM STREAM for one block, named windows for several.

        >>> star = Block(("http://ex/s",), Range(10_000), (("?x", "<http://ex/p>", "?y"),))
        >>> print(Question((star,), ("x",)).text())
        SELECT ?x
        FROM STREAM <http://ex/s> [RANGE 10]
        WHERE {
          ?x <http://ex/p> ?y .
        }
        """
        head = f"REGISTER {self.operator} <http://ex/out> AS " if self.operator else ""
        if len(self.blocks) == 1:
            [block] = self.blocks
            clauses = [f"FROM STREAM <{stream}>{block.window}" for stream in block.streams]
            body = [f"  {line}" for line in _lines(block.patterns)]
        else:
            clauses, body = [], []
            for number, block in enumerate(self.blocks):
                [stream] = block.streams
                clauses.append(f"FROM NAMED WINDOW <http://ex/w{number}> ON <{stream}>{block.window}")
                body.append(f"  WINDOW <http://ex/w{number}> {{ {' '.join(_lines(block.patterns))} }}")
        return "\n".join([head + self._select(), *clauses, "WHERE {", *body, "}"])

    def sparql(self) -> str:
        """The query in SPARQL 1.1, over a dataset with one named graph per block."""
        body = (
            f"GRAPH <urn:block:{number}> {{ {' '.join(_lines(tuple(map(_hidden, block.patterns))))} }}"
            for number, block in enumerate(self.blocks)
        )
        return f"{self._select()} WHERE {{ {' '.join(body)} }}"

    def _select(self) -> str:
        names = " ".join(f"?{name}" for name in self.select) or "*"
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{names}"


class Oracle:
    """Answers of one question over a fixed list of events; equal contents are asked only once."""

    def __init__(self, question: Question, events: Sequence[Event], *, stable: bool = False) -> None:
        self.question = question
        self.events = events
        self.stable = stable  # whether a blank node's label means the same in all events
        self._known: dict[tuple[frozenset[Triple], ...], Counter[Row]] = {}

    def answer(self, t: int) -> Counter[Row]:
        """The solution multiset at instant t."""
        contents = tuple(self._content(block, t) for block in self.question.blocks)
        if contents not in self._known:
            self._known[contents] = self._ask(contents)
        return self._known[contents]

    def _content(self, block: Block, t: int) -> frozenset[Triple]:
        """The triples of a block at instant t: some insert is there that no later delete has undone.

        What is deleted and inserted at one instant is there afterwards.
        """
        window = block.window
        assert not isinstance(window, Now)
        read = [(index, event) for index, event in enumerate(self.events) if event.stream in block.streams]
        last_delete: dict[Triple, int] = {}
        for index, event in read:
            if event.op == "delete" and window.seen(event.time, t):
                for triple in self._scoped(index):
                    last_delete[triple] = max(event.time, last_delete.get(triple, event.time))
        return frozenset(
            triple
            for index, event in read
            if event.op == "insert" and window.holds(event.time, t)
            for triple in self._scoped(index)
            if event.time >= last_delete.get(triple, event.time)
        )

    def _scoped(self, index: int) -> list[Triple]:
        """The triples of an event with terms that pyoxigraph keeps as they are."""
        scope = "" if self.stable else f"e{index}-"
        return [_hidden(triple, scope=scope) for triple in self.events[index].triples]

    def turns(self) -> list[int]:
        """The instants at which anything can happen: arrivals, expiries and reports, in order."""
        return sorted(
            {
                instant
                for block in self.question.blocks
                for event in self.events
                if event.stream in block.streams
                for instant in block.window.turns(event.time)  # type: ignore[union-attr]
            }
        )

    def instants(self) -> list[int]:
        """The turns and their neighbours, one microsecond before and after."""
        return sorted({t + around for t in self.turns() for around in (-1, 0, 1)})

    def stream(self) -> dict[int, Counter[tuple[str, Row]]]:
        """What the R2S operator gives at each instant: rows with their sign.

        RSTREAM reports where a STEP window does, and wherever the answer changes.
        """
        steps = [b.window.step for b in self.question.blocks if isinstance(b.window, Range) and b.window.step]
        result: dict[int, Counter[tuple[str, Row]]] = {}
        before: Counter[Row] = Counter()
        for t in self.turns():
            now = self.answer(t)
            entered, left = now - before, before - now
            rows: Counter[tuple[str, Row]] = Counter()
            if self.question.operator == "RSTREAM":
                if entered or left or any(t % step == 0 for step in steps):
                    rows.update({("+", row): n for row, n in now.items()})
            else:
                if self.question.operator != "DSTREAM":
                    rows.update({("+", row): n for row, n in entered.items()})
                if self.question.operator != "ISTREAM":
                    rows.update({("-", row): n for row, n in left.items()})
            if rows:
                result[t] = rows
            before = now
        return result

    def per_event(self) -> Counter[tuple[int, str | None, Row]]:
        """For [NOW]: the solutions of each event, with its time and graph name."""
        [block] = self.question.blocks
        result: Counter[tuple[int, str | None, Row]] = Counter()
        for index, event in enumerate(self.events):
            if event.stream in block.streams:
                content = frozenset(self._scoped(index) if event.op == "insert" else ())
                for row, n in self._ask((content,)).items():
                    result[event.time, event.graph, row] += n
        return result

    def _ask(self, contents: Iterable[frozenset[Triple]]) -> Counter[Row]:
        store = ox.Store()
        for number, content in enumerate(contents):
            graph = ox.NamedNode(f"urn:block:{number}")
            for triple in content:
                s, p, o = (ox.NamedNode(term[1:-1]) for term in triple)
                store.add(ox.Quad(s, p, o, graph))
        solutions = store.query(self.question.sparql())
        assert isinstance(solutions, ox.QuerySolutions)
        names = [variable.value for variable in solutions.variables]
        return Counter(
            frozenset((name, _shown(str(value))) for name in names if (value := solution[name]) is not None)
            for solution in solutions
        )


def blur(row: Iterable[tuple[str, str]]) -> Row:
    """A row whose blank nodes are all called `_:`, for engines that name them differently."""
    return frozenset((name, "_:" if value.startswith("_:") else value) for name, value in row)


def duration_text(us: int) -> str:
    """A duration as a query writes it.

    >>> duration_text(10_000), duration_text(1_000_001)
    ('10', 'PT1.000001S')
    """
    if us % 1000 == 0:
        return str(us // 1000)
    return f"PT{us // 1_000_000}.{us % 1_000_000:06d}S"


def _lines(patterns: Iterable[Triple]) -> list[str]:
    return [f"{s} {p} {o} ." for s, p, o in patterns]


def _hidden(triple: Triple, scope: str | None = None) -> Triple:
    """The triple with IRIs in place of literals, and of blank nodes if a scope is given.

    An Oxigraph store knows numbers by value ("01" comes back as "1"); basic patterns compare terms. A blank
    node of a pattern stays what it is, a variable.
    """

    def hide(term: str) -> str:
        if term.startswith('"'):
            return f"<urn:hidden:{term.encode().hex()}>"
        if term.startswith("_:") and scope is not None:
            return f"<urn:hidden:{f'_:{scope}{term[2:]}'.encode().hex()}>"
        return term

    s, p, o = triple
    return hide(s), hide(p), hide(o)


def _shown(text: str) -> str:
    hidden = text.removeprefix("<urn:hidden:")
    return text if hidden == text else bytes.fromhex(hidden[:-1]).decode()
