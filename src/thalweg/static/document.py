"""A static document: the triples of one file or text, by graph, as ids of an arena of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import replace_ids
from thalweg.rdf.prune import Signature

Columns = tuple[Ids, Ids, Ids]
Keep = Callable[[Arena, Ids, Ids, Ids], NDArray[np.bool_]]
"""Which triples of an arena, as columns, are kept: a shard has only some."""
UNNAMED = ""
"""The graph of statements that are in no named graph."""
_EVERYTHING = Signature(None, None, None)


@dataclass(frozen=True, eq=False)
class Document:
    """What one file or text says. It is never changed: queries copy what they need into the arena of their session.

    Labels of blank nodes are as the text has them; who takes triples gives them a scope.
    """

    source: str
    digest: str
    """Of the bytes of the file or text."""
    graphs: Mapping[str, Columns]
    """Columns of subjects, predicates and objects by the name of the graph; a triple may be there twice."""
    arena: Arena
    has_blanks: bool
    file: Path | None = None
    """The binary file that it is mapped from."""

    def __len__(self) -> int:
        return sum(len(columns[0]) for columns in self.graphs.values())

    @property
    def nbytes(self) -> int:
        """The memory of triples and terms, mapped or not."""
        return self.arena.nbytes + sum(column.nbytes for own in self.graphs.values() for column in own)

    def select(
        self,
        graph: str,
        signatures: Sequence[Signature],
        arena: Arena,
        scope: int,
        keep: Keep | None = None,
    ) -> Ids:
        """The triples of a graph that fit one of some signatures, as rows of ids of another arena.

        Blank nodes become those of the scope; `keep` sees their labels. What it does not keep costs no memory there.
        """
        columns = self.graphs.get(graph)
        if columns is None:
            return np.empty((0, 3), np.int64)
        fitting = self._fitting(columns, signatures)
        rows = np.stack([column[fitting] for column in columns], axis=1)
        if keep is not None:
            rows = rows[keep(self.arena, *rows.T)]
        if not len(rows):
            return rows
        differing = arena.merge(self.arena.records_of(rows))
        if differing is not None:
            rows = replace_ids(rows.ravel(), *differing).reshape(rows.shape)
        if self.has_blanks:
            cells = np.ascontiguousarray(rows).ravel()
            arena.rescope(cells, np.full(len(cells), scope, np.int64))
            rows = cells.reshape(rows.shape)
        return rows

    def count(self, graph: str, signature: Signature) -> int:
        """How many triples of a graph fit a signature; one that is there twice counts twice."""
        columns = self.graphs.get(graph)
        return 0 if columns is None else len(columns[0][self._fitting(columns, [signature])])

    def _fitting(
        self, columns: Columns, signatures: Sequence[Signature]
    ) -> NDArray[np.bool_] | slice | NDArray[np.intp]:
        """Which rows fit one of some signatures."""
        if _EVERYTHING in signatures:
            return slice(None)
        found = np.zeros(len(columns[0]), np.bool_)
        of_predicate: list[int] = []
        for signature in set(signatures):
            wanted = [
                None if text is None else self.arena.find(text)
                for text in (signature.s, signature.p, signature.o)
            ]
            if 0 in wanted:  # the document does not have such a term
                continue
            if wanted[0] is None and wanted[2] is None and wanted[1] is not None:
                of_predicate.append(wanted[1])
                continue
            pairs = [(column, id) for column, id in zip(columns, wanted, strict=True) if id is not None]
            fits = pairs[0][0] == pairs[0][1]
            for column, id in pairs[1:]:
                fits &= column == id
            found |= fits
        if of_predicate:
            found |= np.isin(columns[1], np.array(of_predicate, np.int64))
        return found
