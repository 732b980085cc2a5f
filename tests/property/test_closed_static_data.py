"""Static data under a schema: the default window and the default static graph are one set, and closed as one."""

from __future__ import annotations

from collections.abc import Sequence

from harness import NEVER, Feed, arrivals, feed
from hypothesis import given, reject
from hypothesis import strategies as st
from test_entailment import closed_events, text_of

import thalweg as tw
from thalweg.testing import entailment as judge
from thalweg.testing.entailment import ClosedOracle
from thalweg.testing.snapshot import Block, Event, Question, Range, Triple
from thalweg.testing.strategies import (
    PREDICATES,
    STREAMS,
    any_windows,
    questions,
    schemas,
    streams,
    typed_triples,
    windows,
)

Load = tuple[int, frozenset[Triple]]
"""What the static graph holds from an instant on."""


class Background(ClosedOracle):
    """The closed snapshot with static triples in its only graph."""

    loads: Sequence[Load] = ()

    def instants(self) -> list[int]:
        """Those since the first event: static data alone have their rows from then on."""
        first = min(event.time for event in self.events)
        found = {*super().instants(), *(at for at, _ in self.loads)}
        return sorted(instant for instant in found if instant >= first)

    def _content(self, block: Block, t: int) -> frozenset[Triple]:
        return super()._content(block, t) | [content for at, content in self.loads if at <= t][-1]


def run(
    data: st.DataObject,
    schema: list[Triple],
    asked: st.SearchStrategy[Question],
    events: list[Event],
    *,
    static: frozenset[Triple],
    others: st.SearchStrategy[frozenset[Triple]] | None = None,
    rules: Sequence[str] = tuple(judge.ALL_RULES),
) -> None:
    """A query over one stream and static data, which are replaced by `others` in mid-stream, with restarts."""
    question = data.draw(asked)
    run = Feed([])
    first = min(event.time for event in events)
    loads = [(NEVER, static)]

    def load(triples: frozenset[Triple]) -> None:
        text = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(triples))
        run.session.load(text, format="nt", replace=True)

    load(static)
    try:
        run.register(question, schema=text_of(schema), rules=list(rules))
    except tw.UnsupportedError:
        reject()
    window = question.blocks[0].window
    complete = isinstance(window, Range) and window.half_open

    def between(rest: list[Event]) -> None:
        if others is not None and data.draw(st.integers(0, 2)) == 0:
            run.poll()
            changed = data.draw(others)
            load(changed)
            low = run.watermarks[STREAMS[0]]
            loads.append((low + complete if low >= first else NEVER, changed))
        if data.draw(st.integers(0, 4)) == 0:
            run.poll()
            run.restart()

    feed(run, data.draw(arrivals(events)), data.draw, between)
    oracle = Background(question, events, schema, rules)
    oracle.loads = loads
    run.emitted[0].check_sums(oracle)


@given(st.data())
def test_what_is_static_and_what_streams_is_closed_as_one_set(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    made = typed_triples()
    events = data.draw(streams(names=STREAMS[:1], max_events=16, deletes=True, few=6, made=made))
    known = sorted({triple for event in events for triple in event.triples})
    some = st.frozensets(st.one_of(made, st.sampled_from(known) if known else made), max_size=5)
    static = data.draw(some)
    heard = closed_events(schema, [*events, Event(STREAMS[0], 0, tuple(sorted(static)))])
    asked = questions(heard, max_blocks=1, max_patterns=3, window=windows())
    run(data, schema, asked, events, static=static, others=some)


@given(st.data())
def test_chains_of_transitive_properties_lead_over_static_and_streamed_triples(data: st.DataObject) -> None:
    rules = [*judge.ALL_RULES, "transitive"]
    schema = data.draw(schemas(transitive=True, about_types=False))
    schema = [*schema, (PREDICATES[0], judge.A, judge.TRANSITIVE)]
    made = typed_triples()
    events = data.draw(streams(names=STREAMS[:1], max_events=12, deletes=True, few=8, made=made))
    known = sorted({triple for event in events for triple in event.triples})
    some = st.frozensets(st.one_of(made, st.sampled_from(known) if known else made), max_size=6)
    static = data.draw(some)
    heard = closed_events(schema, [*events, Event(STREAMS[0], 0, tuple(sorted(static)))])
    asked = questions(heard, max_blocks=1, max_patterns=3, window=any_windows())
    asked = asked.filter(lambda one: "?p " not in one.text())
    run(data, schema, asked, events, static=static, others=some, rules=rules)
