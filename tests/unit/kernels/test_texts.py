"""Front coding: each text without the prefix that it shares with the one before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.kernels.texts import MOST_SHARED
from thalweg.rdf.arena import Arena, FrontCoded

PREFIXES = [b"", b"<", b"<http://ex/", b"<http://ex/" + b"d" * 53, b"<" + b"e" * 63, b"<" + b"f" * 300]
"""Common beginnings of no, few and many bytes, of exactly one block, and of more than can be left out."""

texts = st.lists(
    st.builds(lambda prefix, rest: prefix + rest, st.sampled_from(PREFIXES), st.binary(max_size=70)),
    max_size=40,
    unique=True,
)


def common(a: bytes, b: bytes) -> int:
    return next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b)))


@given(texts=texts)
def test_front_coded_texts_share_as_much_as_they_can_and_come_back_whole(texts: list[bytes]) -> None:
    arena = Arena()
    numbers, terms = arena.export(np.array([arena.intern(text) for text in texts], dtype=np.int64))
    assert numbers.tolist() == list(range(1, len(texts) + 1))
    assert terms.shared.tolist() == [
        min(common(before, text), MOST_SHARED) for before, text in zip([b"", *texts], texts, strict=False)
    ]
    rests = [text[size:] for text, size in zip(texts, terms.shared, strict=True)]
    assert terms.rests.tobytes() == b"".join(rests)
    there = Arena()
    ids = there.enter(terms)
    assert [there.find(text) for text in texts] == ids[1:].tolist()
    assert len(there) == len(texts)


def front_coded(shared: list[int], sizes: list[int], rests: bytes) -> FrontCoded:
    return FrontCoded(np.array(shared, np.uint8), np.array(sizes, np.uint32), np.frombuffer(rests, np.uint8))


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param(front_coded([1], [1], b"a"), id="the first shares with nothing"),
        pytest.param(front_coded([0, 4], [3, 1], b"abcd"), id="more than the one before has"),
        pytest.param(front_coded([0, 2], [3, 2], b"abcd"), id="too few bytes"),
        pytest.param(front_coded([0], [3], b"abcd"), id="too many bytes"),
    ],
)
def test_invalid_front_coding_is_refused(terms: FrontCoded) -> None:
    with pytest.raises(ValueError, match="not the texts of an arena"):
        Arena().enter(terms)
