"""Rows of answers: what a poll gives to a user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thalweg.errors import UnboundError
from thalweg.instants import Instant, as_instant, show_instant
from thalweg.terms import Value, value_of


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """A result row: when, whether it came (+) or went (-), and the terms as N-Triples text.

    `0` stands for a report whose answer is empty, where the query asks for these. `gap` stands for rows up to its time
    that were dropped because nobody polled them. Both have no bindings.

    >>> row = Row(as_instant(1_500_000), "+", {"x": "<http://ex/a>", "n": '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'})
    >>> row["x"], row.value("n"), row.values
    ('<http://ex/a>', 5, {'x': IRI('http://ex/a'), 'n': 5})
    >>> row
    <Row 1970-01-01T00:00:01.5Z + x=<http://ex/a> n="5"^^<http://www.w3.org/2001/XMLSchema#integer>>
    """

    at: Instant
    op: str
    bindings: dict[str, str]
    graph: str | None = None

    def __init__(self, at: Instant, op: str, bindings: dict[str, str], graph: str | None = None) -> None:
        # The setters of the slots: half the time of what a frozen dataclass does by itself.
        _set_at(self, at)
        _set_op(self, op)
        _set_bindings(self, bindings)
        _set_graph(self, graph)

    def __getitem__(self, name: str) -> str:
        """The term of a variable, as N-Triples text."""
        try:
            return self.bindings[name]
        except KeyError:
            raise _unbound(self, name) from None

    def __contains__(self, name: object) -> bool:
        return name in self.bindings

    def get(self, name: str) -> str | None:
        """The term of a variable, or None where the row leaves it unbound."""
        return self.bindings.get(name)

    def value(self, name: str) -> Value:
        """The term of a variable as a Python value: a number, a truth value, a date, a time, an `IRI`, a `Literal`."""
        return value_of(self[name])

    @property
    def values(self) -> dict[str, Value]:
        """The terms as Python values, by variable."""
        return {name: value_of(text) for name, text in self.bindings.items()}

    @property
    def time(self) -> datetime | None:
        """The time of the row, as a `datetime` in UTC; None before the year 1, which `datetime` does not have."""
        return as_instant(self.at).time

    def __repr__(self) -> str:
        bound = "".join(f" {name}={text}" for name, text in self.bindings.items())
        graph = f" graph {self.graph}" if self.graph else ""
        return f"<Row {show_instant(self.at)} {self.op}{bound}{graph}>"


_set_at, _set_op, _set_bindings, _set_graph = (
    Row.__dict__[name].__set__ for name in ("at", "op", "bindings", "graph")
)


def _unbound(row: Row, name: object) -> UnboundError:
    bound = ", ".join(f"?{one}" for one in row.bindings) or "no variable"
    hint = ""
    if isinstance(name, str) and name[:1] in ("?", "$") and name[1:] in row.bindings:
        hint = f'; write row["{name[1:]}"]'
    elif isinstance(name, int):
        hint = "; a row is asked by names"
    return UnboundError(f"this row does not bind {name!r:.60}: it binds {bound}{hint}")
