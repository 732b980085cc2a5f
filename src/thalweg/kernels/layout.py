"""What the match kernel reads and writes, cell by cell: the tables of a program, its context, its place, its output.

All cells are int64. The program (`thalweg.plan.program`) and the matcher (`thalweg.operators.matcher`) lay them out.
"""

from __future__ import annotations

# Columns of an entry: a pattern of a query as the start of a delta plan.
ENTRY_PATTERN, ENTRY_NODE, ENTRY_OTHERS, ENTRY_TERMS = 0, 1, 2, 3
ENTRY_CELLS = ENTRY_TERMS + 6

# Columns of a node (a set of matched patterns): its steps, best first; where the list of its bound parameters begins,
# or -1. A node without steps is a solution: without parameters, of these members (units).
NODE_FIRST, NODE_STEPS, NODE_PARAMETERS, NODE_MEMBERS, NODE_COUNT = range(5)
NODE_CELLS = 5

# Columns of a step: another pattern, the index by which it is probed, the node that it leads to, and whether it
# binds parameters.
STEP_STORE, STEP_KIND, STEP_PATTERN, STEP_NODE, STEP_CHECKS, STEP_TERMS = range(6)
STEP_CELLS = STEP_TERMS + 6

# Columns of the table of values that the parameters of a node may have (open addressing): where the values are, and
# the members that they belong to, if the node is a solution.
KNOWN_KEY, KNOWN_VALUES, KNOWN_FIRST, KNOWN_COUNT = range(4)
KNOWN_CELLS = 4

# How a position of a pattern meets a term: (mode, value) pairs for s, p, o from *_TERMS on.
CONSTANT, BOUND, BIND = 0, 1, 2

# Columns of the dispatch table: open addressing by signature. Every predicate that some pattern names has the
# entry of its own signature, which has the other masks of constants by which a triple must be looked up.
DISPATCH_KEY, DISPATCH_FIRST, DISPATCH_COUNT, DISPATCH_INDEXES, DISPATCH_MASKS = range(5)
DISPATCH_CELLS = 5
PREDICATE = 2  # the mask of signatures with a constant predicate and nothing else

# Columns of a solution; its bindings follow.
OUT_UNIT, OUT_EVENT, OUT_WEIGHT, OUT_FROM, OUT_TO, OUT_GRAPH, OUT_BINDINGS = range(7)

# What the kernel works with: the addresses of the arrays of a program and of a matcher, and their sizes. Numba takes
# time for each array that it is called with, and counts references to each that it passes on.
(
    STORES, FEEDS, FEEDS_WIDTH, WILD, DISPATCH, DISPATCH_LAST, ENTRIES, NODES, STEPS, OTHERS, OUTPUTS, OUTPUTS_SIZE,
    PARAMETERS, KNOWN, KNOWN_LAST, VALUES, MEMBERS, FAN, UNTIL, STACK, LOOKAHEAD, VARIABLES, OUT, OUT_SIZE, OUT_ROOM,
    UNIT_GENERATIONS, ROW_GENERATIONS,
) = range(27)  # fmt: skip
CONTEXT_CELLS = 27
# The last two are 0 unless queries were registered in mid-stream: the generations of units and of the rows of a batch.

# The position of the kernel.
AT_ROW, AT_FEED, AT_RANGE, RANGES, AT_ENTRY, LEVEL, NUMBER, BEGIN, WRITTEN, DETAIL, LOW, HIGH, APPLIED = (
    range(13)
)
CURSOR_CELLS = 13
# Of a level of the search: next candidate row, from, to, step, first and last generation, and the store of the row.
FRAME_CELLS = 7

# Why it came back.
DONE, FULL, GROW = 0, 1, 2

# Work counters.
INSERTED, REPEATED, DELETED, ABSENT, PROBES, WALKED, RACES, SPARED, FOUND = range(9)
COUNTERS = 9

# In the list of the other patterns of an entry, a pattern that also reads static data: above this bit the slot of its
# signature there, plus 1.
BASE_SLOT = 32

RANGE_CELLS = 3  # of a range of entries: first, end, slot of the signature

# Triples are dispatched some rows ahead, so that the memory which they will touch can be prefetched.
# Columns of a slot of this lookahead: the number of ranges, the indexes that the triple needs, and the ranges.
AHEAD = 8
LOOKAHEAD_SLOTS = 16  # a power of two, more than AHEAD
LOOKAHEAD_COUNT, LOOKAHEAD_INDEXES, LOOKAHEAD_RANGES = 0, 1, 2
LOOKAHEAD_CELLS = LOOKAHEAD_RANGES + 8 * RANGE_CELLS
