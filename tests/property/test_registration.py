"""Queries that come and go in mid-stream: each sees what arrives while it is there, and nothing else.

The law of docs/semantics.md: the answer of a query is that over the events that arrived after its registration. What
came before is not in its windows and was not counted by them, and a delete of it deletes nothing; the watermarks of
its streams are those that they already had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harness import Emitted, Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg import engine
from thalweg.testing.snapshot import Event, Oracle
from thalweg.testing.strategies import any_questions, streams

OPTIONS: dict[str, dict[str, Any]] = {
    "incremental": {},
    "re-evaluating": {"strategy": "reevaluate"},
    "three threads": {"threads": 3},
}


@pytest.fixture(autouse=True, scope="module")
def always_threads() -> Iterator[None]:
    """Every batch is worth threads, where there are some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_MANY_ROWS", 0)
        yield


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@given(data=st.data())
def test_each_query_answers_over_what_arrives_while_it_is_registered(
    options: dict[str, Any], data: st.DataObject
) -> None:
    events = data.draw(streams(max_events=12, deletes=data.draw(st.booleans())))
    some = any_questions(events, max_patterns=3, graphs=True)
    kept = [data.draw(some)]  # the same question again is another query
    run = Feed(data.draw(st.lists(some, max_size=2)), **options)
    arrived = data.draw(arrivals(events))
    begun = {id(emitted): 0 for emitted in run.emitted}
    gone: list[tuple[Emitted, int]] = []

    def between(rest: list[Event]) -> None:
        place = len(arrived) - len(rest)
        while run.emitted and data.draw(st.integers(0, 3)) == 0:
            emitted = data.draw(st.sampled_from(run.emitted))
            run.unregister(emitted)
            gone.append((emitted, place))
        while len(run.emitted) < 4 and data.draw(st.integers(0, 2)) == 0:
            kept.append(data.draw(st.one_of(some, st.sampled_from(kept))))
            begun[id(run.register(kept[-1]))] = place
        if "strategy" not in options and data.draw(st.integers(0, 4)) == 0:
            run.restart()

    feed(run, arrived, data.draw, between=between)
    for emitted, end in [*gone, *((emitted, len(arrived)) for emitted in run.emitted)]:
        emitted.check(Oracle(emitted.question, arrived[begun[id(emitted)] : end]))
    for emitted, _ in gone:
        assert emitted.query.poll() == [], "a query that has left is silent"


ONE = "SELECT ?y FROM STREAM <http://ex/s> [RANGE 10] WHERE {{ ?x <http://ex/{}> ?y }}"


def push(session: tw.Session, at: int, *triples: str) -> None:
    lines = (f"<http://ex/a> <http://ex/{p}> <http://ex/{o}> .\n" for p, o in triples)
    session.push("http://ex/s", at=at, graph="".join(lines))


def told(query: Any) -> list[tuple[int, str, str]]:
    return [(row.at // 1000, row.op, row["y"]) for row in query.poll()]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_query_may_come_when_nothing_that_was_wanted_has_come_yet(options: dict[str, Any]) -> None:
    session = tw.Session(**options)
    first = session.register(ONE.format("p"))
    push(session, 1, "qx")
    session.advance(2)
    second = session.register(ONE.format("q"))
    push(session, 3, "py", "qz")
    assert told(first) == [(3, "+", "<http://ex/y>")]
    assert told(second) == [(3, "+", "<http://ex/z>")], "what came before it is not in its window"


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_what_a_query_had_found_does_not_leave_after_it(options: dict[str, Any]) -> None:
    session = tw.Session(**options)
    first, second = session.register(ONE.format("p")), session.register(ONE.format("q"))
    push(session, 1, "px", "qx")
    first.poll()
    session.unregister(first)
    push(session, 2, "py", "qy")
    session.advance(30)
    assert told(first) == []
    assert told(second) == [
        (1, "+", "<http://ex/x>"),
        (2, "+", "<http://ex/y>"),
        (11, "-", "<http://ex/x>"),
        (12, "-", "<http://ex/y>"),
    ]
