"""Event time: int64 microseconds since the epoch, UTC, and the texts that people write for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, SupportsIndex

FIRST = -377705116800_000_000  # -9999-01-01T00:00:00Z
LAST = 253402300799_999_999  # 9999-12-31T23:59:59.999999Z
LONGEST = LAST - FIRST
"""The longest duration. A time and several durations add up without leaving 64 bits."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
_DATE_TIME = re.compile(
    r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ISO_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?",
    re.IGNORECASE,
)
_SHORT_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)", re.IGNORECASE)
_UNITS = {
    "": 1000,
    "us": 1,
    "µs": 1,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": _DAY,
    "w": 7 * _DAY,
}


class Instant(int):
    """An instant as rows have it: an `int` of microseconds since the epoch that knows its unit.

    Wherever a time is taken (`push`, `advance`), an `Instant` is this instant, and a plain integer is milliseconds. An
    instant plus or minus an integer of microseconds or a `timedelta` is an instant; any other arithmetic gives
    plain numbers. Its text is `xsd:dateTime`, which is taken as a time, too.

    >>> at = Instant("1970-01-01T00:00:01.5Z")
    >>> at, int(at), str(at + timedelta(seconds=1)), Instant(1500) == at
    (Instant('1970-01-01T00:00:01.5Z'), 1500000, '1970-01-01T00:00:02.5Z', True)
    """

    __slots__ = ()

    def __new__(cls, value: Time) -> Instant:
        """An instant as `push` takes it: a plain integer is milliseconds."""
        return int.__new__(cls, instant(value))

    @property
    def time(self) -> datetime | None:
        """The instant as a `datetime` in UTC; None before the year 1, which `datetime` does not have."""
        try:
            return _EPOCH + timedelta(microseconds=int(self))
        except OverflowError:
            return None

    def __add__(self, other: Any) -> Instant:
        """An instant later by microseconds or a `timedelta`."""
        shift = _microseconds(other)
        return NotImplemented if shift is None else as_instant(int(self) + shift)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        """An instant earlier by microseconds or a `timedelta`, or the microseconds since another instant."""
        if isinstance(other, Instant):
            return int(self) - int(other)
        shift = _microseconds(other)
        return NotImplemented if shift is None else as_instant(int(self) - shift)

    def __str__(self) -> str:
        return show_instant(int(self))

    def __repr__(self) -> str:
        return f"Instant('{show_instant(int(self))}')"

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (int(self),)


Time = int | str | datetime | Instant
"""What is taken as a time: milliseconds, an `xsd:dateTime` text, an aware `datetime`, an `Instant`."""

as_instant: Callable[[int], Instant] = partial(int.__new__, Instant)
"""Microseconds since the epoch as an `Instant`; unchecked, and quick."""


def _unpickled(us: int) -> Instant:
    return as_instant(us)


def _microseconds(shift: object) -> int | None:
    if isinstance(shift, timedelta):
        return shift // timedelta(microseconds=1)
    return int(shift) if isinstance(shift, int) else None


def instant(value: Time) -> int:
    """Microseconds of an instant: an integer is milliseconds, a text is xsd:dateTime or an integer.

    An `Instant` is itself. A text without a zone is UTC, a `datetime` without a zone is refused: Python takes it for
    local time. Digits beyond the microsecond are cut.

    >>> instant(1500), instant("1970-01-01T00:00:01.5Z"), instant("1970-01-01T01:00:00+01:00")
    (1500000, 1500000, 0)
    """
    if type(value) is int:  # the usual case, and the quick one
        return _in_range(value * 1000, value)
    if isinstance(value, Instant):
        return _in_range(int(value), value)
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueError(
                "a datetime without a time zone: give it one, such as datetime.now(UTC) or "
                "value.replace(tzinfo=UTC) with `from datetime import UTC`"
            )
        return _in_range((value - _EPOCH) // timedelta(microseconds=1), value)
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            return _in_range(_integer(text) * 1000, text)
        return _in_range(_date_time(text), text)
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        hint = ""
        if isinstance(value, float):
            hint = "; for a number of seconds, such as time.time(), write int(1000 * seconds)"
        raise ValueError(
            f"not an instant: {value!r:.60} (an integer of milliseconds, a datetime, or xsd:dateTime text){hint}"
        )
    return _in_range(value.__index__() * 1000, value)


def checked_instant(us: int) -> int:
    """Microseconds since the epoch, if they are in the range of time.

    >>> checked_instant(0)
    0
    """
    return _in_range(us, f"{us} microseconds")


def duration(text: str | int) -> int:
    """Microseconds of a duration: `PT10S`, `P1DT2H`, `10s`, `5m`, `250ms`; a bare integer is milliseconds.

    >>> duration("PT1.5S"), duration("5m"), duration("250")
    (1500000, 300000000, 250000)
    """
    written = str(text).strip()
    if iso := _ISO_DURATION.fullmatch(written):
        weeks, days, hours, minutes, seconds = (Decimal(part or 0) for part in iso.groups())
        amount = ((weeks * 7 + days) * 24 + hours) * 3600 + minutes * 60 + seconds
        return _length(int(amount * 1_000_000), written)
    short = _SHORT_DURATION.fullmatch(written)
    if short and short[2].lower() in _UNITS:
        return _length(int(Decimal(short[1]) * _UNITS[short[2].lower()]), written)
    if re.fullmatch(r"P(?=[0-9]).*[YM].*", written.partition("T")[0], re.IGNORECASE):
        raise ValueError(f"a duration in years or months has no fixed length: {written[:60]!r}; write days")
    raise ValueError(f"not a duration: {written[:60]!r} (write PT10S, 10s, 5m, 1h, 250ms, or milliseconds)")


def show_instant(us: int) -> str:
    """The xsd:dateTime text of an instant, in UTC, with as many digits as it needs.

    >>> show_instant(1_500_000), show_instant(-1), show_instant(253402300799000000)
    ('1970-01-01T00:00:01.5Z', '1969-12-31T23:59:59.999999Z', '9999-12-31T23:59:59Z')
    """
    days, rest = divmod(int(us), _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    year, month, day = civil_day(days)
    shown_year = f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    digits = f".{fraction:06d}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown_year}-{month:02d}-{day:02d}T{clock}{digits}Z"


def _date_time(text: str) -> int:
    match = _DATE_TIME.fullmatch(text)
    if not match:
        raise ValueError(f"not an instant: {text[:60]!r} (write 2024-05-01T12:00:00Z, or milliseconds)")
    year = _integer(match[1])
    month, day, hour, minute, second = (int(match[i]) for i in range(2, 7))
    fraction = int((match[7] or "0")[:6].ljust(6, "0"))
    midnight = (hour, minute, second, fraction) == (24, 0, 0, 0)
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month)):
        raise ValueError(f"not an instant: {text[:60]!r} has no such day")
    if not midnight and not (hour <= 23 and minute <= 59 and second <= 59):
        raise ValueError(f"not an instant: {text[:60]!r} has no such time of day")
    zone = 0
    if match[8] and match[8] != "Z":
        hours, minutes = int(match[8][1:3]), int(match[8][4:])
        if minutes > 59 or hours * 60 + minutes > 14 * 60:
            raise ValueError(f"not an instant: {text[:60]!r} has no such time zone")
        zone = (hours * 60 + minutes) * (-1 if match[8][0] == "-" else 1)
    seconds = day_number(year, month, day) * 86_400 + hour * 3600 + (minute - zone) * 60 + second
    return seconds * 1_000_000 + fraction


def _integer(digits: str) -> int:
    if len(digits) > 40:  # far out of range, and Python refuses to convert very long ones
        raise ValueError(f"out of the range of time: {digits[:20]}...")
    return int(digits)


def _in_range(us: int, written: object) -> int:
    if not FIRST <= us <= LAST:
        hint = ""
        if type(written) is int and FIRST <= written // 1000 <= LAST:
            hint = "; an integer is milliseconds, and this one looks like microseconds or nanoseconds"
        raise ValueError(f"out of the range of time (years -9999 to 9999): {str(written)[:60]}{hint}")
    return us


def _length(us: int, written: str) -> int:
    if us > LONGEST:
        raise ValueError(f"longer than all time (years -9999 to 9999): {written[:60]}")
    return us


def days_in_month(year: int, month: int) -> int:
    """Days of a month in the proleptic Gregorian calendar."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def day_number(year: int, month: int, day: int) -> int:
    """Days from the epoch, proleptic Gregorian; years begin in March so that the leap day comes last."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_day(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days from the epoch.

    >>> civil_day(day_number(2024, 2, 29))
    (2024, 2, 29)
    """
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day
