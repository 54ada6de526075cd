# Two commands for a fresh machine: `make run` (set-up and the main job) and `make test` (set-up and the suite).
# Everything is installed below this directory (.venv, .stepbench); Chromium and Node.js, for the tests only, by apt
# where this user may.

# Set-up waits for downloads more than it computes.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=4
endif

# Modules are compiled once, and not by each of a run's processes (four times as long until a command begins).
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
PLAN ?= quick-unloaded
VENV := .venv
TOOLS := .stepbench/venvs
UV := $(TOOLS)/uv/bin/uv
INSTALL := $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX=$(PIP_INDEX_URL)) $(UV) pip install --quiet --require-hashes --only-binary :all:

# One process waits for state machines most of the time, and three compute meanwhile: see tests/suite/scheduling.py.
DEALT := --dist=loadscope --no-loadscope-reorder
PARALLEL := --numprocesses=3 $(DEALT)
SUITE := --numprocesses=4 $(DEALT)
# Paths as pytest takes them, or an expression.
CHOSEN = $(if $(findstring tests/,$(ONLY)),$(ONLY),-k '$(ONLY)')

# What emulators can be asked: of any the smallest plans, of ours a rehearsal and a deletion, and of LocalStack what `make test` asks MiniStack.
SUITE_OF_ANY := tests/emulators/test_whole_runs.py
SUITE_OF_ministack := $(SUITE_OF_ANY) tests/emulators/test_rehearsal.py tests/emulators/test_deletion.py
SUITE_OF_localstack := tests/statemachines/test_on_emulator.py tests/statemachines/test_faults.py \
  tests/integration/tools/local/emulator/test_server.py tests/integration/tools/local/emulator/test_measuring.py $(SUITE_OF_ANY) tests/emulators/test_localstack.py tests/emulators/test_rehearsal.py
# LocalStack wants Python 3.13: pyenv's, or what uv finds or fetches.
PYTHON313 ?= $(lastword 3.13 $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.13.*/bin/python))

.PHONY: run rehearse test quick nightly test-api test-emulator test-faults test-sam-local sam-local sam-image coverage check check-security format generated lock bench \
  setup setup-test setup-cassandra setup-localstack down clean help

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: setup ## Set up, run PLAN (quick-unloaded) on this machine, leave a report in out/
	$(VENV)/bin/stepbench run $(PLAN)

rehearse: setup ## Deploy to your AWS account, run small plans, judge, delete: STACK=…, BUDGET=5, PARAMETERS="EtcdNodes=on …"; YES=1; DELETE=…
	$(VENV)/bin/python -m stepbench_tools.rehearsal $(if $(STACK),--stack $(STACK)) $(if $(BUDGET),--budget $(BUDGET)) \
	  $(if $(YES),--yes) $(PARAMETERS:%=--parameter "%") $(if $(EMULATOR),--emulator "$(EMULATOR)") \
	  $(if $(DELETE),--delete "$(DELETE)")

test: setup setup-test ## Set up, then the whole suite, four modules at a time; ONLY=tests/… or ONLY="words and names" in one process
	$(VENV)/bin/python -m pytest $(if $(MEASURE),-p tests.suite.measuring --measure "$(MEASURE)") $(if $(ONLY),$(CHOSEN),$(SUITE)) $(PYTEST_ARGS)

quick: $(VENV)/.dev charts ## Unit tests of what a change touches, the nearest first, within a minute: BASE=COMMIT
	@$(VENV)/bin/python -m tests.suite.quick $(BASE)

coverage: setup setup-test ## The same, with the lines that no test ran (takes longer)
	$(VENV)/bin/python -m pytest $(SUITE) --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

nightly: setup setup-test ## What takes too long for each change, part by part: PART="faults browser"; without, all of it
	$(VENV)/bin/python -m tests.suite.nightly $(PART)

test-faults: setup setup-test ## Set up, then the fault tour (35 minutes): SEED=…, FULL=1, or CLEAN=50 runs without a fault
	.ci/system-packages cc
	$(VENV)/bin/python -m pytest tests/faults $(if $(CLEAN),--clean $(CLEAN),$(PARALLEL)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(FULL),--full) $(if $(RESULTS),--results "$(RESULTS)") $(PYTEST_ARGS)

test-api: setup setup-test ## Set up, then some 10,000 requests that are made of the API's description, through HTTP
	STEPBENCH_API_CASES=1100 $(VENV)/bin/python -m pytest -rP --nightly api $(PYTEST_ARGS)

test-emulator: EMULATOR ?= $(or $(AWS_ENDPOINT_URL),localstack)
test-emulator: setup setup-test ## Set up, then what emulators can show on another: EMULATOR=localstack, or AWS_ENDPOINT_URL=http://…
	$(if $(filter localstack,$(EMULATOR)),$(MAKE) setup-localstack)
	STEPBENCH_EMULATOR=$(EMULATOR) $(VENV)/bin/python -m pytest $(PARALLEL) \
	  $(or $(SUITE_OF_$(EMULATOR)),$(SUITE_OF_ANY)) $(PYTEST_ARGS)

sam-local: setup ## Set up, then every function with its sample event in Docker, by `sam local`: RESTRICTED=1 as on Lambda
	$(VENV)/bin/stepbench invoke --docker $(if $(RESTRICTED),--restricted)

sam-image: $(TOOLS)/lambda/.ready ## Where AWS's base image cannot be pulled: make one from a minimal Debian (root)
	.ci/lambda-image

test-sam-local: setup setup-test ## Set up, then the test of the two above, where Docker is
	$(VENV)/bin/python -m pytest tests/docker $(PYTEST_ARGS)

check: $(VENV)/.dev charts ## Format, lint, types; layout, templates, and docs against the code
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy layers/core/src layers/core/charts layers/measuring/python tools/src functions tests benchmarks
	$(VENV)/bin/python -m pytest -q --numprocesses=2 tests/layout

check-security: $(TOOLS)/security/.ready ## The template and its stacks by checkov's rules; exceptions with reasons in .checkov.yaml
	@LOG_LEVEL=ERROR $(TOOLS)/security/bin/checkov --config-file .checkov.yaml >$(TOOLS)/security/found.txt 2>&1 || { cat $(TOOLS)/security/found.txt; exit 1; }
	@cat $(TOOLS)/security/found.txt; ! grep --quiet "Parsing errors" $(TOOLS)/security/found.txt # which checkov tells, and ends with 0

format: $(VENV)/.dev ## Format and mend what ruff can mend
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

generated: $(VENV)/.dev charts ## Write anew what docs have of the code: schemas, the API's description, tables, drawings
	$(VENV)/bin/stepbench schema > docs/plan.schema.json
	$(VENV)/bin/python -m stepbench.report.summary > docs/summary.schema.json
	$(VENV)/bin/python -m stepbench_tools.documents.openapi > docs/openapi.json
	$(VENV)/bin/python -m stepbench_tools.documents.pages

bench: $(VENV)/.dev $(TOOLS)/bench/.ready ## Set up, then every benchmark or those in BENCH ("redis --rounds 15"): docs/performance.md
	-.ci/system-packages redis-benchmark go cc # what is missing is skipped, and named
	$(VENV)/bin/python -m benchmarks $(BENCH)

down: ## Stop what `stepbench up` left running
	$(VENV)/bin/stepbench down

clean: ## Remove everything that set-up and runs have made here
	-test -x $(VENV)/bin/stepbench && $(VENV)/bin/stepbench down
	rm -rf layers/core/src/stepbench/report/charts.json $(VENV) .stepbench .aws-sam node_modules out .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --- set-up ---------------------------------------------------------------------------------------------------

setup: $(VENV)/.run $(TOOLS)/emulator/.ready $(TOOLS)/lambda/.ready $(TOOLS)/sam/.ready charts ## Everything that a run needs
	$(if $(filter setup,$(MAKECMDGOALS)),@echo "Ready. Next: $(VENV)/bin/stepbench run quick-unloaded")

setup-localstack: $(TOOLS)/localstack/.ready .stepbench/localstack/loopback.so .stepbench/dynamodb/.ready ## The second emulator

.PHONY: charts
charts: $(TOOLS)/lambda/.ready # whose Python has pip
	@PATH="$$PWD/$(TOOLS)/lambda/bin:$$PATH" $(MAKE) --silent --directory layers/core charts

setup-cassandra: .stepbench/cassandra/.ready ## Java, Maven and Cassandra's jars; the first run of a plan with Cassandra does it, too

setup-test: $(VENV)/.dev $(VENV)/.compiled node_modules/.ready setup-cassandra packages ## Everything that the suite needs on top

.PHONY: packages
packages:
	.ci/system-packages chromium nodejs redis-server jq curl

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Stepbench needs Python 3.11 or later; run: make PYTHON=/path/to/python3.11 run" >&2; exit 1; }
	$(PYTHON) -m venv $(TOOLS)/uv
	$(TOOLS)/uv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/uv.txt

$(VENV)/.run: requirements/run.txt pyproject.toml | $(UV)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --python $(VENV) -r requirements/run.txt
	$(UV) pip install --quiet --python $(VENV) --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(INSTALL) --python $(VENV) -r requirements/dev.txt
	@touch $@

# While the rest is downloaded; each of the suite's processes would compile all of them.
$(VENV)/.compiled: $(VENV)/.dev
	-$(VENV)/bin/python -m pytest --collect-only --quiet >/dev/null
	@touch $@

$(TOOLS)/%/.ready: requirements/%.txt | $(UV)
	$(PYTHON) -m venv --clear $(TOOLS)/$*
	$(INSTALL) --python $(TOOLS)/$* -r requirements/$*.txt
	@touch $@

# Of these there is source only; the locked setuptools builds them.
SOURCES := airspeed-ext crontab jsonpath-rw
$(TOOLS)/localstack/.ready: requirements/localstack.txt | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON313) $(TOOLS)/localstack \
	  || { echo "LocalStack needs Python 3.13; run: make PYTHON313=/path/to/python3.13 setup-localstack" >&2; exit 1; }
	$(INSTALL) $(SOURCES:%=--no-binary %) --build-constraints $< --python $(TOOLS)/localstack -r $<
	@touch $@

.stepbench/localstack/loopback.so: tools/src/stepbench_tools/local/emulator/localstack/loopback.c
	.ci/system-packages cc
	mkdir -p $(@D)
	cc -shared -fPIC -O2 -Wall -Wextra -Werror -o $@ $< -ldl

node_modules/.ready: package-lock.json
	.ci/system-packages nodejs
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.stepbench/cassandra/.ready .stepbench/dynamodb/.ready: .stepbench/%/.ready: requirements/%.xml
	.ci/system-packages java mvn
	rm -rf $(@D)
	mvn --batch-mode --quiet --strict-checksums -f $< dependency:copy-dependencies -DoutputDirectory="$$PWD/$(@D)"
	@touch $@

# --- locks ----------------------------------------------------------------------------------------------------

COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --no-strip-extras --custom-compile-command "make lock"

# Not universal: its requirements contradict each other for later versions of Python.
COMPILE_313 := $(patsubst 3.11,3.13,$(filter-out --universal,$(COMPILE))) --exclude-newer 2026-03-15

# Not universal: whichever pip builds the layers of applications would judge the markers by its own Python.
COMPILE_311 := $(filter-out --universal,$(COMPILE)) --python-platform x86_64-manylinux_2_28

lock: | $(UV) ## Resolve every requirements file anew
	$(COMPILE) pyproject.toml --extra analysis --extra export --extra local --extra report --extra stores --extra tuning -o requirements/run.txt
	$(COMPILE) pyproject.toml --all-extras --group dev -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) --group charts -c requirements/dev.txt -o layers/core/requirements.txt
	for name in video learning; do \
	  $(COMPILE_311) --group $$name -c requirements/dev.txt -o layers/applications/$$name.txt || exit 1; done
	$(COMPILE_313) requirements/localstack.in -o requirements/localstack.txt
	for tool in bench emulator lambda sam security uv; do $(COMPILE) requirements/$$tool.in -o requirements/$$tool.txt || exit 1; done
