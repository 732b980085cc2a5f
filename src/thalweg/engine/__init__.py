"""The in-process session."""

from thalweg.engine.session import Session

__all__ = ["Session"]
