"""Event times of rows, by the rule of a mapping."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.instants import FIRST, LAST
from thalweg.kernels import row_times as kernel
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.mapping import TimeRule

_UNITS = {"epoch-s": 1_000_000, "epoch-ms": 1000, "epoch-us": 1}
_REASONS = {
    kernel.MISSING: "there is no time",
    kernel.LOCAL: "the time {} has no zone: add `zone` to `event` in the mapping",
}


def times_of(rule: TimeRule, at: Ids, sizes: Ids, known: Ids | None = None) -> tuple[Ids, dict[int, str]]:
    """The time of each row in microseconds, and what is wrong with those that have none.

    `known` are the times of a column that consists of times.
    """
    if known is not None:
        missing = np.flatnonzero(known == NO_TIME)
        return known, dict.fromkeys(missing.tolist(), _REASONS[kernel.MISSING])
    form = {"dateTime": kernel.DATE_TIME, "pattern": kernel.PATTERN}.get(rule.form, kernel.EPOCH)
    pattern = np.frombuffer(rule.pattern.encode(), np.uint8)
    times = np.empty(at.size, np.int64)
    found = np.empty(at.size, np.uint8)
    kernel.read_times(
        form,
        _UNITS.get(rule.form, 0),
        pattern,
        np.ascontiguousarray(at),
        np.ascontiguousarray(sizes),
        times,
        found,
    )
    if rule.zone is not None:
        local = np.flatnonzero(found == kernel.LOCAL)
        if local.size:
            times[local], inside = in_utc(times[local], rule.zone)
            found[local] = np.where(inside, kernel.UTC, kernel.BAD)
    wrong = np.flatnonzero(found != kernel.UTC)
    expected = rule.pattern if rule.form == "pattern" else rule.form
    bad = f"{{}} is not a time (expected {expected.replace('{', '{{').replace('}', '}}')})"
    return times, {row: _REASONS.get(int(found[row]), bad) for row in wrong.tolist()}


_EPOCH, _EPOCH_UTC, _MICROSECOND = (
    datetime(1970, 1, 1),
    datetime(1970, 1, 1, tzinfo=UTC),
    timedelta(microseconds=1),
)
_TABLES_END, _LAST_DATETIME = ((datetime(year, 1, 1) - _EPOCH) // _MICROSECOND for year in (2037, 9999))


def in_utc(local: Ids, zone: str) -> tuple[Ids, np.ndarray]:
    """Local times of a zone in UTC, and which of them are within the range of time.

    Where clocks go back, the first of two instants is meant; where they go forward, what is skipped is the instant of
    the change.

    >>> in_utc(np.array([3_600_000_000]), "+01:00")[0]
    array([0])
    """
    if offset := re.fullmatch(r"([+-])([0-9]{2}):([0-9]{2})", zone):
        minutes = int(offset[2]) * 60 + int(offset[3])
        times = local - (-minutes if offset[1] == "-" else minutes) * 60_000_000
    elif zone == "UTC":
        times = local
    else:
        stamps = pa.array(local, pa.timestamp("us"))
        aware = pc.assume_timezone(stamps, zone, ambiguous="earliest", nonexistent="earliest")
        times = aware.cast(pa.int64()).to_numpy(zero_copy_only=False).copy()
        # Arrow's tables of zones end here; Python goes on by their rules.
        for row in np.flatnonzero((local >= _TABLES_END) & (local <= _LAST_DATETIME)).tolist():
            moment = _EPOCH + timedelta(microseconds=int(local[row]))
            times[row] = (moment.replace(tzinfo=ZoneInfo(zone)) - _EPOCH_UTC) // _MICROSECOND
    return times, (times >= FIRST) & (times <= LAST)
