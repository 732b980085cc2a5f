"""Packed chunks: the same statements in another arena."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from documents import documents, read, statements
from hypothesis import given
from hypothesis import strategies as st

from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk


@given(document=documents("nq"), mask=st.sampled_from([-1, 0x7]), other=documents("nq"))
def test_an_unpacked_chunk_is_the_packed_one_in_an_arena_with_other_terms(
    document: bytes, mask: int, other: bytes
) -> None:
    arena = Arena()
    chunk, found = read(document + b"\nnonsense\n", "nq", arena=arena)
    there = Arena(hash_mask=mask)
    before, seen = read(other, "nq", arena=there)
    back = Chunk.unpack(chunk.pack(arena), there)
    assert statements(back, there) == found
    assert statements(before, there) == seen
    for name in ("statements", "lines", "bnodes", "rejects", "unnamed", "source"):
        assert getattr(back, name) == getattr(chunk, name)
    assert back.number.tolist() == chunk.number.tolist()
    assert back.time.tolist() == chunk.time.tolist()


def test_only_the_terms_of_the_chunk_are_packed() -> None:
    arena = Arena()
    for k in range(1000):
        arena.intern(b"<http://ex/%d>" % k)
    chunk, _ = read(b"<a:s> <a:p> <a:o> .\n", arena=arena)
    there = Arena()
    Chunk.unpack(chunk.pack(arena), there)
    assert len(there) == 3


def test_repetition_packs_well() -> None:
    arena = Arena()
    document = b"".join(b"<http://ex/s%d> <http://ex/p> <http://ex/o> .\n" % (k % 50) for k in range(2000))
    chunk, _ = read(document, arena=arena)
    assert len(chunk.pack(arena)) < 16 * 2000


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not a packed chunk"):
        Chunk.unpack(b"x" * 40, Arena())
    with pytest.raises(ValueError, match="not a packed chunk"):
        Chunk.unpack(b"", Arena())


def test_columns_have_one_length() -> None:
    chunk, _ = read(b"<a:s> <a:p> <a:o> .\n")
    with pytest.raises(ValueError, match="different lengths"):
        replace(chunk, s=np.empty(0, dtype=np.int64))
