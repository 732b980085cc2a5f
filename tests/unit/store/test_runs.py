"""Sorted runs of triples: what they locate and select is what a look at every triple finds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thalweg.store.runs import Run

IDS = st.integers(-3, 3)
TRIPLES = st.lists(st.tuples(IDS, IDS, IDS), max_size=40)
WANTS = st.one_of(st.none(), IDS, st.sets(IDS, max_size=4).map(lambda some: np.array(sorted(some), np.int64)))


def columns(triples: list[tuple[int, int, int]]) -> Any:
    return np.array(triples, np.int64).reshape(-1, 3).T.copy()


def fits(triple: tuple[int, int, int], want: Any) -> bool:
    return all(
        one is None or (cell == one if isinstance(one, int) else cell in one.tolist())
        for cell, one in zip(triple, want, strict=True)
    )


@given(TRIPLES, TRIPLES, st.lists(st.booleans(), min_size=40, max_size=40), st.tuples(WANTS, WANTS, WANTS))
def test_what_is_located_and_selected_is_what_a_look_at_every_triple_finds(
    triples: list[Any], others: list[Any], alive: list[bool], want: Any
) -> None:
    run = Run.of(*columns(triples))
    held = sorted(set(triples), key=lambda one: (one[1], one[0], one[2]))
    assert list(zip(*(column.tolist() for column in run.columns), strict=True)) == held
    asked = triples + others
    places = run.locate(*columns(asked)).tolist()
    assert places == [held.index(one) if one in held else -1 for one in asked]
    run.switch(np.arange(len(run)), np.array(alive[: len(run)], np.bool_))
    left = [one for one, there in zip(held, alive, strict=False) if there]
    found = run.select(want)
    selected = list(zip(*(column[found].tolist() for column in run.columns), strict=True))
    assert sorted(selected) == sorted(one for one in left if fits(one, want))
    assert run.count(want) >= len(selected)
    more = Run.merged([run, Run.of(*columns(others))])
    assert sorted(zip(*(column.tolist() for column in more.columns), strict=True)) == sorted({*left, *others})
