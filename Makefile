# Every target sets up what it needs. PYTHON picks the interpreter for a new environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Compiled modules are kept: a test that starts a process pays for its imports once, not each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run serve test slow check prove bench proto record lock clean

help:  ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Replan needs Python 3.11 or newer; call: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python locks/run.txt pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run locks/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/dev.txt
	@touch $@

setup: $(VENV)/.dev  ## Make .venv with everything
	@echo "ready: $(BIN)/replan --help"

run: $(VENV)/.run  ## Do the first task with the built-in model
	$(BIN)/replan model pull
	$(BIN)/python -m examples.first_run
	@echo "the command is $(BIN)/replan; after \`. $(BIN)/activate\` it is replan"

serve: $(VENV)/.run  ## Serve tasks on port 8080, with the tools of examples/given_plan
	$(BIN)/replan serve --tools examples/given_plan/tools.py

test: check  ## Check, then run the tests
	$(BIN)/python -m pytest

$(VENV)/bedrock: $(VENV)/.dev locks/bedrock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target $@ --require-hashes --no-deps -r locks/bedrock.txt
	@touch $@

.PHONY: bedrock
bedrock: $(VENV)/bedrock  ## Run the tests of Bedrock, which `test` skips (installs boto3 apart)
	PYTHONPATH=$(VENV)/bedrock $(BIN)/python -m pytest -n0 tests/contract/test_providers.py -k bedrock

slow: $(VENV)/.dev  ## Run the tests, and list the slowest twenty
	$(BIN)/python -m pytest --durations=20

check: $(VENV)/.dev  ## Format, lint, types, import rules
	@$(MAKE) --no-print-directory --jobs=2 checked-by-mypy checked-by-the-rest

.PHONY: checked-by-mypy checked-by-the-rest
checked-by-mypy:
	$(BIN)/mypy
	$(BIN)/python docs/check_types.py mypy

checked-by-the-rest:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/lint-imports import-circles.toml
	$(BIN)/python docs/check_types.py pyright

prove: $(VENV)/.dev  ## The long proofs: every crash point, every recorded case, every example
	$(BIN)/python -m pytest -m "prove or hypothesis" --hypothesis-profile=prove -o addopts="-p no:asyncio -p no:langsmith_plugin --strict-markers --strict-config -q -n auto --dist worksteal"

$(VENV)/.bench: $(VENV)/.run locks/bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/bench.txt
	@touch $@

bench: $(VENV)/.bench  ## Measure: overhead a step, beside the peers
	$(BIN)/python -m bench.overhead

.PHONY: conformance recovery errors healing
conformance: $(VENV)/.dev  ## Run the known faults of others on the peers and on Replan (installs the peers apart)
	$(BIN)/python -m bench.conformance --setup
	$(BIN)/python -m bench.conformance

recovery: $(VENV)/.bench  ## Measure recovery: injected and public failures, beside the peers
	$(BIN)/python -m bench.recovery

errors: $(VENV)/.dev  ## Measure the classification of errors without a model
	$(BIN)/python -m bench.errors

healing: $(VENV)/.dev  ## Let the built-in model recover twenty tasks
	$(BIN)/replan model pull
	$(BIN)/python -m bench.healing

.PHONY: documents servers toolbench
documents: $(VENV)/.dev  ## Make tools of large public OpenAPI documents, and call every one (fetches the documents)
	$(BIN)/python -m bench.openapi

servers: $(VENV)/.dev  ## Use MCP servers written by others in whole tasks (installs them apart; needs Node.js for some)
	$(BIN)/python -m bench.reference_servers

toolbench: $(VENV)/.dev  ## Measure what calls of tools cost, by source, and what becomes of their faults
	$(BIN)/python -m bench.tools

.PHONY: planbench
planbench: $(VENV)/.bench  ## Measure what plans cost that say more, beside what they cost before and beside agents
	$(BIN)/python -m bench.plans

.PHONY: pagebench
pagebench: $(VENV)/.dev  ## Measure the page in a real Chromium: first paint, frames under load, memory, layout
	$(BIN)/python -m bench.page

.PHONY: chaos takeover durability failover
failover: $(VENV)/.dev  ## Kill and freeze endpoints under load, and have Consul flap
	$(BIN)/python -m bench.failover

takeover: $(VENV)/.dev  ## Measure how long the task of a killed worker stands still
	$(BIN)/python -m bench.takeover

durability: $(VENV)/.bench  ## Measure a step on SQLite and PostgreSQL, all on disk, beside the peers (installs Prefect apart)
	$(BIN)/python -m bench.durability --setup
	$(BIN)/python -m bench.durability

chaos: $(VENV)/.dev  ## Kill, freeze, cut and fill everything around 2,000 tasks; SEED=n for the same again
	$(BIN)/python -m bench.chaos $(if $(SEED),--seed $(SEED))

.PHONY: firstrun
firstrun: $(VENV)/.bench  ## Measure: from a fresh clone to a checked answer; import times
	$(BIN)/python -m bench.first_run

.PHONY: servicebench
servicebench: $(VENV)/.dev  ## Measure the service beside bare servers, and beside those of peers (installs these apart)
	$(BIN)/python -m bench.service --setup
	$(BIN)/python -m bench.service

.PHONY: audit
.venv-audit: locks/audit.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/audit.txt
	@touch $@

audit: .venv-audit  ## Look up known vulnerabilities of what is locked (asks the package index; a package that it cannot ask about fails)
	for name in run dev serve; do \
		.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r locks/$$name.txt || exit 1; done

.PHONY: fuzz
fuzz: $(VENV)/.dev  ## Call the service by requests made up from its document (installs schemathesis apart)
	$(BIN)/python -m bench.fuzz --setup
	$(BIN)/python -m bench.fuzz

proto: $(VENV)/.dev  ## Generate the code of the protocols over gRPC: of the service, of tools and of models
	$(BIN)/python -m replan.server.grpc.proto.generate
	$(BIN)/python -m replan.tools.remote.proto.generate
	$(BIN)/python -m replan.llm.grpc.proto.generate

record: $(VENV)/.dev  ## Record the real model's answers anew, for the tests that replay them
	$(BIN)/python -m examples.record

lock: $(VENV)/.dev  ## Renew the lock files
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --extra all pyproject.toml locks/run.in -o locks/run.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --extra all -c locks/run.txt \
		pyproject.toml locks/dev.in -o locks/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate -c locks/dev.txt locks/bench.in -o locks/bench.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --extra serve --extra workers --extra models --extra openapi \
		--extra remote -c locks/run.txt pyproject.toml locks/serve.in -o locks/serve.txt
	for name in audit bedrock bench-servers conformance conformance-crewai conformance-llmcompiler fuzz; do \
		$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
			--no-emit-find-links --no-header --no-annotate locks/$$name.in -o locks/$$name.txt; done

clean:  ## Remove the environment and what was built
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
