"""The epsilon network of a query: the links of its schema, reduced to what the patterns can see, as lines and a graph.

Links are called as in Sparkwave: an S-link hands the subject of a triple to a class, an O-link its object, an SO-link
both ends to a property, an OS-link both of them swapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from thalweg.algebra.query import Query
from thalweg.schema.axioms import OBJECT, SAME, SUBJECT, SWAPPED, TYPE, Schema
from thalweg.schema.network import Form, Network, O, S

_FEW = 12
"""Names of sources that are shown; more are counted."""


class Arc(NamedTuple):
    """A link from a property or a class to another one."""

    source: str
    kind: str
    target: str
    target_is_class: bool


def network_of(query: Query) -> Network | None:
    """The network of a query's schema, reduced to what its patterns can see."""
    if query.schema is None:
        return None
    return Network(query.schema, tuple(dict.fromkeys(pattern.constants for pattern in query.patterns)))


def full_arcs(schema: Schema) -> set[Arc]:
    """The links of a schema as it is written."""
    arcs = {
        Arc(p, kind, target, kind in (SUBJECT, OBJECT))
        for p, found in schema.links.items()
        for kind, target in found
    }
    return arcs | {Arc(c, SUBJECT, above, True) for c, found in schema.supers.items() for above in found}


def reduced_arcs(network: Network) -> set[Arc]:
    """The links of a reduced and flattened network."""
    arcs = set()
    for entry in network.entries:
        known = entry.o or entry.s
        generic = set() if known is None else set(network.forms(entry.p))
        for form in entry.forms:
            if form == Form(S, entry.p, O) or form in generic:
                continue
            source = entry.p
            if known is not None:
                source = known if entry.p == TYPE else f"{entry.p} {known}"
            arcs.add(_arc(source, form))
    return arcs


def _arc(source: str, form: Form) -> Arc:
    if form.p == TYPE and form.o not in (S, O):
        kind = {S: SUBJECT, O: OBJECT}.get(form.s, f"{form.s} to")
        return Arc(source, kind, form.o, True)
    kind = {(S, O): SAME, (O, S): SWAPPED}.get((form.s, form.o), f"({form.s}, {form.o})")
    return Arc(source, kind, form.p, False)


def lines_of(query: Query) -> list[str]:
    """What `explain` says about the schema of a query."""
    network = network_of(query)
    if network is None:
        return []
    schema = network.schema
    arcs = reduced_arcs(network)
    lines = [
        f"schema     {schema.source}: {len(schema.properties):,} properties, {len(schema.classes):,} classes, "
        f"{len(full_arcs(schema)):,} links; rules {', '.join(schema.rules)}"
    ]
    if schema.ignored:
        lines.append(f"ignored    {sum(one.count for one in schema.ignored):,} axioms")
        lines += [f"  {one}" for one in schema.ignored]
    if schema.transitive:
        lines.append(f"transitive {', '.join(sorted(schema.transitive))}")
    size = "link" if len(arcs) == 1 else "links"
    lines.append(f"epsilon    reduced to what the patterns see: {len(arcs):,} {size}")
    for (target, is_class, kind), sources in _grouped(arcs):
        node = f"class {target}" if is_class else target
        lines.append(f"  {node} by {kind} of {_named(sources)}")
    return lines


def drawn(query: Query) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[int, int], ...]] | None:
    """The reduced network as labels and edges of a forest: what a pattern sees on top, what leads to it below."""
    network = network_of(query)
    if network is None:
        return None
    labels: list[tuple[str, ...]] = []
    edges: list[tuple[int, int]] = []
    places: dict[tuple[str, bool], int] = {}
    for (target, is_class, kind), sources in _grouped(reduced_arcs(network)):
        place = places.get((target, is_class))
        if place is None:
            place = places[target, is_class] = len(labels)
            labels.append(("class", target) if is_class else ("property", target))
        edges.append((len(labels), place))
        more = [f"and {len(sources) - _FEW:,} more"] if len(sources) > _FEW else []
        labels.append((f"{kind}-link", *sources[:_FEW], *more))
    if not labels:
        labels.append(("nothing that the patterns see follows",))
    return tuple(labels), tuple(edges)


def _grouped(arcs: Iterable[Arc]) -> list[tuple[tuple[str, bool, str], list[str]]]:
    found: dict[tuple[str, bool, str], list[str]] = {}
    for arc in sorted(arcs):
        found.setdefault((arc.target, arc.target_is_class, arc.kind), []).append(arc.source)
    return sorted(found.items())


def _named(sources: list[str]) -> str:
    more = f" and {len(sources) - _FEW:,} more" if len(sources) > _FEW else ""
    return ", ".join(sources[:_FEW]) + more
