"""A seeded generator of a social network's life as a stream of N-Triples: persons, forums, posts, comments, likes.

The vocabulary and the shape (a link that has a date is a node of its own: `?p :likes ?like . ?like :hasPost ?post`)
are those of the LDBC Social Network Benchmark; the program and its random numbers are our own.

It is skewed as such networks are: few countries, tags and forums have most of the rows, links go to those who have
many already, people write in bursts and turn silent, and most of what happens concerns what is new.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from thalweg.testing.generate import TYPE, XSD

SNVOC = "http://www.ldbc.eu/ldbc_socialnet/1.0/vocabulary/"
SOCIAL = "http://www.ldbc.eu/ldbc_socialnet/1.0/data/"
DBPEDIA = "http://dbpedia.org/resource/"
START = datetime(2012, 1, 1, tzinfo=UTC)

# From the most to the least frequent one.
COUNTRIES = (
    *("China", "India", "United_States", "Indonesia", "Brazil", "Pakistan", "Nigeria", "Russia", "Mexico"),
    *("Germany", "France", "Nicaragua", "Peru", "Ghana", "Chile", "Cuba", "Laos", "Malta", "Fiji", "Palau"),
)
TAGS = (
    *("Augustine_of_Hippo", "Napoleon", "Charles_Dickens", "Ludwig_van_Beethoven", "Elvis_Presley", "Gandhi"),
    *(f"Tag_{number}" for number in range(300)),
)
_LANGUAGES = ("zh", "en", "es", "hi", "pt", "ru", "de", "fr")
_WORDS = ("about", "maybe", "thanks", "great", "no", "right", "photo", "yes", "fine", "good", "cool", "lol")

_ACTIVE = 4000
"""Persons, of those who came last, who still write."""
_RECENT = 3000
"""Posts that are still answered and liked."""
_AT_ONCE = 12
"""Bursts of writing that are under way at one time."""


def social(triples: int, *, seed: int = 0) -> Iterator[str]:
    """Exactly that many triples of a social network, as pieces of an N-Triples document.

    >>> text = "".join(social(5_000))
    >>> text.count("\\n"), text == "".join(social(5_000))
    (5000, True)
    """
    network = _Network(random.Random(seed))
    left = triples
    while left > 0:
        lines = network.happen()
        yield "".join(lines[:left])
        left -= len(lines)


class _Network:
    """Who and what there is so far, as far as new rows can refer to it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.persons = 0
        self.forums = 0
        self.messages = 0
        self.links = 0
        self.now = START
        self.posts: deque[str] = deque(maxlen=_RECENT)
        self.liked: deque[str] = deque(maxlen=_RECENT)  # the last likes: popular posts become more so
        self.known: list[str] = []  # an entry for each link to a person: a draw prefers those who have many
        self.bursts: list[tuple[str, int]] = []
        self.lines: list[str] = []

    def happen(self) -> list[str]:
        """The rows of the next thing that happens."""
        self.lines = []
        self.now += timedelta(milliseconds=self.chance.randint(50, 2000))
        draw = self.chance.random()
        if self.persons < 5 or draw < 0.06:
            self.join()
        elif self.forums < 1 or draw < 0.07:
            self.found()
        elif draw < 0.12:
            self.enter()
        elif draw < 0.20:
            self.meet()
        elif draw < 0.45 and self.posts:
            self.like()
        elif draw < 0.72 or not self.posts:
            self.post()
        else:
            self.comment()
        return self.lines

    # What can happen

    def join(self) -> None:
        """A new person with interests, languages and a place."""
        person = f"<{SOCIAL}pers{self.persons:020d}>"
        self.is_a(person, "Person")
        self.say(person, "id", f'"{self.persons}"^^<{XSD}long>')
        self.say(person, "firstName", f'"Given{self.skewed(500)}"')
        self.say(person, "lastName", f'"Family{self.skewed(2000)}"')
        self.say(person, "isLocatedIn", self.country())
        for language in self.some(_LANGUAGES, 3):
            self.say(person, "speaks", f'"{language}"')
        for tag in self.some(TAGS, 5):
            self.say(person, "hasInterest", f"<{DBPEDIA}{tag}>")
        self.persons += 1

    def found(self) -> None:
        """A new forum with its title and moderator."""
        forum = f"<{SOCIAL}forum{self.forums:020d}>"
        self.is_a(forum, "Forum")
        self.say(forum, "id", f'"{self.forums}"^^<{XSD}long>')
        self.say(forum, "title", f'"Group for {self.chance.choice(TAGS)} no {self.forums}"')
        self.say(forum, "hasModerator", self.person())
        self.forums += 1

    def enter(self) -> None:
        """Somebody becomes a member of a forum."""
        self.link(self.forum(), "hasMember", "hasPerson", self.person(), "joinDate")

    def meet(self) -> None:
        """Somebody gets to know somebody, most likely one whom many know."""
        popular = (
            self.chance.choice(self.known) if self.known and self.chance.random() < 0.6 else self.person()
        )
        self.link(self.person(), "knows", "hasPerson", popular, "creationDate")
        self.known.append(popular)

    def like(self) -> None:
        """Somebody likes one of the recent posts, most likely a popular one."""
        post = self.chance.choice(self.liked) if self.liked and self.chance.random() < 0.6 else self.recent()
        self.link(self.person(), "likes", "hasPost", post, "creationDate")
        self.liked.append(post)

    def post(self) -> None:
        """A new post in a forum."""
        post = self.message("Post")
        for tag in self.some(TAGS, 3):
            self.say(post, "hasTag", f"<{DBPEDIA}{tag}>")
        self.say(self.forum(), "containerOf", post)
        self.posts.append(post)

    def comment(self) -> None:
        """A new comment on a recent post."""
        self.say(self.message("Comment"), "replyOf", self.recent())

    # Parts of it

    def message(self, kind: str) -> str:
        """A new message by the next of those who are writing."""
        message = f"<{SOCIAL}{kind.lower()}{self.messages:020d}>"
        self.is_a(message, kind)
        self.say(message, "id", f'"{self.messages}"^^<{XSD}long>')
        self.say(message, "creationDate", self.date())
        self.say(message, "hasCreator", self.writer())
        words = " ".join(self.chance.choices(_WORDS, k=self.chance.randint(2, 9)))
        self.say(message, "content", f'"{words} {self.messages}"')
        self.say(message, "isLocatedIn", self.country())
        self.messages += 1
        return message

    def link(self, source: str, out: str, to: str, target: str, dated: str) -> None:
        """A link with a date, which is a node."""
        node = f"<{SOCIAL}link{self.links:020d}>"
        self.links += 1
        self.say(source, out, node)
        self.say(node, to, target)
        self.say(node, dated, self.date())

    def writer(self) -> str:
        """The author of the next message: one of a few who write several in a row."""
        if len(self.bursts) < _AT_ONCE:
            self.bursts.append((self.person(), min(40, int(self.chance.paretovariate(1.3)))))
        place = self.chance.randrange(len(self.bursts))
        who, left = self.bursts[place]
        if left > 1:
            self.bursts[place] = who, left - 1
        else:
            del self.bursts[place]
        return who

    def person(self) -> str:
        return f"<{SOCIAL}pers{self.persons - 1 - self.skewed(min(self.persons, _ACTIVE), 1.5):020d}>"

    def forum(self) -> str:
        return f"<{SOCIAL}forum{self.forums - 1 - self.skewed(min(self.forums, 200)):020d}>"

    def recent(self) -> str:
        return self.posts[-1 - self.skewed(len(self.posts))]

    def country(self) -> str:
        return f"<{DBPEDIA}{COUNTRIES[self.skewed(len(COUNTRIES))]}>"

    def date(self) -> str:
        return f'"{self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")}"^^<{XSD}dateTime>'

    def some(self, names: tuple[str, ...], most: int) -> list[str]:
        """One or more of the names, the first ones most often."""
        count = self.chance.randint(1, most)
        return list(dict.fromkeys(names[self.skewed(len(names))] for _ in range(count)))

    def skewed(self, count: int, power: float = 3.0) -> int:
        """A number below count, small ones far more often than large ones."""
        return int(count * self.chance.random() ** power)

    def is_a(self, subject: str, name: str) -> None:
        self.lines.append(f"{subject} {TYPE} <{SNVOC}{name}> .\n")

    def say(self, subject: str, predicate: str, value: str) -> None:
        self.lines.append(f"{subject} <{SNVOC}{predicate}> {value} .\n")
