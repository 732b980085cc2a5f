"""The queries of the papers, as they are printed, over small streams with deletes: pyoxigraph has the same answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pyoxigraph as ox
import pytest

import thalweg as tw
from thalweg import bench
from thalweg.bench.seas import observations
from thalweg.bench.taxi import events as taxi_events
from thalweg.testing.answers import Bag, answer_of, by_value, equal_bags, term_of
from thalweg.testing.generate import TYPE
from thalweg.testing.generate_rows import power, trips
from thalweg.testing.generate_social import social

HERE = Path(__file__).parent / "seed_queries"
STREAM = "http://ex/stream"
EBTIC = "http://ebtic.example/"
BSBM = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/"
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


def taxi() -> Iterator[str]:
    """Trips of which each is an event."""
    yield from taxi_events(trips(12))


def measurements() -> Iterator[str]:
    yield from observations(list(power(8000))[::200])


def network() -> Iterator[str]:
    """A social network, in events of some triples."""
    lines = iter("".join(social(2500, seed=7)).splitlines(keepends=True))
    while event := list(islice(lines, 40)):
        yield "".join(event)


def processes() -> Iterator[str]:
    """Processes with tasks that follow each other; what a task is may come before or after its links."""
    chance = random.Random(3)
    task = 25
    for number in range(5):
        process = f"<{EBTIC}Proc{number}>"
        lines = [
            f"{process} {TYPE} <{EBTIC}Process> .\n",
            f'{process} <{EBTIC}priority> "{number % 3}"^^{INTEGER} .\n',
        ]
        before = None
        for _ in range(chance.randint(1, 4)):
            name = f"<{EBTIC}Proc{task}>"
            task += 1
            lines.append(f"{process} <{EBTIC}hasTask> {name} .\n")
            lines.append(f"{name} {TYPE} <{EBTIC}Task{chance.choice('AB')}> .\n")
            if chance.random() < 0.6:
                lines.append(f'{name} <{EBTIC}duration> "{chance.randint(1, 9)}"^^{INTEGER} .\n')
            if before:
                lines.append(f"{before} <{EBTIC}followedBy> {name} .\n")
                lines.append(f"{name} <{EBTIC}precededBy> {before} .\n")
            before = name
        chance.shuffle(lines)
        for start in range(0, len(lines), 3):
            yield "".join(lines[start : start + 3])


def products() -> Iterator[str]:
    """Products around the limits of the query, with and without the feature that they must not have."""
    chance = random.Random(5)
    for number in range(12):
        product = f"<{BSBM}instances/Product{number}>"
        lines = [
            f'{product} {LABEL} "product {number}" .\n',
            f"{product} {TYPE} <{BSBM}vocabulary/Product> .\n",
        ]
        lines.append(f"{product} {TYPE} <{BSBM}instances/ProductType{chance.choice([205, 205, 7])}> .\n")
        for kind in chance.sample([1, 2, 205], 2):
            lines.append(f"{product} <{BSBM}vocabulary/ProductType> <{BSBM}instances/ProductType{kind}> .\n")
        for feature in [88, *chance.sample([1221, 2], chance.randint(0, 2))]:
            lines.append(
                f"{product} <{BSBM}vocabulary/productFeature> <{BSBM}instances/ProductFeature{feature}> .\n"
            )
        for place, low, high in ((1, 420, 500), (3, 400, 480)):
            value = f'"{chance.randint(low, high)}"^^{INTEGER}'
            lines.append(f"{product} <{BSBM}vocabulary/productPropertyNumeric{place}> {value} .\n")
        chance.shuffle(lines)
        half = len(lines) // 2
        yield "".join(lines[:half])
        yield "".join(lines[half:])


def printed(name: str) -> str:
    return (HERE / f"{name}.rq").read_text()


def measured(suite: str, name: str) -> str:
    """A query of the benchmarks, which is one of the papers with prefixes."""
    return (Path(bench.__file__).parent / "queries" / suite / f"{name}.rq").read_text()


QUERIES: dict[str, tuple[Callable[[], str], Callable[[], Iterator[str]]]] = {
    **{f"NY-Q{n}": (lambda n=n: measured("taxi", f"q{n}"), taxi) for n in (1, 2, 3)},
    "NY-Q2 as printed": (lambda: printed("ny-q2"), taxi),
    **{f"SNB-Q{n}": (lambda n=n: measured("snb", f"q{n}"), network) for n in (1, 2, 3)},
    **{f"LS-Q{n}": (lambda n=n: measured("snb", f"ls{n}"), network) for n in (1, 2, 3)},
    "LS-Q3 as printed": (lambda: printed("ls-q3"), network),
    **{f"SEAS-Q{n}": (lambda n=n: printed(f"seas-q{n}"), measurements) for n in (1, 2)},
    **{f"process query {n}": (lambda n=n: printed(f"process-q{n}"), processes) for n in (1, 2, 3)},
    "process query bound to a triple": (lambda: printed("process-bound"), processes),
    "product query": (lambda: printed("product"), products),
    "product types": (lambda: printed("product-types"), products),
}


def expected(text: str, held: Counter[str]) -> Bag:
    store = ox.Store()
    store.load("".join(held).encode(), format=ox.RdfFormat.N_TRIPLES)
    return by_value(answer_of(store.query(text)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_a_paper_has_the_answer_of_pyoxigraph_while_data_come_and_go(name: str) -> None:
    text, data = QUERIES[name][0](), list(QUERIES[name][1]())
    lasts = max(1, 2 * len(data) // 3)
    session = tw.Session(blank_nodes="stable", max_pending=None)
    query = session.register(text, stream=STREAM)
    held: Counter[str] = Counter()
    total: Counter[frozenset[tuple[str, str]]] = Counter()
    sizes = set()
    for time in range(len(data) + lasts):
        changes = [("insert", data[time])] if time < len(data) else []
        if time >= lasts:  # what came long ago leaves
            changes.append(("delete", data[time - lasts]))
        for op, graph in changes:
            # A triple of several events is held until the last of them has left.
            lines = graph.splitlines(keepends=True)
            held.update(dict.fromkeys(lines, 1)) if op == "insert" else held.subtract(dict.fromkeys(lines, 1))
            gone = "".join(line for line in dict.fromkeys(lines) if op == "insert" or not held[line])
            session.push(STREAM, at=time, graph=gone, op=op)
        held = +held
        session.advance(time + 1)
        for row in query.poll():
            total[frozenset(row.bindings.items())] += {"+": 1, "-": -1}[row.op]
        if time % max(1, len(data) // 12) and time != len(data) - 1:
            continue
        have = Counter({frozenset((n, term_of(v)) for n, v in row): k for row, k in total.items() if k})
        want = expected(text, held)
        assert equal_bags(by_value(have), want), f"at {time}: have {have}, want {want}"
        sizes.add(sum(want.values()))
    assert not +total, "all data have left"
    assert len(sizes) > 2, f"the data hardly change the answer: {sizes} rows"
