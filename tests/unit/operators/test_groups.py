"""Groups and aggregates through a session: values, errors, limits and memory, as a user sees them."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.expressions import numeric, values
from thalweg.expressions.ordering import TermOrder
from thalweg.kernels import number_texts
from thalweg.operators import groups
from thalweg.operators.groups import GroupRows
from thalweg.operators.spans import Changes
from thalweg.plan.physical import Aggregation
from thalweg.rdf.arena import Arena

STREAM = "http://ex/s"
XSD = "http://www.w3.org/2001/XMLSchema#"


def number(text: str, kind: str = "integer") -> str:
    return f'"{text}"^^<{XSD}{kind}>'


def answers(select: str, *objects: str, window: str = "", tail: str = "") -> dict[str, str]:
    """The last row of a query over triples with these objects."""
    session = tw.Session()
    query = session.register(
        f"SELECT {select} FROM STREAM <{STREAM}> {window} WHERE {{ ?s <http://ex/p> ?o }} {tail}"
    )
    graph = "".join(f"<http://ex/{k}> <http://ex/p> {term} .\n" for k, term in enumerate(objects))
    session.push(STREAM, at=1, graph=graph)
    session.advance(2)
    return [row.bindings for row in query.poll() if row.op == "+"][-1]


def test_a_sum_of_strings_is_an_error_and_leaves_its_variable_unbound() -> None:
    found = answers("(SUM(?o) AS ?sum) (AVG(?o) AS ?avg) (COUNT(?o) AS ?n)", number("1"), '"x"')
    assert found == {"n": number("2")}


def test_aggregates_of_nothing_are_zero_or_nothing() -> None:
    functions = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
    columns = " ".join(f"({one}(?none) AS ?{one})" for one in functions)
    session = tw.Session()
    query = session.register(f"SELECT {columns} FROM STREAM <{STREAM}> WHERE {{ ?s <http://ex/no> ?none }}")
    session.push(STREAM, at=1, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.advance(2)
    (row,) = query.poll()
    assert row.bindings == {**dict.fromkeys(("COUNT", "SUM", "AVG"), number("0")), "GROUP_CONCAT": '""'}


def test_mixed_types_have_a_minimum_and_a_maximum_in_the_order_of_terms() -> None:
    mixed = (
        '"b"',
        number("3"),
        '"a"@en',
        "<http://ex/x>",
        number("2.5", "decimal"),
        number("true", "boolean"),
    )
    assert answers("(MIN(?o) AS ?a) (MAX(?o) AS ?b)", *mixed) == {
        "a": "<http://ex/x>",
        "b": number("true", "boolean"),
    }


def test_sums_go_beyond_64_bits_and_keep_every_digit_of_decimals() -> None:
    large = [number("9" * 15)] * 0 + [number(f"9{k:014}") for k in range(20)]
    exact = sum(int(f"9{k:014}") for k in range(20))
    assert answers("(SUM(?o) AS ?x)", *large) == {"x": number(str(exact))}
    huge = [number(str(10**30 + k)) for k in range(3)]
    assert answers("(SUM(?o) AS ?x)", *huge) == {"x": number(str(3 * 10**30 + 3))}
    tiny = [number(text, "decimal") for text in ("0.1", "0.2", "0.000000000000000000003")]
    assert answers("(SUM(?o) AS ?x)", *tiny) == {"x": number("0.300000000000000000003", "decimal")}


def test_sums_pass_a_billion_billions_and_come_back() -> None:
    arena = Arena()
    operator = GroupRows(0, [Aggregation("SUM", (0,))], arena)
    large = arena.intern(number("9" * 15).encode())
    total = 0
    for weight in (5000, -4000, 3000, -4000):
        total += weight
        out = operator.step(Changes(np.array([total]), np.array([weight]), np.array([[large]])))
        shown = [arena.text(int(row[0])) for row, sign in zip(out.rows, out.weight, strict=True) if sign > 0]
        assert shown == ([number(str(total * (10**15 - 1)))] if total else [])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6), st.randoms())
def test_a_sum_of_doubles_is_the_exact_total_rounded_once(numbers: list[float], random) -> None:
    arena = Arena()
    operator = GroupRows(0, [Aggregation("SUM", (0,))], arena)
    noise = [random.uniform(-1e300, 1e300) for _ in range(3)]
    history = [(one, 1) for one in numbers + noise] + [(one, -1) for one in noise]
    for time, (one, weight) in enumerate(history):
        id = arena.intern(number(repr(one), "double").encode())
        out = operator.step(Changes(np.array([time]), np.array([weight]), np.array([[id]])))
        if len(out):
            shown = arena.text(int(out.rows[-1, 0]))
    try:
        exact = math.fsum(numbers)
    except OverflowError:
        return
    assert values.parse(shown).value == exact


@given(
    st.integers(-(10**17), 10**17),
    st.integers(0, 10**9 - 1),
    st.one_of(st.integers(1, 100), st.integers(1, 10**12)),
)
def test_an_average_that_the_kernel_writes_is_that_of_the_exact_evaluation(
    units: int, part: int, count: int
) -> None:
    target, sizes = np.zeros(1024, np.uint8), np.zeros(1, np.int64)
    arrays = [np.array([value]) for value in (number_texts.AS_AVERAGE, units, part, count)]
    used = number_texts.write(*arrays, target, sizes)
    total = values.decimal(Decimal(units).__add__(Decimal(part).scaleb(-9)))
    expected = numeric.arithmetic("/", total, values.integer(count))
    assert bytes(target[:used]).decode() == expected.text


ORDERED = [
    *("_:a", "_:b", "<http://ex/a>", "<http://ex/a!>", "<http://ex/b>"),
    *(number("NaN", "double"), number("-INF", "double"), number("-7", "byte"), number("0"), number("1")),
    *(number("1.00000000000000000001", "decimal"), number("1.5", "float"), number("12345678901234567890")),
    *(
        '"a"',
        '"a "',
        '"a\\n"',
        '"a!"',
        '"a\\""',
        '"a\\\\"',
        '"b"',
        '"a"@en',
        '"b"@de',
        number("false", "boolean"),
        number("1", "boolean"),
    ),
    *(number("2001-01-01T00:00:00Z", "dateTime"), number("2001-01-01T00:00:00-01:00", "dateTime")),
    *(number("12001-01-01T00:00:00", "dateTime"), number("2001-01-01", "date"), number("P1D", "duration")),
    *(number("P1M", "duration"), '"a"^^<http://ex/t>', '"b"^^<http://ex/t>'),
]


def test_terms_are_in_the_order_of_their_classes_and_values() -> None:
    texts = [text for text in ORDERED if text not in ('"a "', '"a\\n"')]
    arena = Arena()
    ids = np.array([arena.intern(text.encode()) for text in texts])
    keys = TermOrder(arena).keys(ids)
    found = [tuple(key[:3]) for key in keys.tolist()]
    assert found == sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_min_and_max_go_through_the_order_of_terms_one_by_one(seed: int) -> None:
    # A newline comes before a space, and both before an exclamation mark.
    texts = [text for text in ORDERED if text not in ('"a "', '"a\\n"')]
    texts[texts.index('"a"') + 1 : texts.index('"a"') + 1] = ['"a\\n"', '"a "']
    arena = Arena()
    operator = GroupRows(0, [Aggregation("MIN", (0,)), Aggregation("MAX", (0,))], arena)
    left = list(np.random.default_rng(seed).permutation(len(texts)))
    ids = np.array([[arena.intern(text.encode())] for text in texts])
    none = np.zeros(len(left), np.int64)
    operator.step(Changes(none, none + 1, ids[left]))
    for time, gone in enumerate(left[:-1]):
        out = operator.step(Changes(np.array([time]), np.array([-1]), ids[[gone]]))
        left = [k for k in left if k != gone]
        if len(out):
            assert [arena.text(int(id)) for id in out.rows[-1]] == [texts[min(left)], texts[max(left)]]


def test_a_concatenation_that_is_too_long_warns_and_other_columns_and_queries_go_on(
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    monkeypatch.setattr(groups, "LONGEST_STRING", 1000)
    session = tw.Session()
    where = f"FROM STREAM <{STREAM}> [RANGE 10s] WHERE {{ ?s <http://ex/p> ?o }}"
    long = session.register(f"SELECT (GROUP_CONCAT(?o) AS ?all) (COUNT(?o) AS ?n) {where}")
    other = session.register(f"SELECT ?s {where}")
    text, warned = "x" * 400, recwarn
    for k in range(4):
        session.push(STREAM, at=1000 * k, graph=f'<http://ex/{k}> <http://ex/p> "{text}" .')
        session.advance(1000 * k)
        if k == 1:
            warned.clear()
    assert "GROUP_CONCAT has more than" in str(warned.pop().message)
    rows = [row.bindings for row in long.poll() if row.op == "+"]
    assert [row["n"] for row in rows] == [number(str(k)) for k in (1, 2, 3, 4)]
    assert [len(row["all"]) - 2 if "all" in row else None for row in rows] == [400, 801, None, None]
    assert len(other.poll()) == 4


@pytest.mark.soak
def test_a_concatenation_of_a_hundred_megabytes_has_no_value_and_what_is_left_of_it_has_one_again() -> None:
    session = tw.Session()
    where = f"FROM STREAM <{STREAM}> [RANGE 100s] WHERE {{ ?s <http://ex/p> ?o }}"
    long = session.register(f"SELECT (GROUP_CONCAT(?o; SEPARATOR='') AS ?all) (COUNT(?o) AS ?n) {where}")
    other = session.register(f"SELECT ?s {where}")
    graphs = [f'<http://ex/{k}> <http://ex/p> "{k:02}{"x" * 1_000_000}" .' for k in range(100)]
    for k, graph in enumerate(graphs[:16]):
        session.push(STREAM, at=1000 * k, graph=graph)
    with pytest.warns(tw.ThalwegWarning, match="GROUP_CONCAT has more than 16,777,216 characters"):
        session.push(STREAM, at=16_000, graph=graphs[16])
    for k, graph in enumerate(graphs[17:], 17):
        session.push(STREAM, at=1000 * k, graph=graph)
    sizes = [len(row["all"]) - 2 if "all" in row.bindings else None for row in long.poll() if row.op == "+"]
    assert sizes == [1_000_002 * k for k in range(1, 17)] + [None] * 84
    assert len(other.poll()) == 100
    session.advance(190_000)
    [row] = long.answer()
    assert len(row["all"]) - 2 == 9 * 1_000_002


@pytest.mark.parametrize("many", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_groups_come_and_go_and_their_memory_with_them(many: int) -> None:
    arena = Arena()
    operator = GroupRows(1, [Aggregation("COUNT", (), rows=True), Aggregation("MAX", (1,))], arena)
    ids = arena.intern_all([b"<http://ex/%d>" % k for k in range(many)])
    rows, none = np.stack([ids, ids], axis=1), np.zeros(many, np.int64)
    empty = operator.nbytes
    assert len(operator.step(Changes(none, none + 1, rows))) == many
    assert operator.held == 2 * many
    full = operator.nbytes
    assert len(operator.step(Changes(none + 1, none - 1, rows))) == many
    assert operator.give_back(0)
    assert operator.held == 0
    assert operator.nbytes < full / 10 + empty


@pytest.mark.parametrize(
    ("select", "tail", "reason"),
    [
        ("?s (COUNT(*) AS ?n)", "", r"1:8: \?s is no key of GROUP BY"),
        ("(?o + 1 AS ?x)", "GROUP BY ?s", r"\?o is no key of GROUP BY"),
        ("*", "GROUP BY ?s", r"SELECT \* cannot stand with GROUP BY"),
        ("?s", "GROUP BY ?s HAVING (?o > 1)", r"\?o is no key of GROUP BY"),
        ("(SUM(COUNT(?o)) AS ?x)", "", "an aggregate cannot stand inside another one"),
        ("?s", "GROUP BY (?o AS ?s)", r"\?s has a value already"),
        ("(COUNT(?o) AS ?s)", "GROUP BY ?o", r"\?s has a value already"),
    ],
)
def test_what_has_no_value_in_a_group_is_refused_with_its_place(select: str, tail: str, reason: str) -> None:
    text = f"SELECT {select} FROM STREAM <{STREAM}> WHERE {{ ?s <http://ex/p> ?o }} {tail}"
    with pytest.raises(tw.errors.QueryError, match=reason):
        tw.Session().register(text)


def test_an_aggregate_in_a_filter_of_the_pattern_is_refused() -> None:
    with pytest.raises(tw.errors.QueryError, match="an aggregate cannot stand here"):
        tw.parse("SELECT ?s WHERE { ?s <http://ex/p> ?o FILTER (COUNT(?o) > 1) }", stream=STREAM)


def test_now_answers_each_event_with_its_groups() -> None:
    session = tw.Session()
    query = session.register(
        f"SELECT ?o (COUNT(*) AS ?n) FROM STREAM <{STREAM}> [NOW] WHERE {{ ?s <http://ex/p> ?o }} GROUP BY ?o"
    )
    for at in (1, 2):
        graph = "".join(f"<http://ex/{k}> <http://ex/p> <http://ex/o{k % at}> .\n" for k in range(4))
        session.push(STREAM, at=at, graph=graph)
    session.advance(5)
    assert sorted((row.at, row["n"]) for row in query.poll()) == [
        (1000, number("4")),
        (2000, number("2")),
        (2000, number("2")),
    ]


def test_construct_takes_aggregates_of_a_subselect() -> None:
    session = tw.Session()
    query = session.register(
        f"CONSTRUCT {{ ?s <http://ex/total> ?n }} FROM STREAM <{STREAM}> [RANGE 10s] "
        "WHERE { { SELECT ?s (SUM(?o) AS ?n) WHERE { ?s <http://ex/p> ?o } GROUP BY ?s } }"
    )
    session.push(STREAM, at=1, graph=f"<http://ex/a> <http://ex/p> {number('2')} .\n")
    session.push(STREAM, at=2, graph=f"<http://ex/a> <http://ex/p> {number('3')} .\n")
    session.advance(3)
    assert [(row.op, row["object"]) for row in query.poll()] == [
        ("+", number("2")),
        ("-", number("2")),
        ("+", number("5")),
    ]
