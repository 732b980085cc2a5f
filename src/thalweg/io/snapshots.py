"""Formats that hold one answer: what a file of them has of an answer that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from thalweg.io.writers import Answer, Writer

Row = tuple[str | None, ...]
"""The terms of a row; None is unbound."""
_ROWS_AT_ONCE = 10_000


class Snapshot(Writer):
    """A file of the answer at the end of the run, without times.

    Of changes it holds what is left when all of them are applied; of reports the last one; and where nothing is taken
    back, all rows, which are then written as they come.
    """

    holds = "answer"
    appends = False

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        super().__init__(out, names, answer, close=close)
        self._counts: Counter[Row] = Counter()
        self._report: int | None = None
        self._any = False
        self._put(self._begin())

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
        none = [None] * len(at)
        rows: list[Row] = list(zip(*(bindings.get(name, none) for name in self.names), strict=True))
        rows = rows or [()] * len(at)
        self.rows += len(at)
        if self.answer.rows == "changes":
            self._change(op, rows)
        elif self.answer.rows == "reports":
            self._reports(at, op, rows)
        else:
            self._emit([row for row, sign in zip(rows, op, strict=True) if sign == "+"])

    def _change(self, op: Sequence[str], rows: list[Row]) -> None:
        counts = self._counts
        if "-" not in op and "0" not in op:
            counts.update(rows)
            return
        for row, sign in zip(rows, op, strict=True):
            if sign == "+":
                counts[row] += 1
            elif sign == "-":
                counts[row] -= 1
                if not counts[row]:
                    del counts[row]

    def _reports(self, at: Sequence[int], op: Sequence[str], rows: list[Row]) -> None:
        for time, row, sign in zip(at, rows, op, strict=True):
            if time != self._report:
                self._counts.clear()
                self._report = time
            if sign == "+":
                self._counts[row] += 1

    def _emit(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._put(self._text(rows[start : start + _ROWS_AT_ONCE]))
            self._any = True

    def _finish(self) -> None:
        # By text: the rows of an instant come in another order where the work is divided in another way.
        self._emit(sorted(self._counts.elements(), key=lambda row: [term or "" for term in row]))
        self._put(self._end())

    def _begin(self) -> bytes:
        """What a file begins with."""
        return b""

    def _text(self, rows: Iterable[Row]) -> bytes:
        raise NotImplementedError

    def _end(self) -> bytes:
        """What a file ends with."""
        return b""
