from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.instants import FIRST, LAST, LONGEST, duration, instant, show_instant


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        (0, 0),
        (-5, -5000),
        ("1500", 1_500_000),
        (" 1500 ", 1_500_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T00:00:00.1234567Z", 123_456),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T10:00:00-14:00", 0),
        ("1970-01-01T24:00:00Z", 86_400_000_000),
        ("2000-02-29T00:00:00Z", 951_782_400_000_000),
        ("9999-12-31T23:59:59.999999Z", LAST),
        ("-9999-01-01T00:00:00Z", FIRST),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000_000),
        ("-0001-12-31T00:00:00Z", -62_167_305_600_000_000),
        (datetime(1970, 1, 2, tzinfo=UTC), 86_400_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
    ],
)
def test_an_instant_is_microseconds_since_the_epoch(value, microseconds):
    assert instant(value) == microseconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "1970-13-01T00:00:00Z",
        "1970-02-29T00:00:00Z",
        "1970-01-01T24:00:01Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01T00:00:00+15:00",
        "1970-01-01",
        "70-01-01T00:00:00Z",
        "01970-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-00:01",
        "-10000-12-31T23:59:59.999999Z",
        "294247-01-10T04:00:54.775Z",
        253_402_300_800_000,
        "9" * 20,
        "9" * 10_000,
        "1" * 10_000 + "-01-01T00:00:00Z",
        True,
        1.5,
        2**62,
    ],
)
def test_what_is_no_instant_is_refused_with_a_sentence(value):
    with pytest.raises(ValueError, match=r"instant|range of time"):
        instant(value)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("PT10S", 10_000_000),
        ("PT0.25S", 250_000),
        ("P1DT2H", 93_600_000_000),
        ("P2W", 14 * 86_400_000_000),
        ("pt5m", 300_000_000),
        ("10s", 10_000_000),
        ("5m", 300_000_000),
        ("1h", 3_600_000_000),
        ("2d", 2 * 86_400_000_000),
        ("250ms", 250_000),
        ("1.5 s", 1_500_000),
        ("7us", 7),
        ("10", 10_000),
        ("0", 0),
    ],
)
def test_a_duration_is_written_in_iso_8601_or_with_a_unit(text, microseconds):
    assert duration(text) == microseconds


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "10 parsecs", "-5", "s", "P1M", "P1Y", "1e3", "9" * 30, "9223372036854775"],
)
def test_what_is_no_duration_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"duration|longer than all time"):
        duration(text)


def test_a_time_and_some_durations_add_up_within_64_bits():
    assert LAST + 8 * LONGEST < 2**63
    assert FIRST - 8 * LONGEST > -(2**63)
    assert duration(f"{LONGEST}us") == LONGEST


def test_a_month_has_no_length_and_the_message_says_so():
    with pytest.raises(ValueError, match="years or months"):
        duration("P1M")


@given(st.integers(FIRST, LAST))
def test_every_instant_can_be_shown_and_read_back(us):
    assert instant(show_instant(us)) == us


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_agree_with_the_standard_library(moment):
    us = instant(moment)
    assert instant(moment.isoformat()) == us
    assert show_instant(us).rstrip("Z")[:19] == moment.isoformat()[:19]
