"""Statistics: orders by measured fan-out, and ways around hubs."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.layout import INSERTED, WALKED
from thalweg.lang import parse
from thalweg.operators.streamset import Streamset
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows

STREAM = "http://ex/s"


class Bench:
    """A streamset with queries, fed with triples of small numbers; the answers of the first query count."""

    def __init__(self, *wheres: str) -> None:
        self.home = Streamset([STREAM])
        text = f"PREFIX : <http://ex/> SELECT * FROM STREAM <{STREAM}> WHERE"
        self.view, *_ = [self.home.add(parse(f"{text} {{ {where} }}"), Arena()) for where in wheres]
        known: dict[bytes, int] = {}
        self.intern = lambda text: known.setdefault(text, len(known) + 1)
        for name in "abcd":
            self.intern(f"<http://ex/{name}>".encode())
        self.time = 0

    def push(self, triples: list[tuple[int, int, int]]) -> tuple[int, int]:
        """Applies triples at one instant; rows walked, and solutions."""
        matcher = self.home.matcher(self.intern)
        before = int(matcher.counters[WALKED])
        count = len(triples)
        self.time += 1000
        s, p, o = (np.array([triple[k] for triple in triples], np.int64) for k in range(3))
        one = np.ones(count, np.int64)
        rows = Rows(one * self.time, one, one * 0, s, p, o, one)
        self.home.push(STREAM, rows, self.time, self.time)
        self.home.run(self.intern)
        return int(matcher.counters[WALKED]) - before, len(self.view.poll())


def test_a_hub_is_walked_only_where_every_way_leads_there():
    """In a triangle through a hub, a new edge of the hub is closed from its other end."""
    bench = Bench("?x :a ?y . ?y :b ?z . ?z :c ?x")
    hub = 10
    for start in range(0, 20_000, 2_000):
        bench.push([(1000 + start + k, 1, hub) for k in range(2_000)])
        bench.push([(hub, 2, 100_000 + start + k) for k in range(2_000)])
    bench.push([(100_000, 3, 1000)])
    walked = []
    for k in range(20):
        # ?z :c ?x between a neighbour behind the hub and one before it; then an edge at the hub itself.
        walked.append(bench.push([(100_001 + k, 3, 1001 + k)]))
    assert [found for _, found in walked] == [1] * 20
    assert max(work for work, _ in walked[1:]) < 500
    work, found = bench.push([(hub, 2, 55)])
    assert (found, work < 500) == (0, True)


def test_orders_follow_what_was_measured():
    """Objects are guessed to have more rows than subjects; here it is the other way round."""
    bench = Bench("?x :a ?y . ?y :b ?z . ?w :c ?y")
    rows = [(20 + k % 3, 2, 5000 + k) for k in range(3_000)]
    rows += [(9000 + k, 3, 20 + k % 3) for k in range(3)]
    bench.push(rows)
    bench.push([(8000, 1, 999)])
    matcher = bench.home.matcher(bench.intern)
    assert matcher.counters[INSERTED] > 3_000
    fanout = bench.home._collector.statistics.of(0)
    assert fanout[1, 1] > 100 * fanout[2, 2]
    work, found = bench.push([(8001, 1, 25)])
    assert (work, found) == (0, 0)


def test_a_shared_plan_that_walks_a_hub_is_shared_no_longer():
    """Which of many subjects a new edge leads to is found by looking at all edges there, or by asking for each."""
    bench = Bench(*(f"?x :a ?y . ?y :b :to{k}" for k in range(40)), "?u :d ?w . ?w :b ?v")
    hub, to0 = 10, bench.intern(b"<http://ex/to0>")
    bench.push([(hub, 2, 1000 + k) for k in range(20_000)])
    bench.push([(hub, 2, to0)])
    assert bench.home.matcher(bench.intern).program.shared == 40
    walked = [bench.push([(50 + k, 1, hub)]) for k in range(20)]
    assert {found for _, found in walked} == {1}
    assert walked[0][0] > 20_000
    assert max(work for work, _ in walked[10:]) < 500
    assert bench.home.matcher(bench.intern).program.shared == 1
