"""The W3C RDF semantics suite: does a graph follow from another, as ASK over data under their own axioms as schema."""

from __future__ import annotations

import tarfile
from collections import Counter
from functools import cache

import pyoxigraph as ox
from w3c_sparql import ARCHIVE, Case

from thalweg.testing.answers import Bag

FOLDER = "rdf/rdf11/rdf-mt/"
_BASE = f"https://w3c.github.io/rdf-tests/{FOLDER}"
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"


@cache
def cases() -> dict[str, Case]:
    """The approved tests, by name. Those that ask whether a graph is consistent have no query."""
    with tarfile.open(ARCHIVE) as archive:
        members = [member for member in archive if member.isfile() and member.name.startswith(FOLDER)]
        files = {_BASE + member.name.removeprefix(FOLDER): archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]  # fmt: skip

    def lines(iri: str) -> tuple[str, ...]:
        syntax = ox.RdfFormat.from_extension(iri.rpartition(".")[2])
        return tuple(f"{quad.triple} .\n" for quad in ox.parse(files[iri], format=syntax, base_iri=iri))

    manifest = ox.Store()
    manifest.load(files[f"{_BASE}manifest.ttl"], format=ox.RdfFormat.TURTLE, base_iri=f"{_BASE}manifest.ttl")
    listed = _members(manifest)
    found = {}
    for test in listed:
        about = {q.predicate.value: q.object for q in manifest.quads_for_pattern(test, None, None)}
        name = f"rdf-mt/{test.value.rpartition('#')[2]}"
        kind = about["http://www.w3.org/1999/02/22-rdf-syntax-ns#type"].value
        result = about[f"{_MF}result"]
        if isinstance(result, ox.Literal):
            found[name] = Case(name, "consistency", "", lines(about[f"{_MF}action"].value))
            continue
        expected: Bag = Counter([frozenset()] if kind == f"{_MF}PositiveEntailmentTest" else [])
        text = f"ASK {{ {''.join(lines(result.value))} }}"
        found[name] = Case(name, "evaluation", text, lines(about[f"{_MF}action"].value), expected=expected)
    return dict(sorted(found.items()))


def _members(manifest: ox.Store) -> list[ox.NamedNode]:
    """The entries of a manifest: tests that were withdrawn are in the file, but not in the list."""
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    [quad] = manifest.quads_for_pattern(None, ox.NamedNode(f"{_MF}entries"), None)
    node, found = quad.object, []
    while node != ox.NamedNode(f"{rdf}nil"):
        [first] = manifest.quads_for_pattern(node, ox.NamedNode(f"{rdf}first"), None)
        [rest] = manifest.quads_for_pattern(node, ox.NamedNode(f"{rdf}rest"), None)
        found.append(first.object)
        node = rest.object
    return found
