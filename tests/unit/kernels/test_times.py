"""Times on raw bytes: the law of `thalweg.instants`, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thalweg.instants import FIRST, LAST, instant, show_instant
from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.times import NO_TIME, micros


def parse(text: str) -> int:
    data = text.encode()
    padded = np.frombuffer(data + bytes(SLACK), dtype=np.uint8)
    return int(micros(address_of(padded), len(data)))


def expected(text: str) -> int:
    try:
        return instant(text)
    except ValueError:
        return NO_TIME


@given(us=st.integers(FIRST, LAST), zone=st.sampled_from(["Z", "", "+00:00"]))
def test_every_instant_is_read_back(us: int, zone: str) -> None:
    assert parse(show_instant(us).replace("Z", zone)) == us


_pieces = st.sampled_from(
    [
        "2024-02-29T12:30:45",
        "-0001-01-01T00:00:00",
        "12345-12-31T23:59:59",
        "2023-02-29T00:00:00",
        "0000-03-01T",
    ]
    + [
        "24:00:00",
        "T24:00:00.0",
        ".123456789",
        ".",
        ".5",
        "Z",
        "+14:00",
        "-14:01",
        "+05:30",
        "-",
        "+",
        "1",
        "007",
    ]
    + [" ", "2024-13-01T00:00:00", "9999999999-01-01T00:00:00", "294247-01-10T04:00:54.775808Z", "x", "0"]
)


@given(text=st.lists(_pieces, max_size=3).map("".join))
@example("294247-01-10T04:00:54.775807Z")
@example("294247-01-10T04:00:54.775808Z")
@example("-290308-12-21T19:59:05.224193Z")
@example("-290308-12-21T19:59:05.224192Z")
@example("9223372036854775")
@example("9223372036854776")
@example("-9223372036854775")
@example("000000000000000000000000000000000012")
@example("2024-01-01T24:00:00.0000001Z")
@example("9999-12-31T23:59:59.9999999Z")
@example("9999-12-31T24:00:00Z")
@example("10000-01-01T00:00:00+00:01")
@example("-9999-01-01T00:00:00Z")
@example("-9999-01-01T00:00:00+00:01")
@example("253402300799999")
@example("253402300800000")
@example("-377705116800000")
@example("-377705116800001")
@example("")
def test_it_agrees_with_instants_on_every_text(text: str) -> None:
    assert parse(text) == expected(text)


@pytest.mark.parametrize(
    "text", ["2024-1-01T00:00:00Z", "2024-01-01", "12:00:00", "2024-01-01t00:00:00Z", "now"]
)
def test_other_texts_are_no_times(text: str) -> None:
    assert parse(text) == NO_TIME
