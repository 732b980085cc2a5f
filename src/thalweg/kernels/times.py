"""Lexical forms of time to int64 microseconds since the epoch, on raw bytes.

The law is that of `thalweg.instants`: xsd:dateTime with any fraction and zone (no zone = UTC), or an integer =
milliseconds. What is not in the years -9999 to 9999 (UTC) is not a time.
"""

from __future__ import annotations

from thalweg.kernels.bits import load8
from thalweg.kernels.checking import njit

NO_TIME = -(2**63)
"""The one int64 that is not an instant."""

FIRST_SECOND = -377705116800
LAST_SECOND = 253402300799
_TOO_MANY = 10**16


@njit(cache=True, nogil=True)
def _two(at):
    """Value of two decimal digits, or -1."""
    a = load8(at) - 0x30
    b = load8(at + 1) - 0x30
    if 0 <= a <= 9 and 0 <= b <= 9:
        return 10 * a + b
    return -1


@njit(cache=True, nogil=True)
def _days(year, month, day):
    """Days since 1970-01-01 in the proleptic Gregorian calendar, which has a year 0."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@njit(cache=True, nogil=True)
def _month_days(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit(cache=True, nogil=True)
def micros(at, size):
    """Microseconds of the lexical form at an address, or NO_TIME where it is none."""
    end = at + size
    p = at
    while p < end and load8(p) == 0x20:
        p += 1
    while end > p and load8(end - 1) == 0x20:
        end -= 1
    negative = False
    c = load8(p)
    if c == 0x2D or c == 0x2B:
        negative = c == 0x2D
        p += 1
    start = p
    number = 0
    while p < end:
        digit = load8(p) - 0x30
        if digit < 0 or digit > 9:
            break
        number = min(number * 10 + digit, _TOO_MANY)
        p += 1
    digits = p - start
    if digits == 0:
        return NO_TIME
    if p == end:
        millis = -number if negative else number
        if millis < FIRST_SECOND * 1000 or millis >= (LAST_SECOND + 1) * 1000:
            return NO_TIME
        return millis * 1000
    # A dateTime: at least 15 more bytes "-MM-DDThh:mm:ss"; a year has four digits, or more without a leading
    # zero.
    if c == 0x2B or digits < 4 or digits > 9 or (digits > 4 and load8(start) == 0x30) or end - p < 15:
        return NO_TIME
    year = -number if negative else number
    month = _two(p + 1)
    day = _two(p + 4)
    hour = _two(p + 7)
    minute = _two(p + 10)
    second = _two(p + 13)
    if (
        load8(p) != 0x2D
        or load8(p + 3) != 0x2D
        or load8(p + 6) != 0x54
        or load8(p + 9) != 0x3A
        or load8(p + 12) != 0x3A
        or month < 1
        or month > 12
        or day < 1
        or day > _month_days(year, month)
        or hour < 0
        or minute < 0
        or minute > 59
        or second < 0
        or second > 59
    ):
        return NO_TIME
    p += 15
    fraction = 0
    if p < end and load8(p) == 0x2E:
        p += 1
        start = p
        scale = 100000
        while p < end:
            digit = load8(p) - 0x30
            if digit < 0 or digit > 9:
                break
            fraction += digit * scale
            scale //= 10
            p += 1
        if p == start:
            return NO_TIME
    # 24:00:00 is the first instant of the next day.
    if hour > 24 or (hour == 24 and (minute > 0 or second > 0 or fraction > 0)):
        return NO_TIME
    zone = 0
    if p < end:
        c = load8(p)
        if c == 0x5A:
            p += 1
        elif (c == 0x2B or c == 0x2D) and end - p == 6 and load8(p + 3) == 0x3A:
            hours = _two(p + 1)
            minutes = _two(p + 4)
            if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 840:
                return NO_TIME
            zone = (hours * 60 + minutes) * (60 if c == 0x2B else -60)
            p += 6
    if p != end:
        return NO_TIME
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone
    if seconds < FIRST_SECOND or seconds > LAST_SECOND:
        return NO_TIME
    return seconds * 1000000 + fraction
