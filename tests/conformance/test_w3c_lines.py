"""The W3C suites of RDF 1.1 N-Triples and N-Quads: positive tests are read right, negative ones refused."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pyoxigraph as ox
import pytest

from thalweg.rdf.arena import Arena
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune

ROOT = Path(__file__).parent.parent.parent
HOME = Path(os.environ.get("THALWEG_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
ARCHIVE = HOME / "w3c-rdf-tests.tar.gz"

TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
ACTION = ox.NamedNode("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#action")
FORMATS = {"nt": ox.RdfFormat.N_TRIPLES, "nq": ox.RdfFormat.N_QUADS}


def cases() -> list[pytest.param]:  # type: ignore[valid-type]
    """One case for each test of the two manifests: its name, syntax, bytes, and whether it is well formed."""
    if not ARCHIVE.exists():
        reason = f"the W3C suites are not here: set THALWEG_CONFORMANCE to the folder of {ARCHIVE.name}"
        return [pytest.param("nt", b"", True, id="absent", marks=pytest.mark.skip(reason=reason))]
    found = []
    with tarfile.open(ARCHIVE) as archive:
        for syntax, folder in (("nt", "rdf-n-triples"), ("nq", "rdf-n-quads")):
            base = f"rdf/rdf11/{folder}/"
            manifest = archive.extractfile(base + "manifest.ttl")
            assert manifest is not None
            graph = ox.Store()
            graph.load(manifest.read(), format=ox.RdfFormat.TURTLE, base_iri=f"http://w3c/{base}")
            for quad in graph.quads_for_pattern(None, TYPE, None):
                kind = quad.object.value
                if "Syntax" not in kind:
                    continue
                action = next(graph.quads_for_pattern(quad.subject, ACTION, None)).object.value
                file = archive.extractfile(action.removeprefix("http://w3c/"))
                assert file is not None
                name = f"{syntax}-{quad.subject.value.rpartition('#')[2]}"
                found.append(pytest.param(syntax, file.read(), "Positive" in kind, id=name))
    return sorted(found, key=lambda case: case.id)


@pytest.mark.parametrize(("syntax", "data", "well_formed"), cases())
def test_it_reads_or_refuses_as_the_suite_says(syntax: str, data: bytes, well_formed: bool) -> None:
    arena = Arena()
    reader = LineReader(
        arena,
        Prune.everything(),
        syntax=syntax,  # type: ignore[arg-type]
        source="suite",
        blank_nodes="stable",
        time_predicate=b"",
    )
    chunk = reader.read(data)
    if not well_formed:
        assert chunk.rejects
        return
    assert chunk.rejects == ()
    expected = [
        (quad.subject, quad.predicate, quad.object, quad.graph_name)
        for quad in ox.parse(data, format=FORMATS[syntax])
    ]
    columns = (arena.texts(chunk.s), arena.texts(chunk.p), arena.texts(chunk.o))
    graphs = [arena.text(int(graph)) if graph else "DEFAULT" for graph in chunk.g]
    assert list(zip(*columns, graphs, strict=True)) == [tuple(map(str, row)) for row in expected]


def test_the_suites_are_whole() -> None:
    if not ARCHIVE.exists():
        pytest.skip("the W3C suites are not here")
    assert len(cases()) == 157
