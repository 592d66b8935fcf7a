# Two commands set everything up: `make demo` and `make test`. CI calls these targets and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: setup demo test format lint types imports unit lock bench clean
.DEFAULT_GOAL := test

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "burstwatch needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(BIN)/burstlab demo

test: lint types imports unit

format: setup
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

unit: setup
	$(BIN)/pytest -n auto

bench: setup
	$(BIN)/python lab/bench/cost.py
	$(BIN)/python lab/bench/look.py 100 1000 10000
	$(BIN)/python lab/bench/act.py 1000:50 10000:500
	$(BIN)/python lab/bench/startup.py
	$(BIN)/python lab/bench/ledger.py

lock:
	uv pip compile --quiet --universal --all-extras --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url pyproject.toml -o requirements.txt
	uv pip compile --quiet --python-platform aarch64-unknown-linux-gnu --python-version 3.14 --generate-hashes --no-header \
	  --no-emit-index-url -c requirements.txt infra/layer.in -o infra/layer.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url lab/local-aws.in -o lab/local-aws.txt

clean:
	rm -rf $(VENV) demo build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
