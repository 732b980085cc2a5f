"""The judges of the algebra without the engine: they agree, and the random queries are worth to be asked."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.testing.algebra import FEATURES, FORMS, algebra_questions, algebra_streams
from thalweg.testing.algebra_oracle import AlgebraOracle
from thalweg.testing.judge import TooLargeError
from thalweg.testing.judge_expressions import UndecidedError
from thalweg.testing.syntax import walk

WANTED = {
    *("Aggregate", "Bind", "Exists", "Filter", "Minus", "Optional", "Select", "Union", "Values"),
    *("Alternative", "Inverse", "Negated", "Sequence", "ZeroOrOne", "ZeroOrMore", "OneOrMore"),
}


@pytest.mark.slow
@pytest.mark.parametrize("sources", ["default", "named", "now"])
def test_the_judges_agree_on_queries_of_which_most_have_answers_that_change(sources: str) -> None:
    counts: Counter[str] = Counter()
    seen: Counter[str] = Counter()

    @settings(max_examples=100, derandomize=True, database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        events = data.draw(algebra_streams(blanks=data.draw(st.booleans())))
        question = data.draw(algebra_questions(events, features=FEATURES, forms=FORMS, sources=sources))
        oracle = AlgebraOracle(question, events)
        counts["asked"] += 1
        try:
            if question.per_event:
                answers = [Counter({row: n}) for row, n in oracle.per_event().items()]
            else:
                answers = [oracle.answer(t) for t in oracle.turns()]
        except (TooLargeError, UndecidedError):
            counts["undecided"] += 1
            return
        counts["with rows"] += any(answers)
        counts["that change"] += len({frozenset(answer.items()) for answer in answers}) > 1
        seen.update({type(node).__name__ for node in walk(question.select.where)})

    ask()
    # HAVING, LIMIT and OFFSET leave nothing of many an answer.
    assert counts["with rows"] > 0.5 * counts["asked"]
    assert sources == "now" or counts["that change"] > 0.4 * counts["asked"]
    assert counts["undecided"] < 0.05 * counts["asked"]
    assert set(seen) >= WANTED
    assert ("Graph" in seen) == (sources == "named")
