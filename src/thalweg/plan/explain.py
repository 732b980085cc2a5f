"""Explaining a query: what was understood, and how it is going to be run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thalweg.algebra.printing import tree
from thalweg.algebra.query import Query
from thalweg.algebra.terms import Var
from thalweg.algebra.windows import (
    ELEMENTS,
    Arrivals,
    Count,
    Entailed,
    Now,
    Range,
    Report,
    Static,
    Unbounded,
    Window,
    show_duration,
)
from thalweg.errors import UsageError
from thalweg.instants import show_instant
from thalweg.plan.compile import plan_of
from thalweg.plan.delta import INDEX_NAMES, components, plan_component
from thalweg.plan.describe import Describer, columns
from thalweg.plan.drawing import draw
from thalweg.plan.epsilon import lines_of
from thalweg.plan.explain_sequence import draw_automaton, page_of
from thalweg.plan.explain_static import placed
from thalweg.plan.legend import prefixes_of, shortened, with_key
from thalweg.plan.physical import (
    EVENT,
    NAMES,
    CoGroup,
    Constants,
    Distinct,
    Physical,
    Rename,
    Scan,
    Slice,
    inputs_of,
    walk,
)
from thalweg.plan.program import store_key
from thalweg.plan.shares import Second, Shares, plan_shares
from thalweg.plan.stages import stages_of
from thalweg.static.data import StaticData

FORMATS = ("text", "dot", "mermaid", "svg")


def explain(query: Query, shards: int = 1, *, format: str = "text", static: StaticData | None = None) -> str:
    """A page about a query: language, windows, patterns, delta plans, what reaches the output and when, and how it is
    spread over shards. Of a query with operators, also the logical tree and the physical plan. With `static` data,
    also where these are.

    As `dot`, `mermaid` or `svg`: a drawing of the logical tree and the physical plan.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}: it is one of {', '.join(FORMATS)}")
    if query.sequence is not None and format != "text":
        return draw_automaton(query.sequence, format)
    if format != "text":
        about = [*_output(query), *([] if query.empty else _shards(query, shards))]
        return draw(query, [line for line in about if line.startswith(("output", "shards", "stage"))], format)
    prefixes = prefixes_of(query.text)
    page = _page(query, shards, StaticData() if static is None else static)
    return "\n".join(with_key(shortened(line, prefixes) for line in page))


def _page(query: Query, shards: int, static: StaticData) -> list[str]:
    if query.sequence is not None:
        return page_of(query, query.sequence, shards)
    lines = [f"language   {query.language}"]
    lines += _sources(query)
    lines += lines_of(query)
    if query.empty is not None:
        lines.append(f"answer     always empty: {query.empty}")
        return [*lines, *_output(query)]
    if query.flat:
        lines += _patterns(query)
        lines += _plans(query, range(len(query.patterns)))
    else:
        lines += _trees(query)
    lines += _output(query)
    lines.append("work       incremental: each triple costs what it joins with, not what the window holds")
    lines += _shards(query, shards)
    lines += placed(query, plan_shares(query, shards), static)
    return lines


def _shards(query: Query, wanted: int) -> list[str]:
    """The grid of shards, and for each pattern where its triples go and in how many copies."""
    shares = plan_shares(query, wanted)
    if not shares.roles:
        spread = "whole events are spread" if shares.shards > 1 else "every triple goes to one task"
        return [f"shards     {shares.shards}: {spread} ({shares.reason})"]
    grid = " x ".join(f"{Var(name)} {share}" for name, share in shares.shares)
    lines = [f"shards     {shares.shards}: {grid} ({shares.reason})"]
    for role in shares.roles:
        for place in role.patterns:
            pattern = query.patterns[place]
            by = [str(Var(name)) for name, _ in shares.shares if name in pattern.variables]
            where = f"by {', '.join(by)}" if by else "to all"
            copies = shares.copies(pattern)
            through = f", through channel {role.channel}" if shares.channels > 1 else ""
            lines.append(f"route {place}    {where}, {copies} {'copy' if copies == 1 else 'copies'}{through}")
    sent = sum(shares.copies(pattern) for pattern in query.patterns)
    lines.append(
        f"copies     {sent / len(query.patterns):.2f} of each triple and pattern, if all patterns fit equally often; "
        "the triples of one frequent value stay together"
    )
    return lines + ([] if shares.second is None else _second_stage(query, shares, shares.second))


def _second_stage(query: Query, shares: Shares, second: Second) -> list[str]:
    """What goes from the first stage to the second, and what is done there."""
    stages = stages_of(shares.staged(query))
    describer = Describer(query)
    lines = []
    for number, (node, key) in enumerate(zip(stages.inputs, stages.keys, strict=True)):
        partial = ", in each shard for itself" if isinstance(node, Distinct | Slice) else ""
        by = f" by {columns(node.names[k] for k in key)}" if second.shards > 1 else ""
        lines.append(
            f"cut {number}      the changes of rows {columns(node.names, 'without columns')} "
            f"({NAMES[type(node)]}{partial}) go to stage 2{by}"
        )
    where = f"{second.shards} shards" if second.shards > 1 else "one shard"
    above = [one for one in walk(stages.second.root) if not isinstance(one, Scan | Rename | Constants)]
    does = ", ".join(describer.operator(one)[0] for one in above)
    lines.append(f"stage 2    {where}: {does or 'the rows of the answer'} ({second.reason})")
    return lines


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
        case Static():
            return "holds what is loaded"
        case Now():
            return "holds one event"
        case Count():
            unit = "event" if window.unit == ELEMENTS else "triple"
            counted = (
                f"holds the last {_many(window.size, unit)}, seen anew after each {_many(window.step, unit)}"
            )
            pruned = "" if window.unit == ELEMENTS else "nothing is pruned: "
            return f"{counted}{_report_times(window)}; {pruned}every {unit} counts"
        case Arrivals():
            return f"{_meaning(window.window)}; each triple as a node with its latest time"
        case Entailed():
            return f"{_meaning(window.window)}, and what follows from it"
        case Range():
            return f"{_movement(window)}{_report_times(window)}; holds {_bounds(window)}"


def _many(number: int, unit: str) -> str:
    return f"{number} {unit}s" if number != 1 else unit


def _movement(window: Range) -> str:
    if window.step is None:
        return "slides with each instant"
    if window.step == window.width:
        return "tumbles"
    return "steps with gaps between" if window.step > window.width else "steps, overlapping"


def _bounds(window: Range) -> str:
    width = show_duration(window.width)
    return f"[t - {width}, t)" if window.early else f"(t - {width}, t]"


def _report_times(window: Range | Count) -> str:
    since = f" from {show_instant(window.origin)}" if window.origin else ""
    if window.period is not None:
        return f", looked at every {show_duration(window.period)}{since}"
    return since


def _reports(query: Query) -> str:
    """When RSTREAM reports the answer."""
    asked = [w.report for w in query.windows if isinstance(w, Range | Count)]
    kinds = dict.fromkeys(_report(report) for report in asked if report is not None)
    empty = "; an empty one is reported by a row 0" if query.reports_empty else ""
    return ", ".join(kinds or ["where it changes"]) + empty


def _report(report: Report) -> str:
    return {
        "WINDOW-CLOSE": "when a window closes",
        "CONTENT-CHANGE": "where it changes",
        "NON-EMPTY": "when a window closes and there is an answer",
        "PERIODIC": f"every {show_duration(report.period or 0)}",
    }[report.kind]


def _patterns(query: Query) -> list[str]:
    lines = [
        f"pattern {number}  {pattern}   (source {pattern.source}, line {pattern.line}:{pattern.column})"
        for number, pattern in enumerate(query.patterns)
    ]
    return lines + [f"fixed      ?{name} is {value}" for name, value in query.fixed]


def _trees(query: Query) -> list[str]:
    """The logical tree, the physical plan over leaves, and how the kernel matches each leaf."""
    lines = ["logical", *(f"  {line}" for line in tree(query.root, sources=len(query.sources) > 1))]
    lines += _patterns(query)
    lines += ["physical", *(f"  {line}" for line in _operators(query))]
    for number, leaf in enumerate(plan_of(query).leaves):
        numbers = ", ".join(map(str, leaf.patterns))
        noun = "pattern" if len(leaf.patterns) == 1 else "patterns"
        lines.append(f"leaf {number}     {noun} {numbers} in the kernel; shows {columns(leaf.shown)}")
        lines += [f"  {line}" for line in _plans(query, leaf.patterns)]
    return lines


def _operators(query: Query) -> Iterator[str]:
    """The physical plan, one operator a line, inputs indented; an operator that several others take, once."""
    describer = Describer(query)
    shown: set[int] = set()
    pending = [(describer.plan.root, 0)]
    while pending:
        node, depth = pending.pop()
        if id(node) in shown:
            yield "  " * depth + "; ".join(describer.again(node))
            continue
        shown.add(id(node))
        yield "  " * depth + "; ".join(describer.operator(node))
        if _is_product(node):
            yield (
                "  " * depth + "warning    its inputs have no variable in common: every row meets every other"
            )
        pending.extend((below, depth + 1) for below in reversed(inputs_of(node)))


def _is_product(node: Physical) -> bool:
    """Whether an operator makes all combinations of the rows of several inputs."""
    if not isinstance(node, CoGroup) or any(name != EVENT for name in node.names[: node.key]):
        return False
    return sum(rule in ("rows", "left", "outer") for rule in node.rules) > 1


def _plans(query: Query, patterns: Sequence[int]) -> list[str]:
    lines = []
    parts = components(query, patterns)
    for number, part in enumerate(parts):
        if len(parts) > 1:
            lines.append(f"part {number}     {_kind(query, part)}: patterns {', '.join(map(str, part))}")
        graph = plan_component(query.patterns, part)
        for start in part:
            steps = [f"{step.pattern} by {INDEX_NAMES[step.index]}" for step in graph.order(start)]
            lines.append(f"delta {start}    " + (", then ".join(steps) or "is a solution by itself"))
    if len(parts) > 1:
        lines.append("product    of the parts, made when one of them has news; only the parts are stored")
        apart = [str(number) for number, part in enumerate(parts) if _kind(query, part) != "ground"]
        if len(apart) > 1:
            lines.append(
                f"warning    parts {', '.join(apart[:-1])} and {apart[-1]} have no variable in common: "
                "the answer has every combination of their solutions"
            )
    return lines


def _kind(query: Query, part: tuple[int, ...]) -> str:
    """The class of a connected part: ground, star around a variable, or connected in general."""
    variables = [set(query.patterns[number].variables) for number in part]
    if not variables[0]:
        return "ground"
    return "star" if set.intersection(*variables) else "connected"


def _output(query: Query) -> list[str]:
    shown = " ".join(f"?{name}" for name in query.columns) or "(no variables)"
    if query.ask:
        shown = "one row without variables, while there is a solution"
    distinct, one = "DISTINCT " if query.distinct else "", "solution"
    if query.template is not None:
        distinct, one = "the graph of ", "triple"
    if query.per_event:
        how = f"one row per {one} and event, never retracted"
    elif query.operator is None:
        how = f"deltas: + when a {one} begins, - when it ends, each as soon as it is known"
    elif query.operator == "RSTREAM":
        how = f"RSTREAM: the whole answer, {_reports(query)}, once the report's instant is complete"
    else:
        what = "enters" if query.operator == "ISTREAM" else "leaves"
        how = f"{query.operator}: what {what} at each instant, once the instant is complete"
    lines = [f"template   {triple}" for triple in query.template or ()]
    if query.ranked:
        how += "; rows in the order of the query, with their ranks"
    lines.append(f"output     {distinct}{shown}; {how}")
    if query.output is not None:
        lines.append(f"as stream  <{query.output}>")
    if query.empty is None:
        lines += [f"doubt      {doubt}" for doubt in query.doubts]
    return lines
