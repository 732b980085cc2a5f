"""The W3C suites of SPARQL 1.1 queries and RDF semantics: every test passes in three ways, or is in the ledger.

The ledger has a reason for each. The data are one graph; a stream in random order and batches; a stream with noise that
is deleted later. After a change of what the engine supports, `python tests/conformance/w3c_ledger.py --rewrite` writes
the ledger anew.
"""

from __future__ import annotations

import tomllib

import pytest
import w3c_ledger as ledger
import w3c_semantics as semantics
import w3c_sparql as suite

import thalweg as tw

absent = pytest.mark.skipif(
    not suite.ARCHIVE.exists(),
    reason=f"the W3C suites are not here: set THALWEG_CONFORMANCE to the folder of {suite.ARCHIVE.name}",
)
NAMES = list(ledger.cases()) if suite.ARCHIVE.exists() else []
GAPS = ledger.gaps()


@absent
@pytest.mark.parametrize("name", NAMES)
def test_it_is_answered_or_refused_as_the_suite_and_the_ledger_say(name: str) -> None:
    case = ledger.cases()[name]
    found = suite.outcome(case)
    if name not in GAPS:
        assert found.result == "passed", f"{found.result}: {found.why}"
        return
    assert found.result != "passed", f"it passes: remove it from {ledger.LEDGER.name}"
    assert ledger.is_gap(case, found), f"a gap is a refusal, and this is {found.result}: {found.why}"


@absent
def test_the_suite_is_whole_and_the_ledger_names_its_tests() -> None:
    kinds = [case.kind for case in suite.cases().values()]
    assert [kinds.count(kind) for kind in ("evaluation", "positive", "negative")] == [312, 66, 40]
    kinds = [case.kind for case in semantics.cases().values()]
    assert [kinds.count(kind) for kind in ("evaluation", "consistency")] == [38, 10]
    assert not set(GAPS) - set(NAMES)
    listed = [test for table in tomllib.loads(ledger.LEDGER.read_text()).values() for test in table["tests"]]
    assert len(listed) == len(set(listed))


@absent
def test_every_gap_has_the_reason_of_its_category() -> None:
    reasons = {name: table["reason"] for name, table in tomllib.loads(ledger.LEDGER.read_text()).items()}
    assert reasons == {name: reason for name, reason, _ in ledger.CATEGORIES if name in reasons}
    assert {name: ledger.category(ledger.cases()[name]) for name in GAPS} == GAPS


@absent
@pytest.mark.parametrize("name", sorted(suite.updates()) if suite.ARCHIVE.exists() else [])
def test_an_update_is_refused_as_no_query(name: str) -> None:
    with pytest.raises(tw.QueryError):
        tw.parse(suite.updates()[name], stream=suite.STREAM)


@absent
def test_noise_is_gone_at_the_end_and_all_ways_end_with_the_same_triples() -> None:
    import random

    for name in ("bind/bind01", "exists/exists03", "negation/subset-01", "cast/cast-bool"):
        case = suite.cases()[name]
        deleted = 0
        for way in suite.WAYS:
            held: dict[str, set[str]] = {stream: set() for stream, _ in case.streams}
            for stream, op, lines in suite._events(case, way, random.Random(1)):
                assert (set(lines) <= held[stream]) == (op == "delete")
                held[stream] = held[stream] | set(lines) if op == "insert" else held[stream] - set(lines)
                deleted += op == "delete"
            assert held == {stream: set(lines) for stream, lines in case.streams}
        assert deleted
