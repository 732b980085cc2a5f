"""The kind and the number of a term, read from its text: what comparisons and arithmetic on columns work with.

The law: two numbers compare as their values do. Different integers or decimals of at most 15 digits never have the same
nearest double, and the product or quotient of exact doubles (digits, and a power of ten up to 10^22) is the nearest one
(Clinger 1990). Whatever does not fit is OTHER, and is left to the exact evaluation.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.arena import RECORD, find
from thalweg.kernels.bits import address, load8, load_half, load_word, prefetch
from thalweg.kernels.checking import njit

NONE, IRI, BLANK, STRING, LANG, INTEGER, DECIMAL, DOUBLE, BOOLEAN, ZONED, LOCAL, OTHER = range(12)
"""Kinds: no term; terms without a number; numbers; times in microseconds, with and without a zone; all others."""

_INT, _DATE_TIME = 12, 13
"""Datatypes whose values have the kinds INTEGER, and ZONED or LOCAL."""

_AHEAD = 32
_MOST_DIGITS = 15
_MOST_POWER = 22
_QUOTE, _LESS, _UNDERSCORE, _BACKSLASH, _AT, _CARET = 34, 60, 95, 92, 64, 94
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _SMALL_E, _LARGE_E = 43, 45, 46, 48, 57, 101, 69

_PREFIX = b"^^<http://www.w3.org/2001/XMLSchema#"
_PREFIX_SIZE = len(_PREFIX)
_NAMES = (b"integer>", b"decimal>", b"double>", b"boolean>", b"dateTime>", b"int>", b"long>")


def _words(text: bytes) -> tuple[int, ...]:
    padded = text + b"\0" * (-len(text) % 8)
    return tuple(int.from_bytes(padded[i : i + 8], "little", signed=True) for i in range(0, len(padded), 8))


_P0, _P1, _P2, _P3, _P4 = _words(_PREFIX)
_P4_MASK = (1 << (8 * (_PREFIX_SIZE - 32))) - 1
_INTEGER_NAME, _DECIMAL_NAME, _DOUBLE_NAME, _BOOLEAN_NAME = (_words(name)[0] for name in _NAMES[:4])
_DATE_TIME_NAME = _words(_NAMES[4][:8])[0]
_INT_NAME, _LONG_NAME = (_words(name)[0] for name in _NAMES[5:])
_POWERS = np.array([10.0**k for k in range(_MOST_POWER + 1)])


@njit(cache=True, nogil=True)
def _kind_of_type(at, size):
    """The kind that the datatype written at an address (from `^^` on) makes of a literal."""
    name = size - _PREFIX_SIZE
    if name < 4 or name > 9:
        return OTHER
    if (
        load_word(at) != _P0
        or load_word(at + 8) != _P1
        or load_word(at + 16) != _P2
        or load_word(at + 24) != _P3
        or load_word(at + 32) & _P4_MASK != _P4
    ):
        return OTHER
    word = load_word(at + _PREFIX_SIZE)
    if name < 8:
        word &= (np.int64(1) << (8 * name)) - 1
    if name == 8 and word == _INTEGER_NAME:
        return INTEGER
    if name == 8 and word == _DECIMAL_NAME:
        return DECIMAL
    if name == 7 and word == _DOUBLE_NAME:
        return DOUBLE
    if name == 8 and word == _BOOLEAN_NAME:
        return BOOLEAN
    if name == 9 and word == _DATE_TIME_NAME:
        return _DATE_TIME
    if name == 4 and word == _INT_NAME:
        return _INT
    if name == 5 and word == _LONG_NAME:  # 15 digits are within its bounds
        return INTEGER
    return OTHER


@njit(cache=True, nogil=True)
def _number(at, size, kind):
    """The kind and the number of the digits at an address; OTHER if they are too many or not of the kind."""
    end = at + size
    negative = False
    if at < end and (load8(at) == _MINUS or load8(at) == _PLUS):
        negative = load8(at) == _MINUS
        at += 1
    mantissa = np.int64(0)
    digits = np.int64(0)
    seen = np.int64(0)
    power = np.int64(0)
    point = False
    while at < end:
        char = load8(at)
        if _ZERO <= char <= _NINE:
            mantissa = mantissa * 10 + (char - _ZERO)
            seen += 1
            if mantissa != 0:
                digits += 1
                if digits > _MOST_DIGITS:
                    return OTHER, 0.0
            if point:
                power -= 1
        elif char == _POINT and not point and kind != INTEGER:
            point = True
        else:
            break
        at += 1
    if seen == 0:
        return OTHER, 0.0
    if at < end:
        if kind != DOUBLE or (load8(at) != _SMALL_E and load8(at) != _LARGE_E):
            return OTHER, 0.0
        at += 1
        down = False
        if at < end and (load8(at) == _MINUS or load8(at) == _PLUS):
            down = load8(at) == _MINUS
            at += 1
        if at == end or end - at > 3:
            return OTHER, 0.0
        exponent = np.int64(0)
        while at < end:
            char = load8(at)
            if char < _ZERO or char > _NINE:
                return OTHER, 0.0
            exponent = exponent * 10 + (char - _ZERO)
            at += 1
        power += -exponent if down else exponent
    if power > _MOST_POWER or power < -_MOST_POWER:
        return OTHER, 0.0
    number = np.float64(mantissa)
    if power > 0:
        number *= _POWERS[power]
    elif power < 0:
        number /= _POWERS[-power]
    # Only a double has a negative zero.
    if negative and (mantissa != 0 or kind == DOUBLE):
        number = -number
    return kind, number


@njit(cache=True, nogil=True)
def _two(at):
    """The number of two digits at an address, or -1."""
    tens = load8(at) - _ZERO
    ones = load8(at + 1) - _ZERO
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return np.int64(-1)
    return tens * 10 + ones


@njit(cache=True, nogil=True)
def _date_time(at, size):
    """The kind and the microseconds of a dateTime of the years 1700 to 2199, which a double holds exactly."""
    end = at + size
    if size < 19 or load8(at + 4) != _MINUS or load8(at + 7) != _MINUS or load8(at + 10) != 84:
        return OTHER, 0.0
    if load8(at + 13) != 58 or load8(at + 16) != 58:
        return OTHER, 0.0
    century, of_century, month, day = _two(at), _two(at + 2), _two(at + 5), _two(at + 8)
    hour, minute, second = _two(at + 11), _two(at + 14), _two(at + 17)
    if of_century < 0 or century < 17 or century > 21 or month < 1 or month > 12 or day < 1:
        return OTHER, 0.0
    year = century * 100 + of_century
    longest = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        longest = 30
    elif month == 2:
        longest = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day > longest or hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return OTHER, 0.0
    at += 19
    fraction = np.int64(0)
    if at < end and load8(at) == _POINT:
        at += 1
        digits = np.int64(0)
        while at < end and _ZERO <= load8(at) <= _NINE:
            fraction = fraction * 10 + (load8(at) - _ZERO)
            digits += 1
            at += 1
            if digits > 6:
                return OTHER, 0.0
        if digits == 0:
            return OTHER, 0.0
        while digits < 6:
            fraction *= 10
            digits += 1
    kind = LOCAL
    zone = np.int64(0)
    if at < end:
        kind = ZONED
        if load8(at) == 90:
            at += 1
        else:
            if end - at != 6 or load8(at + 3) != 58 or (load8(at) != _PLUS and load8(at) != _MINUS):
                return OTHER, 0.0
            hours, minutes = _two(at + 1), _two(at + 4)
            if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 840:
                return OTHER, 0.0
            zone = hours * 60 + minutes
            if load8(at) == _MINUS:
                zone = -zone
            at += 6
        if at != end:
            return OTHER, 0.0
    # Days since the epoch; years begin in March so that the leap day comes last.
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    seconds = days * 86400 + hour * 3600 + (minute - zone) * 60 + second
    return kind, np.float64(seconds * 1000000 + fraction)


@njit(cache=True, nogil=True)
def value_at(record):
    """The kind and the number of the term whose record in the arena's log is at an address."""
    at = record + RECORD
    size = load_half(record + 8)
    first = load8(at)
    if first == _LESS:
        return IRI, 0.0
    if first == _UNDERSCORE:
        return BLANK, 0.0
    ending = load8(at + size - 1)
    if ending == _QUOTE:
        return STRING, 0.0
    if ending != 62:
        return LANG, 0.0
    # A number or a time has no escapes, so that its first quote is its last; it is short.
    longest = min(size, 40)
    close = np.int64(1)
    while close < longest and load8(at + close) != _QUOTE:
        close += 1
    if close == longest:
        return OTHER, 0.0
    kind = _kind_of_type(at + close + 1, size - close - 1)
    at += 1
    size = close - 1
    if kind == _DATE_TIME:
        return _date_time(at, size)
    if kind == BOOLEAN:
        if (size == 4 and load_half(at) == 0x65757274) or (size == 1 and load8(at) == 49):
            return BOOLEAN, 1.0
        if (size == 5 and load_half(at) == 0x736C6166 and load8(at + 4) == 101) or (
            size == 1 and load8(at) == 48
        ):
            return BOOLEAN, 0.0
        return OTHER, 0.0
    if kind == _INT:
        kind, number = _number(at, size, INTEGER)
        if kind == INTEGER and (number < -2147483648.0 or number > 2147483647.0):
            return OTHER, 0.0
        return kind, number
    if kind == OTHER:
        return OTHER, 0.0
    return _number(at, size, kind)


@njit(cache=True, nogil=True)
def read_values(slots, log, ids, kinds, numbers):
    """Fills in the kind and the number of each id."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    records = np.empty(_AHEAD, dtype=np.int64)
    for start in range(0, ids.size, _AHEAD):
        end = min(start + _AHEAD, ids.size)
        # Finding a record takes two cache misses: those of a block are waited for together.
        for k in range(end, min(end + _AHEAD, ids.size)):
            prefetch(slots_at + 16 * (ids[k] & last))
        for k in range(start, end):
            offset = np.int64(-1)
            if ids[k] != 0:
                offset = find(slots_at, last, ids[k])
            records[k - start] = -1
            if offset >= 0:
                records[k - start] = log_at + offset
                prefetch(log_at + offset)
                prefetch(log_at + offset + 63)
        for k in range(start, end):
            if records[k - start] < 0:
                kinds[k], numbers[k] = NONE, 0.0
            else:
                kinds[k], numbers[k] = value_at(records[k - start])
