"""The session as a user meets it: registering, pushing, time, late and malformed input, memory."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

import thalweg as tw
from thalweg.rdf.arena import Arena
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import GENERATED_AT, LineReader

S = "http://ex/s"
T = "http://ex/t"


def triple(s: str, p: str, o: str) -> str:
    return f"<http://ex/{s}> <http://ex/{p}> <http://ex/{o}> ."


def select(where: str, window: str = "[RANGE 10]", head: str = "SELECT *") -> str:
    return f"PREFIX : <http://ex/> {head} FROM STREAM <{S}> {window} WHERE {{ {where} }}"


def shown(rows: list[tw.Row]) -> list[tuple[int, str, str]]:
    def short(text: str) -> str:
        return text.removeprefix("<http://ex/").removesuffix(">")

    return [(row.at // 1000, row.op, " ".join(map(short, row.bindings.values()))) for row in rows]


def test_a_solution_comes_with_its_last_triple_and_goes_with_its_first():
    session = tw.Session()
    query = session.register(select("?x :p ?y . ?y :q ?z"))
    session.push(S, at=1, graph=triple("a", "p", "b"))
    assert query.poll() == []
    session.push(S, at=4, graph=triple("b", "q", "c"))
    assert shown(query.poll()) == [(4, "+", "a b c")]
    session.advance(10)
    assert query.poll() == []
    session.advance(11)
    assert shown(query.poll()) == [(11, "-", "a b c")]


def test_times_may_be_milliseconds_datetimes_or_texts():
    session = tw.Session()
    query = session.register(select("?x :p ?y", window=""))
    session.push(S, at=1500, graph=triple("a", "p", "b"))
    session.push(S, at=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), graph=triple("a", "p", "c"))
    session.push(S, at="1970-01-01T00:00:02.5Z", graph=triple("a", "p", "d"))
    assert [row.at for row in query.poll()] == [1_500_000, 2_000_000, 2_500_000]


def test_a_refreshed_triple_makes_no_noise():
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    for at in (0, 6, 12):
        session.push(S, at=at, graph=triple("a", "p", "b"))
    session.advance(30)
    assert shown(query.poll()) == [(0, "+", "a b"), (22, "-", "a b")]


def test_several_queries_share_a_session_and_leave_it_one_by_one():
    session = tw.Session()
    first = session.register(select("?x :p ?y"))
    second = session.register(select("?x :p ?y . ?y :q ?z"))
    session.push(S, at=0, graph=triple("a", "p", "b"))
    assert (len(first.poll()), len(second.poll())) == (1, 0)
    session.unregister(first)
    session.push(S, at=1, graph=triple("b", "q", "c") + "\n" + triple("e", "p", "f"))
    assert shown(second.poll()) == [(1, "+", "a b c")]
    assert first.poll() == []
    with pytest.raises(tw.UsageError, match="not registered"):
        session.unregister(first)


def test_a_query_sees_what_comes_after_its_registration():
    session = tw.Session()
    early = session.register(select("?x :p ?y", window=""))
    session.push(S, at=0, graph=triple("a", "p", "b"))
    late = session.register(select("?x :p ?y", window=""))
    session.push(S, at=1, graph=triple("a", "p", "c"))
    assert shown(early.poll()) == [(0, "+", "a b"), (1, "+", "a c")]
    assert shown(late.poll()) == [(1, "+", "a c")]


def test_two_streams_are_joined_up_to_the_slower_one():
    session = tw.Session()
    query = session.register(
        f"""PREFIX : <http://ex/> SELECT *
        FROM NAMED WINDOW :v ON <{S}> [RANGE 10] FROM NAMED WINDOW :w ON <{T}> [RANGE 5]
        WHERE {{ WINDOW :v {{ ?x :p ?y }} WINDOW :w {{ ?y :q ?z }} }}"""
    )
    session.push(S, at=1, graph=triple("a", "p", "b"))
    session.push(S, at=9, graph=triple("d", "p", "b"))
    assert query.poll() == []
    session.push(T, at=3, graph=triple("b", "q", "c"))
    assert shown(query.poll()) == [(3, "+", "a b c")]
    session.advance(9)
    # The second window let go of its triple at 8, before the other match could come.
    assert shown(query.poll()) == [(8, "-", "a b c")]


def test_events_on_time_within_the_lateness_change_nothing_in_the_sums():
    session = tw.Session(lateness=5)
    query = session.register(select("?x :p ?y"))
    for at in (10, 7, 12, 9):
        session.push(S, at=at, graph=triple(f"a{at}", "p", "b"))
    session.finish(drain=True)
    assert [row for row in shown(query.poll()) if row[1] == "+"] == [
        (7, "+", "a7 b"),
        (9, "+", "a9 b"),
        (10, "+", "a10 b"),
        (12, "+", "a12 b"),
    ]
    assert session.stats.late == 0


def test_an_event_before_the_watermark_is_late_and_has_a_reason():
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    session.push(S, at=10, graph=triple("a", "p", "b"))
    session.push(S, at=9, graph=triple("c", "p", "d"))
    assert shown(query.poll()) == [(10, "+", "a b")]
    (late,) = session.late()
    assert (late.stream, late.at, late.event) == (S, 9000, -2)
    assert "1 ms before the watermark 1970-01-01T00:00:00.01Z" in late.reason
    assert session.late() == []
    assert session.stats.late == 1


@pytest.mark.parametrize("cuts", [[], [2], [4], [2, 4]])
def test_whether_an_event_is_late_depends_on_no_batch_and_no_query(cuts):
    """The event at 10 has nothing that the query wants, and still makes the one at 5 late."""
    lines = []
    for graph, at, predicate in (("g", 1, "p"), ("h", 10, "unwanted"), ("i", 5, "p"), ("j", 10, "p")):
        lines.append(f'<http://ex/{graph}> {GENERATED_AT.decode()} "{at}" .\n')
        lines.append(f"<http://ex/a{at}> <http://ex/{predicate}> <http://ex/b> <http://ex/{graph}> .\n")
    session = tw.Session()
    query = session.register(select("?x :p ?y", window=""))
    reader = LineReader(session.arena, session.prune(), syntax="nq", source="doc")
    framer = StatementFramer(S, mode="graphs", arena=session.arena)
    for start, end in pairwise([0, *cuts, len(lines)]):
        session.push_events(framer.frame(reader.read("".join(lines[start:end]).encode(), offset=start)))
    session.push_events(framer.close())
    assert [row[2] for row in shown(query.poll())] == ["a1 b", "a10 b"]
    assert [late.at for late in session.late()] == [5000]


def test_malformed_lines_go_to_the_quarantine_and_the_rest_of_the_graph_goes_on():
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    session.push(S, at=0, graph="this is not RDF\n" + triple("a", "p", "b"))
    assert len(query.poll()) == 1
    (reject,) = session.quarantine()
    assert (reject.source, reject.line) == (S, 1)
    assert reject.reason
    assert session.stats.quarantined == 1


def test_with_on_error_fail_a_malformed_line_is_an_error_with_its_place():
    session = tw.Session(on_error="fail")
    session.register(select("?x :p ?y"))
    with pytest.raises(tw.DataError) as caught:
        session.push(S, at=0, graph=triple("a", "p", "b") + "\n<http://ex/a> nonsense")
    assert (caught.value.source, caught.value.line) == (S, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.push(S, at="yesterday", graph=""), "is not a time"),
        (lambda s: s.push(S, at=0, graph="", op="upsert"), "op is"),
        (lambda s: tw.Session(on_error="ignore"), "on_error"),
        (lambda s: tw.Session(lateness="soon"), "not a duration"),
    ],
)
def test_wrong_calls_are_refused_in_a_sentence(call, message):
    with pytest.raises(tw.UsageError, match=message):
        call(tw.Session())


def test_an_empty_event_moves_time():
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    session.push(S, at=0, graph=triple("a", "p", "b"))
    session.push(S, at=50, graph="")
    assert shown(query.poll()) == [(0, "+", "a b"), (10, "-", "a b")]


def test_a_stream_that_nobody_queries_is_counted():
    session = tw.Session()
    session.push(T, at=0, graph=triple("a", "p", "b"))
    assert (session.stats.events, session.stats.unread) == (1, 1)


def test_blank_nodes_are_scoped_to_their_event():
    session = tw.Session()
    query = session.register(select("?x :p ?y . ?y :q ?z"))
    session.push(S, at=0, graph="<http://ex/a> <http://ex/p> _:b .")
    session.push(S, at=1, graph="_:b <http://ex/q> <http://ex/c> .")
    assert query.poll() == []
    session.push(S, at=2, graph="<http://ex/a> <http://ex/p> _:b .\n_:b <http://ex/q> <http://ex/c> .")
    assert len(query.poll()) == 1


def test_blank_nodes_with_stable_labels_join_across_events():
    session = tw.Session(blank_nodes="stable")
    query = session.register(select("?x :p ?y . ?y :q ?z"))
    session.push(S, at=0, graph="<http://ex/a> <http://ex/p> _:b .")
    session.push(S, at=1, graph="_:b <http://ex/q> <http://ex/c> .")
    assert [row["y"] for row in query.poll()] == ["_:b"]


def test_a_now_query_speaks_of_each_event_alone_and_names_its_graph():
    session = tw.Session()
    query = session.register(select("?x :p ?y . ?y :q ?z", window="[NOW]"))
    session.push(S, at=0, graph=triple("a", "p", "b"))
    session.push(S, at=0, graph=triple("b", "q", "c"))
    assert query.poll() == []
    both = triple("a", "p", "b") + "\n" + triple("b", "q", "c")
    session.push(S, at=1, graph=both, name="http://ex/g")
    session.push(S, at=2, graph=both)
    rows = query.poll()
    assert shown(rows) == [(1, "+", "a b c"), (2, "+", "a b c")]
    assert [row.graph for row in rows] == ["<http://ex/g>", None]


def test_pushed_and_framed_events_of_one_stream_are_different_events():
    session = tw.Session()
    query = session.register(select("?x :p ?y", window="[NOW]"))
    reader = LineReader(session.arena, session.prune(), syntax="nt", source="doc")
    framer = StatementFramer(S)
    line = triple("a", "p", "b")
    for _ in range(3):
        session.push_events(framer.frame(reader.read(line.encode())))
        session.push(S, at=5, graph=line)
    assert [row.at for row in query.poll()] == [0, 5000, 5000, 5000]
    assert session.stats.late == 2


def test_a_fixed_variable_is_shown_in_its_place():
    session = tw.Session()
    query = session.register(select("?x :p ?y FILTER(?y = :b)", head="SELECT ?y ?x ?unbound"))
    session.push(S, at=0, graph=triple("a", "p", "b") + "\n" + triple("a", "p", "c"))
    (row,) = query.poll()
    assert list(row.bindings.items()) == [("y", "<http://ex/b>"), ("x", "<http://ex/a>")]


def test_terms_with_colliding_hashes_stay_apart():
    session = tw.Session(arena=Arena(hash_mask=0x3))
    query = session.register(select("?x :p ?y . ?y :q ?z"))
    for k in range(40):
        session.push(S, at=k, graph=triple(f"a{k}", "p", f"b{k}"))
        session.push(S, at=k, graph=triple(f"b{k}", "q", f"c{k}"))
    rows = [row for row in shown(query.poll()) if row[1] == "+"]
    assert rows == [(k, "+", f"a{k} b{k} c{k}") for k in range(40)]


def test_memory_follows_the_window_not_the_stream():
    session = tw.Session()
    query = session.register(select("?x :p ?y", window="[RANGE 100]"))
    sizes = []
    for block in range(40):
        lines = "\n".join(triple(f"subject{block}-{k}", "p", f"object{block}-{k}") for k in range(1000))
        session.push(S, at=block * 50, graph=lines)
        assert len(query.poll()) >= 1000
        sizes.append(session.nbytes)
    assert session.stats.compactions > 3
    assert max(sizes[20:]) <= 1.2 * max(sizes[5:20])
    assert session.live_triples <= 3000
    last = query.poll()
    session.finish(drain=True)
    assert {row.op for row in query.poll()} == {"-"}
    assert last == []


def test_finishing_completes_the_last_instant():
    session = tw.Session()
    query = session.register("REGISTER ISTREAM <http://ex/out> AS " + select("?x :p ?y"))
    session.push(S, at=5, graph=triple("a", "p", "b"))
    assert query.poll() == []
    session.finish()
    assert shown(query.poll()) == [(5, "+", "a b")]


def test_drained_deltas_are_columns_of_ids():
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    session.push(S, at=1, graph=triple("a", "p", "b"))
    delta = query.drain()
    assert delta.at.tolist() == [1000]
    assert delta.op.dtype == np.int64
    assert session.arena.texts(delta.ids[0]) == ["<http://ex/a>", "<http://ex/b>"]


@pytest.mark.parametrize(
    "at", ["9999-12-31T23:59:59.999999Z", "-9999-01-01T00:00:00Z", "-0044-03-15T12:00:00Z", -5]
)
def test_times_far_away_and_before_the_epoch_are_times_like_others(at):
    session = tw.Session()
    query = session.register(select("?x :p ?y"))
    session.push(S, at=at, graph=triple("a", "p", "b"))
    session.finish(drain=True)
    came, went = query.poll()
    assert (came.op, went.op, went.at - came.at) == ("+", "-", 10_000)


@pytest.mark.slow
def test_an_event_of_a_million_triples_is_one_event():
    session = tw.Session()
    query = session.register(select("?x :p ?y . ?y :q ?z", window="[NOW]"))
    lines = "".join(f"<http://ex/a{k}> <http://ex/p> <http://ex/b{k % 1000}> .\n" for k in range(1_000_000))
    session.push(S, at=0, graph=lines + triple("b7", "q", "c"), name="http://ex/g")
    delta = query.drain()
    assert len(delta) == 1000
    assert session.stats.events == 1


def test_deletes_take_solutions_back_and_absent_ones_are_counted():
    session = tw.Session()
    query = session.register(select("?x :p ?y . ?y :q ?z", window=""))
    session.push(
        S, at=0, graph="\n".join([triple("a", "p", "b"), triple("d", "p", "b"), triple("b", "q", "c")])
    )
    assert len(query.poll()) == 2
    session.push(S, at=1, graph=triple("b", "q", "c"), op="delete")
    assert shown(query.poll()) == [(1, "-", "d b c"), (1, "-", "a b c")]
    session.push(S, at=2, graph=triple("b", "q", "c"), op="delete")
    assert query.poll() == []
    assert session.stats.absent == 1
    session.push(S, at=3, graph=triple("b", "q", "c"))
    assert [row[:2] for row in shown(query.poll())] == [(3, "+"), (3, "+")]


def test_an_update_at_one_instant_is_a_delete_and_an_insert_in_any_order():
    for ops in (("delete", "insert"), ("insert", "delete")):
        session = tw.Session()
        query = session.register(select("?x :p ?y", window=""))
        session.push(S, at=0, graph=triple("a", "p", "old"))
        for op in ops:
            session.push(S, at=1, graph=triple("a", "p", "new" if op == "insert" else "old"), op=op)
        session.push(S, at=1, graph=triple("a", "p", "new"), op="delete")  # what came at this instant stays
        assert sorted(shown(query.poll()))[1:] == [(1, "+", "a new"), (1, "-", "a old")]


def test_memory_is_reported_by_purpose():
    session = tw.Session()
    session.register(select("?x :p ?y . ?z :q ?w"))
    session.push(S, at=0, graph=triple("a", "p", "b"))
    memory = session.memory()
    assert set(memory) == {"windows", "answers", "output", "terms", "operators"}
    assert session.nbytes == sum(memory[part] for part in ("windows", "answers", "output", "terms"))


@pytest.mark.slow
def test_the_memory_of_operators_is_reported_by_their_names():
    session = tw.Session()
    body = "?x :p ?y OPTIONAL { ?y :q ?z } FILTER(!BOUND(?z) || STRLEN(STR(?z)) > 2)"
    queries = [session.register(select(body, head=f"SELECT {form} *")) for form in ("", "DISTINCT")]
    before = session.memory()["operators"]
    assert set(before) == {"timeline", "co-group", "filter", "distinct"}
    for k in range(2000):
        session.push(S, at=0, graph=f"{triple(f'a{k}', 'p', f'b{k}')}\n{triple(f'b{k}', 'q', f'long{k}')}")
    memory = session.memory()
    # Three leaves wait for their ends, keys and optional rows are in two co-groups, and rows in one set.
    for name, least in (("timeline", 32), ("co-group", 64), ("filter", 8), ("distinct", 16)):
        assert memory["operators"][name] > before[name] + 2000 * least, name
    assert sum(memory["operators"].values()) <= memory["answers"]
    session.unregister(queries[1])
    assert "distinct" not in session.memory()["operators"]
    assert session.memory()["operators"]["co-group"] < memory["operators"]["co-group"]
