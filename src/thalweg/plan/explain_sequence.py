"""Explaining a sequence: its streams and atoms, the automaton that it is compiled to, and what reaches the output."""

from __future__ import annotations

from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Sequence
from thalweg.algebra.terms import Var
from thalweg.algebra.windows import show_duration
from thalweg.plan.automaton import (
    BEGIN,
    Acceptance,
    Automaton,
    automaton_of,
    describe,
    edges_of,
    shared_by,
)
from thalweg.plan.comparisons import not_by_instants
from thalweg.plan.drawing import Graph, dot, mermaid
from thalweg.plan.sequence_atoms import askings_of
from thalweg.plan.sequence_shares import plan_sequence_shares
from thalweg.plan.shared_runs import not_shared
from thalweg.plan.svg import svg


def page_of(query: Query, sequence: Sequence, shards: int = 1) -> list[str]:
    """The lines of the page about a sequence, spread over at most so many shards."""
    automaton = automaton_of(sequence)
    return [
        f"language   {query.language}",
        *(f"stream     <{stream}>" for stream in sequence.streams),
        f"sequence   {sequence.pattern} within {show_duration(sequence.within)}",
        *([f"partition  by ?{sequence.partition}"] if sequence.partition else []),
        *([f"skip       after a match {sequence.skip}"] if sequence.skip else []),
        *([f"consume    {sequence.consume}"] if sequence.consume else []),
        *([f"timed out  partial matches, as ?{sequence.timed_out}"] if sequence.timed_out else []),
        *_atoms(sequence),
        *describe(automaton),
        *_output(query, automaton),
        *_asked(sequence),
        *_index(sequence, automaton),
        *_runs(sequence, automaton),
        *_shards(query, shards),
    ]


def _asked(sequence: Sequence) -> list[str]:
    """Which atoms are one query, and which are asked lazily."""
    askings = askings_of(sequence)
    shown = [" and ".join(atom.name for atom in asking.atoms) for asking in askings]
    lines = []
    for number, asking in enumerate(askings):
        where = []
        for one in asking.evidence:
            streams = [f"<{stream}> has an event" for stream in sorted(one.streams)]
            where.append(" and ".join([*(f"{shown[k]} matched" for k in one.askings), *streams]))
        if where:
            lines.append(f"lazy       {shown[number]}: asked at an instant where {'; or where '.join(where)}")
        elif len(asking.atoms) > 1:
            lines.append(f"shared     {shown[number]}: one query of each event")
    return lines


def _index(sequence: Sequence, automaton: Automaton) -> list[str]:
    """By what the runs are found that an event of each state can extend; the newest come first, up to the window."""
    found: dict[str, list[int]] = {}
    for number, state in enumerate(automaton.states):
        for edge in state.edges:
            if edge.parent != BEGIN:
                names = shared_by(sequence, automaton, state, edge)
                by = "the values of " + " ".join(f"?{name}" for name in names) if names else "time alone"
                found.setdefault(by, []).append(number)
    return [
        f"index      into state {', '.join(map(str, dict.fromkeys(states)))}: runs by {by}, within the window"
        for by, states in found.items()
    ]


def _runs(sequence: Sequence, automaton: Automaton) -> list[str]:
    reason = not_by_instants(sequence)
    if reason is not None:
        return [f"runs       by joins of whole batches: {reason}"]
    reason = not_shared(sequence, automaton)
    if reason is not None:
        return [
            "runs       in a pool, instant by instant, while what is compared are numbers",
            f"           one row each: {reason}",
        ]
    return ["runs       in a shared buffer, instant by instant, while what is compared are numbers"]


def _shards(query: Query, wanted: int) -> list[str]:
    shares = plan_sequence_shares(query, wanted)
    if not shares.roles:
        return [f"shards     {shares.shards}: every triple goes to one task ({shares.reason})"]
    ((name, many),) = shares.shares
    lines = [f"shards     {many}: {Var(name)} {many} ({shares.reason})"]
    for role in shares.roles:
        where = "to all" if role.dimensions == (None, None, None) else f"by {Var(name)}"
        lines += [f"route {number}    {where}: {query.patterns[number]}" for number in role.patterns]
    return lines


def _atoms(sequence: Sequence) -> list[str]:
    lines = []
    for atom in sequence.atoms:
        shown = " . ".join(map(str, atom.query.patterns))
        lines.append(f"atom {atom.name:<6}on <{atom.stream}>: {shown}")
        lines += [f"  filter   {condition.expression} on the join" for condition in atom.conditions]
        if atom.query.contradiction is not None:
            lines.append(f"  doubt    it matches no event: {atom.query.contradiction}")
    return lines


def _output(query: Query, automaton: Automaton) -> list[str]:
    one = "graph event" if query.template is not None else "row"
    shown = " ".join(f"?{name}" for name in query.columns) or "(no variables)"
    when = "its last event"
    if any(map(_waits, automaton.acceptances)):
        when += ", or, behind a last negation, of the end of the window"
    retracts = query.sequence is not None and query.sequence.retracts
    retracted = "retracted when an event is deleted within the window" if retracts else "never retracted"
    lines = [f"template   {triple}" for triple in query.template or ()]
    lines.append(
        f"output     {'DISTINCT ' if query.distinct else ''}{shown}; one {one} per match, at the time of {when}, "
        f"once that instant is complete; {retracted}"
    )
    if query.output is not None:
        lines.append(f"as stream  <{query.output}>")
    return lines


def _waits(acceptance: Acceptance) -> bool:
    return acceptance.waits


def draw_automaton(sequence: Sequence, format: str) -> str:
    """The automaton as a text of Graphviz or Mermaid, or as SVG."""
    automaton = automaton_of(sequence)
    labels: list[tuple[str, ...]] = [("begin",)]
    accepting = {one.state for one in automaton.acceptances}
    lines = list(describe(automaton))
    for number in range(len(automaton.states)):
        label = lines[number].removeprefix(f"state {number}").strip()
        labels.append((f"{number}: {label}", *(["accepts"] if number in accepting else [])))
    found = dict.fromkeys((parent - BEGIN, state - BEGIN) for parent, state, _ in edges_of(automaton))
    if format == "svg":
        # That drawing is of trees: each state below the first one that it can come after.
        first = {state: parent for parent, state in reversed(found)}
        tree = Graph("automaton, from top to bottom", tuple(labels), tuple(first.items()))
        return svg([tree], "automaton of a sequence")
    graph = Graph("automaton", tuple(labels), tuple(found))
    return {"dot": dot, "mermaid": mermaid}[format]([graph])
