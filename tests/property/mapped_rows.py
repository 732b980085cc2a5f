"""An independent, slow evaluator of mappings: strings and pyoxigraph's terms, and nothing of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

import pyoxigraph as ox

XSD = "http://www.w3.org/2001/XMLSchema#"
Triple = tuple[str, str, str]

# RFC 3987: ucschar without the planes' last two code points; checked by hand against the grammar.
_UCSCHAR = re.compile(
    "[\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd]"
)


def iri_safe(text: str) -> str:
    return "".join(c if _UCSCHAR.fullmatch(c) else quote(c, safe="-._~") for c in text)


@dataclass(frozen=True)
class Rule:
    """One triple of a row: subject and object as format strings of columns, and what the object is."""

    s: str
    p: str
    o: str
    kind: str = "literal"
    datatype: str | None = None
    language: str | None = None


def columns_in(template: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", template)


def triples_of(row: dict[str, str], rules: list[Rule]) -> frozenset[ox.Triple]:
    """The triples of a row whose empty cells are missing; blank nodes are called `_:label`."""
    made = set()
    for rule in rules:
        needed = columns_in(rule.s) + columns_in(rule.o)
        if any(not row[name] for name in needed):
            continue
        safe = {name: iri_safe(value) for name, value in row.items()}
        made.add(ox.Triple(_node(rule.s, safe), ox.NamedNode(rule.p), _object(rule, row, safe)))
    return frozenset(made)


def _node(template: str, safe: dict[str, str]) -> ox.NamedNode | ox.BlankNode:
    if template.startswith("_:"):
        return ox.BlankNode(template[2:])
    return ox.NamedNode(template.format(**safe))


def _object(
    rule: Rule, row: dict[str, str], safe: dict[str, str]
) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if rule.kind == "iri":
        return _node(rule.o, safe)
    value = rule.o.format(**row)
    if rule.language:
        return ox.Literal(value, language=rule.language)
    return ox.Literal(value, datatype=ox.NamedNode(rule.datatype)) if rule.datatype else ox.Literal(value)


def yarrrml(rules: list[Rule], event: str = "", rows: str = "") -> str:
    """The rules as a mapping."""
    lines = ["mappings:"]
    for number, rule in enumerate(rules):
        s, o = (re.sub(r"\{(\w+)\}", r"$(\1)", text) for text in (rule.s, rule.o))
        end = f", {rule.language}~lang" if rule.language else f', "{rule.datatype}"' if rule.datatype else ""
        if rule.kind == "iri":
            o += "~iri"
        lines += [f"  m{number}:", f'    s: "{s}"', "    po:", f'      - ["{rule.p}", "{o}"{end}]']
    return "\n".join([*lines, event, rows, ""])
