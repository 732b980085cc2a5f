"""Dates, times and durations of XML Schema: exact values, order, arithmetic, and their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact, InvalidOperation

from thalweg.instants import civil_day, day_number, days_in_month

_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation])
_LONGEST = 100
"""Characters of a date, time or duration. What is longer has no value."""

_ZONE = r"(Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DAY = r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9](?:\.[0-9]+)?)|(24):(00):(00(?:\.0+)?)"
_DATE_TIME = re.compile(f"{_DAY}T(?:{_CLOCK}){_ZONE}")
_DATE = re.compile(f"{_DAY}{_ZONE}")
_TIME = re.compile(f"(?:{_CLOCK}){_ZONE}")
_DURATION = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_ALL_DAY = 86_400
_WIDEST = 14 * 3600
"""Seconds between UTC and the outermost time zones."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A dateTime, a date (its first instant) or a time (on a fixed day): local seconds and the zone in minutes.

    `zone` is None where the text has none, `shown_zone` is how it is written.
    """

    local: Decimal
    """Seconds since 1970-01-01T00:00:00 on the local clock, exact."""
    zone: int | None = None
    shown_zone: str = ""

    @property
    def universal(self) -> Decimal:
        """Seconds in UTC; without a zone, as if the local clock showed UTC."""
        return self.local if not self.zone else _EXACT.subtract(self.local, Decimal(self.zone * 60))

    @property
    def day(self) -> tuple[int, int, int]:
        """Year, month and day."""
        return civil_day(int(self.local.to_integral_value("ROUND_FLOOR")) // _ALL_DAY)

    @property
    def clock(self) -> tuple[int, int, Decimal]:
        """Hours, minutes and seconds."""
        whole = int(self.local.to_integral_value("ROUND_FLOOR"))
        of_day = whole % _ALL_DAY
        seconds = _EXACT.add(_EXACT.subtract(self.local, Decimal(whole)), Decimal(of_day % 60))
        return of_day // 3600, of_day // 60 % 60, seconds


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of months and a number of seconds, both of one sign."""

    months: int = 0
    seconds: Decimal = Decimal(0)


def parse(lexical: str, datatype: str) -> Moment | Duration | None:
    """The value of a lexical form, or None if it is not one of the datatype.

    >>> parse("2011-01-10T14:45:13.815-05:00", "dateTime").universal
    Decimal('1294688713.815')
    >>> parse("2011-02-29", "date") is None, parse("P1Y2M", "duration")
    (True, Duration(months=14, seconds=Decimal('0')))
    """
    if len(lexical) > _LONGEST:
        return None
    if datatype.lower().endswith("duration"):
        return _duration(lexical, datatype)
    if datatype == "date":
        match = _DATE.fullmatch(lexical)
        return None if match is None else _moment(match[1], match[2], match[3], "0", "0", "0", match[4])
    match = (_TIME if datatype == "time" else _DATE_TIME).fullmatch(lexical)
    if match is None or (datatype == "dateTimeStamp" and not match.groups()[-1]):
        return None
    groups = list(match.groups())
    zone = groups.pop()
    clock = groups[-6:-3] if groups[-6] is not None else groups[-3:]
    if datatype == "time":
        # 24:00:00 is the beginning of the day.
        return _moment("1972", "12", "31", "00" if clock[0] == "24" else clock[0], clock[1], clock[2], zone)
    return _moment(groups[0], groups[1], groups[2], clock[0], clock[1], clock[2], zone)


def _moment(
    year: str, month: str, day: str, hour: str, minute: str, second: str, zone: str | None
) -> Moment | None:
    y, m, d = int(year), int(month), int(day)
    if d > days_in_month(y, m):
        return None
    whole = day_number(y, m, d) * _ALL_DAY + int(hour) * 3600 + int(minute) * 60
    local = _EXACT.add(Decimal(whole), Decimal(second))
    return Moment(local, _minutes(zone), zone or "")


def _minutes(zone: str | None) -> int | None:
    if not zone:
        return None
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return -minutes if zone[0] == "-" else minutes


def _duration(lexical: str, datatype: str) -> Duration | None:
    match = _DURATION.fullmatch(lexical)
    if match is None:
        return None
    negative, years, months, days, hours, minutes, seconds = match.groups()
    if datatype == "dayTimeDuration" and (years or months):
        return None
    if datatype == "yearMonthDuration" and "".join(filter(None, (days, hours, minutes, seconds))):
        return None
    total = int(years or 0) * 12 + int(months or 0)
    whole = (int(days or 0) * 24 + int(hours or 0)) * 3600 + int(minutes or 0) * 60
    exact = _EXACT.add(Decimal(whole), Decimal(seconds or 0))
    return Duration(-total, exact.copy_negate() if exact else exact) if negative else Duration(total, exact)


def compare(a: Moment, b: Moment) -> int | None:
    """-1, 0 or 1; None if only a time zone that is not written could decide (XML Schema, order of dateTime).

    >>> noon, later = parse("2020-01-01T12:00:00", "dateTime"), parse("2020-01-01T13:00:00Z", "dateTime")
    >>> compare(noon, later), compare(noon, parse("2020-01-03T13:00:00Z", "dateTime"))
    (None, -1)
    """
    x, y = a.universal, b.universal
    if (a.zone is None) != (b.zone is None) and abs(_EXACT.subtract(x, y)) <= _WIDEST:
        return None
    return (x > y) - (x < y)


def compare_durations(a: Duration, b: Duration) -> int | None:
    """-1, 0 or 1; None where months would have to be compared with seconds."""
    if a.months == b.months:
        return (a.seconds > b.seconds) - (a.seconds < b.seconds)
    return (a.months > b.months) - (a.months < b.months) if not a.seconds and not b.seconds else None


def difference(a: Moment, b: Moment) -> Duration | None:
    """The duration from b to a; None where one has a time zone and the other has none."""
    if (a.zone is None) != (b.zone is None):
        return None
    return Duration(0, _EXACT.subtract(a.universal, b.universal))


def shifted(moment: Moment, by: Duration, sign: int, datatype: str) -> Moment | None:
    """A moment plus (with sign -1: minus) a duration, months before seconds; None if there is none."""
    local = moment.local
    if by.months:
        if datatype == "time":
            return None
        year, month, day = moment.day
        years, month0 = divmod(year * 12 + month - 1 + sign * by.months, 12)
        day = min(day, days_in_month(years, month0 + 1))
        moved = day_number(years, month0 + 1, day) - day_number(*moment.day)
        local = _EXACT.add(local, Decimal(moved * _ALL_DAY))
    local = (_EXACT.add if sign > 0 else _EXACT.subtract)(local, by.seconds)
    if datatype == "date":
        local = Decimal(int(local.to_integral_value("ROUND_FLOOR")) // _ALL_DAY * _ALL_DAY)
    elif datatype == "time":
        start = day_number(1972, 12, 31) * _ALL_DAY
        whole = int(local.to_integral_value("ROUND_FLOOR"))
        local = _EXACT.add(local, Decimal(start - whole + (whole - start) % _ALL_DAY))
    return replace(moment, local=local)


def show(value: Moment | Duration, datatype: str) -> str:
    """The text of a value.

    >>> show(Duration(14, Decimal("90061.5")), "duration"), show(Duration(), "dayTimeDuration")
    ('P1Y2M1DT1H1M1.5S', 'PT0S')
    """
    if isinstance(value, Duration):
        return _show_duration(value, datatype)
    year, month, day = value.day
    hour, minute, second = value.clock
    digits = f"{second:f}"
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    date = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"
    clock = f"{hour:02d}:{minute:02d}:{int(whole):02d}{'.' + fraction if fraction else ''}"
    zone = show_zone(value.zone)
    return {"date": f"{date}{zone}", "time": f"{clock}{zone}"}.get(datatype, f"{date}T{clock}{zone}")


def show_zone(zone: int | None) -> str:
    """The text of a zone: nothing, `Z`, or the offset."""
    if not zone:
        return "" if zone is None else "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02d}:{abs(zone) % 60:02d}"


def _show_duration(value: Duration, datatype: str) -> str:
    negative = value.months < 0 or value.seconds < 0
    years, months = divmod(abs(value.months), 12)
    seconds = value.seconds.copy_abs()
    whole = int(seconds)
    fraction = f"{_EXACT.subtract(seconds, Decimal(whole)):f}".partition(".")[2].rstrip("0")
    days, rest = divmod(whole, _ALL_DAY)
    last = f"{rest % 60}{'.' + fraction if fraction else ''}"
    date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
    clock = "".join(f"{n}{unit}" for n, unit in ((rest // 3600, "H"), (rest // 60 % 60, "M")) if n)
    clock += f"{last}S" if last != "0" else ""
    if not date and not clock:
        return "P0M" if datatype == "yearMonthDuration" else "PT0S"
    return f"{'-' if negative else ''}P{date}{'T' + clock if clock else ''}"
