"""`thalweg store`: events are appended from files, and asked of now and as of an instant."""

from __future__ import annotations

import json
from typing import Any

import pytest

S = "http://ex/s"


@pytest.fixture
def store(thalweg: Any) -> Any:
    (thalweg.folder / "all.rq").write_text("SELECT ?o { ?s ?p ?o } ORDER BY ?o")
    assert thalweg("store", "create", "st").code == 0

    def command(name: str, *arguments: str) -> Any:
        return thalweg("store", name, "st", *arguments)

    return command


def values(done: Any) -> list[str]:
    assert done.code == 0, done.err
    return [row["o"]["value"] for row in json.loads(done.out)["results"]["bindings"]]


def event(at: int, op: str, value: str) -> str:
    graph = f'<http://ex/a> <http://ex/p> "{value}" .'
    return json.dumps({"at": at, "op": op, "graph": graph}) + "\n"


def test_events_with_deletes_are_appended_and_asked_of(thalweg: Any, store: Any) -> None:
    (thalweg.folder / "e.jsonl").write_text(
        event(1, "insert", "1") + event(2, "insert", "2") + event(3, "delete", "1")
    )
    done = store("append", "--stream", f"{S}=e.jsonl")
    assert (done.code, done.lines[-1].partition(" in ")[0]) == (0, "3 events, 3 triples (1 delete)")
    assert values(store("ask", "all.rq")) == ["2"]
    assert values(store("ask", "all.rq", "--as-of", "2")) == ["1", "2"]
    assert values(store("ask", "all.rq", "--as-of", "1/2")) == ["2"]
    assert values(store("ask", "all.rq", "--as-of", "1970-01-01T00:00:00.001Z")) == ["1"]
    assert store("compact", "--before", "2").code == 0
    done = store("ask", "all.rq", "--as-of", "1")
    assert (done.code, "was dropped" in done.err) == (2, True)
    shown = store("stats").out
    assert "1 triples now" in shown
    assert f"stream <{S}>: 3 triples in events" in shown


def test_malformed_input_is_quarantined_with_its_place(thalweg: Any, store: Any) -> None:
    (thalweg.folder / "d.nt").write_text('<a:a> <a:p> "1" .\nnonsense\n')
    done = store("append", "--stream", f"{S}=d.nt", "--quarantine", "q.jsonl")
    assert (done.code, "1 quarantined" in done.err) == (0, True)
    assert json.loads((thalweg.folder / "q.jsonl").read_text())["line"] == 2
    done = store("append", "--stream", f"{S}=d.nt", "--on-error", "fail")
    assert (done.code, "d.nt:2:1" in done.err) == (1, True)
    (thalweg.folder / "bad.nt").write_text("nonsense\n")
    assert store("append", "--stream", f"{S}=bad.nt").code == 1


def test_a_writer_goes_on_where_it_stopped(thalweg: Any, store: Any) -> None:
    file = thalweg.folder / "d.nt"
    file.write_text('<a:a> <a:p> "1" .\n')
    for text, new in (("", 1), ("", 0), ('<a:a> <a:p> "2" .\n', 1)):
        file.write_text(file.read_text() + text)
        done = store("append", "--stream", f"{S}=d.nt", "--writer", "w")
        assert f"{new} event" in done.lines[-1], done.err
    assert "2 events" in store("stats").out


def test_answers_have_formats(thalweg: Any, store: Any) -> None:
    (thalweg.folder / "d.nt").write_text('<a:a> <a:p> "1" .\n')
    store("append", "--stream", f"{S}=d.nt")
    assert store("ask", "all.rq", "--out-format", "csv").out.split() == ["o", "1"]
    assert store("ask", "all.rq", "--out-format", "table").out == 'o\n---\n"1"\n(1 row)\n'
    (thalweg.folder / "graph.rq").write_text("CONSTRUCT WHERE { ?s ?p ?o }")
    assert store("ask", "graph.rq").out == '<a:a> <a:p> "1" .\n'
    (thalweg.folder / "yes.rq").write_text("ASK { ?s ?p ?o }")
    assert store("ask", "yes.rq", "--out-format", "table").out == "yes\n"
    assert json.loads(store("ask", "yes.rq").out)["boolean"] is True
    done = store("ask", "graph.rq", "--out-format", "csv")
    assert (done.code, "the answer is a graph" in done.err) == (2, True)


def test_what_cannot_be_done_is_refused_with_exit_code_2(thalweg: Any, store: Any) -> None:
    (thalweg.folder / "bad.rq").write_text("SELECT * { ?s }")
    cases = [
        (store("ask", "bad.rq"), "query:1:15: syntax error"),
        (store("ask", "none.rq"), "none.rq: the query cannot be read"),
        (store("ask", "all.rq", "--as-of", "noon"), "is not a time"),
        (thalweg("store", "ask", "elsewhere", "all.rq"), "there is no store here"),
        (store("append", "--stream", f"{S}=-", "--format", "nt"), "files and folders are appended"),
    ]
    for done, message in cases:
        assert (done.code, message in done.err) == (2, True), done.err
