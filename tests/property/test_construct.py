"""CONSTRUCT: at every instant, what was emitted is the graph that pyoxigraph makes of the snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg import compaction
from thalweg.rdf.arena import Arena
from thalweg.testing.snapshot import Oracle
from thalweg.testing.strategies import (
    any_questions,
    any_windows,
    constructs,
    now_questions,
    questions,
    streams,
)

OPTIONS: dict[str, dict[str, Any]] = {"incremental": {}, "re-evaluating": {"strategy": "reevaluate"}}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@given(data=st.data())
def test_emitted_triples_sum_to_the_graph_of_the_snapshot(
    options: dict[str, Any], data: st.DataObject
) -> None:
    events = data.draw(streams(deletes=data.draw(st.booleans()), blanks=data.draw(st.booleans())))
    question = data.draw(constructs(questions(events, window=any_windows(), max_patterns=3)))
    run = Feed([question], **options)
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check(Oracle(question, events))


@given(st.data())
def test_operators_speak_of_the_graph(data: st.DataObject) -> None:
    events = data.draw(streams(deletes=data.draw(st.booleans())))
    operator = data.draw(st.sampled_from(["RSTREAM", "ISTREAM", "DSTREAM"]))
    window = any_windows(empty=operator == "RSTREAM")
    asked = questions(events, window=window, max_patterns=3, operators=(operator,))
    question = data.draw(constructs(asked))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check(Oracle(question, events))


@given(st.data())
def test_each_event_gives_a_graph_of_its_own(data: st.DataObject) -> None:
    events = data.draw(streams(blanks=data.draw(st.booleans())))
    question = data.draw(constructs(now_questions(events, (None, "RSTREAM", "ISTREAM"))))
    run = Feed([question])
    feed(run, data.draw(arrivals(events)), data.draw)
    run.emitted[0].check(Oracle(question, events))


@given(st.data())
def test_neither_collisions_nor_restarts_nor_forgotten_texts_change_a_graph(data: st.DataObject) -> None:
    events = data.draw(streams())
    asked = data.draw(st.lists(constructs(any_questions(events, max_patterns=2)), min_size=1, max_size=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_FEW_BYTES", 0)
        run = Feed(asked, arena=Arena(hash_mask=data.draw(st.sampled_from([-1, 1, 7]))))
        for event in events:
            run.session._compaction.threshold = 0
            run.push(event)
            if data.draw(st.booleans()):
                run.poll()
            if data.draw(st.integers(0, 3)) == 0:
                run.restart()
        run.advance(events[-1].time + 60_007)
        run.poll()
    for emitted in run.emitted:
        emitted.check(Oracle(emitted.question, events))


def test_many_graphs_share_a_plan_and_each_has_its_own_triples() -> None:
    session = tw.Session()
    text = "CONSTRUCT {{ <http://ex/of{0}> <http://ex/is> ?x . [] <http://ex/is> ?x }} FROM STREAM <http://ex/s> "
    body = "[RANGE 10] WHERE {{ ?x <http://ex/p> <http://ex/k{0}> . ?x <http://ex/q> ?y }}"
    asked = [session.register((text + body).format(k)) for k in range(40)]
    for k in range(40):
        triples = f"<http://ex/x{k}> <http://ex/p> <http://ex/k{k}> .\n<http://ex/x{k}> <http://ex/q> 'y' .\n"
        session.push("http://ex/s", at=1, graph=triples.replace("'", '"'))
    session.advance(30)
    nodes = set()
    for k, query in enumerate(asked):
        rows = query.poll()
        assert [(row.at, row.op, row["object"]) for row in rows] == [
            (at, op, f"<http://ex/x{k}>") for at, op in ((1000, "+"), (11_000, "-")) for _ in range(2)
        ]
        assert [row["subject"] for row in rows[:2]] == [row["subject"] for row in rows[2:]]
        assert rows[0]["subject"] == f"<http://ex/of{k}>"
        nodes.add(rows[1]["subject"])
    assert len(nodes) == 40


NODES = "CONSTRUCT {{ ?x <http://ex/made> [ <http://ex/of> ?y ] }} FROM STREAM <http://ex/{}> {{ ?x <http://ex/p> ?y }}"


def labels(text: str, graph: str, **options: Any) -> list[str]:
    session = tw.Session(**options)
    query = session.register(text)
    session.push("http://ex/s", at=1, graph=graph)
    return [row["object"] for row in query.poll() if row["object"].startswith("_:")]


def test_a_node_has_the_same_label_in_every_process_and_another_in_every_query() -> None:
    graph = "<http://ex/a> <http://ex/p> <http://ex/b> .\n<http://ex/b> <http://ex/p> <http://ex/c> .\n"
    text = NODES.format("s")
    assert len(set(labels(text, graph))) == 2
    assert labels(text, graph) == labels(text, graph, arena=Arena(hash_mask=1))
    assert set(labels(text, graph)).isdisjoint(labels(text.replace("of", "to"), graph))


def test_what_no_graph_can_hold_is_left_out_and_the_rest_stays() -> None:
    session = tw.Session()
    query = session.register(
        "CONSTRUCT { ?y <http://ex/of> ?x . ?x ?y ?x . ?x <http://ex/to> ?y, ?nothing } "
        "FROM STREAM <http://ex/s> WHERE { ?x <http://ex/p> ?y }"
    )
    session.push("http://ex/s", at=1, graph='<http://ex/a> <http://ex/p> "b" .')
    session.push("http://ex/s", at=2, graph="<http://ex/a> <http://ex/p> _:b .")
    assert [(row.at, row["predicate"], row["object"][:3]) for row in query.poll()] == [
        (1000, "<http://ex/to>", '"b"'),
        (2000, "<http://ex/of>", "<ht"),
        (2000, "<http://ex/to>", "_:e"),
    ]
