"""Solutions as the match kernel writes them: one row for every member that a solution belongs to."""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit
from thalweg.kernels.layout import (
    KNOWN,
    KNOWN_COUNT,
    KNOWN_FIRST,
    KNOWN_LAST,
    MEMBERS,
    NODE_CELLS,
    NODE_COUNT,
    NODE_MEMBERS,
    NODE_PARAMETERS,
    NODES,
    OUT,
    OUT_BINDINGS,
    OUT_EVENT,
    OUT_FROM,
    OUT_GRAPH,
    OUT_SIZE,
    OUT_TO,
    OUT_UNIT,
    OUT_WEIGHT,
    OUTPUTS,
    OUTPUTS_SIZE,
    PARAMETERS,
    UNIT_GENERATIONS,
    VALUES,
    VARIABLES,
)
from thalweg.kernels.memory import load64, store64
from thalweg.kernels.parameter_table import look_up_parameters


@njit(cache=True, nogil=True)
def members_of(node, nodes, parameters, known, last, values, bound):
    """The members (first, count) that a solution belongs to."""
    places = load64(node, NODE_PARAMETERS)
    if places < 0:
        return load64(node, NODE_MEMBERS), load64(node, NODE_COUNT)
    number = (node - nodes) // (8 * NODE_CELLS)
    entry = look_up_parameters(known, last, number, parameters + places * 8, values, bound)
    if entry == 0:
        return np.int64(0), np.int64(0)
    return load64(entry, KNOWN_FIRST), load64(entry, KNOWN_COUNT)


@njit(cache=True, nogil=True)
def write_solution(row, unit, event, weight, begin, end, graph, bound, shown):
    """Writes a solution; the variables that it shows are listed at `shown`, ended by -1."""
    store64(row, OUT_UNIT, unit)
    store64(row, OUT_EVENT, event)
    store64(row, OUT_WEIGHT, weight)
    store64(row, OUT_FROM, begin)
    store64(row, OUT_TO, end)
    store64(row, OUT_GRAPH, graph)
    k = np.int64(0)
    while load64(shown, k) >= 0:
        store64(row, OUT_BINDINGS + k, load64(bound, load64(shown, k)))
        k += 1


@njit(cache=True, nogil=True)
def emit_solution(context, node, written, event, weight, begin, end, graph, low, high, ranged):
    """Writes a solution, behind those that are written, for every member that it belongs to; answers how many.

    Where there are generations (`ranged` is not None), these are the members with one from `low` to `high`.
    """
    bound = load64(context, VARIABLES)
    first, count = members_of(
        node,
        load64(context, NODES),
        load64(context, PARAMETERS),
        load64(context, KNOWN),
        load64(context, KNOWN_LAST),
        load64(context, VALUES),
        bound,
    )
    row = load64(context, OUT) + written * load64(context, OUT_SIZE)
    others = np.int64(0)
    for member in range(first, first + count):
        unit = load64(load64(context, MEMBERS), member)
        if ranged is not None:
            generation = load64(load64(context, UNIT_GENERATIONS), unit)
            if generation < low or generation > high:
                others += 1
                continue
        shown = load64(context, OUTPUTS) + unit * load64(context, OUTPUTS_SIZE)
        write_solution(row, unit, event, weight, begin, end, graph, bound, shown)
        row += load64(context, OUT_SIZE)
    return count - others
