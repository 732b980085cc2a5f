"""Static data under the snapshot law: random queries, loads in mid-stream, deletes of what is static, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from harness import NEVER, Emitted, Feed, arrivals, feed
from hypothesis import given, reject
from hypothesis import strategies as st
from test_algebra import REFUSED, check_law, first_of

import thalweg as tw
from thalweg.testing.algebra import (
    FEATURES,
    FORMS,
    algebra_questions,
    algebra_streams,
    algebra_triples,
    with_static,
)
from thalweg.testing.algebra_oracle import AlgebraOracle, AlgebraQuestion, Load
from thalweg.testing.snapshot import Event, Now, Range, Triple
from thalweg.testing.strategies import OPERATORS, any_windows


class StaticFeed(Feed):
    """A session with static data; it notes from which instant on a query sees what was loaded."""

    def __init__(self, **options: Any) -> None:
        super().__init__([], **options)
        self.content: dict[str, frozenset[Triple]] = {}
        self.loads: list[tuple[dict[str, int], str, frozenset[Triple]]] = []

    def load(self, graph: str, triples: frozenset[Triple], *, replace: bool) -> None:
        text = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(triples))
        self.session.load(text, graph=graph or None, format="nt", replace=replace)
        before = frozenset() if replace else self.content.get(graph, frozenset())
        self.content[graph] = before | triples
        self.loads.append((dict(self.watermarks), graph, self.content[graph]))

    def loads_of(self, emitted: Emitted, first: int) -> list[Load]:
        """The loads as a query sees them: at its watermark, or at the next instant if that one is complete."""
        windows = [source.window for source in emitted.question.sources if source.streams]  # type: ignore[attr-defined]
        complete = all(
            isinstance(window, Now) or (isinstance(window, Range) and window.half_open) for window in windows
        )
        found = []
        for watermarks, graph, content in self.loads:
            low = min(watermarks.get(stream, NEVER) for stream in emitted.query.query.streams)
            began = low != NEVER and low >= first
            found.append(Load(low + complete if began else None, graph, content))
        return found


def check(given_: StaticFeed, emitted: Emitted, events: Sequence[Event]) -> None:
    question: AlgebraQuestion = emitted.question  # type: ignore[assignment]
    first = first_of(emitted, events)
    oracle = AlgebraOracle(question, events, static=given_.loads_of(emitted, first))
    oracle.first = first
    check_law(emitted, question, oracle)


def run(data: st.DataObject, *, reload: bool = False, restart: bool = False, **asked: Any) -> None:
    """A random query over a random stream and static data that have triples in common."""
    events = data.draw(algebra_streams(max_events=8))
    known = sorted({triple for one in events for triple in one.triples})
    triples = st.one_of(algebra_triples(), st.sampled_from(known) if known else algebra_triples())
    some = st.frozensets(triples, max_size=6)
    static = {"": data.draw(some)}
    heard = [*events, *(Event(events[0].stream, 0, tuple(sorted(static[""]))) for _ in range(1))]
    question = data.draw(with_static(data.draw(algebra_questions(heard, **asked))))
    for source in question.sources:
        if not source.streams and source.name is not None:
            static[source.name] = data.draw(some)
    given_ = StaticFeed()
    late = reload and data.draw(st.booleans())
    for graph, content in static.items():
        if graph or not late or any(not source.streams for source in question.sources):
            given_.load(graph, content, replace=False)
    try:
        emitted = given_.register(question)  # type: ignore[arg-type]
    except tw.errors.QueryError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        reject()

    def between(rest: list[Event]) -> None:
        if reload and data.draw(st.integers(0, 2)) == 0:
            graph = data.draw(st.sampled_from(sorted(static)))
            given_.poll()
            given_.load(graph, data.draw(some), replace=data.draw(st.booleans()))
        if restart and data.draw(st.integers(0, 3)) == 0:
            given_.poll()
            given_.restart()

    feed(given_, data.draw(arrivals(events)), data.draw, between)
    check(given_, emitted, events)


@given(st.data())
def test_static_data_are_one_set_with_the_default_window(data: st.DataObject) -> None:
    run(data, features=("disconnected", "filter"))


@given(st.data())
def test_static_data_with_the_whole_algebra_under_every_window(data: st.DataObject) -> None:
    run(data, features=FEATURES, forms=FORMS, window=any_windows())


@given(st.data())
def test_static_data_change_at_one_instant(data: st.DataObject) -> None:
    run(data, features=("optional", "filter", "minus"), window=any_windows(), reload=True)


@given(st.data())
def test_static_graphs_beside_named_windows(data: st.DataObject) -> None:
    run(data, features=("optional", "filter"), sources="named", window=any_windows(), reload=True)


@pytest.mark.parametrize("operator", OPERATORS)
@given(data=st.data())
def test_operators_report_static_data_too(operator: str, data: st.DataObject) -> None:
    run(data, features=("optional", "filter"), operators=(operator,), window=any_windows(), reload=True)


@given(st.data())
def test_static_data_outlive_a_restart(data: st.DataObject) -> None:
    run(data, features=("optional", "filter"), window=any_windows(), reload=True, restart=True)


@given(st.data())
def test_static_data_are_part_of_each_event_of_now(data: st.DataObject) -> None:
    run(data, features=("optional", "filter", "disconnected"), sources="now", reload=True, restart=True)


@given(st.data())
def test_paths_lead_over_static_and_streamed_triples_also_after_a_reload(data: st.DataObject) -> None:
    features = ("closure", "path", "optional")
    run(data, features=features, must=("closure",), window=any_windows(), reload=True, restart=True)
