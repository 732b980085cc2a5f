"""All ways of evaluation give the same results: the kernel, the memo, and one row after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from asking import read
from hypothesis import example, given
from random_expressions import NAMES, TERMS, XSD, expressions, rows

from thalweg.algebra.expressions import Call, Constant, Expression, Variable
from thalweg.algebra.terms import Const
from thalweg.expressions import memo
from thalweg.expressions.comparing import truth
from thalweg.expressions.compiling import Compiler, Row
from thalweg.expressions.evaluate import Evaluator
from thalweg.expressions.values import ExpressionError, parse
from thalweg.rdf.arena import Arena

Rows = list[tuple[str | None, ...]]


def one_by_one(expression: Expression, texts: Rows) -> tuple[list[str | None], list[bool]]:
    """Values and truths by the compiled function, for each row on its own."""
    evaluate = Compiler(NAMES).compile(expression)
    values: list[str | None] = []
    truths: list[bool] = []
    for row in texts:
        try:
            value = evaluate(Row([None if text is None else parse(text) for text in row]))
        except ExpressionError:
            values.append(None)
            truths.append(False)
            continue
        values.append(value.text)
        try:
            truths.append(truth(value))
        except ExpressionError:
            truths.append(False)
    return values, truths


def interned(arena: Arena, texts: Rows) -> np.ndarray:
    ids = [[0 if text is None else arena.intern(text.encode()) for text in row] for row in texts]
    return np.array(ids, dtype=np.int64).reshape(-1, len(NAMES))


def shown(arena: Arena, ids: np.ndarray) -> list[str | None]:
    return [arena.text(id_) if id_ else None for id_ in ids.tolist()]


@given(expressions, rows)
@example(Call("<", (Variable("a"), Constant(Const(TERMS[0])))), [(text, None, None) for text in TERMS])
def test_rows_together_have_the_results_that_they_have_alone(expression: Expression, texts: Rows) -> None:
    arena = Arena()
    evaluator = Evaluator(expression, NAMES, arena)
    ids = interned(arena, texts)
    values, truths = one_by_one(expression, texts)
    for _ in range(2):  # the second time from the memo
        assert shown(arena, evaluator.values(ids)) == values
        assert evaluator.holds(ids).tolist() == truths


@pytest.mark.parametrize("name", ["=", "!=", "<", ">", "<=", ">=", "SAMETERM", "+", "-", "*", "/"])
def test_every_pair_of_terms_has_the_same_result_in_the_kernel(name: str) -> None:
    pairs: Rows = [(first, second, None) for first in TERMS for second in TERMS]
    operation = Call(name, (Variable("a"), Variable("b")))
    asked = [operation]
    if name in "+-*/":
        # A comparison makes the kernel compute the operands; nothing equals its successor.
        zero, one = (Constant(Const(f'"{n}"^^<{XSD}integer>')) for n in (0, 1))
        asked = [Call("<", (zero, operation)), Call("=", (operation, Call("+", (operation, one))))]
    arena = Arena()
    ids = interned(arena, pairs)
    for expression in asked:
        evaluator = Evaluator(expression, NAMES, arena)
        assert evaluator.tier == "vectorised"
        assert shown(arena, evaluator.values(ids)) == one_by_one(expression, pairs)[0]


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("?a > 5 && ?b < 10", "vectorised"),
        ("?a + 1 > ?b * 2 || !bound(?c)", "vectorised"),
        ("?a IN (1, 2) && isIRI(?b) && sameTerm(?a, ?b)", "vectorised"),
        ("?a", "vectorised"),
        ('?a > 5 && regex(?b, "x")', "memo"),
        ("str(?a)", "memo"),
        ("?a + 1", "memo"),
        ("rand() < 0.5", "rows"),
    ],
)
def test_the_tier_is_known_without_data(text: str, tier: str) -> None:
    evaluator = Evaluator(read(text), NAMES, Arena())
    assert evaluator.tier == tier
    assert (not evaluator.leaves) == (tier == "vectorised") or text == "?a + 1"


@given(expressions, rows)
def test_ids_that_collide_and_arenas_that_are_compacted_change_no_result(
    expression: Expression, texts: Rows
) -> None:
    arena = Arena(hash_mask=0x7)
    evaluator = Evaluator(expression, NAMES, arena)
    first, second = texts[: len(texts) // 2], texts[len(texts) // 2 :]
    for part in (first, second, first):
        ids = interned(arena, part)
        values, truths = one_by_one(expression, part)
        assert shown(arena, evaluator.values(ids)) == values
        assert evaluator.holds(ids).tolist() == truths
        arena.compact(evaluator.live_ids())


def test_a_memo_keeps_no_texts_alive_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST_ENTRIES", 100)
    arena = Arena()
    evaluator = Evaluator(read("strlen(str(?a))"), NAMES, arena)
    kept = len(arena)
    empty = evaluator.nbytes
    for start in range(0, 1000, 50):
        texts: Rows = [(f'"{"x" * k}"', None, None) for k in range(start, start + 50)]
        found = shown(arena, evaluator.values(interned(arena, texts)))
        assert found == [f'"{k}"^^<{XSD}integer>' for k in range(start, start + 50)]
        assert evaluator.nbytes - empty < 100 * 1000
    more: Rows = [(f'"{"y" * k}"', None, None) for k in range(500)]
    assert shown(arena, evaluator.values(interned(arena, more))) == [
        f'"{k}"^^<{XSD}integer>' for k in range(500)
    ]
    arena.compact(evaluator.live_ids())
    assert len(arena) == kept


def test_an_expensive_part_is_evaluated_only_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "thalweg.expressions.strings.regexes.matches",
        lambda text, pattern, flags="": bool(asked.append(text)) or text == "b",
    )
    arena = Arena()
    evaluator = Evaluator(read('?a > 5 && regex(?b, "x")'), NAMES, arena)
    numbers = [f'"{n}"^^<{XSD}integer>' for n in (1, 6, 7, 8)]
    texts: Rows = list(zip(numbers, ['"a"', '"b"', '"b"', '"c"'], [None] * 4, strict=True))
    assert evaluator.holds(interned(arena, texts)).tolist() == [False, True, True, False]
    assert sorted(asked) == ["b", "c"]


def test_every_term_is_looked_for_in_every_set_as_in_a_single_row() -> None:
    texts: Rows = [*((term, None, None) for term in TERMS), (None, None, None)]
    constants = [Constant(Const(term)) for term in TERMS if not term.startswith("_")]
    arena = Arena()
    ids = interned(arena, texts)
    for first, second in zip(constants, [*constants[7:], *constants[:7]], strict=True):
        for name in ("IN", "NOT IN"):
            expression = Call(name, (Variable("a"), first, second))
            found = shown(arena, Evaluator(expression, NAMES, arena).values(ids))
            assert found == one_by_one(expression, texts)[0], expression


def test_what_is_remembered_goes_when_the_arena_drops_terms() -> None:
    arena = Arena()
    evaluator = Evaluator(read('concat(?a, "x")'), NAMES, arena)
    texts: Rows = [('"a"', None, None)]
    for _ in range(2):
        # The result has been dropped with the row: its id means nothing any more.
        assert shown(arena, evaluator.values(interned(arena, texts))) == ['"ax"']
        arena.compact(evaluator.live_ids())


def test_an_id_that_gets_another_text_gets_another_value() -> None:
    fresh = {text: Arena(hash_mask=0xF).intern(text.encode()) for text in (f'"{k}"' for k in range(100))}
    one, other = next(
        (a, b) for a in fresh for b in fresh if a != b and fresh[a] == fresh[b] and len(a) != len(b)
    )
    arena = Arena(hash_mask=0xF)
    evaluator = Evaluator(Call("STRLEN", (Variable("a"),)), NAMES, arena)
    lengths = []
    for text in (one, other):
        arena.clear()
        ids = interned(arena, [(text, None, None)])
        assert ids[0, 0] == fresh[text]
        lengths.append(shown(arena, evaluator.values(ids)))
    assert lengths == [[f'"{len(text) - 2}"^^<{XSD}integer>'] for text in (one, other)]


def test_evaluators_of_several_threads_share_an_arena() -> None:
    arena = Arena()
    texts: Rows = [(f'"{k}"', f'"{k}"^^<{XSD}integer>', None) for k in range(3_000)]
    ids = interned(arena, texts)

    def run(suffix: str) -> list[str | None]:
        # Each entry of a new result may move the arena's table, while others read it.
        evaluator = Evaluator(read(f'if(?b > 10, concat(?a, "{suffix}"), ?a)'), NAMES, arena)
        return shown_among_threads(
            np.concatenate([evaluator.values(ids[k : k + 7]) for k in range(0, 3_000, 7)])
        )

    def shown_among_threads(found: np.ndarray) -> list[str | None]:
        return list(arena.texts_among_threads(found.tolist()))

    suffixes = ["x", "y", "z"]
    with ThreadPoolExecutor(3) as pool:
        for suffix, found in zip(suffixes, pool.map(run, suffixes), strict=True):
            assert found == [f'"{k}{suffix if k > 10 else ""}"' for k in range(3_000)]
