"""Routing: the triples of each solution meet in one shard, and the copies are those of the theory."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.lang import parse
from thalweg.plan.shares import plan_shares
from thalweg.rdf.arena import Arena
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.spark.routing import TRIPLES, Parcel, Router

S = "http://ex/s"
TRIANGLE = "?x <http://ex/p> ?y . ?y <http://ex/p> ?z . ?z <http://ex/p> ?x"


def parcels(body: str, shards: int, lines: list[str], mask: int = -1) -> list[tuple[Parcel, list[str]]]:
    query = parse(f"SELECT * FROM STREAM <{S}> [RANGE 10] WHERE {{ {body} }}")
    router = Router(query, plan_shares(query, shards))
    arena = Arena(mask)
    chunk = LineReader(arena, Prune.everything(), syntax="nt", source="a").read("\n".join(lines).encode())
    found = []
    for parcel in router.split(S, TRIPLES, chunk, arena):
        columns = (arena.texts(column) for column in (parcel.chunk.s, parcel.chunk.p, parcel.chunk.o))
        found.append((parcel, [f"{s} {p} {o} ." for s, p, o in zip(*columns, strict=True)]))
    return found


def edges(nodes: int) -> list[str]:
    return [f"<http://ex/{a}> <http://ex/p> <http://ex/{b}> ." for a, b in product(range(nodes), repeat=2)]


@pytest.mark.parametrize("shards", [2, 4, 8, 12, 27])
def test_a_triangle_is_complete_in_exactly_one_shard(shards: int) -> None:
    held: dict[int, list[set[str]]] = {}
    for parcel, lines in parcels(TRIANGLE, shards, edges(6)):
        held.setdefault(parcel.shard, []).append(set(lines))
    for x, y, z in product(range(6), repeat=3):
        needed = [f"<http://ex/{a}> <http://ex/p> <http://ex/{b}> ." for a, b in ((x, y), (y, z), (z, x))]
        complete = [
            shard
            for shard, roles in held.items()
            if all(edge in role for edge, role in zip(needed, roles, strict=True))
        ]
        assert len(complete) == 1


@pytest.mark.parametrize("shards", [8, 27])
def test_the_copies_are_those_of_the_theory(shards: int) -> None:
    sent = sum(len(lines) for _, lines in parcels(TRIANGLE, shards, edges(10)))
    # Every edge fits all three patterns, and each role needs a copy along the one variable that it lacks.
    assert sent == 100 * 3 * round(shards ** (1 / 3))


def test_a_star_sends_each_triple_once_and_evenly() -> None:
    lines = [f"<http://ex/n{k}> <http://ex/p> <http://ex/m> ." for k in range(4000)]
    loads = Counter({parcel.shard: len(own) for parcel, own in parcels("?x <http://ex/p> ?y", 4, lines)})
    assert sum(loads.values()) == 4000
    assert max(loads.values()) < 1200


@given(st.sets(st.integers(0, 60), min_size=1), st.sampled_from([2, 3, 5]))
def test_where_a_triple_goes_depends_on_its_terms_alone(nodes: set[int], shards: int) -> None:
    lines = [f"<http://ex/n{k}> <http://ex/p> <http://ex/m{k % 7}> ." for k in sorted(nodes)]
    together = {
        line: parcel.shard
        for parcel, own in parcels("?x <http://ex/p> ?y", shards, lines, mask=0x3_0000_0000_0000)
        for line in own
    }
    for line in lines:  # in an arena of its own, nothing collides
        alone = parcels("?x <http://ex/p> ?y", shards, [line], mask=0x3_0000_0000_0000)
        assert [parcel.shard for parcel, own in alone if own] == [together[line]]
