"""Which rows the signatures of queries agree with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.plan.coverage import agrees
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.prune import Prune, Signature

TEXTS = [b"<http://ex/%d>" % k for k in range(4)]
TERMS = st.sampled_from([None, *TEXTS])


class Triples(NamedTuple):
    s: Ids
    p: Ids
    o: Ids


@given(
    signatures=st.lists(st.builds(Signature, TERMS, TERMS, TERMS), max_size=5),
    triples=st.lists(st.tuples(*[st.sampled_from(TEXTS)] * 3), max_size=12),
)
def test_rows_agree_with_a_signature_where_all_of_its_constants_are_theirs(
    signatures: list[Signature], triples: list[tuple[bytes, ...]]
) -> None:
    arena = Arena()
    ids = np.array([[arena.intern(text) for text in triple] for triple in triples], np.int64).reshape(-1, 3)
    expected = [
        any(
            all(w in (None, t) for w, t in zip((one.s, one.p, one.o), triple, strict=True))
            for one in signatures
        )
        for triple in triples
    ]
    found = agrees(Prune.of(signatures), Triples(*np.ascontiguousarray(ids.T)), arena)
    assert found.tolist() == expected
