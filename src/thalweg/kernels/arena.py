"""Open addressing over a log of records: texts to ids and back, exactly.

`slots` int64[2n] holds pairs (id, offset of the record), n a power of two, id 0 = free. `log` uint8 holds
records `[id 8][size 4][text]` one after the other. `head` int64 holds the counters named below.

The law: within one arena an id has one text and a text has one id. A text's first candidate is `hash & mask`;
where another text sits there, the k-th next candidate is `mix(hash, k)`. So a text may be dropped only if no
kept text passed over it on the way to its own id (`close_over`). Nothing here allocates: the caller makes
room before.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.bits import (
    address,
    copy64,
    load8,
    load_half,
    load_word,
    prefetch,
    store8,
    store_half,
    store_word,
)
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash64, mix, same

USED, COUNT, MASK, COLLIDED = 0, 1, 2, 3
"""Places in `head`: bytes used of the log, terms, mask of the first candidate, terms that are not at it."""

RECORD = 12
"""Bytes of a record before its text."""

_AHEAD = 16
"""How many ids ahead a slot is prefetched: finding it takes a cache miss."""

SCOPED = 18
"""Bytes by which the scope makes a blank node's text longer: `_:x` becomes `_:e0123456789abcdef-x`."""


@njit(cache=True, nogil=True)
def crowded(count, last):
    """Whether so many terms fill more than five eighths of the slots: then there must be more slots."""
    return count * 8 > last * 5


@njit(cache=True, nogil=True)
def find(slots_at, last, id_):
    """Offset of an id's record in the log, or -1; `last` is the number of slots minus one."""
    i = id_ & last
    while True:
        found = load_word(slots_at + 16 * i)
        if found == id_:
            return load_word(slots_at + 16 * i + 8)
        if found == 0:
            return -1
        i = (i + 1) & last


@njit(cache=True, nogil=True)
def copy(target, source, size):
    """Copy a text; up to 63 bytes beyond its end are overwritten too."""
    done = 0
    while done < size:
        copy64(target + done, source + done)
        done += 64


@njit(cache=True, nogil=True)
def put(head, slots_at, last, log_at, at, size, h):
    """Id of a text with hash h; a new text gets a record. There must be room for it."""
    id_ = h & head[MASK]
    attempt = 0
    while True:
        if id_ != 0:
            i = id_ & last
            while True:
                slot = slots_at + 16 * i
                found = load_word(slot)
                if found == id_:
                    record = log_at + load_word(slot + 8)
                    if load_half(record + 8) == size and same(record + RECORD, at, size):
                        return id_
                    break
                if found == 0:
                    used = head[USED]
                    store_word(slot, id_)
                    store_word(slot + 8, used)
                    record = log_at + used
                    copy(record + RECORD, at, size)
                    store_word(record, id_)
                    store_half(record + 8, size)
                    head[USED] = used + RECORD + size
                    head[COUNT] += 1
                    if attempt > 0:
                        head[COLLIDED] += 1
                    return id_
                i = (i + 1) & last
        attempt += 1
        id_ = mix(h, attempt)


PENDING = 128
"""Texts that wait to be entered together."""


@njit(cache=True, nogil=True)
def put_later(pending, count, head, slots_at, last, at, size, h, target):
    """Note a text whose id is to be written to the address `target`; gives the new count.

    Looking up a text costs two cache misses. The first one starts here, and `put_all` starts many of the
    second kind before it waits for any.
    """
    prefetch(slots_at + 16 * (h & head[MASK] & last))
    pending[count, 0] = at
    pending[count, 1] = size
    pending[count, 2] = h
    pending[count, 3] = target
    return count + 1


@njit(cache=True, nogil=True)
def copy_later(pending, count, source, target):
    """Note that the id at the address `source`, perhaps still to come, is also that of `target`."""
    pending[count, 0] = source
    pending[count, 1] = -1
    pending[count, 3] = target
    return count + 1


@njit(cache=True, nogil=True)
def put_all(pending, count, head, slots_at, last, log_at):
    """Enter the noted texts and write their ids. There must be room for them."""
    for k in range(count):
        if pending[k, 1] >= 0:
            slot = slots_at + 16 * (pending[k, 2] & head[MASK] & last)
            if load_word(slot) != 0:
                record = log_at + load_word(slot + 8)
                prefetch(record)
                prefetch(record + RECORD + pending[k, 1])
    for k in range(count):
        if pending[k, 1] < 0:
            store_word(pending[k, 3], load_word(pending[k, 0]))
        else:
            id_ = put(head, slots_at, last, log_at, pending[k, 0], pending[k, 1], pending[k, 2])
            store_word(pending[k, 3], id_)


@njit(cache=True, nogil=True)
def seek(head, slots, log, at, size):
    """Id of a text, or 0 if the arena does not have it."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    h = hash64(at, size)
    id_ = h & head[MASK]
    attempt = 0
    while True:
        if id_ != 0:
            offset = find(slots_at, last, id_)
            if offset < 0:
                return 0
            record = log_at + offset
            if load_half(record + 8) == size and same(record + RECORD, at, size):
                return id_
        attempt += 1
        id_ = mix(h, attempt)


@njit(cache=True, nogil=True)
def intern(head, slots, log, at, size):
    """`put` for callers that have arrays and no hash."""
    return put(head, address(slots), slots.size // 2 - 1, address(log), at, size, hash64(at, size))


@njit(cache=True, nogil=True)
def locate(slots, log, ids, places):
    """For each id the offset of its text in the log and the text's size; (-1, 0) for an unknown id."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    for k in range(ids.size):
        offset = -1
        if ids[k] != 0:
            offset = find(slots_at, last, ids[k])
        if offset < 0:
            places[k, 0] = -1
            places[k, 1] = 0
        else:
            places[k, 0] = offset + RECORD
            places[k, 1] = load_half(log_at + offset + 8)


@njit(cache=True, nogil=True)
def mark(slots, ids, flags):
    """Set the flag of each slot whose id is among `ids` (unknown ids are passed over)."""
    slots_at = address(slots)
    last = slots.size // 2 - 1
    for k in range(ids.size):
        if k + _AHEAD < ids.size:
            prefetch(slots_at + 16 * (ids[k + _AHEAD] & last))
        id_ = ids[k]
        if id_ == 0:
            continue
        i = id_ & last
        while True:
            found = load_word(slots_at + 16 * i)
            if found == id_:
                flags[i] = 1
                break
            if found == 0:
                break
            i = (i + 1) & last


@njit(cache=True, nogil=True)
def number(slots, log, ids, named, numbers, places):
    """Number the distinct terms among `ids` from 1 on, in the order of their first appearance; 0 stays 0.

    `named` has a zero for every slot, `places` gets the offset and the size of each text. Gives how many there are; an
    unknown id gives -1.
    """
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    named_at = address(named)
    count = 0
    for k in range(ids.size):
        if k + _AHEAD < ids.size:
            i = ids[k + _AHEAD] & last
            prefetch(slots_at + 16 * i)
            prefetch(named_at + 4 * i)
        id_ = ids[k]
        if id_ == 0:
            numbers[k] = 0
            continue
        i = id_ & last
        while True:
            found = load_word(slots_at + 16 * i)
            if found == id_:
                break
            if found == 0:
                return -1
            i = (i + 1) & last
        if named[i] == 0:
            record = load_word(slots_at + 16 * i + 8)
            places[count, 0] = record + RECORD
            places[count, 1] = load_half(log_at + record + 8)
            count += 1
            named[i] = count
        numbers[k] = named[i]
    return count


@njit(cache=True, nogil=True)
def _flag(slots_at, last, flags, id_):
    """Set the flag of a present id; 1 if it was not set before."""
    i = id_ & last
    while load_word(slots_at + 16 * i) != id_:
        i = (i + 1) & last
    if flags[i]:
        return 0
    flags[i] = 1
    return 1


@njit(cache=True, nogil=True)
def close_over(head, slots, log, flags):
    """Flag also the terms that a flagged one passed over on the way to its id, until none is added."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    added = 1
    while added > 0:
        added = 0
        for i in range(last + 1):
            if flags[i]:
                id_ = load_word(slots_at + 16 * i)
                record = log_at + load_word(slots_at + 16 * i + 8)
                h = hash64(record + RECORD, load_half(record + 8))
                candidate = h & head[MASK]
                attempt = 0
                while candidate != id_:
                    if candidate != 0:
                        added += _flag(slots_at, last, flags, candidate)
                    attempt += 1
                    candidate = mix(h, attempt)


@njit(cache=True, nogil=True)
def first_choices(head, slots, log, ids, choices):
    """For each id, the one that its text would have in an arena without collisions; 0 for an unknown one."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    for k in range(ids.size):
        offset = find(slots_at, last, ids[k]) if ids[k] != 0 else -1
        if offset < 0:
            choices[k] = 0
        else:
            size = load_half(log_at + offset + 8)
            choices[k] = hash64(log_at + offset + RECORD, size) & head[MASK]


@njit(cache=True, nogil=True)
def _prefetch_slots(slots_at, last, log_at, at, used, records):
    """Prefetch the slots of so many records from an offset on; gives the offset of the one behind them."""
    while records > 0 and at < used:
        prefetch(slots_at + 16 * (load_word(log_at + at) & last))
        at += RECORD + load_half(log_at + at + 8)
        records -= 1
    return at


@njit(cache=True, nogil=True)
def gather(head, slots, log, flags, target):
    """Copy the flagged records in log order to the start of `target`; gives the bytes written.

    With an empty target nothing is written: the first call gives the size.
    """
    slots_at = address(slots)
    log_at = address(log)
    target_at = address(target)
    last = slots.size // 2 - 1
    measure = target.size == 0
    at = 0
    done = 0
    fetched = _prefetch_slots(slots_at, last, log_at, 0, head[USED], _AHEAD)
    while at < head[USED]:
        fetched = _prefetch_slots(slots_at, last, log_at, fetched, head[USED], 1)
        size = RECORD + load_half(log_at + at + 8)
        id_ = load_word(log_at + at)
        i = id_ & last
        while load_word(slots_at + 16 * i) != id_:
            i = (i + 1) & last
        if flags[i]:
            if not measure:
                copy(target_at + done, log_at + at, size)
            done += size
        at += size
    return done


@njit(cache=True, nogil=True)
def index(head, slots, log, used):
    """Enter the records of the first `used` bytes of the log into empty slots, and set the counters."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    at = 0
    count = 0
    collided = 0
    check = head[MASK] != -1 or head[COLLIDED] > 0
    fetched = _prefetch_slots(slots_at, last, log_at, 0, used, _AHEAD)
    while at < used:
        fetched = _prefetch_slots(slots_at, last, log_at, fetched, used, 1)
        id_ = load_word(log_at + at)
        size = load_half(log_at + at + 8)
        if check and hash64(log_at + at + RECORD, size) & head[MASK] != id_:
            collided += 1
        i = id_ & last
        while load_word(slots_at + 16 * i) != 0:
            i = (i + 1) & last
        store_word(slots_at + 16 * i, id_)
        store_word(slots_at + 16 * i + 8, at)
        count += 1
        at += RECORD + size
    head[USED] = used
    head[COUNT] = count
    head[COLLIDED] = collided


@njit(cache=True, nogil=True)
def merge(head, slots, log, at, size, start, remap):
    """Enter the records at an address, from `start` on; differing ids go to `remap` as pairs (there, here).

    Gives (where it stopped, pairs written). It stops early where the slots are half full or `remap` is full;
    a record that runs over the end gives (-1, 0). The log must have room for all of `size`.
    """
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    pairs = 0
    while start < size:
        if crowded(head[COUNT] + 1, last) or pairs == remap.shape[0]:
            break
        if start + RECORD > size:
            return -1, 0
        length = load_half(at + start + 8)
        if start + RECORD + length > size:
            return -1, 0
        id_ = load_word(at + start)
        text = at + start + RECORD
        here = put(head, slots_at, last, log_at, text, length, hash64(text, length))
        if here != id_:
            remap[pairs, 0] = id_
            remap[pairs, 1] = here
            pairs += 1
        start += RECORD + length
    return start, pairs


@njit(cache=True, nogil=True)
def enter(head, slots, log, at, sizes, start, pending, ids):
    """Enter texts that lie one after the other, from the one with the number `start` on, which is at the address `at`.

    Gives (the number of the next one, where it is): it stops early where the slots are too full. The log must have room
    for all of them.
    """
    slots_at = address(slots)
    log_at = address(log)
    ids_at = address(ids)
    last = slots.size // 2 - 1
    while start < sizes.size:
        count = min(PENDING, sizes.size - start)
        if crowded(head[COUNT] + count, last):
            break
        for k in range(count):
            size = np.int64(sizes[start + k])
            put_later(pending, k, head, slots_at, last, at, size, hash64(at, size), ids_at + 8 * (start + k))
            at += size
        put_all(pending, count, head, slots_at, last, log_at)
        start += count
    return start, at


@njit(cache=True, nogil=True)
def write_scoped(target, label, size, scope):
    """Write the blank node `_:label` (size bytes at `label`) as `_:e<scope>-label`; gives the new size."""
    copy(target + 2 + SCOPED, label + 2, size - 2)
    store8(target, 0x5F)
    store8(target + 1, 0x3A)
    store8(target + 2, 0x65)
    for k in range(16):
        digit = (scope >> (60 - 4 * k)) & 15
        store8(target + 3 + k, digit + (0x30 if digit < 10 else 0x57))
    store8(target + 19, 0x2D)
    return size + SCOPED


@njit(cache=True, nogil=True)
def rescope(head, slots, log, ids, scopes, start):
    """Replace, in place, each blank node among `ids` by that of its scope; gives where room ran out."""
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    for k in range(start, ids.size):
        if ids[k] == 0:
            continue
        offset = find(slots_at, last, ids[k])
        if offset < 0:
            continue
        size = load_half(log_at + offset + 8)
        text = log_at + offset + RECORD
        if load8(text) != 0x5F:
            continue
        if crowded(head[COUNT] + 1, last) or head[USED] + RECORD + size + SCOPED + 128 > log.size:
            return k
        tail = log_at + head[USED] + RECORD
        size = write_scoped(tail, text, size, scopes[k])
        ids[k] = put(head, slots_at, last, log_at, tail, size, hash64(tail, size))
    return ids.size
