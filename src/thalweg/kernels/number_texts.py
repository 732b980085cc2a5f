"""Canonical N-Triples texts of sums and averages, written one after the other.

The law: a text is what the exact evaluation would give. An average has 34 significant digits, rounded half to even, as
a quotient of decimals has everywhere; digits come by long division, so that nothing is lost on the way.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import address, store8
from thalweg.kernels.checking import njit
from thalweg.kernels.groups import BILLION

LONGEST = 160
"""Bytes that a text takes at most."""
AS_INTEGER, AS_DECIMAL, AS_AVERAGE = range(3)
_DIGITS = 34
_TYPES = tuple(
    np.frombuffer(f'"^^<http://www.w3.org/2001/XMLSchema#{name}>'.encode(), np.uint8)
    for name in ("integer", "decimal")
)
_INTEGER, _DECIMAL = _TYPES


@njit(cache=True, nogil=True)
def _whole(target, at, value):
    """Writes a number that is not negative; answers the place behind it."""
    size = np.int64(1)
    rest = value
    while rest >= 10:
        rest //= 10
        size += 1
    rest = value
    for k in range(size - 1, -1, -1):
        store8(target + at + k, 48 + rest % 10)
        rest //= 10
    return at + size


@njit(cache=True, nogil=True)
def _quotient(units, billionths, count, digits):
    """Digits behind the point of (units + billionths) / count, of numbers that are not negative: the whole part, how
    many digits there are. They are rounded; trailing zeros are left out.
    """
    whole, rest = units // count, units % count
    significant = np.int64(0)
    value = whole
    while value > 0:
        value //= 10
        significant += 1
    written = np.int64(0)
    scale = np.int64(BILLION)
    left = billionths
    while significant < _DIGITS and (rest != 0 or left != 0):
        scale //= 10
        down = np.int64(0)
        if scale > 0:
            down, left = left // scale, left % scale
        rest = rest * 10 + down
        digit, rest = rest // count, rest % count
        digits[written] = digit
        written += 1
        if digit != 0 or significant > 0:
            significant += 1
    if rest != 0 or left != 0:
        # What is left against a half; digits that were not brought down decide where it is exactly a half.
        twice = 2 * rest
        odd = (digits[written - 1] if written > 0 else whole) & 1
        if twice > count or (twice == count and (left != 0 or odd)):
            place = written - 1
            while place >= 0 and digits[place] == 9:
                digits[place] = 0
                place -= 1
            if place >= 0:
                digits[place] += 1
            else:
                whole += 1
    while written > 0 and digits[written - 1] == 0:
        written -= 1
    return whole, written


@njit(cache=True, nogil=True)
def write(modes, units, billionths, counts, target, sizes):
    """Writes the texts of numbers; `sizes` has their sizes. Answers how many bytes there are.

    `billionths` is at least 0 and below a billion: it is added to the units, which may be negative.
    """
    out = address(target)
    at = np.int64(0)
    digits = np.empty(96, np.int64)
    for k in range(modes.size):
        start = at
        store8(out + at, 34)
        at += 1
        whole, part = units[k], billionths[k]
        negative = whole < 0
        if negative:
            whole = -whole
            if part != 0:
                whole -= 1
                part = BILLION - part
        written = np.int64(0)
        if modes[k] == AS_AVERAGE:
            whole, written = _quotient(whole, part, counts[k], digits)
        elif part != 0:
            scale = np.int64(BILLION)
            while part != 0:
                scale //= 10
                digits[written], part = part // scale, part % scale
                written += 1
        if negative and (whole != 0 or written != 0):
            store8(out + at, 45)
            at += 1
        at = _whole(out, at, whole)
        if written > 0:
            store8(out + at, 46)
            at += 1
            for d in range(written):
                store8(out + at + d, 48 + digits[d])
            at += written
        if modes[k] == AS_INTEGER:
            for c in range(_INTEGER.size):
                store8(out + at + c, np.int64(_INTEGER[c]))
            at += _INTEGER.size
        else:
            for c in range(_DECIMAL.size):
                store8(out + at + c, np.int64(_DECIMAL[c]))
            at += _DECIMAL.size
        sizes[k] = at - start
    return at
