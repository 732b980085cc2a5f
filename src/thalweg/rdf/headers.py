"""Where delimited rows end, and the names of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from thalweg.errors import UsageError
from thalweg.kernels import rows as kernel
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.lines import last_end
from thalweg.rdf.arena import Bytes
from thalweg.rdf.chunk import Reject
from thalweg.rdf.formats import Format
from thalweg.rdf.mapping import Layout, Mapping

BOM = b"\xef\xbb\xbf"
FAULTS = {
    kernel.UNCLOSED: "a cell in quotes has no end",
    kernel.TRAILING: "text follows the closing quote of a cell (a quote within a cell is doubled)",
}
_NONE = np.empty((0, 1), np.int64)
_MOST_COLUMNS = 1 << 14
LAP = 1 << 48
"""What is added to the offsets of a source that is read again."""


class Dialect:
    """Delimiter and quote as bytes; they decide where rows end.

    >>> Dialect.of("csv", Layout()).whole_rows(b'a,"b\\nc"\\nd', 0, 10)
    8
    """

    def __init__(self, delimiter: int, quote: int) -> None:
        self.delimiter, self.quote = delimiter, quote

    @classmethod
    def of(cls, syntax: str, layout: Layout) -> Dialect:
        """The dialect of a format, as the layout of a mapping changes it."""
        delimiter = layout.delimiter or ("\t" if syntax == "tsv" else ",")
        return cls(ord(delimiter), -1 if layout.quote is None else ord(layout.quote))

    def whole_rows(self, data: bytes | bytearray, low: int, high: int) -> int:
        """The offset behind the last row of [low, high) that is whole for sure; a row begins at `low`."""
        if self.quote < 0 or data.find(self.quote, low, high) < 0:
            return last_end(data, low, high)
        copy, at = copied(memoryview(data)[low:high])
        size = kernel.last_row_end(at, at + high - low, self.delimiter, self.quote, _NONE, _NONE)
        del copy  # it had to live until here
        return low + int(size)

    def first_row(self, data: bytes | memoryview, *, final: bool) -> int:
        """The size of the first row; -1 where the data ends too soon to tell."""
        copy, at = copied(data)
        size = len(data)
        found = kernel.row_end_after(at, at + size, 1, final, self.delimiter, self.quote, _NONE, _NONE)
        del copy  # it had to live until here
        return int(found)

    def header(self, data: bytes | memoryview, source: str) -> tuple[tuple[str, ...], int, int]:
        """The names in the first row that is not empty, where it ends, and how many lines there are up to there."""
        start = 3 if bytes(data[:3]) == BOM else 0
        lines = 0
        while start < len(data) and data[start] in b"\r\n":
            lines += 1
            start += 2 if bytes(data[start : start + 2]) == b"\r\n" else 1
        end = start + self.first_row(data[start:], final=True)
        copy, at = copied(data[start:end])
        cells, sizes = (np.zeros((_MOST_COLUMNS, 1), np.int64) for _ in range(2))
        row = kernel.read_row(at, at + end - start, True, self.delimiter, self.quote, cells, sizes, 0)
        if row[2]:
            raise UsageError(f"the header is malformed: {FAULTS[row[2]]}", source=source, line=lines + 1)
        names = []
        for k in range(min(int(row[1]), len(cells))):
            begin = int(cells[k, 0]) - at
            names.append(copy[begin : begin + int(sizes[k, 0])].tobytes())
        try:
            columns = tuple(name.decode("utf-8").strip() for name in names)
        except UnicodeDecodeError:
            raise UsageError("the header is not UTF-8", source=source, line=lines + 1) from None
        return columns, end, lines + 1 + int(row[3])


def copied(data: bytes | memoryview | Bytes) -> tuple[Bytes, int]:
    """A copy with slack behind it, and its address."""
    view = np.frombuffer(data, np.uint8)
    copy = np.empty(view.size + SLACK, np.uint8)
    copy[: view.size] = view
    copy[view.size :] = 0
    return copy, address_of(copy)


class Header:
    """The names of a source's columns, once its first piece has been seen; its readers share it."""

    def __init__(self, format: Format, mapping: Mapping, source: str) -> None:
        self.columns = mapping.rules.layout.columns
        """None: not seen yet, or the source has no row."""
        self._format, self._mapping, self._source = format, mapping, source

    def see(self, data: bytes | memoryview) -> None:
        """Take the names from the beginning of a source, and refuse a mapping that names others."""
        if not self._format.quotes:  # JSON: each row names its columns
            return
        if self.columns is None and bytes(data[:64]).removeprefix(BOM).strip(b"\r\n"):
            layout = self._mapping.rules.layout
            self.columns = Dialect.of(self._format.name, layout).header(data, self._source)[0]
        if self.columns is not None:
            self._mapping.rules.places(self.columns, self._source)


class PiecesOfLines(Protocol):
    """Whole lines of a source, as pairs (offset, bytes)."""

    @property
    def rejects(self) -> list[Reject]:
        """What could not be read, after the iteration."""

    def __iter__(self) -> Iterator[tuple[int, memoryview]]: ...


class WholeRows:
    """The pieces of a source, cut anew so that each consists of whole rows; the first one fills in the header."""

    def __init__(self, source: PiecesOfLines, format: Format, mapping: Mapping, name: str) -> None:
        self.header = Header(format, mapping, name)
        self._source, self._cut = source, format.cut(mapping)

    @property
    def rejects(self) -> list[Reject]:
        """What could not be read, after the iteration."""
        return self._source.rejects

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        begun = 0
        rest = b""
        for offset, data in self._source:
            if self._cut is last_end:
                yield offset, data
                continue
            if not rest:
                begun = offset
            rows = rest + bytes(data) if rest else bytes(data)
            end = self._cut(rows, 0, len(rows))
            if end:
                if begun == 0:
                    self.header.see(rows[:end])
                yield begun, memoryview(rows)[:end]
                begun += end
            rest = rows[end:]
        if rest and not self.rejects:  # what stands before a break may look whole without being so
            if begun == 0:
                self.header.see(rest)
            yield begun, memoryview(rest)
