"""Conditions over rows of term ids, run as small programs: comparisons, arithmetic, membership, logic with errors.

A program is pairs (operation, argument) for a stack. A slot of the stack is a term (kind, number, id) or a truth: 1
true, 0 false, -1 an error, 2 undecided. Undecided is what kinds and numbers cannot decide (long numbers, the order of
strings, unknown datatypes), and what is not computed here at all (a leaf without a truth). The caller decides those
rows exactly.

The law: a row that is not undecided has the truth that SPARQL 1.1 gives the expression (sections 17.2 and 17.3).
"""

from __future__ import annotations

import math

import numpy as np

from thalweg.kernels.arena import find
from thalweg.kernels.bits import address, prefetch
from thalweg.kernels.checking import njit
from thalweg.kernels.values import (
    BLANK,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INTEGER,
    IRI,
    LANG,
    LOCAL,
    NONE,
    OTHER,
    STRING,
    ZONED,
    value_at,
)

COLUMN, CONSTANT, LEAF, BOUND, TEST, TRUTH, MEMBER, SAME, NOT, AND, OR, SKIP_IF_FALSE, SKIP_IF_TRUE = range(
    13
)
"""Operations. COLUMN and CONSTANT push a term, LEAF and BOUND a truth. TEST (a mask of kinds), TRUTH and MEMBER (a set)
make a truth of a term, SAME one of two. The skips go to a place in the program and leave the truth where it is."""
PLUS, MINUS = 13, 14
ADD, SUBTRACT, MULTIPLY, DIVIDE = range(15, 19)
EQUAL, UNEQUAL, LESS, GREATER, AT_MOST, AT_LEAST = range(19, 25)

FALSE, TRUE, ERROR, UNDECIDED = 0, 1, -1, 2

NUMBER, TERM = 1, 5
GROUPS = np.zeros(12, dtype=np.int64)
"""For each kind its group. Within one of the groups 1 to 4, numbers are compared; in the others, terms are."""
GROUPS[[INTEGER, DECIMAL, DOUBLE]] = NUMBER
GROUPS[[BOOLEAN, ZONED, LOCAL]] = 2, 3, 4
GROUPS[[IRI, BLANK, STRING, LANG, OTHER]] = TERM, TERM, 6, 7, 8
_BOOLEAN_GROUP, _ZONED_GROUP, _LOCAL_GROUP, _STRING_GROUP, _OTHER_GROUP = 2, 3, 4, 6, 8

SET_WIDTH = 11
"""A set: for the groups 1 to 4 and for all terms the range of its members, then whether times can be undecided."""

_MOST_EXACT = 10.0**15
_AHEAD = 16


@njit(cache=True, nogil=True)
def _compare(op, kind, number, id_, other_kind, other_number, other_id):
    """The truth of a comparison of two terms."""
    one, two = GROUPS[kind], GROUPS[other_kind]
    if one == 0 or two == 0:
        return ERROR
    if one == _OTHER_GROUP or two == _OTHER_GROUP:
        return UNDECIDED
    if one == two and one < TERM:
        if op == EQUAL:
            return np.int64(number == other_number)
        if op == UNEQUAL:
            return np.int64(number != other_number)
        if op == LESS:
            return np.int64(number < other_number)
        if op == GREATER:
            return np.int64(number > other_number)
        if op == AT_MOST:
            return np.int64(number <= other_number)
        return np.int64(number >= other_number)
    if (one == _ZONED_GROUP and two == _LOCAL_GROUP) or (one == _LOCAL_GROUP and two == _ZONED_GROUP):
        return UNDECIDED
    if op == EQUAL:
        return np.int64(id_ == other_id)
    if op == UNEQUAL:
        return np.int64(id_ != other_id)
    if one == _STRING_GROUP and two == _STRING_GROUP:
        return UNDECIDED
    return ERROR


@njit(cache=True, nogil=True)
def _quotient(number, other):
    """The quotient of IEEE 754."""
    if other != 0.0:
        return number / other
    if number == 0.0 or number != number:
        return math.nan
    return math.copysign(math.inf, math.copysign(1.0, number) * math.copysign(1.0, other))


@njit(cache=True, nogil=True)
def _calculate(op, kind, number, other_kind, other_number):
    """Kind and number of a sum, difference, product or quotient; NONE is an error."""
    one, two = GROUPS[kind], GROUPS[other_kind]
    if one == NUMBER and two == NUMBER:
        if op == ADD:
            result = number + other_number
        elif op == SUBTRACT:
            result = number - other_number
        elif op == MULTIPLY:
            result = number * other_number
        else:
            result = _quotient(number, other_number)
        if kind == DOUBLE or other_kind == DOUBLE:
            return DOUBLE, result
        if kind == INTEGER and other_kind == INTEGER and op != DIVIDE and abs(result) < _MOST_EXACT:
            return INTEGER, result + 0.0  # an integer has no negative zero
        if op == DIVIDE and other_number == 0.0:
            return NONE, 0.0
        return OTHER, 0.0
    # Of the rest, only times and durations have an arithmetic.
    for group in (one, two):
        if group != NUMBER and group != _ZONED_GROUP and group != _LOCAL_GROUP and group != _OTHER_GROUP:
            return NONE, 0.0
    return OTHER, 0.0


@njit(cache=True, nogil=True)
def _contains(members, start, end, wanted):
    """Whether the ascending members from start to end have the wanted one."""
    while start < end:
        middle = (start + end) // 2
        if members[middle] < wanted:
            start = middle + 1
        elif members[middle] > wanted:
            end = middle
        else:
            return members[middle] == wanted
    return False


@njit(cache=True, nogil=True)
def _member(of, numbers, ids, kind, number, id_):
    """The truth of the membership of a term in a set of constants."""
    group = GROUPS[kind]
    if group == 0:
        return ERROR
    if group == _OTHER_GROUP:
        return UNDECIDED
    if group >= TERM:
        return np.int64(_contains(ids, of[8], of[9], id_))
    # NaN is equal to nothing; the search would find it anywhere.
    if number == number and _contains(numbers, of[2 * group - 2], of[2 * group - 1], number):
        return TRUE
    if of[10] != 0 and (group == _ZONED_GROUP or group == _LOCAL_GROUP):
        return UNDECIDED
    return FALSE


@njit(cache=True, nogil=True)
def _truth(kind, number, id_, empty):
    """The effective boolean value of a term."""
    group = GROUPS[kind]
    if group == NUMBER or group == _BOOLEAN_GROUP:
        return np.int64(number != 0.0 and number == number)
    if kind == STRING:
        return np.int64(id_ != empty)
    if kind == LANG or kind == OTHER:
        return UNDECIDED
    return ERROR


@njit(cache=True, nogil=True)
def _and(one, two):
    """Both: an error only where neither is false, undecided before an error."""
    if one == FALSE or two == FALSE:
        return FALSE
    if one == UNDECIDED or two == UNDECIDED:
        return UNDECIDED
    return min(one, two)


@njit(cache=True, nogil=True)
def _not(one):
    return one if one == ERROR or one == UNDECIDED else 1 - one


@njit(cache=True, nogil=True)
def _look_ahead(slots_at, last, log_at, rows, columns, records, k):
    """Finds the records of row k and prefetches them, and the slots of a later row: each would be a cache miss."""
    for j in range(columns.size):
        column = columns[j]
        if k + _AHEAD < rows.shape[0]:
            prefetch(slots_at + 16 * (rows[k + _AHEAD, column] & last))
        if k < rows.shape[0]:
            offset = np.int64(-1)
            if rows[k, column] != 0:
                offset = find(slots_at, last, rows[k, column])
            if offset >= 0:
                prefetch(log_at + offset)
                prefetch(log_at + offset + 63)
                offset += log_at
            records[column, k & (2 * _AHEAD - 1)] = offset


@njit(cache=True, nogil=True)
def decide(program, constants, constant_ids, sets, set_numbers, set_ids, rows, leaves, slots, log, truths):
    """Runs a program on each row; `leaves` holds the truths of leaves, a row for each row, or none at all."""
    slots_at, last, log_at = address(slots), slots.size // 2 - 1, address(log)
    width = rows.shape[1]
    read = np.full(width, -1, dtype=np.int64)  # the row in which a column was last read
    read_kinds = np.empty(width, dtype=np.int64)
    read_numbers = np.empty(width, dtype=np.float64)
    records = np.full((width, 2 * _AHEAD), -1, dtype=np.int64)
    used = np.zeros(width, dtype=np.int64)
    for step in range(program.shape[0]):
        if program[step, 0] == COLUMN:
            used[program[step, 1]] = 1
    columns = np.flatnonzero(used)
    for k in range(min(_AHEAD, rows.shape[0])):
        _look_ahead(slots_at, last, log_at, rows, columns, records, k)
    depth = program.shape[0] + 1
    kinds = np.empty(depth, dtype=np.int64)  # of a slot that is a truth: the truth
    numbers = np.empty(depth, dtype=np.float64)
    ids = np.empty(depth, dtype=np.int64)
    for k in range(rows.shape[0]):
        _look_ahead(slots_at, last, log_at, rows, columns, records, k + _AHEAD)
        top = np.int64(-1)
        at = np.int64(0)
        while at < program.shape[0]:
            op, arg = program[at, 0], program[at, 1]
            at += 1
            if op == COLUMN:
                top += 1
                ids[top] = rows[k, arg]
                if read[arg] != k:
                    read[arg] = k
                    record = records[arg, k & (2 * _AHEAD - 1)]
                    if record < 0:
                        read_kinds[arg], read_numbers[arg] = NONE, 0.0
                    else:
                        read_kinds[arg], read_numbers[arg] = value_at(record)
                kinds[top], numbers[top] = read_kinds[arg], read_numbers[arg]
            elif op == CONSTANT:
                top += 1
                kinds[top], numbers[top] = np.int64(constants[arg, 0]), constants[arg, 1]
                ids[top] = constant_ids[arg]
            elif op >= EQUAL:
                top -= 1
                kinds[top] = _compare(
                    op, kinds[top], numbers[top], ids[top], kinds[top + 1], numbers[top + 1], ids[top + 1]
                )
            elif op >= ADD:
                top -= 1
                kinds[top], numbers[top] = _calculate(
                    op, kinds[top], numbers[top], kinds[top + 1], numbers[top + 1]
                )
                ids[top] = 0
            elif op == PLUS or op == MINUS:
                group = GROUPS[kinds[top]]
                if op == MINUS and group == NUMBER:
                    numbers[top] = -numbers[top] if kinds[top] == DOUBLE else 0.0 - numbers[top]
                elif group != NUMBER:
                    kinds[top] = OTHER if group == _OTHER_GROUP else NONE
                ids[top] = 0
            elif op == AND:
                top -= 1
                kinds[top] = _and(kinds[top], kinds[top + 1])
            elif op == OR:
                top -= 1
                kinds[top] = _not(_and(_not(kinds[top]), _not(kinds[top + 1])))
            elif op == SKIP_IF_FALSE:
                if kinds[top] == FALSE:
                    at = arg
            elif op == SKIP_IF_TRUE:
                if kinds[top] == TRUE:
                    at = arg
            elif op == NOT:
                kinds[top] = _not(kinds[top])
            elif op == BOUND:
                top += 1
                kinds[top] = np.int64(rows[k, arg] != 0)
            elif op == TEST:
                kind = kinds[top]
                if kind == NONE:
                    kinds[top] = ERROR
                elif (arg >> 16) >> kind & 1:
                    kinds[top] = UNDECIDED
                else:
                    kinds[top] = arg >> kind & 1
            elif op == TRUTH:
                kinds[top] = _truth(kinds[top], numbers[top], ids[top], constant_ids[arg])
            elif op == MEMBER:
                kinds[top] = _member(sets[arg], set_numbers, set_ids, kinds[top], numbers[top], ids[top])
            elif op == SAME:
                top -= 1
                if kinds[top] == NONE or kinds[top + 1] == NONE:
                    kinds[top] = ERROR
                else:
                    kinds[top] = np.int64(ids[top] == ids[top + 1])
            else:  # LEAF
                top += 1
                kinds[top] = leaves[k, arg] if leaves.shape[0] else UNDECIDED
        truths[k] = kinds[0]
