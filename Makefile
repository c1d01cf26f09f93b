# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.ready-base# what `make run` needs
DEV := $(VENV)/.ready-dev# and what tests and linters need
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt

# Empty: compiled modules are kept. A machine that sets it would compile every module anew in each process.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run compiled docs site museum mutants test test-slow test-all lint bench fuzz clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Staticfire into $(VENV): about 310 MB, less than a minute"
	$(PIP) --editable .
	touch $(BASE)

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Staticfire and what its tests need (Spark, Java, linters) into $(VENV): about 1.3 GB, some minutes"
	$(PIP) --editable '.[dev]'
	touch $(BASE) $(DEV)

run: $(BASE)  ## the default campaign in the simulation
	$(BIN)/staticfire run --campaign default --seed 1

compiled: $(DEV)  ## the simulation and the hot part of the system, compiled into build/compiled; STATICFIRE_COMPILED=build/compiled uses it
	env -u STATICFIRE_COMPILED $(BIN)/python -m staticfire.harness.compiled_build

docs: $(BASE)  ## the pages and parts of pages that are made of what the code declares
	$(BIN)/python -m staticfire.harness.pages

museum: $(BASE)  ## is every planted bug found, by its recipe and blind? Hours; goes on where it stopped
	$(BIN)/python -m staticfire.harness.museum $(MUSEUM_ARGS) || [ $$? = 1 ]
	$(BIN)/python -m staticfire.harness.museum --blind $(MUSEUM_ARGS) || [ $$? = 1 ]
	$(BIN)/python -m staticfire.harness.pages

mutants: $(BASE)  ## are one-line mutants of the system found? About three CPU hours; goes on where it stopped
	$(BIN)/python -m staticfire.harness.museum.mutants $(MUTANTS_ARGS)
	$(BIN)/python -m staticfire.harness.pages

site: $(BASE)  ## the documents as a website in build/site, links checked
	$(PIP) --quiet --editable '.[docs]'
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs . build/site

test: $(DEV)  ## the tests of a contributor's minute and a half
	$(BIN)/pytest --numprocesses auto --dist worksteal -rs -m 'not slow and not spark_cluster' $(PYTEST_ARGS)

test-slow: $(DEV)  ## the other tests: whole clusters, real machines, Spark, a browser
	$(BIN)/pytest --numprocesses auto --dist worksteal -rs -m 'slow and not spark_cluster' $(PYTEST_ARGS)

test-all: $(DEV)  ## everything that CI runs, in named steps; JUnit files and screenshots in reports/
	.ci/steps

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/pytest -q --numprocesses 2 -m slow tests/test_determinism_lint.py

bench: $(DEV)
	$(PIP) --quiet --editable '.[bench]'
	for bench in tests/benchmarks/bench_*.py; do echo "== $$bench"; PYTHONPATH=. $(BIN)/python $$bench || exit 1; done

fuzz: $(DEV)  ## hostile requests under a coverage-guided fuzzer, for about a minute
	$(PIP) --quiet --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz.run_atheris -runs=3000

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
