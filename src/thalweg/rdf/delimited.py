"""The reader of delimited rows: pieces of CSV or TSV to chunks of events, by a mapping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.errors import UsageError
from thalweg.kernels import rows as kernel
from thalweg.lines import count
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS, BlankNodes
from thalweg.rdf.headers import BOM, FAULTS, LAP, Dialect, Header, copied
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune
from thalweg.rdf.rows import BLOCK, Cells, RowBuilder, joined
from thalweg.rdf.texts import Texts

_SHOWN = 500
_ODD = 256


class DelimitedReader:
    """Turns pieces of one source into chunks. The first piece (at offset 0) begins with the header, unless the mapping
    names the columns; a reader of later pieces is given the `Header`.

    >>> mapping = Mapping('''
    ... mappings: {m: {s: "http://ex/$(id)", po: [["http://ex/p", $(v)]]}}
    ... event: {time: $(id), format: epoch-s}''')
    >>> arena = Arena()
    >>> reader = DelimitedReader(arena, Prune.everything(), syntax="csv", source="a.csv", mapping=mapping)
    >>> chunk = reader.read(b"id,v\\n1,one\\n2,\\n")
    >>> chunk.statements, chunk.time.tolist(), chunk.op.tolist(), arena.texts(chunk.o[:1])
    (1, [1000000, 2000000], [1, 0], ['"one"'])
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
        self.rules = mapping.rules
        self.dialect = Dialect.of(syntax, self.rules.layout)
        self._headed = self.rules.layout.columns is None
        self._header = header or Header(FORMATS[syntax], mapping, source)
        self._builder: RowBuilder | None = None
        self._width = 0

    def _bound(self, columns: Sequence[str]) -> RowBuilder:
        if self._builder is None:
            places = self.rules.places(columns, self.source)
            self._builder, self._width = RowBuilder(self.rules, places, self.prune), len(columns)
            self._cells, self._sizes = (np.zeros((self._width, BLOCK), np.int64) for _ in range(2))
            self._places = np.empty((BLOCK, 3), np.int64)
            self._odd = np.empty((_ODD, 5), np.int64)
        return self._builder

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Read whole rows; `offset` is where they begin in the source."""
        view = data if isinstance(data, memoryview) else memoryview(data)  # type: ignore[arg-type]
        start = lines = 0
        if offset % LAP == 0:
            start = 3 if bytes(view[:3]) == BOM else 0
            self._header.see(view)
            if self._headed and self._header.columns is not None:
                _, start, lines = self.dialect.header(view, self.source)
        if self._header.columns is None:
            if offset % LAP:
                raise ValueError("rows behind the header need the header")
            return joined([], [], count(bytes(view)), self.source)
        builder = self._bound(self._header.columns)
        copy, at = copied(view)
        end = at + view.nbytes
        state = np.zeros(4, np.int64)
        state[kernel.POS], state[kernel.LINES] = start, lines
        chunks: list[Chunk] = []
        rejects: list[Reject] = []
        status = -1
        while status != kernel.DONE:
            state[kernel.ROWS] = state[kernel.ODDS] = 0
            status = kernel.tokenize(
                at, end, self.dialect.delimiter, self.dialect.quote, state, self._cells, self._sizes, self._places,
                self._odd,
            )  # fmt: skip
            rejects += self._refused(view, int(state[kernel.ODDS]))
            rows = int(state[kernel.ROWS])
            if rows:
                # An empty cell is none.
                sizes = np.where(self._sizes == 0, -1, self._sizes)
                cells = Cells(rows, self._cells, sizes, keep=copy)
                chunks.append(builder.build(self.arena, cells, self._describe(view), self.source))
        return joined(chunks, rejects, int(state[kernel.LINES]), self.source)

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """Not done: rows of a frame are mapped as columns."""
        raise UsageError("rows come from files, as columns of a frame (thalweg.spark.rows), or by push_rows")

    def _describe(self, view: memoryview) -> _Describe:
        return _Describe(view, self._places)

    def _refused(self, view: memoryview, odd: int) -> list[Reject]:
        found = []
        for start, end, line, fault, cells in self._odd[:odd].tolist():
            reason = FAULTS.get(fault) or f"{cells} cells, and there are {self._width} columns"
            found.append(Reject(self.source, line, 0, reason, _shown(view[start:end])))
        return found


class _Describe:
    """Lines and texts of the rows of a block."""

    def __init__(self, view: memoryview, places: Ids) -> None:
        self.view, self.places = view, places

    def __call__(self, row: int) -> tuple[int, str]:
        start, end, line = self.places[row].tolist()
        return line, _shown(self.view[start:end])


def _shown(text: memoryview) -> str:
    return bytes(text[: 4 * _SHOWN]).decode("utf-8", "replace").rstrip("\r\n")[:_SHOWN]
