"""The embedded store: every event is kept on disk, and the content at any instant answers SPARQL."""
