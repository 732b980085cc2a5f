"""Operators: windows (stream to relation), matching (relation to relation), views (relation to stream)."""
