"""The static data of a session: graphs by name, each made of the documents that were loaded into it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import UsageError
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.prune import Signature
from thalweg.static.document import UNNAMED, Document
from thalweg.static.files import kept_document, map_document, open_document
from thalweg.static.reading import file_of_graph, format_of_static


@dataclass(frozen=True)
class Part:
    """What a load brought to a graph: a graph of a document. Its blank nodes are those of the scope."""

    document: Document
    graph: str
    scope: int


class StaticData:
    """Graphs by name. A load adds to a graph, or replaces it; documents themselves never change."""

    def __init__(self) -> None:
        self._graphs: dict[str, list[Part]] = {}
        self._loads = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticData) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def _identity(self) -> list[tuple[str, str, str, int]]:
        return sorted(
            (name, part.graph, part.document.digest, part.scope)
            for name, parts in self._graphs.items()
            for part in parts
        )

    @property
    def fingerprint(self) -> str:
        """A digest of the graphs: equal for equal data that were loaded in the same order; empty without any."""
        return hashlib.sha256(repr(self._identity).encode()).hexdigest()[:32] if self._graphs else ""

    def stored(self, folder: Path) -> StaticData:
        """The same data, every document in a binary file: those that are in none are written to a folder.

        Such data are pickled as the names of the files, which each process maps once.
        """
        stored = StaticData()
        stored._loads = self._loads
        known: dict[int, Document] = {}
        for name, parts in self._graphs.items():
            for part in parts:
                document = part.document
                if id(document) not in known:
                    known[id(document)] = document if document.file else kept_document(document, folder)
            stored._graphs[name] = [replace(part, document=known[id(part.document)]) for part in parts]
        return stored

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        documents = [part.document for parts in self._graphs.values() for part in parts]
        if not all(document.file for document in documents):
            return StaticData.restored, (self.state(),)
        graphs = {
            name: [(str(part.document.file), part.graph, part.scope) for part in parts]
            for name, parts in self._graphs.items()
        }
        return _mapped, (graphs, self._loads)

    def __bool__(self) -> bool:
        return bool(self._graphs)

    def __contains__(self, graph: str) -> bool:
        return graph in self._graphs

    @property
    def names(self) -> list[str]:
        """The names of the graphs that there are."""
        return list(self._graphs)

    def load(self, document: Document, graph: str, *, replace: bool) -> list[str]:
        """Takes the graphs of a document, its unnamed one as `graph`; answers the names of those that changed."""
        if graph != UNNAMED and set(document.graphs) - {UNNAMED}:
            raise UsageError(f"{document.source} has named graphs of its own: load it without a name")
        self._loads += 1
        changed = []
        for own in document.graphs or (UNNAMED,):
            name = own or graph
            key = hashlib.blake2b(f"{self._loads} {name}".encode(), digest_size=8, person=b"static").digest()
            scope = int.from_bytes(key, "little", signed=True)
            before = [] if replace else self._graphs.get(name, [])
            self._graphs[name] = [*before, Part(document, own, scope)]
            changed.append(name)
        return changed

    def require(self, graphs: Collection[str], cache: Path | None = None) -> None:
        """Loads the files that FROM and FROM NAMED of a query name; graphs that are not there are refused."""
        for graph in graphs:
            if graph in self or graph == UNNAMED:
                continue
            path = file_of_graph(graph)
            if path is None:
                raise UsageError(
                    f"the graph <{graph}> is not loaded, and a query makes no network call: "
                    f'session.load(path, graph="{graph}"), or --static {graph}=PATH, loads it from a file'
                )
            document = open_document(path, format_of_static(path, None), cache)
            if set(document.graphs) - {UNNAMED}:
                raise UsageError(
                    f"{path} has named graphs of its own, and FROM takes one graph: load it instead"
                )
            self.load(document, graph, replace=False)

    def select(self, graphs: Collection[str], signatures: Sequence[Signature], arena: Arena) -> Ids:
        """The triples of some graphs, as one set, that fit one of some signatures: rows of ids of an arena."""
        parts = [part for graph in graphs for part in self._graphs.get(graph, [])]
        found = [part.document.select(part.graph, signatures, arena, part.scope) for part in parts]
        rows = np.concatenate([np.empty((0, 3), np.int64), *found])
        return distinct(rows)

    def state(self) -> dict[str, Any]:
        """All of it, as columns and records of terms."""
        documents = {id(part.document): part.document for parts in self._graphs.values() for part in parts}
        places = {key: place for place, key in enumerate(documents)}
        return {
            "documents": [
                {
                    "source": document.source,
                    "digest": document.digest,
                    "graphs": {name: list(columns) for name, columns in document.graphs.items()},
                    "terms": np.frombuffer(document.arena.records(), np.uint8),
                    "has_blanks": document.has_blanks,
                }
                for document in documents.values()
            ],
            "graphs": {
                name: [[places[id(part.document)], part.graph, part.scope] for part in parts]
                for name, parts in self._graphs.items()
            },
            "loads": self._loads,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> StaticData:
        """The static data of what `state` gave."""
        documents = []
        for saved in state["documents"]:
            arena = Arena()
            arena.merge(saved["terms"])
            graphs = {name: (s, p, o) for name, (s, p, o) in saved["graphs"].items()}
            documents.append(Document(saved["source"], saved["digest"], graphs, arena, saved["has_blanks"]))
        data = cls()
        data._loads = state["loads"]
        data._graphs = {
            name: [Part(documents[place], graph, scope) for place, graph, scope in parts]
            for name, parts in state["graphs"].items()
        }
        return data

    @property
    def nbytes(self) -> int:
        """The memory of all documents, mapped or not."""
        documents = {id(part.document): part.document for parts in self._graphs.values() for part in parts}
        return sum(document.nbytes for document in documents.values())

    def __len__(self) -> int:
        return sum(
            len(part.document.graphs[part.graph][0])
            for parts in self._graphs.values()
            for part in parts
            if part.graph in part.document.graphs
        )


def distinct(rows: Ids) -> Ids:
    """Rows of ids, each once."""
    if len(rows) < 2:
        return rows
    rows = rows[np.lexsort(rows.T)]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]


def difference(rows: Ids, others: Ids) -> Ids:
    """The rows, of distinct ones, that are not among others, which are distinct, too."""
    if not len(rows) or not len(others):
        return rows
    both = np.concatenate([rows, others])
    own = np.arange(len(both)) < len(rows)
    order = np.lexsort((~own, *both.T))
    both, own = both[order], own[order]
    same = np.zeros(len(both), np.bool_)
    same[:-1] = (both[:-1] == both[1:]).all(axis=1)
    return both[own & ~same]


@cache
def _document(path: str) -> Document:
    """A mapped document: one for each process. Who wrote the file has checked it."""
    return map_document(Path(path), check=False)[0]


def _mapped(graphs: dict[str, list[tuple[str, str, int]]], loads: int) -> StaticData:
    data = StaticData()
    data._loads = loads
    data._graphs = {
        name: [Part(_document(path), graph, scope) for path, graph, scope in parts]
        for name, parts in graphs.items()
    }
    return data
