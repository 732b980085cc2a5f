"""Sorted columns of triples: where triples are in them, and two of them as one."""

from __future__ import annotations

from thalweg.kernels.checking import njit


@njit(cache=True, nogil=True)
def _before(p, s, o, k, other_p, other_s, other_o, j):
    """Whether triple k of some columns comes before triple j of others: by predicate, subject and object."""
    if p[k] != other_p[j]:
        return p[k] < other_p[j]
    if s[k] != other_s[j]:
        return s[k] < other_s[j]
    return o[k] < other_o[j]


@njit(cache=True, nogil=True)
def locate(s, p, o, wanted_s, wanted_p, wanted_o, places):
    """Fill in the place of each wanted triple in sorted columns, or -1.

    The search begins where the one before ended: for wanted triples in the same order, it steps through near memory.
    """
    size, low = p.size, 0
    for j in range(wanted_p.size):
        # Widen a range around the last place until the triple is in it.
        step = 1
        if low < size and _before(p, s, o, low, wanted_p, wanted_s, wanted_o, j):
            high = low + 1
            while high < size and _before(p, s, o, high, wanted_p, wanted_s, wanted_o, j):
                low, step = high + 1, 2 * step
                high += step
            high = min(high, size)
        else:
            high = low
            low -= 1
            while low >= 0 and not _before(p, s, o, low, wanted_p, wanted_s, wanted_o, j):
                high, step = low, 2 * step
                low -= step
            low = max(low, 0)
        while low < high:
            middle = (low + high) >> 1
            if _before(p, s, o, middle, wanted_p, wanted_s, wanted_o, j):
                low = middle + 1
            else:
                high = middle
        found = low < size and p[low] == wanted_p[j] and s[low] == wanted_s[j] and o[low] == wanted_o[j]
        places[j] = low if found else -1


@njit(cache=True, nogil=True)
def merge(s, p, o, other_s, other_p, other_o, to_s, to_p, to_o):
    """Merge two runs of sorted distinct triples into one; the number of its triples. What is in both is there once."""
    k = j = count = 0
    while k < p.size or j < other_p.size:
        if j == other_p.size:
            first, second = True, False
        elif k == p.size:
            first, second = False, True
        else:
            first = not _before(other_p, other_s, other_o, j, p, s, o, k)
            second = not _before(p, s, o, k, other_p, other_s, other_o, j)
        if first:
            to_s[count], to_p[count], to_o[count] = s[k], p[k], o[k]
            k += 1
        else:
            to_s[count], to_p[count], to_o[count] = other_s[j], other_p[j], other_o[j]
        if second:
            j += 1
        count += 1
    return count
