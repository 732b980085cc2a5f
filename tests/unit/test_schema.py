"""Schemas: their axioms, what is ignored, the closure of graphs, and the reduced network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.cli import main
from thalweg.errors import DataError, LimitError, ThalwegWarning, UsageError
from thalweg.schema import DEFAULT, RULES, Network, Schema, close_triples, rules_of, schema_of
from thalweg.schema.axioms import TYPE
from thalweg.testing import entailment as judge
from thalweg.testing.strategies import CLASSES, NODES, PREDICATES, schemas, typed_triples

PREFIXES = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix : <http://ex/> .
"""
A, B, C = (f"<http://ex/{name}>" for name in "ABC")
X, P, Q = (f"<http://ex/{name}>" for name in "xpq")


def closed(schema: str, *data: tuple[str, str, str], rules: str | None = None) -> set[tuple[str, str, str]]:
    return set(close_triples(schema_of(PREFIXES + schema, rules), data)) - set(data)


@given(
    schemas(transitive=True),
    st.lists(typed_triples(blanks=True), max_size=6),
    st.one_of(st.just(set(RULES)), st.just(set(DEFAULT)), st.sets(st.sampled_from(RULES), min_size=1)),
)
def test_the_closure_of_a_graph_is_that_of_the_rules_as_they_are_defined(schema, data, rules):
    made = close_triples(Schema.of(schema, rules), data)
    assert len(made) == len(set(made))
    assert set(made) == judge.closed(schema, data, rules)


@given(
    schemas(),
    st.lists(typed_triples(), max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from([None, None, *NODES]),
            st.sampled_from([None, judge.A, *PREDICATES]),
            st.sampled_from([None, None, *CLASSES]),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_the_reduced_network_gives_what_patterns_see_and_reads_what_that_follows_from(schema, data, patterns):
    from thalweg.rdf.arena import Arena
    from thalweg.schema import Expansion

    def sees(triple, terms):
        return all(term is None or term == one for term, one in zip(terms, triple, strict=True))

    network = Network(Schema.of(schema), tuple(patterns))
    wanted = [*patterns, *network.wanted()]
    arena = Arena()
    read = [triple for triple in data if any(sees(triple, terms) for terms in wanted)]
    columns = [arena.intern_all([t[k].encode() for t in read]) for k in range(3)]
    derived = Expansion(network, arena).derive(*columns)
    found = set(zip(*(arena.texts(column) for column in derived[1:]), strict=True))
    expected = {
        triple for triple in judge.closed(schema, data) if any(sees(triple, terms) for terms in patterns)
    }
    assert {triple for triple in found if any(sees(triple, terms) for terms in patterns)} == expected


def test_a_literal_may_be_a_subject_on_the_way():
    made = closed(":p owl:inverseOf :q . :q rdfs:range :C .", (X, P, '"5"'))
    assert made == {(X, TYPE, C)}


def test_a_blank_node_of_the_schema_works_on_the_way_and_is_not_answerable():
    made = closed(":A rdfs:subClassOf _:b . _:b rdfs:subClassOf :C . :p rdfs:domain _:b .", (X, P, X))
    assert made == {(X, TYPE, C)}


def test_axioms_about_rdf_type_apply_as_about_any_property():
    made = closed("rdf:type rdfs:subPropertyOf :q . :A rdfs:subClassOf :B .", (X, TYPE, A))
    assert made == {(X, TYPE, B), (X, Q, A), (X, Q, B)}
    assert closed(":p rdfs:subPropertyOf rdf:type . :A rdfs:subClassOf :B .", (X, P, A)) == {
        (X, TYPE, A),
        (X, TYPE, B),
    }


def test_a_cycle_of_classes_makes_them_equal_and_a_class_may_be_below_itself():
    schema = ":A rdfs:subClassOf :A, :B . :B rdfs:subClassOf :C . :C rdfs:subClassOf :A ."
    assert closed(schema, (X, TYPE, B)) == {(X, TYPE, A), (X, TYPE, C)}


def test_schema_vocabulary_in_the_data_is_plain_predicates():
    sub = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
    assert closed(":p rdfs:domain :A .", (X, TYPE, A), (A, sub, B)) == set()
    assert closed("rdfs:subClassOf rdfs:subPropertyOf :q .", (A, sub, B)) == {(A, Q, B)}


def test_no_triple_of_the_schema_is_answerable():
    assert closed(":A rdfs:subClassOf :B . :x a :A .") == set()


@pytest.mark.parametrize(
    ("axiom", "reason"),
    [
        (':A rdfs:subClassOf "B" .', "a literal is no class"),
        (':p rdfs:subPropertyOf "q" .', "a literal is no property"),
        (':p rdfs:domain "C" .', "a literal is no class"),
        (":A owl:disjointWith :B .", "owl:disjointWith is not supported"),
        (":p a owl:FunctionalProperty .", "owl:FunctionalProperty is not supported"),
        (":x owl:sameAs :y .", "owl:sameAs is not supported: it would replace terms in all triples"),
        (":p a owl:TransitiveProperty .", "owl:TransitiveProperty needs the rule transitive"),
    ],
)
def test_what_is_not_supported_is_listed_once_ignored_and_counted(axiom, reason):
    with pytest.warns(ThalwegWarning, match="1 axiom is ignored") as caught:
        schema = schema_of(f"{PREFIXES}{axiom} :A rdfs:subClassOf :B . :A rdfs:label 'A' . :A a owl:Class .")
    assert len(caught) == 1
    assert len(schema.ignored) == 1
    assert schema.ignored[0].reason.startswith(reason)
    assert schema.ignored[0].count == 1
    assert (schema.size, schema.others) == (1, 2)


def test_a_schema_with_an_error_is_refused_with_its_place(tmp_path):
    path = tmp_path / "broken.ttl"
    path.write_text(PREFIXES + ":A rdfs:subClassOf .\n")
    with pytest.raises(DataError, match=r"broken\.ttl:5:"):
        schema_of(path)
    with pytest.raises(UsageError, match="no file"):
        schema_of("no/such/file.ttl")
    with pytest.raises(UsageError, match="not of type int"):
        schema_of(5)


@pytest.mark.parametrize(
    ("end", "place"),
    [
        (":A rdfs:subClassOf", ":5:"),  # truncated
        (":A rdfs:subClassOf :B ; ]", ":5:"),
        ('"A" rdfs:subClassOf :B .', ":5:"),
        ("\x00\x01\x02", ":5:"),
        ("unknown:A rdfs:subClassOf :B .", ":5:"),
    ],
)
def test_a_malformed_schema_is_refused_at_the_command_line_too(end, place, tmp_path, capsys):
    query, schema = tmp_path / "q.rq", tmp_path / "schema.ttl"
    query.write_text("SELECT ?x FROM STREAM <http://ex/s> { ?x a <http://ex/B> }")
    schema.write_text(f"{PREFIXES}{end}")
    with pytest.raises(SystemExit) as done:
        main(["explain", str(query), "--schema", str(schema)])
    assert done.value.code == 1
    assert f"schema.ttl{place}" in capsys.readouterr().err
    with pytest.raises(DataError):
        tw.Session().register(query.read_text(), schema=schema)


@pytest.mark.parametrize(
    "text", ["", ":A a owl:Class ; rdfs:label 'A' .", ":A rdfs:subClassOf :A .", ":x :p :y ."]
)
def test_a_schema_from_which_nothing_follows_is_warned_of(text):
    with pytest.warns(ThalwegWarning, match="nothing follows from this schema"):
        schema_of(PREFIXES + text)


def test_contradictory_axioms_give_what_each_of_them_gives():
    with pytest.warns(
        ThalwegWarning, match=r"3 axioms are ignored: .*disjointWith .*; owl:complementOf .*; owl:Irr"
    ):
        schema = schema_of(
            f"{PREFIXES}:A owl:disjointWith :B ; owl:complementOf :B ; rdfs:subClassOf :B . "
            ":p a owl:IrreflexiveProperty, owl:SymmetricProperty ."
        )
    assert close_triples(schema, [(X, TYPE, A)]) == [(X, TYPE, A), (X, TYPE, B)]


def test_a_hierarchy_that_would_take_too_long_to_flatten_is_refused_when_a_query_comes(monkeypatch):
    monkeypatch.setattr("thalweg.schema.network.MOST_STEPS", 10_000)
    chain = "".join(f":C{n} rdfs:subClassOf :C{n + 1} .\n" for n in range(1_000))
    session = tw.Session()
    with pytest.raises(LimitError, match="too deep"):
        session.register("SELECT * FROM STREAM <http://ex/s> { ?x a ?c }", schema=PREFIXES + chain)
    query = session.register(
        "SELECT * FROM STREAM <http://ex/s> { ?x a <http://ex/C9> }", schema=PREFIXES + chain
    )
    session.push("http://ex/s", at=1, graph=f"<http://ex/x> {TYPE} <http://ex/C1> .")
    assert len(query.poll()) == 1


def test_a_schema_may_be_a_file_of_another_format(tmp_path):
    path = tmp_path / "schema.nt"
    path.write_text("<http://ex/A> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <http://ex/B> .\n")
    assert schema_of(str(path)) == schema_of(PREFIXES + ":A rdfs:subClassOf :B .")


def test_the_rules_are_a_list_of_names():
    assert rules_of("default,transitive") == RULES
    assert rules_of(["inverseof", "RDFS2"]) == ("rdfs2", "owl:inverseOf")
    with pytest.raises(UsageError, match=r"owl:sameAs is refused: it would replace"):
        rules_of(["owl:sameAs"])
    with pytest.raises(UsageError, match="did you mean rdfs9"):
        rules_of("rdfs99")
    with pytest.raises(UsageError, match="at least one name"):
        rules_of([])


def test_rules_that_are_not_named_are_not_applied():
    with pytest.warns(ThalwegWarning, match="rdfs:domain needs the rule rdfs2"):
        schema = schema_of(f"{PREFIXES}:p rdfs:domain :A . :A rdfs:subClassOf :B .", ["rdfs9"])
    assert close_triples(schema, [(X, P, X), (X, TYPE, A)])[2:] == [(X, TYPE, B)]


def test_a_schema_is_known_by_its_axioms_and_rules_and_comes_back_from_its_text():
    one = schema_of(
        PREFIXES + ":p rdfs:domain :A ; rdfs:range :B ; owl:inverseOf :q . :A rdfs:subClassOf :B ."
    )
    other = schema_of(
        PREFIXES + ":A rdfs:subClassOf :B . :p owl:inverseOf :q ; rdfs:range :B ; rdfs:domain :A ."
    )
    assert one == other
    assert hash(one) == hash(other)
    again = Schema.from_text(one.as_text())
    assert (again, again.links, again.supers) == (one, one.links, one.supers)
    assert one != schema_of(PREFIXES + ":p rdfs:domain :A .")
