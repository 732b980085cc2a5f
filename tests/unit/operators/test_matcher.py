"""The matcher can be interrupted anywhere, grows as it must, and does the work that it should."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.algebra.nodes import with_leaves
from thalweg.algebra.terms import Const
from thalweg.kernels.layout import (
    AT_RANGE,
    INSERTED,
    LEVEL,
    NUMBER,
    OUT_BINDINGS,
    OUT_FROM,
    OUT_TO,
    PROBES,
    REPEATED,
    WALKED,
)
from thalweg.kernels.store import HEAD, TAIL
from thalweg.lang import parse
from thalweg.operators import windows
from thalweg.operators.matcher import Matcher
from thalweg.plan.program import compile_program
from thalweg.rdf.events import Rows

STREAM = "http://ex/s"


def interner():
    known: dict[bytes, int] = {}
    return lambda text: known.setdefault(text, len(known) + 1)


def program(where: str, window: str = "[RANGE 50]"):
    query = parse(f"PREFIX : <http://ex/> SELECT * FROM STREAM <{STREAM}> {window} WHERE {{ {where} }}")
    intern = interner()
    for name in "abcd":
        intern(f"<http://ex/{name}>".encode())
    return compile_program([STREAM], [query], intern)


def columns(rows: list[tuple[int, int, int]], step: int = 1000):
    count = len(rows)
    s, p, o = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    zero = np.zeros(count, np.int64)
    return zero, Rows(np.arange(count) * step, np.arange(count), zero, s, p, o, zero + 1)


def found(matcher: Matcher, rows: list[tuple[int, int, int]]) -> Counter[tuple[int, ...]]:
    out: Counter[tuple[int, ...]] = Counter()
    for part in matcher.step(*columns(rows)):
        out.update(map(tuple, part.cells.tolist()))
    return out


triples = st.lists(st.tuples(st.integers(10, 16), st.integers(1, 4), st.integers(10, 16)), max_size=120)
SHAPES = ["?x :a ?y", "?x :a ?y . ?y :b ?z . ?z :c ?x", "?x :a ?y . ?z :b ?w", "?x ?p ?y . ?y ?p ?x"]


@pytest.mark.parametrize("where", SHAPES)
@given(rows=triples)
def test_a_matcher_that_is_interrupted_at_every_solution_finds_the_same(where, rows):
    plan = program(where)
    assert found(Matcher(plan, room=1), rows) == found(Matcher(plan), rows)


def test_each_solution_is_found_once_with_the_lifetime_of_its_rows():
    matcher = Matcher(program("?x :a ?y . ?y :b ?z"))
    ((row, count),) = found(matcher, [(10, 1, 11), (10, 3, 11), (11, 2, 12)]).items()
    assert count == 1
    assert row == (0, 2, 1, 2_000, 50_000, 0, 10, 11, 12)


def test_a_triple_that_comes_again_lives_on_from_where_it_would_have_ended():
    matcher = Matcher(program("?x :a ?y"))
    lives = sorted(row[OUT_FROM : OUT_TO + 1] for row in found(matcher, [(10, 1, 11)] * 3))
    assert lives == [(0, 50_000), (50_000, 51_000), (51_000, 52_000)]


def test_a_triple_of_a_dynamic_graph_that_comes_again_changes_nothing():
    matcher = Matcher(program("?x :a ?y", window=""))
    assert sum(found(matcher, [(10, 1, 11)] * 3).values()) == 1
    assert matcher.counters[REPEATED] == 2


def test_rings_and_indexes_follow_the_window_not_the_stream():
    matcher = Matcher(program("?x :a ?y . ?y :b ?z"))
    rows = [(100 + k, 1 + k % 2, 200 + k) for k in range(200_000)]
    found(matcher, rows)
    assert matcher.stores.live <= 51
    assert matcher.stores.nbytes < 64 * 1024


def test_a_probe_walks_only_rows_with_its_key():
    """A hub of other subjects does not show up in the work of a probe by subject."""
    matcher = Matcher(program("?x :a ?y . ?x :b ?z", window=""))
    hub = [(10, 2, 1000 + k) for k in range(1000)]
    found(matcher, hub)
    before = matcher.counters.copy()
    found(matcher, [(11, 1, 5)])
    work = matcher.counters - before
    assert (work[INSERTED], work[PROBES], work[WALKED]) == (1, 1, 0)


def test_solutions_show_the_projected_variables_only():
    query = parse(f"SELECT ?z FROM STREAM <{STREAM}> WHERE {{ ?x <http://ex/a> ?y . ?y <http://ex/a> ?z }}")
    matcher = Matcher(compile_program([STREAM], [query], interner()))
    ((row, _),) = found(matcher, [(10, 1, 11), (11, 1, 12)]).items()
    assert row[OUT_BINDINGS:] == (12,)


def test_what_a_triple_costs_does_not_grow_with_queries_that_it_does_not_concern():
    """A thousand queries of one shape: a new person is looked at once, not once for each."""
    intern = interner()
    for name in "abcd":
        intern(f"<http://ex/{name}>".encode())
    query = parse(f"PREFIX : <http://ex/> SELECT * FROM STREAM <{STREAM}> WHERE {{ ?x :a ?y . ?y :b :to }}")
    first, second = query.patterns
    works = {}
    for count in (100, 1000):
        queries = [
            replace(
                query, root=with_leaves(query.root, (first, replace(second, o=Const.iri(f"http://ex/to{k}"))))
            )
            for k in range(count)
        ]
        matcher = Matcher(compile_program([STREAM], queries, intern))
        found(matcher, [(11, 2, intern(b"<http://ex/to7>")), (12, 2, intern(b"<http://ex/to999999>"))])
        before = matcher.counters.copy()
        ((row, _),) = found(matcher, [(10, 1, 11), (10, 1, 12)]).items()
        assert (row[0], row[OUT_BINDINGS:]) == (7, (10, 11))
        works[count] = (matcher.counters - before)[[PROBES, WALKED]].tolist()
    assert works[100] == works[1000]


changes = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, -1]),
        st.integers(10, 14),
        st.integers(1, 3),
        st.integers(10, 14),
        st.integers(0, 4),
    ),
    max_size=150,
)


@pytest.mark.parametrize("window", ["", "[RANGE 20]", "[NOW]"])
@given(rows=changes)
def test_no_row_number_is_used_that_is_not_in_the_ring(window, rows):
    """Rows have no check of their number when they are read: where the search stands must keep to the ring.

    Rings are full after a few rows here, so that stores grow, and rows are planted anew, in the middle of a batch.
    """
    plan = program("?x :a ?y . ?y :b ?z . ?z :c ?x", window)
    op, s, p, o, wait = (np.array([row[k] for row in rows], np.int64) for k in range(5))
    zero = np.zeros(len(rows), np.int64)
    batch = zero, Rows(np.cumsum(wait) * 1000, np.arange(len(rows)), zero, s, p, o, op)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_FEW_ROWS", 2)
        patch.setattr(windows, "_table_size", lambda keys: 5 * keys // 2 + 3)
        matcher = Matcher(plan, room=1)
        grow = matcher.stores.grow

        def watch(store: int, status: int, now: int) -> None:
            assert matcher._cursor[AT_RANGE] == matcher._cursor[LEVEL] == -1  # no search under way
            grow(store, status, now)

        patch.setattr(matcher.stores, "grow", watch)
        out: Counter[tuple[int, ...]] = Counter()
        for part in matcher.step(*batch):
            out.update(map(tuple, part.cells.tolist()))
            head, tail = matcher.stores.descriptors[0, [HEAD, TAIL]].tolist()
            if matcher._cursor[AT_RANGE] >= 0:
                assert tail <= matcher._cursor[NUMBER] < head
            # A candidate below TAIL is the end of its chain and is not read.
            assert all(matcher._stack[: matcher._cursor[LEVEL] + 1, 0] < head)
    expected: Counter[tuple[int, ...]] = Counter()
    for part in Matcher(plan).step(*batch):
        expected.update(map(tuple, part.cells.tolist()))
    assert out == expected
