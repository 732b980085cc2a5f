"""New nodes: their labels against a slow twin of the digest, and how rows are told apart."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.rdf.arena import Arena

WORD = 2**64 - 1
TEXTS = st.binary(min_size=1, max_size=70)


def turned(word: int, count: int) -> int:
    return ((word << count) | (word >> (64 - count))) & WORD


def mixed(word: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = ((word ^ (word >> 33)) * factor) & WORD
    return word ^ (word >> 33)


def label(name: str, row: list[bytes]) -> str:
    """MurmurHash3's 128 bits (x64) over sizes, places and texts, each text filled up with zeros."""
    high, low = struct.unpack("<QQ", hashlib.blake2b(name.encode(), digest_size=16).digest())
    for place, text in enumerate(row):
        padded = text + bytes(-len(text) % 16)
        for first, second in [(len(text), place), *struct.iter_unpack("<QQ", padded)]:
            high ^= turned(first * 0x87C37B91114253D5 & WORD, 31) * 0x4CF5AD432745937F & WORD
            high = ((turned(high, 27) + low) * 5 + 0x52DCE729) & WORD
            low ^= turned(second * 0x4CF5AD432745937F & WORD, 33) * 0x87C37B91114253D5 & WORD
            low = ((turned(low, 31) + high) * 5 + 0x38495AB5) & WORD
    high = (high + low) & WORD
    low = (low + high) & WORD
    high, low = mixed(high), mixed(low)
    high = (high + low) & WORD
    return f"_:c{high:016x}{(low + high) & WORD:016x}"


@given(
    rows=st.integers(0, 3).flatmap(
        lambda width: st.lists(st.lists(TEXTS, min_size=width, max_size=width), max_size=5)
    ),
    mask=st.sampled_from([-1, 1]),
)
def test_a_label_is_the_digest_of_name_and_texts(rows: list[list[bytes]], mask: int) -> None:
    arena = Arena(hash_mask=mask)
    ids = [[arena.intern(text) for text in row] for row in rows]
    nodes = arena.nodes("b", np.array(ids, np.int64).reshape(len(rows), -1 if ids and ids[0] else 0))
    assert arena.texts(nodes) == [label("b", row) for row in rows]


def test_many_nodes_make_room_for_themselves() -> None:
    arena = Arena()
    ids = np.array([[arena.intern(b"<a:%d>" % k)] for k in range(3000)])
    nodes = arena.nodes("b", ids)
    assert len(set(nodes.tolist())) == 3000
    assert nodes.tolist() == arena.nodes("b", ids).tolist()
    assert set(nodes.tolist()).isdisjoint(arena.nodes("c", ids).tolist())
