# Development commands. Start with `make run` and `make test`. Everything is installed into .venv, nothing globally.
# Another interpreter: `make test PYTHON=python3.12`. Arguments for the tests: `make test ARGS="-k window"`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.thalweg-ready
WARM := $(VENV)/.thalweg-warm
ARGS ?=
# Tests are dealt out one at a time (those marked as a group together), so that each process starts a Spark session.
JOBS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup
SUITE ?= lubm
# Tests that call every kernel; with the checked build of the kernels they take two minutes.
CHECKED_TESTS := tests/unit/kernels tests/unit/operators tests/unit/rdf tests/unit/test_engine.py tests/unit/test_extremes.py tests/property

.DEFAULT_GOAL := help
.PHONY: help setup warm java run test soak checked quick check format bench docs clean

help:
	@echo "make run     set up .venv and run the demo: a smart-grid stream on Spark in local mode (needs Java 17+)"
	@echo "make test    set up .venv and run all tests (those on Spark are skipped, with a message, if Java is missing)"
	@echo "make soak    run the long tests that make test leaves out: kills, brokers, searches"
	@echo "make checked run a part of the tests with the checked build of the kernels: a bad address is an error, not a crash"
	@echo "make quick   run the tests outside of tests/spark, without the slow ones: below two minutes"
	@echo "make check   run ruff, ruff format and mypy"
	@echo "make bench   run 'thalweg bench lubm'; another suite: make bench SUITE=dynamic"
	@echo "make docs    run the examples of README.md and docs/, and check their links"
	@echo "make format  fix and format the code with ruff"
	@echo "make clean   remove .venv and all generated files"

# The stamp file makes a second call fast; a change of pyproject.toml triggers a new installation.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Thalweg needs Python 3.11 or newer, and '$(PYTHON)' is older or missing: install Python, or select one with 'make PYTHON=python3.12 ...'." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Setting up $(VENV) ..."; $(PYTHON) -m venv $(VENV); } || { \
	  rm -rf $(VENV); echo "Python could not create $(VENV): on Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	@echo "Installing Thalweg and its libraries into $(VENV) (the first time takes a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || { \
	  echo "The installation failed (see above): check that the Python package index can be reached." >&2; exit 1; }
	@touch $@

# Numba compiles a kernel at its first call and caches it on disk. This step compiles all kernels once, before the first run.
$(WARM): $(READY) $(wildcard src/thalweg/kernels/*.py)
	@echo "Compiling the kernels ..."
	@$(BIN)/python -m thalweg.warmup
	@touch $@

setup: $(READY)

warm: $(WARM)

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 </dev/null | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	test "$${version:-0}" -ge 17 || { \
	  echo "Spark needs Java 17 or newer: install it (Debian, Ubuntu: openjdk-17-jre-headless; Fedora: java-21-openjdk-headless; macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME." >&2; exit 1; }

run: java $(WARM)
	@$(BIN)/thalweg demo $(ARGS)

test: $(WARM)
	@$(PYTEST) -m "not soak" $(ARGS)

soak: $(WARM)
	@$(PYTEST) -m soak $(ARGS)
	@THALWEG_HYPOTHESIS=deep $(PYTEST) tests/property/test_algebra.py tests/property/test_shared_registration.py $(ARGS)

# The checked build has a separate cache: switching does not recompile.
checked: $(READY)
	@THALWEG_CHECKED=1 $(BIN)/python -m thalweg.warmup
	@THALWEG_CHECKED=1 THALWEG_HYPOTHESIS=quick $(PYTEST) -m "not spark and not soak" $(CHECKED_TESTS) $(ARGS)

quick: $(WARM)
	@THALWEG_HYPOTHESIS=quick $(PYTEST) -m "not spark and not slow and not soak" --ignore=tests/spark $(ARGS)

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(WARM)
	@$(BIN)/thalweg bench $(SUITE) $(ARGS)

docs: $(WARM)
	@$(BIN)/python -m pytest tests/test_docs.py $(ARGS)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
