"""Allen's relations between parts of a sequence, against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence_cases import STREAMS, answered, events, patterns, within_lateness

from thalweg.algebra.allen import RELATIONS
from thalweg.errors import QueryError
from thalweg.lang import parse
from thalweg.testing.sequence_allen import Related, evaluate_related, is_related
from thalweg.testing.sequences import Event, Gpm, SequenceCase


@st.composite
def related_cases(draw: st.DrawFn) -> SequenceCase:
    names = iter("ABCDEF")

    def part() -> tuple[tuple[str, ...], ...]:
        sizes = draw(st.sampled_from([(1,), (1, 1), (1, 1), (2,), (1, 2)]))
        return tuple(tuple(next(names) for _ in range(size)) for size in sizes)

    tree = Related(part(), draw(st.sampled_from(RELATIONS)), part())
    atoms = {}
    for name in (ref.name for ref in tree.items):
        pattern, variables = draw(patterns(name))
        own = next((v for v in sorted(variables) if v.startswith("v")), None)
        choices = [
            "",
            "",
            *([f"?{own} > 0"] if own else []),
            *(["!BOUND(?y) || ?y > 0"] if "y" in variables else []),
        ]
        filters = tuple(filter(None, [draw(st.sampled_from(choices))]))
        atoms[name] = Gpm(draw(st.sampled_from(STREAMS[:2])), pattern, variables, filters)
    shown = sorted({v for atom in atoms.values() for v in atom.variables})
    select = draw(st.lists(st.sampled_from(shown), min_size=1, max_size=4, unique=True))
    return SequenceCase(
        tree, atoms, draw(st.sampled_from([1, 3, 5, 20])), STREAMS[:2], tuple(select), draw(st.booleans())
    )


def can_hold(case: SequenceCase) -> bool:
    """Whether a query is not refused because its relation never holds."""
    try:
        parse(case.text())
    except QueryError as error:
        if "never holds here" in str(error):
            return False
        raise
    return True


@pytest.mark.filterwarnings("ignore::thalweg.errors.ThalwegWarning")
@settings(max_examples=3 * settings.default.max_examples)
@given(related_cases(), events(6))
def test_matches_of_related_parts(case: SequenceCase, arrived: list[Event]) -> None:
    arrived = within_lateness(arrived, 2)
    found = evaluate_related(case, case.tree, arrived)
    if not can_hold(case):
        assert found == []
        return
    assert answered(case, arrived, lateness=2) == found, case.text()


@given(*[st.integers(0, 3)] * 4)
def test_exactly_one_relation_holds(a: int, b: int, c: int, d: int) -> None:
    one, other = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    assert sum(is_related(relation, one, other) for relation in RELATIONS) == 1
