"""What makes a page of `explain` easier to read: names with the query's prefixes, and a key to its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from thalweg.algebra.terms import XSD
from thalweg.lang.text import QueryText

_PREFIX = re.compile(r"\bPREFIX\s+([^\s:<>]*):\s*<([^<>\s]+)>", re.IGNORECASE)
_IRI = re.compile(r'"(?:[^"\\]|\\.)*"|<([^<>"{}|^`\\\x00-\x20]+)>')
_LOCAL = re.compile(r"(?:[\w-](?:[\w.-]*[\w-])?)?")
_TYPE = re.compile(r"(?<=\S )<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#type>(?= \S)")

_WORDS = {
    "source": "streams seen through a window; sources with the same streams and content share a store of triples",
    "pattern": "a triple pattern, and the place where it is written",
    "fixed": "a variable that can only have one value",
    "delta": "what happens when a triple fits this pattern: which patterns are probed, in which order, by which index "
    "(s, p, o: the terms that are known; scan: every live triple)",
    "part": "patterns that share variables; each part is matched apart",
    "product": "the combinations of the solutions of the parts",
    "logical": "the query as SPARQL algebra, after the rewrite rules",
    "physical": "the operators, each above its inputs; state is what an operator keeps",
    "leaf": "patterns that the match kernel solves together",
    "co-group": "inputs that meet by key: joins, OPTIONAL, MINUS, EXISTS",
    "vectorised": "compiled code over whole columns",
    "memo": "evaluated once for each combination of terms, and remembered within bounds",
    "slow path": "evaluated anew for each row",
    "template": "a triple that each solution is made into",
    "output": "the columns of a row, and when rows are emitted",
    "route": "to which of the shards (tasks on Spark) the triples of this pattern go",
    "copies": "how often a triple is sent, on average",
    "static": "triples of static graphs that fit this pattern, before a schema adds to them, and how many a shard has; "
    "each machine maps one binary file of them",
    "cut": "rows whose changes go from the first stage of tasks on Spark to the second",
    "stage": "what is done in the second stage, and why there is one",
    "warning": "what is valid, and perhaps not intended",
    "doubt": "what is valid, and probably not intended",
}
"""What the words of a page mean, in the order in which they occur."""


def with_key(lines: Iterable[str]) -> list[str]:
    """A page with a key to those of its words that a reader may not know."""
    page = list(lines)
    heads = {words[0] for line in page if (words := line.split())}
    text = "\n".join(page)
    used = [word for word in _WORDS if word in heads or (word in _INSIDE and word in text)]
    width = max(map(len, used), default=0)
    return [*page, "", "key", *(f"  {word:<{width}}  {_WORDS[word]}" for word in used)]


_INSIDE = ("co-group", "vectorised", "memo", "slow path")
"""Words that occur within lines."""


def prefixes_of(text: str) -> dict[str, str]:
    """The prefixes that a query declares, without those of its comments; and `xsd`.

    >>> prefixes_of("PREFIX ex: <http://ex/> # PREFIX no: <http://no/>")
    {'xsd': 'http://www.w3.org/2001/XMLSchema#', 'ex': 'http://ex/'}
    """
    return {"xsd": XSD, **dict(_PREFIX.findall(QueryText(text).text))}


def shortened(line: str, prefixes: Mapping[str, str]) -> str:
    """A line in which IRIs are written with prefixes, as far as these are declared; `a` is rdf:type.

    >>> shortened('?x <http://ex/p> "<http://ex/q>"^^<http://ex/t>', {"ex": "http://ex/"})
    '?x ex:p "<http://ex/q>"^^ex:t'
    """

    def name(match: re.Match[str]) -> str:
        iri = match[1]
        if iri is None:
            return match[0]
        found = [(len(base), prefix, base) for prefix, base in prefixes.items() if iri.startswith(base)]
        for size, prefix, _ in sorted(found, reverse=True):
            if _LOCAL.fullmatch(iri[size:]):
                return f"{prefix}:{iri[size:]}"
        return match[0]

    return _IRI.sub(name, _TYPE.sub("a", line))
