"""Results that wait for subscribers: a ring of numbered rows, and its rows as texts."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from thalweg.errors import UsageError
from thalweg.instants import as_instant, show_instant
from thalweg.io.sparql_results import json_term
from thalweg.rows import Row

Columns = tuple[tuple[str, str], ...]
"""Pairs (own name, name in rows) in the order of the columns."""
FORMATS = {
    "jsonl": "application/x-ndjson",
    "sparql-json": "application/sparql-results+json",
    "nq": "application/n-quads",
}
"""What rows are written as, and the content types."""
_term = lru_cache(1 << 14)(json_term)


@dataclass
class _Batch:
    """Rows of one group, the first of which has the number `first`; and their texts, each made once."""

    first: int
    rows: list[Row]
    texts: dict[tuple[str, Columns, int], list[str]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.first + len(self.rows)


@dataclass(frozen=True)
class Taken:
    """What a reader gets: numbered texts, and the rows (first, last) that it has missed, if any."""

    rows: list[tuple[int, str, str]]
    """Number, op and text."""
    gap: tuple[int, int] | None
    after: int
    """The number of the last row that the reader has now, or has missed."""


class Ring:
    """The most recent rows of a plan, numbered from 1 on. One thread adds, others read, none waits for another."""

    def __init__(self, size: int, first: int = 1) -> None:
        self.size = size
        self.next = first
        self._batches: deque[_Batch] = deque()
        self._held = 0
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The number of the newest row."""
        return self.next - 1

    def add(self, rows: list[Row]) -> None:
        """Takes rows; the oldest go where there is no room."""
        if not rows:
            return
        with self._lock:
            self._batches.append(_Batch(self.next, rows))
            self._held += len(rows)
            self.next += len(rows)
            while self._held > self.size and len(self._batches) > 1:
                self._held -= len(self._batches.popleft().rows)
            if self._held > self.size:
                only = self._batches[0]
                cut = self._held - self.size
                self._batches[0] = _Batch(only.first + cut, only.rows[cut:])
                self._held = self.size

    def after(self, number: int, columns: Columns, format: str, limit: int, shift: int = 0) -> Taken:
        """The rows after a number, at most so many; to the reader, all numbers are higher by `shift`."""
        number -= shift
        with self._lock:
            batches = [one for one in self._batches if one.end > number + 1]
            oldest = self._batches[0].first if self._batches else self.next
        gap = None
        if number + 1 < oldest:
            gap = (number + 1 + shift, oldest - 1 + shift)
            number = oldest - 1
        found: list[tuple[int, str, str]] = []
        for batch in batches:
            texts = _texts(batch, columns, format, shift)
            for k in range(max(0, number + 1 - batch.first), len(texts)):
                if len(found) == limit:
                    return Taken(found, gap, found[-1][0])
                found.append((batch.first + k + shift, batch.rows[k].op, texts[k]))
        return Taken(found, gap, found[-1][0] if found else number + shift)

    def state(self) -> dict[str, Any]:
        """The rows as values of JSON."""
        with self._lock:
            return {"next": self.next, "rows": [as_values(row) for one in self._batches for row in one.rows]}

    @classmethod
    def restored(cls, size: int, state: dict[str, Any]) -> Ring:
        """A ring with the rows of a saved one."""
        rows = [of_values(values) for values in state["rows"]]
        ring = cls(size, state["next"] - len(rows))
        ring.add(rows)
        return ring


def as_values(row: Row) -> list[Any]:
    """A row as values of JSON."""
    return [int(row.at), row.op, row.bindings, row.graph]


def of_values(values: Sequence[Any]) -> Row:
    """The row of such values."""
    return Row(as_instant(values[0]), *values[1:])


def _texts(batch: _Batch, columns: Columns, format: str, shift: int) -> list[str]:
    found = batch.texts.get((format, columns, shift))
    if found is None:
        write = _WRITERS[format]
        found = [write(batch.first + k + shift, row, columns) for k, row in enumerate(batch.rows)]
        batch.texts[format, columns, shift] = found
    return found


def _json(number: int, row: Row, columns: Columns) -> str:
    value: dict[str, Any] = {"id": number, "at": show_instant(row.at), "op": row.op}
    if row.graph:
        value["graph"] = row.graph
    value["bindings"] = {own: row.bindings[name] for own, name in columns if name in row.bindings}
    return json.dumps(value, ensure_ascii=False)


def _sparql_json(number: int, row: Row, columns: Columns) -> str:
    bound = ", ".join(
        f"{json.dumps(own, ensure_ascii=False)}: {_term(row.bindings[name])}"
        for own, name in columns
        if name in row.bindings
    )
    names = json.dumps([own for own, _ in columns], ensure_ascii=False)
    frame = f'"id": {number}, "at": "{show_instant(row.at)}", "op": "{row.op}"'
    return f'{{{frame}, "head": {{"vars": {names}}}, "results": {{"bindings": [{{{bound}}}]}}}}'


def _quads(number: int, row: Row, columns: Columns) -> str:
    if not row.bindings:
        return ""
    triple = " ".join(row.bindings[name] for name in ("subject", "predicate", "object"))
    return f"{triple} {row.graph} ." if row.graph else f"{triple} ."


_WRITERS = {"jsonl": _json, "sparql-json": _sparql_json, "nq": _quads}


def check_format(format: str, *, construct: bool) -> str:
    """The name of a format of results; one that cannot hold them is refused."""
    if format not in FORMATS:
        raise UsageError(f"the format of results is one of {', '.join(FORMATS)}, not {format!r:.60}")
    if format == "nq" and not construct:
        raise UsageError("N-Quads are for CONSTRUCT: take jsonl or sparql-json")
    return format
