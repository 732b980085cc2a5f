"""Where the terms of a line end: the N-Triples productions as hops over 64-byte blocks.

Each function takes an address inside a line that some CR or LF ends, and gives the address after the
production, or 0 where the bytes are not what the fast path covers: malformed, or in need of rewriting. It
never passes the line's end.
"""

from __future__ import annotations

from thalweg.kernels.bits import ctz, iri_stops, line_ends, load8, load_half, load_word, lshr, string_stops
from thalweg.kernels.checking import njit

_HTTP = int.from_bytes(b"http:", "little")
_FIVE = (1 << 40) - 1

# ASCII characters as bits of two words: code points 0 - 63 and 64 - 127.
_DIGITS = 0x03FF << 48
_LETTERS = (((1 << 26) - 1) << 1) | (((1 << 26) - 1) << 33)
_SCHEME_LOW = _DIGITS | 1 << 0x2B | 1 << 0x2D | 1 << 0x2E
_LABEL_LOW = _DIGITS | 1 << 0x2D | 1 << 0x2E
_LABEL_HIGH = _LETTERS | 1 << 0x1F


@njit(cache=True, nogil=True)
def _letter(c):
    return 0x61 <= c | 0x20 <= 0x7A


@njit(cache=True, nogil=True)
def utf8_end(p):
    """Address after a run of well-formed sequences of two to four bytes, or 0."""
    while True:
        c = load8(p)
        if c < 0x80:
            return p
        w = load_half(p)
        second = (w >> 8) & 0xFF
        if c < 0xC2:
            return 0
        if c < 0xE0:
            if w & 0xC000 != 0x8000:
                return 0
            p += 2
        elif c < 0xF0:
            # No overlong forms below U+0800, no surrogates.
            if w & 0xC0C000 != 0x808000 or (c == 0xE0 and second < 0xA0) or (c == 0xED and second >= 0xA0):
                return 0
            p += 3
        elif c < 0xF5:
            if (
                w & 0xC0C0C000 != 0x80808000
                or (c == 0xF0 and second < 0x90)
                or (c == 0xF4 and second >= 0x90)
            ):
                return 0
            p += 4
        else:
            return 0


@njit(cache=True, nogil=True)
def _has_scheme(p):
    """Whether an absolute IRI begins here: a letter, then letters, digits, `+ - .`, then a colon."""
    if not _letter(load8(p)):
        return False
    while True:
        p += 1
        c = load8(p)
        if c == 0x3A:
            return True
        if not _letter(c) and (c >= 64 or lshr(_SCHEME_LOW, c) & 1 == 0):
            return False


@njit(cache=True, nogil=True)
def iri_end(p):
    """Address after an absolute IRIREF without escapes; p is at `<`."""
    p += 1
    if load_word(p) & _FIVE != _HTTP and not _has_scheme(p):
        return 0
    while True:
        stops = iri_stops(p)
        if stops == 0:
            p += 64
            continue
        p += ctz(stops)
        c = load8(p)
        if c == 0x3E:
            return p + 1
        if c >= 0x80:
            p = utf8_end(p)
            if p == 0:
                return 0
        elif c == 0x21 or c >= 0x7E:
            p += 1
        else:
            return 0


@njit(cache=True, nogil=True)
def string_end(p, escapes):
    r"""Address of the closing quote of a string in canonical form; p is after the opening one.

    `\\ \" \n \r \t \b \f` are canonical as they stand. `\u` is so only in text that we wrote ourselves
    (`escapes`).
    """
    while True:
        stops = string_stops(p)
        if stops == 0:
            p += 64
            continue
        p += ctz(stops)
        c = load8(p)
        if c == 0x22:
            return p
        if c >= 0x80:
            p = utf8_end(p)
            if p == 0:
                return 0
        elif c == 0x5C:
            c = load8(p + 1)
            if not (
                c == 0x22
                or c == 0x5C
                or c == 0x6E
                or c == 0x72
                or c == 0x74
                or c == 0x62
                or c == 0x66
                or (c == 0x75 and escapes)
            ):
                return 0
            p += 2
        else:
            return 0


@njit(cache=True, nogil=True)
def label_end(p, trusted):
    """Address after an ASCII BLANK_NODE_LABEL (any label if `trusted`); p is at `_`."""
    if load8(p + 1) != 0x3A:
        return 0
    p += 2
    c = load8(p)
    if c == 0x2D or c == 0x2E:
        return 0
    start = p
    while True:
        if c < 64:
            if lshr(_LABEL_LOW, c) & 1 == 0:
                break
        elif c < 128:
            if lshr(_LABEL_HIGH, c - 64) & 1 == 0:
                break
        elif not trusted:
            return 0
        p += 1
        c = load8(p)
    if c == 0x3A:
        return 0
    # A label does not end in a dot: the last ones belong to the statement.
    while p > start and load8(p - 1) == 0x2E:
        p -= 1
    return p if p > start else 0


@njit(cache=True, nogil=True)
def tag_end(p):
    """Address after a LANGTAG, and whether it has capitals; p is at `@`."""
    capitals = False
    first = True
    p += 1
    while True:
        start = p
        while True:
            c = load8(p)
            if 0x41 <= c <= 0x5A:
                capitals = True
            elif not (0x61 <= c <= 0x7A or (not first and 0x30 <= c <= 0x39)):
                break
            p += 1
        if p == start:
            return 0, False
        if c != 0x2D:
            return p, capitals
        first = False
        p += 1


@njit(cache=True, nogil=True)
def line_end(p):
    """Address of the CR or LF that ends the line."""
    while True:
        ends = line_ends(p)
        if ends != 0:
            return p + ctz(ends)
        p += 64


@njit(cache=True, nogil=True)
def next_line(p):
    """Address after the line end at p: CR LF is one, a lone CR is one too (see `thalweg.lines`)."""
    if load8(p) == 0x0D and load8(p + 1) == 0x0A:
        return p + 2
    return p + 1


@njit(cache=True, nogil=True)
def blanks_end(p):
    """Address after spaces and tabs."""
    c = load8(p)
    while c == 0x20 or c == 0x09:
        p += 1
        c = load8(p)
    return p
