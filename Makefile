# Everything runs in .venv, made here from pyproject.toml. Needs Python 3.11 to 3.14, a C++ compiler and make; the tests
# need node 20 or later with npm too.
#
#   make serve   fetch the default model once, serve it on 127.0.0.1:11434   (make serve ARGS="-m model.gguf")
#   make test    the tests                                                   (make test ARGS="-k sampling")
#   make check   ruff, mypy, import-linter
#   make bench   side by side with llama-server, where that is installed
#   make oracle  our bits against its libraries', where they are installed   (make oracle ARGS="operations --only Q4_1")
#   make build   the wheel and the source archive, in dist/
#   make clean   remove .venv and everything built

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
KERNELS := $(shell find engine/kernels -name '*.cpp' -o -name '*.h' -o -name '*.inc')
PACKAGES := engine registry slots server
SOURCES := $(shell find $(PACKAGES) -name '*.py')

.PHONY: serve test check bench oracle build install clean
.DELETE_ON_ERROR:

serve: .venv/.compiled
	$(BIN)/bankml serve $(ARGS)

test: .venv/.built .venv/.dev .venv/.node
	$(BIN)/python -m pytest $(ARGS)

check: .venv/.built .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.compiled .venv/.dev
	$(BIN)/python -m benchmarks $(ARGS)

oracle: .venv/.built .venv/.dev
	$(BIN)/python -m testing.oracles $(ARGS)

build: .venv/.dev
	$(BIN)/python -m build --outdir dist .

install: .venv/.compiled

clean:
	rm -rf .venv build dist tests/clients/node/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the extension is built with, then the package itself: Python files live, the extension compiled into build/,
# where the next build starts from.
.venv/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || \
	  { echo "bankml needs Python 3.11 to 3.14; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say make PYTHON=python3.x" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	$(PIP) install --quiet --group build
	@touch $@

.venv/.built: .venv/.tools CMakeLists.txt $(KERNELS)
	@echo "compiling the kernels: some minutes, once"
	$(PIP) install --quiet --no-build-isolation --editable .
	@touch $@

# Byte code, as an installed wheel has it: where PYTHONDONTWRITEBYTECODE is set, every start would compile again.
.venv/.compiled: .venv/.built $(SOURCES)
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

.venv/.dev: .venv/.tools
	$(PIP) install --quiet --group dev
	@touch $@

# The clients for Node that the tests run; they need node 20 and npm.
.venv/.node: tests/clients/node/package-lock.json
	npm ci --silent --prefix tests/clients/node
	@touch $@
