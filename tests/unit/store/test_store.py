"""The embedded store: what it keeps, what it answers now and as of an instant, and how it is shared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw

S, T = "http://ex/s", "http://ex/t"
ALL = "SELECT ?x { ?x <http://ex/p> ?y }"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with tw.Store.create(tmp_path / "store") as made:
        yield made


def line(name: str) -> str:
    return f"<http://ex/{name}> <http://ex/p> <http://ex/o> .\n"


def names(answer: Any) -> list[str]:
    return sorted(row["x"].value.removeprefix("http://ex/") for row in answer)


def test_the_content_is_what_was_inserted_and_not_deleted(store: tw.Store) -> None:
    store.push(S, at=1, graph=line("a") + line("b"))
    store.push(S, at=2, graph=line("a"), op="delete")
    assert names(store.ask(ALL)) == ["b"]
    assert names(store.ask(ALL, as_of=1)) == ["a", "b"]
    assert names(store.ask(ALL, as_of=0)) == []


def test_events_out_of_order_end_in_the_same_content(store: tw.Store) -> None:
    store.push(S, at=5, graph=line("a"), op="delete")
    store.push(S, at=9, graph=line("z"))
    assert names(store.ask(ALL)) == ["z"]  # the content is brought up to date in between
    store.push(S, at=3, graph=line("a"))
    assert names(store.ask(ALL)) == ["z"]
    assert names(store.ask(ALL, as_of=4)) == ["a"]
    store.push(S, at=7, graph=line("z"), op="delete")
    assert names(store.ask(ALL)) == ["z"]
    store.push(S, at=6, graph=line("a"))
    assert names(store.ask(ALL)) == ["a", "z"]


def test_at_one_instant_deletes_come_before_inserts(store: tw.Store) -> None:
    store.push(S, at=1, graph=line("a"))
    assert names(store.ask(ALL)) == ["a"]
    store.push(S, at=1, graph=line("a"), op="delete")
    assert names(store.ask(ALL)) == ["a"]


def test_a_window_holds_what_came_after_its_start(store: tw.Store) -> None:
    for at, name in enumerate("abcd"):
        store.push(S, at=at, graph=line(name))
    store.push(S, at=3, graph=line("c"), op="delete")
    assert names(store.ask(ALL, as_of=(0, 2))) == ["b", "c"]
    assert names(store.ask(ALL, as_of=(0, 3))) == ["b", "d"]
    with pytest.raises(tw.UsageError, match="ends before it begins"):
        store.ask(ALL, as_of=(3, 3))


def test_a_stream_is_a_graph_and_the_default_graph_their_union_without_doubles(store: tw.Store) -> None:
    store.push(S, at=1, graph=line("a"))
    assert names(store.ask(f"SELECT ?x {{ GRAPH <{S}> {{ ?x ?p ?y }} }}")) == ["a"]
    store.push(T, at=1, graph=line("a") + line("b"))
    assert names(store.ask(ALL)) == names(store.ask(ALL, as_of=1)) == ["a", "b"]
    assert len(list(store.ask("SELECT * { GRAPH ?g { ?x ?p ?y } }"))) == 3
    assert len(list(store.ask("SELECT * { GRAPH ?g { ?x ?p ?y } }", as_of=1))) == 3
    store.push(T, at=2, graph=line("a"), op="delete")
    assert names(store.ask(ALL)) == ["a", "b"]
    store.push(S, at=2, graph=line("a"), op="delete")
    assert names(store.ask(ALL)) == ["b"]


def test_blank_nodes_of_two_events_are_two(store: tw.Store) -> None:
    for at in (1, 2):
        store.push(S, at=at, graph="_:n <http://ex/p> _:n .")
    store.compact()
    store.push(S, at=3, graph="_:n <http://ex/p> _:n .")
    assert len(list(store.ask("SELECT ?x { ?x ?p ?x }"))) == 3


def test_what_was_appended_is_there_in_the_next_process(tmp_path: Path) -> None:
    with tw.Store.create(tmp_path) as store:
        store.push(S, at=1, graph=line("a"))
        assert names(store.ask(ALL)) == ["a"]
        store.push(S, at=2, graph=line("b"))
    with tw.Store(tmp_path) as store:
        assert names(store.ask(ALL)) == ["a", "b"]
        assert store.stats().events == 2


def test_a_batch_whose_number_the_writer_has_come_to_is_left_out(tmp_path: Path) -> None:
    from thalweg.rdf.arena import Arena
    from thalweg.rdf.events import EventBatch, Rows

    arena = Arena()
    ids = [arena.intern(f"<http://ex/{name}>".encode()) for name in ("a", "p", "o")]
    import numpy as np

    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    batch = EventBatch(S, Rows.inserts(one, none, none, *(np.array([id]) for id in ids)))
    with tw.Store.create(tmp_path) as store:
        assert store.append(batch, arena, writer="w", number=3)
        assert not store.append(batch, arena, writer="w", number=3)
        assert not store.append(batch, arena, writer="w", number=2)
        assert store.append(batch, arena, writer="v", number=2)
        store.compact()
        assert (store.position("w"), store.position("v"), store.position("u")) == (3, 2, None)
    with tw.Store(tmp_path) as store:
        assert not store.append(batch, arena, writer="w", number=3)
        assert store.append(batch, arena, writer="w", number=4)
        with pytest.raises(tw.UsageError, match="given together"):
            store.append(batch, arena, writer="w")
    with tw.Store(tmp_path) as store:
        assert store.position("w") == 4


def test_compaction_keeps_all_history_or_drops_what_is_older(store: tw.Store) -> None:
    for at, name in enumerate("abcd"):
        store.push(S, at=at, graph=line(name))
    store.push(S, at=2, graph=line("a"), op="delete")
    store.compact()
    assert [names(store.ask(ALL, as_of=at)) for at in (1, 2)] == [["a", "b"], ["b", "c"]]
    store.compact(before=2)
    assert names(store.ask(ALL)) == ["b", "c", "d"]
    assert names(store.ask(ALL, as_of=2)) == ["b", "c"]
    with pytest.raises(tw.UsageError, match=r"the history before 1970-01-01T00:00:00.002Z was dropped"):
        store.ask(ALL, as_of=1)
    assert (store.stats().rows, store.stats().deletes) == (3, 0)


@pytest.mark.parametrize("step", ["fsync", "replace", "sync_folder"])
def test_events_after_a_compaction_that_failed_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    import errno

    from thalweg.store import store as module

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with tw.Store.create(tmp_path / "store") as store:
        store.push(S, at=1, graph=line("a"))
        store.push(S, at=2, graph=line("b"))
        with monkeypatch.context() as patch:
            target = {"fsync": module.os, "replace": Path, "sync_folder": module}[step]
            patch.setattr(target, step, full)
            with pytest.raises(OSError, match="No space left"):
                store.compact()
        store.push(S, at=3, graph=line("c"))
        assert names(store.ask(ALL)) == ["a", "b", "c"]
    with tw.Store(tmp_path / "store") as store:
        assert names(store.ask(ALL)) == ["a", "b", "c"]


def test_from_chooses_among_streams_whoever_answers(store: tw.Store) -> None:
    store.push(S, at=1, graph=line("a"))
    for asked in ("?x", "?x (RAND() AS ?r)"):  # the second one is answered by Oxigraph
        for source, expected in ((f"FROM <{S}>", ["a"]), (f"FROM <{T}>", []), (f"FROM NAMED <{S}>", [])):
            text = f"SELECT {asked} {source} {{ ?x <http://ex/p> ?y }}"
            assert names(store.ask(text)) == expected, text
            assert names(store.ask(text, as_of=1)) == expected, text


@pytest.mark.parametrize("term", ["<http://ex/%zz>", "<http://a:b:c>", '"x"@abcdefghijkl', '"a<&>"'])
def test_terms_that_pyoxigraph_would_refuse_are_answered_by_both_and_written(
    store: tw.Store, term: str
) -> None:
    import pyoxigraph as ox

    store.push(S, at=1, graph=f"<http://ex/a> <http://ex/p> {term} .")
    for asked in ("?y", "?y (RAND() AS ?r)"):
        answer = store.ask(f"SELECT {asked} {{ ?x <http://ex/p> ?y }}")
        assert [str(row["y"]) for row in answer] == [term]
        xml = answer.serialize(format=ox.QueryResultsFormat.XML)
        assert xml is not None
        assert b"<result><binding name=" in xml
        if "%" not in term and "a:b" not in term and "@" not in term:
            again: Any = ox.parse_query_results(xml, format=ox.QueryResultsFormat.XML)
            assert [str(row["y"]) for row in again] == [term]
    assert [str(triple.object) for triple in store.ask("DESCRIBE <http://ex/a>")] == [term]
    store.push(S, at=2, graph=f"<http://ex/a> <http://ex/p> {term} .", op="delete")
    assert not list(store.ask("DESCRIBE <http://ex/a>"))


def test_a_question_makes_no_network_call(store: tw.Store) -> None:
    with pytest.raises(tw.UnsupportedError, match="1:12: SERVICE is not supported: a query makes no network"):
        store.ask("SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }")


def test_a_stream_of_a_store_has_an_absolute_iri(store: tw.Store) -> None:
    with pytest.raises(tw.UsageError, match=r"named by an absolute IRI .* not 'foo'"):
        store.push("foo", at=1, graph=line("a"))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = f"import thalweg as tw\ntry: tw.Store({str(tmp_path)!r})\nexcept tw.UsageError as e: print(e)"
    with tw.Store.create(tmp_path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "another process has opened this store" in done.stdout


def test_bad_calls_are_refused_with_a_reason(tmp_path: Path, store: tw.Store) -> None:
    with pytest.raises(tw.UsageError, match="there is no store here"):
        tw.Store(tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(tw.UsageError, match="not empty, and it is no store"):
        tw.Store.create(tmp_path / "full")
    with pytest.raises(tw.DataError, match=f"{S}:1:"):
        store.push(S, at=1, graph="nonsense")
    with pytest.raises(tw.QueryError, match=r"query:1:15: syntax error"):
        store.ask("SELECT * { ?s }")
    with pytest.raises(tw.UsageError, match="is not a time"):
        store.ask(ALL, as_of="yesterday")
    store.close()
    with pytest.raises(tw.UsageError, match="the store is closed"):
        store.ask(ALL)


def test_a_snapshot_of_what_a_query_can_use_gives_its_whole_answer(store: tw.Store) -> None:
    store.push(S, at=1, graph=line("a") + "<http://ex/o> <http://ex/q> 'v' .", format="turtle")
    queries = (
        "SELECT ?x { ?x <http://ex/p> ?y OPTIONAL { ?y <http://ex/q> ?v } FILTER(?v = 'v') }",
        "SELECT ?x { ?x <http://ex/p>/<http://ex/q> ?v }",
        "SELECT ?x { ?x <http://ex/p> ?y FILTER EXISTS { ?y ?q 'v' } }",
        "SELECT ?x { ?x (<http://ex/p>|<http://ex/q>)* 'v' MINUS { ?x <http://ex/q> ?z } FILTER(isIRI(?x)) }",
    )
    for query in queries:
        assert names(store.ask(query)) == names(store.ask(query, as_of=1)) == ["a"], query
