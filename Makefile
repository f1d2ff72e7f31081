# `make run` and `make test` need only Python 3.11 and make. They install into .venv and are quick when run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test chromium lint test-web test-faults bench clean

run: $(VENV)/.core
	$(BIN)/rollout run configs/default.yml --no-resume
	@echo "Next: look at a trajectory with    head -1 outputs/StudentAcademicPortal.jsonl | $(BIN)/python -m json.tool | less"
	@echo "      make training data of it     $(BIN)/rollout export runs/default --format trl -o outputs/training.jsonl"
	@echo "      watch conversations with     $(BIN)/rollout run configs/example_new.yml"
	@echo "      and read README.md for your own models and domains."

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest

# Browsers as worlds, in real ones: until the web has its command, apart from the others.
test-web: $(VENV)/.dev chromium
	$(BIN)/python -m pytest tests/web -m web --override-ini addopts=-q

# What the tests of the web run in. Root gets it by apt; anybody else is told how, and those tests are skipped.
chromium:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-liberation >/dev/null; } || \
	echo "No Chromium: tests of the web are skipped. Get it with: apt-get install chromium-headless-shell"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The kill test in its large form: 200 conversations, 30 kills.
test-faults: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow --override-ini addopts=-q

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.turns
	$(BIN)/python -m benchmarks.worlds
	$(BIN)/python -m benchmarks.mcp_calls
	$(BIN)/python -m benchmarks.web

$(VENV)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev,local,litellm,mcp,web,export,train,bfcl]'
	touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
