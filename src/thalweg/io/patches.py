"""RDF Patch: what triples come and go, one transaction for each instant or event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import IO

from thalweg.io.graphs import DATE_TIME, GraphWriter, Statements
from thalweg.io.writers import Answer

Quad = tuple[str, str, str, str | None]


class RdfPatch(GraphWriter):
    r"""Transactions with the time in their header, deletes before inserts, as they are applied at one instant.

    >>> import io
    >>> from thalweg.algebra.scope import TRIPLE
    >>> out = io.BytesIO()
    >>> with RdfPatch(out, TRIPLE) as patch:
    ...     patch.columns([0, 0], ["+", "-"], dict(zip(TRIPLE, [["<a:s>"] * 2, ["<a:p>"] * 2, ['"1"', '"0"']])))
    ...     print(out.getvalue().decode(), end="")  # the instant may go on
    ...     patch.columns([1000], ["+"], dict(zip(TRIPLE, [["<a:s>"], ["<a:p>"], ['"2"']])))
    ...     print(out.getvalue().decode(), end="")
    H time "1970-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
    TX .
    D <a:s> <a:p> "0" .
    A <a:s> <a:p> "1" .
    TC .
    """

    holds = "changes"

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        super().__init__(out, names, answer, close=close)
        self._instant: tuple[str, int] | None = None
        self._quads: dict[Quad, int] = {}

    def _text(self, statements: Statements) -> str:
        events = statements.events or [0] * len(statements)
        rows = zip(
            statements.times, events, statements.op, statements.graphs, *statements.triples, strict=True
        )
        done: list[str] = []
        for instant, same in groupby(rows, lambda row: (row[0], row[1])):
            if instant != self._instant:
                done.append(self._transaction())
                self._instant = instant
            quads = self._quads
            for _, _, sign, graph, s, p, o in same:
                quad = (s, p, o, graph)
                # The parts of an instant add up: what comes and goes within it never was there.
                weight = quads.get(quad, 0) + (1 if sign == "+" else -1)
                if weight:
                    quads[quad] = weight
                else:
                    del quads[quad]
        return "".join(done)

    def _transaction(self) -> str:
        if self._instant is None or not self._quads:
            self._quads = {}
            return ""
        lines = [f'H time "{self._instant[0]}"^^{DATE_TIME} .\n', "TX .\n"]
        for letter, wanted in (("D", -1), ("A", 1)):
            lines += [
                f"{letter} {s} {p} {o} {g} .\n" if g else f"{letter} {s} {p} {o} .\n"
                for (s, p, o, g), weight in self._quads.items()
                if weight * wanted > 0
            ]
        self._quads = {}
        return "".join([*lines, "TC .\n"])

    def _finish(self) -> None:
        self._put(self._transaction().encode())
