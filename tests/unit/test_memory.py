"""Memory after a burst: every part of a session follows what is alive, whatever the windows and the answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from thalweg import Session
from thalweg.answers import ContinuousQuery
from thalweg.rdf.events import EventBatch, Rows

pytestmark = pytest.mark.slow
STREAM = "urn:s"
BURST = 24_000
FEW = 320 * 1024  # bytes of a part of an idle session: small tables, or the buffer for solutions
FEW_TERMS = 5 * 2**19  # a MiB of terms is not worth a look: as much room again, and its slots
JOIN = "?x <urn:p> ?y . ?x <urn:q> ?z"
PRODUCT = "?x <urn:p> ?y . ?u <urn:r> ?z"
WINDOWS = (
    "[RANGE 10s]",
    "[RANGE 10s STEP 2s]",
    "[RANGE 5s STEP 5s]",
    "[NOW]",
    "[ELEMENTS 50 STEP 7]",
    "[TRIPLES 50]",
)
VIEWS = ("SELECT DISTINCT *", "ISTREAM", "DSTREAM", "CONSTRUCT { ?x <urn:made> ?z }")
CASES = [
    *((window, "SELECT *") for window in WINDOWS),
    *(("[RANGE 10s]", view) for view in VIEWS),
    ("[RANGE 10s STEP 2s]", "RSTREAM"),
    ("[ELEMENTS 50 STEP 7]", "RSTREAM"),
]


def in_soak(*values: str) -> list[Any]:
    """Parameters that `make test` leaves out."""
    return [pytest.param(value, marks=pytest.mark.soak) for value in values]


def text(window: str, view: str = "SELECT *", body: str = JOIN) -> str:
    if view.endswith("STREAM"):
        return f"REGISTER {view} <urn:out> AS SELECT * FROM STREAM <{STREAM}> {window} WHERE {{ {body} }}"
    return f"{view} FROM STREAM <{STREAM}> {window} WHERE {{ {body} }}"


def burst(
    session: Session, queries: list[ContinuousQuery], *, op: int = 1, begin: int = 0, batch: int = 3000
) -> None:
    """Single triples within two seconds; pairs of them join, and a few are for the other part of a product."""
    intern = session.arena.intern
    p, q, r = (intern(f"<urn:{name}>".encode()) for name in "pqr")
    for start in range(0, BURST, batch):
        k = np.arange(start, start + batch)
        s = np.array([intern(b"<http://example.org/resource/%d>" % (n // 2)) for n in k.tolist()])
        o = np.array([intern(b'"a value of number %d%s"' % (n, b"." * 250)) for n in k.tolist()])
        predicate = np.where(k % 2000 == 1, r, np.where(k % 2 == 0, p, q))
        time = begin + k * 2_000_000 // BURST
        rows = Rows(time, k, 0 * k, s, predicate, o, np.full(batch, op))
        session.push_events(EventBatch(STREAM, rows, int(time[-1])))
        for query in queries:
            query.poll()


def sizes(session: Session) -> dict[str, int]:
    """The parts of a session that are larger than those of an idle one."""
    limits = {"windows": FEW, "answers": FEW, "output": FEW, "terms": FEW_TERMS}
    memory = session.memory()
    return {part: memory[part] for part, limit in limits.items() if memory[part] > limit}


def slow_events(session: Session, queries: list[ContinuousQuery], begin: int) -> None:
    for k in range(30):
        graph = f"<urn:slow{k}> <urn:p> <urn:a> . <urn:slow{k}> <urn:q> <urn:b> ."
        session.push(STREAM, at=begin + 700 * k, graph=graph)
        for query in queries:
            query.poll()


@pytest.mark.parametrize("ending", ["advance", pytest.param("slow events", marks=pytest.mark.soak)])
@pytest.mark.parametrize(("window", "view"), CASES)
def test_memory_is_given_back_after_a_burst(window: str, view: str, ending: str) -> None:
    session = Session()
    query = session.register(text(window, view))
    burst(session, [query])
    if ending == "advance":
        session.advance(40_000)
        query.poll()
        if "TRIPLES" in window or "ELEMENTS" in window:
            session.advance(40_001)  # what is counted waits for no time
    else:
        slow_events(session, [query], 40_000)
    assert session.live_triples <= 60
    assert not sizes(session)


@pytest.mark.parametrize("window", ["[RANGE 10s]", *in_soak("[RANGE 10s STEP 2s]", "[NOW]")])
def test_the_parts_of_a_product_are_given_back(window: str) -> None:
    session = Session()
    query = session.register(text(window, body=PRODUCT))
    burst(session, [query], batch=200)
    session.advance(40_000)
    query.poll()
    (home,) = session._streamsets
    assert home._routes._products[0, 0].held <= 16
    assert not sizes(session)


def test_a_dynamic_graph_whose_content_was_deleted_is_small_again() -> None:
    session = Session()
    queries = [session.register(text("", view)) for view in ("SELECT *", *VIEWS)]
    burst(session, queries)
    large = session.memory()
    assert large["windows"] > 64 * BURST
    burst(session, queries, op=-1, begin=5_000_000)
    assert session.live_triples <= 1024
    session.advance(10_000)
    assert not sizes(session)
    slow_events(session, queries, 50_000)
    assert session.live_triples <= 1024 + 60


def test_a_burst_of_deletes_within_a_long_window_is_given_back() -> None:
    session = Session()
    query = session.register(text("[RANGE 1d]"))
    burst(session, [query])
    burst(session, [query], op=-1, begin=5_000_000)
    assert session.live_triples <= 1024
    session.advance(10_000)
    assert not sizes(session)


def test_memory_follows_what_is_left_of_a_burst() -> None:
    """What is left is a 20th of the burst, and so is the memory, within a small factor."""
    session = Session()
    query = session.register(text("[RANGE 10s]"))
    burst(session, [query])
    large = session.memory()
    session.advance(11_900)
    query.poll()
    left = session.live_triples
    assert 0 < left <= BURST // 20
    assert large["terms"] > 4 * FEW_TERMS
    for part, few in (("windows", FEW), ("answers", FEW), ("terms", FEW_TERMS)):
        assert session.memory()[part] < 4 * large[part] / 20 + few


@pytest.mark.parametrize(
    "window", ["[RANGE 1h]", *in_soak("", "[RANGE 1h STEP 1s]", "[ELEMENTS 20000]", "[TRIPLES 20000]")]
)
def test_an_unregistered_query_leaves_neither_rows_nor_terms(window: str) -> None:
    session = Session()
    kept = session.register(text("[RANGE 1s]"))
    gone = session.register(text(window, "RSTREAM" if "STEP" in window else "SELECT *"))
    parts = session.register(text(window, body=PRODUCT))
    assert len(session._streamsets) == 1
    burst(session, [kept], batch=6_000)
    gone.poll()
    parts.poll()
    session.unregister(gone)
    session.unregister(parts)
    session.advance(4_000)
    kept.poll()
    assert session.live_triples == 0
    assert not sizes(session)
    slow_events(session, [kept], 5_000)
    assert session.live_triples <= 4
    restored = Session.restore(session.save())
    assert restored.live_triples <= 4
    assert not sizes(restored)


def test_a_query_that_stays_keeps_what_it_wants_of_a_window_that_it_shared() -> None:
    session = Session()
    kept = session.register(text("", body="?x <urn:r> ?y"))
    gone = session.register(text(""))
    burst(session, [kept, gone])
    session.unregister(gone)
    assert session.live_triples == BURST // 2000
    assert not sizes(session)
    burst(session, [], op=-1, begin=5_000_000)
    rows = kept.poll()
    assert len(rows) == BURST // 2000
    assert {row.op for row in rows} == {"-"}


def test_texts_of_rows_that_were_not_polled_are_kept() -> None:
    session = Session()
    query = session.register(text("[RANGE 10s]"))
    burst(session, [])
    session.advance(40_000)
    session.advance(40_001)
    rows = query.poll()
    assert len(rows) == 2 * (BURST // 2 - BURST // 2000)
    assert {row["z"][:9] for row in rows} == {'"a value '}
    assert not sizes(session)


def test_pushing_one_large_graph_leaves_no_large_buffers_behind() -> None:
    session = Session()
    query = session.register(text("[RANGE 1s]"))
    graph = "".join(f"<urn:x{k}> <urn:p> <urn:y{k}> .\n" for k in range(BURST))
    session.push(STREAM, at=0, graph=graph)
    slow_events(session, [query], 10_000)
    (reader,) = session._readers.values()
    assert reader._out.nbytes + reader._pad.nbytes < 2**21
    assert len(session._streamsets[0]._merge._zeros) < 10_000
    assert not sizes(session)


def test_a_triple_that_comes_fifteen_times_within_a_window_is_one_row() -> None:
    session = Session()
    query = session.register(text("[RANGE 10s]", body="?x <urn:p> ?y"))
    for k in range(15):
        session.push(STREAM, at=100 * k, graph="<urn:a> <urn:p> <urn:b> .")
    assert session.live_triples == 1
    session.advance(20_000)
    changes = Counter((row.at, row.op) for row in query.poll())
    assert changes == {(0, "+"): 1, (11_400_000, "-"): 1}
