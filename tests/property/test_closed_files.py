"""`thalweg materialise`: the closure of each graph of a file, against the rules as they are defined."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from thalweg.io.materialising import Materialisation, materialise
from thalweg.options import RunOptions
from thalweg.schema.axioms import schema_of
from thalweg.testing import entailment as judge
from thalweg.testing.strategies import schemas, typed_triples

_GRAPHS = ("", "<http://ex/g>", "<http://ex/h>", "_:g")


@given(st.data())
def test_each_graph_is_closed_by_itself(data: st.DataObject) -> None:
    axioms = data.draw(schemas(transitive=True))
    rules = data.draw(
        st.sampled_from([None, "default,transitive", "rdfs9,rdfs2,transitive", "rdfs7,owl:inverseOf"])
    )
    quads = data.draw(
        st.lists(st.tuples(typed_triples(blanks=True), st.sampled_from(_GRAPHS)), min_size=1, max_size=25)
    )
    wanted: set[tuple[str, ...]] = set()
    names = judge.ALL_RULES if rules is None else set(rules.split(","))
    if "default" in names:
        names = (names - {"default"}) | judge.ALL_RULES
    for graph in _GRAPHS:
        own = [triple for triple, name in quads if name == graph]
        wanted |= {(*triple, graph) for triple in judge.closed(axioms, own, names)}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.nq", Path(folder) / "out.nq"
        source.write_text("".join(f"{' '.join(triple)} {graph} .\n" for triple, graph in quads))
        schema = schema_of("".join(f"{' '.join(axiom)} .\n" for axiom in axioms), rules)
        done = materialise(Materialisation(str(source), target, schema, RunOptions()))
        found = [line.removesuffix(" .").strip() for line in target.read_text().splitlines()]
    assert len(found) == len(set(found)) == done.written
    assert set(found) == {" ".join(one).strip() for one in wanted}
    assert done.given == len(set(quads))
