"""`python -m thalweg.cli`."""

from thalweg.cli import main

main()
