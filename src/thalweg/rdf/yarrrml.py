"""A subset of YARRRML, and two keys of ours: the text of a mapping to its rules.

YARRRML writes RML in YAML. What a stream of rows cannot do (joins between sources, functions, iterators) is refused
where it is written. `event` (the time of a row and what it does) and `rows` (how rows are written) are our own keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NoReturn, cast

import yaml

from thalweg.errors import UsageError
from thalweg.rdf.mapping import Column, Layout, Rules, Term, TimeForm, TimeRule, Triple

_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_KNOWN_PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_SLOT = re.compile(r"\$\(((?:\\.|[^()\\])*)\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_TAG = re.compile(r"[a-zA-Z]+(?:-[a-zA-Z0-9]+)*")
_LABEL = re.compile(r"_:([A-Za-z0-9_][A-Za-z0-9_\-]*)")
_OFFSET = re.compile(r"[+-](?:0[0-9]|1[0-4]):[0-5][0-9]")
_DIRECTIVES = "YymdHIMSfbBaApz%"
_FORMS = ("dateTime", "epoch-s", "epoch-ms", "epoch-us")

_NULL = "tag:yaml.org,2002:null"
# Keys and their short forms, as YARRRML has them.
_DOCUMENT = {
    "mappings": ("mapping", "m"),
    "prefixes": (),
    "base": (),
    "sources": (),
    "authors": (),
    "event": (),
    "rows": (),
}
_MAPPING = {
    "subjects": ("subject", "s"),
    "predicateobjects": ("predicateobject", "po"),
    "graphs": ("graph", "g"),
    "sources": ("source",),
}
_PAIR = {
    "predicates": ("predicate", "p"),
    "objects": ("object", "o"),
    "datatype": (),
    "language": (),
    "type": (),
}
_OBJECT = {"value": ("v",), "type": (), "datatype": (), "language": (), "mapping": ("m",)}
_EVENT = {"time": (), "format": (), "zone": (), "op": ()}
_ROWS = {"columns": (), "delimiter": (), "quote": ()}
_UNSUPPORTED = {
    "function": "functions",
    "fn": "functions",
    "f": "functions",
    "condition": "conditions",
    "conditions": "conditions",
    "c": "conditions",
    "inversepredicates": "inverse predicates: write the triple in a mapping of its own",
    "inversepredicate": "inverse predicates: write the triple in a mapping of its own",
    "i": "inverse predicates: write the triple in a mapping of its own",
    "iterator": "iterators",
    "external": "external references",
    "targets": "targets",
    "target": "targets",
}

Node = Any
"""A node of a YAML document, with its place."""


def parse(text: str, source: str = "mapping") -> Rules:
    """The rules of a mapping; what is wrong or not supported is refused with its place."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError(
            f"not YAML: {error.problem or error.context}",
            source=source,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"not YAML: {str(error) or 'nested too deeply'}", source=source) from None
    if root is None:
        raise UsageError("the mapping is empty: it has at least the key `mappings`", source=source)
    return _Reader(source).document(root)


@dataclass
class _Subject:
    """The subject of a mapping, which objects of others may refer to."""

    terms: list[Term]
    node: Node


@dataclass
class _Reader:
    """One document under way."""

    source: str
    prefixes: dict[str, str] = field(default_factory=lambda: dict(_KNOWN_PREFIXES))
    base: str = ""
    subjects: dict[str, _Subject] = field(default_factory=dict)

    def fail(self, node: Node, reason: str) -> NoReturn:
        mark = node.start_mark
        raise UsageError(reason, source=self.source, line=mark.line + 1, column=mark.column + 1)

    # YAML

    def keys(self, node: Node, known: Mapping[str, tuple[str, ...]], where: str) -> dict[str, Node]:
        """The values of a YAML mapping by the long names of their keys."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{where} is a list of keys and values")
        names = {short: name for name, shorts in known.items() for short in (name, *shorts)}
        found: dict[str, Node] = {}
        for key, value in node.value:
            given = self.text(key)
            if given not in names:
                self._unknown(key, given, known, where)
            if names[given] in found:
                self.fail(key, f"{where} has the key {names[given]} twice")
            found[names[given]] = value
        return found

    def _unknown(self, key: Node, given: str, known: Mapping[str, tuple[str, ...]], where: str) -> NoReturn:
        if given in _UNSUPPORTED:
            self.fail(key, f"this subset of YARRRML has no {_UNSUPPORTED[given]}")
        near = get_close_matches(given, known, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        self.fail(key, f"{where} has no key {given!r}: {meant}")

    def text(self, node: Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, "expected a text")
        return cast(str, node.value)

    def entries(self, node: Node) -> list[Node]:
        """The entries of a list; what is no list is its only entry."""
        return node.value if isinstance(node, yaml.SequenceNode) else [node]

    # The document

    def document(self, root: Node) -> Rules:
        found = self.keys(root, _DOCUMENT, "the mapping")
        for prefix, iri in self._pairs(found.get("prefixes"), "prefixes"):
            self.prefixes[prefix.removesuffix(":")] = self._constant(iri, self.text(iri))
        if "base" in found:
            self.base = self._constant(found["base"], self.text(found["base"]))
        if "mappings" not in found:
            self.fail(root, "the mapping has no key `mappings`")
        mappings = {
            name: (node, self.keys(node, _MAPPING, f"mapping {name!r}"))
            for name, node in self._pairs(found["mappings"], "mappings")
        }
        if not mappings:
            self.fail(found["mappings"], "there is no mapping")
        self._check_sources(found, mappings)
        for number, (name, (node, keys)) in enumerate(mappings.items()):
            self.subjects[name] = _Subject(self._subjects(keys.get("subjects"), number), node)
        triples: list[Triple] = []
        for name, (_, keys) in mappings.items():
            for pair in self.entries(keys["predicateobjects"]) if "predicateobjects" in keys else ():
                triples += self._pair(pair, self.subjects[name].terms)
        if not triples:
            self.fail(found["mappings"], "the mapping makes no triple: add `po`")
        event = self.keys(found["event"], _EVENT, "event") if "event" in found else {}
        return Rules(
            tuple(dict.fromkeys(triples)),
            graph=self._graph(mappings),
            time=self._time(event),
            op=self._only_column(event["op"], "op") if "op" in event else None,
            layout=self._layout(found.get("rows")),
            source=self.source,
        )

    def _pairs(self, node: Node | None, where: str) -> Iterator[tuple[str, Node]]:
        if node is None:
            return
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{where} is a list of keys and values")
        seen: set[str] = set()
        for key, value in node.value:
            name = self.text(key)
            if name in seen:
                self.fail(key, f"{where} has {name!r} twice")
            seen.add(name)
            yield name, value

    def _check_sources(
        self, found: Mapping[str, Node], mappings: Mapping[str, tuple[Node, dict[str, Node]]]
    ) -> None:
        """Refuse rules for several sources: which rows they are for, the stream says, and it has one kind."""
        named: dict[str, Node] = {}
        for _, keys in mappings.values():
            if "sources" in keys:
                for one in self.entries(keys["sources"]):
                    named.setdefault(self._source_name(one), one)
        if len(named) > 1:
            self.fail(
                list(named.values())[1],
                f"the mappings read several sources ({', '.join(named)}): write a mapping for each stream",
            )
        # All of them are for one source then. Its path is not read: the stream has one.

    def _source_name(self, node: Node) -> str:
        if isinstance(node, yaml.ScalarNode):
            return self.text(node)
        if isinstance(node, yaml.SequenceNode) and node.value:
            return self._source_name(node.value[0])
        if isinstance(node, yaml.MappingNode):
            return next(
                (self.text(value) for key, value in node.value if self.text(key) == "access"), "a source"
            )
        self.fail(node, "a source is a name, or a path and its format")

    # Terms

    def parts(self, node: Node, text: str) -> tuple[str | Column, ...]:
        """Texts and slots of a template, in turn."""
        parts: list[str | Column] = []
        at = 0
        mark = node.start_mark
        for slot in _SLOT.finditer(text):
            if slot.start() > at:
                parts.append(text[at : slot.start()])
            name = re.sub(r"\\(.)", r"\1", slot[1])
            if not name:
                self.fail(node, "a slot names its column: $(column)")
            parts.append(Column(name, mark.line + 1, mark.column + 1))
            at = slot.end()
        if at < len(text):
            parts.append(text[at:])
        if any(isinstance(part, str) and "$(" in part for part in parts):
            self.fail(node, r"a slot is $(column); parentheses in the name of a column are written \( and \)")
        return tuple(parts)

    def _expanded(self, text: str) -> str:
        """A text whose prefix, if it is declared, is replaced by its IRI."""
        prefix, colon, rest = text.partition(":")
        return self.prefixes[prefix] + rest if colon and prefix in self.prefixes else text

    def _constant(self, node: Node, text: str) -> str:
        """An absolute IRI without slots."""
        iri = self._expanded(text)
        if bad := _FORBIDDEN.search(iri):
            self.fail(node, f"{bad[0]!r} is not allowed in an IRI: {text!r}")
        if _SCHEME.match(iri) is None:
            self.fail(node, f"{text!r} is not an absolute IRI, and no declared prefix")
        self._check_prefix(node, iri, text)
        return iri

    def _check_prefix(self, node: Node, iri: str, text: str) -> None:
        prefix, _, rest = iri.partition(":")
        if iri == text and "/" not in rest and prefix not in ("urn", "mailto", "tel", "tag", "data"):
            known = ", ".join(sorted(self.prefixes))
            self.fail(node, f"the prefix {prefix!r} is not declared: there are {known}")

    def iri(self, node: Node, text: str) -> Term:
        """The IRI template of a text, or the blank node `_:label`."""
        if label := _LABEL.fullmatch(text):
            return Term("blank", (label[1],))
        parts = self.parts(node, text)
        if not any(isinstance(part, Column) for part in parts):
            return Term("iri", (self._constant(node, text),))
        if len(parts) == 1:
            return Term("iri", parts, base=self.base)
        head, *rest = parts
        if isinstance(head, str):
            head = self._expanded(head)
        else:
            head, rest = "", [*parts]
        if _SCHEME.match(head) is None:
            head = self.base + head
        if _SCHEME.match(head) is None:
            self.fail(
                node, f"the IRI {text!r} is not absolute: begin it with a declared prefix, or set `base`"
            )
        if "/" not in head and "#" not in head:
            self._check_prefix(node, head, head)
        for part in (head, *rest):
            if isinstance(part, str) and (bad := _FORBIDDEN.search(part)):
                self.fail(node, f"{bad[0]!r} is not allowed in an IRI: {text!r}")
        return Term("iri", (head, *rest))

    def _subjects(self, node: Node | None, number: int) -> list[Term]:
        if node is None or node.tag == _NULL:
            # No label of the mapping has a dot.
            return [Term("blank", (f"row.{number}",))]
        subjects = [self.iri(one, self.text(one).removesuffix("~iri")) for one in self.entries(node)]
        if not subjects:
            self.fail(node, "there is no subject: leave out the key for a blank node")
        return subjects

    def _graph(self, mappings: Mapping[str, tuple[Node, dict[str, Node]]]) -> Term | None:
        graphs: dict[Term | None, Node] = {}
        for node, keys in mappings.values():
            given = self.entries(keys["graphs"]) if "graphs" in keys else []
            if len(given) > 1:
                self.fail(keys["graphs"], "the triples of an event are in one graph")
            term = self.iri(given[0], self.text(given[0]).removesuffix("~iri")) if given else None
            if term is not None and term.kind != "iri":
                self.fail(given[0], "the name of a graph is an IRI")
            graphs.setdefault(term, given[0] if given else node)
        if len(graphs) > 1:
            self.fail(
                list(graphs.values())[1],
                "the mappings have different graphs, and an event has one: give all of them the same",
            )
        return next(iter(graphs))

    def _pair(self, node: Node, subjects: list[Term]) -> Iterator[Triple]:
        """The triples of an entry of `po`."""
        shared: dict[str, Node] = {}
        if isinstance(node, yaml.SequenceNode):
            if not 2 <= len(node.value) <= 3:
                self.fail(node, "write [predicate, object] or [predicate, object, datatype]")
            predicates, objects = node.value[:2]
            if len(node.value) == 3:
                shared["suffix"] = node.value[2]
        else:
            keys = self.keys(node, _PAIR, "an entry of po")
            if "predicates" not in keys or "objects" not in keys:
                self.fail(node, "an entry of po has predicates and objects")
            predicates, objects = keys.pop("predicates"), keys.pop("objects")
            shared = keys
        types = False
        terms = []
        for one in self.entries(predicates):
            text = self.text(one)
            types = types or text == "a"
            terms.append(
                Term("iri", (_RDF_TYPE,)) if text == "a" else self.iri(one, text.removesuffix("~iri"))
            )
            if terms[-1].kind != "iri":
                self.fail(one, "a predicate is an IRI")
        for one in self.entries(objects):
            for made in self._object(one, shared, is_type=types):
                for s in subjects:
                    for p in terms:
                        yield Triple(s, p, made)

    def _object(self, node: Node, shared: Mapping[str, Node], *, is_type: bool) -> list[Term]:
        given = dict(shared)
        if isinstance(node, yaml.SequenceNode):
            if not 1 <= len(node.value) <= 2:
                self.fail(node, "write [object] or [object, datatype]")
            if len(node.value) == 2:
                given["suffix"] = node.value[1]
            node = node.value[0]
        elif isinstance(node, yaml.MappingNode):
            keys = self.keys(node, _OBJECT, "an object")
            if "mapping" in keys:
                return self._referred(keys["mapping"])
            if "value" not in keys:
                self.fail(node, "an object has a value")
            node = keys.pop("value")
            given |= keys
        text = self.text(node)
        kind = self.text(given["type"]) if "type" in given else ""
        if kind not in ("", "iri", "literal", "blank"):
            self.fail(given["type"], f"the type of an object is iri, literal or blank, not {kind!r}")
        if text.endswith("~iri"):
            text, kind = text.removesuffix("~iri"), "iri"
        if kind in ("iri", "blank") or (is_type and kind == "") or (kind == "" and _LABEL.fullmatch(text)):
            if kind == "blank" and not _LABEL.fullmatch(text):
                self.fail(node, "a blank node is written _:label: it is one for each row")
            if plain := [given[name] for name in ("suffix", "datatype", "language") if name in given]:
                self.fail(plain[0], "only literals have a datatype or a language")
            return [self.iri(node, text)]
        return [self._literal(node, text, given, explicit=kind == "literal")]

    def _literal(self, node: Node, text: str, given: dict[str, Node], *, explicit: bool) -> Term:
        datatype = language = None
        if "suffix" in given:
            suffix = self.text(given["suffix"])
            if suffix.endswith("~lang"):
                language = self._language(given["suffix"], suffix.removesuffix("~lang"))
            else:
                datatype = self._constant(given["suffix"], suffix)
        if "datatype" in given:
            datatype = self._constant(given["datatype"], self.text(given["datatype"]))
        if "language" in given:
            language = self._language(given["language"], self.text(given["language"]).removesuffix("~lang"))
        if datatype and language:
            self.fail(node, "a literal has a datatype or a language, not both")
        if datatype == _LANG_STRING:
            self.fail(node, "a literal of rdf:langString has a language instead of a datatype")
        parts = self.parts(node, text)
        typed = datatype or language or explicit or node.style in ("'", '"')
        if not typed and not any(isinstance(part, Column) for part in parts) and self._expanded(text) != text:
            self.fail(node, f"{text!r} would be a literal here: write {text}~iri for the IRI, or quote it")
        if (
            not typed
            and len(parts) > 1
            and isinstance(parts[0], str)
            and self._expanded(parts[0]) != parts[0]
        ):
            self.fail(node, f"{text!r} would be a literal here: write {text}~iri for the IRI, or quote it")
        return Term("literal", parts, datatype=datatype, language=language)

    def _language(self, node: Node, tag: str) -> str:
        if _TAG.fullmatch(tag) is None:
            self.fail(node, f"{tag!r} is not a language tag")
        return tag.lower()

    def _referred(self, node: Node) -> list[Term]:
        """The subjects of other mappings, in the same row."""
        terms: list[Term] = []
        for one in self.entries(node):
            name = self.text(one)
            if name not in self.subjects:
                self.fail(one, f"there is no mapping {name!r}: there are {', '.join(self.subjects)}")
            terms += self.subjects[name].terms
        return terms

    # Time and layout

    def _only_column(self, node: Node, key: str) -> Column:
        parts = self.parts(node, self.text(node))
        if len(parts) != 1 or not isinstance(parts[0], Column):
            self.fail(node, f"{key} is one column, written $(column)")
        return parts[0]

    def _time(self, event: Mapping[str, Node]) -> TimeRule | None:
        if "time" not in event:
            if lost := [event[name] for name in ("format", "zone") if name in event]:
                self.fail(lost[0], "event has no time that this is about: add `time: $(column)`")
            return None
        rule = TimeRule(self._only_column(event["time"], "time"))
        if "zone" in event:
            rule = replace(rule, zone=self._zone(event["zone"]))
        if "format" not in event:
            return rule
        node, form = event["format"], self.text(event["format"])
        if form in _FORMS:
            return replace(rule, form=cast(TimeForm, form))
        if "%" not in form:
            self.fail(
                node,
                f"a format of times is {', '.join(_FORMS)} or a pattern like %Y-%m-%d %H:%M:%S, not {form!r}",
            )
        directives = re.findall("%(.?)", form)
        if wrong := [one for one in directives if one not in _DIRECTIVES or not one]:
            known = " ".join(f"%{one}" for one in _DIRECTIVES)
            self.fail(node, f"%{wrong[0]} is not supported in a pattern of times: there are {known}")
        if not {"Y", "y"} & set(directives):
            self.fail(node, "the pattern of times has no year (%Y)")
        if ("I" in directives) != ("p" in directives):
            self.fail(node, "%I needs %p, and %p needs %I")
        if "z" not in directives and rule.zone is None:
            self.fail(
                node, "these times name no zone: add `zone: UTC`, `zone: +01:00` or `zone: Europe/Berlin`"
            )
        if not form.isascii():
            self.fail(node, "a pattern of times is ASCII")
        return replace(rule, form="pattern", pattern=form)

    def _zone(self, node: Node) -> str:
        zone = self.text(node)
        if zone in ("UTC", "Z"):
            return "UTC"
        if _OFFSET.fullmatch(zone):
            return zone
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(node, f"{zone!r} is no zone: write UTC, +01:00 or a name like Europe/Berlin")
        return zone

    def _layout(self, node: Node | None) -> Layout:
        if node is None:
            return Layout()
        keys = self.keys(node, _ROWS, "rows")
        layout = Layout()
        if "columns" in keys:
            names = tuple(self.text(one) for one in self.entries(keys["columns"]))
            if len(set(names)) < len(names):
                self.fail(keys["columns"], "a column is named twice")
            layout = replace(layout, columns=names)
        if "delimiter" in keys:
            layout = replace(layout, delimiter=self._character(keys["delimiter"], "delimiter"))
        if "quote" in keys:
            none = keys["quote"].tag == _NULL or self.text(keys["quote"]) == "none"
            layout = replace(layout, quote=None if none else self._character(keys["quote"], "quote"))
        if layout.quote is not None and layout.quote == layout.delimiter:
            self.fail(node, "delimiter and quote are the same character")
        return layout

    def _character(self, node: Node, key: str) -> str:
        text = {"\\t": "\t", "tab": "\t"}.get(self.text(node), self.text(node))
        if len(text) != 1 or not text.isascii() or text in "\r\n\x00":
            self.fail(node, f"the {key} is one ASCII character, not {text!r}")
        return text
