# Needs make and Python 3.11 or newer; everything else goes into .venv (about 1 GB, once).
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo check test mutants bench profile lint wheel clean

demo: $(STAMP)  ## replay the small traces on every file system and show the comparison
	$(VENV)/bin/scmsim demo

# Kernels of file systems run as plain Python here, because an edit of one has all compiled anew.
PLAIN_TESTS = $(wildcard tests/fs/*/test_properties.py) tests/alloc tests/medium
# Without those that start many programs or take seconds each.
QUICK_TESTS = $(addprefix tests/,compare config core jit mmu report result tools workload) \
  $(filter-out $(addprefix tests/trace/,capture/% syscalls/test_bulk_lines% formats/test_importers%),$(shell find tests/trace -name 'test_*.py'))

check: lint  ## lint, types, contracts and the fast tests: two minutes, before each commit
	NUMBA_DISABLE_JIT=1 $(VENV)/bin/python -m pytest -q -n 2 -m "not slow" $(PLAIN_TESTS)
	$(VENV)/bin/python -m pytest -q -n 2 -m "not slow" $(QUICK_TESTS)

test: $(STAMP)  ## the whole test suite
	$(VENV)/bin/python -m pytest -q -n 2

mutants: $(STAMP)  ## change an operator or constant at a time; a test must fail
	$(VENV)/bin/python tools/mutants.py

bench: $(STAMP)  ## speed of the kernels and of whole replays on this machine
	$(VENV)/bin/python tests/bench/run.py

profile: $(STAMP)  ## where the time of a replay goes, by stage: make profile FS="nova-cow ext4" TRACE=file.parquet
	$(VENV)/bin/python -m tests.bench.profile $(FS) $(if $(TRACE),--trace $(TRACE))

lint: $(STAMP)  ## style, words, types, direction of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python tools/prose.py scmsim tools
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

wheel: $(STAMP)  ## two wheels in dist/: a pure one, and one with compiled kernels for this Python and numba, whose first replay compiles nothing
	$(VENV)/bin/python tools/wheel.py

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "scmsim needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); give another with make PYTHON=..." >&2; exit 3; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 3; }
	@echo "setting up $(VENV) (about a minute, once) ..." >&2
	@# pip says nothing for long while it unpacks: the seconds are counted, by a loop that ends with this shell
	@if test -t 2; then (i=0; while sleep 1 && kill -0 $$$$ 2>/dev/null; do i=$$((i + 1)); printf '\r  %d s' $$i >&2; done) & fi; \
	  { test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV); } && \
	  $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@if test -t 2; then printf '\r\033[K' >&2; fi
	@touch $@

clean:  ## remove what the targets above made, .venv included
	rm -rf $(VENV) build dist scmsim/jit/compiled .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find scmsim tests -name __pycache__ -prune -exec rm -rf {} +
