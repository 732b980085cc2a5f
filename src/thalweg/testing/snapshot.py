"""The snapshot oracle: answers by recomputation, with pyoxigraph over what the windows hold at an instant.

It follows docs/semantics.md and uses nothing of the engine. It is slow, and meant to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyoxigraph as ox

from thalweg.testing.windows import Count, Now, Range, Report, Unbounded, Window, duration_text

__all__ = [
    "Block",
    "Count",
    "Event",
    "Now",
    "Oracle",
    "Question",
    "Range",
    "Report",
    "Row",
    "Triple",
    "Unbounded",
    "Window",
    "blur",
    "canonical",
    "duration_text",
    "hidden",
    "shown",
]

Triple = tuple[str, str, str]
"""Three terms in N-Triples form; in a pattern also `?name`, and `_:name` as a variable without a column."""
TRIPLE = ("subject", "predicate", "object")
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
    template: tuple[Triple, ...] | None = None
    """The triples that solutions are made into (CONSTRUCT); `_:name` is a new node in each of them."""
    output: str | None = None
    """The stream that is derived from the answer."""

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
        head = ""
        if self.operator or self.output:
            head = f"REGISTER {self.operator or 'STREAM'} <{self.output or 'http://ex/out'}> AS "
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
            f"GRAPH <urn:block:{number}> {{ {' '.join(_lines(tuple(map(hidden, block.patterns))))} }}"
            for number, block in enumerate(self.blocks)
        )
        where = f"{{ {' '.join(body)} }}"
        if self.template is None:
            return f"{self._select()} WHERE {where}"
        # Copies of a solution share its nodes, so that they are made one before.
        made = " ".join(_lines(map(hidden, self.template)))
        return f"CONSTRUCT {{ {made} }} WHERE {{ SELECT DISTINCT {self._shown_names()} WHERE {where} }}"

    @property
    def variables(self) -> list[str]:
        """Names of the variables that a solution shows."""
        terms = {term for block in self.blocks for pattern in block.patterns for term in pattern}
        return sorted(term[1:] for term in terms if term.startswith("?"))

    def _shown_names(self) -> str:
        return " ".join(f"?{name}" for name in self.variables) or "?none"

    @property
    def reports_empty(self) -> bool:
        """Whether a report with an empty answer is a row."""
        windows = (block.window for block in self.blocks)
        return any(isinstance(window, Range | Count) and window.report.empty for window in windows)

    def _select(self) -> str:
        if self.template is not None:
            return f"CONSTRUCT {{ {' '.join(_lines(self.template))} }}"
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
        if isinstance(window, Count):
            return self._counted(block, window, t)
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

    def _elements(self, block: Block) -> list[tuple[int, list[Triple]]]:
        """The elements of a window by count, with their times: by time, then by stream, then as they came."""
        assert isinstance(block.window, Count)
        read = [k for k, e in enumerate(self.events) if e.stream in block.streams and e.op == "insert"]
        read.sort(key=lambda k: (self.events[k].time, self.events[k].stream))
        graphs = [(self.events[k].time, self._scoped(k)) for k in read]
        if block.window.unit == "ELEMENTS":
            return graphs
        return [(time, [triple]) for time, graph in graphs for triple in graph]

    def _counted(self, block: Block, window: Count, t: int) -> frozenset[Triple]:
        """The triples of the last elements, without those that were deleted after they came."""
        elements = self._elements(block)
        deletes = {
            (event.time, triple)
            for index, event in enumerate(self.events)
            if event.stream in block.streams and event.op == "delete" and event.time <= window.moment(t)
            for triple in self._scoped(index)
        }
        return frozenset(
            triple
            for number in window.shown([time for time, _ in elements], t)
            for triple in elements[number][1]
            if not any(time > elements[number][0] for time, gone in deletes if gone == triple)
        )

    def _scoped(self, index: int) -> list[Triple]:
        """The triples of an event with terms that pyoxigraph keeps as they are."""
        scope = "" if self.stable else f"e{index}-"
        return [hidden(triple, scope=scope) for triple in self.events[index].triples]

    def turns(self, until: int | None = None) -> list[int]:
        """The instants at which anything can happen: arrivals, expiries and reports, in order."""
        instants: set[int] = set()
        for block in self.question.blocks:
            times = [event.time for event in self.events if event.stream in block.streams]
            if times:
                assert not isinstance(block.window, Now)
                instants.update(block.window.turns(times, until))
        return sorted(instants)

    def instants(self) -> list[int]:
        """The turns and their neighbours, one microsecond before and after."""
        return sorted({t + around for t in self.turns() for around in (-1, 0, 1)})

    def stream(self, until: int | None = None) -> dict[int, Counter[tuple[str, Row]]]:
        """What the R2S operator gives at each instant: rows with their sign.

        RSTREAM reports where a window is reported anyway, and wherever the answer changes. A `0` stands for an
        empty answer, once there has been one that was not.
        """
        result: dict[int, Counter[tuple[str, Row]]] = {}
        before: Counter[Row] = Counter()
        begun = False
        ticks = self._ticks()
        for t in self.turns(until):
            now = self.answer(t)
            entered, left = now - before, before - now
            rows: Counter[tuple[str, Row]] = Counter()
            if self.question.operator == "RSTREAM":
                begun = begun or bool(now)
                if entered or left or t in ticks or self._reports(t):
                    rows.update({("+", row): n for row, n in now.items()})
                    if not now and begun and self.question.reports_empty:
                        rows["0", frozenset()] += 1
            else:
                if self.question.operator != "DSTREAM":
                    rows.update({("+", row): n for row, n in entered.items()})
                if self.question.operator != "ISTREAM":
                    rows.update({("-", row): n for row, n in left.items()})
            if rows:
                result[t] = rows
            before = now
        return result

    def derived(self, until: int) -> list[Event]:
        """The events before `until` of the stream that is derived from the answer of a CONSTRUCT.

        An operator gives one event at each instant with rows, which inserts them. Without one, an instant gives an
        event that inserts what came and one that deletes what went. [NOW] gives one for each event with an answer.
        """
        question = self.question
        assert question.output is not None
        made: dict[tuple[int, str, str | None], list[Triple]] = {}
        if isinstance(question.blocks[0].window, Now):
            rows = [((at, "insert", graph), row) for at, graph, row in self.per_event()]
        elif question.operator:
            changes = self.stream(until).items()
            rows = [((t, "insert", None), row) for t, told in changes for sign, row in told if sign != "0"]
        else:
            ops = {"+": "insert", "-": "delete"}
            changes = self.stream(until).items()
            rows = [((t, ops[sign], None), row) for t, told in changes for sign, row in told]
        for key, row in rows:
            terms = dict(row)
            made.setdefault(key, []).append((terms[TRIPLE[0]], terms[TRIPLE[1]], terms[TRIPLE[2]]))
        return [
            Event(question.output, at, tuple(sorted(triples)), graph, op)
            for (at, op, graph), triples in sorted(made.items(), key=lambda item: item[0][0])
            if at < until
        ]

    def _ticks(self) -> set[int]:
        """The instants at which windows by count are reported."""
        ticks: set[int] = set()
        for block in self.question.blocks:
            if isinstance(block.window, Count):
                ticks |= block.window.closes([time for time, _ in self._elements(block)])
        return ticks

    def _reports(self, t: int) -> bool:
        windows = (block.window for block in self.question.blocks)
        return any(not isinstance(window, Now) and window.reports(t) for window in windows)

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
        if self.question.template is not None:
            return self._graph(store, self.question.template)
        return _solutions(store, self.question.sparql())

    def _graph(self, store: ox.Store, template: tuple[Triple, ...]) -> Counter[Row]:
        """The graph of a CONSTRUCT, as pyoxigraph makes it. Its new nodes are called by label and solution, so that
        those of several instants can be compared.
        """
        made = store.query(self.question.sparql())
        assert isinstance(made, ox.QueryTriples)
        expected = {tuple(shown(str(term)) for term in (t.subject, t.predicate, t.object)) for t in made}
        everything = replace(
            self.question, template=None, distinct=True, select=tuple(self.question.variables)
        )
        graph: set[tuple[str, ...]] = set()
        for solution in _solutions(store, everything.sparql()):
            terms = {f"?{name}": value for name, value in solution}
            scope = str(sorted(terms.items())).encode().hex()
            for triple in template:
                if all(term in terms for term in triple if term.startswith("?")):
                    graph.add(
                        tuple(terms.get(t, f"{t}-{scope}" if t.startswith("_:") else t) for t in triple)
                    )
        graph, expected = set(filter(_sound, graph)), set(filter(_sound, expected))
        assert canonical(graph) == canonical(expected)
        return Counter(frozenset(zip(TRIPLE, triple, strict=True)) for triple in graph)


def canonical(graph: Iterable[Sequence[str]]) -> frozenset[str]:
    """Triples or quads with blank nodes that have the same names in equal graphs.

    >>> canonical([("_:a", "<x:p>", "_:b")]) == canonical([("_:c", "<x:p>", "_:d")])
    True
    """
    lines = "".join(f"{' '.join(terms)} .\n" for terms in graph)
    dataset = ox.Dataset(ox.parse(lines, format=ox.RdfFormat.N_QUADS))
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return frozenset(map(str, dataset))


def _solutions(store: ox.Store, sparql: str) -> Counter[Row]:
    solutions = store.query(sparql)
    assert isinstance(solutions, ox.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    return Counter(
        frozenset((name, shown(str(value))) for name in names if (value := solution[name]) is not None)
        for solution in solutions
    )


def _sound(triple: Sequence[str]) -> bool:
    """Whether a graph can hold a triple: pyoxigraph cannot see it, because literals are hidden from it."""
    return not triple[0].startswith('"') and triple[1].startswith("<")


def blur(row: Iterable[tuple[str, str]]) -> Row:
    """A row whose blank nodes are all called `_:`, for engines that name them differently."""
    return frozenset((name, "_:" if value.startswith("_:") else value) for name, value in row)


def _lines(patterns: Iterable[Triple]) -> list[str]:
    return [f"{s} {p} {o} ." for s, p, o in patterns]


def hidden(triple: Triple, scope: str | None = None) -> Triple:
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


def shown(text: str) -> str:
    """The term that an IRI in its place hides, or the text itself."""
    rest = text.removeprefix("<urn:hidden:")
    return text if rest == text else bytes.fromhex(rest[:-1]).decode()
