from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from queries import P, query

from thalweg.algebra.nodes import Filter, leaves, walk
from thalweg.algebra.rules import drop_repeated_patterns, rewrite
from thalweg.algebra.terms import Const, Pattern, Var

A, B = (Const.iri(f"http://ex/{name}") for name in "ab")


def test_a_rule_that_finds_nothing_to_do_returns_the_same_query():
    same = query()
    assert rewrite(same) is same


def test_a_variable_with_two_values_leaves_an_empty_query_with_the_same_columns():
    before = query(equalities=(("x", A), ("x", B, 7, 8)))
    after = rewrite(before)
    assert after.empty == "?x cannot be <http://ex/a> and <http://ex/b> at once (line 7:8)"
    assert after.columns == before.columns != ()
    assert not any(pattern.possible for pattern in after.patterns)


def test_a_condition_on_a_variable_of_no_pattern_empties_the_query():
    after = rewrite(query(equalities=(("z", A, 2, 3),)))
    assert after.empty == "?z is bound by no pattern of the group of this filter (line 2:3)"


def test_the_same_pattern_over_two_sources_is_two_patterns():
    one = query().patterns[0]
    sources = (*query().sources, replace(query().sources[0], name="w"))
    asked = query(sources=sources, patterns=(one, replace(one, source=1), one))
    assert [p.source for p in leaves(drop_repeated_patterns(asked.root))] == [0, 1]


TERMS = st.sampled_from([Var("x"), Var("y"), Var("z"), A, B, P])
PATTERNS = st.lists(st.builds(Pattern, TERMS, TERMS, TERMS), min_size=1, max_size=4)
TRIPLES = st.frozensets(st.tuples(*[st.sampled_from([A, B, P])] * 3), max_size=8)


@given(PATTERNS, TRIPLES, st.dictionaries(st.sampled_from("xyz"), st.sampled_from([A, B]), max_size=2))
def test_rules_change_no_answer(patterns, triples, values):
    bound = {name for pattern in patterns for name in pattern.variables}
    values = {name: value for name, value in values.items() if name in bound}
    before = query(
        select=tuple(sorted(bound)),
        patterns=tuple(patterns),
        equalities=tuple(values.items()),
    )
    after = rewrite(before)
    assert not any(isinstance(node, Filter) for node in walk(after.root))
    assert answer(after, triples, {}) == answer(before, triples, values)


def answer(asked, triples, values):
    solutions = [dict(asked.fixed)]
    for pattern in asked.patterns:
        solutions = [
            more for one in solutions for triple in triples if (more := joined(one, pattern, triple))
        ]
    kept = [s for s in solutions if all(s[name] == value for name, value in values.items())]
    return sorted([tuple(s[name].text for name in asked.select) for s in kept])


def joined(solution, pattern, triple):
    bindings = dict(solution)
    for term, value in zip(pattern.terms, triple, strict=True):
        if (bindings.setdefault(term.name, value) if isinstance(term, Var) else term) != value:
            return None
    return bindings or {"": None}
