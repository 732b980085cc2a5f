"""The arena: texts and ids are one to one, whatever the hash does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.rdf.arena import Arena

texts = st.binary(min_size=1, max_size=140)
masks = st.sampled_from([-1, 0, 0x7])


def ids_of(arena: Arena, some: list[bytes]) -> np.ndarray:
    return np.array([arena.intern(text) for text in some], dtype=np.int64)


@given(some=st.lists(texts, max_size=60), mask=masks)
def test_a_text_has_one_id_and_an_id_one_text(some: list[bytes], mask: int) -> None:
    arena = Arena(hash_mask=mask)
    ids = ids_of(arena, some)
    assert ids_of(arena, some).tolist() == ids.tolist()
    assert [arena.find(text) for text in some] == ids.tolist()
    assert len(arena) == len(set(some)) == len(set(ids.tolist()))
    assert 0 not in ids.tolist()


def test_an_id_is_the_same_in_every_arena() -> None:
    one, other = Arena(), Arena()
    other.intern(b"<http://ex/first>")
    assert one.intern(b"<http://ex/a>") == other.intern(b"<http://ex/a>")
    # Ids are written to checkpoints: this number must not change without a new version there.
    assert one.intern(b"<http://ex/a>") == -541818416407490183


def test_texts_are_decoded_in_the_order_of_the_ids() -> None:
    arena = Arena()
    a, b = arena.intern("<http://ex/é>".encode()), arena.intern(b'"x"@en')
    assert arena.texts(np.array([a, b, a])) == ["<http://ex/é>", '"x"@en', "<http://ex/é>"]
    assert arena.texts([]) == []
    assert arena.find(b"<http://ex/none>") == 0


def test_an_empty_arena_is_still_an_arena() -> None:
    assert Arena()


def test_an_unknown_id_is_an_error() -> None:
    with pytest.raises(KeyError, match="no term 5"):
        Arena().text(5)


def test_it_grows_with_what_enters_and_shrinks_with_what_leaves() -> None:
    arena = Arena()
    small = arena.nbytes
    ids = ids_of(arena, [b"<http://ex/%d>" % k for k in range(20_000)])
    assert arena.nbytes > small
    assert arena.used_bytes <= arena.nbytes
    arena.compact(ids[:100])
    assert len(arena) == 100
    assert arena.nbytes < 4 * small
    assert arena.texts(ids[:2]) == ["<http://ex/0>", "<http://ex/1>"]


@given(some=st.lists(texts, min_size=1, max_size=40, unique=True), mask=masks, data=st.data())
def test_compaction_keeps_live_ids_and_never_gives_a_text_a_second_one(
    some: list[bytes], mask: int, data: st.DataObject
) -> None:
    arena = Arena(hash_mask=mask)
    ids = ids_of(arena, some)
    live = data.draw(st.lists(st.integers(0, len(some) - 1), max_size=len(some)))
    arena.compact(ids[np.array(live, dtype=np.int64)])
    if mask == -1:
        assert len(arena) == len(set(live))
    for k in live:
        assert arena.find(some[k]) == ids[k]
    again = ids_of(arena, some)
    assert [again[k] for k in live] == [ids[k] for k in live]
    assert len(set(again.tolist())) == len(some)


def test_compaction_with_a_good_hash_keeps_nothing_but_the_live() -> None:
    arena = Arena()
    ids = ids_of(arena, [b"a", b"b", b"c"])
    arena.compact(np.array([ids[1], ids[1], 0, 12345], dtype=np.int64))
    assert (len(arena), arena.find(b"a"), arena.find(b"b")) == (1, 0, ids[1])


@given(here=st.lists(texts, max_size=30), there=st.lists(texts, max_size=30), masks=st.tuples(masks, masks))
def test_merged_records_mean_the_same_texts(
    here: list[bytes], there: list[bytes], masks: tuple[int, int]
) -> None:
    arena, other = Arena(hash_mask=masks[0]), Arena(hash_mask=masks[1])
    before = ids_of(arena, here)
    foreign = ids_of(other, there)
    differing = arena.merge(other.records())
    assert ids_of(arena, here).tolist() == before.tolist()
    new = dict(zip(*(part.tolist() for part in differing), strict=True)) if differing else {}
    assert [new.get(id, id) for id in foreign.tolist()] == [arena.find(text) for text in there]
    assert len(arena) == len({*here, *there})


def test_many_records_are_merged_into_a_small_arena() -> None:
    other = Arena()
    ids = ids_of(other, [b"<http://ex/%d>" % k for k in range(5_000)])
    arena = Arena()
    assert arena.merge(other.records()) is None
    assert arena.texts(ids[[0, 4_999]]) == ["<http://ex/0>", "<http://ex/4999>"]
    assert arena.merge(other.records_of(ids[:3])) is None
    assert len(arena) == 5_000


def test_records_that_break_off_are_refused() -> None:
    other = Arena()
    other.intern(b"<http://ex/a>")
    with pytest.raises(ValueError, match="not the records"):
        Arena().merge(other.records()[:-1])


def test_blank_nodes_move_into_their_scope_and_other_terms_stay() -> None:
    arena = Arena()
    ids = ids_of(arena, [b"_:b", b"<http://ex/a>", b'"_:b"', b"_:b"])
    arena.rescope(ids, np.array([1, 1, 1, -1], dtype=np.int64))
    assert arena.texts(ids) == ["_:e0000000000000001-b", "<http://ex/a>", '"_:b"', "_:effffffffffffffff-b"]


def test_very_many_blank_nodes_move_into_their_scopes() -> None:
    arena = Arena()
    ids = np.full(3_000, arena.intern(b"_:" + b"x" * 100), dtype=np.int64)
    arena.rescope(ids, np.arange(3_000, dtype=np.int64))
    assert len(set(ids.tolist())) == 3_000
    assert arena.text(int(ids[255])) == "_:e00000000000000ff-" + "x" * 100
