"""Rows for people: a table in a terminal that grows row by row, with prefixed names and columns that stay in place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import IO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style

from thalweg.algebra.terms import XSD
from thalweg.io.turtle import Names
from thalweg.io.writers import Answer, Writer

_SAMPLE = 100
"""Rows that decide how wide columns are."""
_NARROWEST, _USUAL = 8, 24
_GAP = "  "
_SIGNS = {"+": "green", "-": "red", "0": "yellow"}
_BARE = re.compile(
    rf'"([^"\\]*)"\^\^<{XSD}(?:decimal|double|float|int|long|short|byte|unsigned\w+|\w+Integer|date|dateTime|time)>'
)
# Control characters steer a terminal, and marks of direction turn its text around.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Pretty(Writer):
    """A table on the standard output. Cells that are too long for their column are cut; `--no-pretty` shows all."""

    appends = False

    def __init__(
        self, out: IO[bytes], names: Sequence[str], answer: Answer | None = None, *, close: bool = True
    ) -> None:
        super().__init__(out, names, answer, close=close)
        self._console = Console()
        self._terms = Names(self.answer.prefixes)
        self._widths: list[int] = []
        self._has_graph = False

    def cell(self, term: str | None) -> str:
        """A term as it is shown."""
        if term is None:
            return ""
        bare = _BARE.fullmatch(term)
        return printable(bare[1] if bare else self._terms.term(term))

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        head = b""
        none = [None] * len(times)
        if not self._widths:
            self._has_graph = graph is not None and any(graph)
        columns = [
            *([graph or none] if self._has_graph else []),
            *(bindings.get(n, none) for n in self.names),
        ]
        rows = list(zip(*([self.cell(term) for term in column] for column in columns), strict=True))
        rows = rows or [()] * len(times)
        if not self._widths:
            head = self._head(times, rows).encode()
        signs = {sign: self._style(sign, color) for sign, color in _SIGNS.items()}
        widths = self._widths
        lines = (
            f"{time:<{widths[0]}}{_GAP}{signs.get(sign, sign)} {self._cells(row if sign != '0' else ('(empty)',))}\n"
            for time, sign, row in zip(times, op, rows, strict=True)
        )
        return head + "".join(lines).encode()

    def _cells(self, row: Sequence[str]) -> str:
        return "".join(
            _GAP + fitted(text, width) for text, width in zip(row, self._widths[1:], strict=False)
        ).rstrip()

    def _head(self, times: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """The first line; it decides the widths of all that follow."""
        names = [*(["graph"] if self._has_graph else []), *(f"?{name}" for name in self.names)]
        needs = [
            max(cell_len(name), *(cell_len(row[k]) for row in rows[:_SAMPLE])) for k, name in enumerate(names)
        ]
        first = max(24, *map(len, times[:_SAMPLE]))
        room = self._console.width - first - len(_GAP) - 2 - len(_GAP) * len(names)
        self._widths = [first, *shared(needs, room)]
        line = f"{'at':<{first}}{_GAP}  {self._cells(names)}"
        return self._style(line, "bold") + "\n"

    def _style(self, text: str, style: str) -> str:
        color = self._console.color_system
        if color is None or self._console.no_color:
            return text
        return Style.parse(style).render(text, color_system=self._console._color_system)


def shared(needs: Sequence[int], room: int) -> list[int]:
    """The widths of columns: what they need if there is room, else what is left after the narrow ones, in equal parts.

    Later rows may need more than the first ones, so that columns get some of the room that nobody needs.

    >>> shared([5, 100, 7], 60), shared([3, 4], 60), shared([30, 30, 30], 10)
    ([8, 44, 8], [24, 24], [8, 8, 8])
    """
    widths: dict[int, int] = {}
    rest = room
    for place in sorted(range(len(needs)), key=needs.__getitem__):
        fair = rest // (len(needs) - len(widths))
        widths[place] = max(_NARROWEST, min(needs[place], fair))
        rest -= widths[place]
    for place in widths:
        if rest > 0 and (more := min(rest, _USUAL - widths[place])) > 0:
            widths[place] += more
            rest -= more
    return [widths[place] for place in range(len(needs))]


def fitted(text: str, width: int) -> str:
    """A text in so many cells, cut if it is longer.

    >>> fitted("abc", 5), fitted("abcdef", 5)
    ('abc  ', 'abcd…')
    """
    length = cell_len(text)
    if length <= width:
        return text + " " * (width - length)
    return set_cell_size(text, width - 1) + "…"


def printable(text: str) -> str:
    r"""A text without characters that would steer a terminal.

    >>> printable("a\x9bb\u202e")
    'a\\u009Bb\\u202E'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04X}", text)
