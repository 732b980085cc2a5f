"""Lists of rows, and what they become for other libraries: tables of Arrow and pandas, terms and graphs of rdflib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thalweg.instants import show_instant
from thalweg.rows import Row
from thalweg.terms import IRI, BlankNode, Literal, Value, literal_of, value_of

if TYPE_CHECKING:
    import pandas as pd
    import rdflib

_SHOWN_ROWS = 20
_INT64 = range(-(2**63), 2**63)


class Rows(list[Row]):
    """Rows as a poll or `answer` gives them: a list that knows its variables, and that can become a table."""

    __slots__ = ("names", "of_answer")

    names: tuple[str, ...]
    of_answer: bool
    """Whether the rows are an answer, whose time and sign are the same in all of them."""

    @classmethod
    def of(cls, rows: Iterable[Row], names: tuple[str, ...], *, of_answer: bool = False) -> Rows:
        """Rows of these variables. A method of its own: an `__init__` in Python would take longer than all of this."""
        made = cls(rows)
        made.names, made.of_answer = names, of_answer
        return made

    def __getattr__(self, name: str) -> Any:
        """What a list that somebody else has made of rows lacks: all variables of the rows; they are changes."""
        if name == "names":
            return tuple(dict.fromkeys(variable for row in self for variable in row.bindings))
        if name == "of_answer":
            return False
        raise AttributeError(f"'Rows' object has no attribute {name!r}")

    def to_arrow(self, *, terms: bool = False) -> pa.Table:
        """A table of Arrow with a column for each variable; of changes also `at`, `op` and, for `[NOW]`, `graph`.

        A column has the type that all its terms have: integer, floating point, boolean, timestamp, date; else it has
        texts: IRIs and lexical forms. With `terms=True` all columns are N-Triples texts.
        """
        return arrow_of(self, terms=terms)

    def to_pandas(self, *, terms: bool = False) -> pd.DataFrame:
        """The same as a data frame of pandas."""
        return self.to_arrow(terms=terms).to_pandas()

    def to_rdflib(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of rdflib's terms."""
        return rdflib_of(self)

    def _repr_html_(self) -> str:
        """The first rows as an HTML table, for notebooks."""
        leading = () if self.of_answer else ("at", "op")
        head = "".join(f"<th>{escape(name)}</th>" for name in (*leading, *self.names))
        body = "".join(f"<tr>{_cells(row, leading, self.names)}</tr>" for row in self[:_SHOWN_ROWS])
        more = f"<p>and {len(self) - _SHOWN_ROWS:,} more</p>" if len(self) > _SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cells(row: Row, leading: Sequence[str], names: Sequence[str]) -> str:
    cells = [*([show_instant(row.at), row.op] if leading else []), *(row.get(name) or "" for name in names)]
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)


def arrow_of(rows: Rows, *, terms: bool = False) -> pa.Table:
    """Rows as a table; see `Rows.to_arrow`."""
    columns: dict[str, pa.Array] = {}
    if not rows.of_answer:
        columns["at"] = pa.array([int(row.at) for row in rows], pa.timestamp("us", tz="UTC"))
        columns["op"] = pa.array([row.op for row in rows], pa.string())
        if any(row.graph is not None for row in rows):
            columns["graph"] = pa.array(
                [row.graph and (row.graph if terms else row.graph[1:-1]) for row in rows], pa.string()
            )
    for name in rows.names:
        texts = [row.get(name) for row in rows]
        label = name if name not in columns else f"?{name}"  # a variable that is called as a column of ours
        columns[label] = pa.array(texts, pa.string()) if terms else _typed(texts)
    if not columns:  # ASK: a row for a table that has no variables
        return pa.table({"answer": pa.array([True] * len(rows), pa.bool_())})
    return pa.table(columns)


def _typed(texts: Sequence[str | None]) -> pa.Array:
    """A column of the type that all terms have, or of texts."""
    distinct = {text: value_of(text) for text in set(texts) if text is not None}
    values = list(distinct.values())
    for fits, type_, convert in _TYPES:
        if values and all(map(fits, values)):
            return pa.array([None if text is None else convert(distinct[text]) for text in texts], type_)
    shown = {text: _text(text, value) for text, value in distinct.items()}
    return pa.array([None if text is None else shown[text] for text in texts], pa.string())


def _text(text: str, value: Value) -> str:
    if isinstance(value, IRI | Literal):
        return str(value)
    return text if isinstance(value, BlankNode) else str(literal_of(text))


def _is_aware(value: Value) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


_TYPES: tuple[tuple[Callable[[Any], bool], pa.DataType, Callable[[Any], Any]], ...] = (
    (lambda v: isinstance(v, bool), pa.bool_(), bool),
    (lambda v: type(v) is int and v in _INT64, pa.int64(), int),
    (lambda v: type(v) in (int, float, Decimal), pa.float64(), float),
    (_is_aware, pa.timestamp("us", tz="UTC"), lambda v: v.astimezone(UTC)),
    (lambda v: isinstance(v, datetime) and v.tzinfo is None, pa.timestamp("us"), lambda v: v),
    (lambda v: isinstance(v, date) and not isinstance(v, datetime), pa.date32(), lambda v: v),
)


def rdflib_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries of rdflib's terms."""
    return [{name: rdflib_term(text) for name, text in row.bindings.items()} for row in rows]


def graph_of(rows: Sequence[Row]) -> rdflib.Graph:
    """The graph of the rows of a CONSTRUCT."""
    import rdflib

    graph = rdflib.Graph()
    for row in rows:
        graph.add((rdflib_term(row["subject"]), rdflib_term(row["predicate"]), rdflib_term(row["object"])))
    return graph


@lru_cache(maxsize=1 << 14)
def rdflib_term(text: str) -> Any:
    """The term of rdflib for a term in N-Triples form; its lexical form stays as it is."""
    import rdflib

    if text.startswith("<"):
        return rdflib.URIRef(text[1:-1])
    if text.startswith("_:"):
        return rdflib.BNode(text[2:])
    literal = literal_of(text)
    datatype = (
        None if literal.language is not None or "^^" not in text[text.rindex('"') :] else literal.datatype
    )
    return rdflib.Literal(
        str(literal), lang=literal.language, datatype=datatype and rdflib.URIRef(datatype), normalize=False
    )
