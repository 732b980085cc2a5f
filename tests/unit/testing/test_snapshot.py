"""The oracle is judged by hand-made cases: who else would judge it?"""

from __future__ import annotations

from collections import Counter

from thalweg.testing.snapshot import Block, Event, Now, Oracle, Question, Range, Row, Unbounded

S = "http://ex/s"
A, B, C, P, Q = (f"<http://ex/{name}>" for name in "abcpq")


def ask(window: Range | Unbounded | Now, *patterns: tuple[str, str, str], **more: object) -> Question:
    return Question((Block((S,), window, patterns),), **more)  # type: ignore[arg-type]


def row(**bindings: str) -> Row:
    return frozenset(bindings.items())


def test_a_range_holds_an_event_from_its_time_until_just_before_the_width_has_passed() -> None:
    oracle = Oracle(ask(Range(10), ("?x", P, "?y")), [Event(S, 5, ((A, P, B),))])
    assert [sum(oracle.answer(t).values()) for t in (4, 5, 14, 15)] == [0, 1, 1, 0]


def test_a_step_window_holds_at_its_report_what_came_before_and_stands_still_until_the_next() -> None:
    # |0 . . . . 5 . . . . 10 . . . . 15    RANGE 10 STEP 5, an event at 5
    oracle = Oracle(ask(Range(10, step=5), ("?x", P, "?y")), [Event(S, 5, ((A, P, B),))])
    assert [sum(oracle.answer(t).values()) for t in (5, 9, 10, 12, 15, 19, 20)] == [0, 0, 1, 1, 1, 1, 0]


def test_a_step_wider_than_the_range_leaves_gaps() -> None:
    oracle = Oracle(
        ask(Range(2, step=5), ("?x", P, "?y")), [Event(S, 1, ((A, P, B),)), Event(S, 4, ((A, P, C),))]
    )
    assert oracle.answer(5) == Counter([row(x=A, y=C)])


def test_a_graph_is_a_set_and_an_answer_is_a_bag() -> None:
    events = [Event(S, 1, ((A, P, B),)), Event(S, 2, ((A, P, B), (A, P, C)))]
    oracle = Oracle(ask(Unbounded(), ("?x", P, "?y"), select=("x",)), events)
    assert oracle.answer(2) == Counter({row(x=A): 2})
    distinct = Oracle(ask(Unbounded(), ("?x", P, "?y"), select=("x",), distinct=True), events)
    assert distinct.answer(2) == Counter([row(x=A)])


def test_literals_are_compared_as_terms_and_not_as_values() -> None:
    one, padded = (f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in ("1", "01"))
    oracle = Oracle(ask(Unbounded(), ("?x", P, padded)), [Event(S, 1, ((A, P, one), (B, P, padded)))])
    assert oracle.answer(1) == Counter([row(x=B)])


def test_blank_nodes_belong_to_their_event_unless_they_are_stable() -> None:
    events = [Event(S, 1, ((A, P, "_:n"),)), Event(S, 2, (("_:n", Q, B),))]
    joined = ask(Unbounded(), ("?x", P, "?n"), ("?n", Q, "?y"), select=("x", "y"))
    assert Oracle(joined, events).answer(2) == Counter()
    assert Oracle(joined, events, stable=True).answer(2) == Counter([row(x=A, y=B)])


def test_rstream_repeats_the_answer_at_each_report_and_istream_only_what_is_new() -> None:
    events = [Event(S, 1, ((A, P, B),)), Event(S, 6, ((A, P, C),))]
    window = Range(10, step=5)
    b, c = row(x=A, y=B), row(x=A, y=C)
    rstream = Oracle(ask(window, ("?x", P, "?y"), operator="RSTREAM"), events).stream()
    assert rstream == {5: Counter([("+", b)]), 10: Counter([("+", b), ("+", c)]), 15: Counter([("+", c)])}
    istream = Oracle(ask(window, ("?x", P, "?y"), operator="ISTREAM"), events).stream()
    assert istream == {5: Counter([("+", b)]), 10: Counter([("+", c)])}
    dstream = Oracle(ask(window, ("?x", P, "?y"), operator="DSTREAM"), events).stream()
    assert dstream == {15: Counter([("-", b)]), 20: Counter([("-", c)])}


def test_now_asks_each_event_alone() -> None:
    events = [Event(S, 1, ((A, P, B),), "http://ex/g0"), Event(S, 1, ((B, P, C),), "http://ex/g1")]
    oracle = Oracle(ask(Now(), ("?x", P, "?y")), events)
    assert oracle.per_event() == Counter(
        [(1, "http://ex/g0", row(x=A, y=B)), (1, "http://ex/g1", row(x=B, y=C))]
    )


def test_two_windows_are_two_graphs() -> None:
    narrow = Block((S,), Range(1), (("?x", P, "?y"),))
    wide = Block((S,), Range(100), (("?y", P, "?z"),))
    events = [Event(S, 1, ((B, P, C),)), Event(S, 50, ((A, P, B),))]
    assert Oracle(Question((narrow, wide)), events).answer(50) == Counter([row(x=A, y=B, z=C)])
    assert Oracle(Question((narrow, wide)), events).answer(51) == Counter()
