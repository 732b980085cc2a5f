"""A session as a person at the keyboard uses it."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import FIRST, LAST, as_instant
from thalweg.terms import text_of, value_of

S = "http://ex/s"
TEXT = "SELECT ?x ?y FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }"
LINE = "<http://ex/a> <http://ex/p> <http://ex/b> ."
XSD = "http://www.w3.org/2001/XMLSchema#"


def registered(text: str = TEXT, **options: Any) -> tuple[tw.Session, tw.ContinuousQuery]:
    session = tw.Session(**options)
    return session, session.register(text)


# Time


def test_the_time_of_a_row_is_taken_back_as_the_same_time() -> None:
    session, query = registered()
    session.push(S, at="2026-01-05T17:00:00.000001Z", graph=LINE)
    (row,) = query.poll()
    assert row.at == 1_767_632_400_000_001
    assert row.time == datetime(2026, 1, 5, 17, 0, 0, 1, tzinfo=UTC)
    session.push(S, at=row.at, graph=[("http://ex/c", "http://ex/p", 1)])
    session.push(S, at=row.time, graph=[("http://ex/d", "http://ex/p", 1)])
    session.push(S, at=str(row.at), graph=[("http://ex/e", "http://ex/p", 1)])
    session.push(S, at=row.at + timedelta(milliseconds=1), graph=[("http://ex/f", "http://ex/p", 1)])
    assert [int(later.at - row.at) for later in query.poll()] == [0, 0, 0, 1000]


@given(st.integers(FIRST, LAST), st.integers(-(10**9), 10**9))
def test_an_instant_is_an_integer_that_knows_its_unit(us: int, shift: int) -> None:
    at = as_instant(us)
    assert (at, hash(at), int(at)) == (us, hash(us), us)
    assert tw.Instant(str(at)) == tw.Instant(at) == eval(repr(at), {"Instant": tw.Instant}) == us
    assert type(at + shift) is type(shift + at) is type(at - shift) is tw.Instant
    assert (at + shift, shift + at, at - shift) == (us + shift, us + shift, us - shift)
    assert type(at - at) is type(at // 1000) is int
    assert at + timedelta(microseconds=shift) == us + shift
    assert json.dumps({"at": at}) == f'{{"at": {us}}}'
    assert f"{at:,}" == f"{us:,}"
    back = pickle.loads(pickle.dumps(at))
    assert (type(back), back) == (tw.Instant, us)
    assert np.array([at]).tolist() == [us]
    moment = at.time
    assert (moment is None) == (us < -62_135_596_800_000_000)
    if moment is not None:
        assert tw.Instant(moment) == us


def test_a_plain_integer_is_milliseconds_everywhere() -> None:
    assert tw.Instant(1500) == tw.Instant("1970-01-01T00:00:01.5Z") == 1_500_000
    session, query = registered()
    session.push(S, at=np.int64(1500), graph=LINE)
    assert query.poll()[0].at == tw.Instant(1500)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (datetime(2026, 1, 1), "without a time zone"),
        (1.5, r"int\(1000 \* seconds\)"),
        (None, "not an instant"),
        ("yesterday", "not an instant"),
        ([1], "not an instant"),
        (1_767_632_400_000_001, "looks like microseconds or nanoseconds"),
        (timedelta(seconds=1), "not an instant"),
        (True, "not an instant"),
    ],
)
def test_what_is_no_time_is_refused_in_a_sentence(at: Any, message: str) -> None:
    session, _ = registered()
    for call in (lambda: session.push(S, at=at, graph=LINE), lambda: session.advance(at)):
        with pytest.raises(tw.UsageError, match=message):
            call()


def test_rows_before_the_year_1_have_a_time_as_text_only() -> None:
    session, query = registered()
    session.push(S, at="-0044-03-15T12:00:00Z", graph=LINE)
    (row,) = query.poll()
    assert row.time is None
    assert str(row.at) == "-0044-03-15T12:00:00Z"
    assert "-0044-03-15" in repr(row)


# Values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<http://ex/a>", tw.IRI("http://ex/a")),
        ("_:b1", tw.BlankNode("b1")),
        ('"a"', tw.Literal("a")),
        ('"a\\"\\n\\u0041"', tw.Literal('a"\nA')),
        ('"Haus"@de', tw.Literal("Haus", language="de")),
        (f'"5"^^<{XSD}integer>', 5),
        (f'"-5"^^<{XSD}long>', -5),
        (f'"1.50"^^<{XSD}decimal>', Decimal("1.50")),
        (f'"1.5E3"^^<{XSD}double>', 1500.0),
        (f'"-INF"^^<{XSD}float>', float("-inf")),
        (f'"true"^^<{XSD}boolean>', True),
        (f'"0"^^<{XSD}boolean>', False),
        (f'"2026-01-05T17:00:00.5Z"^^<{XSD}dateTime>', datetime(2026, 1, 5, 17, 0, 0, 500_000, tzinfo=UTC)),
        (f'"2026-01-05T17:00:00"^^<{XSD}dateTime>', datetime(2026, 1, 5, 17)),
        (f'"2026-01-05"^^<{XSD}date>', date(2026, 1, 5)),
        (f'"17:00:00"^^<{XSD}time>', time(17)),
        (f'"-P1DT2.5S"^^<{XSD}dayTimeDuration>', -timedelta(days=1, seconds=2.5)),
        ('"POINT(1 2)"^^<http://ex/wkt>', tw.Literal("POINT(1 2)", datatype="http://ex/wkt")),
        (f'"abc"^^<{XSD}integer>', tw.Literal("abc", datatype=f"{XSD}integer")),
        (
            f'"-0044-03-15T00:00:00Z"^^<{XSD}dateTime>',
            tw.Literal("-0044-03-15T00:00:00Z", datatype=f"{XSD}dateTime"),
        ),
        (f'"1_0"^^<{XSD}integer>', tw.Literal("1_0", datatype=f"{XSD}integer")),
    ],
)
def test_a_term_has_a_python_value(text: str, value: Any) -> None:
    found = value_of(text)
    assert (type(found), found) == (type(value), value)
    for part in ("language", "datatype"):
        assert getattr(found, part, None) == getattr(value, part, None)


_MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.datetimes()
_VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False),
    _MOMENTS,
    st.dates(),
    st.times(),
    st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
    st.builds(tw.Literal, st.text()),
    st.builds(tw.Literal, st.text(), language=st.sampled_from(["en", "de-at"])),
    st.builds(tw.Literal, st.text(), datatype=st.just("http://ex/type")),
)


@given(_VALUES)
def test_every_value_that_goes_in_comes_out_again(value: Any) -> None:
    session, query = registered()
    session.push(S, at=0, graph=[("http://ex/a", "http://ex/p", value)])
    (row,) = query.poll()
    found = row.value("y")
    assert found == value
    assert isinstance(found, type(value))
    assert getattr(found, "language", None) == getattr(value, "language", None)
    assert row.values == {"x": tw.IRI("http://ex/a"), "y": value}
    assert text_of(found) == row["y"]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_variable_that_a_row_does_not_bind_is_named_with_those_that_it_binds() -> None:
    session, query = registered()
    session.push(S, at=0, graph=LINE)
    (row,) = query.poll()
    assert "x" in row
    assert "z" not in row
    assert row.get("z") is None
    for name, message in (("z", r"binds \?x, \?y"), ("?x", r'write row\["x"\]'), (0, "asked by names")):
        with pytest.raises(tw.UnboundError, match=message):
            row[name]
        with pytest.raises(KeyError):
            row.value(name)
    assert repr(row) == "<Row 1970-01-01T00:00:00Z + x=<http://ex/a> y=<http://ex/b>>"


# Sessions


def test_a_session_that_is_left_is_closed_and_its_queries_keep_their_rows() -> None:
    with tw.Session(threads=2) as session:
        query = session.register(TEXT)
        session.push(S, at=0, graph=LINE)
    assert [row["x"] for row in query] == ["<http://ex/a>"]
    assert len(query.answer()) == 1
    calls = [
        lambda: session.push(S, at=1, graph=LINE),
        lambda: session.advance(5),
        lambda: session.finish(),
        lambda: session.register(TEXT),
        lambda: session.retain(S),
        lambda: session.__enter__(),
    ]
    for call in calls:
        with pytest.raises(tw.UsageError, match="the session is closed"):
            call()
    session.close()
    assert "closed" in repr(session)


def test_iteration_polls_until_nothing_is_left() -> None:
    session, query = registered()
    session.push(S, at=0, graph=[("http://ex/0", "http://ex/p", 0)])
    seen = []
    for row in query:
        seen.append(row["x"])
        if len(seen) < 5:
            session.push(S, at=len(seen), graph=[(f"http://ex/{len(seen)}", "http://ex/p", 0)])
    assert seen == [f"<http://ex/{n}>" for n in range(5)]
    assert query.poll() == []


def test_subscribers_get_every_row_in_order_and_polls_get_none() -> None:
    session, query = registered()
    session.push(S, at=0, graph=LINE)
    first: list[str] = []
    second: list[str] = []
    cancel = query.subscribe(lambda row: first.append(f"{row.op}{row['x']}"))
    assert first == ["+<http://ex/a>"]
    query.subscribe(lambda row: second.append(f"{row.op}{row['x']}"))
    session.advance(10)
    assert (first, second) == (["+<http://ex/a>", "-<http://ex/a>"], ["-<http://ex/a>"])
    assert query.poll() == []
    cancel()
    cancel()
    session.push(S, at=11, graph=LINE)
    assert (len(first), second) == (2, ["-<http://ex/a>", "+<http://ex/a>"])


def test_a_subscriber_may_push_and_is_never_called_within_itself() -> None:
    session, query = registered()
    seen: list[str] = []
    inside = False

    def take(row: tw.Row) -> None:
        nonlocal inside
        assert not inside
        inside = True
        seen.append(row["x"])
        if len(seen) < 50:
            session.push(S, at=0, graph=[(f"http://ex/{len(seen)}", "http://ex/p", 0)])
        inside = False

    query.subscribe(take)
    session.push(S, at=0, graph=[("http://ex/0", "http://ex/p", 0)])
    assert seen == [f"<http://ex/{n}>" for n in range(50)]


def test_what_a_subscriber_raises_comes_out_of_the_push_and_no_row_is_lost() -> None:
    session, query = registered()
    seen: list[tuple[int, str]] = []

    def take(row: tw.Row) -> None:
        seen.append((1, row["y"]))
        if len(seen) == 1:
            raise RuntimeError("full")

    query.subscribe(take)
    query.subscribe(lambda row: seen.append((2, row["y"])))
    with pytest.raises(RuntimeError, match="full"):
        session.push(S, at=0, graph=[("http://ex/a", "http://ex/p", tw.Literal(n)) for n in "xyz"])
    session.advance(1)
    assert [y for k, y in seen if k == 1] == [y for k, y in seen if k == 2] == ['"x"', '"y"', '"z"']


def test_names_are_listed_and_misspelt_ones_have_a_hint() -> None:
    assert {"Session", "Instant", "IRI", "explain", "spark"} <= set(dir(tw))
    for name in dir(tw):
        if name != "spark":
            assert getattr(tw, name) is not None
    with pytest.raises(AttributeError, match="did you mean Session"):
        tw.Sesion  # noqa: B018
    assert repr(tw.Session()) == "<Session: 0 queries, 0 streams, 0 events>"
    _, query = registered()
    assert "SELECT ?x ?y" in repr(query)


def test_explain_takes_a_text() -> None:
    assert "RSP-QL" in tw.explain(TEXT)
    assert "pattern 0" in tw.explain("SELECT * WHERE { ?s ?p ?o }")


# Tables


def filled(text: str = TEXT) -> tw.ContinuousQuery:
    session, query = registered(text)
    values = [1, 2, 3]
    session.push(S, at=5, graph=[(f"http://ex/{n}", "http://ex/p", n) for n in values])
    return query


def test_a_table_of_the_answer_takes_nothing_and_one_of_a_poll_has_times_and_signs() -> None:
    query = filled()
    frame = query.to_pandas()
    assert list(frame.columns) == ["x", "y"]
    assert sorted(frame["y"]) == [1, 2, 3]
    assert str(frame["y"].dtype) == "int64"
    assert sorted(frame["x"]) == ["http://ex/1", "http://ex/2", "http://ex/3"]
    table = query.poll().to_arrow(terms=True)
    assert table.column_names == ["at", "op", "x", "y"]
    assert table["x"].to_pylist()[0].startswith("<http://ex/")
    assert table["at"].to_pylist()[0] == datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)
    assert query.poll().to_pandas().empty
    some = tw.Rows(query.answer()[:2])  # a list of one's own
    assert list(some.to_pandas().columns) == ["at", "op", "x", "y"]
    assert "<table>" in query.answer()._repr_html_()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2], "int64"),
        ([1, 2.5, Decimal("0.5")], "double"),
        ([True, False], "bool"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "timestamp[us, tz=UTC]"),
        ([date(2026, 1, 1)], "date32[day]"),
        ([tw.Literal("a"), tw.IRI("http://ex/a")], "string"),
        ([1, tw.Literal("a")], "string"),
        ([2**70], "double"),
    ],
)
def test_a_column_has_the_type_of_all_its_terms(values: list[Any], type_: str) -> None:
    session, query = registered()
    session.push(S, at=0, graph=[("http://ex/a", "http://ex/p", value) for value in values])
    column = query.to_arrow()["y"]
    assert str(column.type) == type_
    if type_ != "string":
        assert sorted(column.to_pylist()) == sorted(float(v) if type_ == "double" else v for v in values)


def test_rdflib_gets_terms_a_graph_or_a_truth_value() -> None:
    rows = filled().to_rdflib()
    assert {(row["x"], row["y"]) for row in rows} == {
        (rdflib.URIRef(f"http://ex/{n}"), rdflib.Literal(n)) for n in (1, 2, 3)
    }
    graph = filled(
        "CONSTRUCT { ?y <http://ex/of> ?x . ?x <http://ex/is> ?y } FROM STREAM <http://ex/s> [RANGE 10] "
        "WHERE { ?x <http://ex/p> ?y }"
    ).to_rdflib()
    assert len(graph) == 3
    assert (rdflib.URIRef("http://ex/1"), rdflib.URIRef("http://ex/is"), rdflib.Literal(1)) in graph
    assert filled("ASK FROM STREAM <http://ex/s> { ?x <http://ex/p> ?y }").to_rdflib() is True
    assert filled("ASK FROM STREAM <http://ex/s> { ?x <http://ex/q> ?y }").to_rdflib() is False


# Graphs


def _rdflib_graph() -> rdflib.Graph:
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("http://ex/a"), rdflib.URIRef("http://ex/p"), rdflib.Literal("b", lang="en")))
    graph.add((rdflib.BNode(), rdflib.URIRef("http://ex/p"), rdflib.Literal(5)))
    return graph


def _rdflib_dataset() -> rdflib.Dataset:
    dataset = rdflib.Dataset()
    for s, p, o in _rdflib_graph():
        dataset.graph(rdflib.URIRef("http://ex/g")).add((s, p, o))
    return dataset


_OX = [
    ox.Triple(ox.NamedNode("http://ex/a"), ox.NamedNode("http://ex/p"), ox.Literal("b", language="en")),
    ox.Triple(ox.BlankNode("x"), ox.NamedNode("http://ex/p"), ox.Literal(5)),
]


def _ox_store() -> ox.Store:
    store = ox.Store()
    store.extend(ox.Quad(t.subject, t.predicate, t.object, ox.NamedNode("http://ex/g")) for t in _OX)
    return store


_TUPLES = [
    ("http://ex/a", tw.IRI("http://ex/p"), tw.Literal("b", language="en")),
    (tw.BlankNode("x"), "<http://ex/p>", 5),
]


@pytest.mark.parametrize(
    "graph",
    [
        _rdflib_graph(),
        _rdflib_dataset(),
        _OX,
        _ox_store(),
        ox.Dataset([ox.Quad(t.subject, t.predicate, t.object) for t in _OX]),
        _TUPLES,
        tuple(_TUPLES),
        (one for one in _TUPLES),
        [(*one, None) for one in _TUPLES],
        [(*one, "http://ex/g") for one in _TUPLES],
        [list(one) for one in _TUPLES],
        list(_rdflib_graph()),
    ],
    ids=lambda graph: type(graph).__module__ + "." + type(graph).__name__,
)
def test_graphs_of_other_libraries_and_tuples_are_events_like_texts(graph: Any) -> None:
    session, query = registered(TEXT.replace("RANGE 10", "NOW"))
    session.push(S, at=0, graph=graph)
    rows = query.poll()
    assert {row["y"] for row in rows} == {'"b"@en', f'"5"^^<{XSD}integer>'}
    assert {row["x"][:2] for row in rows} == {"<h", "_:"}
    assert session.stats.events == 1
    assert session.stats.quarantined == 0


def test_one_statement_may_be_pushed_alone() -> None:
    for graph in (
        ("http://ex/a", "http://ex/p", 1),
        _OX[0],
        ox.Quad(_OX[0].subject, _OX[0].predicate, _OX[0].object),
    ):
        session, query = registered()
        session.push(S, at=0, graph=graph)
        assert len(query.poll()) == 1


def test_terms_of_rows_go_in_again_as_texts_and_as_values() -> None:
    session, query = registered("SELECT * FROM STREAM <http://ex/s> WHERE { ?s ?p ?o }")
    session.push(S, at=0, graph='<http://ex/a> <http://ex/p> "say \\"hi\\" \\\\ \\n"@en .')
    (row,) = query.poll()
    session.push(S, at=1, graph=[tuple(row[name] for name in "spo")], op="delete")
    assert [one.op for one in query.poll()] == ["-"]
    session.push(S, at=2, graph=[tuple(row.value(name) for name in "spo")])
    assert [one.bindings for one in query.poll()] == [row.bindings]


def test_a_value_that_no_term_can_have_is_quarantined_and_the_others_are_taken() -> None:
    session, query = registered()
    with pytest.warns(tw.ThalwegWarning, match="quarantined"):
        session.push(
            S,
            at=0,
            graph=[
                (tw.IRI("http://ex/a b\n<http://ex/c> <http://ex/p> 1 .\n"), "http://ex/p", 1),
                ("http://ex/a", "http://ex/p", 1),
            ],
        )
    assert [row["x"] for row in query.poll()] == ["<http://ex/a>"]
    assert len(session.quarantine()) == 1


@pytest.mark.parametrize(
    "graph",
    [
        '<http://ex/a> <http://ex/p> "\ud800" .',
        [("http://ex/a", "http://ex/p", tw.Literal("\udfff"))],
        [(tw.IRI("http://ex/\ud800"), "http://ex/p", 1)],
    ],
)
def test_half_a_character_is_quarantined(graph: Any) -> None:
    session, query = registered()
    session.push(S, at=0, graph=graph)
    assert query.poll() == []
    assert session.stats.quarantined == 1


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (None, "not None"),
        (5, "type int"),
        ({"a": 1}, "type dict"),
        (Path("a.ttl"), "not a path"),
        (io.StringIO(LINE), "not an open file"),
        ([1, 2], "statement 1 of the graph is 1"),
        (["<http://ex/a> <http://ex/p> <http://ex/b> ."], "statement 1 of the graph"),
        ([("http://ex/a", "http://ex/p")], "not a tuple"),
        ([("http://ex/a", "http://ex/p", "http://ex/b")], r"tw.Literal\(...\) or tw.IRI"),
        ([("http://ex/a", "http://ex/p", "Ann")], r"tw.Literal\(...\) or tw.IRI"),
        ([("a", "http://ex/p", 1)], "the subject 'a' is neither"),
        ([("http://ex/a", "http://ex/p", object())], "is no term"),
        ([("http://ex/a", None, 1)], "the predicate None"),
        (
            [("http://ex/a", "http://ex/p", '"a" .\n<http://ex/c> <http://ex/p> "b"')],
            "may be a string or an IRI",
        ),
        ([("http://ex/a", "http://ex/p", Decimal("NaN"))], "give it as a float"),
    ],
)
def test_what_is_no_graph_is_refused_in_a_sentence(graph: Any, message: str) -> None:
    session, query = registered()
    with pytest.raises(tw.UsageError, match=message):
        session.push(S, at=0, graph=graph)
    assert session.stats.events == 0
    assert query.poll() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@prefix ex: <http://ex/> . ex:a ex:p ex:b .", 'it is Turtle, give format="turtle"'),
        ("<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .", 'it is N-Quads, give format="nq"'),
        ('{"@id": "http://ex/a", "http://ex/p": "b"}', 'it is JSON-LD, give format="jsonld"'),
        ("<http://ex/a> <http://ex/p> <http://ex/b>", "a statement ends with a dot"),
        (__file__, "it is the name of a file"),
        ("hello", "was quarantined"),
    ],
)
def test_a_text_that_is_no_rdf_warns_once_with_the_likely_cause(text: str, message: str) -> None:
    session, _ = registered()
    with pytest.warns(tw.ThalwegWarning, match=message):
        session.push(S, at=0, graph=text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.push(S, at=1, graph=text)
    assert session.stats.quarantined >= 2


# Slips


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, q: s.register(io.StringIO(TEXT)), "call .read"),
        (lambda s, q: s.register(Path(__file__)), "read_text"),
        (lambda s, q: s.register(__file__), "is the name of a file"),
        (lambda s, q: s.register(None), "not as None"),
        (lambda s, q: s.register([TEXT]), "not as a list"),
        (lambda s, q: s.register(q), "not as a ContinuousQuery"),
        (lambda s, q: s.register(TEXT, start="later"), 'start is "now" or "content"'),
        (lambda s, q: s.register("SELECT * WHERE { ?s ?p ?o }"), "names no stream"),
        (lambda s, q: s.register("SELECT * WHERE { ?s ?p ?o }", stream=5), "a stream is named by its IRI"),
        (lambda s, q: s.push(5, at=0, graph=LINE), "a stream is named by its IRI"),
        (lambda s, q: s.push("", at=0, graph=LINE), "a stream is named by its IRI"),
        (lambda s, q: s.push("my stream", at=0, graph=LINE), "a stream is named by its IRI"),
        (lambda s, q: s.push(S, at=0, graph=LINE, op="update"), '"insert" or "delete"'),
        (lambda s, q: s.push(S, at=0, graph=LINE, op=["insert"]), '"insert" or "delete"'),
        (lambda s, q: s.push(S, at=0, graph=LINE, format="ttl"), "format is one of .* did you mean turtle"),
        (lambda s, q: s.push(S, at=0, graph=[], format="turtle"), "format is for texts"),
        (lambda s, q: s.push(S, at=0, graph=LINE, name="a b"), "name is the IRI of the graph"),
        (lambda s, q: s.push(S, at=0, graph=LINE, name=5), "name is the IRI of the graph"),
        (lambda s, q: s.advance(0, stream=5), "a stream is named by its IRI"),
        (lambda s, q: s.finish(["http://ex/s"]), "a stream is named by its IRI"),
        (lambda s, q: s.retain(S, "soon"), "is not a duration"),
        (lambda s, q: s.unregister(TEXT), "not registered in this session"),
        (lambda s, q: q.subscribe("print"), "a function of one row"),
        (lambda s, q: tw.Session.restore("saved.bin"), r"the bytes of save\(\)"),
        (lambda s, q: tw.Session.restore(None), r"the bytes of save\(\)"),
        (lambda s, q: tw.Session(threads="2"), "threads"),
        (lambda s, q: tw.Session(max_pending=1.5), "max_pending"),
        (lambda s, q: tw.Session(lateness="soon"), "is not a duration"),
        (lambda s, q: tw.Session(lateness=None), "is not a duration"),
        (lambda s, q: tw.explain(None), "not as None"),
        (lambda s, q: tw.explain(TEXT, format="png"), "one of text"),
    ],
)
def test_a_slip_is_refused_in_a_sentence(call: Any, message: str) -> None:
    session, query = registered()
    with pytest.raises((tw.UsageError, tw.QueryError), match=message):
        call(session, query)


def test_a_stream_that_nobody_reads_is_named_with_the_one_that_may_be_meant() -> None:
    session, query = registered()
    with pytest.warns(tw.ThalwegWarning, match="did you mean <http://ex/s>"):
        session.push("http://ex/S", at=0, graph=LINE)
    with pytest.warns(tw.ThalwegWarning, match="queries read <http://ex/s>"):
        session.push("urn:another:name", at=0, graph=LINE)
    session.push(f"<{S}>", at=0, graph=LINE)
    session.push(rdflib.URIRef(S), at=0, graph=[("http://ex/z", "http://ex/p", 1)])
    session.push(ox.NamedNode(S), at=0, graph=[("http://ex/y", "http://ex/p", 1)])
    assert len(query.poll()) == 3
