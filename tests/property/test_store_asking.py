"""Random questions to a store between random events: the engine over its columns has the answer of both judges.

Files are written anew after a handful of triples here, so that asking, reopening and compacting meet all forms of the
content: mapped columns, triples that are switched off in them, and runs in memory.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import event, given, reject
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import as_instant
from thalweg.store import content as contents
from thalweg.store import evaluating
from thalweg.store.answers import Answer
from thalweg.testing.algebra import FEATURES, FORMS, algebra_questions, algebra_streams
from thalweg.testing.algebra_oracle import AlgebraQuestion, bag_of, judged
from thalweg.testing.answers import Bag, by_value, equal_bags, term_of
from thalweg.testing.judge import TooLargeError
from thalweg.testing.judge_expressions import UndecidedError
from thalweg.testing.snapshot import Event, Triple, Unbounded

STEPS = st.sampled_from(["", "", "ask", "compact", "reopen"])


def content(events: Sequence[Event], stream: str, until: int) -> frozenset[Triple]:
    """What was inserted up to an instant and not deleted later; at one instant deletes come first."""
    held: set[Triple] = set()
    for one in sorted(events, key=lambda one: (one.time, one.op == "insert")):
        if one.stream == stream and one.time <= until:
            held = held - set(one.triples) if one.op == "delete" else held | set(one.triples)
    return frozenset(held)


def bag(answer: Answer) -> Bag:
    texts = answer.texts
    if texts.truth is not None:
        return Counter([frozenset()] if texts.truth else [])
    named = [[(n, term_of(t)) for n, t in zip(texts.names, row, strict=True) if t] for row in texts.rows]
    return Counter(map(frozenset, named))


def check(store: tw.Store, question: AlgebraQuestion, events: Sequence[Event], until: int | None) -> None:
    last = max((one.time for one in events), default=0) if until is None else until
    named = {one: content(events, one, last) for one in sorted({event.stream for event in events})}
    named = {name: held for name, held in named.items() if held}
    default = frozenset[Triple]().union(*named.values())
    try:
        want = by_value(bag_of(judged(question, default, named)))
    except (TooLargeError, UndecidedError):
        reject()
    text = question.sparql()
    at = None if until is None else as_instant(until)
    have = by_value(bag(store.ask(text, as_of=at)))
    if question.reduced:
        have, want = Counter(set(have)), Counter(set(want))
    assert equal_bags(have, want), f"{text}\nover {named}\nhave {have}\nwant {want}"
    event(f"by {store.explain(text, as_of=at).choice.by}")
    event("rows" if want else "no rows")


def played(
    store: tw.Store, folder: str, question: AlgebraQuestion, data: st.DataObject, events: list[Event]
) -> None:
    """Push events in any order, with other things in between, and compare answers now and at an instant."""
    done: list[Event] = []
    for one in data.draw(st.permutations(events)):
        store.push(one.stream, at=as_instant(one.time), graph=one.text, op=one.op)
        done.append(one)
        step = data.draw(STEPS)
        if step == "ask":
            check(store, question, done, None)
        elif step == "compact":
            store.compact()
        elif step == "reopen":
            store.close()
            store = tw.Store(folder)
    with store:
        check(store, question, events, None)
        if events:
            check(store, question, events, data.draw(st.sampled_from([one.time for one in events])))


@pytest.mark.parametrize("sources", ["default", "named"])
@pytest.mark.parametrize("features", [("optional",), ("union", "minus", "exists"), FEATURES])
@given(data=st.data())
def test_the_answer_is_that_of_both_judges(
    features: Sequence[str], sources: str, data: st.DataObject
) -> None:
    events = data.draw(algebra_streams())
    question = data.draw(
        algebra_questions(
            events, features=features, forms=FORMS, window=st.just(Unbounded()), sources=sources
        )
    )
    if sources == "named":  # the graph of a store is its stream
        events = [
            replace(one, stream=source.name or one.stream)
            for source in question.sources
            for one in events
            if one.stream in source.streams
        ]
    # Of a LIMIT without an order, the judges take what comes first by its text.
    everything = patch.object(evaluating, "_enough", lambda _: None)
    with tempfile.TemporaryDirectory() as folder, patch.object(contents, "_LEAST", 3), everything:
        played(tw.Store.create(folder), folder, question, data, events)
