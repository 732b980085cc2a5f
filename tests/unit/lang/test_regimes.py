"""RSP-QL's clause of entailment: the regime names the rules, the schema is given with the query."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg as tw
from thalweg.cli import main
from thalweg.errors import QueryError, UsageError
from thalweg.schema import Schema

S = "http://ex/s"
SCHEMA = """PREFIX : <http://ex/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
:Student rdfs:subClassOf :Person . :teaches owl:inverseOf :taughtBy . :taughtBy rdfs:domain :Student .
:part a owl:TransitiveProperty ."""
DATA = "PREFIX : <http://ex/> :ann a :Student . :bob :teaches :cid . :cid :part :d . :d :part :e ."
RDFS = "<http://www.w3.org/ns/entailment/RDFS>"


def answer(text: str, **options: object) -> set[str]:
    session = tw.Session()
    query = session.register(f"PREFIX : <http://ex/> {text}", **options)
    session.push(S, at=1, graph=DATA, format="turtle")
    session.advance(30_000)
    return {row["x"].rpartition("/")[2][:-1] for row in query.poll()}


@pytest.mark.parametrize(
    ("regime", "people"), [(RDFS, {"ann"}), ("<urn:thalweg:rules:default>", {"ann", "cid"})]
)
@pytest.mark.parametrize(
    "text",
    [
        "REGISTER RSTREAM :o UNDER ENTAILMENT REGIME {} AS SELECT ?x FROM STREAM :s [RANGE 10s STEP 10s] "
        "WHERE {{ ?x a :Person }}",
        "REGISTER STREAM :o UNDER ENTAILMENT REGIME {} AS SELECT ?x FROM STREAM :s {{ ?x a :Person }}",
        "REGISTER QUERY q COMPUTED EVERY 5s under entailment regime {} AS SELECT ?x FROM STREAM :s [RANGE 10s STEP 5s] "
        "WHERE {{ ?x a :Person }}",
        "SELECT ?x FROM STREAM :s UNDER ENTAILMENT REGIME {} WHERE {{ ?x a :Person }}",
        "SELECT ?x UNDER ENTAILMENT REGIME {} FROM NAMED WINDOW :w ON :s [RANGE 9s] "
        "WHERE {{ WINDOW :w {{ ?x a :Person }} }}",
    ],
)
def test_a_regime_names_the_rules_in_every_language(text, regime, people):
    assert answer(text.format(regime), schema=SCHEMA) == people


def test_a_list_of_rules_may_have_transitive():
    text = "SELECT ?x FROM STREAM :s UNDER ENTAILMENT REGIME <urn:thalweg:rules:transitive> { :cid :part ?x }"
    assert answer(text, schema=SCHEMA) == {"d", "e"}


def test_a_regime_needs_a_schema_and_has_its_own_rules():
    text = (
        f"PREFIX : <http://ex/>\nSELECT ?x FROM STREAM :s UNDER ENTAILMENT REGIME {RDFS} {{ ?x a :Person }}"
    )
    with pytest.raises(QueryError, match="needs a schema") as error:
        tw.Session().register(text)
    assert (error.value.line, error.value.column) == (2, 50)
    with pytest.raises(UsageError, match="says its rules itself"):
        tw.Session().register(text, schema=SCHEMA, rules="default")
    with pytest.raises(UsageError, match="its schema is given with others"):
        tw.Session().register(text, schema=Schema.of([]))
    with pytest.raises(QueryError, match="one entailment regime"):
        tw.Session().register(text.replace("{ ?x", f"UNDER ENTAILMENT REGIME {RDFS} {{ ?x"), schema=SCHEMA)


def test_a_saved_session_keeps_the_regime():
    session = tw.Session()
    session.register(
        f"PREFIX : <http://ex/> SELECT ?x FROM STREAM :s UNDER ENTAILMENT REGIME {RDFS} {{ ?x a :Person }}",
        schema=SCHEMA,
    )
    session = tw.Session.restore(session.save())
    session.push(S, at=1, graph=DATA, format="turtle")
    assert [row["x"] for row in session.queries[0].poll()] == ["<http://ex/ann>"]


def test_the_command_line_takes_the_regime_of_the_query(tmp_path: Path, capsys):
    query, schema = tmp_path / "q.rq", tmp_path / "schema.ttl"
    query.write_text(
        f"PREFIX : <http://ex/>\nSELECT ?x FROM STREAM :s UNDER ENTAILMENT REGIME {RDFS} {{ ?x a :Person }}"
    )
    schema.write_text(SCHEMA)
    with pytest.raises(SystemExit) as done:
        main(["explain", str(query), "--schema", str(schema)])
    assert done.value.code == 0
    assert "rules rdfs2, rdfs3, rdfs5, rdfs7, rdfs9, rdfs11" in capsys.readouterr().out
    with pytest.raises(SystemExit) as done:
        main(["explain", str(query)])
    assert done.value.code == 2
    assert "q.rq:2:50: UNDER ENTAILMENT REGIME needs a schema" in capsys.readouterr().err
