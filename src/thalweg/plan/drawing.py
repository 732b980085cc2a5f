"""Drawings of plans: the logical tree and the physical plan as graphs, and graphs as texts of Graphviz and Mermaid."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from thalweg.algebra import nodes, printing
from thalweg.algebra.query import Query
from thalweg.plan import epsilon
from thalweg.plan.describe import Describer
from thalweg.plan.physical import Physical, Scan, inputs_of
from thalweg.plan.svg import svg

N = TypeVar("N")
_LONGEST = 100
_UNSAFE = re.compile(r"[^\w ?.,()=+*/|!'-]", re.ASCII)


@dataclass(frozen=True)
class Graph:
    """A directed graph: the lines of each node's label, and edges from an input to the node that takes it."""

    title: str
    labels: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if any(not 0 <= end < len(self.labels) for edge in self.edges for end in edge):
            raise ValueError("an edge connects nodes of the graph")


def draw(query: Query, notes: Sequence[str], format: str) -> str:
    """The logical tree and the physical plan of a query; `notes` are lines about the answer as a whole."""
    graphs = [logical(query)]
    if query.empty is None:
        graphs.append(physical(query, notes))
    if (network := epsilon.drawn(query)) is not None:
        labels, edges = network
        shown = tuple(tuple(map(_short, label)) for label in labels)
        graphs.append(Graph("epsilon network, reduced", shown, edges))
    return {"dot": dot, "mermaid": mermaid, "svg": lambda found: svg(found, "plan of a query")}[format](
        graphs
    )


def logical(query: Query) -> Graph:
    """The logical tree."""

    def label(node: nodes.Node) -> list[str]:
        patterns = node.patterns if isinstance(node, nodes.Bgp) else ()
        return [printing.describe(node), *map(str, patterns)]

    return _graph("logical tree", query.root, label, nodes.children)


def physical(query: Query, notes: Sequence[str]) -> Graph:
    """The physical plan: operators over leaves, with the patterns and windows that a leaf reads."""
    describer = Describer(query)
    leaves = describer.plan.leaves

    def label(node: Physical) -> list[str]:
        does, *rest = describer.operator(node)
        if not isinstance(node, Scan):
            return [does, *rest]
        read = [query.patterns[number] for number in leaves[node.leaf].patterns]
        sources = dict.fromkeys(str(query.sources[pattern.source]) for pattern in read)
        return [f"{does} in the kernel", *sources, *map(str, read), *rest]

    graph = _graph("physical plan", describer.plan.root, label, inputs_of, describer.again)
    output = len(graph.labels)
    top = tuple(_short(re.sub(" +", " ", note)) for note in notes)
    return Graph(graph.title, (*graph.labels, top), (*graph.edges, (0, output)))


def _graph(
    title: str,
    root: N,
    label: Callable[[N], Sequence[str]],
    inputs: Callable[[N], Sequence[N]],
    again: Callable[[N], Sequence[str]] | None = None,
) -> Graph:
    """A tree as a graph; its root is node 0. With `again`, a node that several others take has its inputs once."""
    drawn: set[int] = set()
    labels: list[tuple[str, ...]] = []
    edges: list[tuple[int, int]] = []
    pending: list[tuple[N, int]] = [(root, -1)]
    while pending:
        node, above = pending.pop()
        if above >= 0:
            edges.append((len(labels), above))
        if again is not None and id(node) in drawn:
            labels.append(tuple(map(_short, again(node))))
            continue
        drawn.add(id(node))
        pending.extend((below, len(labels)) for below in reversed(inputs(node)))
        labels.append(tuple(map(_short, label(node))))
    return Graph(title, tuple(labels), tuple(edges))


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def dot(graphs: Sequence[Graph]) -> str:
    """Graphs as a text of Graphviz, each in a frame.

    >>> print(dot([Graph("g", (("a", 'b "c"'), ("d",)), ((1, 0),))]))
    digraph {
      rankdir=BT
      node [shape=box, fontname="monospace"]
      subgraph cluster_0 {
        label="g"
        n0_0 [label="a\\lb \\"c\\"\\l"]
        n0_1 [label="d\\l"]
        n0_1 -> n0_0
      }
    }
    """
    lines = ["digraph {", "  rankdir=BT", '  node [shape=box, fontname="monospace"]']
    for k, graph in enumerate(graphs):
        lines += [f"  subgraph cluster_{k} {{", f'    label="{_in_dot(graph.title)}"']
        for n, label in enumerate(graph.labels):
            shown = "".join(f"{_in_dot(line)}\\l" for line in label)
            lines.append(f'    n{k}_{n} [label="{shown}"]')
        lines += [f"    n{k}_{one} -> n{k}_{other}" for one, other in graph.edges]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def _in_dot(line: str) -> str:
    # Graphviz reads entities and escape sequences in labels.
    return line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def mermaid(graphs: Sequence[Graph]) -> str:
    """Graphs as a flowchart of Mermaid, each in a frame.

    >>> print(mermaid([Graph("g", (("a", 'b "c"'), ("d",)), ((1, 0),))]))
    flowchart BT
      subgraph g0["g"]
        n0_0["a<br/>b #34;c#34;"]
        n0_1["d"]
        n0_1 --> n0_0
      end
    """
    lines = ["flowchart BT"]
    for k, graph in enumerate(graphs):
        lines.append(f'  subgraph g{k}["{_in_mermaid(graph.title)}"]')
        for n, label in enumerate(graph.labels):
            lines.append(f'    n{k}_{n}["{"<br/>".join(map(_in_mermaid, label))}"]')
        lines += [f"    n{k}_{one} --> n{k}_{other}" for one, other in graph.edges]
        lines.append("  end")
    return "\n".join(lines)


def _in_mermaid(line: str) -> str:
    """A line with codes for all characters that Mermaid, Markdown or HTML could take for syntax."""
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", line)
