"""Closures against networkx, over graphs that change; and the limit of pairs."""

from __future__ import annotations

from collections import deque
from random import Random

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import LimitError
from thalweg.operators.closure import ClosureRows
from thalweg.operators.spans import Changes

Edge = tuple[int, int]


def changes(rows: list[tuple[int, int, Edge]]) -> Changes:
    time, weight, edges = zip(*rows, strict=True) if rows else ((), (), ())
    return Changes(
        np.array(time, np.int64), np.array(weight, np.int64), np.array(edges, np.int64).reshape(-1, 2)
    )


def connected(edges: set[Edge]) -> set[Edge]:
    """The transitive closure by networkx: its own edges, and loops only where there is a way back."""
    closure = networkx.transitive_closure(networkx.DiGraph(edges), reflexive=False)
    return set(closure.edges)


class Pairs:
    """What a closure has given so far."""

    def __init__(self, operator: ClosureRows) -> None:
        self.operator = operator
        self.there: set[Edge] = set()

    def step(self, rows: list[tuple[int, int, Edge]]) -> None:
        out = self.operator.step(changes(rows))
        for weight, (root, node) in zip(out.weight.tolist(), out.rows.tolist(), strict=True):
            assert ((root, node) in self.there) == (weight < 0)
            (self.there.discard if weight < 0 else self.there.add)((root, node))


@given(st.integers(0, 2**32), st.sampled_from([3, 6, 12]), st.sampled_from([0.3, 0.5]))
def test_pairs_are_those_of_networkx_after_any_inserts_and_deletes(
    seed: int, nodes: int, gone: float
) -> None:
    random = Random(seed)
    pairs = Pairs(ClosureRows())
    edges: set[Edge] = set()
    for time in range(25):
        rows = []
        for _ in range(random.choice([1, 1, 3, 8])):
            if edges and random.random() < gone:
                edge = random.choice(sorted(edges))
                edges.remove(edge)
                rows.append((time, -1, edge))
            else:
                edge = random.randint(1, nodes), random.randint(1, nodes)
                if edge not in edges:
                    edges.add(edge)
                    rows.append((time, 1, edge))
        pairs.step(rows)
        assert pairs.there == connected(edges)
        assert pairs.operator.held >= len(pairs.there) + len(edges)
    pairs.step([(99, -1, edge) for edge in edges])
    assert (pairs.there, pairs.operator.held) == (set(), 0)


@pytest.mark.parametrize(("window", "nodes"), [(40, 60), (60, 30), (200, 25)])
def test_pairs_are_those_of_networkx_in_a_window_that_slides(window: int, nodes: int) -> None:
    random = Random(window)
    pairs = Pairs(ClosureRows())
    content: deque[Edge] = deque()
    for time in range(4 * window):
        content.append((random.randint(1, nodes), random.randint(1, nodes)))
        rows = [(time, 1, content[-1])]
        if len(content) > window:
            rows.append((time, -1, content.popleft()))
        pairs.step(rows)
        if time % 7 == 0:
            assert pairs.there == connected(set(content))


def test_all_edges_of_an_instant_go_together() -> None:
    pairs = Pairs(ClosureRows())
    ring = [(k, k % 50 + 1) for k in range(1, 51)]
    pairs.step([(0, 1, edge) for edge in ring])
    assert len(pairs.there) == 2500
    pairs.step([(1, -1, edge) for edge in ring] + [(1, 1, (b, a)) for a, b in ring])
    assert len(pairs.there) == 2500
    pairs.step([(2, -1, (b, a)) for a, b in ring])
    assert pairs.there == set()


def test_from_a_root_only_what_it_reaches_is_kept() -> None:
    operator = ClosureRows(root=1)
    operator.step(changes([(0, 1, (k, k + 1)) for k in range(1, 400)]))
    operator.step(changes([(1, 1, (1000 + k, 1001 + k)) for k in range(400)]))
    assert operator.held == 399 + 399 + 400 + 1  # edges, pairs, and the root


def test_memory_follows_what_is_there() -> None:
    operator = ClosureRows()
    chain = [(k, k + 1) for k in range(1, 300)]
    operator.step(changes([(0, 1, edge) for edge in chain]))
    full = operator.nbytes
    assert operator.held == 299 + 299 + 299 * 300 // 2
    operator.step(changes([(1, -1, edge) for edge in chain[5:]]))
    assert operator.give_back(0)
    assert operator.nbytes < full / 20
    assert operator.held == 5 + 5 + 15


def test_more_pairs_than_the_limit_are_an_error_and_as_many_are_none() -> None:
    clique = [(0, 1, (a, b)) for a in range(1, 11) for b in range(1, 11) if a != b]
    assert len(ClosureRows(most=100).step(changes(clique))) == 100
    with pytest.raises(LimitError, match="more than 99 pairs of terms"):
        ClosureRows(most=99).step(changes(clique))


def test_a_step_with_more_copies_than_32_bits_count_goes_with_the_last_of_them() -> None:
    many = 3 * 2**40 + 5
    pairs = Pairs(ClosureRows())
    pairs.step([(0, many, (1, 2)), (0, 1, (2, 3))])
    pairs.step([(1, -(2**32), (1, 2)), (2, 2**31, (1, 2))])
    assert pairs.there == {(1, 2), (2, 3), (1, 3)}
    state = pairs.operator.state()
    pairs.operator = ClosureRows()
    pairs.operator.restore(state)
    left = many - 2**32 + 2**31
    pairs.step([(3, 1 - left, (1, 2))])
    assert (1, 3) in pairs.there
    pairs.step([(4, -1, (1, 2))])
    assert pairs.there == {(2, 3)}
