# Two commands for users (`make demo`, `make dev`), five for who changes Weir (`make test`, `check`,
# `soak`, `bench`, `lock`). Each makes what it needs first; a second run makes nothing again.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Set PYTHON to choose an interpreter; otherwise the newest that works is taken.
PYTHON ?=
LOCK_COMMAND := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 pyproject.toml --group dev

.PHONY: help venv demo dev test soak bench check lock

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

venv: $(INSTALLED) ## the virtual environment, from requirements.lock

demo: $(INSTALLED) ## from nothing to a Ready InferaDeployment on a simulated GPU fleet
	@$(BIN)/weir dev --demo

dev: $(INSTALLED) ## the same stack, kept until Ctrl-C
	@$(BIN)/weir dev

# Most of tests/e2e waits, so all others run beside it; their report follows.
test: $(INSTALLED) ## all that a change must pass
	@others=$$(mktemp); \
	$(BIN)/pytest -m "not soak" $(filter-out tests/e2e,$(wildcard tests/*)) tests/e2e/test_[q-z]*.py > "$$others" 2>&1 & beside=$$!; \
	trap 'kill $$beside 2> /dev/null || true; rm -f "$$others"' EXIT; \
	echo "weir: half of tests/e2e runs here, all other tests beside it: they are told at the end" >&2; \
	e2e=0; $(BIN)/pytest -m "not soak" tests/e2e/test_[a-p]*.py || e2e=$$?; \
	rest=0; wait $$beside || rest=$$?; cat "$$others"; \
	exit $$(( e2e > rest ? e2e : rest ))

soak: $(INSTALLED) ## the long faults, at production settings
	@$(BIN)/pytest -m soak

bench: $(INSTALLED) ## how fast it is, against others, into docs/benchmarks.md
	@$(BIN)/python -m tests.bench --keep

check: $(INSTALLED) ## lint, types, layers, drift
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/weir crds check
	@fresh=$$(mktemp); trap 'rm -f "$$fresh"' EXIT; cp requirements.lock "$$fresh"; \
	$(LOCK_COMMAND) --output-file "$$fresh" > /dev/null; \
	diff -u requirements.lock "$$fresh" || { echo 'weir: requirements.lock is not in step with pyproject.toml: run `make lock`' >&2; exit 1; }

lock: $(INSTALLED) ## requirements.lock from pyproject.toml: hashes, no addresses
	@$(LOCK_COMMAND) --upgrade --output-file requirements.lock > /dev/null

$(INSTALLED): requirements.lock pyproject.toml
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo 'weir: Python >= 3.11 with its venv module is needed: install it (python3 and python3-venv), or set PYTHON=/path/to/python3' >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$found" --version), once: half a minute on an idle machine ..." >&2; \
	"$$found" -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock \
	  | while read -r verb what _; do case $$verb in Collecting|Installing) echo "  $$verb $$what" >&2;; esac; done \
	  || { echo 'weir: requirements.lock cannot be installed: see the error above; is the package index reachable (PIP_INDEX_URL)?' >&2; exit 1; }; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	touch $@
