"""Rows of tables: columns of any Arrow type, by a mapping, to chunks of events. No text is parsed on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.errors import UsageError
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk
from thalweg.rdf.mapping import Mapping, TimeRule
from thalweg.rdf.prune import Prune
from thalweg.rdf.row_times import in_utc
from thalweg.rdf.rows import (
    BINARY,
    BLOCK,
    BOOLEAN,
    DATE,
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    INTEGER,
    TEXT,
    Cells,
    RowBuilder,
    joined,
)

_DAY = 86_400_000_000
_NESTED = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_struct,
    pa.types.is_map,
)


def table_of(rows: Any, mapping: Mapping) -> pa.Table:
    """Rows as a table: an Arrow table or batch, a pandas frame, a list of dicts, or a dict of columns."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    try:
        if type(rows).__module__.startswith("pandas."):
            return pa.Table.from_pandas(rows, preserve_index=False)
        if isinstance(rows, Dict):
            return pa.table({name: _array(name, list(values)) for name, values in rows.items()})
        if (
            isinstance(rows, Sequence)
            and not isinstance(rows, str | bytes)
            and all(isinstance(row, Dict) for row in rows)
        ):
            names = [*dict.fromkeys(name for row in rows for name in row)] or list(mapping.rules.columns)
            # A column that no row has is missing in none of them by mistake only if some other row has it.
            return pa.table({name: _array(name, [row.get(name) for row in rows]) for name in names})
    except pa.ArrowException as error:
        raise UsageError(f"the rows are no table: {error}") from None
    raise UsageError(
        f"rows are an Arrow table, a pandas frame, a list of dicts or a dict of columns, not {type(rows).__name__}"
    )


def _array(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise UsageError(f"column {name}: its values have no common type: {error}") from None


class TableBuilder:
    """A mapping, compiled for the columns of a schema and for what is kept."""

    def __init__(self, mapping: Mapping, schema: pa.Schema, prune: Prune, source: str) -> None:
        self.rules, self.source = mapping.rules, source
        found = self.rules.places(schema.names, "the table")
        for name in found:
            kind = schema.field(name).type
            if any(is_nested(kind) for is_nested in _NESTED):
                raise UsageError(
                    f"column {name} has the type {kind}: a cell is a text, a number, a time or bytes"
                )
        self._names = list(found)
        self._builder = RowBuilder(self.rules, {name: k for k, name in enumerate(self._names)}, prune)
        rule = self.rules.time
        self._time = None if rule is None else self._names.index(rule.column.name)
        if rule is not None and rule.zone is None:
            kind = schema.field(rule.column.name).type
            if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
                raise UsageError(
                    f"column {rule.column.name}: its times have no zone: add `zone` to `event` in the mapping"
                )

    def build(self, arena: Arena, table: pa.Table | pa.RecordBatch) -> Chunk:
        """The events of the rows."""
        chunks = []
        for start in range(0, table.num_rows, BLOCK):
            part = table.slice(start, BLOCK)
            cells = self._cells(part)
            chunks.append(self._builder.build(arena, cells, _Describe(part, self._names), self.source))
        return joined(chunks, [], 0, self.source)

    def _cells(self, part: pa.Table | pa.RecordBatch) -> Cells:
        n = part.num_rows
        at, sizes = (np.zeros((len(self._names), n), np.int64) for _ in range(2))
        kinds = np.zeros((len(self._names), n), np.uint8)
        times: dict[int, Ids] = {}
        keep: list[Bytes] = []
        for place, name in enumerate(self._names):
            column = _flat(part.column(name))
            if place == self._time and self.rules.time is not None:
                known = _known_times(column, self.rules.time)
                if known is not None:
                    times[place] = known
            text, kind = _texts(column)
            data, offsets = _buffers(text)
            keep.append(data)
            kinds[place] = kind
            at[place] = address_of(data) + offsets[:-1]
            sizes[place] = np.where(_missing(text), -1, np.diff(offsets))
        return Cells(n, at, sizes, kinds, times, keep)


class _Describe:
    """Rows as JSON, for messages; a table has no lines."""

    def __init__(self, part: pa.Table | pa.RecordBatch, names: list[str]) -> None:
        self.part, self.names = part, names

    def __call__(self, row: int) -> tuple[int, str]:
        values = {name: self.part.column(name)[row].as_py() for name in self.names}
        return 0, json.dumps(values, default=str, ensure_ascii=False)


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _missing(array: pa.Array) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _buffers(text: pa.Array) -> tuple[Bytes, Ids]:
    """The bytes of texts, with slack behind them, and where each one begins; the last entry is their end."""
    _, offsets, data = text.buffers()
    places = (
        np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        if len(text)
        else np.zeros(1, np.int64)
    )
    low, high = int(places[0]), int(places[-1])
    copy = np.zeros(high - low + SLACK, np.uint8)
    if high > low:
        copy[: high - low] = np.frombuffer(data, np.uint8)[low:high]
    return copy, places - low


def _texts(column: pa.Array) -> tuple[pa.Array, int]:
    """The lexical forms of a column as large texts, and their kind."""
    kind = column.type
    for is_kind, natural, convert in _CONVERSIONS:
        if is_kind(kind):
            return convert(column).cast(pa.large_string()), natural
    raise UsageError(f"a column of the type {kind} has no lexical form in RDF")


def _doubles(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    for arrow, xsd in (("nan", "NaN"), ("inf", "INF"), ("-inf", "-INF")):
        text = pc.if_else(pc.equal(text, arrow), xsd, text)
    return text


def _decimals(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    if len(text) and pc.any(pc.match_substring(text, "E")).as_py():  # XML Schema knows no exponent here
        return pa.array(
            [None if value is None else format(value, "f") for value in column.to_pylist()], pa.string()
        )
    return text


def _date_times(column: pa.Array) -> pa.Array:
    aware = column.type.tz is not None
    text = pc.strftime(column.cast(pa.timestamp("us", "UTC" if aware else None)), format="%Y-%m-%dT%H:%M:%S")
    text = pc.replace_substring_regex(text, r"\.?0*$", "") if _has_fraction(text) else text
    return pc.binary_join_element_wise(text, "Z", "") if aware else text


def _has_fraction(text: pa.Array) -> bool:
    return bool(len(text)) and bool(pc.any(pc.match_substring(text, ".")).as_py())


def _hex(column: pa.Array) -> pa.Array:
    return pa.array(
        [None if value is None else value.hex().upper() for value in column.to_pylist()], pa.string()
    )


def _same(column: pa.Array) -> pa.Array:
    return column


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    view = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or view(kind))


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], int, Callable[[pa.Array], pa.Array]], ...] = (
    (_is_text, TEXT, _same),
    (pa.types.is_null, TEXT, _plain),
    (pa.types.is_boolean, BOOLEAN, _plain),
    (pa.types.is_integer, INTEGER, _plain),
    (pa.types.is_floating, DOUBLE, _doubles),
    (pa.types.is_decimal, DECIMAL, _decimals),
    (pa.types.is_date, DATE, _plain),
    (pa.types.is_timestamp, DATE_TIME, _date_times),
    (_is_binary, BINARY, _hex),
)


def _known_times(column: pa.Array, rule: TimeRule) -> Ids | None:
    """The times of a column of timestamps or dates, in microseconds; None if it is no such column."""
    kind = column.type
    if pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32())
        micros = pc.multiply(days.cast(pa.int64()), _DAY)
    elif pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    else:
        return None
    missing = _missing(micros)
    times = np.array(micros.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    if rule.zone is not None and (pa.types.is_date(kind) or kind.tz is None):
        times, _ = in_utc(times, rule.zone)
    return np.where(missing, NO_TIME, times)
