"""Queries that begin with the content of their streams join plans of equal ones, and have the same rows as alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.serving import ALL, Clock, S, Served, serving, triple
from tests.server.test_durability import crashed
from thalweg.server.registry import Plan, Registered
from thalweg.server.state import Settings, State

_WINDOWS = ["", "[RANGE 4s]", "[RANGE 4s STEP 2s]", "[ELEMENTS 3]", "[TRIPLES 2]"]
_BODIES = [
    "SELECT ?a ?c FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> ?b . ?b <http://ex/p> ?c }}",
    "SELECT ?a (COUNT(*) AS ?n) FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> ?b }} GROUP BY ?a",
    "SELECT ?a ?c FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> ?b OPTIONAL {{ ?b <http://ex/p> ?c }} }}",
    "SELECT DISTINCT ?b FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p>+ ?b }} ORDER BY ?b LIMIT 2",
    "CONSTRUCT {{ ?b <http://ex/q> ?a }} FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> ?b }}",
    "ASK FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> <http://ex/1> }}",
    "SELECT ?a FROM STREAM <http://ex/s> {} FROM <http://ex/g> WHERE {{ ?a <http://ex/p> ?b . ?b <http://ex/t> ?c }}",
]
_KEEP = ["forever", "2s", "10s"]
_step = st.one_of(
    st.tuples(st.just("events"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("events"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("register"), st.integers(0, 1)),
    st.tuples(st.just("advance"), st.integers(0, 3)),
    st.tuples(st.just("load"), st.integers(0, 3)),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("retain"), st.sampled_from(_KEEP)),
    st.tuples(st.just("save")),
)


class Alone(State):
    """A state in which each query that comes later has a plan of its own."""

    def _is_joined(self, plan: Plan) -> bool:
        return False


def net(registered: Registered) -> Counter[Any]:
    """What the rows of a query add at each instant: within one, the order and what cancels out mean nothing."""
    found: Counter[Any] = Counter()
    taken = registered.after(0, "jsonl", 10**6)
    assert taken.gap is None
    assert [number for number, _, _ in taken.rows] == list(range(1, registered.last + 1))
    for number, _, text in taken.rows:
        row = json.loads(text)
        assert row["id"] == number
        key = row["at"], json.dumps(row["bindings"], sort_keys=True)
        found[key] += 1 if row["op"] == "+" else -1
        if not found[key]:
            del found[key]
    return found


class Both:
    """The same operations on a state that shares plans and on one that does not."""

    def __init__(self, keep: str) -> None:
        clock = Clock()
        self.states: list[State] = [State(Settings(), clock), Alone(Settings(), clock)]
        self.clock = clock
        self.retain(keep)
        self.do({"kind": "load", "graph": "http://ex/g", "format": "turtle", "replace": True}, _typed(0))
        self.at = 10_000
        self.registered = 0

    def do(self, operation: dict[str, Any], body: str = "") -> None:
        for state in self.states:
            state.apply(dict(operation), body.encode())
            state.publish(state.results())

    def retain(self, keep: str) -> None:
        self.do({"kind": "stream", "name": S, "retention": keep, "framing": {}})

    def step(self, kind: str, *given: Any, queries: list[str]) -> None:
        if kind == "events":
            later, s, o, delete = given
            self.at += 1000 * later
            event = {"at": self.at, "graph": triple(s, o), "op": "delete" if delete and s < 2 else "insert"}
            operation = {"kind": "events", "stream": S, "format": "jsonl", "at": 0}
            self.do(operation, json.dumps(event))
        elif kind == "register":
            self.registered += 1
            text = queries[given[0]].replace("?a", f"?x{self.registered}")
            operation = {"kind": "register", "id": str(self.registered), "now": 0, "lease_ms": 1}
            self.do({**operation, "text": text, "start": "content"})
        elif kind == "advance":
            self.at += 1000 * given[0]
            self.do({"kind": "advance", "stream": S, "at": 1000 * self.at})
        elif kind == "load":
            operation = {"kind": "load", "graph": "http://ex/g", "format": "turtle", "replace": True}
            self.do(operation, _typed(given[0]))
        elif kind == "drop":
            if str(given[0]) in self.states[0].queries:
                self.do({"kind": "drop", "id": str(given[0]), "reason": "dropped"})
        elif kind == "retain":
            self.retain(*given)
        else:
            self.states = [type(one)(Settings(), self.clock, one.save()) for one in self.states]

    def check(self) -> None:
        shared, alone = self.states
        assert shared.queries.keys() == alone.queries.keys()
        for id, registered in shared.queries.items():
            assert net(registered) == net(alone.queries[id])


def _typed(o: int) -> str:
    return f"<http://ex/{o}> <http://ex/t> <http://ex/T> . <http://ex/2> <http://ex/t> <http://ex/T> ."


@settings(max_examples=25, deadline=None)
@given(
    bodies=st.lists(st.sampled_from(_BODIES), min_size=2, max_size=2),
    window=st.sampled_from(_WINDOWS),
    keep=st.sampled_from(_KEEP),
    steps=st.lists(_step, min_size=3, max_size=14),
)
def test_queries_that_join_a_plan_have_the_rows_of_plans_of_their_own(
    bodies: list[str], window: str, keep: str, steps: list[tuple[Any, ...]]
) -> None:
    both = Both(keep)
    queries = [body.format(window) for body in bodies]
    both.step("register", 0, queries=queries)
    for step in [*steps, ("register", 0), ("events", 1, 1, 2, False), ("advance", 3)]:
        both.step(*step, queries=queries)
        both.check()


@pytest.mark.parametrize(
    ("keep", "window", "between", "plans"),
    [
        ("forever", "", (), 1),
        ("forever", "[ELEMENTS 2]", (), 1),
        ("10s", "[RANGE 4s]", (), 1),
        ("10s", "[RANGE 20s]", (), 2),  # the plan has more than is retained
        ("10s", "", (), 2),
        ("forever", "[RANGE 4s]", ("10s", "forever"), 2),  # something may be missing from what is retained
    ],
)
def test_a_later_query_joins_a_plan_where_the_streams_retain_enough(
    keep: str, window: str, between: tuple[str, ...], plans: int
) -> None:
    both, queries = Both(keep), [_BODIES[0].format(window)]
    both.step("register", 0, queries=queries)
    both.step("events", 1, 1, 2, False, queries=queries)
    for one in between:
        both.retain(one)
    both.step("register", 0, queries=queries)
    assert len(both.states[0].plans) == plans
    both.step("events", 1, 2, 3, False, queries=queries)
    both.check()


def test_a_query_that_has_joined_a_plan_is_resumed_after_a_crash(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as served:
        client = served.client
        client.stream(retention="forever")
        first = client.register(ALL, start="content").json["id"]
        for n in range(5):
            client.post(triple(n, "o"), at=1000 + n)
        page = client.register(ALL.replace("?a", "?x"), start="content").json
        assert (page["shared_with"], page["last"]) == (1, 5)
        second = page["id"]
        begin = client.results(second)
        assert {row["bindings"]["x"] for row in begin} == {f"<http://ex/{n}>" for n in range(5)}
        assert {(row["at"], row["op"]) for row in begin} == {("1970-01-01T00:00:01.004Z", "+")}
        client.post(triple("a", "o"), at=2000)
        rows = client.results(second)
        assert [row["id"] for row in rows] == list(range(1, 7))
        assert client.results(second, after=3) == rows[3:]
        assert client.results(second, after=5) == rows[5:]
        copies = [crashed(served, tmp_path / "b")]
        served.service.look(lambda state: served.service._snapshot()).result()
        client.post(triple("b", "o"), at=3000)
        more = client.results(second)
        copies.append(crashed(served, tmp_path / "c"))
    for copy, expected in zip(copies, (rows, more), strict=True):
        with serving(copy) as again:
            assert again.client.results(second) == expected
            assert len(again.client.results(first)) == len(expected)
            again.client.post(triple("z", "o"), at=4000)
            assert again.client.results(second, after=len(expected))[0]["bindings"]["x"] == "<http://ex/z>"


def test_a_reader_of_a_joined_query_that_is_behind_gets_a_gap(tmp_path: Path) -> None:
    with serving(tmp_path, settings={"buffer": 3}) as served:
        _check_gap(served)


def _check_gap(served: Served) -> None:
    client = served.client
    client.stream(retention="forever")
    client.register(ALL, start="content")
    for n in range(5):
        client.post(triple(n, "o"), at=1000)
    id = client.register(ALL, start="content").json["id"]
    gap, *rows = client.results(id)
    assert (gap["first"], gap["last"]) == (1, 2)
    assert [row["id"] for row in rows] == [3, 4, 5]
    for n in range(5, 10):
        client.post(triple(n, "o"), at=1000)
    gap, *rows = client.results(id, after=5)
    assert (gap["first"], gap["last"]) == (6, 7)
    assert [row["bindings"]["a"] for row in rows] == [f"<http://ex/{n}>" for n in (7, 8, 9)]
