r"""Rows of delimited text (CSV, TSV): where they end, and where their cells are.

The law: RFC 4180 with any delimiter. LF, CR and CR LF end a row; so does the end of the data. A cell that begins with a
quote ends at the next quote that is not doubled, and may have delimiters and line ends in it. A quote within another
cell is a character like any other. A cell in quotes that has no end within `MOST_QUOTED` bytes, or none at all, is a
fault of its first line: reading goes on with the second one. So a row depends on its bytes only, never on how the
data is cut into pieces.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba.extending import intrinsic

from thalweg.kernels.bits import _BLOCK, _BYTE, _HALF, _WORD, _any, _at, _word_function, ctz, load8, store8
from thalweg.kernels.checking import njit

MOST_QUOTED = 16 << 20
"""Bytes of a cell in quotes, at most."""

SHORT, LONG, UNCLOSED, TRAILING = 1, 2, 3, 4
"""Faults of a row: too few cells, too many, a quote without an end, text behind a closing quote."""

POS, ROWS, LINES, ODDS = 0, 1, 2, 3
"""Places in the state of `tokenize`: the offset reached, rows, line ends, faulty rows."""

DONE, FULL, ODD_FULL = 0, 1, 2

_LF, _CR = 0x0A, 0x0D


def _repeated(builder: Any, word: Any) -> Any:
    """A vector whose bytes are all the low byte of a word."""
    nothing = ir.Constant(_BLOCK, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(word, _BYTE), ir.Constant(_HALF, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_HALF, 64), [0] * 64))


@intrinsic
def equal_to(typingctx, address, a, b, c):
    """Bits of the 64 bytes at an address that are the byte a, b or c."""

    def emit(builder: Any, address: Any, *bytes: Any) -> Any:
        block = builder.load(_at(builder, address, _BLOCK), align=1)
        found = (builder.icmp_signed("==", block, _repeated(builder, byte)) for byte in bytes)
        return builder.bitcast(_any(builder, *found), _WORD)

    return _word_function(4, emit, touched=(64,))


@njit(cache=True, nogil=True)
def _find(p, end, a, b, c):
    """Address of the first byte a, b or c in [p, end), or `end`."""
    while p < end:
        found = equal_to(p, a, b, c)
        if found != 0:
            return min(p + ctz(found), end)
        p += 64
    return end


@njit(cache=True, nogil=True)
def _after_line_end(p, end, final):
    """Address after the line end at p, or -1 where the data has to tell first whether CR is the half of CR LF."""
    if load8(p) == _CR:
        if p + 1 >= end:
            return p + 1 if final else -1
        if load8(p + 1) == _LF:
            return p + 2
    return p + 1


@njit(cache=True, nogil=True)
def _line_ends_within(p, end):
    """How many line ends are in [p, end)."""
    count = 0
    p = _find(p, end, _LF, _CR, _CR)
    while p < end:
        count += 1
        p = _find(_after_line_end(p, end, True), end, _LF, _CR, _CR)
    return count


@njit(cache=True, nogil=True)
def _unquoted(p, end, quote):
    """Write the text in [p, end) with each doubled quote as one, in place; gives its new end."""
    target = p
    while p < end:
        c = load8(p)
        store8(target, c)
        target += 1
        p += 2 if c == quote else 1
    return target


@njit(cache=True, nogil=True)
def read_row(p, end, final, delimiter, quote, cells, sizes, r):
    """Read the row at p: (address after it, number of its cells, fault, line ends within it).

    The address is -1 where the data ends too soon to tell. Cells that fit into the arrays are stored.
    """
    begin = p
    width = cells.shape[0]
    count = 0
    fault = 0
    breaks = 0
    while True:
        if p < end and load8(p) == quote:
            limit = min(end, p + MOST_QUOTED)
            q = p + 1
            doubled = False
            while True:
                q = _find(q, limit, quote, quote, quote)
                if q >= limit:
                    if limit == end and not final:
                        return -1, 0, 0, 0
                    q = _find(begin, end, _LF, _CR, _CR)
                    if q < end:
                        return _after_line_end(q, end, final), count, UNCLOSED, 0
                    return end if final else -1, count, UNCLOSED, 0
                if q + 1 >= end:
                    if not final:
                        return -1, 0, 0, 0
                    break
                if load8(q + 1) != quote:
                    break
                doubled = True
                q += 2
            breaks += _line_ends_within(p + 1, q)
            if count < width:
                cells[count, r] = p + 1
                sizes[count, r] = (_unquoted(p + 1, q, quote) if doubled else q) - p - 1
            p = q + 1
            q = _find(p, end, delimiter, _LF, _CR)
            if q > p:
                fault = TRAILING
                p = _find(p, end, _LF, _CR, _CR)
        else:
            q = _find(p, end, delimiter, _LF, _CR)
            if count < width:
                cells[count, r] = p
                sizes[count, r] = q - p
            p = q
        count += 1
        if p >= end:
            return end if final else -1, count, fault, breaks
        if load8(p) != delimiter:
            return _after_line_end(p, end, final), count, fault, breaks
        p += 1


@njit(cache=True, nogil=True)
def tokenize(at, end, delimiter, quote, state, cells, sizes, places, odd):
    """Read the rows of a piece, from the offset in `state` on: all of it belongs to whole rows.

    `cells` and `sizes` have a line for each column: the address and the size of each row's cell. `places` has the
    offset of each row, that of its end, and its line; `odd` has the same of each faulty row, its fault, and its
    number of cells. Empty lines are no rows. The text is changed: doubled quotes become single ones.
    """
    p = at + state[POS]
    r = state[ROWS]
    line = state[LINES]
    status = DONE
    while p < end:
        if r == places.shape[0]:
            status = FULL
            break
        if state[ODDS] == odd.shape[0]:
            status = ODD_FULL
            break
        c = load8(p)
        if c == _LF or c == _CR:
            p = _after_line_end(p, end, True)
            line += 1
            continue
        after, count, fault, breaks = read_row(p, end, True, delimiter, quote, cells, sizes, r)
        if fault == 0 and count != cells.shape[0]:
            fault = SHORT if count < cells.shape[0] else LONG
        if fault != 0:
            k = state[ODDS]
            odd[k, 0] = p - at
            odd[k, 1] = after - at
            odd[k, 2] = line + 1
            odd[k, 3] = fault
            odd[k, 4] = count
            state[ODDS] = k + 1
        else:
            places[r, 0] = p - at
            places[r, 1] = after - at
            places[r, 2] = line + 1
            r += 1
        line += 1 + breaks
        p = after
    state[POS] = p - at
    state[ROWS] = r
    state[LINES] = line
    return status


@njit(cache=True, nogil=True)
def last_row_end(at, end, delimiter, quote, cells, sizes):
    """How many bytes from `at` on, where a row begins, are whole rows for sure. The arrays have no room for cells."""
    p = at
    while p < end:
        after = read_row(p, end, False, delimiter, quote, cells, sizes, 0)[0]
        if after < 0:
            break
        p = after
    return p - at


@njit(cache=True, nogil=True)
def row_end_after(at, end, least, final, delimiter, quote, cells, sizes):
    """How many bytes, at least `least`, the first rows have; -1 where the data ends too soon to tell."""
    p = at
    while p < end:
        p = read_row(p, end, final, delimiter, quote, cells, sizes, 0)[0]
        if p < 0:
            return -1
        if p - at >= least:
            return p - at
    return p - at if final else -1
