"""Graphs as SVG: boxes in layers, the root on top, each node centred above its inputs.

No library does this without a system dependency: those for Graphviz call its program, and the layouts in Python do not
draw. Plans are trees, for which a layered layout is a page of code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol
from xml.sax.saxutils import escape

_LINE, _LETTER = 16, 7.3
_PAD, _GAP, _RISE = 8, 24, 36
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
    'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">'
)
_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z"/></marker></defs>'
)


class Drawable(Protocol):
    """A graph with lines of text in its nodes; edges go from an input to the node that takes it."""

    @property
    def title(self) -> str:
        """What stands above it."""
        ...

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The lines of each node."""
        ...

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of nodes."""
        ...


def svg(graphs: Sequence[Drawable], title: str) -> str:
    """Graphs side by side; each must be a forest: a node is the input of at most one other."""
    parts: list[str] = []
    left, height = float(_GAP), 0.0
    for graph in graphs:
        drawn, width, low = _drawn(graph, left)
        parts += drawn
        left += width + _GAP
        height = max(height, low)
    background = '<rect width="100%" height="100%" fill="white"/>'
    head = _HEAD.format(width=left, height=height + _GAP)
    return "\n".join([head, f"<title>{_text(title)}</title>", _ARROW, background, *parts, "</svg>"])


def _drawn(graph: Drawable, left: float) -> tuple[list[str], float, float]:
    """The elements of one graph, its width, and its lower end."""
    widths = [2 * _PAD + _LETTER * max(map(len, label), default=0) for label in graph.labels]
    heights = [2 * _PAD + _LINE * len(label) for label in graph.labels]
    inputs: list[list[int]] = [[] for _ in graph.labels]
    for one, other in graph.edges:
        inputs[other].append(one)
    taken = {one for one, _ in graph.edges}
    roots = [node for node in range(len(graph.labels)) if node not in taken]
    order, depth = _from_the_top(roots, inputs)
    # The width of a node with all below it, from the bottom up; then places from the top down.
    spread = list(widths)
    for node in reversed(order):
        spread[node] = max(widths[node], _side_by_side([spread[one] for one in inputs[node]]))
    tops, top = [0.0] * (1 + max(depth, default=0)), float(_GAP + 2 * _LINE)
    for layer in range(len(tops)):
        tops[layer] = top
        top += _RISE + max((heights[n] for n in order if depth[n] == layer), default=0)
    start = [0.0] * len(widths)
    total = _place(roots, left, spread, start)
    for node in order:
        below = _side_by_side([spread[one] for one in inputs[node]])
        _place(inputs[node], start[node] + (spread[node] - below) / 2, spread, start)
    parts = [f'<text x="{left:.0f}" y="{_GAP + _LINE}" font-weight="bold">{_text(graph.title)}</text>']
    middle = [start[node] + spread[node] / 2 for node in range(len(widths))]
    for one, other in graph.edges:
        low = tops[depth[other]] + heights[other]
        parts.append(
            f'<path d="M{middle[one]:.1f} {tops[depth[one]]:.1f}L{middle[other]:.1f} {low:.1f}" '
            'stroke="black" fill="none" marker-end="url(#arrow)"/>'
        )
    for node, label in enumerate(graph.labels):
        parts.append(_box(label, middle[node], tops[depth[node]], widths[node], heights[node]))
    return parts, total, top


def _from_the_top(roots: list[int], inputs: list[list[int]]) -> tuple[list[int], list[int]]:
    """All nodes, each before its inputs; and how far below a root each is."""
    depth = [0] * len(inputs)
    order = list(roots)
    for node in order:
        for one in inputs[node]:
            depth[one] = depth[node] + 1
            order.append(one)
        if len(order) > len(inputs):
            raise ValueError("a node is the input of at most one other")
    return order, depth


def _side_by_side(widths: Sequence[float]) -> float:
    return sum(widths) + _GAP * max(len(widths) - 1, 0)


def _place(group: Sequence[int], left: float, spread: Sequence[float], start: list[float]) -> float:
    """Sets where nodes begin, from left to right; answers how wide they are together."""
    at = left
    for node in group:
        start[node] = at
        at += spread[node] + _GAP
    return at - _GAP - left if group else 0.0


def _box(label: Sequence[str], middle: float, top: float, width: float, height: float) -> str:
    x = middle - width / 2
    lines = "".join(
        f'<tspan x="{x + _PAD:.1f}" y="{top + _PAD + 12 + k * _LINE:.1f}">{_text(line)}</tspan>'
        for k, line in enumerate(label)
    )
    return (
        f'<g><rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" fill="#f4f4f4" '
        f'stroke="black"/><text xml:space="preserve">{lines}</text></g>'
    )


def _text(line: str) -> str:
    """A line as XML; characters that XML does not have are replaced."""
    return escape(_INVALID.sub("\ufffd", line))
