# Every target sets up what it needs; nothing has to be installed by hand. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint bench realmodel-check
SEED ?= 1

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 20

setup: ## make .venv with the locked versions
	@scripts/setup

demo: setup ## the whole job on an embedded repository: no key, no account, no network (SEED=2 for another)
	@.venv/bin/agent-harness demo --seed $(SEED)

test: setup ## the tests
	@.venv/bin/python -m pytest -n auto --dist worksteal -m "not slow"

test-slow: setup ## the tests that take minutes
	@.venv/bin/python -m pytest -m slow || [ $$? = 5 ] # 5: there is none

lint: setup ## ruff and basedpyright
	@scripts/lint

bench: setup ## start, turn, memory and exit beside a bare openai script
	@.venv/bin/python scripts/bench

realmodel-check: setup ## one session against a real (tiny) model on this machine
	@.venv/bin/python scripts/realmodel_check.py
