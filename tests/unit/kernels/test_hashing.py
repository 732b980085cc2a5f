"""The hash: equal for equal bytes wherever they lie, different otherwise."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.bits import SLACK
from thalweg.kernels.checking import address_of
from thalweg.kernels.hashing import hash64, quick, same


def place(text: bytes, before: int, rest: int) -> tuple[np.ndarray, int]:
    """A copy of the text at some alignment, with other bytes around it, and its address."""
    data = np.full(before + len(text) + SLACK, rest, dtype=np.uint8)
    data[before : before + len(text)] = np.frombuffer(text, dtype=np.uint8)
    return data, address_of(data) + before


@given(text=st.binary(max_size=200), before=st.integers(0, 9), rest=st.integers(0, 255))
def test_a_hash_depends_on_the_text_alone(text: bytes, before: int, rest: int) -> None:
    one, at = place(text, 0, 0)
    other, there = place(text, before, rest)
    assert hash64(at, len(text)) == hash64(there, len(text))
    assert quick(at, len(text)) == quick(there, len(text))
    assert same(at, there, len(text))
    del one, other


@given(text=st.binary(min_size=1, max_size=200), data=st.data())
def test_one_flipped_bit_shows(text: bytes, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(text) - 1))
    changed = text[:k] + bytes([text[k] ^ (1 << data.draw(st.integers(0, 7)))]) + text[k + 1 :]
    one, at = place(text, 0, 7)
    other, there = place(changed, 0, 7)
    assert not same(at, there, len(text))
    assert hash64(at, len(text)) != hash64(there, len(text))
    del one, other


def test_zeros_of_different_lengths_differ() -> None:
    zeros, at = place(bytes(200), 0, 0)
    assert len({hash64(at, size) for size in range(200)}) == 200
    del zeros


def test_similar_texts_spread_over_all_bits() -> None:
    texts, at = place(b"".join(b"<http://ex/%07d>" % k for k in range(20_000)), 0, 0)
    size = len(b"<http://ex/0000000>")
    hashes = np.array([hash64(at + size * k, size) for k in range(20_000)], dtype=np.int64)
    assert np.unique(hashes).size == 20_000
    for bit in range(64):
        ones = int(((hashes >> bit) & 1).sum())
        assert 9_500 < ones < 10_500
    assert np.bincount(hashes & 255, minlength=256).max() < 150
    del texts
