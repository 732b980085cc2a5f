"""`explain` against golden files: each query of the folder as a text and as two drawings, for up to four shards.

Where plans change for a reason, `python tests/golden/test_golden_plans.py` writes the files anew: read the difference.
"""

from pathlib import Path

import pytest

from thalweg.lang import parse
from thalweg.plan.explain import explain

FOLDER = Path(__file__).parent / "plans"
QUERIES = sorted(FOLDER.glob("*.rq"))
SUFFIXES = {"text": ".txt", "dot": ".dot", "mermaid": ".mmd"}


def explained(path: Path, format: str) -> str:
    return explain(parse(path.read_text(encoding="utf-8")), 4, format=format) + "\n"


@pytest.mark.parametrize("format", SUFFIXES)
@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_plan_is_shown_as_in_its_golden_file(path, format):
    assert explained(path, format) == path.with_suffix(SUFFIXES[format]).read_text(encoding="utf-8")


if __name__ == "__main__":
    for path in QUERIES:
        for format, suffix in SUFFIXES.items():
            path.with_suffix(suffix).write_text(explained(path, format), encoding="utf-8")
