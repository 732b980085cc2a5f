"""Cells of a column to event times: numbers since the epoch, xsd:dateTime, or a pattern of `strptime`.

Where a cell names its zone (or is a number) the time is UTC, else it is local: the caller knows the zone.
"""

from __future__ import annotations

from thalweg.kernels.bits import load8
from thalweg.kernels.checking import njit
from thalweg.kernels.times import FIRST_SECOND, LAST_SECOND, NO_TIME, _days, _month_days, micros

EPOCH, DATE_TIME, PATTERN = 0, 1, 2
"""Forms of times."""

UTC, LOCAL, BAD, MISSING = 0, 1, 2, 3
"""What was found: a time in UTC, a time of a zone that is not said, no time, an empty cell."""

_MONTHS = (0x6A616E, 0x666562, 0x6D6172, 0x617072, 0x6D6179, 0x6A756E,
           0x6A756C, 0x617567, 0x736570, 0x6F6374, 0x6E6F76, 0x646563)  # fmt: skip
"""The first three letters of the months, as numbers."""
_MOST_DIGITS = 17


@njit(cache=True, nogil=True)
def _is_digit(p, end):
    return p < end and 0x30 <= load8(p) <= 0x39


@njit(cache=True, nogil=True)
def _is_letter(p, end):
    return p < end and 0x61 <= load8(p) | 0x20 <= 0x7A


@njit(cache=True, nogil=True)
def _number(p, end, least, most):
    """The number of `least` to `most` digits at p, and the address after it; -1 if there is none."""
    value = 0
    count = 0
    while count < most and _is_digit(p, end):
        value = value * 10 + load8(p) - 0x30
        p += 1
        count += 1
    return value if count >= least else -1, p


@njit(cache=True, nogil=True)
def _epoch(p, end, unit):
    """Microseconds of a decimal number of units (of so many microseconds) since the epoch, or NO_TIME."""
    negative = p < end and load8(p) == 0x2D
    if negative or (p < end and load8(p) == 0x2B):
        p += 1
    whole, p = _number(p, end, 1, _MOST_DIGITS)
    if whole < 0 or whole > (LAST_SECOND + 1) * (1000000 // unit) * 2:
        return NO_TIME
    fraction = 0
    if p < end and load8(p) == 0x2E:
        p += 1
        if not _is_digit(p, end):
            return NO_TIME
        scale = unit
        while _is_digit(p, end):
            scale //= 10
            fraction += (load8(p) - 0x30) * scale
            p += 1
    if p != end:
        return NO_TIME
    value = whole * unit + fraction
    return -value if negative else value


@njit(cache=True, nogil=True)
def _month(p, end):
    """The month whose English name, or its first three letters, is at p, and the address after it; 0 if none is."""
    start = p
    while _is_letter(p, end):
        p += 1
    if p - start < 3:
        return 0, p
    name = (load8(start) | 0x20) << 16 | (load8(start + 1) | 0x20) << 8 | load8(start + 2) | 0x20
    for k in range(12):
        if _MONTHS[k] == name:
            return k + 1, p
    return 0, p


@njit(cache=True, nogil=True)
def _zone(p, end):
    """Seconds east of Greenwich of `Z`, `+hhmm`, `+hh:mm` or `+hh` at p, and the address after it (-1: none)."""
    if p < end and load8(p) == 0x5A:
        return 0, p + 1
    if p >= end or (load8(p) != 0x2B and load8(p) != 0x2D):
        return 0, -1
    sign = 1 if load8(p) == 0x2B else -1
    hours, p = _number(p + 1, end, 2, 2)
    minutes = 0
    if p < end and load8(p) == 0x3A:
        minutes, p = _number(p + 1, end, 2, 2)
    elif _is_digit(p, end):
        minutes, p = _number(p, end, 2, 2)
    if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 840:
        return 0, -1
    return sign * (hours * 60 + minutes) * 60, p


@njit(cache=True, nogil=True)
def _by_pattern(p, end, pattern):
    """(microseconds, UTC or LOCAL or BAD) of a text by a pattern."""
    year, month, day, hour, minute, second, fraction = 1970, 1, 1, 0, 0, 0, 0
    half, zone, found = -1, 0, LOCAL
    k = 0
    while k < pattern.size:
        c = pattern[k]
        k += 1
        if c == 0x20:
            if p >= end or load8(p) != 0x20:
                return 0, BAD
            while p < end and load8(p) == 0x20:
                p += 1
            continue
        if c != 0x25:
            if p >= end or load8(p) != c:
                return 0, BAD
            p += 1
            continue
        c = pattern[k]
        k += 1
        if c == 0x59:  # Y
            year, p = _number(p, end, 4, 4)
            good = year >= 0
        elif c == 0x79:  # y
            year, p = _number(p, end, 2, 2)
            good = year >= 0
            year += 2000 if year < 69 else 1900
        elif c == 0x6D:  # m
            month, p = _number(p, end, 1, 2)
            good = month >= 0
        elif c == 0x64:  # d
            day, p = _number(p, end, 1, 2)
            good = day >= 0
        elif c == 0x48 or c == 0x49:  # H, I
            hour, p = _number(p, end, 1, 2)
            good = 0 <= hour <= 23 if c == 0x48 else 1 <= hour <= 12
        elif c == 0x4D:  # M
            minute, p = _number(p, end, 1, 2)
            good = minute >= 0
        elif c == 0x53:  # S
            second, p = _number(p, end, 1, 2)
            good = second >= 0
        elif c == 0x66:  # f
            good = _is_digit(p, end)
            scale = 1000000
            while _is_digit(p, end):
                scale //= 10
                fraction += (load8(p) - 0x30) * scale
                p += 1
        elif c == 0x62 or c == 0x42:  # b, B
            month, p = _month(p, end)
            good = month > 0
        elif c == 0x61 or c == 0x41:  # a, A
            good = _is_letter(p, end)
            while _is_letter(p, end):
                p += 1
        elif c == 0x70:  # p
            half = -1
            if p + 2 <= end and load8(p + 1) | 0x20 == 0x6D:
                first = load8(p) | 0x20
                half = 0 if first == 0x61 else 12 if first == 0x70 else -1
            good = half >= 0
            p += 2
        elif c == 0x7A:  # z
            zone, p = _zone(p, end)
            good = p >= 0
            found = UTC
        else:  # a percent sign
            good = p < end and load8(p) == c
            p += 1
        if not good:
            return 0, BAD
    if half >= 0:
        hour = hour % 12 + half
    if (
        p != end
        or not 1 <= month <= 12
        or not 1 <= day <= _month_days(year, month)
        or hour > 23
        or minute > 59
        or second > 59
    ):
        return 0, BAD
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone
    return seconds * 1000000 + fraction, found


@njit(cache=True, nogil=True)
def _names_zone(p, end):
    """Whether an xsd:dateTime ends with its zone."""
    if load8(end - 1) == 0x5A:
        return True
    return end - p > 6 and (load8(end - 6) == 0x2B or load8(end - 6) == 0x2D) and load8(end - 3) == 0x3A


@njit(cache=True, nogil=True)
def _has_letter_t(p, end):
    while p < end:
        if load8(p) == 0x54:
            return True
        p += 1
    return False


@njit(cache=True, nogil=True)
def read_times(form, unit, pattern, cells, sizes, times, found):
    """Read each cell's time into `times`, and what it is into `found`; what is out of the range of time is bad."""
    for r in range(cells.size):
        size = sizes[r]
        times[r] = NO_TIME
        found[r] = MISSING
        if size < 0:
            continue
        p, end = cells[r], cells[r] + size
        while p < end and load8(p) == 0x20:
            p += 1
        while end > p and load8(end - 1) == 0x20:
            end -= 1
        if p == end:
            continue
        state = UTC
        if form == PATTERN:
            time, state = _by_pattern(p, end, pattern)
        elif form == EPOCH:
            time = _epoch(p, end, unit)
        else:
            time = micros(p, end - p)
            if time != NO_TIME and _has_letter_t(p, end) and not _names_zone(p, end):
                state = LOCAL
        if time < FIRST_SECOND * 1000000 or time >= (LAST_SECOND + 1) * 1000000:
            state = BAD
        found[r] = state
        if state != BAD:
            times[r] = time
