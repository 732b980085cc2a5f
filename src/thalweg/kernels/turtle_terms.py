r"""The terms of Turtle: where they end, and their N-Triples text.

Each function that finds an end gives 0 where the bytes are not what the fast path covers: malformed, cut off, or rare.
Bytes beyond the end of the data are a line feed and then zeros, which no term goes over.
"""

from __future__ import annotations

from thalweg.kernels.arena import copy
from thalweg.kernels.bits import ctz, iri_stops, load8, lshr, store8, string_stops
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import quick, same
from thalweg.kernels.scan_escapes import code_point, write_canonical
from thalweg.kernels.scan_terms import iri_end, line_end, utf8_end

# ASCII characters as bits of two words: code points 0 - 63 and 64 - 127.
_DIGITS = 0x03FF << 48
_LETTERS = (((1 << 26) - 1) << 1) | (((1 << 26) - 1) << 33)
# Of names: letters, digits, `_ - .`; a colon and what follows `\` or `%` apart.
_NAME_LOW = _DIGITS | 1 << 0x2D | 1 << 0x2E
_NAME_HIGH = _LETTERS | 1 << 0x1F
# Characters that a backslash may stand before in a local name, as signed words.
_ESCAPED_LOW = sum(1 << code for code in b"!#$%&'()*+,-./;=") - (1 << 63)  # and the question mark
_ESCAPED_HIGH = 1 << 0x00 | 1 << 0x1F | 1 << 0x3E  # @ _ ~

# Columns of the table of prefixes: quick key, offset of the name, its size + 1 (0: free), offset and size of the IRI.
KEY, NAME, NAME_SIZE, IRI, IRI_SIZE = 0, 1, 2, 3, 4


@njit(cache=True, nogil=True)
def space_end(p, end):
    """Address after white space and comments, at most `end`."""
    while p < end:
        c = load8(p)
        if c == 0x20 or c == 0x0A or c == 0x09 or c == 0x0D:
            p += 1
        elif c == 0x23:
            p = line_end(p)
        else:
            return p
    return end


@njit(cache=True, nogil=True)
def is_name(c):
    """Whether an ASCII character can be inside of a name, a dot included."""
    if c < 64:
        return lshr(_NAME_LOW, c) & 1 != 0
    return c < 128 and lshr(_NAME_HIGH, c - 64) & 1 != 0


@njit(cache=True, nogil=True)
def goes_on(c):
    """Whether a character behind a word would make it a longer word, or another kind of term."""
    return c != 0x2E and (is_name(c) or c >= 0x80 or c == 0x3A or c == 0x25 or c == 0x5C)


@njit(cache=True, nogil=True)
def _name_character(p):
    """Address after a character of a name beyond ASCII (PN_CHARS), or 0."""
    c = load8(p)
    if c < 0xC2 or c >= 0xF5:
        return 0
    if c < 0xE0:
        size = 2
        code = c & 0x1F
    elif c < 0xF0:
        size = 3
        code = c & 0x0F
    else:
        size = 4
        code = c & 0x07
    for k in range(1, size):
        more = load8(p + k)
        if more & 0xC0 != 0x80:
            return 0
        code = code << 6 | more & 0x3F
    if size == 3 and (code < 0x800 or 0xD800 <= code <= 0xDFFF):
        return 0
    if size == 4 and (code < 0x10000 or code > 0xEFFFF):
        return 0
    if (
        code == 0xB7
        or (0xC0 <= code <= 0x37D and code != 0xD7 and code != 0xF7)
        or 0x37F <= code <= 0x1FFF
        or 0x200C <= code <= 0x200D
        or 0x203F <= code <= 0x2040
        or 0x2070 <= code <= 0x218F
        or 0x2C00 <= code <= 0x2FEF
        or 0x3001 <= code <= 0xD7FF
        or 0xF900 <= code <= 0xFDCF
        or 0xFDF0 <= code <= 0xFFFD
        or code >= 0x10000
    ):
        return p + size
    return 0


@njit(cache=True, nogil=True)
def _hexadecimal(c):
    return 0x30 <= c <= 0x39 or 0x61 <= c | 0x20 <= 0x66


@njit(cache=True, nogil=True)
def local_end(p):
    """(Address after the local part of a prefixed name or 0, whether it has backslashes); p is after the colon."""
    start = p
    escapes = False
    c = load8(p)
    if c == 0x2D:
        return 0, False
    if c >= 0x80:
        # What may stand inside of a name may not all begin one: these few are rare.
        first = load8(p + 1)
        if (c == 0xC2 and first == 0xB7) or 0xCC <= c <= 0xCD or (c == 0xE2 and first <= 0x81):
            return 0, False
    plain = p
    while True:
        if is_name(c) or c == 0x3A:
            p += 1
        elif c >= 0x80:
            p = _name_character(p)
            if p == 0:
                return 0, False
        elif c == 0x25:
            if not _hexadecimal(load8(p + 1)) or not _hexadecimal(load8(p + 2)):
                return 0, False
            p += 3
        elif c == 0x5C:
            c = load8(p + 1)
            known = 0
            if c < 64:
                known = lshr(_ESCAPED_LOW, c) & 1
            elif c < 128:
                known = lshr(_ESCAPED_HIGH, c - 64) & 1
            if known == 0:
                return 0, False
            escapes = True
            p += 2
            plain = p
        else:
            break
        c = load8(p)
    # The last dots belong to the statement, unless they are escaped.
    while p > plain and load8(p - 1) == 0x2E:
        p -= 1
    if p > start and load8(start) == 0x2E:
        return 0, False
    return p, escapes


@njit(cache=True, nogil=True)
def find_prefix(table, texts_at, at, size):
    """Row of a prefix in the table, or -1."""
    key = quick(at, size)
    last = table.shape[0] - 1
    i = key & last
    while table[i, NAME_SIZE] != 0:
        if (
            table[i, KEY] == key
            and table[i, NAME_SIZE] == size + 1
            and same(texts_at + table[i, NAME], at, size)
        ):
            return i
        i = (i + 1) & last
    return -1


@njit(cache=True, nogil=True)
def colon_of(p):
    """Address of the colon of a prefixed name, or of what ends the word instead."""
    c = load8(p)
    while is_name(c):
        p += 1
        c = load8(p)
    return p


@njit(cache=True, nogil=True)
def write_name(target, iri_at, iri_size, local, local_size, escapes):
    """Write the IRI of a prefixed name; gives the address after it."""
    store8(target, 0x3C)
    target += 1
    copy(target, iri_at, iri_size)
    target += iri_size
    if not escapes:
        copy(target, local, local_size)
        target += local_size
    else:
        k = 0
        while k < local_size:
            c = load8(local + k)
            if c == 0x5C:
                k += 1
                c = load8(local + k)
            store8(target, c)
            target += 1
            k += 1
    store8(target, 0x3E)
    return target + 1


@njit(cache=True, nogil=True)
def relative_end(p):
    """(Address after a relative reference or 0, whether it is resolved by the base's folder); p is at `<`.

    Covered are the empty one, fragments, and paths without dots behind slashes, colons and queries.
    """
    p += 1
    c = load8(p)
    in_folder = c != 0x23 and c != 0x3E
    if in_folder and (not is_name(c) or c == 0x2E):
        return 0, False
    while True:
        stops = iri_stops(p)
        span = ctz(stops) if stops != 0 else 64
        if in_folder:
            for k in range(span):
                c = load8(p + k)
                if c == 0x3A or c == 0x3F or c == 0x23 or (c == 0x2F and load8(p + k + 1) == 0x2E):
                    return 0, False
        p += span
        if stops == 0:
            continue
        c = load8(p)
        if c == 0x3E:
            return p + 1, in_folder
        if c >= 0x80:
            p = utf8_end(p)
            if p == 0:
                return 0, False
        elif c == 0x21 or c >= 0x7E:
            p += 1
        else:
            return 0, False


@njit(cache=True, nogil=True)
def number_end(p):
    """(Address after a number or 0, 1 integer, 2 decimal, 3 double)."""
    c = load8(p)
    if c == 0x2B or c == 0x2D:
        p += 1
        c = load8(p)
    kind = 1
    digits = 0
    while 0x30 <= c <= 0x39:
        digits += 1
        p += 1
        c = load8(p)
    if c == 0x2E:
        after = load8(p + 1)
        if 0x30 <= after <= 0x39:
            kind = 2
            p += 1
            c = after
            while 0x30 <= c <= 0x39:
                digits += 1
                p += 1
                c = load8(p)
        elif after | 0x20 == 0x65 and digits > 0:
            sign = load8(p + 2)
            power = load8(p + 3) if sign == 0x2B or sign == 0x2D else sign
            if not 0x30 <= power <= 0x39:
                return 0, 0
            p += 1
            c = after
    if digits == 0:
        return 0, 0
    if c | 0x20 == 0x65:
        kind = 3
        p += 1
        c = load8(p)
        if c == 0x2B or c == 0x2D:
            p += 1
            c = load8(p)
        if not 0x30 <= c <= 0x39:
            return 0, 0
        while 0x30 <= c <= 0x39:
            p += 1
            c = load8(p)
    if goes_on(c):
        return 0, 0
    return p, kind


@njit(cache=True, nogil=True)
def text_end(p, end, quote, long):
    """Address of the quote, or the first of the three, that ends a string, or 0; p is inside of it."""
    while p < end:
        stops = string_stops(p)
        if quote == 0x22 and stops == 0:
            p += 64
            continue
        if quote == 0x22:
            p += ctz(stops)
        c = load8(p)
        if c == 0x5C:
            p += 2
        elif c == quote:
            if not long:
                return p if p < end else 0
            if load8(p + 1) == quote and load8(p + 2) == quote:
                return p if p + 2 < end else 0
            p += 1
        elif not long and (c == 0x0A or c == 0x0D):
            return 0
        else:
            p += 1
    return 0


@njit(cache=True, nogil=True)
def write_text(p, end, target):
    """Write the inside [p, end) of a string in canonical form; gives the address after it, or 0 for one that has none.

    There must be room for six times the text.
    """
    while p < end:
        c = load8(p)
        if c >= 0x80:
            after = utf8_end(p)
            if after == 0 or after > end:
                return 0
            copy(target, p, after - p)
            target += after - p
            p = after
        elif c == 0x5C:
            kind = load8(p + 1)
            if kind == 0x75 or kind == 0x55:
                code = code_point(p)
                if code < 0:
                    return 0
                p += 6 if kind == 0x75 else 10
                if p > end:
                    return 0
            else:
                code = _control(kind)
                if code < 0:
                    return 0
                p += 2
            target = write_canonical(target, code)
        else:
            target = write_canonical(target, c)
            p += 1
    return target


@njit(cache=True, nogil=True)
def _control(kind):
    """The character that a backslash before `kind` stands for, or -1."""
    if kind == 0x22 or kind == 0x27 or kind == 0x5C:
        return kind
    if kind == 0x6E:
        return 0x0A
    if kind == 0x74:
        return 0x09
    if kind == 0x72:
        return 0x0D
    if kind == 0x62:
        return 0x08
    if kind == 0x66:
        return 0x0C
    return -1


@njit(cache=True, nogil=True)
def write_decimal(target, value):
    """Write a number that is not negative; gives the address after it."""
    size = 1
    rest = value // 10
    while rest > 0:
        size += 1
        rest //= 10
    for k in range(size):
        store8(target + size - 1 - k, 0x30 + value % 10)
        value //= 10
    return target + size


@njit(cache=True, nogil=True)
def statement_end(p, end, inside):
    """Address after the statement that begins here, before the `}` of its block if it is `inside` one; 0 for none.

    Only what could hide a dot is looked at: IRIs, strings, comments, names, numbers and brackets.
    """
    depth = 0
    while True:
        p = space_end(p, end)
        if p >= end:
            return 0
        c = load8(p)
        if c == 0x2E and not 0x30 <= load8(p + 1) <= 0x39:
            p += 1
            if depth == 0:
                return p
        elif c == 0x22 or c == 0x27:
            long = load8(p + 1) == c and load8(p + 2) == c
            q = text_end(p + (3 if long else 1), end, c, long)
            if q == 0:
                return 0
            p = q + (3 if long else 1)
        elif c == 0x3C:
            if load8(p + 1) == 0x3C:
                p += 2
            else:
                while c != 0x3E:
                    p += 1
                    if p >= end:
                        return 0
                    c = load8(p)
                p += 1
        elif c == 0x5B or c == 0x28 or c == 0x7B:
            depth += 1
            p += 1
        elif c == 0x5D or c == 0x29 or c == 0x7D:
            if c == 0x7D and depth == 0 and inside:
                return p
            depth -= 1
            p += 1
            if c == 0x7D and depth == 0:
                return p
        elif 0x30 <= c <= 0x39 or c == 0x2B or c == 0x2D or c == 0x2E:
            q, _ = number_end(p)
            p = q if q != 0 else p + 1
        else:
            p += 1
            plain = p
            c = load8(p)
            while p < end and (is_name(c) or c >= 0x80 or c == 0x3A or c == 0x25 or c == 0x5C or c == 0x40):
                p += 2 if c == 0x5C else 1
                plain = p if c == 0x5C else plain
                c = load8(p)
            while p > plain and load8(p - 1) == 0x2E:
                p -= 1


@njit(cache=True, nogil=True)
def iri_or_relative(p):
    """(Address after an IRI or 0, whether it is relative and by the folder: 0 absolute, 1 base, 2 folder)."""
    q = iri_end(p)
    if q != 0:
        return q, 0
    q, in_folder = relative_end(p)
    return q, 2 if in_folder else 1
