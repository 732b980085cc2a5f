r"""Line ends: LF, CR and CR LF each end one line, as the EOL of N-Triples has it.

All code that cuts data between lines, or counts them, uses these functions. The scan kernel has the same definition
(`kernels.scan_terms.next_line`), and a property test compares the two.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_END = re.compile(r"\r\n?|\n")


def count(data: bytes) -> int:
    r"""Number of line ends in data.

    >>> count(b"a\r\nb\rc\n\nd")
    4
    """
    returns = data.count(b"\r")
    # Two bytes are searched for much more slowly than one.
    return data.count(b"\n") + (returns - data.count(b"\r\n") if returns else 0)


def last_end(data: bytes | bytearray, low: int, high: int) -> int:
    r"""Offset behind the last line end within [low, high), or `low` where no line is sure to end there.

    A CR in the last byte is not sure: it may be the first half of CR LF.

    >>> last_end(b"a\nb\rc", 0, 5), last_end(b"a\nb\r", 0, 4), last_end(b"ab\r", 0, 3)
    (4, 2, 0)
    """
    feed = data.rfind(b"\n", low, high)
    # Behind the last LF there is rarely more than one line: this search is short.
    return max(feed, data.rfind(b"\r", max(feed, low), high - 1), low - 1) + 1


def first_end(data: bytes) -> int:
    r"""Offset of the first CR or LF, or -1.

    >>> first_end(b"ab\r\n"), first_end(b"ab")
    (2, -1)
    """
    feed = data.find(b"\n")
    back = data.find(b"\r", 0, feed if feed >= 0 else len(data))
    return back if back >= 0 else feed


class Places:
    r"""Lines and columns, both from 1, of offsets into a text.

    >>> Places("ab\r\ncd\ref").of(9)
    (3, 3)
    """

    def __init__(self, text: str) -> None:
        self._ends = [0, *(match.end() for match in _END.finditer(text))]

    def of(self, at: int) -> tuple[int, int]:
        """The line and the column of an offset."""
        line = bisect_right(self._ends, at)
        return line, at - self._ends[line - 1] + 1
