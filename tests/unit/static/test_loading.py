"""Loading static data: what is taken, what is refused, and what a session does then."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import thalweg as tw
from thalweg.errors import DataError, UsageError
from thalweg.rdf.formats import format_named
from thalweg.static import files, reading
from thalweg.static.files import map_document, open_document

STREAM = "http://ex/s"
QUERY = "SELECT ?x ?n FROM STREAM <http://ex/s> [RANGE 10] { ?x <http://ex/p> ?y . ?y <http://ex/name> ?n }"


def rows(query: tw.ContinuousQuery) -> list[tuple[int, str, dict[str, str]]]:
    return [(int(row.at) // 1000, row.op, dict(row.bindings)) for row in query.poll()]


def named(path: Path, name: str = "B") -> Path:
    path.write_text(f'<http://ex/b> <http://ex/name> "{name}" .\n')
    return path


def test_a_path_or_a_text_is_loaded_and_joined(tmp_path: Path) -> None:
    for given in (
        named(tmp_path / "a.nt"),
        str(named(tmp_path / "b.ttl")),
        '@prefix : <http://ex/> . :b :name "B" .',
    ):
        session = tw.Session()
        assert session.load(given) == 1
        query = session.register(QUERY)
        session.push(STREAM, at=1, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
        assert rows(query) == [(1, "+", {"x": "<http://ex/a>", "n": '"B"'})]


def test_files_may_be_compressed_and_have_graphs_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "d.nq.gz"
    path.write_bytes(
        gzip.compress(b'<http://ex/b> <http://ex/name> "G" <http://ex/g> .\n<a:x> <http://ex/name> "D" .\n')
    )
    session = tw.Session()
    session.load(path)
    assert sorted(session.static_graphs) == ["", "http://ex/g"]
    query = session.register(
        "SELECT ?n FROM STREAM <http://ex/s> { GRAPH <http://ex/g> { ?x <http://ex/name> ?n } }"
    )
    session.advance(5)
    assert rows(query) == [(5, "+", {"n": '"G"'})]
    with pytest.raises(UsageError, match="named graphs of its own"):
        session.load(path, graph="http://ex/other")


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.nt", '<a:b> <a:c> "x" .\n<a:b> <a:c> .\n', "a.nt:2:"),
        ("a.ttl", "@prefix : <a:> .\n:b :c :d .\n\n:b :c .\n", "a.ttl:4:7"),
        ("a.rdf", "<rdf:RDF", "a.rdf"),
    ],
)
def test_a_file_with_an_error_is_refused_with_its_position_and_what_was_there_stays(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    session = tw.Session()
    session.load(named(tmp_path / "good.nt"))
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        session.load(tmp_path / name, replace=True)
    assert place in str(caught.value)
    assert "nothing of it was loaded" in str(caught.value)
    query = session.register(QUERY)
    session.push(STREAM, at=1, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    assert len(rows(query)) == 1


def test_what_is_not_there_or_cannot_be_static_data_is_refused(tmp_path: Path) -> None:
    session = tw.Session()
    for given, reason in (
        (tmp_path / "no.ttl", "there is no such file"),
        ("no/such/file.ttl", "there is no such file"),
        (tmp_path, "a file, and this is none"),
        (7, "not of type int"),
    ):
        with pytest.raises(UsageError, match=reason):
            session.load(given)  # type: ignore[arg-type]
    (tmp_path / "events.jsonl").write_text("{}")
    with pytest.raises(UsageError, match="states events"):
        session.load(tmp_path / "events.jsonl")
    with pytest.raises(DataError, match="a static graph is named by an IRI"):
        session.load("_:g { <a:b> <a:c> <a:d> }", format="trig")


def test_what_needs_more_memory_than_there_is_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.nt"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # it takes no room on the disk
    monkeypatch.setattr(files, "available_memory", lambda: 1 << 30)
    with pytest.raises(UsageError, match=r"needs about 439.8 GB of memory, and 1.1 GB are free"):
        tw.Session().load(path)


def test_the_memory_that_may_be_used_can_be_said_and_a_cached_file_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(tmp_path / "names.nt", "B" * 3000)
    monkeypatch.setenv("THALWEG_MEMORY", "1k")
    with pytest.raises(UsageError, match="THALWEG_MEMORY=SIZE"):
        tw.Session().load(path)
    monkeypatch.setenv("THALWEG_MEMORY", "1g")
    cache = tmp_path / "cache"
    assert tw.Session(static_cache=cache).load(path) == 1
    monkeypatch.setenv("THALWEG_MEMORY", "1k")
    assert tw.Session(static_cache=cache).load(path) == 1
    monkeypatch.setenv("THALWEG_MEMORY", "much")
    with pytest.raises(UsageError, match="THALWEG_MEMORY is a size"):
        tw.Session().load(path)


def test_a_text_that_grows_beyond_the_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "available_memory", lambda: 100)
    with pytest.raises(DataError, match="need more memory than there is"):
        tw.Session().load("<a:b> <a:c> <a:d> , <a:e> , <a:f> .")


def test_from_names_files_and_never_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named(tmp_path / "names.ttl")
    monkeypatch.chdir(tmp_path)
    for iri in ("names.ttl", f"file://{tmp_path}/names.ttl"):
        session = tw.Session()
        query = session.register(QUERY.replace("FROM STREAM", f"FROM <{iri}> FROM STREAM"))
        session.push(STREAM, at=1, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
        assert len(rows(query)) == 1
    with pytest.raises(UsageError, match="is not loaded, and a query makes no network call"):
        tw.Session().register(QUERY.replace("FROM STREAM", "FROM <http://ex/names> FROM STREAM"))


def test_blank_nodes_are_those_of_the_load() -> None:
    session = tw.Session()
    query = session.register("SELECT ?x FROM STREAM <http://ex/s> { ?x <http://ex/p> ?y }")
    for _ in range(2):
        session.load("_:b <http://ex/p> 1 .")
    session.push(STREAM, at=1, graph="_:b <http://ex/p> <http://ex/c> .")
    assert len({row["x"] for row in query.poll()}) == 3


def test_a_delete_on_a_stream_never_touches_static_data_and_a_reload_shows_what_the_stream_still_has() -> (
    None
):
    session = tw.Session()
    query = session.register(
        "SELECT ?y FROM STREAM <http://ex/s> [RANGE 20] { <http://ex/a> <http://ex/p> ?y }"
    )
    triple = "<http://ex/a> <http://ex/p> <http://ex/b> ."
    session.load(triple)
    session.push(STREAM, at=1, graph=triple)
    session.push(STREAM, at=2, graph=triple, op="delete")
    session.push(STREAM, at=3, graph=triple)
    assert [(at, op) for at, op, _ in rows(query)] == [(1, "+")]
    session.load("", replace=True)
    session.advance(40)
    assert [(at, op) for at, op, _ in rows(query)] == [(23, "-")]


def test_a_graph_is_loaded_before_the_queries_that_read_it() -> None:
    session = tw.Session()
    with pytest.warns(tw.errors.ThalwegWarning, match="no window or graph has the name"):
        session.register("SELECT * FROM STREAM <http://ex/s> { GRAPH <http://ex/g> { ?x ?y ?z } }")
    with pytest.raises(UsageError, match="load a graph before the queries that read it"):
        session.load("<a:b> <a:c> <a:d> .", graph="http://ex/g")


def test_a_cache_is_used_while_the_file_is_the_same_and_made_anew_when_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = named(tmp_path / "names.nt"), tmp_path / "cache"
    read: list[str] = []
    real = files.read_document

    def counted(given: Path, *more: object) -> object:
        read.append(given.read_text())
        return real(given, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "read_document", counted)
    nt = format_named("nt")
    assert len(open_document(path, nt, cache)) == len(open_document(path, nt, cache)) == 1
    assert len(read) == 1
    named(path, "C")
    os.utime(path, ns=(1, 1))
    document = open_document(path, nt, cache)
    assert len(read) == 2
    assert '"C"' in document.arena.texts(document.graphs[""][2])
    [kept] = cache.iterdir()
    whole = kept.read_bytes()
    for damaged in (
        b"",
        whole[:50],
        whole[:-1],
        b"x" + whole[1:],
        whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:],
    ):
        kept.write_bytes(damaged)
        with pytest.raises(ValueError, match="is no file of static data"):
            map_document(kept)
        assert len(open_document(path, nt, cache)) == 1
    assert len(read) == 7
    assert len(list(cache.iterdir())) == 1


def test_graph_of_a_variable_without_a_named_graph_is_warned_of():
    session = tw.Session()
    session.load("<http://ex/a> <http://ex/p> 1 .")
    text = "SELECT * FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x ?p ?y GRAPH ?g { ?y ?q ?z } }"
    with pytest.warns(
        tw.errors.ThalwegWarning, match=r"no named window and no named static graph for GRAPH \?g"
    ):
        session.register(text)
