"""Seeded generators of streams: LUBM-shaped N-Triples, and a smart grid as timestamped N-Quads graphs.

`python -m thalweg.testing.generate lubm 100000 lubm.nt.gz` or `... grid 5000 grid.nq` writes a file; `social` is
that of `generate_social`.

The shape of the first (classes, predicates, their numbers per department and their order in the file) follows
the profile that the Lehigh University Benchmark publishes; the program and its random numbers are our own.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

UB = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
GRID = "http://grid.example/"
XSD = "http://www.w3.org/2001/XMLSchema#"
GENERATED_AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
GRID_START = datetime(2026, 1, 5, 17, 0, tzinfo=UTC)

# Per department: how many teachers of a rank, and how many publications each of them has.
_FACULTY = {
    "FullProfessor": (range(7, 11), range(15, 21)),
    "AssociateProfessor": (range(10, 15), range(10, 19)),
    "AssistantProfessor": (range(8, 12), range(5, 11)),
    "Lecturer": (range(5, 8), range(0, 6)),
}
_UNIVERSITIES = 1000


def lubm(triples: int, *, seed: int = 0) -> Iterator[str]:
    """Exactly that many triples of universities, as pieces of an N-Triples document.

    >>> text = "".join(lubm(10_000))
    >>> text.count("\\n"), text == "".join(lubm(10_000))
    (10000, True)
    """
    chance = random.Random(seed)
    left = triples
    university = 0
    while left > 0:
        for number in range(chance.randint(15, 25)):
            lines = _department(chance, number, university)
            yield "".join(lines[:left])
            left -= len(lines)
            if left <= 0:
                return
        university += 1


def _department(chance: random.Random, number: int, university: int) -> list[str]:
    home = f"http://www.Department{number}.University{university}.edu"
    mail = f"Department{number}.University{university}.edu"
    school = f"<http://www.University{university}.edu>"
    department = f"<{home}>"
    lines: list[str] = []

    def say(subject: str, predicate: str, value: str) -> None:
        lines.append(f"{subject} <{UB}{predicate}> {value} .\n")

    def is_a(subject: str, name: str) -> None:
        lines.append(f"{subject} {TYPE} <{UB}{name}> .\n")

    def degree(person: str, kind: str) -> None:
        origin = f"<http://www.University{chance.randrange(_UNIVERSITIES)}.edu>"
        say(person, kind, origin)
        is_a(origin, "University")

    def reach(person: str, name: str) -> None:
        say(person, "emailAddress", f'"{name}@{mail}"')
        say(person, "telephone", '"xxx-xxx-xxxx"')

    if number == 0:
        is_a(school, "University")
        say(school, "name", f'"University{university}"')
    is_a(department, "Department")
    say(department, "name", f'"Department{number}"')
    say(department, "subOrganizationOf", school)
    is_a(school, "University")

    faculty: list[str] = []
    courses = graduate_courses = 0
    counts = {rank: chance.choice(many) for rank, (many, _) in _FACULTY.items()}
    head = chance.randrange(counts["FullProfessor"])
    for rank, count in counts.items():
        for i in range(count):
            name = f"{rank}{i}"
            person = f"<{home}/{name}>"
            faculty.append(name)
            is_a(person, rank)
            say(person, "name", f'"{name}"')
            for _ in range(chance.randint(1, 2)):
                say(person, "teacherOf", f"<{home}/Course{courses}>")
                courses += 1
            for _ in range(chance.randint(1, 2)):
                say(person, "teacherOf", f"<{home}/GraduateCourse{graduate_courses}>")
                graduate_courses += 1
            for kind in ("undergraduateDegreeFrom", "mastersDegreeFrom", "doctoralDegreeFrom"):
                degree(person, kind)
            say(person, "worksFor", department)
            reach(person, name)
            if rank != "Lecturer":
                say(person, "researchInterest", f'"Research{chance.randrange(30)}"')
            if rank == "FullProfessor" and i == head:
                say(person, "headOf", department)
    for kind, count in (("Course", courses), ("GraduateCourse", graduate_courses)):
        for i in range(count):
            is_a(f"<{home}/{kind}{i}>", kind)
            say(f"<{home}/{kind}{i}>", "name", f'"{kind}{i}"')

    professors = len(faculty) - counts["Lecturer"]
    graduates = int(len(faculty) * chance.uniform(3, 4))
    for i in range(int(len(faculty) * chance.uniform(8, 14))):
        name = f"UndergraduateStudent{i}"
        person = f"<{home}/{name}>"
        is_a(person, "UndergraduateStudent")
        say(person, "name", f'"{name}"')
        say(person, "memberOf", department)
        reach(person, name)
        for course in chance.sample(range(courses), chance.randint(2, 4)):
            say(person, "takesCourse", f"<{home}/Course{course}>")
        if chance.random() < 0.2:
            say(person, "advisor", f"<{home}/{faculty[chance.randrange(professors)]}>")
    for i in range(graduates):
        name = f"GraduateStudent{i}"
        person = f"<{home}/{name}>"
        is_a(person, "GraduateStudent")
        say(person, "name", f'"{name}"')
        say(person, "memberOf", department)
        reach(person, name)
        for course in chance.sample(range(graduate_courses), chance.randint(1, 3)):
            say(person, "takesCourse", f"<{home}/GraduateCourse{course}>")
        degree(person, "undergraduateDegreeFrom")
        say(person, "advisor", f"<{home}/{faculty[chance.randrange(professors)]}>")

    for name in faculty:
        for i in range(chance.choice(_FACULTY[name.rstrip("0123456789")][1])):
            paper = f"<{home}/{name}/Publication{i}>"
            is_a(paper, "Publication")
            say(paper, "name", f'"Publication{i}"')
            say(paper, "publicationAuthor", f"<{home}/{name}>")
            for student in chance.sample(range(graduates), chance.choice((0, 0, 1, 1, 2))):
                say(paper, "publicationAuthor", f"<{home}/GraduateStudent{student}>")
    helpers = chance.sample(range(graduates), int(graduates * chance.uniform(0.45, 0.55)))
    teaching = min(int(len(helpers) * 0.43), courses)
    for student, course in zip(helpers[:teaching], chance.sample(range(courses), teaching), strict=True):
        is_a(f"<{home}/GraduateStudent{student}>", "TeachingAssistant")
        say(f"<{home}/GraduateStudent{student}>", "teachingAssistantOf", f"<{home}/Course{course}>")
    for student in helpers[teaching:]:
        is_a(f"<{home}/GraduateStudent{student}>", "ResearchAssistant")
    for i in range(chance.randint(10, 20)):
        is_a(f"<{home}/ResearchGroup{i}>", "ResearchGroup")
        say(f"<{home}/ResearchGroup{i}>", "subOrganizationOf", department)
    return lines


def smart_grid(readings: int, *, houses: int = 40, seed: int = 0) -> Iterator[str]:
    """That many readings of plugs and meters, each a named graph with its time, as pieces of N-Quads.

    Every sensor reports once in ten seconds. Now and then a plug draws too much for a while, and in half
    of these cases the supply of its house dips a little later: that pair is what a grid operator looks for.

    >>> text = "".join(smart_grid(100))
    >>> text.count("generatedAtTime")
    100
    """
    chance = random.Random(seed)
    plugs = [chance.randint(4, 8) for _ in range(houses)]
    sensors = [(house, plug) for house in range(houses) for plug in range(-1, plugs[house])]
    chance.shuffle(sensors)
    gap = timedelta(seconds=10) / len(sensors)
    overload = [(-1, 0)] * houses  # which plug draws too much, and until which round
    dip = [(0, 0)] * houses  # from which round to which the supply dips
    for first in range(0, readings, len(sensors)):
        turn = first // len(sensors)
        if chance.random() < 0.06:
            house = chance.randrange(houses)
            if overload[house][1] < turn:
                overload[house] = (chance.randrange(plugs[house]), turn + chance.randint(2, 5))
                if chance.random() < 0.5:
                    dip[house] = (turn + 1, turn + chance.randint(2, 4))
        lines = []
        for place, (house, plug) in enumerate(sensors[: readings - first]):
            time = GRID_START + (first + place) * gap
            graph = f"<{GRID}reading/{first + place}>"
            stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            lines.append(f'{graph} {GENERATED_AT} "{stamp}"^^<{XSD}dateTime> .\n')
            home = f"<{GRID}house/{house}>"
            if plug < 0:
                low = dip[house][0] <= turn < dip[house][1]
                volts = chance.uniform(205, 214) if low else chance.uniform(226, 234)
                meter = f"<{GRID}meter/{house}>"
                rows = [
                    (meter, TYPE, f"<{GRID}Meter>"),
                    (meter, f"<{GRID}in>", home),
                    (meter, f"<{GRID}volts>", f'"{volts:.1f}"^^<{XSD}decimal>'),
                    (meter, f"<{GRID}supply>", f"<{GRID}{'Dip' if low else 'Steady'}>"),
                    (home, f"<{GRID}fedBy>", f"<{GRID}feeder/{house // 8}>"),
                ]
            else:
                high = overload[house][0] == plug and turn <= overload[house][1]
                watts = chance.randint(3700, 5200) if high else chance.randint(0, 2400)
                socket = f"<{GRID}plug/{house}-{plug}>"
                rows = [
                    (socket, TYPE, f"<{GRID}Plug>"),
                    (socket, f"<{GRID}in>", home),
                    (socket, f"<{GRID}watts>", f'"{watts}"^^<{XSD}integer>'),
                    (socket, f"<{GRID}load>", f"<{GRID}{'Overload' if high else 'Normal'}>"),
                ]
            lines += [f"{s} {p} {o} {graph} .\n" for s, p, o in rows]
        yield "".join(lines)


def write(pieces: Iterator[str], path: str | Path) -> int:
    """Write a generated document to a file (gzipped by its suffix); the number of bytes of its text."""
    path = Path(path)
    size = 0
    with gzip.open(path, "wb", 6) if path.suffix == ".gz" else path.open("wb") as file:
        for piece in pieces:
            size += file.write(piece.encode())
    return size


def main() -> None:
    """The command line: which stream, how many triples or readings, and where to."""
    parser = argparse.ArgumentParser(prog="python -m thalweg.testing.generate", description=main.__doc__)
    parser.add_argument("kind", choices=["lubm", "grid", "social"])
    parser.add_argument("count", type=int, help="triples of lubm and social, or readings of grid")
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    from thalweg.testing.generate_social import social

    kinds: dict[str, Callable[..., Iterator[str]]] = {"lubm": lubm, "grid": smart_grid, "social": social}
    pieces = kinds[given.kind](given.count, seed=given.seed)
    print(f"{given.path}: {write(pieces, given.path):,} bytes of text")


if __name__ == "__main__":
    main()
