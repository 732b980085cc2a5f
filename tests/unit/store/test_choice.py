"""Who answers a question to the store, what is read for it, and the file that the content is mapped from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from thalweg.store import content as contents
from thalweg.store.printing import written

S, T = "http://ex/s", "http://ex/t"
EX = "PREFIX : <http://ex/>\n"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with tw.Store.create(tmp_path / "store") as made:
        lines = "".join(f'<http://ex/n{k}> <http://ex/p> "{k % 7}" .\n' for k in range(300))
        made.push(S, at=1, graph=lines + "<http://ex/n1> <http://ex/next> <http://ex/n2> .\n")
        made.push(T, at=2, graph="<http://ex/n2> <http://ex/next> <http://ex/n3> .\n")
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (RAND() AS ?x) { :n1 :p ?o }",
        "SELECT (NOW() AS ?x) { :n1 :p ?o }",
        "DESCRIBE :n1",
    ],
)
def test_what_the_engine_does_not_answer_goes_to_oxigraph(store: tw.Store, text: str) -> None:
    assert store.explain(EX + text).choice.by == "Oxigraph"
    assert len(store.ask(EX + text)) >= 1
    assert len(store.ask(EX + text, as_of=1)) >= 1
    store.push(T, at=3, graph="<http://ex/n1> <http://ex/p> <http://ex/new> .")
    assert ("DESCRIBE" in text) == ("new" in str(store.ask(EX + text).texts.rows))


def test_a_question_about_one_subject_reads_what_is_around_it(store: tw.Store) -> None:
    found = store.explain(EX + "SELECT * { :n1 :next ?b . ?b ?p ?o OPTIONAL { ?b :next ?c . ?c ?q ?d } }")
    assert (found.choice.by, found.rows) == ("engine", 2)
    assert found.triples is not None
    assert found.triples < 10
    assert store.explain("SELECT * { ?s ?p ?o }").triples == 302


def test_a_limit_reads_as_many_triples_as_it_needs(store: tw.Store) -> None:
    store.push(T, at=3, graph="".join(f'<http://ex/n{k}> <http://ex/p> "{k % 7}" .\n' for k in range(300)))
    for text, rows in (
        ("SELECT * { ?s ?p ?o } LIMIT 5", 5),
        ("SELECT ?o { ?s :p ?o } OFFSET 297 LIMIT 9", 3),
    ):
        found = store.explain(EX + text)
        assert (found.rows, found.triples is not None and found.triples < 2 * 310) == (rows, True)
    assert store.explain("SELECT * { ?s ?p ?o } LIMIT 5").triples == 10
    assert store.explain("ASK { ?s ?p ?o }").triples == 2
    assert len(store.ask(EX + "SELECT * { ?s :next ?s } LIMIT 1")) == 0
    assert len(store.ask(EX + "SELECT DISTINCT ?o { ?s :p ?o } LIMIT 7")) == 7


def test_an_optional_part_does_not_restrict_what_is_outside_of_it(store: tw.Store) -> None:
    text = EX + "SELECT ?a ?c { ?a :p '1' OPTIONAL { ?a :next ?b . ?b :next ?c } FILTER(!BOUND(?c)) }"
    assert len(store.ask(text)) == sum(k % 7 == 1 for k in range(300)) - 1


def test_from_chooses_streams(store: tw.Store) -> None:
    def count(clauses: str, body: str = "?s :next ?o") -> int:
        return len(store.ask(f"{EX}SELECT * {clauses} WHERE {{ {body} }}"))

    assert (count(""), count(f"FROM <{S}>"), count(f"FROM <{S}> FROM <{T}>")) == (2, 1, 2)
    assert (count("FROM <http://ex/other>"), count(f"FROM NAMED <{T}>")) == (0, 0)
    assert count(f"FROM NAMED <{T}>", "GRAPH ?g { ?s :next ?o }") == 1
    assert count("", "GRAPH ?g { ?s :next ?o }") == 2


def test_windows_and_errors_are_refused_with_their_places(store: tw.Store) -> None:
    with pytest.raises(tw.QueryError, match="without windows"):
        store.ask(f"SELECT * FROM STREAM <{S}> [RANGE 10] WHERE {{ ?s ?p ?o }}")
    with pytest.raises(tw.QueryError, match="query:2:10"):
        store.ask("SELECT * {\n  SELECT }")


def test_an_answer_is_read_as_that_of_pyoxigraph(store: tw.Store) -> None:
    answer = store.ask(EX + "SELECT ?s ?o ?none { ?s :next ?o } ORDER BY DESC(?s)")
    assert [variable.value for variable in answer.variables] == ["s", "o", "none"]
    first = next(iter(answer))
    assert (first["s"].value, first[1].value, first["none"]) == ("http://ex/n2", "http://ex/n3", None)
    with pytest.raises(KeyError):
        first["other"]
    graph = store.ask(EX + "CONSTRUCT { ?o :back ?s } WHERE { ?s :next ?o }")
    assert {str(triple.predicate) for triple in graph} == {"<http://ex/back>"}
    for asked, formats in (
        ("SELECT * { ?s :next ?o }", ("json", "csv", "tsv", "xml", "table")),
        ("ASK { ?s :next ?o }", ("json", "csv", "xml", "table")),
        ("CONSTRUCT WHERE { ?s :next ?o }", ("nt", "turtle", "table")),
    ):
        for format in formats:
            assert b"".join(written(store.ask(EX + asked), format, terminal=False))
    assert bool(store.ask("ASK { ?s ?p ?o }"))
    assert not store.ask("ASK { ?s <a:no> ?o }")


def test_a_damaged_file_of_the_content_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_LEAST", 2)
    text = "SELECT * { ?s <http://ex/p> ?o }"
    with tw.Store.create(tmp_path / "st") as store:
        for k in range(9):
            store.push(S, at=k, graph=f"<http://ex/n{k}> <http://ex/p> <http://ex/o> .")
        assert len(store.ask(text)) == 9
    file = tmp_path / "st" / "content.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with tw.Store(tmp_path / "st") as store:
        assert len(store.ask(text)) == 9
    file.unlink()
    with tw.Store(tmp_path / "st") as store:
        assert len(store.ask(text)) == 9
