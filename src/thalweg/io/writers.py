"""Result rows as text: JSON lines and tables, and what all writers have in common."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from types import TracebackType
from typing import IO, ClassVar, Literal, Protocol, Self

from thalweg.instants import show_instant
from thalweg.io.opening import naming, write_all

ANSWER = "urn:thalweg:answer"
"""The stream of an answer whose query names none."""
FRAME = ("at", "op", "graph")
"""The columns of a table before those of the variables."""
_ROWS_AT_ONCE = 10_000

Holds = Literal["changes", "additions", "answer"]
"""What a format can hold: rows that come and go, rows that come only, or the answer at the end."""
Of = Literal["any", "select", "solutions", "construct"]
"""Whose answers: of all queries, of SELECT and ASK, of SELECT, of CONSTRUCT."""


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


@dataclass(frozen=True)
class Answer:
    """What a writer knows of the answer beside the names of its columns."""

    stream: str = ANSWER
    """The name of the stream that the answer is; graphs of instants are called by it."""
    rows: Literal["changes", "reports", "additions"] = "changes"
    """What the rows are: changes of the answer, the whole of it at each report, or rows that nothing takes back."""
    ask: bool = False
    """Whether the answer is yes or no."""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Prefixes for names, where a format has them."""
    begun: bool = False
    """Whether rows are added to a file that has its head."""
    timed: bool = True
    """Whether a graph is an event whose time is stated beside it; else statements are written as they are."""


class Writer:
    """A sink for result rows of the variables `names`; `rows` counts them. Use it in a `with` block."""

    holds: ClassVar[Holds] = "changes"
    of: ClassVar[Of] = "any"
    appends: ClassVar[bool] = True
    """Whether a file can be added to by another writer, so that a run which continues goes on with it."""
    is_text: ClassVar[bool] = True

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        self.names = tuple(names)
        self.answer = answer or Answer()
        self.rows = 0
        self._out = out
        self._close = close
        self._name = str(getattr(out, "name", "the output"))
        self._closed = False

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
            self._put(self._format(times, op, bindings, graph))
            self.rows += len(at)

    def write(self, rows: Iterable[ResultRow]) -> None:
        """Write rows that are given one by one."""
        # Rows of one query bind the same variables, so that neighbours mostly share a shape.
        shape: tuple[str, ...] | None = None
        pending: list[ResultRow] = []
        for row in rows:
            names = tuple(name for name in self.names if name in row.bindings)
            if names != shape or len(pending) >= _ROWS_AT_ONCE:
                self._rows(shape, pending)
                shape, pending = names, []
            pending.append(row)
        self._rows(shape, pending)

    def flush(self) -> None:
        """Let readers of the output see what was written."""
        with naming(self._name):
            self._out.flush()

    def close(self) -> None:
        """Finish the output; the standard output stays open."""
        if self._closed:
            return
        self._closed = True
        with naming(self._name):
            try:
                self._finish()
                self._out.flush()
            finally:
                if self._close:
                    self._out.close()

    def _put(self, data: bytes) -> None:
        with naming(self._name):
            write_all(self._out, data)

    def _finish(self) -> None:
        """Write what ends the file."""

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
            try:
                self.close()
            except Exception:
                if kind is None:  # else the first failure tells more
                    raise


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
        keys = [encode_basestring(name) for name in self.names if name in bindings]
        graphs = [""] * len(times)
        if graph is not None:
            graphs = [f'"graph": {encode_basestring(name)}, ' if name else "" for name in graph]
        template = ", ".join(key.replace("%", "%%") + ": %s" for key in keys)
        line = '{"at": "%s", "op": "%s", %s"bindings": {' + template + "}}\n"
        return "".join(map(line.__mod__, zip(times, op, graphs, *columns, strict=True))).encode()


class Csv(Writer):
    """A table with a header: at, op, graph, and a column for each variable; terms are in N-Triples form."""

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        super().__init__(out, names, answer, close=close)
        if not self.answer.begun:
            with naming(self._name):
                # At once: whoever adds to the file later takes it for whole.
                out.write(self._table([[*FRAME, *column_names(names)]]))

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        none = [""] * len(times)
        columns = [bindings.get(name, none) for name in self.names]
        return self._table(zip(times, op, graph or none, *columns, strict=True))

    def _table(self, rows: Iterable[Iterable[str | None]]) -> bytes:
        return csv_rows(rows)


class Tsv(Csv):
    """The same table with tabs: terms in N-Triples form have no tab and no line end, so that nothing is quoted."""

    def _table(self, rows: Iterable[Iterable[str | None]]) -> bytes:
        return tsv_rows(rows)


def column_names(names: Iterable[str]) -> list[str]:
    """The columns of variables in a table; one that is called like a column of ours has its question mark.

    >>> column_names(["x", "op"])
    ['x', '?op']
    """
    return [f"?{name}" if name in FRAME else name for name in names]


def csv_rows(rows: Iterable[Iterable[str | None]]) -> bytes:
    """Lines of a table as RFC 4180 has them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode()


def tsv_rows(rows: Iterable[Iterable[str | None]]) -> bytes:
    """Lines of cells between tabs."""
    return "".join("\t".join(cell or "" for cell in row) + "\n" for row in rows).encode()


def _quoted(texts: Sequence[str]) -> list[str]:
    """JSON strings; each distinct text is quoted once, because bindings repeat."""
    distinct = set(texts)
    if 2 * len(distinct) > len(texts):
        return list(map(encode_basestring, texts))
    known = {text: encode_basestring(text) for text in distinct}
    return [known[text] for text in texts]
