"""Queries with operators at the command line: rows with unbound variables, errors in expressions, and huge queries."""

import csv
import time

import pytest
from commands import EX, STREAM, Commands

INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
DATA = [
    f'<{EX}ann> <{EX}name> "Ann" .',
    f'<{EX}ann> <{EX}mail> "ann@ex" .',
    f'<{EX}ben> <{EX}name> "Ben" .',
    f'<{EX}ann> <{EX}age> "30"^^{INTEGER} .',
    f'<{EX}ben> <{EX}age> "0"^^{INTEGER} .',
]
ANN, BEN = f"<{EX}ann>", f"<{EX}ben>"


@pytest.fixture
def thalweg(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.nt").write_text("\n".join(DATA) + "\n")
    return Commands(tmp_path, capfdbinary)


def run(thalweg, text, *options):
    (thalweg.folder / "q.rq").write_text(f"PREFIX : <{EX}> {text}")
    return thalweg.run("data.nt", *options, query="q.rq")


def select(body, form="SELECT *", window="[RANGE 100]"):
    return f"{form} FROM STREAM <{STREAM}> {window} WHERE {{ {body} }}"


OPTIONAL = select("?x :name ?n OPTIONAL { ?x :mail ?m }", "SELECT ?x ?m")


def test_an_unbound_variable_is_absent_from_json_lines(thalweg):
    rows = [(op, bindings) for _, op, bindings in run(thalweg, OPTIONAL).rows]
    assert sorted((op, *bindings.items()) for op, bindings in rows) == [
        ("+", ("x", ANN)),
        ("+", ("x", ANN), ("m", '"ann@ex"')),
        ("+", ("x", BEN)),
        ("-", ("x", ANN)),
    ]


def test_an_unbound_variable_is_an_empty_cell_of_csv(thalweg, tmp_path):
    assert run(thalweg, OPTIONAL, "--out", "o.csv").code == 0
    head, *rows = list(csv.reader((tmp_path / "o.csv").open()))
    assert head == ["at", "op", "graph", "x", "m"]
    assert sorted(row[1:] for row in rows) == [
        ["+", "", ANN, ""],
        ["+", "", ANN, '"ann@ex"'],
        ["+", "", BEN, ""],
        ["-", "", ANN, ""],
    ]


def test_ask_has_rows_without_bindings(thalweg):
    done = run(thalweg, select("?x :mail ?m", "ASK", "[RANGE 3]"), "--drain")
    assert [(op, bindings) for _, op, bindings in done.rows] == [("+", {}), ("-", {})]


def test_the_graph_of_a_construct_over_optional_lacks_the_triples_of_unbound_variables(thalweg, tmp_path):
    form = "REGISTER ISTREAM <http://ex/out> AS CONSTRUCT { ?x :label ?n . ?x :mbox ?m }"
    done = run(thalweg, select("?x :name ?n OPTIONAL { ?x :mail ?m }", form), "--out", "x.nq")
    assert done.code == 0
    lines = (tmp_path / "x.nq").read_text().splitlines()
    assert [
        line.split(" <http://ex/out#")[0] for line in lines if not line.startswith("<http://ex/out#")
    ] == [
        f'{ANN} <{EX}label> "Ann"',
        f'{ANN} <{EX}mbox> "ann@ex"',
        f'{BEN} <{EX}label> "Ben"',
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("?x :age ?a FILTER(10 / ?a > 0)", [ANN]),
        ("?x :age ?a FILTER(10 / ?a > 0 || ?a = 0)", [ANN, BEN]),
        ("?x :age ?a FILTER(?x + 1 > 0)", []),
        ("?x :age ?a FILTER(!(?x + 1 > 0))", []),
        ("?x :age ?a FILTER(STRLEN(?a) > 0)", []),
        ("?x :name ?n FILTER(REGEX(?n, '(A'))", []),
        ("?x :age ?a FILTER(0e0 / 0e0 = 0e0 / 0e0)", []),
        ("?x :age ?a FILTER(1e308 * 10 > 1e308)", [ANN, BEN]),
        (f"?x :age ?a FILTER(?a < {'9' * 500}.5)", [ANN, BEN]),
    ],
)
def test_an_error_in_a_filter_leaves_the_row_out_and_ends_no_run(thalweg, body, expected):
    done = run(thalweg, select(body))
    assert done.code == 0
    assert sorted(bindings["x"] for _, _, bindings in done.rows) == expected


def test_an_error_in_bind_leaves_the_variable_unbound(thalweg):
    done = run(thalweg, select("?x :age ?a BIND(10 / ?a AS ?q) BIND(?x + 1 AS ?e)", "SELECT ?x ?q ?e"))
    assert [(bindings["x"], "q" in bindings, "e" in bindings) for _, _, bindings in done.rows] == [
        (ANN, True, False),
        (BEN, False, False),
    ]


def test_a_regex_that_would_backtrack_for_ever_ends_soon(thalweg, tmp_path):
    lines = [f'<{EX}x{k}> <{EX}p> "{"a" * (40 + 500 * k)}!" .' for k in range(10)]
    (tmp_path / "data.nt").write_text("\n".join(lines) + "\n")
    start = time.monotonic()
    body = "?x :p ?n FILTER(!REGEX(?n, '^(a+)+$')) BIND(REPLACE(?n, '(a*)*b', 'x') AS ?r)"
    done = run(thalweg, select(body))
    assert done.code == 0
    assert len(done.rows) == 10
    assert time.monotonic() - start < 30


def test_values_with_many_rows_are_looked_up(thalweg):
    terms = " ".join(f":v{k}" for k in range(10_000))
    done = run(thalweg, select(f"?x :age ?a VALUES ?x {{ {terms} :ann }}"))
    assert [bindings["x"] for _, _, bindings in done.rows] == [ANN]


def test_optionals_nested_deeply_are_answered(thalweg):
    depth = 60
    nested = "".join(f"OPTIONAL {{ ?x{k} :name ?n{k} . ?x{k} :next ?x{k + 1} " for k in range(depth))
    done = run(thalweg, select(f"?x0 :mail ?m {nested} {'}' * depth}"))
    assert done.code == 0
    assert [bindings for _, _, bindings in done.rows] == [{"x0": ANN, "m": '"ann@ex"'}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (select(" . ".join(f"?x :p{k} ?y{k}" for k in range(200))), "200 triple patterns is not supported"),
        (
            select(" UNION ".join(f"{{ ?x :p{k} ?y }}" for k in range(1001))),
            "1,001 triple patterns is not supported: 1,000 are the most",
        ),
        (select("?x :p ?y") + "#" + "x" * 2_000_000, "2,000,000 are the most"),
        (select("{" * 1000 + "?x :p ?y" + "}" * 1000), "nested more than 300 levels deep"),
        (select("?x :p ?y FILTER(?y > NOW())"), "NOW() is supported under [NOW] only"),
        (select("SERVICE <http://ex/sparql> { ?x :p ?y }"), "a query makes no network call"),
    ],
)
def test_a_query_that_is_too_large_or_not_supported_is_refused_with_a_reason(thalweg, text, reason):
    start = time.monotonic()
    done = run(thalweg, text)
    assert done.code == 2
    assert reason in done.err
    assert time.monotonic() - start < 30
