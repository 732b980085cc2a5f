"""Entailment: from columns of triples to columns of the triples that follow from each, by the flat table of a schema.

The table has `properties` int64[n, 4] (id, what it reads, first form, forms) and `classes` int64[m, 4] (id of a
property, id of a class, first form, forms), both open addressing with n and m powers of two, id 0 = free; and `forms`
int64[k, 5]: (which end is the subject, or a constant; predicate; which end is the object, or a constant).

Most types of a stream are in no hierarchy that is asked for. So the classes have a filter `bits` int64[m / 8], one bit
for each: it stays in the innermost cache, where a table of thousands of classes does not (docs/decisions/0041).
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit

READS_OBJECT, READS_SUBJECT, READS_BOTH = 1, 2, 3
"""Which end of a property's triples is read as a class; where both are, no table has the forms."""
OF_SUBJECT, OF_OBJECT, CONSTANT = 0, 1, 2
"""What an end of a form is."""
FORM_CELLS = 5
ASIDE = -2
"""In place of a number of forms: they are in no table."""


@njit(cache=True, nogil=True)
def slot_of(p, c, last):
    """Where the search for a property and a class (0: none) begins in a table."""
    h = (np.uint64(p) ^ (np.uint64(c) * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(h >> np.uint64(32)) & last


@njit(cache=True, nogil=True)
def _search(table, p, c):
    """The row of a property, or of a property and a class, in a table; -1 where there is none."""
    last = np.int64(table.shape[0] - 1)
    slot = slot_of(p, c, last)
    while table[slot, 0] != 0:
        if table[slot, 0] == p and (c == 0 or table[slot, 1] == c):
            return slot
        slot = (slot + 1) & last
    return np.int64(-1)


@njit(cache=True, nogil=True)
def enter(table, rows, keyed):
    """Enters rows into an empty table, by their first cell, or with `keyed` by the first two."""
    last = np.int64(table.shape[0] - 1)
    for k in range(rows.shape[0]):
        slot = slot_of(rows[k, 0], rows[k, 1] if keyed else np.int64(0), last)
        while table[slot, 0] != 0:
            slot = (slot + 1) & last
        table[slot] = rows[k]


@njit(cache=True, nogil=True)
def enter_bits(bits, rows):
    """Enters the keys of rows of classes into an empty filter."""
    last = np.int64(64 * bits.shape[0] - 1)
    for k in range(rows.shape[0]):
        place = slot_of(rows[k, 0], rows[k, 1], last)
        bits[place >> 6] |= np.int64(1) << (place & 63)


@njit(cache=True, nogil=True)
def _may_have(bits, p, c):
    """Whether a class may be in the table of a filter; most that are not are recognized here."""
    place = slot_of(p, c, np.int64(64 * bits.shape[0] - 1))
    return bits[place >> 6] >> (place & 63) & 1 != 0


@njit(cache=True, nogil=True)
def find_forms(feed, takes, ss, ps, os, properties, classes, bits, itself, firsts, counts):
    """Finds the first form and the number of forms of each triple (or ASIDE).

    Triples of feeds that are not taken, and markers (0), have none. `itself` is the form of triples of other
    properties: themselves, or -1 where no pattern sees these. Answers how many forms there are in all, how many triples
    have some, and how many have them ASIDE.
    """
    total = np.int64(0)
    some = np.int64(0)
    aside = np.int64(0)
    last_p = np.int64(0)
    at = np.int64(-1)
    for i in range(ss.shape[0]):
        p = ps[i]
        if p == 0 or not takes[feed[i]]:
            firsts[i] = 0
            counts[i] = 0
            continue
        if p != last_p:
            at = _search(properties, p, np.int64(0))
            last_p = p
        if at < 0:
            firsts[i] = itself
            counts[i] = itself >= 0
            total += counts[i]
            some += counts[i]
            continue
        reads = properties[at, 1]
        first = properties[at, 2]
        count = properties[at, 3]
        if reads == READS_BOTH:
            counts[i] = ASIDE
            aside += 1
            continue
        if reads != 0:
            c = os[i] if reads == READS_OBJECT else ss[i]
            found = _search(classes, p, c) if _may_have(bits, p, c) else np.int64(-1)
            if found >= 0:
                first = classes[found, 2]
                count = classes[found, 3]
        firsts[i] = first
        counts[i] = count
        total += count
        some += count != 0
    return total, some, aside


@njit(cache=True, nogil=True)
def write_forms(ss, ps, os, firsts, counts, forms, source, out_s, out_p, out_o, turned):
    """Writes the triples that follow from each, which triple they follow from, and whether an object became a subject;
    answers how many of the latter there are.
    """
    at = np.int64(0)
    swapped = np.int64(0)
    for i in range(ss.shape[0]):
        for k in range(firsts[i], firsts[i] + counts[i]):
            kind = forms[k, 0]
            source[at] = i
            out_s[at] = ss[i] if kind == OF_SUBJECT else os[i] if kind == OF_OBJECT else forms[k, 1]
            out_p[at] = ps[i] if forms[k, 2] == 0 else forms[k, 2]
            turned[at] = kind == OF_OBJECT
            swapped += kind == OF_OBJECT
            kind = forms[k, 3]
            out_o[at] = ss[i] if kind == OF_SUBJECT else os[i] if kind == OF_OBJECT else forms[k, 4]
            at += 1
    return swapped


@njit(cache=True, nogil=True)
def write_rows(columns, firsts, counts, forms, out, turned, log):
    """Writes the rows that follow from rows (time, event, graph, s, p, o, op) as `write_forms` does.

    It logs those from which some follow (s, p, o, time), unless there is no room for them.
    """
    time, event, graph, ss, ps, os, op = columns
    at = np.int64(0)
    logged = np.int64(0)
    swapped = np.int64(0)
    for i in range(ss.shape[0]):
        if counts[i] == 0:
            continue
        if logged < log.shape[1]:
            log[0, logged] = ss[i]
            log[1, logged] = ps[i]
            log[2, logged] = os[i]
            log[3, logged] = time[i]
            logged += 1
        for k in range(firsts[i], firsts[i] + counts[i]):
            kind = forms[k, 0]
            out[0, at] = time[i]
            out[1, at] = event[i]
            out[2, at] = graph[i]
            out[3, at] = ss[i] if kind == OF_SUBJECT else os[i] if kind == OF_OBJECT else forms[k, 1]
            out[4, at] = ps[i] if forms[k, 2] == 0 else forms[k, 2]
            turned[at] = kind == OF_OBJECT
            swapped += kind == OF_OBJECT
            kind = forms[k, 3]
            out[5, at] = ss[i] if kind == OF_SUBJECT else os[i] if kind == OF_OBJECT else forms[k, 4]
            out[6, at] = op[i]
            at += 1
    return swapped
