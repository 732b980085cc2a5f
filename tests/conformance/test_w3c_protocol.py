"""The W3C suite of the SPARQL 1.1 Protocol over sockets: a test passes, or is refused as the ledger says."""

from __future__ import annotations

import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyoxigraph as ox
import pytest
from w3c_sparql import ARCHIVE, HERE

from tests.server.serving import Answer, Served, serving

pytestmark = pytest.mark.skipif(
    not ARCHIVE.exists(),
    reason=f"the W3C suites are not here: set THALWEG_CONFORMANCE to the folder of {ARCHIVE.name}",
)
FOLDER = "sparql/sparql11/protocol/"
BASE = "http://www.w3.org/2009/sparql/docs/tests/data-sparql11/protocol/manifest#"
DATA = "http://kasei.us/2009/09/sparql/data/data{}.rdf"
_HT = "http://www.w3.org/2011/http#"
_CNT = "http://www.w3.org/2011/content#"
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_FORMATS = {
    "boolean": ("application/sparql-results+json", "application/sparql-results+xml"),
    "tabular": ("application/sparql-results+json", "application/sparql-results+xml", "text/csv"),
    "RDF": ("application/n-triples", "text/turtle", "application/rdf+xml", "application/ld+json"),
}


@dataclass(frozen=True)
class Exchange:
    """A request of a test, and what is expected of the response."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    statuses: tuple[int, ...]
    """Hundreds."""
    truth: bool | None
    format: str | None


@cache
def suite() -> tuple[dict[str, list[Exchange]], dict[str, bytes]]:
    """The exchanges of each test, and the data files."""
    if not ARCHIVE.exists():
        return {}, {}
    files: dict[str, bytes] = {}
    with tarfile.open(ARCHIVE, "r|gz") as archive:
        for member in archive:
            if member.name.startswith(FOLDER) and member.isfile():
                found = archive.extractfile(member)
                assert found is not None
                files[member.name.removeprefix(FOLDER)] = found.read()
    store = ox.Store()
    store.load(files["manifest.ttl"], ox.RdfFormat.TURTLE, base_iri=BASE.removesuffix("#"))
    entries = values(store, None, _MF + "entries")
    tests = {name.value.removeprefix(BASE): name for name in members(store, entries[0])}
    return {name: list(exchanges(store, test)) for name, test in tests.items()}, files


def values(store: ox.Store, subject: Any, predicate: str) -> list[Any]:
    return [quad.object for quad in store.quads_for_pattern(subject, ox.NamedNode(predicate), None)]


def members(store: ox.Store, head: Any) -> Iterator[Any]:
    while head.value != _RDF + "nil":
        yield values(store, head, _RDF + "first")[0]
        head = values(store, head, _RDF + "rest")[0]


def exchanges(store: ox.Store, test: Any) -> Iterator[Exchange]:
    (action,) = values(store, test, _MF + "action")
    for request in members(store, values(store, action, _HT + "requests")[0]):
        headers = {}
        for listed in values(store, request, _HT + "headers"):
            for header in members(store, listed):
                name = values(store, header, _HT + "fieldName")[0].value
                headers[name] = values(store, header, _HT + "fieldValue")[0].value
        body = b""
        for content in values(store, request, _HT + "body"):
            encoding = values(store, content, _CNT + "characterEncoding")[0].value
            body = values(store, content, _CNT + "chars")[0].value.encode(encoding)
        (response,) = values(store, request, _HT + "resp")
        statuses = [one.value for one in values(store, response, _MF + "expectedStatus")]
        truth = values(store, response, _MF + "expectedBoolean")
        format = values(store, response, _MF + "expectedFormat")
        yield Exchange(
            values(store, request, _HT + "methodName")[0].value,
            values(store, request, _HT + "absolutePath")[0].value.replace("/sparql/", "/sparql", 1),
            headers,
            body,
            tuple(int(one[-3]) for one in statuses),
            truth[0].value == "true" if truth else None,
            format[0].value if format else None,
        )


def gaps() -> dict[str, str]:
    ledger = tomllib.loads((HERE / "protocol_gaps.toml").read_text())
    return {test: table["reason"] for table in ledger.values() for test in table["tests"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Path(tmp_path_factory.mktemp("protocol")) / "data") as found:
        for number in (1, 2, 3):
            data = suite()[1][f"data{number}.nt"]
            path = f"/static?graph={quote(DATA.format(number), safe='')}"
            assert found.client("PUT", path, data, "application/n-triples").status == 200
        yield found


def sent(served: Served, one: Exchange) -> Answer:
    return served.client(one.method, one.path, one.body or None, headers=one.headers)


@pytest.mark.parametrize("name", list(suite()[0]))
def test_it_passes_or_is_refused_as_the_ledger_says(served: Served, name: str) -> None:
    tests, _ = suite()
    if name in gaps():
        answer = sent(served, tests[name][0])
        assert (answer.status, "error" in answer.json) == (400, True), answer.data
        return
    for one in tests[name]:
        answer = sent(served, one)
        assert answer.status // 100 in one.statuses, answer.data
        if one.format is not None:
            assert answer.headers["content-type"].partition(";")[0] in _FORMATS[one.format]
        if one.truth is not None:
            assert answer.json["boolean"] is one.truth


def test_the_ledger_names_tests_of_the_suite() -> None:
    assert set(gaps()) < set(suite()[0])
    assert len(suite()[0]) == 34
