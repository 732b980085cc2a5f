"""Which patterns of a query some triple fitted, and which of its streams had an event: what a run warns about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.algebra.windows import Arrivals, Entailed
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.prune import Prune

Mask = NDArray[np.bool_]
_FEW = 1024
"""Rows that are tested before all others: mostly enough."""


class TripleColumns(Protocol):
    """Triples as columns of ids."""

    @property
    def s(self) -> Ids: ...  # noqa: D102

    @property
    def p(self) -> Ids: ...  # noqa: D102

    @property
    def o(self) -> Ids: ...  # noqa: D102


def fits(pattern: Pattern, rows: TripleColumns, arena: Arena) -> Mask:
    """The rows that a pattern can match."""
    return _fits(pattern, (rows.s, rows.p, rows.o), arena)


def _fits(pattern: Pattern, columns: tuple[Ids, Ids, Ids], arena: Arena) -> Mask:
    fits = np.ones(columns[0].size, np.bool_)
    seen: dict[str, Ids] = {}
    for term, column in zip(pattern.terms, columns, strict=True):
        if isinstance(term, Const):
            known = arena.find(term.text.encode())
            fits &= (column == known) & (known != 0)
        elif isinstance(term, Var):
            if term.name in seen:
                fits &= column == seen[term.name]
            seen[term.name] = column
    return fits


def agrees(prune: Prune, rows: TripleColumns, arena: Arena) -> Mask:
    """The rows that one of the signatures agrees with: those that a reader would have kept.

    Signatures with the same constant places are compared at once, so that many of them cost little more than one.
    """
    columns = (rows.s, rows.p, rows.o)
    kept = np.zeros(rows.s.size, np.bool_)
    texts: dict[tuple[bool, ...], list[tuple[bytes, ...]]] = {}
    for signature in prune.signatures:
        terms = (signature.s, signature.p, signature.o)
        constant = tuple(term is not None for term in terms)
        texts.setdefault(constant, []).append(tuple(term for term in terms if term is not None))
    for constant, wanted in texts.items():
        places = [k for k, is_constant in enumerate(constant) if is_constant]
        if not places:
            return np.ones(rows.s.size, np.bool_)
        ids = np.array([[arena.find(text) for text in one] for one in wanted], np.int64)
        ids = ids[(ids != 0).all(axis=1)]
        # A pair that differs and has the same sum is kept, too: the windows leave it out.
        odd = np.array([1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)[: len(places)]
        found = sum(columns[k].view(np.uint64) * odd[n] for n, k in enumerate(places))
        kept |= np.isin(found, (ids.view(np.uint64) * odd).sum(axis=1, dtype=np.uint64))
    return kept


class Coverage:
    """The patterns of queries that no triple has fitted so far. One that was fitted costs nothing more.

    Patterns are numbered from the first of the first query on. Those that read another stream than the given ones, such
    as a derived one, those that also read `static` graphs, and those about arrivals or under a schema count as fitted:
    nothing is known of them here.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        streams: Iterable[str],
        matched: Iterable[int] = (),
        static: Iterable[str] = (),
    ) -> None:
        known, before, loaded = set(streams), set(matched), set(static)
        self._patterns = [
            (
                pattern,
                ()
                if isinstance(source.window, Arrivals | Entailed) or loaded.intersection(source.graphs)
                else source.streams,
            )
            for query in queries
            for pattern in query.patterns
            for source in [query.sources[pattern.source]]
        ]
        self.unmatched = [
            number
            for number, (_, read) in enumerate(self._patterns)
            if number not in before and read and known.issuperset(read)
        ]

    @property
    def matched(self) -> list[int]:
        """The patterns that some triple has fitted."""
        return [number for number in range(len(self._patterns)) if number not in self.unmatched]

    def observe(self, stream: str, rows: TripleColumns, arena: Arena) -> None:
        """Take note of triples of a stream."""
        if not self.unmatched or not rows.s.size:
            return
        self.unmatched = [
            number for number in self.unmatched if not self._fitted(number, stream, rows, arena)
        ]

    def _fitted(self, number: int, stream: str, rows: TripleColumns, arena: Arena) -> bool:
        pattern, streams = self._patterns[number]
        if stream not in streams:
            return False
        parts = (slice(_FEW), slice(_FEW, None)) if rows.s.size > _FEW else (slice(None),)
        return any(
            bool(_fits(pattern, (rows.s[part], rows.p[part], rows.o[part]), arena).any()) for part in parts
        )
