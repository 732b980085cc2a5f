"""Result rows, quarantine and late events as text: JSON lines or CSV."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from thalweg.errors import UsageError
from thalweg.instants import show_instant
from thalweg.io.safety import descriptor_of
from thalweg.rdf.compression import named_gzip

_SOURCES = 100


class ResultRow(Protocol):
    """A result row: when (microseconds), `+`, `-` or `0`, bindings in N-Triples form, and a graph for [NOW]."""

    @property
    def at(self) -> int: ...  # noqa: D102

    @property
    def op(self) -> str: ...  # noqa: D102

    @property
    def bindings(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def graph(self) -> str | None: ...  # noqa: D102


class Writer:
    """A sink for result rows of the variables `names`; `rows` counts them. Use it in a `with` block."""

    def __init__(self, out: IO[bytes], names: Sequence[str], *, close: bool = True) -> None:
        self.names = tuple(names)
        self.rows = 0
        self._out = out
        self._close = close

    def columns(
        self,
        at: Sequence[int],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None = None,
    ) -> None:
        """Write rows that are given as columns of equal lengths; `bindings` lacks unbound variables."""
        if at:
            shown = {instant: show_instant(instant) for instant in set(at)}
            times = [shown[instant] for instant in at]
            _write_all(self._out, self._format(times, op, bindings, graph))
            self.rows += len(at)

    def write(self, rows: Iterable[ResultRow]) -> None:
        """Write rows that are given one by one."""
        # Rows of one query bind the same variables, so that neighbours mostly share a shape.
        shape: tuple[str, ...] | None = None
        pending: list[ResultRow] = []
        for row in rows:
            names = tuple(name for name in self.names if name in row.bindings)
            if names != shape or len(pending) >= 10_000:
                self._rows(shape, pending)
                shape, pending = names, []
            pending.append(row)
        self._rows(shape, pending)

    def flush(self) -> None:
        """Let readers of the output see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Finish the output; the standard output stays open."""
        self._out.flush()
        if self._close:
            self._out.close()

    def _rows(self, names: tuple[str, ...] | None, rows: list[ResultRow]) -> None:
        if names is not None:
            self.columns(
                [row.at for row in rows],
                [row.op for row in rows],
                {name: [row.bindings[name] for row in rows] for name in names},
                [row.graph for row in rows],
            )

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not issubclass(kind, BrokenPipeError):
            self.close()


class JsonLines(Writer):
    r"""One JSON object a line.

    >>> out = io.BytesIO()
    >>> JsonLines(out, ["x"]).columns([1_500_000], ["+"], {"x": ["<http://ex/a>"]})
    >>> out.getvalue().decode()
    '{"at": "1970-01-01T00:00:01.5Z", "op": "+", "bindings": {"x": "<http://ex/a>"}}\n'
    """

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        columns = [_quoted(bindings[name]) for name in self.names if name in bindings]
        keys = [json.dumps(name, ensure_ascii=False) for name in self.names if name in bindings]
        graphs = [""] * len(times)
        if graph is not None:
            graphs = [f'"graph": {json.dumps(name, ensure_ascii=False)}, ' if name else "" for name in graph]
        template = ", ".join(key.replace("%", "%%") + ": %s" for key in keys)
        line = '{"at": "%s", "op": "%s", %s"bindings": {' + template + "}}\n"
        return "".join(map(line.__mod__, zip(times, op, graphs, *columns, strict=True))).encode()


class Csv(Writer):
    """A table with a header: at, op, graph, and a column for each variable; terms are in N-Triples form."""

    def __init__(
        self, out: IO[bytes], names: Sequence[str], *, close: bool = True, header: bool = True
    ) -> None:
        super().__init__(out, names, close=close)
        if header:
            out.write(_table([["at", "op", "graph", *names]]))

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        none = [""] * len(times)
        columns = [bindings.get(name, none) for name in self.names]
        return _table(zip(times, op, graph or none, *columns, strict=True))


class Records:
    """A side output (quarantine, late events): one JSON object a line. Without a path it only counts."""

    def __init__(self, path: Path | None, *, append: bool = False) -> None:
        self.count = 0
        self.first: Any = None
        self.sources: dict[str, Any] = {}
        """The first record of each source, of the first sources only."""
        self._out = None if path is None else open_file(path, append)

    def write(self, records: Iterable[Any]) -> None:
        """Write dataclasses or mappings, one a line; `at` and `watermark` are instants."""
        for record in records:
            self.count += 1
            if self.first is None:
                self.first = record
            source = record.get("source") if isinstance(record, dict) else getattr(record, "source", None)
            if source and source not in self.sources and len(self.sources) < _SOURCES:
                self.sources[source] = record
            if self._out is not None:
                cells = _cells(record)
                self._out.write(json.dumps(cells, ensure_ascii=False).encode() + b"\n")

    def flush(self) -> None:
        """Let readers of the output see what was written."""
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Finish the output."""
        if self._out is not None:
            self._out.close()


class Lines:
    """A log: lines that are added to a file, each to be seen at once. Without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._out = None if path is None else open_file(path, append=True)

    def write(self, line: str) -> None:
        """Add a line."""
        if self._out is not None:
            self._out.write(line.encode() + b"\n")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._out is not None:
            self._out.close()


def open_file(path: Path, append: bool = False) -> IO[bytes]:
    """A file to write to, compressed if its name says so. What stands for an open file (/dev/stdout) is that one."""
    mode = "ab" if append else "wb"
    try:
        if (number := descriptor_of(path)) is not None:
            return open(os.dup(number), "wb")
        if named_gzip(path):
            return gzip.open(path, mode, compresslevel=6)  # type: ignore[return-value]
        return open(path, mode)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", source=str(path)) from None


def _write_all(out: IO[bytes], data: bytes) -> None:
    """Write all of it: an unbuffered standard output may take a part only, e.g. when a signal comes."""
    rest = memoryview(data)
    while rest:
        rest = rest[out.write(rest) :]


def _quoted(texts: Sequence[str]) -> list[str]:
    """JSON strings; each distinct text is quoted once, because bindings repeat."""
    known = {text: json.dumps(text, ensure_ascii=False) for text in set(texts)}
    return [known[text] for text in texts]


def _table(rows: Iterable[Iterable[str | None]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode()


def _cells(record: Any) -> dict[str, Any]:
    cells = asdict(record) if is_dataclass(record) and not isinstance(record, type) else dict(record)
    return cells | {key: show_instant(cells[key]) for key in ("at", "watermark") if key in cells}
