"""Each rule against its file of before/after pairs: a query, `---`, the algebra before, `--->`, and after.

Before is what the earlier rules leave.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from thalweg import lang
from thalweg.algebra import rules
from thalweg.algebra.printing import show

FOLDER = Path(__file__).parent / "rules"
CASES = [
    pytest.param(
        path.stem, *re.split(r"\n---\n|\n--->\n", case), id=f"{path.stem}: {case.splitlines()[0][2:]}"
    )
    for path in sorted(FOLDER.glob("*.txt"))
    for case in path.read_text(encoding="utf-8").strip().split("\n\n\n")
]


@pytest.mark.parametrize(("rule", "text", "before", "after"), CASES)
def test_a_rule_rewrites_as_its_golden_file_says(monkeypatch, rule, text, before, after):
    monkeypatch.setattr(lang, "rewrite", lambda query: query)
    query = lang.parse(text, stream="http://ex/s")
    for earlier in rules.RULES[: [one.__name__ for one in rules.RULES].index(rule)]:
        query = replace(query, root=earlier(query.root))
    assert show(query) == before.strip()
    assert show(replace(query, root=getattr(rules, rule)(query.root))) == after.strip()


def test_every_rule_has_a_golden_file():
    assert {rule.__name__ for rule in rules.RULES} == {path.stem for path in FOLDER.glob("*.txt")}
