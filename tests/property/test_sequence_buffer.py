"""The shared buffer against brute force: atoms with one join variable, comparisons near and far, hardly any room."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sequence_cases import STREAMS, S, accepted, answered, expected, places, trees, within_lateness

from thalweg.lang import parse
from thalweg.operators import sequence_buffer, sequence_runs
from thalweg.plan.automaton import automaton_of
from thalweg.plan.comparisons import not_by_instants
from thalweg.plan.shared_runs import not_shared
from thalweg.testing.sequences import Event, Gpm, Neg, Plus, SequenceCase

KINDS = ("ref", "ref", "plus", "plus", "altplus", "neg", "opt", "tog", "alt", "seq")
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


@st.composite
def buffered(draw: st.DrawFn) -> SequenceCase:
    """Sequences whose atoms all bind ?x, or have no variable in common."""
    tree = draw(trees(6, KINDS))
    order = places(tree)
    names = list(dict.fromkeys(name for name, _ in order))
    positive = [name for name, kind in order if kind is not Neg]
    assume(positive)
    joined = draw(st.integers(0, 3)) > 0
    atoms = {}
    for name in names:
        own, predicate = f"v{name}", draw(st.sampled_from("ppq"))
        subject = "?x" if joined else f"<{S}a>"
        pattern = f"{subject} <{S}{predicate}> ?{own}"
        bound = frozenset({"x", own} if joined else {own})
        if draw(st.integers(0, 9)) == 0:
            pattern += f" OPTIONAL {{ {subject} <{S}{draw(st.sampled_from('pq'))}> ?w{name} }}"
            bound |= {f"w{name}"}
        known = (
            positive
            if name not in positive
            else [n for n, kind in order[: _place(order, name)] if kind is not Neg]
        )
        sides = [f"?v{other}" for other in known if other != name]
        if (name, Plus) in order and len([one for one, _ in order if one == name]) == 1:
            sides.append(f"PREV(?{own})")
        choices = [f"?{own} < 3", *(f"?v{other} > 0" for other in known)]
        for side in sides:
            op = draw(st.sampled_from(["<", ">", "<=", ">=", "=", "!="]))
            choices += [f"?{own} {op} {side}", f"{side} {op} ?{own}"]
        filters = draw(st.lists(st.sampled_from(choices), max_size=2, unique=True))
        atoms[name] = Gpm(STREAMS[0], pattern, bound, tuple(filters))
    return SequenceCase(
        tree,
        atoms,
        draw(st.sampled_from([1, 2, 3, 5, 20])),
        STREAMS[:1],
        (*(["x"] if joined else []), *(f"v{name}" for name in names)),
        False,
        "x" if joined and draw(st.integers(0, 4)) == 0 else None,
    )


def _place(order: list[tuple[str, type | None]], name: str) -> int:
    return [one for one, _ in order].index(name)


@st.composite
def prices(draw: st.DrawFn) -> list[Event]:
    """Events about few subjects with numbers that are often equal, and sometimes two at an instant."""
    found, time = [], 0
    for _ in range(draw(st.integers(2, 10))):
        time += draw(st.sampled_from([0, 1, 1, 1, 2]))
        triples = draw(
            st.lists(
                st.builds(
                    lambda s, p, o: f'<{S}{s}> <{S}{p}> "{o}"^^<{INTEGER}> .',
                    st.sampled_from("aaab"),
                    st.sampled_from("pppq"),
                    st.integers(0, 4),
                ),
                min_size=1,
                max_size=2,
                unique=True,
            )
        )
        found.append(Event(STREAMS[0], time, tuple(triples)))
    return found


def is_shared(case: SequenceCase) -> bool:
    sequence = parse(case.text()).sequence
    assert sequence is not None
    return not_by_instants(sequence) is None and not_shared(sequence, automaton_of(sequence)) is None


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=10 * settings.default.max_examples)
@given(
    buffered(),
    prices(),
    st.sampled_from([0, 3, 100]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([2, 1024]),
)
def test_a_shared_buffer_has_the_matches_of_the_definitions(
    case: SequenceCase, arrived: list[Event], lateness: int, has_texts: bool, saves: bool, room: int
) -> None:
    assume(accepted(case) and is_shared(case))
    arrived = within_lateness(arrived, lateness)
    if has_texts:  # the buffer gives its runs back as rows, and takes them again in the next batch
        two = f'"2"^^<{INTEGER}>'
        arrived = [
            replace(event, triples=tuple(one.replace(two, '"two"') for one in event.triples))
            for event in arrived
        ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_buffer, "_SMALL", room)
        patch.setattr(sequence_runs, "_PAUSE", 1)
        assert answered(case, arrived, lateness=lateness, saves=saves) == expected(case, arrived), case.text()
