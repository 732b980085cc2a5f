r"""Lines with escapes to lines without: what canonical text demands, done before the scan.

A line is copied with every `\u` of an IRI decoded, and every string in canonical form: `\u` decoded, `\'`
bare, control characters as `\t \b \n \r \f \u00XX`. The copy is not validated here; the scan does that.
Comments are left out.
"""

from __future__ import annotations

from thalweg.kernels.bits import load8, lshr, store8
from thalweg.kernels.checking import njit

GROWTH = 6
"""Bytes that one byte may become: a bare control character is written as `\\u0001`."""

# Letters after a backslash that stay as they are, as bits: " \ b f n r t (code points 64 - 127, and '"'
# apart).
_KEPT = 1 << 0x1C | 1 << 0x22 | 1 << 0x26 | 1 << 0x2E | 1 << 0x32 | 1 << 0x34
# What an IRI must not have even if it is escaped: < > " (below 64) and \ ^ ` { | } (64 and above).
_NOT_LOW = 1 << 0x3C | 1 << 0x3E | 1 << 0x22
_NOT_HIGH = 1 << 0x1C | 1 << 0x1E | 1 << 0x20 | 1 << 0x3B | 1 << 0x3C | 1 << 0x3D


@njit(cache=True, nogil=True)
def _hex(p, count):
    """Value of so many hexadecimal digits, or -1."""
    value = 0
    for k in range(count):
        c = load8(p + k)
        if 0x30 <= c <= 0x39:
            digit = c - 0x30
        elif 0x61 <= c | 0x20 <= 0x66:
            digit = (c | 0x20) - 0x57
        else:
            return -1
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def code_point(p):
    r"""Code point of the `\u` or `\U` escape at p, or -1 where it is none or no character."""
    value = _hex(p + 2, 4 if load8(p + 1) == 0x75 else 8)
    if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
        return -1
    return value


@njit(cache=True, nogil=True)
def write_char(target, code):
    """Write a code point in UTF-8; gives the address after it."""
    if code < 0x80:
        store8(target, code)
        return target + 1
    if code < 0x800:
        store8(target, 0xC0 | code >> 6)
        store8(target + 1, 0x80 | code & 0x3F)
        return target + 2
    if code < 0x10000:
        store8(target, 0xE0 | code >> 12)
        store8(target + 1, 0x80 | code >> 6 & 0x3F)
        store8(target + 2, 0x80 | code & 0x3F)
        return target + 3
    store8(target, 0xF0 | code >> 18)
    store8(target + 1, 0x80 | code >> 12 & 0x3F)
    store8(target + 2, 0x80 | code >> 6 & 0x3F)
    store8(target + 3, 0x80 | code & 0x3F)
    return target + 4


@njit(cache=True, nogil=True)
def write_canonical(target, code):
    """Write a code point as canonical text has it inside a string; gives the address after it."""
    letter = 0
    if code == 0x22 or code == 0x5C:
        letter = code
    elif code == 0x08:
        letter = 0x62
    elif code == 0x09:
        letter = 0x74
    elif code == 0x0A:
        letter = 0x6E
    elif code == 0x0C:
        letter = 0x66
    elif code == 0x0D:
        letter = 0x72
    elif code < 0x20 or code == 0x7F:
        letter = 0x75
    else:
        return write_char(target, code)
    store8(target, 0x5C)
    store8(target + 1, letter)
    if letter != 0x75:
        return target + 2
    low = code & 15
    store8(target + 2, 0x30)
    store8(target + 3, 0x30)
    store8(target + 4, 0x30 + (code >> 4))
    store8(target + 5, low + (0x30 if low < 10 else 0x37))
    return target + 6


@njit(cache=True, nogil=True)
def rewrite(p, end, target):
    """Write the line [p, end) without escapes, and LF, to `target`; False where that is impossible or
    useless.

    There must be room for GROWTH times the line.
    """
    changed = False
    inside = 0
    while p < end:
        c = load8(p)
        if inside == 0:
            if c == 0x23:
                break
            if c == 0x22 or c == 0x3C:
                inside = c
        elif inside == 0x3C:
            if c == 0x3E:
                inside = 0
            elif c == 0x5C:
                kind = load8(p + 1)
                if kind != 0x75 and kind != 0x55:
                    return False
                code = code_point(p)
                if code <= 0x20:
                    return False
                if code < 64:
                    if lshr(_NOT_LOW, code) & 1:
                        return False
                elif code < 128 and lshr(_NOT_HIGH, code - 64) & 1:
                    return False
                target = write_char(target, code)
                p += 6 if kind == 0x75 else 10
                changed = True
                continue
        elif c == 0x22:
            inside = 0
        elif c == 0x5C:
            kind = load8(p + 1)
            changed = True
            if kind == 0x75 or kind == 0x55:
                code = code_point(p)
                if code < 0:
                    return False
                target = write_canonical(target, code)
                p += 6 if kind == 0x75 else 10
            elif kind == 0x27:
                store8(target, kind)
                target += 1
                p += 2
            elif kind == 0x22 or (64 <= kind < 128 and lshr(_KEPT, kind - 64) & 1):
                store8(target, c)
                store8(target + 1, kind)
                target += 2
                p += 2
            else:
                return False
            continue
        elif c < 0x20 or c == 0x7F:
            target = write_canonical(target, c)
            p += 1
            changed = True
            continue
        store8(target, c)
        target += 1
        p += 1
    store8(target, 0x0A)
    return changed
