"""The reader of JSON rows: an object on each line, to chunks of events, by a mapping."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thalweg.errors import UsageError
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import BlankNodes
from thalweg.rdf.headers import BOM, LAP, Header
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune
from thalweg.rdf.rows import BLOCK, BOOLEAN, DOUBLE, INTEGER, TEXT, Cells, RowBuilder, joined
from thalweg.rdf.texts import Texts

_SHOWN = 500


class _Number(str):
    """A number as it is written: its digits are a part of the literal."""


class _Row(NamedTuple):
    line: int
    text: bytes
    values: list[tuple[bytes, int] | None]
    """The bytes and the kind of each column that the mapping names."""


class JsonRowReader:
    """Reads lines, each with an object; those that have none, or hold an array where a value is wanted, are refused.

    A name `a.b` is the member `b` of the member `a`, unless a member is called so. Numbers and truth values have
    their natural datatypes; `null` and a missing member are no cell.

    >>> mapping = Mapping('''
    ... mappings: {m: {s: "http://ex/$(id)", po: [["http://ex/p", $(v)]]}}
    ... event: {time: $(id), format: epoch-s}''')
    >>> arena = Arena()
    >>> reader = JsonRowReader(arena, Prune.everything(), syntax="json-rows", source="a.jsonl", mapping=mapping)
    >>> arena.texts(reader.read(b'{"id": 1, "v": 5.0}').o)
    ['"5.0"^^<http://www.w3.org/2001/XMLSchema#double>']
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        syntax: str,
        source: str,
        mapping: Mapping,
        header: Header | None = None,
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = b"",
        stream: str = "",
    ) -> None:
        if per_event > 1:
            raise UsageError("a row is an event: per_event is for formats without events", source=source)
        self.arena, self.prune, self.source = arena, prune, source
        self._paths = [(name, name.split(".")) for name in mapping.rules.columns]
        self._builder = RowBuilder(mapping.rules, {name: k for k, (name, _) in enumerate(self._paths)}, prune)
        self._decoder = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_not_json)

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Read whole lines; `offset` is where they begin in the source."""
        text = bytes(data)
        if offset % LAP == 0:
            text = text.removeprefix(BOM)
        lines = text.splitlines()
        chunks: list[Chunk] = []
        rejects: list[Reject] = []
        rows: list[_Row] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                rows.append(_Row(number, line, self._values(line)))
            except _Refused as wrong:
                rejects.append(Reject(self.source, number, wrong.column, wrong.reason, _shown(line)))
            if len(rows) == BLOCK:
                chunks.append(self._build(rows))
                rows = []
        if rows:
            chunks.append(self._build(rows))
        return joined(chunks, rejects, len(lines), self.source)

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """Not done: rows of a frame are mapped as columns."""
        raise UsageError("rows come from files, as columns of a frame (thalweg.spark.rows), or by push_rows")

    def _values(self, line: bytes) -> list[tuple[bytes, int] | None]:
        try:
            row = self._decoder.decode(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise _Refused("not UTF-8") from None
        except json.JSONDecodeError as wrong:
            raise _Refused(f"not JSON: {wrong.msg}", wrong.colno) from None
        except (ValueError, RecursionError) as wrong:
            raise _Refused(f"not JSON: {str(wrong)[:80]}") from None
        if not isinstance(row, dict):
            raise _Refused('not an object: each line is a row, {"column": value, ...}')
        return [_cell(name, _member(row, name, path)) for name, path in self._paths]

    def _build(self, rows: list[_Row]) -> Chunk:
        cells = cells_of([[row.values[k] for row in rows] for k in range(len(self._paths))], len(rows))
        return self._builder.build(
            self.arena, cells, lambda row: (rows[row].line, _shown(rows[row].text)), self.source
        )


class _Refused(Exception):  # noqa: N818 - it is a finding about data, raised and caught within the reader
    def __init__(self, reason: str, column: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.column = reason, column


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is no value")


def _member(row: dict[str, Any], name: str, path: list[str]) -> Any:
    if name in row or len(path) == 1:
        return row.get(name)
    value: Any = row
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _cell(name: str, value: Any) -> tuple[bytes, int] | None:
    if value is None:
        return None
    if type(value) is str:
        try:
            return value.encode(), TEXT
        except UnicodeEncodeError:
            raise _Refused(f"column {name}: half of a surrogate pair is no character") from None
    if isinstance(value, _Number):
        return value.encode(), DOUBLE if any(c in value for c in ".eE") else INTEGER
    if isinstance(value, bool):
        return (b"true" if value else b"false"), BOOLEAN
    kind = "array" if isinstance(value, list) else "object"
    raise _Refused(f"column {name}: an {kind}, where a text, a number, true, false or null is expected")


def cells_of(columns: list[list[tuple[bytes, int] | None]], count: int) -> Cells:
    """Cells from the bytes and kinds of the values of each column."""
    sizes = np.full((len(columns), count), -1, np.int64)
    kinds = np.zeros((len(columns), count), np.uint8)
    texts: list[bytes] = []
    for place, column in enumerate(columns):
        for row, cell in enumerate(column):
            if cell is not None:
                sizes[place, row] = len(cell[0])
                kinds[place, row] = cell[1]
                texts.append(cell[0])
    whole = np.frombuffer(b"".join(texts) + bytes(SLACK), np.uint8).copy()
    ends = np.cumsum(np.maximum(sizes, 0).ravel()).reshape(sizes.shape)
    return Cells(count, address_of(whole) + ends - np.maximum(sizes, 0), sizes, kinds, keep=whole)


def _shown(text: bytes) -> str:
    return text[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
