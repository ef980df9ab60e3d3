# Every target makes its own virtual environment on first use.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTHONS := 3.11 3.12 3.13
PYENV := $(or $(PYENV_ROOT),$(HOME)/.pyenv)

.PHONY: reproduce test test-all test-pythons lint types warm mutants bench docs clean

reproduce: $(READY)
	$(BIN)/flexdome reproduce

# pytest comes last: its closing line is what a reader looks for.
test: lint types warm docs
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: lint types warm docs
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The tests on every Python that this library says it runs on and that is here, on PATH or in pyenv, each in an
# environment of its own.
test-pythons:
	@for version in $(PYTHONS); do \
		found=; \
		for one in python$$version $(PYENV)/versions/$$version.*/bin/python$$version; do \
			$$one -c 'import venv' 2>/dev/null && found=$$one; \
		done; \
		if [ -z "$$found" ]; then \
			echo "Python $$version: skipped, it is neither on PATH nor in $(PYENV)"; \
			continue; \
		fi; \
		echo "Python $$version: $$found"; \
		$(MAKE) --no-print-directory PYTHON=$$found VENV=$(VENV)-$$version warm || exit 1; \
		$(VENV)-$$version/bin/python -m pytest -n 2 --dist worksteal -m "not slow" || exit 1; \
	done

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

# Compiles what the tests need once, in two processes, instead of once in each that happens to need it.
warm: $(READY)
	$(BIN)/flexdome warmup

# Changes every number, comparison and operator of the formulas, one at a time: 9,800 changes, a second or more of
# processor time each, so hours on two cores. `python -m benchmarks.mutants FILE...` does a part of it.
mutants: $(READY)
	$(BIN)/python -m benchmarks.mutants

bench: $(READY)
	$(BIN)/flexdome bench planning
	$(BIN)/flexdome bench learning
	$(BIN)/flexdome bench programs
	$(BIN)/flexdome bench certifying

# The book; a warning is an error. Pages and pictures that a registry determines are made on the way.
docs: $(READY)
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(PYTHONS:%=$(VENV)-%) docs/_build docs/api docs/learners docs/environments docs/pictures build dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "flexdome needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,dask,docs]"
	touch $(READY)
