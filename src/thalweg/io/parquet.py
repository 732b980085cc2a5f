"""Parquet: a row for each row of the answer, times as timestamps and terms as N-Triples text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.io.opening import naming
from thalweg.io.writers import FRAME, Answer, Writer, column_names

_ROW_GROUP = 1 << 16
"""Rows that wait to be written together: small row groups make a file large and slow to read."""


class Parquet(Writer):
    """A table with the columns at, op, graph, and one for each variable. A file is complete when it is closed."""

    appends = False
    is_text = False

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        super().__init__(out, names, answer, close=close)
        kinds = [pa.timestamp("us", tz="UTC"), pa.string(), pa.string(), *([pa.string()] * len(names))]
        self._schema = pa.schema(list(zip([*FRAME, *column_names(names)], kinds, strict=True)))
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        with naming(self._name):
            # pyarrow would close a Python file, also the standard output.
            self._file: Any = pq.ParquetWriter(
                pa.PythonFile(_Open(out), "w"), self._schema, compression="zstd"
            )

    def columns(
        self,
        at: Sequence[int],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None = None,
    ) -> None:
        """Take rows that are given as columns of equal lengths; `bindings` lacks unbound variables."""
        if not at:
            return
        none = pa.nulls(len(at), pa.string())
        cells = [bindings.get(name, none) for name in self.names]
        columns = [
            column if isinstance(column, pa.Array) else pa.array(column, kind.type)
            for column, kind in zip([at, op, graph or none, *cells], self._schema, strict=True)
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._count += len(at)
        self.rows += len(at)
        if self._count >= _ROW_GROUP:
            self._write_group()

    def flush(self) -> None:
        """Nothing is seen of a file before it is complete."""

    def _write_group(self) -> None:
        if self._waiting:
            with naming(self._name):
                self._file.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._count = [], 0

    def _finish(self) -> None:
        self._write_group()
        self._file.close()


class _Open:
    """A file that stays open when it is closed."""

    closed = False

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self._out.flush()
