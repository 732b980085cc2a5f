"""RDF Patch: what triples come and go, one transaction for each instant or event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
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
        self._time = ""
        self._event = (-1, "")
        self._quads: dict[Quad, int] = {}

    def _text(self, statements: Statements) -> str:
        if statements.events is not None:
            return self._events(statements, statements.events)
        rows = zip(statements.times, statements.op, statements.graphs, *statements.triples, strict=True)
        done: list[str] = []
        for time, same in groupby(rows, itemgetter(0)):
            if time != self._time:
                done.append(self._transaction())
                self._time = time
            quads = self._quads
            for _, sign, graph, s, p, o in same:
                quad = (s, p, o, graph)
                # The parts of an instant add up: what comes and goes within it never was there.
                weight = quads.get(quad, 0) + (1 if sign == "+" else -1)
                if weight:
                    quads[quad] = weight
                else:
                    del quads[quad]
        return "".join(done)

    def _events(self, statements: Statements, events: Sequence[int]) -> str:
        """Transactions of events. A delete and the insert after it at one time are an update: one transaction."""
        rows = zip(
            *(events, statements.times, statements.op, statements.graphs, *statements.triples), strict=True
        )
        done: list[str] = []
        for (event, time, sign), same in groupby(rows, lambda row: row[:3]):
            found = {(s, p, o, graph): 1 if sign == "+" else -1 for _, _, _, graph, s, p, o in same}
            goes_on = (event, sign) == self._event  # the rows of an event may come in parts
            updates = (
                sign == "+"
                and time == self._time
                and self._event[1] == "-"
                and found.keys().isdisjoint(self._quads)
            )
            if not (goes_on or updates):
                done.append(self._transaction())
            self._time, self._event = time, (event, sign)
            self._quads |= found
        return "".join(done)

    def _transaction(self) -> str:
        quads, self._quads = self._quads, {}
        if not quads:
            return ""
        lines = [f'H time "{self._time}"^^{DATE_TIME} .\n', "TX .\n"]
        for letter, wanted in (("D", -1), ("A", 1)):
            lines += [
                f"{letter} {s} {p} {o} {g} .\n" if g else f"{letter} {s} {p} {o} .\n"
                for (s, p, o, g), weight in quads.items()
                if weight * wanted > 0
            ]
        return "".join([*lines, "TC .\n"])

    def _finish(self) -> None:
        self._put(self._transaction().encode())
