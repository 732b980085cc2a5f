"""Business processes as a stream of triples: processes, their tasks, and the order of these (003, section IV)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice

EBTIC = "http://ebtic.example/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TASK_TYPES = 30
_CUSTOMERS = 500
_WORKERS = 200


def processes(triples: int, seed: int = 3) -> Iterator[str]:
    """So many lines of N-Triples; 320 are about one process instance with 40 tasks, as in the paper.

    >>> first = list(processes(3))
    >>> first[0].strip().rpartition("/")[2]
    'Process> .'
    """
    return islice(_lines(random.Random(seed)), triples)


def _lines(chance: random.Random) -> Iterator[str]:
    for number in count(1):
        process = f"<{EBTIC}Proc{number}>"
        yield f"{process} {_TYPE} <{EBTIC}Process> .\n"
        yield f'{process} <{EBTIC}name> "process {number}" .\n'
        yield f"{process} <{EBTIC}customer> <{EBTIC}customer{chance.randrange(_CUSTOMERS)}> .\n"
        tasks = [f"<{EBTIC}Task{number}-{k}>" for k in range(chance.randint(30, 50))]
        clock = number * 60
        for k, task in enumerate(tasks):
            kind = chance.randrange(_TASK_TYPES)
            length = chance.randint(1, 600)
            yield f"{process} <{EBTIC}hasTask> {task} .\n"
            yield f"{task} {_TYPE} <{EBTIC}TaskType{kind}> .\n"
            yield f'{task} <{EBTIC}startedAt> "{clock}"^^<{_XSD}integer> .\n'
            yield f'{task} <{EBTIC}duration> "{length}"^^<{_XSD}integer> .\n'
            yield f"{task} <{EBTIC}performedBy> <{EBTIC}worker{chance.randrange(_WORKERS)}> .\n"
            yield f'{task} <{EBTIC}cost> "{length * 3 // 2}.{k % 10}"^^<{_XSD}decimal> .\n'
            if k:
                yield f"{tasks[k - 1]} <{EBTIC}followedBy> {task} .\n"
                yield f"{task} <{EBTIC}precededBy> {tasks[k - 1]} .\n"
            clock += length
