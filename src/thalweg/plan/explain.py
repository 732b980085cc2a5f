"""Explaining a query: what was understood, and how it is going to be run."""

from __future__ import annotations

from thalweg.algebra.nodes import Now, Query, Range, Unbounded, Window
from thalweg.kernels.store import ALL
from thalweg.plan.delta import INDEX_NAMES, delta_plans
from thalweg.plan.program import store_key


def explain(query: Query) -> str:
    """A page about a query: language, windows, patterns, delta plans, what reaches the output and when."""
    lines = [f"language   {query.language}"]
    lines += _sources(query)
    lines += _patterns(query)
    lines += _plans(query)
    lines += _output(query)
    lines.append("shards     1: every triple goes to one task")
    return "\n".join(lines)


def _sources(query: Query) -> list[str]:
    keys = list(dict.fromkeys(store_key(source) for source in query.sources))
    lines = []
    for number, source in enumerate(query.sources):
        store = keys.index(store_key(source))
        lines.append(f"source {number}   {source}; {_meaning(source.window)}; store {store}")
    return lines


def _meaning(window: Window) -> str:
    match window:
        case Unbounded():
            return "holds everything inserted"
        case Now():
            return "holds one event"
        case Range(_, None):
            return "slides with each instant"
        case Range(width, step) if step is not None and step > width:
            return "reports at each step, with gaps between"
        case Range(width, step) if step == width:
            return "tumbles"
        case _:
            return "reports at each step, overlapping"


def _patterns(query: Query) -> list[str]:
    lines = [
        f"pattern {number}  {pattern}   (source {pattern.source}, line {pattern.line}:{pattern.column})"
        for number, pattern in enumerate(query.patterns)
    ]
    return lines + [f"fixed      ?{name} is {value}" for name, value in query.fixed]


def _plans(query: Query) -> list[str]:
    lines = []
    for plan in delta_plans(query):
        steps = [f"{probe.pattern} by {INDEX_NAMES[probe.index]}" for probe in plan.probes]
        scans = " (a product of parts that share no variable)" if _has_product(query, plan.start) else ""
        lines.append(f"delta {plan.start}    " + (", then ".join(steps) or "is a solution by itself") + scans)
    return lines


def _has_product(query: Query, start: int) -> bool:
    bound = set(query.patterns[start].variables)
    for probe in next(plan for plan in delta_plans(query) if plan.start == start).probes:
        variables = set(query.patterns[probe.pattern].variables)
        if (variables and not variables & bound) or probe.index == ALL:
            return True
        bound |= variables
    return False


def _output(query: Query) -> list[str]:
    shown = " ".join(f"?{name}" for name in query.select) or "(no variables)"
    distinct = "DISTINCT " if query.distinct else ""
    if query.per_event:
        how = "one row per solution and event, never retracted"
    elif query.operator is None:
        how = "deltas: + when a solution begins, - when it ends, each as soon as it is known"
    elif query.operator == "RSTREAM":
        how = "RSTREAM: the whole answer at each report, once the report's instant is complete"
    else:
        what = "enters" if query.operator == "ISTREAM" else "leaves"
        how = f"{query.operator}: what {what} at each instant, once the instant is complete"
    lines = [f"output     {distinct}{shown}; {how}"]
    if query.output is not None:
        lines.append(f"as stream  <{query.output}>")
    return [*lines, "work       incremental: each triple costs what it joins with, not what the window holds"]
