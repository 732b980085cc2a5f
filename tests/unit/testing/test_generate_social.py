"""The generated network is well-formed, repeatable, skewed, and has what the queries look for."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest

from thalweg.testing.generate_rows import power, trips
from thalweg.testing.generate_social import DBPEDIA, SNVOC, social

NETWORK = "".join(social(60_000))


@pytest.fixture(scope="module")
def triples() -> list[ox.Triple]:
    return [quad.triple for quad in ox.parse(NETWORK.encode(), ox.RdfFormat.N_TRIPLES)]


def objects(triples: list[ox.Triple], predicate: str) -> Counter[str]:
    return Counter(str(t.object) for t in triples if t.predicate.value == SNVOC + predicate)


def test_a_network_parses_and_has_exactly_the_triples_asked_for(triples: list[ox.Triple]) -> None:
    assert len(triples) == 60_000


def test_a_seed_gives_the_same_network_again_and_another_seed_another_one() -> None:
    assert "".join(social(2_000)) == "".join(social(2_000)) == "".join(NETWORK.splitlines(True)[:2_000])
    assert "".join(social(2_000, seed=1)) != "".join(social(2_000))


@pytest.mark.parametrize("kind", ["Person", "Forum", "Post", "Comment"])
def test_a_network_has_persons_forums_posts_and_comments(triples: list[ox.Triple], kind: str) -> None:
    assert sum(str(t.object) == f"<{SNVOC}{kind}>" for t in triples) > 50


@pytest.mark.parametrize(
    ("predicate", "share"),
    [("isLocatedIn", 0.3), ("hasTag", 0.1), ("hasPerson", 0.01), ("hasPost", 0.002), ("hasCreator", 0.004)],
)
def test_links_are_skewed(triples: list[ox.Triple], predicate: str, share: float) -> None:
    counts = objects(triples, predicate)
    assert max(counts.values()) > share * counts.total()
    assert max(counts.values()) > 4 * counts.total() / len(counts)


def test_the_terms_of_the_selective_queries_are_there_and_not_frequent(triples: list[ox.Triple]) -> None:
    places, interests = objects(triples, "isLocatedIn"), objects(triples, "hasInterest")
    assert 0 < places[f"<{DBPEDIA}Nicaragua>"] < places.total() / 20
    assert 0 < interests[f"<{DBPEDIA}Charles_Dickens>"] < interests.total() / 10


def test_links_point_at_what_has_been_said_before(triples: list[ox.Triple]) -> None:
    known: set[str] = set()
    for triple in triples:
        known.add(str(triple.subject))
        if triple.predicate.value in (SNVOC + "replyOf", SNVOC + "hasPost", SNVOC + "hasPerson"):
            assert str(triple.object) in known


def test_generated_power_and_trips_are_repeatable_and_in_the_order_of_time() -> None:
    watts = list(power(500))
    assert watts == list(power(500)) != list(power(500, seed=1))
    assert [second for second, _ in watts] == sorted(second for second, _ in watts)
    rows = list(trips(500))
    assert rows == list(trips(500)) != list(trips(500, seed=1))
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)
    assert {len(row) for row in rows} == {17}
    cabs = Counter(row[0] for row in rows)
    assert max(cabs.values()) > 2, "some cabs drive more than others"
