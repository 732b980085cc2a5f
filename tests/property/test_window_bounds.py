"""The bounds of a window as columns: pyoxigraph answers with the bounds in their places, at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyoxigraph as ox
import pytest
from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import show_instant
from thalweg.testing.algebra import algebra_streams
from thalweg.testing.algebra_groups import LINK, NEXT, NUMBER
from thalweg.testing.answers import answer_of
from thalweg.testing.snapshot import Block, Event, Oracle, Range, Row, Triple
from thalweg.testing.strategies import MS, STREAMS, reports

START, END = "<urn:thalweg:windowStart>()", "<urn:thalweg:windowEnd>()"
DATE_TIME = "<http://www.w3.org/2001/XMLSchema#dateTime>"
SHAPES = (
    f"SELECT ?x ({START} AS ?from) ({END} AS ?to) (COUNT(*) AS ?n) %s WHERE {{ ?x {LINK} ?y }} GROUP BY ?x",
    f"SELECT ?from ?to (COUNT(?x) AS ?n) (MAX(?to) AS ?same) %s WHERE {{ ?x {LINK} ?y }} "
    f"GROUP BY ({START} AS ?from) ({END} AS ?to)",
    f"SELECT ?x (MAX({END}) AS ?m) %s WHERE {{ ?x {LINK} ?y }} GROUP BY ?x ({END}) HAVING(COUNT(*) > 1)",
    f"SELECT ?x ?y ?to %s WHERE {{ ?x {LINK} ?y BIND({END} AS ?to) FILTER(MINUTES({START}) < 60) }}",
    f"SELECT ?x ?z ?to %s WHERE {{ ?x {LINK} ?y OPTIONAL {{ ?y {NEXT} ?z BIND({END} AS ?to) }} }}",
    f"SELECT DISTINCT ?x ?to %s WHERE {{ {{ ?x {LINK} ?y }} UNION {{ ?x {NUMBER} ?v BIND({END} AS ?to) }} }}",
    f"SELECT ?x ({END} AS ?to) %s WHERE {{ ?x {LINK} ?y "
    f"FILTER NOT EXISTS {{ ?y {NEXT} ?z FILTER({START} < {END}) }} }}",
    f"SELECT ?x ?n ?to %s WHERE {{ ?x {NUMBER} ?v {{ SELECT ?x (COUNT(*) AS ?n) ({END} AS ?to) WHERE "
    f"{{ ?x {LINK} ?y }} GROUP BY ?x }} }}",
    f"SELECT ({END} AS ?to) (COUNT(*) AS ?n) %s WHERE {{ ?x {LINK} ?y }}",
    f"SELECT ?x ?to %s WHERE {{ ?x {LINK} ?y BIND({END} AS ?to) }} ORDER BY DESC(?to) ?x LIMIT 2",
)


@dataclass(frozen=True)
class Asked:
    """A query of the bounds of its one window."""

    shape: str
    window: Range
    operator: str | None = None
    template: None = None
    output: None = None
    reports_empty: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (Block(tuple(STREAMS), self.window, ()),)

    @property
    def streams(self) -> frozenset[str]:
        return frozenset(STREAMS)

    def text(self) -> str:
        head = f"REGISTER {self.operator} <http://ex/out> AS " if self.operator else ""
        return head + self.shape % " ".join(f"FROM STREAM <{stream}>{self.window}" for stream in STREAMS)


class BoundsOracle(Oracle):
    """Asks pyoxigraph over the content of an instant, with the bounds of then as literals."""

    question: Asked  # type: ignore[assignment]

    def answer(self, t: int) -> Counter[Row]:
        first = min(event.time for event in self.events)
        if t < min(first, self.opened):
            return Counter()
        end = self.question.window.moment(t)
        sparql = self.question.shape % ""
        for call, bound in ((START, end - self.question.window.width), (END, end)):
            sparql = sparql.replace(call, f'"{show_instant(bound)}"^^{DATE_TIME}')
        return asked(sparql, self._content(self.question.blocks[0], t))

    opened = 2**62

    def _scoped(self, index: int) -> list[Triple]:
        return list(self.events[index].triples)


def asked(sparql: str, content: frozenset[Triple]) -> Counter[Row]:
    """The answer of pyoxigraph."""
    store = ox.Store()
    store.load("".join(f"{s} {p} {o} .\n" for s, p, o in content).encode(), format=ox.RdfFormat.N_TRIPLES)
    solutions = answer_of(store.query(sparql))  # type: ignore[arg-type]
    return Counter({frozenset((name, str(term)) for name, term in row): n for row, n in solutions.items()})


def moving_windows() -> st.SearchStrategy[Range]:
    """Windows by time that move in steps, of their own or of their reports."""
    widths = st.sampled_from([1, 4, 8, 20]).map(lambda ms: ms * MS)
    steps = st.sampled_from([1, 3, 8, 11]).map(lambda ms: ms * MS)
    origins = st.sampled_from([0, 0, 3 * MS, -7 * MS])
    bounds = st.sampled_from(["", "CLOSED-OPEN", "OPEN-CLOSED"])
    return st.builds(Range, widths, st.one_of(steps, st.none()), origins, bounds, reports(closes=False)).map(
        lambda window: window if window.step or window.report.period else Range(window.width, 3 * MS)
    )


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
def test_bounds_are_those_of_the_window_at_every_instant(shape: str, data: st.DataObject) -> None:
    check(data, Asked(shape, data.draw(moving_windows())))


@given(data=st.data())
def test_operators_report_rows_with_their_bounds(data: st.DataObject) -> None:
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM", "RSTREAM"]))
    check(data, Asked(data.draw(st.sampled_from(SHAPES[:8])), data.draw(moving_windows()), operator))


def check(data: st.DataObject, question: Asked) -> None:
    events: Sequence[Event] = data.draw(algebra_streams(dense=True, max_events=10))
    given_ = Feed([question])  # type: ignore[list-item]

    def between(rest: list[Event]) -> None:
        if data.draw(st.integers(0, 5)) == 0:
            given_.poll()
            given_.restart()

    feed(given_, data.draw(arrivals(events)), data.draw, between)
    [emitted] = given_.emitted
    oracle = BoundsOracle(question, events)  # type: ignore[arg-type]
    oracle.opened = emitted.opened
    emitted.check(oracle)
    check_present(given_, oracle)


def check_present(given_: Feed, oracle: BoundsOracle) -> None:
    """The present answer has the bounds of the present instant."""
    [emitted] = given_.emitted
    at = min(given_.watermarks[stream] for stream in emitted.query.query.streams)
    rows = Counter(frozenset(row.bindings.items()) for row in emitted.query.answer())
    assert rows == oracle.answer(at)


def test_a_leap_over_more_moves_than_rows_over_nothing_can_have_is_refused() -> None:
    session = tw.Session()
    query = session.register(
        f"SELECT ({END} AS ?to) (COUNT(*) AS ?n) FROM STREAM <http://ex/s> [RANGE 1s STEP 1s] WHERE {{ ?x {LINK} ?y }}"
    )
    session.advance("1970-01-01T00:00:01.5Z")
    session.advance("1970-01-01T00:00:03Z")
    assert [(row.op, row.value("n")) for row in query.poll()] == [
        ("+", 0),
        ("-", 0),
        ("+", 0),
        ("-", 0),
        ("+", 0),
    ]
    with pytest.raises(tw.DataError, match="the bounds of a window change"):
        session.advance("2026-01-01T00:00:00Z")


def test_a_leap_over_more_moves_than_anyone_can_read_is_refused_and_others_go_on() -> None:
    session = tw.Session()
    asked_ = (
        f"SELECT ?x ({END} AS ?to) FROM STREAM <http://ex/s> [RANGE 1h STEP 1ms] WHERE {{ ?x {LINK} ?y }}"
    )
    slow, other = session.register(asked_), session.register(asked_.replace("1ms", "1m"))
    session.push("http://ex/s", at=0, graph=f"<http://ex/a> {LINK} <http://ex/b> .")
    with pytest.raises(tw.DataError, match=r"the bounds of a window change 3,6.*times"):
        session.advance("1970-01-01T05:00:00Z")
    session.unregister(slow)
    session.advance("1970-01-01T05:00:01Z")
    assert [row.op for row in other.poll()] == ["+", *["-", "+"] * 59, "-"]
