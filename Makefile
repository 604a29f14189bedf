# Every target is a plain command that can be typed by hand; `make help` lists them.
PYTHON_VENV = .venv/bin/python
OUT ?= runs/digits
TEXT_TESTS = tests/annotations_test.py tests/docstrings_test.py tests/imports_test.py tests/language_test.py tests/ledger_test.py tests/levels_test.py tests/mutants/mutants_test.py tests/oracles_test.py

.PHONY: help setup train test test-quick test-all test-mutants ci-long lint types audit docs tables site lock gpu-check bazel-test clean

help:
	@echo 'make setup       make or update .venv from requirements.lock (PYTHON=python3.10 picks the Python)'
	@echo 'make train       set up if needed, then train PERM on the embedded digits, and what it is compared with'
	@echo '                 (ARGS="--rounds=20" adds flags, OUT=DIR another folder; the same command resumes)'
	@echo 'make test        set up if needed, then run the tests, less the slow ones (ARGS="-k perm" adds options, ARGS=--slowest'
	@echo '                 says where their time goes)'
	@echo 'make test-quick  those that take a moment each, for while one works'
	@echo 'make test-all    all of them, hours'
	@echo 'make test-mutants  plant a fault at a time in a copy of the tree: do the tests catch it? (FAMILY=perm)'
	@echo '                 (ARGS="--family=perm" takes one family alone, ARGS="--jobs=4" more processes)'
	@echo 'make ci-long     what .ci/run leaves out because it takes hours: the slow tests, the planted faults, other Pythons,'
	@echo '                 all tests through Bazel; started again it goes on'
	@echo 'make bazel-test  the tests through Bazel (Debian: apt-get install bazel-bootstrap)'
	@echo 'make lint        style, annotations, docstrings, imports, rows of planted faults: what reads files alone'
	@echo 'make types       annotations, ours and what a user of the package sees of them (mypy)'
	@echo 'make gpu-check   on a machine with a GPU: is it right there, does it repeat its bits, how quick is it (ARGS adds flags)'
	@echo 'make audit       known advisories for what requirements.lock pins (needs the package index itself)'
	@echo 'make docs        make docs/ledger.md and the end of docs/tasks.md anew, and measure docs/conformance.md'
	@echo 'make tables      write the tables of pages that are made from results/ anew'
	@echo 'make site        the documentation as a site, build/site/index.html; executes the tutorials'
	@echo 'make lock        make requirements.lock anew from requirements.in (needs uv)'
	@echo 'make clean       remove caches and build outputs; .venv and runs/ stay'

setup:
	@tools/setup.sh

train: setup
	$(PYTHON_VENV) -m binaries.compare --task=digits --algos=perm,local_only,fedavg_finetuned,fedavg --output_dir=$(OUT) $(ARGS)

# Files that hold nothing but tests of texts are not even collected.
PYTEST = $(PYTHON_VENV) -m pytest -n 2 --dist=worksteal --timeout-method=thread $(patsubst %,--ignore=%,$(filter-out tests/mutants/%,$(TEXT_TESTS)))

test: setup
	$(PYTEST) -m "not slow and not text" --timeout=300 $(ARGS)

test-quick: setup
	$(PYTEST) -m "not slow and not text and not medium" --timeout=300 $(ARGS)

test-all: setup
	$(PYTEST) -m "not text" --timeout=7200 $(ARGS)

test-mutants: setup
	$(PYTHON_VENV) tests/mutants/run.py $(if $(FAMILY),--family=$(FAMILY)) $(ARGS)

bazel-test: setup
	bazel test //...

ci-long:
	.ci/run --long

lint: setup
	$(PYTHON_VENV) -m flake8 tff_pers baselines binaries docs tests examples tools
	$(PYTHON_VENV) -m pytest --noconftest -q -m text $(TEXT_TESTS)

types: setup
	$(PYTHON_VENV) -m pip install -q -c requirements.lock -r requirements-types.txt
	$(PYTHON_VENV) -m mypy

# In an environment of its own: it needs other versions than TensorFlow. A package
# that the index knows nothing about is an error, else nothing known looks like
# nothing wrong.
audit: setup
	$(PYTHON_VENV) -m venv build/audit
	build/audit/bin/python -m pip install -q pip-audit==2.10.1
	build/audit/bin/pip-audit -r requirements.lock --no-deps --disable-pip --strict --progress-spinner=off

gpu-check: setup
	$(PYTHON_VENV) -m binaries.gpu_check $(ARGS)

docs: setup
	sed '/^## Methods on tasks/,$$d' docs/tasks.md > docs/tasks.new
	$(PYTHON_VENV) -m tff_pers.experiments.methods_and_tasks >> docs/tasks.new
	mv docs/tasks.new docs/tasks.md
	$(PYTHON_VENV) -m tests.ledger_page
	$(PYTHON_VENV) -m tests.conformance_page

tables: setup
	$(PYTHON_VENV) -m tests.result_tables

site: setup
	$(PYTHON_VENV) -m pip install -q -c requirements.lock -r requirements-docs.txt
	$(PYTHON_VENV) -m sphinx -q -W --keep-going -b html docs build/site

lock:
	tools/lock.sh

clean:
	rm -rf .pytest_cache .hypothesis build *.egg-info
	find tff_pers baselines binaries tests -name __pycache__ -type d -prune -exec rm -rf {} +
