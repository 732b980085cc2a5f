"""The static data of a session: graphs by name, each made of the documents that were loaded into it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import UsageError
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.prune import Signature
from thalweg.static.document import UNNAMED, Document, Keep
from thalweg.static.files import open_document
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
        self._keep: dict[str, Keep] = {}  # of the graphs of a shard, and which triples of each it has

    @classmethod
    def of_parts(cls, graphs: Mapping[str, Sequence[Part]], loads: int) -> StaticData:
        """The data of what `parts` gave, after so many loads."""
        data = cls()
        data._graphs, data._loads = {name: list(parts) for name, parts in graphs.items()}, loads
        return data

    def parts(self) -> Iterator[tuple[str, Sequence[Part]]]:
        """The graphs by name, each with its parts."""
        yield from self._graphs.items()

    @property
    def loads(self) -> int:
        """How many loads there were."""
        return self._loads

    def in_shard(self, graphs: Mapping[str, tuple[str, Keep]]) -> StaticData:
        """The data as a shard has them: by each name that it uses, a graph of these, and which triples it keeps."""
        own = {name: self._graphs[graph] for name, (graph, _) in graphs.items() if graph in self._graphs}
        data = StaticData.of_parts(own, self._loads)
        data._keep = {name: keep for name, (_, keep) in graphs.items()}
        return data

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
            if graph in self or graph == UNNAMED or graph in self._keep:
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

    def select(
        self,
        graphs: Collection[str],
        signatures: Sequence[Signature],
        arena: Arena,
        *,
        whole: bool = False,
    ) -> Ids:
        """The triples of some graphs, as one set, that fit one of some signatures: rows of ids of an arena.

        In a shard, these are the triples that it keeps, unless `whole`.
        """
        found = [np.empty((0, 3), np.int64)]
        for graph in graphs:
            keep = None if whole else self._keep.get(graph)
            for part in self._graphs.get(graph, []):
                found.append(part.document.select(part.graph, signatures, arena, part.scope, keep))
        return distinct(np.concatenate(found))

    def kept(self, graphs: Collection[str], arena: Arena, rows: Ids) -> NDArray[np.bool_]:
        """Which of some triples, which follow from those of some graphs, a shard keeps; without shards, all."""
        found = np.full(len(rows), not self._keep, np.bool_)
        for graph in graphs:
            if graph in self._keep:
                found |= self._keep[graph](arena, *rows.T)
        return found

    def count(self, graphs: Collection[str], signature: Signature) -> int:
        """How many triples of some graphs fit a signature; those that are in several places count for each."""
        parts = [part for graph in graphs for part in self._graphs.get(graph, [])]
        return sum(part.document.count(part.graph, signature) for part in parts)

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
