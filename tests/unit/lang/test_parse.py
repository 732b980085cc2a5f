from pathlib import Path

import pytest

from thalweg.algebra.terms import Const, Var
from thalweg.algebra.windows import Now, Range, Unbounded
from thalweg.lang import parse

EX = "http://ex/"
PREFIX = "PREFIX : <http://ex/>\n"
STREAM = "http://ex/s"
LUBM = Path(__file__).parents[3] / "src" / "thalweg" / "bench" / "queries" / "lubm"


def patterns(body, prologue=PREFIX):
    return [str(p) for p in parse(f"{prologue} SELECT * {{ {body} }}", stream=STREAM).patterns]


def objects(*texts):
    return [
        p.o.text for p in parse(f"{PREFIX} SELECT * {{ ?x :p {', '.join(texts)} }}", stream=STREAM).patterns
    ]


def window(written):
    return parse(f"SELECT * FROM STREAM <{STREAM}> {written} {{ ?x ?y ?z }}").sources[0].window


def test_a_bare_query_reads_the_given_stream_as_a_dynamic_graph():
    query = parse("SELECT ?x { ?x ?y ?z }", stream=STREAM)
    assert (query.language, query.operator, query.output) == ("SPARQL", None, None)
    assert query.streams == (STREAM,)
    assert query.sources[0].window == Unbounded()
    assert query.text == "SELECT ?x { ?x ?y ?z }"


def test_from_stream_wins_over_the_given_stream():
    assert parse("SELECT * FROM STREAM <http://ex/t> { ?x ?y ?z }", stream=STREAM).streams == ("http://ex/t",)


@pytest.mark.parametrize("number", range(1, 8))
def test_the_lubm_queries_parse(number):
    query = parse((LUBM / f"q{number}.rq").read_bytes(), stream=STREAM)
    assert query.flat
    assert len(query.patterns) == {1: 6, 2: 2, 3: 6, 4: 5, 5: 2, 6: 4, 7: 6}[number]
    assert bool(query.fixed) == (number in (4, 5, 6))


def test_abbreviations_are_written_out():
    assert patterns("?x a :A ; :p ?y, ?z ; . ?y :q ?z .") == [
        "?x <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://ex/A>",
        "?x <http://ex/p> ?y",
        "?x <http://ex/p> ?z",
        "?y <http://ex/q> ?z",
    ]


def test_blank_nodes_are_variables_that_are_not_shown():
    query = parse(PREFIX + "SELECT * { _:b :p [ :q ?x ] . [] :r _:b }", stream=STREAM)
    assert query.select == ("x",)
    assert [str(p) for p in query.patterns] == [
        "_:b <http://ex/p> _:[1]",
        "_:[1] <http://ex/q> ?x",
        "_:[2] <http://ex/r> _:b",
    ]
    assert all(Var(name).anonymous for name in query.variables if name != "x")


def test_a_nested_group_is_a_join():
    assert patterns("{ ?x :p ?y { ?y :q ?z } } ?z :r ?x") == [
        "?x <http://ex/p> ?y",
        "?y <http://ex/q> ?z",
        "?z <http://ex/r> ?x",
    ]


def test_literals_keep_their_lexical_form():
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert objects("01", "+5", "-01", "1.50", "+1.5", "-0.0", "1e0", "+1E3", "-1.0e-1", "true") == [
        f'"01"^^<{xsd}integer>',
        f'"+5"^^<{xsd}integer>',
        f'"-01"^^<{xsd}integer>',
        f'"1.50"^^<{xsd}decimal>',
        f'"+1.5"^^<{xsd}decimal>',
        f'"-0.0"^^<{xsd}decimal>',
        f'"1e0"^^<{xsd}double>',
        f'"+1E3"^^<{xsd}double>',
        f'"-1.0e-1"^^<{xsd}double>',
        f'"true"^^<{xsd}boolean>',
    ]
    assert objects(f'"007"^^<{xsd}integer>', '"x"^^:dt', f'"s"^^<{xsd}string>', '"Hi"@EN-gb') == [
        f'"007"^^<{xsd}integer>',
        '"x"^^<http://ex/dt>',
        '"s"',
        '"Hi"@en-gb',
    ]


@pytest.mark.parametrize(
    ("written", "lexical"),
    [
        ('"a\tb"', "a\tb"),
        ('"#no comment"', "#no comment"),
        ("'a\"b'", 'a"b'),
        ("'a\\\"b\\'c'", "a\"b'c"),
        ('"""a\n"b" \\""""', 'a\n"b" "'),
        ("'''it's'''", "it's"),
        ('"\\u00e9dead\\U0001F600"', "édead\U0001f600"),
        ('"\\u0022\\u005C\\u000a"', '"\\\n'),
        ('"\\\\u0041"', "\\u0041"),
        ('""', ""),
        ('"{[( FROM STREAM"', "{[( FROM STREAM"),
    ],
)
def test_a_string_means_what_sparql_says(written, lexical):
    assert objects(written) == [Const.literal(lexical).text]


def test_names_are_resolved():
    assert patterns("<#a> <../c> <> . :a\\,b :%41.b ?x", "BASE <http://ex/x/>\nPREFIX : <p#>") == [
        "<http://ex/x/#a> <http://ex/c> <http://ex/x/>",
        "<http://ex/x/p#a,b> <http://ex/x/p#%41.b> ?x",
    ]


def test_an_absolute_iri_is_taken_as_written():
    assert patterns("<http://ex/a/../b> ?p ?o", "BASE <http://ex/>") == ["<http://ex/a/../b> ?p ?o"]


def test_lists_become_cells():
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    assert patterns("?x :p (?y)") == [
        "?x <http://ex/p> _:[1]",
        f"_:[1] <{rdf}first> ?y",
        f"_:[1] <{rdf}rest> <{rdf}nil>",
    ]


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("", Unbounded()),
        ("[NOW]", Now()),
        ("[RANGE 10]", Range(10_000)),
        ("[range pt10s step 5s]", Range(10_000_000, 5_000_000)),
        ("[RANGE 5s STEP 10s]", Range(5_000_000, 10_000_000)),
        ("[RANGE 5m TUMBLING]", Range(300_000_000, 300_000_000)),
        ("[ RANGE 10 s # wide\n STEP 1 ]", Range(10_000_000, 1000)),
        ("[RANGE PT1.5S]", Range(1_500_000)),
    ],
)
def test_a_window_is_read_from_its_brackets(written, meaning):
    assert window(written) == meaning


def test_streams_with_one_window_are_one_source():
    query = parse("SELECT * FROM STREAM <a:a> [RANGE 1s] FROM STREAM <b:b> [RANGE PT1S] { ?x ?y ?z }")
    assert [(s.streams, s.name) for s in query.sources] == [(("a:a", "b:b"), None)]


def test_rsp_ql_names_its_windows():
    query = parse(
        """PREFIX : <http://ex/>
        REGISTER istream <http://ex/out> AS
        SELECT DISTINCT ?x
        FROM NAMED WINDOW <w> ON STREAM :s [RANGE PT10S STEP PT5S]
        from named window :v on :t [RANGE 500]
        FROM NAMED WINDOW :unused ON :u [NOW]
        WHERE { WINDOW :v { ?x :p ?y . } WINDOW <w> { ?y :q ?z } window :v { ?z :r ?x } }"""
    )
    assert (query.language, query.operator, query.output) == ("RSP-QL", "ISTREAM", "http://ex/out")
    assert query.distinct
    assert [(s.name, s.streams, str(s.window)) for s in query.sources] == [
        ("w", ("http://ex/s",), "[RANGE 10s STEP 5s]"),
        ("http://ex/v", ("http://ex/t",), "[RANGE 500ms]"),
    ]
    assert [p.source for p in query.patterns] == [1, 0, 1]


def test_windows_and_a_default_graph_go_together():
    query = parse(
        "SELECT * FROM STREAM <a:a> FROM NAMED WINDOW <w> ON <b:b> [RANGE 1] "
        "{ ?x ?y ?z WINDOW <w> { ?z ?y ?x } }"
    )
    assert [(query.sources[p.source].name, str(p)) for p in query.patterns] == [
        (None, "?x ?y ?z"),
        ("w", "?z ?y ?x"),
    ]


@pytest.mark.parametrize("name", ["q", "<http://ex/q>", ":q"])
def test_c_sparql_is_recognised(name):
    query = parse(
        f"REGISTER QUERY {name} AS {PREFIX} SELECT ?x FROM STREAM :s [RANGE 30m STEP 5m] {{ ?x ?y ?z }}"
    )
    assert (query.language, query.operator, query.output) == ("C-SPARQL", None, None)
    assert str(query.sources[0]) == "<http://ex/s> [RANGE 30m STEP 5m]"


def test_a_projection_may_name_what_no_pattern_binds():
    assert parse("SELECT ?q ?x ?x { ?x ?y ?z }", stream=STREAM).select == ("q", "x")


def test_a_pattern_has_its_position_in_the_text():
    query = parse('SELECT *\n{ ?x <a:a> "\\u0041" ;\n     <b:b> ?y ,\n  ?z . }', stream=STREAM)
    assert [(p.line, p.column) for p in query.patterns] == [(2, 3), (3, 6), (4, 3)]


def test_a_byte_order_mark_is_no_part_of_a_query():
    assert parse("\ufeffSELECT * { ?x ?y ?z }".encode(), stream=STREAM).select == ("x", "y", "z")
    assert parse("\ufeffSELECT * { ?x ?y ?z }", stream=STREAM).patterns[0].column == 12


def test_thousands_of_patterns_are_one_query():
    body = " . ".join(f"?x{i} <a:a> ?x{i + 1}" for i in range(2000))
    assert len(parse(f"SELECT * {{ {body} }}", stream=STREAM).patterns) == 2000


def test_rdflib_itself_is_not_changed():
    from rdflib.plugins.sparql.parser import parseQuery

    parse("SELECT * { ?x <a:a> 01 }", stream=STREAM)
    (triple,) = parseQuery("SELECT * { ?x <a:a> 01 } # comment")[1].where.part[0].triples
    assert str(triple[2]) == "1"
