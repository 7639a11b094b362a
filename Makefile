# Every target first installs what it needs (deploy/bootstrap.sh) and says so; a second time it is quiet.
#   make demo [ARGS="--port 8080"]     the whole of Placet on this machine, in a sandbox
#   make test [ARGS="-k gate"]         the checks, then every test but the soak and the measurements
#   make test WORKERS=0                the tests one after the other, as a debugger wants them
#   make check                         before a commit: the checks, then the tests of core
#   UV_PYTHON=3.13 make test           with another Python

.DEFAULT_GOAL := help
.PHONY: help demo test check lint bench soak

PYTEST := .venv/bin/pytest
ARGS ?=
# Tests wait more than they compute: two workers for each core keep two cores busy. A file's tests stay together.
WORKERS ?= 4
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

help:
	@sed -n '1,6s/^# \{0,1\}//p' Makefile

demo:
	@deploy/bootstrap.sh demo
	@exec .venv/bin/placet demo $(ARGS)

test:
	@deploy/bootstrap.sh test
	@$(MAKE) --no-print-directory checks
	@exec $(PYTEST) $(SIDE_BY_SIDE) -m "not soak and not bench" $(ARGS)

check:
	@deploy/bootstrap.sh develop
	@$(MAKE) --no-print-directory checks
	@exec $(PYTEST) $(SIDE_BY_SIDE) tests/core -m "not soak and not bench" $(ARGS)

lint:
	@deploy/bootstrap.sh develop
	@$(MAKE) --no-print-directory checks

.PHONY: checks
checks:
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy --no-error-summary
	@said=$$(.venv/bin/lint-imports --no-cache) || { printf '%s\n' "$$said"; exit 1; }

bench:
	@deploy/bootstrap.sh develop
	@exec .venv/bin/python -m tests.bench $(ARGS)

soak:
	@deploy/bootstrap.sh develop
	@exec $(PYTEST) -m soak --timeout 3600 $(ARGS)
