"""Jelly for tests, written by pyjelly from N-Quads texts that pyoxigraph parses."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyoxigraph as ox
from pyjelly import jelly
from pyjelly.integrations.generic.generic_sink import IRI, BlankNode, DefaultGraph, Literal
from pyjelly.integrations.generic.serialize import GenericSinkTermEncoder
from pyjelly.options import LookupPreset
from pyjelly.serialize.flows import ManualFrameFlow
from pyjelly.serialize.ioutils import write_delimited
from pyjelly.serialize.streams import GraphStream, QuadStream, SerializerOptions, TripleStream

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
Frame = tuple[Mapping[str, bytes], str]
"""Metadata, and N-Quads text."""


def _term(term: Any) -> Any:
    if isinstance(term, ox.NamedNode):
        return IRI(term.value)
    if isinstance(term, ox.BlankNode):
        return BlankNode(term.value)
    if isinstance(term, ox.DefaultGraph):
        return DefaultGraph
    if term.language:
        return Literal(term.value, term.language, None)
    return Literal(term.value, None, None if term.datatype.value == XSD_STRING else term.datatype.value)


def frames_of(frames: Sequence[Frame], kind: str = "triples") -> list[jelly.RdfStreamFrame]:
    """Frames of a stream of triples, quads or graphs."""
    stream_class = {"triples": TripleStream, "quads": QuadStream, "graphs": GraphStream}[kind]
    preset = LookupPreset(max_names=128, max_prefixes=16, max_datatypes=16)
    options = SerializerOptions(flow=ManualFrameFlow(), lookup_preset=preset)
    stream = stream_class(encoder=GenericSinkTermEncoder(lookup_preset=preset), options=options)
    stream.enroll()
    made = []
    for metadata, text in frames:
        quads = list(ox.parse(text.encode(), ox.RdfFormat.N_QUADS))
        for quad in quads:
            triple = [_term(term) for term in (quad.subject, quad.predicate, quad.object)]
            if isinstance(stream, GraphStream):
                list(stream.graph(_term(quad.graph_name), [triple]))
            elif isinstance(stream, QuadStream):
                stream.quad([*triple, _term(quad.graph_name)])
            else:
                stream.triple(triple)
        frame = stream.flow.to_stream_frame() or jelly.RdfStreamFrame()
        for key, value in metadata.items():
            frame.metadata[key] = value
        made.append(frame)
    return made


def delimited(frames: Sequence[jelly.RdfStreamFrame]) -> bytes:
    """Frames as the bytes of a file."""
    out = io.BytesIO()
    for frame in frames:
        write_delimited(frame, out)
    return out.getvalue()
