"""The entailment rules that a query can ask for, by name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from thalweg.errors import UsageError

DEFAULT = (
    "rdfs2",
    "rdfs3",
    "rdfs5",
    "rdfs7",
    "rdfs9",
    "rdfs11",
    "owl:inverseOf",
    "owl:SymmetricProperty",
    "owl:equivalentClass",
    "owl:equivalentProperty",
)
"""The ten rules that `default` stands for. Each reads one triple of the data."""
TRANSITIVE = "transitive"
"""The rule of owl:TransitiveProperty, which reads two: only on request."""
RULES = (*DEFAULT, TRANSITIVE)

_REGIMES = "http://www.w3.org/ns/entailment/"
_OWN = "urn:thalweg:rules:"
_RDFS = ("rdfs2", "rdfs3", "rdfs5", "rdfs7", "rdfs9", "rdfs11")

_SAME_AS = (
    "owl:sameAs is refused: it would replace terms in every triple of a graph, so that the closure of a window is no "
    "longer made of one triple at a time, and a delete would have to undo that"
)


def rules_of_regime(iri: str) -> tuple[str, ...]:
    """The rules of an entailment regime: W3C's RDFS, or `urn:thalweg:rules:` and the names of rules.

    >>> rules_of_regime("http://www.w3.org/ns/entailment/RDFS")
    ('rdfs2', 'rdfs3', 'rdfs5', 'rdfs7', 'rdfs9', 'rdfs11')
    >>> rules_of_regime("urn:thalweg:rules:rdfs9,transitive")
    ('rdfs9', 'transitive')
    """
    if iri == f"{_REGIMES}RDFS":
        return _RDFS
    if iri.startswith(_OWN):
        return rules_of(iri.removeprefix(_OWN))
    known = f"<{_REGIMES}RDFS> and <{_OWN}default>, or other names of rules after the last colon"
    raise UsageError(f"<{iri}> is not supported as an entailment regime: there are {known}")


def rules_of(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """The rules of a list of names, which replaces the default; `default` stands for the ten.

    >>> rules_of("default, transitive")[-2:], rules_of(["RDFS9"]), rules_of(None) == DEFAULT
    (('owl:equivalentProperty', 'transitive'), ('rdfs9',), True)
    """
    if names is None:
        return DEFAULT
    parts = names.split(",") if isinstance(names, str) else list(names)
    known = {rule.lower(): rule for rule in RULES} | {
        rule.removeprefix("owl:").lower(): rule for rule in RULES if rule.startswith("owl:")
    }
    known["owl:transitiveproperty"] = known["transitiveproperty"] = TRANSITIVE
    chosen: set[str] = set()
    for part in parts:
        name = part.strip() if isinstance(part, str) else repr(part)
        if name.lower() == "default":
            chosen.update(DEFAULT)
        elif name.lower() in known:
            chosen.add(known[name.lower()])
        elif name.lower() in ("owl:sameas", "sameas"):
            raise UsageError(_SAME_AS)
        else:
            near = get_close_matches(name, [*RULES, "default"], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{name!r:.60} is no rule: there are {', '.join(RULES)}, and default{hint}")
    if not chosen:
        raise UsageError("rules is a list with at least one name, or None for the default")
    return tuple(rule for rule in RULES if rule in chosen)
