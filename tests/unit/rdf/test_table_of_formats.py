"""The table of formats: names, suffixes, and that an entry and a class are all that a new format takes."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.commands import Commands
from thalweg.engine import Session
from thalweg.errors import UsageError
from thalweg.io.files import read_events
from thalweg.io.inputs import contents_of, files_of
from thalweg.options import RunOptions
from thalweg.rdf import formats
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.documents import DocumentReader
from thalweg.rdf.formats import FORMATS, Format, format_named, readable_suffixes
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.texts import Texts

S = "http://ex/s"
ALL = f"SELECT ?x ?y FROM STREAM <{S}> [NOW] {{ ?x <a:p> ?y }}"


class TabReader:
    """Reads lines of three words, which are names in `a:`."""

    def __init__(self, arena: Arena, prune: Prune, *, syntax: str, **options: object) -> None:
        self._lines = LineReader(arena, prune, syntax="nt", **options)  # type: ignore[arg-type]

    @property
    def prune(self) -> Prune:
        return self._lines.prune

    def read(self, data: bytes | memoryview, *, offset: int = 0) -> Chunk:
        return self._lines.read(self._translated(bytes(data)), offset=offset)

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        return self._lines.read_texts([self._translated(text) for text in texts], sources)

    def _translated(self, text: bytes) -> bytes:
        return b"".join(b"<a:%s> <a:%s> <a:%s> .\n" % tuple(line.split()) for line in text.splitlines())


@pytest.fixture
def tabs(monkeypatch: pytest.MonkeyPatch) -> Format:
    made = Format("tab", "Tabs", ("text/x-tabs",), f"{__name__}:TabReader", (".tab",), splittable=True)
    monkeypatch.setitem(formats.FORMATS, made.name, made)
    return made


def test_a_new_format_is_one_entry_and_one_class(tabs: Format, tmp_path: Path) -> None:
    (tmp_path / "one.tab").write_bytes(b"1 p 2\n3 p 4\n")
    (tmp_path / "two.TAB.gz").write_bytes(gzip.compress(b"5 p 6\n"))
    (tmp_path / "three.txt").write_bytes(b"")
    assert [Path(name).name for name in contents_of(str(tmp_path)).skipped] == ["three.txt"]
    files = files_of(str(tmp_path))
    session = Session()
    query = session.register(ALL)
    for batch in read_events(files, S, session.arena, session.prune, piece=6):
        session.push_events(batch)
    session.push(S, at=9, graph="7 p 8", format="tab")
    assert [(row.at, row["x"]) for row in query.poll()] == [
        *((0, "<a:1>"), (1000, "<a:3>"), (2000, "<a:5>")),
        (9000, "<a:7>"),
    ]
    with pytest.raises(UsageError, match=r"one of nt, nq, turtle, .*, tab, not 'x'"):
        format_named("x")
    assert ".tab" in readable_suffixes()


def test_a_file_that_is_given_by_name_needs_no_known_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"<a:1> <a:p> <a:2> .")
    with pytest.raises(UsageError, match="no file to read here"):
        files_of(str(tmp_path))
    assert files_of(str(tmp_path), RunOptions(format="nt")) == [str(tmp_path / "a.txt")]


@pytest.mark.parametrize("suffix", [".ttl", ".ttl.gz"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_document_is_one_piece_whatever_the_size_of_pieces(
    suffix: str, threads: int, tmp_path: Path
) -> None:
    text = b"@prefix a: <a:> .\n" + b"".join(b"a:s%d\n a:p\n  a:o .\n" % k for k in range(500))
    file = tmp_path / f"data{suffix}"
    file.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    arena = Arena()
    turtle = RunOptions(format="turtle")
    events = read_events([file], S, arena, Prune.everything(), turtle, piece=100, threads=threads)
    subjects = [text for batch in events for text in arena.texts(batch.rows.s)]
    assert subjects == [f"<a:s{k}>" for k in range(500)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_document_is_one_event_unless_the_number_of_statements_is_given(
    threads: int, tmp_path: Path
) -> None:
    for k in range(2):
        (tmp_path / f"{k}.ttl").write_bytes(b"<a:%d> <a:p> <a:1> , <a:2> , _:x . _:x <a:p> <a:3> ." % k)
    (tmp_path / "2.ttl").write_bytes(b"# nothing\n")
    (tmp_path / "3.nt").write_bytes(b"<a:3> <a:p> <a:1> .\n<a:3> <a:p> <a:2> .\n")
    (tmp_path / "4.jsonld").write_bytes(b'{"@id": "a:4", "a:p": [{"@id": "a:1"}, {"@id": "a:2"}]}')

    def times(**options: object) -> list[tuple[int, int]]:
        arena = Arena()
        files = files_of(str(tmp_path))
        given = RunOptions(**options)  # type: ignore[arg-type]
        batches = list(read_events(files, S, arena, Prune.everything(), given, threads=threads))
        assert [time for batch in batches for time in batch.times] == sorted(
            {at for batch in batches for at in batch.rows.time}
        )
        rows = Counter(at for batch in batches for at in batch.rows.time.tolist())
        return sorted(rows.items())

    assert times() == [(0, 4), (1000, 4), (2000, 1), (3000, 1), (4000, 2)]
    assert times(rate=10) == [(0, 4), (100_000, 4), (200_000, 1), (300_000, 1), (400_000, 2)]
    assert times(per_event=5) == [(0, 5), (1000, 5), (2000, 2)]


def test_a_document_whose_gzip_file_breaks_off_is_refused_whole(tmp_path: Path) -> None:
    text = b"".join(b"<a:s%d> <a:p> <a:o> .\n" % (k * 7919) for k in range(3000))
    (tmp_path / "data.gz").write_bytes(gzip.compress(text)[:-300])
    batches = list(
        read_events([tmp_path / "data.gz"], S, Arena(), Prune.everything(), RunOptions(format="turtle"))
    )
    assert sum(map(len, batches)) == 0
    (reject,) = [reject for batch in batches for reject in batch.rejects]
    assert "breaks off" in reject.reason


def test_nodes_without_labels_are_the_same_whenever_a_document_is_read() -> None:
    text = b'[] <a:p> [ <a:q> "x" ] , _:given , _:0123456789abcdef0123456789abcdef .'

    def objects(source: str, offset: int = 0) -> list[str]:
        arena = Arena()
        reader = DocumentReader(
            arena, Prune.everything(), syntax="turtle", source=source, blank_nodes="stable"
        )
        return arena.texts(reader.read(text, offset=offset).o)

    first = objects("doc")
    assert first == objects("doc")
    assert "_:given" in first
    assert "_:0123456789abcdef0123456789abcdef" in first
    assert first[0] not in objects("other"), "nodes of two documents are two nodes"
    assert first[0] not in objects("doc", offset=1)


def test_a_malformed_document_that_is_pushed_is_no_event() -> None:
    session = Session()
    query = session.register(ALL)
    session.push(S, at=100, graph="<a:1> <a:p>", format="turtle")
    session.push(S, at=5, graph="<a:1> <a:p> <a:2> , <a:3> .", format="turtle")
    assert [(row.at, row["y"]) for row in query.poll()] == [(5000, "<a:2>"), (5000, "<a:3>")]
    assert (session.stats.events, session.stats.late, session.stats.quarantined) == (1, 0, 1)
    (reject,) = session.quarantine()
    assert (reject.line, reject.column) == (1, 12)


def test_a_pushed_graph_has_the_name_that_its_quads_have() -> None:
    session = Session()
    query = session.register(ALL)
    quads = "<a:1> <a:p> <a:2> <a:g> .\n"
    session.push(S, at=1, graph=quads, format="nq")
    session.push(S, at=2, graph=quads, format="nq", name="a:other")
    session.push(S, at=3, graph=quads + "<a:1> <a:p> <a:3> <a:h> .", format="nq")
    session.push(S, at=4, graph="<a:g> { <a:1> <a:p> <a:2> }", format="trig")
    named = [(row.at, row.graph) for row in query.poll()]
    assert named == [(1000, "<a:g>"), (2000, "<a:other>"), (3000, None), (3000, None), (4000, "<a:g>")]


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if not format.has_events])
def test_texts_that_are_read_at_once_are_those_that_are_read_alone(name: str) -> None:
    texts = {
        **dict.fromkeys(("nt", "nq", "turtle", "trig", "n3"), b"<a:s> <a:p> <a:o>."),
        "jsonld": b'{"@id": "a:s", "a:p": {"@id": "a:o"}}',
        "rdfxml": b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="a:"><rdf:Description '
        b'rdf:about="a:s"><a:p rdf:resource="a:o"/></rdf:Description></rdf:RDF>',
    }
    arena = Arena()
    reader = FORMATS[name].reader(arena, Prune.everything(), source="", time_predicate=b"", per_event=2)
    several = [texts[name], b"<oops", texts[name]]
    found = reader.read_texts(several, ["one", "two", "three"])
    alone = [reader.read(text) for text in several]
    assert found.text.tolist() == [k for k, chunk in enumerate(alone) for _ in range(len(chunk))] == [0, 2]
    assert found.statements.tolist() == [1, 0, 1]
    assert [reject.source for reject in found.chunk.rejects] == ["two"]
    assert found.refused == {k for k, chunk in enumerate(alone) if chunk.refused}
    assert found.refused == (frozenset() if FORMATS[name].splittable else {1})
    assert arena.texts(found.chunk.o) == ["<a:o>", "<a:o>"]


def test_suffixes_are_in_small_letters_and_have_a_dot() -> None:
    for wrong in ("nt", ".NT", ".gz"):
        with pytest.raises(ValueError, match="suffixes"):
            replace(FORMATS["nt"], suffixes=(wrong,))


def test_the_command_reads_all_files_of_a_folder_as_the_format_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    thalweg = Commands(tmp_path, capfdbinary)
    (tmp_path / "data").mkdir()
    for k, name in enumerate(("a.ttl", "b.txt")):
        (tmp_path / "data" / name).write_text(f"<a:{k}> <a:p> <a:1> , <a:2> .")
    (tmp_path / "all.rq").write_text(ALL)
    done = thalweg("run", "all.rq", "--stream", f"{S}=data", "--format", "turtle")
    assert (done.code, [bindings["x"] for _, _, bindings in done.rows]) == (0, ["<a:0>"] * 2 + ["<a:1>"] * 2)
    assert "skipped" not in done.err
    refused = thalweg("run", "all.rq", "--stream", f"{S}=data", "--format", "ttl")
    assert (refused.code, refused.lines) == (
        2,
        [f"format is one of {', '.join(FORMATS)}, not 'ttl'; did you mean turtle?"],
    )
