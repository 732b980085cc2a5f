"""RDF bytes to events of ids: terms and their arena, pruning, the line reader, framing."""
