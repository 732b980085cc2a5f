"""The W3C SPARQL 1.1 query suite on a store on Spark: every test without named graphs.

`python tests/conformance/w3c_store.py` plays all of them and prints what does not pass; with `--rewrite` it writes the
refusals to `store_gaps.toml`. A wrong answer or a crash is never written there: it has to be mended.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from w3c_sparql import FOLDERS, HERE, STREAM, Case, Outcome, _rows, cases

import thalweg as tw
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.prune import Prune
from thalweg.testing.answers import Bag, by_value, equal_bags, lexical, term_of

LEDGER = HERE / "store_gaps.toml"
REASONS = {
    "paths": "paths with + and * are not followed on Spark",
    "exists": "EXISTS of a group that uses the outer solution otherwise than by joins and filters",
    "language": "refused in all runners: see sparql_gaps.toml",
}


def played() -> list[str]:
    """The names of the tests: evaluations over one graph."""
    return [
        name
        for name, case in cases().items()
        if case.kind == "evaluation"
        and not case.graphs
        and case.folder != "entailment"
        and case.folder in FOLDERS
    ]


def gaps() -> dict[str, str]:
    """The category of each test that is refused."""
    tables = tomllib.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    return {name: category for category, table in tables.items() for name in table["tests"]}


def batch_of(lines: str, arena: Arena) -> EventBatch:
    """An event with the triples of some N-Triples text."""
    reader = FORMATS["nt"].reader(arena, Prune.everything(), source="", blank_nodes="stable")
    chunk = reader.read(lines.encode())
    none = np.zeros(len(chunk), np.int64)
    return EventBatch(STREAM, Rows.inserts(none, none, none, chunk.s, chunk.p, chunk.o))


def bag_of(df: Any, text_of_ask: bool) -> Bag:
    """The rows of an answer on Spark."""
    rows = df.collect()
    if text_of_ask:
        return Counter([frozenset()] if rows[0]["answer"] else [])
    return Counter(
        frozenset((name, term_of(text)) for name, text in row.asDict().items() if text is not None)
        for row in rows
    )


def outcome(case: Case, spark: Any) -> Outcome:
    """Play one test."""
    folder = Path(tempfile.mkdtemp(prefix="w3c-store-"))
    try:
        store = tw.spark.store(folder / "store", spark=spark)
        arena = Arena()
        store.append(batch_of("".join(case.data), arena), arena)
        found = bag_of(store.ask(case.text), case.text.upper().find("ASK") >= 0 and _is_ask(case.text))
    except tw.UnsupportedError as error:
        return Outcome("refused", str(error))
    except Exception:
        return Outcome("crashed", traceback.format_exc())
    finally:
        shutil.rmtree(folder)
    assert case.expected is not None
    shape = lexical if case.plain else by_value
    if equal_bags(shape(found), shape(case.expected)):
        return Outcome("passed")
    return Outcome("wrong", "\n".join([*_rows("have", found), *_rows("want", case.expected), case.text]))


def _is_ask(text: str) -> bool:
    return tw.parse(text, stream=STREAM).ask


def _category(why: str) -> str:
    return "paths" if "paths with" in why else "exists" if "EXISTS" in why else "language"


def main() -> None:
    spark = tw.spark.session("w3c-store")
    found: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for name in played():
        done = outcome(cases()[name], spark)
        counts[done.result] += 1
        if done.result == "refused":
            found.setdefault(_category(done.why), []).append(name)
        if done.result in ("wrong", "crashed"):
            print(f"{name}: {done.result}\n{done.why}\n", flush=True)
    print(dict(counts), {category: len(names) for category, names in found.items()})
    if "--rewrite" in sys.argv:
        text = "# Tests that a store on Spark refuses; written by w3c_store.py --rewrite.\n"
        for category, names in sorted(found.items()):
            listed = "".join(f'  "{name}",\n' for name in names)
            text += f'\n[{category}]\nreason = "{REASONS[category]}"\ntests = [\n{listed}]\n'
        LEDGER.write_text(text)


if __name__ == "__main__":
    main()
