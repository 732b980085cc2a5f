"""The laws that every operator of a pipeline keeps, in one suite over all of them.

A new operator gets a line in OPERATORS, with a function that computes its result from scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.lang import parse
from thalweg.operators.pipeline import ConstructTriples, DistinctRows, Operator
from thalweg.operators.spans import Changes
from thalweg.rdf.arena import Arena

Row = tuple[str, ...]
Signed = tuple[int, int, Row]
TERMS = [f"<http://ex/{name}>" for name in "abc"] + ['"1"', '"1"@en']
CONSTRUCT = parse(
    "CONSTRUCT { ?x <http://ex/to> ?y . ?y <http://ex/from> ?x . _:n <http://ex/of> ?x } "
    "WHERE { ?x <http://ex/p> ?y }",
    stream="http://ex/s",
)


@dataclass(frozen=True)
class Case:
    """An operator over rows of two terms, and its result computed from scratch."""

    make: Callable[[Arena], Operator]
    result: Callable[[Counter[Row]], Counter[Row]]


def constructed(rows: Counter[Row]) -> Counter[Row]:
    made: Counter[Row] = Counter()
    for (x, y), count in rows.items():
        made[x, "<http://ex/to>", y] += count
        made[y, "<http://ex/from>", x] += count * (y[0] != '"')
        made[f"_:{x}{y}", "<http://ex/of>", x] += count
    return made


OPERATORS = {
    "distinct": Case(lambda arena: DistinctRows(2), lambda rows: Counter(dict.fromkeys(+rows, 1))),
    "construct": Case(lambda arena: ConstructTriples(CONSTRUCT, arena), constructed),
}
cases = pytest.mark.parametrize("case", OPERATORS.values(), ids=OPERATORS)


@st.composite
def histories(draw: st.DrawFn) -> list[Signed]:
    """Signed rows in time order under which no row is ever there less than zero times."""
    history: list[Signed] = []
    there: Counter[Row] = Counter()
    time = 0
    for _ in range(draw(st.integers(0, 25))):
        time += draw(st.sampled_from([0, 0, 1, 5]))
        row = (draw(st.sampled_from(TERMS[:3])), draw(st.sampled_from(TERMS)))  # a subject is no literal
        known = [row for row, count in there.items() if count > 0]
        if known and draw(st.booleans()):
            row = draw(st.sampled_from(known))
            weight = -draw(st.integers(1, there[row]))
        else:
            weight = draw(st.integers(1, 2))
        there[row] += weight
        history.append((time, weight, row))
    return history


def changes(arena: Arena, history: Sequence[Signed]) -> Changes:
    ids = [[arena.intern(term.encode()) for term in row] for _, _, row in history]
    times = np.array([time for time, _, _ in history], np.int64)
    weights = np.array([weight for _, weight, _ in history], np.int64)
    return Changes(times, weights, np.array(ids, np.int64).reshape(-1, 2))


def shown(arena: Arena, out: Changes) -> list[Signed]:
    rows = [tuple(arena.texts(row)) for row in out.rows]
    return list(zip(out.time.tolist(), out.weight.tolist(), rows, strict=True))


def sums(history: Sequence[Signed], until: int) -> Counter[Row]:
    total: Counter[Row] = Counter()
    for time, weight, row in history:
        if time <= until:
            total[row] += weight
    return Counter({row: count for row, count in total.items() if count})


def blurred(rows: Counter[Row]) -> Counter[Row]:
    """Rows whose new nodes have no names: an operator names them in its own way."""
    out: Counter[Row] = Counter()
    for row, count in rows.items():
        out[tuple("_:" if term.startswith("_:") else term for term in row)] += count
    return out


def cut(history: list[Signed], cuts: Sequence[int]) -> list[list[Signed]]:
    bounds = [0, *sorted(k % (len(history) + 1) for k in cuts), len(history)]
    return [history[a:b] for a, b in pairwise(bounds)]


@cases
@given(history=histories(), cuts=st.lists(st.integers(0, 99), max_size=6))
def test_any_split_sums_to_the_result_of_the_sum(case: Case, history: list[Signed], cuts: list[int]) -> None:
    arena = Arena()
    operator = case.make(arena)
    out = [row for part in cut(history, cuts) for row in shown(arena, operator.step(changes(arena, part)))]
    for time in {time for time, _, _ in history}:
        assert blurred(sums(out, time)) == blurred(+case.result(sums(history, time)))


@cases
@given(history=histories(), at=st.integers(0, 99))
def test_saved_state_goes_on_as_if_nothing_had_happened(case: Case, history: list[Signed], at: int) -> None:
    arena = Arena()
    first, rest = cut(history, [at])
    operator, other = case.make(arena), case.make(arena)
    operator.step(changes(arena, first))
    other.restore(operator.state())
    assert shown(arena, other.step(changes(arena, rest))) == shown(arena, operator.step(changes(arena, rest)))


@cases
@given(history=histories(), order=st.randoms(use_true_random=False))
def test_the_result_depends_on_texts_and_not_on_ids_or_arrival(
    case: Case, history: list[Signed], order
) -> None:
    weak, plain = Arena(hash_mask=1), Arena()
    mixed = sorted(history, key=lambda signed: (signed[0], order.random()))
    one, two = case.make(plain), case.make(weak)
    out = shown(plain, one.step(changes(plain, history).consolidated()))
    again = shown(weak, two.step(changes(weak, mixed).consolidated()))
    for time in {time for time, _, _ in history}:
        assert sums(out, time) == sums(again, time)


@cases
@given(history=histories())
def test_what_is_taken_back_is_what_came_to_the_letter(case: Case, history: list[Signed]) -> None:
    arena = Arena()
    operator = case.make(arena)
    end = history[-1][0] + 1 if history else 0
    whole = [*history, *((end, -count, row) for row, count in sums(history, end).items())]
    out = [row for signed in whole for row in shown(arena, operator.step(changes(arena, [signed])))]
    assert sums(out, end) == Counter()
    assert all(count >= 0 for time, _, _ in out for count in sums(out, time).values())


@cases
@given(history=histories(), cuts=st.lists(st.integers(0, 99), max_size=6))
def test_compaction_after_each_step_changes_nothing(
    case: Case, history: list[Signed], cuts: list[int]
) -> None:
    arena, small = Arena(), Arena()
    operator, compacted = case.make(arena), case.make(small)
    for part in cut(history, cuts):
        out = shown(arena, operator.step(changes(arena, part)))
        assert shown(small, compacted.step(changes(small, part))) == out
        small.compact(np.concatenate([np.empty(0, np.int64), *compacted.live_ids()]))
        assert compacted.held >= 0
        assert compacted.nbytes >= 0


@cases
def test_an_operator_that_cannot_be_replayed_says_so(case: Case) -> None:
    assert case.make(Arena()).replayable


@cases
@given(history=histories())
def test_an_operator_that_is_not_linear_nets_its_result(case: Case, history: list[Signed]) -> None:
    arena = Arena()
    operator = case.make(arena)
    out = shown(arena, operator.step(changes(arena, history)))
    if not operator.linear:
        assert len({(time, row) for time, _, row in out}) == len(out)
