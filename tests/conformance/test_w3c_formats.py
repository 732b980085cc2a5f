"""The W3C suites of RDF 1.1 N-Triples, N-Quads, Turtle and TriG, through the readers that files and payloads use.

`format_gaps.toml` is the ledger of tests that do not pass; one that starts to pass fails here until it is taken out. Of
JSON-LD and RDF/XML, what rdflib writes of the expected graphs is read.
"""

from __future__ import annotations

import os
import tarfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyoxigraph as ox
import pytest
import rdflib
import rdflib.compare

from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.prune import Prune

ROOT = Path(__file__).parent.parent.parent
HOME = Path(os.environ.get("THALWEG_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
ARCHIVE = HOME / "w3c-rdf-tests.tar.gz"
LEDGER = Path(__file__).parent / "format_gaps.toml"

TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
MANIFEST = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
FOLDERS = {"nt": "rdf-n-triples", "nq": "rdf-n-quads", "turtle": "rdf-turtle", "trig": "rdf-trig"}
RESULTS = {"nt": ox.RdfFormat.N_TRIPLES, "nq": ox.RdfFormat.N_QUADS}
RESULTS |= {"ttl": ox.RdfFormat.TURTLE, "trig": ox.RdfFormat.TRIG}
SUFFIXES = {"nt": "nt", "nq": "nq", "turtle": "ttl", "trig": "trig"}
WAYS = ("at once", "in pieces")
Rows = list[tuple[str, str, str, str]]


@dataclass(frozen=True)
class Case:
    """One test: its bytes, whether they are well formed, and the statements that they stand for, if it says so."""

    syntax: str
    base: str
    data: bytes
    well_formed: bool
    expected: frozenset[ox.Quad] | None


@cache
def cases() -> dict[str, Case]:
    """All tests of the four manifests by name."""
    if not ARCHIVE.exists():
        return {}
    found: dict[str, Case] = {}
    # One pass from the front: a compressed archive has no other order that is quick.
    with tarfile.open(ARCHIVE, "r|gz") as archive:
        wanted = tuple(f"rdf/rdf11/{folder}/" for folder in FOLDERS.values())
        content = {
            member.name: file.read()
            for member in archive
            if member.name.startswith(wanted) and (file := archive.extractfile(member)) is not None
        }
    for syntax, folder in FOLDERS.items():
        path = f"rdf/rdf11/{folder}/"
        graph = ox.Store()
        graph.load(content[path + "manifest.ttl"], format=ox.RdfFormat.TURTLE, base_iri=f"http://w3c/{path}")
        assumed = list(graph.quads_for_pattern(None, ox.NamedNode(MANIFEST + "assumedTestBase"), None))
        for quad in graph.quads_for_pattern(None, TYPE, None):
            test, kind = quad.subject, quad.object.value
            if "rdftest#Test" not in kind:
                continue
            files = {
                name: one.object.value.removeprefix("http://w3c/")
                for name in ("action", "result")
                for one in graph.quads_for_pattern(test, ox.NamedNode(MANIFEST + name), None)
            }
            data = content[files["action"]]
            base = assumed[0].object.value + files["action"].rpartition("/")[2] if assumed else ""
            expected = None
            if result := files.get("result"):
                form = RESULTS[result.rpartition(".")[2]]
                expected = frozenset(ox.parse(content[result], form))
            elif "Negative" not in kind:
                expected = frozenset(ox.parse(data, RESULTS[SUFFIXES[syntax]], base_iri=base or None))
            found[f"{syntax}/{test.value.rpartition('#')[2]}"] = Case(
                syntax, base, data, "Negative" not in kind, expected
            )
    return found


@cache
def gaps() -> dict[str, str]:
    """The tests of the ledger, each with the reason."""
    ledger = tomllib.loads(LEDGER.read_text())
    return {test: gap["reason"] for gap in ledger["gap"] for test in gap["tests"]}


def read(syntax: str, data: bytes, way: str) -> tuple[Rows, list[Reject]]:
    """The statements of a text, and what is refused."""
    arena = Arena()
    format = FORMATS[syntax]
    reader = format.reader(
        arena, Prune.everything(), source="suite", blank_nodes="stable", per_event=2, time_predicate=b""
    )
    chunks: list[Chunk] = []
    if way == "in pieces" and format.sequential:
        for start in range(0, len(data), 7):
            chunks.append(reader.feed(data[start : start + 7]))  # type: ignore[attr-defined]
        chunks.append(reader.finish())  # type: ignore[attr-defined]
    else:
        chunks.append(reader.read(data))
    columns = [
        np_list for chunk in chunks for np_list in zip(chunk.s, chunk.p, chunk.o, chunk.g, strict=True)
    ]
    rows = [
        (arena.text(s), arena.text(p), arena.text(o), arena.text(g) if g else "") for s, p, o, g in columns
    ]
    return rows, [reject for chunk in chunks for reject in chunk.rejects]


def canonical(quads: set[ox.Quad] | frozenset[ox.Quad]) -> set[str]:
    """Statements with canonical labels, and language tags in small letters."""
    lowered = set()
    for quad in quads:
        term = quad.object
        if isinstance(term, ox.Literal) and term.language:
            term = ox.Literal(term.value, language=term.language.lower())
        lowered.add(ox.Quad(quad.subject, quad.predicate, term, quad.graph_name))
    dataset = ox.Dataset(lowered)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


def quads_of(rows: Rows) -> set[ox.Quad]:
    text = "".join(f"{s} {p} {o} {g} .\n" for s, p, o, g in rows)
    return set(ox.parse(text.encode(), ox.RdfFormat.N_QUADS, lenient=True))


def judge(case: Case, way: str) -> str | None:
    """What is wrong with how a test is read, if anything."""
    base = f"@base <{case.base}> .\n".encode() if case.base and case.syntax in ("turtle", "trig") else b""
    rows, rejects = read(case.syntax, base + case.data, way)
    if not case.well_formed:
        return None if rejects else f"accepted as {rows}"
    if rejects:
        return f"refused: {rejects[0].line}:{rejects[0].column}: {rejects[0].reason}"
    if case.expected is not None and canonical(quads_of(rows)) != canonical(case.expected):
        return f"read as {rows}"
    return None


@pytest.mark.skipif(not ARCHIVE.exists(), reason=f"set THALWEG_CONFORMANCE to the folder of {ARCHIVE.name}")
class TestW3C:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("syntax", FOLDERS)
    def test_each_test_passes_or_is_in_the_ledger(self, syntax: str, way: str) -> None:
        wrong = {}
        for name, case in cases().items():
            if case.syntax != syntax:
                continue
            found = judge(case, way)
            if (found is not None) != (name in gaps()):
                wrong[name] = found or "passes: take it out of the ledger"
        assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())

    def test_the_suites_are_whole(self) -> None:
        counts = {syntax: sum(case.syntax == syntax for case in cases().values()) for syntax in FOLDERS}
        assert counts == {"nt": 70, "nq": 87, "turtle": 313, "trig": 356}
        assert set(gaps()) <= set(cases())

    @pytest.mark.parametrize(("syntax", "written"), [("rdfxml", "pretty-xml"), ("jsonld", "json-ld")])
    def test_expected_graphs_are_read_from_what_rdflib_writes_of_them(
        self, syntax: str, written: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = 0
        for name, case in cases().items():
            if case.syntax != "turtle" or not case.expected or name in gaps():
                continue
            text = "".join(f"{quad.triple} .\n" for quad in case.expected)
            monkeypatch.setattr(rdflib, "NORMALIZE_LITERALS", False)
            graph = rdflib.Graph().parse(data=text, format="nt")
            try:
                data = graph.serialize(format=written).encode()
            except Exception:  # not every predicate has a name in XML
                continue
            if not _says_the_same(graph, data, written):
                continue
            rows, rejects = read(syntax, data, "in pieces")
            assert not rejects, (name, rejects[0].reason)
            assert canonical(quads_of(rows)) == canonical(case.expected), name
            tried += 1
        assert tried > 100


def _says_the_same(graph: rdflib.Graph, data: bytes, written: str) -> bool:
    """Whether rdflib itself reads what it has written: it does not keep all control characters and lists."""
    try:
        again = rdflib.Graph().parse(data=data, format="xml" if "xml" in written else written)
    except Exception:
        return False
    return rdflib.compare.isomorphic(graph, again)
