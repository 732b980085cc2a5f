"""The ledger of the W3C suites of SPARQL 1.1 queries and RDF semantics: which tests do not pass, and why.

`python tests/conformance/w3c_ledger.py` prints how many tests pass and why the others are refused; with `--rewrite` it
writes them to `sparql_gaps.toml`. A wrong answer or a crash is never written there: it has to be mended.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache

import w3c_semantics
import w3c_sparql
from w3c_sparql import HERE, Case, Outcome, outcome

LEDGER = HERE / "sparql_gaps.toml"
CATEGORIES: tuple[tuple[str, str, Callable[[Case], object]], ...] = (
    (
        "consistency",
        "asks whether a graph is consistent: no rule finds a contradiction",
        lambda case: case.kind == "consistency",
    ),
    (
        "rif",
        "the answer follows by rules in RIF, which are not read",
        lambda case: case.is_closed and "/rif" in case.name,
    ),
    (
        "owl:sameAs",
        "owl:sameAs is refused: it would replace terms in all triples (decision 0037)",
        lambda case: case.is_closed and "sameAs" in case.text,
    ),
    (
        "class expressions",
        "the query asks for members or parts of a class expression of OWL, and no rule reads these",
        lambda case: case.is_closed and re.search(r"owl:(Restriction|intersectionOf|unionOf)", case.text),
    ),
    (
        "schema triples",
        "the query asks for axioms that follow from others (reflexive ones too): no schema triple is answerable",
        lambda case: case.is_closed and re.search(r"rdfs:(subClassOf|subPropertyOf|domain|range)", case.text),
    ),
    (
        "axiomatic triples",
        "the answer follows by axioms about RDF's own vocabulary, or by rdf1: neither is applied",
        lambda case: case.name == "entailment/rdf01" or "rdfms-seq-representation" in case.name,
    ),
    (
        "datatypes",
        "the answer follows by the values of literals: two spellings of a value are two terms",
        lambda case: case.folder == "rdf-mt",
    ),
    (
        "service",
        "SERVICE is refused: a query makes no network call",
        lambda case: "SERVICE" in _code(case).upper(),
    ),
    (
        "static graphs",
        "FROM and FROM NAMED name static graphs, which come with the schema",
        lambda case: re.search(r"\bFROM\b", _code(case), re.IGNORECASE),
    ),
    (
        "instants",
        "NOW() over a dynamic graph would change the answer at every instant: it is for [NOW] (decision 0025)",
        lambda case: True,
    ),
)
MAY_DIFFER = ("rif", "owl:sameAs", "class expressions", "schema triples", "axiomatic triples", "datatypes")
"""Categories of tests that have an answer, which is another one; every other gap is a refusal."""


@cache
def cases() -> dict[str, Case]:
    """The tests of both suites, by name."""
    return w3c_sparql.cases() | w3c_semantics.cases()


def _code(case: Case) -> str:
    """The text of a query without its comments, strings and IRIs."""
    return re.sub(
        r"<[^<>\s]*>|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*", lambda m: "<>" if m[0][0] == "<" else '""', case.text
    )


def category(case: Case) -> str:
    """The first category that a test belongs to."""
    return next(name for name, _, applies in CATEGORIES if applies(case))


def is_gap(case: Case, found: Outcome) -> bool:
    """Whether a test that does not pass may stand in the ledger."""
    return found.result == "refused" or (found.result == "wrong" and category(case) in MAY_DIFFER)


def gaps() -> dict[str, str]:
    """The tests of the ledger, each with its category."""
    ledger = tomllib.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    return {test: name for name, table in ledger.items() for test in table["tests"]}


def main() -> None:
    """Play all tests, print the counts, and rewrite the ledger if asked."""
    found = {name: outcome(case) for name, case in cases().items()}
    tables: dict[str, list[str]] = {name: [] for name, _, _ in CATEGORIES}
    for name, result in found.items():
        if result.result != "passed" and is_gap(cases()[name], result):
            tables[category(cases()[name])].append(name)
    failed = [name for name, result in found.items() if result.result in ("wrong", "crashed")]
    failed = [name for name in failed if not is_gap(cases()[name], found[name])]
    for name in failed:
        print(f"--- {name}: {found[name].result}\n{found[name].why}")
    refusals = Counter(
        re.sub(r"^\S+ ", "", found[name].why) for names in tables.values() for name in names
        if found[name].result == "refused"
    )  # fmt: skip
    for why, count in refusals.most_common():
        print(f"{count:5} {why}")
    print(f"{sum(result.result == 'passed' for result in found.values()):5} passed")
    for name, names in tables.items():
        print(f"{len(names):5} {name}")
    print(f"{len(failed):5} wrong or crashed, not for the ledger: {' '.join(failed)}")
    if "--rewrite" in sys.argv:
        lines = [
            "# Tests of the W3C suites of SPARQL 1.1 queries and RDF semantics that do not pass, and why.\n"
            "# Written by w3c_ledger.py.\n"
        ]
        for name, reason, _ in CATEGORIES:
            if tables[name]:
                tests = "".join(f'  "{test}",\n' for test in tables[name])
                lines.append(f'\n["{name}"]\nreason = "{reason}"\ntests = [\n{tests}]\n')
        LEDGER.write_text("".join(lines))


if __name__ == "__main__":
    main()
