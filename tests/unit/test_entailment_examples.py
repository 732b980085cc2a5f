"""Entailment by examples: one session, one schema, and what its queries see."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.errors import UsageError
from thalweg.schema import schema_of

S = "http://ex/s"
PREFIXES = """PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX : <http://ex/>
"""


def asked(session: tw.Session, body: str, schema: str, window: str = "[RANGE 10]", **options: object):
    text = f"PREFIX : <http://ex/> SELECT * FROM STREAM <{S}> {window} WHERE {{ {body} }}"
    return session.register(text, schema=PREFIXES + schema, **options)


def push(session: tw.Session, at: int, graph: str, op: str = "insert") -> None:
    session.push(S, at=at, graph=f"PREFIX : <http://ex/> {graph}", format="turtle", op=op)


def told(query: tw.ContinuousQuery) -> list[tuple[int, str, tuple[str, ...]]]:
    return [
        (
            int(row.at) // 1000,
            row.op,
            tuple(value.removeprefix("<http://ex/").rstrip(">") for value in row.bindings.values()),
        )
        for row in query.poll()
    ]


def test_a_derived_triple_is_cut_to_the_end_of_the_supports_that_are_left():
    session = tw.Session()
    query = asked(session, "?x a :C", ":p rdfs:domain :C . :q rdfs:domain :C .")
    push(session, 1, ":x :p 1 .")
    push(session, 5, ":x :q 2 .")
    push(session, 7, ":x :q 2 .", op="delete")
    session.advance(40)
    assert told(query) == [(1, "+", ("x",)), (11, "-", ("x",))]


def test_the_same_triple_asserted_and_derived_is_one_and_stays_while_one_of_them_does():
    session = tw.Session()
    query = asked(session, "?x a :C", ":p rdfs:domain :C .", window="")
    push(session, 1, ":x a :C . :x :p 1 .")
    push(session, 2, ":x a :C .", op="delete")
    push(session, 3, ":x a :C .", op="delete")
    assert told(query) == [(1, "+", ("x",))]
    assert session.stats.absent == 1
    push(session, 4, ":x :p 1 .", op="delete")
    assert told(query) == [(4, "-", ("x",))]


def test_supports_may_come_from_several_streams_of_one_window():
    session = tw.Session()
    query = session.register(
        "PREFIX : <http://ex/> SELECT * FROM STREAM <http://ex/s> [RANGE 10] FROM STREAM <http://ex/t> [RANGE 10] "
        "WHERE { ?x a :C }",
        schema=PREFIXES + ":p rdfs:domain :C .",
    )
    session.push("http://ex/s", at=1, graph="<http://ex/x> <http://ex/p> <http://ex/y> .")
    session.push("http://ex/t", at=4, graph="<http://ex/x> <http://ex/p> <http://ex/z> .")
    session.push("http://ex/t", at=6, graph="<http://ex/x> <http://ex/p> <http://ex/y> .", op="delete")
    session.advance(30)
    assert told(query) == [(1, "+", ("x",)), (14, "-", ("x",))]


def test_a_transitive_property_makes_chains_that_go_with_their_links():
    session = tw.Session()
    query = asked(
        session,
        ":a :part ?y",
        ":part a owl:TransitiveProperty ; owl:inverseOf :whole . :piece rdfs:subPropertyOf :part .",
        window="",
        rules="default,transitive",
    )
    push(session, 1, ":a :part :b . :c :whole :b . :c :piece :d .")
    assert sorted(told(query)) == [(1, "+", ("b",)), (1, "+", ("c",)), (1, "+", ("d",))]
    push(session, 2, ":c :whole :b .", op="delete")
    assert sorted(told(query)) == [(2, "-", ("c",)), (2, "-", ("d",))]


PARTS = ":part a owl:TransitiveProperty ; owl:inverseOf :whole ; rdfs:range :Part . :piece rdfs:subPropertyOf :part ."


@pytest.mark.parametrize("body", ["?x :p ?y", "?x :p+ ?y", "?x :p :B"])
def test_a_literal_is_on_the_way_of_a_chain_and_never_its_first_term(body):
    session = tw.Session()
    schema = "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . "
    schema += "rdf:type rdfs:subPropertyOf :p . :p a owl:TransitiveProperty . :r rdfs:range :B ."
    query = asked(session, body, schema, rules="default,transitive")
    push(session, 1, ":x :r 5 .")
    assert told(query) == []  # 5 a :B, so 5 :p :B, in generalised RDF
    push(session, 2, ":z :p 5 .")
    assert (2, "+", ("z",) if body == "?x :p :B" else ("z", "B")) in told(query)


def test_chains_lead_over_streamed_and_static_triples_and_follow_deletes_and_reloads():
    session = tw.Session()
    session.load("PREFIX : <http://ex/> :b :part :c . :c :piece :d .")
    query = asked(session, ":a :part ?y", PARTS, window="", rules="default,transitive")
    push(session, 1, ":b :whole :a . :d :part :e .")
    assert sorted(told(query)) == [(1, "+", (name,)) for name in "bcde"]
    push(session, 2, ":c :piece :d .", op="delete")  # no delete of a stream touches static data
    assert told(query) == []
    session.load("PREFIX : <http://ex/> :b :part :d .", replace=True)
    session.advance(3)
    assert told(query) == [(2, "-", ("c",))]
    session = tw.Session.restore(session.save())
    push(session, 4, ":b :whole :a .", op="delete")
    assert sorted(told(session.queries[0])) == [(4, "-", (name,)) for name in "bde"]


def test_chains_do_not_lead_from_one_graph_of_the_dataset_into_another():
    session = tw.Session()
    session.load("PREFIX : <http://ex/> :b :part :c . :c :part :d .", graph="http://ex/g")
    query = asked(
        session,
        "{ :a :part ?y } UNION { GRAPH :g { :b :part ?y } }",
        PARTS,
        window="",
        rules="default,transitive",
    )
    push(session, 1, ":a :part :b .")
    assert sorted(told(query)) == [(1, "+", (name,)) for name in "bcd"]


def test_chains_of_one_event_lead_over_static_triples():
    session = tw.Session()
    session.load("PREFIX : <http://ex/> :b :part :c . :d :part :e .")
    query = asked(session, ":a :part ?y . ?y a :Part", PARTS, window="[NOW]", rules="default,transitive")
    push(session, 1, ":a :part :b .")
    push(session, 2, ":a :part :d .")
    assert sorted(told(query)) == [(1, "+", ("b",)), (1, "+", ("c",)), (2, "+", ("d",)), (2, "+", ("e",))]


@pytest.mark.parametrize(
    ("body", "schema", "reason"),
    [
        ("?x ?p ?y", ":p a owl:TransitiveProperty .", "a variable predicate under the rule transitive"),
        ("?x :q ?y", ":p a owl:TransitiveProperty ; rdfs:subPropertyOf :q .", "is not transitive itself"),
        (
            "?x :q ?y",
            "PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> rdf:type a owl:TransitiveProperty .",
            "rdf:type",
        ),
    ],
)
def test_what_transitive_cannot_answer_is_refused(body, schema, reason):
    with pytest.raises(tw.UnsupportedError, match=reason):
        asked(tw.Session(), body, schema, rules="default,transitive")


def test_patterns_under_different_windows_share_one_network_and_what_follows_is_found_once(monkeypatch):
    from thalweg.schema.expansion import Expansion

    made = []
    found = Expansion._derive_rows
    monkeypatch.setattr(
        Expansion, "_derive_rows", lambda self, *given: made.append(self) or found(self, *given)
    )
    session = tw.Session()
    windows = ("", "[RANGE 10ms]", "[RANGE 20ms STEP 5ms]")
    queries = [asked(session, "?x a :C", ":p rdfs:domain :C .", window=window) for window in windows]
    other = asked(session, "?x a :D", ":p rdfs:domain :C . :C rdfs:subClassOf :D .", window="[RANGE 10ms]")
    push(session, 1, ":x :p :y .")
    assert len(made) == 2, "one for three windows, one for the other schema"
    assert len(set(made)) == 2
    push(session, 2, ":x :p :y .", op="delete")
    push(session, 3, ":z :p :y .")
    session.advance(50)
    assert [told(query)[-1][1:] for query in queries] == [("+", ("z",)), ("-", ("z",)), ("-", ("z",))]
    assert told(other)[-1] == (13, "-", ("z",))


def test_rules_without_a_schema_are_refused():
    with pytest.raises(UsageError, match="none is given"):
        tw.Session().register(f"SELECT * FROM STREAM <{S}> WHERE {{ ?x ?p ?y }}", rules="default")


def test_readers_keep_only_triples_from_which_something_visible_follows():
    session = tw.Session()
    asked(session, "?x a :C", ":p rdfs:domain :C . :q rdfs:domain :D . :A rdfs:subClassOf :C .")
    kept = {(one.p or b"").decode().rpartition("/")[2] for one in session.prune().signatures}
    assert kept == {"p>", "22-rdf-syntax-ns#type>"}
    assert {one.o for one in session.prune().signatures if b"type" in (one.p or b"")} == {
        b"<http://ex/A>",
        b"<http://ex/C>",
    }


# Sparkwave's worked example (section 3.8). The paper draws its ontology and networks (figures 4 and 5) as pictures;
# this is written after its text: FOAF and SIOC integrate two platforms, and the query asks who talks on both about one
# place. As there, the reduced network has two classes instead of eight, and four S-links instead of fifteen.
SOCIAL = """PREFIX fb: <http://fb/> PREFIX tw: <http://tw/> PREFIX sioc: <http://sioc/> PREFIX foaf: <http://foaf/>
foaf:Person rdfs:subClassOf foaf:Agent . fb:User rdfs:subClassOf foaf:Person . tw:User rdfs:subClassOf foaf:Person .
sioc:Post rdfs:subClassOf sioc:Item . fb:StatusUpdate rdfs:subClassOf sioc:Post . tw:Tweet rdfs:subClassOf sioc:Post .
fb:message rdfs:domain fb:StatusUpdate . tw:text rdfs:domain tw:Tweet .
fb:from rdfs:subPropertyOf sioc:has_creator ; rdfs:domain fb:StatusUpdate ; rdfs:range fb:User .
tw:from rdfs:subPropertyOf sioc:has_creator ; rdfs:domain tw:Tweet ; rdfs:range tw:User .
fb:place rdfs:subPropertyOf sioc:topic . tw:geo rdfs:subPropertyOf sioc:topic .
sioc:creator_of owl:inverseOf sioc:has_creator ; rdfs:domain foaf:Agent .
sioc:has_creator rdfs:domain sioc:Item . sioc:topic rdfs:domain sioc:Item .
fb:name rdfs:domain fb:User . tw:screen_name rdfs:domain tw:User ."""
SOCIAL_QUERY = """PREFIX fb: <http://fb/> PREFIX tw: <http://tw/> PREFIX sioc: <http://sioc/>
SELECT ?person ?place FROM STREAM <http://ex/s> [RANGE 1h] WHERE {
  ?a a fb:StatusUpdate ; sioc:has_creator ?person ; sioc:topic ?place .
  ?b a tw:Tweet ; sioc:has_creator ?person ; sioc:topic ?place }"""


def test_the_social_media_example_of_sparkwave_full_and_reduced():
    from thalweg.plan.epsilon import full_arcs, network_of, reduced_arcs

    query = tw.parse(SOCIAL_QUERY).under(schema_of(PREFIXES + SOCIAL))
    full, reduced = full_arcs(query.schema), reduced_arcs(network_of(query))

    def count(arcs, kind):
        return sum(arc.kind == kind for arc in arcs)

    assert len(query.schema.classes) == 8
    assert [count(full, kind) for kind in ("S", "O", "SO", "OS")] == [15, 2, 4, 2]
    assert {arc.target for arc in reduced if arc.target_is_class} == {
        "<http://fb/StatusUpdate>",
        "<http://tw/Tweet>",
    }
    assert [count(reduced, kind) for kind in ("S", "O", "SO", "OS")] == [4, 0, 4, 1]
    session = tw.Session()
    running = session.register(query)
    for at, line in enumerate(
        [
            "<http://d/1> <http://fb/from> <http://d/ann> .",
            "<http://d/1> <http://fb/place> <http://d/rome> .",
            "<http://d/2> <http://tw/text> 'Ciao' .",
            "<http://d/ann> <http://sioc/creator_of> <http://d/2> .",
            "<http://d/2> <http://tw/geo> <http://d/rome> .",
        ]
    ):
        session.push(S, at=at, graph=line, format="turtle")
    assert [row["person"] for row in running.poll()] == ["<http://d/ann>"]
