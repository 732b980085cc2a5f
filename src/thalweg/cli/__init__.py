"""The command line. Commands load what they need when they are called, so that `--help` is quick."""

from thalweg.cli import run, serve, convert, materialise, store, tools  # isort: skip - the order in which the help lists commands
from thalweg.cli.program import _main, app, main

__all__ = ["_main", "app", "convert", "main", "materialise", "run", "serve", "store", "tools"]
