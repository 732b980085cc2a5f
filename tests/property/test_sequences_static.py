"""Sequences whose atoms see static data, against brute force; also under a schema."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sequence_cases import S, accepted, answered, cases, events, expected, within_lateness

from thalweg.testing.sequences import Event, Gpm, SequenceCase

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SCHEMA = f"<{S}r> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <{S}q> ."
TRIPLES = st.builds(
    lambda s, p, o: f'<{S}{s}> <{S}{p}> "{o}"^^<{INTEGER}> .',
    st.sampled_from("ab"),
    st.sampled_from("pqr"),
    st.integers(0, 2),
)
MORE = [
    ("GRAPH <http://ex/g> { ?x <http://ex/q> ?z }", {"z"}),
    ("GRAPH ?g { ?x <http://ex/q> ?z }", {"g", "z"}),
    ("OPTIONAL { GRAPH <http://ex/g> { ?x <http://ex/p> ?y } }", {"y"}),
    ("FILTER EXISTS { GRAPH <http://ex/g> { ?x <http://ex/p> ?_ } }", set()),
    ("MINUS { GRAPH <http://ex/h> { ?x <http://ex/q> 1 } }", set()),
]


def closed(triples: tuple[str, ...]) -> tuple[str, ...]:
    """Triples with those that follow by the schema."""
    more = (triple.replace(f"<{S}r>", f"<{S}q>") for triple in triples)
    return tuple(dict.fromkeys((*triples, *more)))


@st.composite
def static_cases(draw: st.DrawFn) -> SequenceCase:
    case = draw(cases(3))
    atoms = {}
    for name, gpm in case.atoms.items():
        if "x" in gpm.variables and draw(st.booleans()):
            text, variables = draw(st.sampled_from(MORE))
            gpm = Gpm(gpm.stream, f"{gpm.pattern} {text}", gpm.variables | variables, gpm.filters)
        atoms[name] = gpm
    graph = st.lists(TRIPLES, max_size=3, unique=True).map(tuple)
    static = draw(st.lists(TRIPLES, max_size=2, unique=True).map(tuple))
    named = tuple((f"{S}{name}", draw(graph)) for name in "gh")
    return replace(case, atoms=atoms, static=static, named=named)


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@given(static_cases(), events(7), st.booleans())
def test_atoms_see_static_data(case: SequenceCase, arrived: list[Event], saves: bool) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, 2)
    assert answered(case, arrived, lateness=2, saves=saves) == expected(case, arrived), case


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@given(static_cases(), events(6))
def test_atoms_see_the_closures_of_events_and_of_static_data(
    case: SequenceCase, arrived: list[Event]
) -> None:
    assume(accepted(case))
    arrived = within_lateness(arrived, 2)
    arrived = [
        replace(
            event,
            triples=tuple(t.replace(f"<{S}q>", f"<{S}r>") for t in event.triples[:1]) + event.triples[1:],
        )
        for event in arrived
    ]
    judged = replace(
        case,
        static=closed(case.static),
        named=tuple((name, closed(triples)) for name, triples in case.named),
        _memo={},
    )
    found = expected(judged, [replace(event, triples=closed(event.triples)) for event in arrived])
    assert answered(case, arrived, lateness=2, schema=SCHEMA) == found, case
