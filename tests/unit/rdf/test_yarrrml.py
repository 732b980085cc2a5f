"""The subset of YARRRML: what its forms mean, and what is refused, where."""

from __future__ import annotations

import pytest

from thalweg import UsageError
from thalweg.rdf.mapping import Column, Mapping, Term, Triple

HEAD = "prefixes: {ex: http://ex/}\nmappings:\n  m:\n    s: ex:$(a)\n"
S = Term("iri", ("http://ex/", Column("a")))
P = Term("iri", ("http://ex/p",))


def objects(po: str) -> list[Term]:
    return [triple.o for triple in Mapping(f"{HEAD}    po:\n      - {po}\n").rules.triples]


@pytest.mark.parametrize(
    ("po", "found"),
    [
        ("[ex:p, $(b)]", Term("literal", (Column("b"),))),
        ("{predicates: ex:p, objects: {value: $(b)}}", Term("literal", (Column("b"),))),
        (
            "[ex:p, $(b), xsd:integer]",
            Term("literal", (Column("b"),), "http://www.w3.org/2001/XMLSchema#integer"),
        ),
        ("{p: ex:p, o: [[$(b), EN~lang]]}", Term("literal", (Column("b"),), language="en")),
        ("{p: ex:p, o: {v: $(b), language: nl}}", Term("literal", (Column("b"),), language="nl")),
        ("[ex:p, ex:$(b)/c~iri]", Term("iri", ("http://ex/", Column("b"), "/c"))),
        ("{p: ex:p, o: {value: $(b), type: iri}}", Term("iri", (Column("b"),))),
        ("[a, ex:C]", Term("iri", ("http://ex/C",))),
        ("[ex:p, _:n]", Term("blank", ("n",))),
        ("[ex:p, constant]", Term("literal", ("constant",))),
        ('[ex:p, "ex:b"]', Term("literal", ("ex:b",))),
        ("{p: ex:p, o: {mapping: m}}", S),
        (r"[ex:p, $(speed \(km/h\))]", Term("literal", (Column("speed (km/h)"),))),
    ],
)
def test_the_forms_of_an_object(po: str, found: Term) -> None:
    assert objects(po) == [found]


def test_several_predicates_and_objects_are_all_combinations() -> None:
    assert len(objects("[[ex:p, ex:q], [$(b), $(c)]]")) == 4


def test_a_mapping_without_a_subject_has_a_blank_node_which_others_refer_to() -> None:
    text = "prefixes: {ex: http://ex/}\nmappings:\n  m: {po: [{p: ex:p, o: {mapping: n}}]}\n  n: {po: [[a, ex:C]]}\n"
    first, second = Mapping(text).rules.triples
    assert (first.s.kind, first.o) == ("blank", second.s)
    assert first.s != second.s


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the mapping is empty"),
        ("a: [", "m:1:5: not YAML"),
        ("mappings: {}", "there is no mapping"),
        (f"{HEAD}", "the mapping makes no triple"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nfoo: 1", "m:6:1: the mapping has no key 'foo'"),
        (
            f"{HEAD}    po: [[ex:p, ex:b]]",
            "m:5:17: 'ex:b' would be a literal here: write ex:b~iri for the IRI",
        ),
        (f"{HEAD}    po: [[xe:p, $(b)]]", "m:5:11: the prefix 'xe' is not declared"),
        (f"{HEAD}    po: [[ex:p, {{function: ex:f}}]]", "this subset of YARRRML has no functions"),
        (f"{HEAD}    condition: 1", "m:5:5: this subset of YARRRML has no conditions"),
        (f"{HEAD}    po: [[ex:p, $()]]", "a slot names its column"),
        (f"{HEAD}    po: [[ex:p, '$(b']]", "a slot is"),
        (f"{HEAD}    po: [[ex:p, $(b), en us~lang]]", "'en us' is not a language tag"),
        (f"{HEAD}    po: [[ex:p, {{mapping: n}}]]", "there is no mapping 'n': there are m"),
        (f"{HEAD}    po: [['ex:a b', $(b)]]", "' ' is not allowed in an IRI"),
        (f"{HEAD}    sources: [[a.csv~csv], [b.csv~csv]]", "the mappings read several sources"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{format: epoch-s}}", "event has no time"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{time: at}}", "time is one column, written"),
        (
            f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{time: $(t), format: iso}}",
            "a format of times is dateTime",
        ),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{time: $(t), format: '%Y-%m'}}", "these times name no zone"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{time: $(t), format: '%Y %Q'}}", "%Q is not supported"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nevent: {{time: $(t), zone: Mars}}", "'Mars' is no zone"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nrows: {{delimiter: '::'}}", "the delimiter is one ASCII character"),
        (f"{HEAD}    po: [[ex:p, $(b)]]\nrows: {{columns: [a, a]}}", "a column is named twice"),
        (
            f"{HEAD}    po: [[ex:p, $(b)]]\n  n: {{g: ex:g, po: [[ex:p, 1]]}}",
            "the mappings have different graphs",
        ),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_written(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Mapping(text, "m")
    assert message in str(refused.value)


def test_equal_triples_are_one_and_a_mapping_survives_pickling() -> None:
    import pickle

    mapping = Mapping(f"{HEAD}    po: [[ex:p, $(b)], [ex:p, $(b)]]")
    assert mapping.rules.triples == (Triple(S, P, Term("literal", (Column("b"),))),)
    assert pickle.loads(pickle.dumps(mapping)) == mapping
