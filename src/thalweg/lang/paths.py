"""Property paths as rdflib parses them: their parts, and which of them may be empty."""

from __future__ import annotations

from typing import Any

from rdflib.plugins.sparql.parserutils import CompValue

ALTERNATIVE, SEQUENCE, ELEMENT = "PathAlternative", "PathSequence", "PathElt"
INVERSE, NEGATED = "PathEltOrInverse", "PathNegatedPropertySet"
PATHS = (ALTERNATIVE, SEQUENCE, ELEMENT, INVERSE, NEGATED)
_STEPS = (ALTERNATIVE, SEQUENCE, ELEMENT)


def plain(path: Any) -> Any:
    """A path without the layers of one part that rdflib wraps around every predicate."""
    while isinstance(path, CompValue) and path.name in _STEPS and path.mod is None:
        parts = listed(path.part)
        if len(parts) != 1:
            break
        path = parts[0]
    return path


def listed(part: Any) -> list[Any]:
    """What rdflib has as a list, or alone where there is one."""
    return list(part) if isinstance(part, list) else [part]


def parts_of_sequence(path: Any) -> list[Any]:
    """The parts of a sequence; one that is a sequence itself gives its own parts.

    >>> parts_of_sequence("p")
    ['p']
    """
    step = plain(path)
    if isinstance(step, CompValue) and step.name == SEQUENCE:
        return [part for one in listed(step.part) for part in parts_of_sequence(one)]
    return [path]


def is_nullable(path: Any) -> bool:
    """Whether a path of length zero fulfils it.

    >>> is_nullable("p")
    False
    """
    step = plain(path)
    if not isinstance(step, CompValue) or step.name not in PATHS or step.name == NEGATED:
        return False
    parts = listed(step.part)
    if step.name == ALTERNATIVE:
        return any(map(is_nullable, parts))
    if step.name == ELEMENT and step.mod is not None and step.mod != "+":
        return True
    return all(map(is_nullable, parts))


def star_of(path: Any) -> tuple[Any, bool] | None:
    """What a path with `*` repeats, and whether backwards; None where it is none."""
    step, inverse = plain(path), False
    while isinstance(step, CompValue) and step.name == INVERSE:
        step, inverse = plain(step.part), not inverse
    if not isinstance(step, CompValue) or step.name != ELEMENT:
        return None
    (part,) = listed(step.part)
    return (part, inverse) if step.mod == "*" or (step.mod == "+" and is_nullable(part)) else None
