# What can be run here. `make demo` and `make test` install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ../shared/data
WORKERS ?= 2
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: help install demo test check format bench wire sql clean
.DEFAULT_GOAL := help

help:  ## Show what can be run
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(DEV_STAMP)  ## A .venv with everything: the product, all extras, the development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "installing into $(VENV) (a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@

$(DEV_STAMP): $(STAMP)
	@echo "installing the development tools (a minute) ..."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@

demo: $(STAMP)  ## A simulated fleet of 8 NVL72 racks with one weak GPU, found and explained
	$(BIN)/lockstep demo --once

test: $(DEV_STAMP)  ## All tests; with Java and Maven they include a real Kafka
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(DEV_STAMP)  ## Format, lint, types, import rules, docs/wire.md as generated, the Compose file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m schemas.page | diff -u docs/wire.md - || { echo "docs/wire.md is old: run make wire"; exit 1; }
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

format: $(DEV_STAMP)  ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wire: $(DEV_STAMP)  ## Write docs/wire.md anew from the record classes
	$(BIN)/python -m schemas.page > docs/wire.md

sql: $(DEV_STAMP)  ## Write docs/sql.md anew: the questions and their answers
	PYTHONPATH=tests/support:. $(BIN)/python tests/support/sql_page.py > docs/sql.md

bench: $(DEV_STAMP)  ## Speed and memory, printed as ratios measured side by side
	@for name in agent baseline embedded_engine forest reporter worker; do \
		echo "== $$name"; $(BIN)/python -m bench.$$name || exit 1; done
	@if [ -d $(DATA) ]; then $(BIN)/python -m bench.quality --data $(DATA); \
		else echo "== quality: left out, there is no $(DATA) (DATA=DIR)"; fi

clean:  ## Remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
