# Two commands: `make demo` shows Sluice at work, `make test` checks all of it. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python run_stream.py
PACKAGES := .venv/packages.stamp
TOOLS := .venv/tools.stamp
JARS := jars/stamp
S3 := jars/s3/stamp
RIVALS := jars/kafka-streams/stamp
STORE := .cache/s3/stamp
SPHINX := .cache/docs-venv/stamp
CHECKED := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.cache/checked-kernels
PLAIN := NUMBA_DISABLE_JIT=1
HYPOTHESIS ?= quick
LANES ?= few
ALGORITHMS ?= auto
COMPILE := $(BIN)/python -m tests.support.programs.compile_kernels
# Seconds after which a test counts as hanging. A busy machine takes its time, and 5,000 random cases take minutes.
TIMEOUT ?= 1800
# Four processes on however few cores: tests of the running job wait most of their time.
TESTS := $(BIN)/pytest --numprocesses 4 --timeout $(TIMEOUT)
# The files alone that have tests of kernels: to collect all would take longer than some lanes run.
KERNEL_FILES = $(shell grep -rl --include='*.py' 'mark[.]kernels' tests/unit tests/property)
KERNELS = $(BIN)/pytest --numprocesses 2 --timeout $(TIMEOUT) -m kernels $(KERNEL_FILES) --hypothesis-profile=$(LANES)

.DEFAULT_GOAL := help
.PHONY: help setup warm demo test test-compiled test-lanes test-quick test-long test-faults test-soak bench fuzz fuzz-job check format lock audit s3 image test-containers package docs rivals clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(PACKAGES) $(JARS) ## .venv with the locked packages of a job, jars/ with the pinned jars

warm: setup ## compile the kernels of a job and archive the classes of its JVM ahead; without, its start is slower
	@$(RUN) warm

demo: setup ## real events through a real broker, checked (ARGS="--json" and others: run_stream.py demo --help)
	@$(RUN) demo $(ARGS)
	@$(RUN) warm >&2

test: setup $(TOOLS) $(S3) $(STORE) check ## every check and every test
	$(COMPILE)
	@$(MAKE) --no-print-directory --jobs 2 test-compiled test-lanes

# Tests of the running job wait most of their time, so the lanes of the kernels run beside them.
test-compiled:
	$(TESTS) --dist loadfile --no-loadscope-reorder --hypothesis-profile=$(HYPOTHESIS)

# What the lanes print comes when they are done, so that it stands in one piece.
test-lanes:
	@mkdir -p .cache && { $(PLAIN) $(KERNELS) -m "kernels and not large" && $(CHECKED) $(COMPILE) && $(CHECKED) $(KERNELS); } >.cache/lanes.log 2>&1; \
	    status=$$?; cat .cache/lanes.log; exit $$status

test-quick: setup $(TOOLS) ## unit and property tests, few random cases (a minute and a half once kernels are compiled)
	$(COMPILE)
	$(TESTS) --hypothesis-profile=few tests/unit tests/property

test-long: ## make test with many more random cases, and a minute of random configurations for all algorithms
	$(MAKE) test HYPOTHESIS=long LANES=long TIMEOUT=7200
	@$(RUN) bench search --seconds 60 --most-subscriptions 20000 --seed $$(date +%j)

bench: setup ## ten minutes: the speed of the points that matter, in CPU time against recorded figures (ONLY=, RECORD=1)
	@$(RUN) bench gate $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record) $(ARGS)

fuzz: setup $(TOOLS) ## corrupted patterns, events, answers of brokers and over HTTP, saved states, for MINUTES (SEED=)
	$(BIN)/python -m tests.support.programs.fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

test-faults: setup $(TOOLS) ## the real job under load during FAULTS faults (SEED=, JSON=, PICTURE=, ARGS=)
	$(BIN)/python -m tests.faults --faults $(or $(FAULTS),100) $(if $(SEED),--seed $(SEED)) \
	    $(if $(JSON),--json $(JSON)) $(if $(PICTURE),--picture $(PICTURE)) $(ARGS)

test-soak: setup $(TOOLS) ## the real job under a steady load for HOURS, checked and measured (JSON=, PICTURE=, ARGS=)
	$(BIN)/python -m tests.soak --hours $(or $(HOURS),2) $(if $(JSON),--json $(JSON)) $(if $(PICTURE),--picture $(PICTURE)) $(ARGS)

fuzz-job: setup $(TOOLS) ## corrupted records into both topics of the running job, for MINUTES
	$(BIN)/python -m tests.faults.spoiling --minutes $(or $(MINUTES),10)

check: setup $(TOOLS) docs ## style, types and the site
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# After a warning the next build reads all pages again: Sphinx warns of what it reads only.
docs: $(SPHINX) ## the site of these documents, .cache/docs/html/index.html; each warning is an error
	.cache/docs-venv/bin/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going --conf-dir docs \
	    --doctree-dir .cache/docs/doctrees . .cache/docs/html || { rm -rf .cache/docs/doctrees; exit 1; }

format: $(TOOLS) ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(PACKAGES) ## pin the packages again
	for name in requirements requirements-dev requirements-build requirements-audit requirements-s3 requirements-docs; do \
	    $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	        --no-emit-index-url --no-header $$name.in -o $$name.lock || exit 1; done

audit: ## check the locked packages for known vulnerabilities (exit code 75: nothing was audited)
	@mkdir -p .cache && rm -f .cache/audit.json
	@$(PYTHON) -m venv .cache/audit && \
	    .cache/audit/bin/pip install --quiet --require-hashes --requirement requirements-audit.lock
	@.cache/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
	    $(addprefix --requirement ,$(addsuffix .lock,$(addprefix requirements-,dev build audit s3 docs))) \
	    --format json --output .cache/audit.json >.cache/audit.log 2>&1 && \
	    { echo "No known weaknesses in the packages of our locks."; exit 0; }; \
	if [ -s .cache/audit.json ]; then $(PYTHON) -m json.tool .cache/audit.json; tail -n 1 .cache/audit.log >&2; exit 1; fi; \
	echo "Nothing was audited: what is known about packages could not be asked. .cache/audit.log says why." >&2; exit 75

s3: $(S3) ## jars/s3 with the pinned jars for s3a:// (docs/how-to/checkpoint-by-url.md)

image: ## the container image sluice:0.1.0, from BASE if given, with all algorithms if PAPERS=1 (docker/Dockerfile)
	docker build $(if $(BASE),--build-arg BASE=$(BASE)) $(if $(PAPERS),--build-arg PAPERS=$(PAPERS)) \
	    --build-arg REVISION=$$(git describe --always --dirty --abbrev=40 --exclude "*" 2>/dev/null) --tag sluice:0.1.0 --file docker/Dockerfile .

package: setup ## sluice.zip for spark-submit: the code, and kernels compiled for ALGORITHMS="auto" and this processor
	@$(RUN) warm $(ALGORITHMS)
	$(BIN)/python -c "from pathlib import Path; from matchers.registry import need_papers; from streaming.process import code_archive; \
	    code_archive.make(Path(), Path('sluice.zip'), papers=need_papers('$(ALGORITHMS)'.split()))"

test-containers: setup $(TOOLS) image ## compose up, deliveries arrive, compose down
	$(BIN)/python -m pytest tests/containers

clean: ## remove everything that setup and runs created
	rm -rf .venv jars .cache sluice.zip checkpoint run figures .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv is faster, but does not read pip's configuration: where only pip can reach the packages, it installs them.
INSTALL = $(BIN)/uv pip install --python .venv --compile-bytecode --require-hashes --no-build-isolation --requirement $(1) || \
	$(BIN)/pip install --require-hashes --no-build-isolation --requirement $(1)

$(PACKAGES): requirements-build.lock requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Sluice needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-build.lock
	$(call INSTALL,requirements.lock)
	@touch $@

$(TOOLS): requirements-dev.lock $(PACKAGES)
	$(call INSTALL,requirements-dev.lock)
	@touch $@

$(JARS): config/ivy.xml config/ivysettings.xml $(PACKAGES)
	@$(RUN) jars
	@touch $@

$(S3): config/s3.xml config/ivysettings.xml $(JARS)
	@$(RUN) jars s3
	@touch $@

rivals: $(RIVALS) ## jars/kafka-streams and jars/flink, with which `bench system` compares Sluice (it needs a JDK)

$(RIVALS): config/rivals.xml config/ivysettings.xml $(JARS)
	@$(RUN) jars rivals
	@touch $@

# Sphinx and what it needs, in an environment of its own.
$(SPHINX): requirements-docs.lock
	@rm -rf .cache/docs-venv && mkdir -p .cache && $(PYTHON) -m venv .cache/docs-venv
	@.cache/docs-venv/bin/pip install --quiet --require-hashes --requirement requirements-docs.lock
	@touch $@

# The store of the tests is another process, and needs other versions of packages than a job.
$(STORE): requirements-s3.lock
	@rm -rf .cache/s3 && mkdir -p .cache && $(PYTHON) -m venv .cache/s3
	@.cache/s3/bin/pip install --quiet --require-hashes --requirement requirements-s3.lock
	@touch $@
