"""Accesses that go wrong on purpose, for test_checking.py. Run with THALWEG_CHECKED=1.

Prints a JSON object: for each bug, the error that it raised, or null. Each function runs without its bug first.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from thalweg.algebra.windows import Unbounded
from thalweg.kernels import layout, store, timeline
from thalweg.kernels.checking import CHECKED, address_of, njit
from thalweg.kernels.hashing import hash64
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.kernels.memory import load64, store64
from thalweg.lang import parse
from thalweg.operators.matcher import Matcher
from thalweg.operators.spans import Spans
from thalweg.operators.timeline import Timeline
from thalweg.operators.windows import WindowStores
from thalweg.plan.program import compile_program
from thalweg.rdf.events import Rows


@njit()
def fill(start, cells):
    for cell in range(cells):
        store64(start, cell, 7)


@njit()
def total(start, first, end):
    result = 0
    for cell in range(first, end):
        result += load64(start, cell)
    return result


def insert_until_full(stores: WindowStores) -> None:
    desc = store.descriptor(stores.descriptors, 0)
    number = 0
    while store.insert(desc, 1 << store.SPO, 0, 0, number, 1, number)[0] >= 0:
        number += 1


def one_store() -> WindowStores:
    return WindowStores([Unbounded()], [1 << store.SPO])


def a_write_one_cell_behind_a_ring(wrong: bool) -> None:
    ring = one_store()._rings[0]
    fill(address_of(ring), ring.size + wrong)


def a_read_one_cell_before_an_array(wrong: bool) -> None:
    cells = np.zeros(8, np.int64)
    total(address_of(cells), -int(wrong), 8)


def a_ring_that_is_one_row_shorter_than_described(wrong: bool) -> None:
    stores = one_store()
    if wrong:
        stores.descriptors[0, [store.END, store.SPAN]] += stores.descriptors[0, store.STRIDE]
    insert_until_full(stores)


def an_index_table_described_one_cell_too_early(wrong: bool) -> None:
    stores = one_store()
    stores.descriptors[0, store.TABLES + store.TABLE] -= 8 * wrong
    insert_until_full(stores)


def an_index_table_that_is_shorter_than_described(wrong: bool) -> None:
    stores = one_store()
    stores.descriptors[0, store.TABLES + store.SIZE] += wrong
    store.tidy(store.descriptor(stores.descriptors, 0), store.SPO)


def a_stale_address_after_a_resize(wrong: bool) -> None:
    stores = one_store()
    places = [store.ROWS, store.END, store.SPAN]
    old = stores.descriptors[0, places]
    stores._resize_ring(0, 2 * len(stores._rings[0]))
    if wrong:
        stores.descriptors[0, places] = old
    insert_until_full(stores)


def more_solutions_than_there_is_room_for(wrong: bool) -> None:
    numbers: dict[bytes, int] = {}
    query = parse("SELECT * FROM STREAM <urn:s> [RANGE 1s] WHERE { ?x <urn:p> ?y }")
    program = compile_program(["urn:s"], [query], lambda text: numbers.setdefault(text, len(numbers) + 1))
    matcher = Matcher(program, room=2)
    matcher._context[layout.OUT_ROOM] += wrong
    zero = np.zeros(9, np.int64)
    rows = Rows(zero, zero, zero, np.arange(9), zero + numbers[b"<urn:p>"], zero + 1, zero + 1)
    list(matcher.step(zero, rows))


def a_queue_that_is_shorter_than_described(wrong: bool) -> None:
    waiting = Timeline(0)
    lives = np.zeros((10_000, OUT_BINDINGS), np.int64)
    lives[:, [OUT_WEIGHT, OUT_FROM, OUT_TO]] = 1, 0, store.FOREVER
    waiting.schedule(Spans(lives))
    if wrong:
        waiting._marks[timeline.ROOM] += len(lives)
    waiting.schedule(Spans(lives))


def a_text_without_slack(wrong: bool) -> None:
    text = np.zeros(99 if wrong else 99 + 64, np.uint8)
    hash64(address_of(text), 99)


def an_address_that_was_not_handed_over(wrong: bool) -> None:
    cells = np.zeros(8, np.int64)
    total(cells.ctypes.data if wrong else address_of(cells), 0, 8)


def an_array_that_is_gone(wrong: bool) -> None:
    cells = np.zeros(8, np.int64)
    address = address_of(cells)
    if wrong:
        del cells
    total(address, 0, 8)


def an_index_that_lands_in_another_array(wrong: bool) -> None:
    one, other = np.zeros(8, np.int64), np.zeros(8, np.int64)
    distance = (address_of(other) - address_of(one)) // 8
    total(address_of(one if wrong else other), distance if wrong else 0, distance + 1 if wrong else 1)


def an_array_index_beyond_the_end(wrong: bool) -> None:
    links, marks = np.zeros(8, np.int64), np.zeros(timeline.MARKS, np.int64)
    timeline.chain_free(links, marks, 0, len(links) + wrong)


BUGS: tuple[Callable[[bool], None], ...] = (
    a_write_one_cell_behind_a_ring,
    a_read_one_cell_before_an_array,
    a_ring_that_is_one_row_shorter_than_described,
    an_index_table_described_one_cell_too_early,
    an_index_table_that_is_shorter_than_described,
    a_stale_address_after_a_resize,
    more_solutions_than_there_is_room_for,
    a_queue_that_is_shorter_than_described,
    a_text_without_slack,
    an_address_that_was_not_handed_over,
    an_array_that_is_gone,
    an_index_that_lands_in_another_array,
    an_array_index_beyond_the_end,
)


def error_of(bug: Callable[[bool], None]) -> str | None:
    bug(False)
    try:
        bug(True)
    except IndexError as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    assert CHECKED, "the bugs would corrupt memory"
    print(json.dumps({bug.__name__: error_of(bug) for bug in BUGS}))
