"""Static data under a schema: the default window and the default static graph are one set, and closed as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness import Feed, arrivals, feed
from hypothesis import given
from hypothesis import strategies as st
from test_entailment import closed_events, text_of

from thalweg.testing.entailment import ClosedOracle
from thalweg.testing.snapshot import Event, Question, Row, Triple
from thalweg.testing.strategies import STREAMS, questions, schemas, streams, typed_triples, windows


class Background(ClosedOracle):
    """The closed snapshot with static triples in its only graph."""

    def __init__(
        self, question: Question, events: Sequence[Event], schema: Sequence[Triple], static: frozenset[Triple]
    ) -> None:
        super().__init__(question, events, schema)
        self.static = static

    def instants(self) -> list[int]:
        """Those since the first event: static data alone have their rows from then on."""
        first = min(event.time for event in self.events)
        return [instant for instant in super().instants() if instant >= first]

    def _ask(self, contents: Iterable[frozenset[Triple]]) -> Counter[Row]:
        return super()._ask(content | self.static for content in contents)


@given(st.data())
def test_what_is_static_and_what_streams_is_closed_as_one_set(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    made = typed_triples()
    events = data.draw(streams(names=STREAMS[:1], max_events=16, deletes=True, few=6, made=made))
    known = sorted({triple for event in events for triple in event.triples})
    static = data.draw(st.frozensets(st.one_of(made, st.sampled_from(known) if known else made), max_size=5))
    heard = closed_events(schema, [*events, Event(STREAMS[0], 0, tuple(sorted(static)))])
    question = data.draw(questions(heard, max_blocks=1, max_patterns=3, window=windows()))
    run = Feed([])
    run.session.load("".join(f"{s} {p} {o} .\n" for s, p, o in sorted(static)), format="nt")
    run.register(question, schema=text_of(schema))

    def between(rest: list[Event]) -> None:
        if data.draw(st.integers(0, 4)) == 0:
            run.poll()
            run.restart()

    feed(run, data.draw(arrivals(events)), data.draw, between)
    run.emitted[0].check_sums(Background(question, events, schema, static))
