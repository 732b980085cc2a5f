"""The laws that every operator of a pipeline keeps, in one suite over all of them.

A new operator gets a line in OPERATORS, with a function that computes its result from scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.algebra.expressions import Call, Constant, Variable
from thalweg.algebra.terms import Const
from thalweg.expressions.evaluate import Evaluator
from thalweg.lang import parse
from thalweg.operators.building import DistinctRows, Operator
from thalweg.operators.closure import ClosureRows
from thalweg.operators.cogroup import CoGroupRows
from thalweg.operators.groups import GroupRows
from thalweg.operators.ordering import OrderedRows, SliceRows
from thalweg.operators.rows import (
    CompatibleRows,
    ComputeRows,
    ConstructTriples,
    ExpandRows,
    MergeRows,
    RenameRows,
    SelectRows,
)
from thalweg.operators.spans import Changes
from thalweg.operators.template import Template
from thalweg.plan.physical import Aggregation
from thalweg.rdf.arena import Arena
from thalweg.testing.judge_aggregates import aggregate, term_key
from thalweg.testing.judge_expressions import ExpressionError

Row = tuple[str, ...]
Signed = tuple[int, int, int, Row]
"""Time, weight, number of the input, row."""
Bag = Counter[Row]
XSD = "http://www.w3.org/2001/XMLSchema#"
NUMBERS = [
    f'"{text}"^^<{XSD}{kind}>' for text, kind in (("1", "integer"), ("2.5", "decimal"), ("1E-1", "double"))
]
TERMS = [*(f"<http://ex/{name}>" for name in "abc"), '"1"', '"1"@en', *NUMBERS]
TRUE, FALSE = (f'"{word}"^^<http://www.w3.org/2001/XMLSchema#boolean>' for word in ("true", "false"))
A = "<http://ex/a>"
IS_A = Call("=", (Variable("x"), Constant(Const(A))))
CONSTRUCT = parse(
    "CONSTRUCT { ?x <http://ex/to> ?y . ?y <http://ex/from> ?x . _:n <http://ex/of> ?x } "
    "WHERE { ?x <http://ex/p> ?y }",
    stream="http://ex/s",
)


@dataclass(frozen=True)
class Case:
    """An operator over inputs with rows of two terms, and its result computed from scratch."""

    make: Callable[[Arena], Operator]
    result: Callable[..., Bag]
    inputs: int = 1


def each(function: Callable[[Row], list[Row]]) -> Callable[[Bag], Bag]:
    """An operator that takes rows one by one."""

    def result(rows: Bag) -> Bag:
        made: Bag = Counter()
        for row, count in rows.items():
            for one in function(row):
                made[one] += count
        return made

    return result


def constructed(row: Row) -> list[Row]:
    x, y = row
    back = [(y, "<http://ex/from>", x)] if y[0] != '"' else []
    return [(x, "<http://ex/to>", y), *back, (f"_:{x}{y}", "<http://ex/of>", x)]


def product(*rules: str) -> Callable[..., Bag]:
    """A co-group by the first term, computed from the definition of its rules."""

    def given(rule: str, rows: Bag, key: str) -> Bag:
        mine: Bag = Counter({row[1:]: count for row, count in rows.items() if row[0] == key and count > 0})
        there = bool(mine)
        match rule:
            case "rows":
                return mine
            case "left":
                return mine or Counter({("",): 1})
            case "semi" | "anti":
                return Counter({(): 1}) if there == (rule == "semi") else Counter()
        return Counter({(TRUE if there == (rule == "mark") else FALSE,): 1})

    def result(*inputs: Bag) -> Bag:
        made: Bag = Counter()
        for key in {row[0] for rows in inputs for row in rows}:
            combined: Bag = Counter({(key,): 1})
            for rule, rows in zip(rules, inputs, strict=True):
                combined = Counter(
                    {
                        (*one, *other): count * more
                        for one, count in combined.items()
                        for other, more in given(rule, rows, key).items()
                    }
                )
            made += combined
        return made

    return result


def cogroup(*rules: str) -> Case:
    def make(arena: Arena) -> Operator:
        false, true = arena.intern(FALSE.encode()), arena.intern(TRUE.encode())
        return CoGroupRows([2] * len(rules), rules, 1, (false, true))

    return Case(make, product(*rules), len(rules))


class Outer(CoGroupRows):
    """An outer input beside rows that are their keys: the first terms of the first input."""

    def __init__(self) -> None:
        super().__init__([1, 2], ("rows", "outer"), 1)

    def step(self, *inputs: Changes) -> Changes:
        base, other = inputs
        return super().step(Changes(base.time, base.weight, base.rows[:, :1]), other)


def outer(base: Bag, other: Bag) -> Bag:
    made: Bag = Counter(other)
    keys = {row[0] for row, count in other.items() if count > 0}
    for row, count in base.items():
        made[row[0], ""] += count * (row[0] not in keys)
    return made


def closed(steps: Bag) -> Bag:
    """The pairs that a chain of steps connects, by repeated joins."""
    pairs = {row for row, count in steps.items() if count > 0}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return Counter(dict.fromkeys(pairs, 1))


class FromRoots(ClosureRows):
    """A closure from the first terms of the second input."""

    def __init__(self) -> None:
        super().__init__(asked=True)

    def step(self, *inputs: Changes) -> Changes:
        steps, roots = inputs
        return super().step(steps, Changes(roots.time, roots.weight, roots.rows[:, :1]))


def from_roots(steps: Bag, roots: Bag) -> Bag:
    wanted = {row[0] for row, count in roots.items() if count > 0}
    return Counter({pair: 1 for pair in closed(steps) if pair[0] in wanted})


def table(arena: Arena) -> np.ndarray:
    rows = [[TERMS[0], TERMS[1]], [TERMS[0], ""], [TERMS[1], TERMS[2]]]
    return np.array([[arena.intern(t.encode()) if t else 0 for t in row] for row in rows], np.int64)


def groups(*aggregates: tuple[str, bool]) -> Case:
    """Aggregates of the second terms by the first; the same from scratch, by the judge of the algebra."""
    made = [Aggregation(name, (1,), distinct, ", ") for name, distinct in aggregates]

    def result(rows: Bag) -> Bag:
        found: Bag = Counter()
        for key in {row[0] for row, count in rows.items() if count > 0}:
            values = [row[1] for row in rows.elements() if row[0] == key]
            found[key, *(one_of(name, values, distinct) for name, distinct in aggregates)] += 1
        return found

    return Case(lambda arena: GroupRows(1, made, arena), result)


def one_of(name: str, values: list[str], distinct: bool) -> str:
    try:
        return aggregate(name, values, set(), distinct=distinct, separator=", ")
    except ExpressionError:
        return ""


def first_rows(offset: int, limit: int | None, *order: tuple[int, bool]) -> Case:
    """Some rows in the order of columns, then of texts; the same from scratch."""

    def result(rows: Bag) -> Bag:
        found = sorted((+rows).elements())
        for column, down in reversed(order):
            found.sort(key=lambda row: term_key(row[column]), reverse=down)
        return Counter(found[offset : None if limit is None else offset + limit])

    return Case(lambda arena: SliceRows(OrderedRows(order, (0, 1), arena), offset, limit), result)


class Counted(GroupRows):
    """One group of all rows, since there was a row of the second input."""

    def __init__(self, arena: Arena) -> None:
        every = Aggregation("COUNT", (), rows=True), Aggregation("COUNT", (0, 1), True, rows=True)
        super().__init__(0, [*every, Aggregation("MAX", (1,))], arena, implicit=True)


def counted(rows: Bag, start: Bag) -> Bag:
    number, different = (f'"{n}"^^<{XSD}integer>' for n in (rows.total(), len(+rows)))
    row = number, different, one_of("MAX", [row[1] for row in rows.elements()], False)
    return Counter({row: 1}) if start.total() else Counter()


EXPANDED = {TERMS[0]: [TERMS[1], ""], TERMS[1]: [TERMS[2]]}
OPERATORS = {
    "distinct": Case(lambda arena: DistinctRows(2), lambda rows: Counter(dict.fromkeys(+rows, 1))),
    "construct": Case(
        lambda arena: ConstructTriples(Template(CONSTRUCT, ("x", "y"), arena)), each(constructed)
    ),
    "select": Case(
        lambda arena: SelectRows(Evaluator(IS_A, ["x", "y"], arena), 2),
        each(lambda row: [row] if row[0] == A else []),
    ),
    "compute": Case(
        lambda arena: ComputeRows(Evaluator(IS_A, ["x", "y"], arena), 3),
        each(lambda row: [(*row, TRUE if row[0] == A else FALSE)]),
    ),
    "rename": Case(lambda arena: RenameRows([[1], [], [0, 1]]), each(lambda row: [(row[1], "", row[0])])),
    "compatible": Case(
        lambda arena: CompatibleRows([(0, 1)], 2, overlap=True),
        each(lambda row: [row] if row[0] == row[1] else []),
    ),
    "expand": Case(
        lambda arena: ExpandRows(table(arena), [(0, 0)], [1], 2),
        each(lambda row: [(*row, other) for other in EXPANDED.get(row[0], [])]),
    ),
    "merge": Case(lambda arena: MergeRows(2), lambda one, other: one + other, 2),
    "join": cogroup("rows", "rows"),
    "join of three": cogroup("rows", "rows", "rows"),
    "left join": cogroup("rows", "left"),
    "two left joins": cogroup("rows", "left", "left"),
    "semi join": cogroup("rows", "semi"),
    "anti join": cogroup("rows", "anti"),
    "mark": cogroup("rows", "mark"),
    "outer join": Case(lambda arena: Outer(), outer, 2),
    "counts and sums": groups(("COUNT", False), ("SUM", False), ("AVG", False)),
    "sets": groups(("COUNT", True), ("SUM", True), ("AVG", True), ("SUM", False)),
    "extremes": groups(("MIN", False), ("MAX", True), ("SAMPLE", False)),
    "concatenation": groups(("GROUP_CONCAT", False), ("GROUP_CONCAT", True), ("SUM", False)),
    "one group": Case(Counted, counted, 2),
    "closure": Case(lambda arena: ClosureRows(), closed),
    "closure of different terms": Case(
        lambda arena: ClosureRows(proper=True),
        lambda steps: Counter({pair: 1 for pair in closed(steps) if pair[0] != pair[1]}),
    ),
    "closure from a root": Case(
        lambda arena: ClosureRows(root=arena.intern(A.encode()), keeps=(1,)),
        lambda steps: Counter({pair[1:]: 1 for pair in closed(steps) if pair[0] == A}),
    ),
    "closure to a target": Case(
        lambda arena: ClosureRows(target=arena.intern(A.encode()), keeps=(0,)),
        lambda steps: Counter({pair[:1]: 1 for pair in closed(steps) if pair[1] == A}),
    ),
    "closure from roots": Case(lambda arena: FromRoots(), from_roots, 2),
    "top 3": first_rows(0, 3, (1, True)),
    "first by text": first_rows(0, 1),
    "middle": first_rows(2, 2, (0, True), (1, False)),
    "all but one": first_rows(1, None, (1, False)),
    "everything": cogroup("rows", "mark not", "left", "anti"),
}
cases = pytest.mark.parametrize("case", OPERATORS.values(), ids=OPERATORS)


@st.composite
def histories(draw: st.DrawFn) -> list[Signed]:
    """Signed rows in time order under which no row is ever there less than zero times."""
    history: list[Signed] = []
    there: Counter[tuple[int, Row]] = Counter()
    time = 0
    for _ in range(draw(st.integers(0, 25))):
        time += draw(st.sampled_from([0, 0, 1, 5]))
        input = draw(st.integers(0, 3))
        row = (draw(st.sampled_from(TERMS[:3])), draw(st.sampled_from(TERMS)))  # a subject is no literal
        known = [key for key, count in there.items() if count > 0]
        if known and draw(st.booleans()):
            input, row = draw(st.sampled_from(known))
            weight = -draw(st.integers(1, there[input, row]))
        else:
            weight = draw(st.integers(1, 2))
        there[input, row] += weight
        history.append((time, weight, input, row))
    return history


def changes(arena: Arena, history: Sequence[Signed], inputs: int = 1) -> list[Changes]:
    """The changes of each input; what is of further ones is left out."""
    found = []
    for input in range(inputs):
        mine = [(time, weight, row) for time, weight, of, row in history if of == input]
        ids = [[arena.intern(term.encode()) for term in row] for _, _, row in mine]
        times = np.array([time for time, _, _ in mine], np.int64)
        weights = np.array([weight for _, weight, _ in mine], np.int64)
        found.append(Changes(times, weights, np.array(ids, np.int64).reshape(-1, 2)))
    return found


def shown(arena: Arena, out: Changes) -> list[Signed]:
    rows = [tuple(arena.text(id) if id else "" for id in row) for row in out.rows.tolist()]
    return [(*one, 0, row) for *one, row in zip(out.time.tolist(), out.weight.tolist(), rows, strict=True)]


def sums(history: Sequence[Signed], until: int, input: int = 0) -> Bag:
    total: Bag = Counter()
    for time, weight, of, row in history:
        if time <= until and of == input:
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
    out = [
        row
        for part in cut(history, cuts)
        for row in shown(arena, operator.step(*changes(arena, part, case.inputs)))
    ]
    for time in {time for time, *_ in history}:
        inputs = [sums(history, time, input) for input in range(case.inputs)]
        assert blurred(sums(out, time)) == blurred(+case.result(*inputs))


@cases
@given(history=histories(), at=st.integers(0, 99))
def test_saved_state_goes_on_as_if_nothing_had_happened(case: Case, history: list[Signed], at: int) -> None:
    arena = Arena()
    first, rest = cut(history, [at])
    operator, other = case.make(arena), case.make(arena)
    operator.step(*changes(arena, first, case.inputs))
    other.restore(operator.state())
    news = changes(arena, rest, case.inputs)
    assert sorted(shown(arena, other.step(*news))) == sorted(shown(arena, operator.step(*news)))


@cases
@given(history=histories(), order=st.randoms(use_true_random=False))
def test_the_result_depends_on_texts_and_not_on_ids_or_arrival(
    case: Case, history: list[Signed], order
) -> None:
    weak, plain = Arena(hash_mask=1), Arena()
    mixed = sorted(history, key=lambda signed: (signed[0], order.random()))
    one, two = case.make(plain), case.make(weak)
    first, second = (changes(arena, part, case.inputs) for arena, part in ((plain, history), (weak, mixed)))
    out = shown(plain, one.step(*(news.consolidated() for news in first)))
    again = shown(weak, two.step(*(news.consolidated() for news in second)))
    for time in {time for time, *_ in history}:
        assert sums(out, time) == sums(again, time)


@cases
@given(history=histories())
def test_what_is_taken_back_is_what_came_to_the_letter(case: Case, history: list[Signed]) -> None:
    arena = Arena()
    operator = case.make(arena)
    end = history[-1][0] + 1 if history else 0
    ends = [
        (end, -count, input, row) for input in range(4) for row, count in sums(history, end, input).items()
    ]
    out = [
        row
        for signed in [*history, *ends]
        for row in shown(arena, operator.step(*changes(arena, [signed], case.inputs)))
    ]
    assert sums(out, end) == Counter()
    assert all(count >= 0 for time, *_ in out for count in sums(out, time).values())


@cases
@given(history=histories(), cuts=st.lists(st.integers(0, 99), max_size=6))
def test_compaction_after_each_step_changes_nothing(
    case: Case, history: list[Signed], cuts: list[int]
) -> None:
    arena, small = Arena(), Arena()
    operator, compacted = case.make(arena), case.make(small)
    for part in cut(history, cuts):
        out = shown(arena, operator.step(*changes(arena, part, case.inputs)))
        assert shown(small, compacted.step(*changes(small, part, case.inputs))) == out
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
    out = shown(arena, operator.step(*changes(arena, history, case.inputs)))
    if not operator.linear:
        signed = {(time, row, weight > 0) for time, weight, _, row in out}
        assert len(signed) == len({(time, row) for time, row, _ in signed})


@cases
@given(history=histories())
def test_memory_that_nothing_needs_is_given_back(case: Case, history: list[Signed]) -> None:
    arena = Arena()
    operator, other = case.make(arena), case.make(arena)
    half = len(history) // 2
    for part in (history[:half], history[half:]):
        news = changes(arena, part, case.inputs)
        assert sorted(shown(arena, operator.step(*news))) == sorted(shown(arena, other.step(*news)))
        assert operator.give_back(0)
    operator.clear()
    assert operator.held == 0


@pytest.mark.slow
@cases
@pytest.mark.parametrize("batch", [1, 50, 3000])
def test_thousands_of_rows_come_and_go_in_batches_of_any_size(case: Case, batch: int) -> None:
    arena, random = Arena(), Random(7)
    operator = case.make(arena)
    names = [f"<http://ex/{k}>" for k in range(40)]
    history: list[Signed] = []
    there: list[tuple[int, Row]] = []
    for time in range(3000 if batch > 1 else 300):
        if there and random.random() < 0.4:
            input, row = there.pop(random.randrange(len(there)))
            history.append((time, -1, input, row))
        else:
            input, row = (
                random.randrange(case.inputs),
                (random.choice(names), random.choice([*names, *TERMS])),
            )
            there.append((input, row))
            history.append((time, 1, input, row))
    out: list[Signed] = []
    for start in range(0, len(history), batch):
        news = changes(arena, history[start : start + batch], case.inputs)
        out += shown(arena, operator.step(*news))
        if start % (7 * batch) == 0:
            operator.give_back(0)
    end = history[-1][0]
    assert blurred(sums(out, end)) == blurred(
        +case.result(*(sums(history, end, k) for k in range(case.inputs)))
    )
