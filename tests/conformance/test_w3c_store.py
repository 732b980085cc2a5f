"""The W3C SPARQL 1.1 query suite on a store on Spark: a test passes, or is in the ledger of refusals.

`python tests/conformance/w3c_store.py` plays all tests; here is one of each part of the suite.
"""

from __future__ import annotations

from typing import Any

import pytest
import w3c_sparql as suite

import thalweg as tw

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(
        not suite.ARCHIVE.exists(),
        reason=f"the W3C suites are not here: set THALWEG_CONFORMANCE to the folder of {suite.ARCHIVE.name}",
    ),
]


def sample() -> list[str]:
    """The last test of each part of the suite, and two more of aggregates."""
    if not suite.ARCHIVE.exists():
        return []
    import w3c_store

    names = w3c_store.played()
    last = {name.partition("/")[0]: name for name in names}
    more = [name for name in names if name.startswith(("aggregates/agg-sum", "aggregates/agg-err"))][:2]
    return [*last.values(), *more]


@pytest.fixture(scope="module")
def spark() -> Any:
    return tw.spark.session("w3c-store")


@pytest.mark.parametrize("name", sample())
def test_it_is_answered_or_refused_as_the_ledger_says(name: str, spark: Any) -> None:
    import w3c_store

    found = w3c_store.outcome(suite.cases()[name], spark)
    expected = "refused" if name in w3c_store.gaps() else "passed"
    assert found.result == expected, found.why
