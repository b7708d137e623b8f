# Everything happens in .venv, built from constraints.txt. Nothing but Python 3.11+ and make is needed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := -m pip --disable-pip-version-check install --quiet --quiet
PIP := $(BIN)/python $(INSTALL) --constraint constraints.txt
OTHER := .venv-$(notdir $(PYTHON))
EXTRAS := io,bio,dask,torch,hf,plot,images
WORKERS ?= 2
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE :=  # tests and benchmarks start Python often: what was compiled once is kept
PYTEST := -m pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: install demo test test-kernels test-lowest test-python fuzz faults audit lint docs figures wheel bench bench-quick chromium clean
.DEFAULT_GOAL := help

help:
	@echo "make install   create .venv with isorep in it"
	@echo "make demo      two seeds of a small autoencoder, trained, compared and explained"
	@echo "make test      linters, types, layers and all tests"
	@echo "make test-kernels  numeric tests under every processor kernel of BLAS, numpy and torch"
	@echo "make test-lowest   all tests but the browser's with the lowest versions that pyproject.toml claims"
	@echo "make test-python PYTHON=/path/to/python3.13  the same tests under another Python"
	@echo "make fuzz      damaged and random files for every reader, ten minutes each way"
	@echo "make faults    commands killed at random moments and run again"
	@echo "make audit     the pinned versions looked up among known vulnerabilities, over the network"
	@echo "make docs      the documentation, in docs/_build/html, with its links checked"
	@echo "make figures   pictures and outputs in README and docs, made again"
	@echo "make wheel     the package to install elsewhere, in dist"
	@echo "make bench     speed and memory beside the usual ways"
	@echo "make bench-quick   the same in five minutes: fewer rows, steps and repeats"

install: .venv/isorep.stamp
	@echo "isorep is in .venv/bin: try  .venv/bin/isorep --help"

demo: .venv/isorep.stamp
	$(BIN)/isorep demo

test: .venv/dev.stamp lint chromium
	$(ONE_THREAD) $(BIN)/python $(PYTEST)
	$(BIN)/python tests/kernels.py --one

test-kernels: .venv/dev.stamp
	$(BIN)/python tests/kernels.py

# Without selenium the browser tests are skipped. Old releases use what newer ones around them call deprecated; no
# user sees those warnings.
test-lowest: .venv-lowest/test.stamp
	$(ONE_THREAD) .venv-lowest/bin/python $(PYTEST) -W ignore::DeprecationWarning

test-python: $(OTHER)/test.stamp
	$(ONE_THREAD) $(OTHER)/bin/python $(PYTEST)

# atheris follows the coverage of the readers; where it cannot be installed, the corpus alone is run.
fuzz: .venv/dev.stamp
	$(BIN)/python tests/hostile.py --seconds 600 --write
	@if $(PYTHON) -m venv .venv-fuzz && .venv-fuzz/bin/python $(INSTALL) atheris; then \
		echo "$(CURDIR)/$$(ls -d .venv/lib/python3*/site-packages)" > $$(ls -d .venv-fuzz/lib/python3*/site-packages)/isorep.pth; \
		PYTHONPATH=src .venv-fuzz/bin/python tests/fuzz.py -max_total_time=600 -timeout=120 -rss_limit_mb=2048; \
	else echo "atheris could not be installed: only the corpus was run"; fi

faults: .venv/dev.stamp
	$(BIN)/python tests/faults.py --record
	$(BIN)/python tests/reliability.py

# pip-audit asks a service on the network; the script says so if that does not answer, and exits 3.
audit: .venv/dev.stamp
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python $(INSTALL) pip-audit
	PYTHONPATH=src .venv-audit/bin/python tests/supply.py audit

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The report is tested in a real browser. Where none can be installed, those tests are skipped, by name.
chromium:
	@if ! { command -v chromium && command -v chromedriver; } >/dev/null && command -v apt-get >/dev/null; then \
		if [ "$$(id -u)" = 0 ]; then as_root=; else as_root="sudo -n"; fi; \
		echo "installing Debian's chromium and chromium-driver for the browser tests (once)"; \
		{ $$as_root apt-get update -qq && \
		  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; } >/dev/null 2>&1 \
		|| echo "chromium could not be installed: the browser tests will be skipped"; \
	fi

# Examples lie in folders; pages of a time when they did not would be in no table of contents.
docs: .venv/docs.stamp
	@rm -f docs/gallery/plot_*
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html
	@echo "open docs/_build/html/index.html"

figures: .venv/docs.stamp
	$(BIN)/python docs/figures.py

wheel: .venv/dev.stamp
	$(BIN)/python -m build --no-isolation --outdir dist .

bench: .venv/bench.stamp
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/peers.py --write
	$(BIN)/python benchmarks/many.py
	$(BIN)/python benchmarks/similarity.py
	$(BIN)/python benchmarks/clusters.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/together.py
	$(BIN)/python benchmarks/dictionaries.py
	$(BIN)/python benchmarks/translate.py
	$(BIN)/python benchmarks/deconfound.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decoder.py
	$(BIN)/python benchmarks/structure.py
	$(BIN)/python benchmarks/mechanisms.py
	$(BIN)/python benchmarks/heads.py
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/scenes.py
	$(BIN)/python benchmarks/ica.py

bench-quick: .venv/bench.stamp
	$(BIN)/python benchmarks/compare.py command --cases 1
	$(BIN)/python benchmarks/many.py --scale 0.03 --runs 4
	$(BIN)/python benchmarks/similarity.py --scale 0.04 --indices cca cka
	$(BIN)/python benchmarks/clusters.py --scale 0.05 --workers 1 2
	$(BIN)/python benchmarks/stream.py --millions 0.3
	$(BIN)/python benchmarks/translate.py apply fit --scale 0.01 --rounds 1
	$(BIN)/python benchmarks/deconfound.py --scale 0.01
	$(BIN)/python benchmarks/training.py --steps 0.005 --cases 1
	$(BIN)/python benchmarks/decoder.py vectors bias --scale 0.05
	$(BIN)/python benchmarks/structure.py information models --scale 0.05
	$(BIN)/python benchmarks/mechanisms.py losses --repeats 5 --slots 2
	$(BIN)/python benchmarks/heads.py --scale 0.05
	$(BIN)/python benchmarks/extract.py --texts 100 --formats npy
	$(BIN)/python benchmarks/scenes.py --images 200 --settings 2
	$(BIN)/python benchmarks/ica.py small --scale 0.05 --sets 1

clean:
	rm -rf .venv .venv-* dist docs/_build docs/gallery docs/api/generated docs/reference/generated

.venv/python.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "isorep needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/isorep.stamp: .venv/python.stamp pyproject.toml constraints.txt
	@echo "installing isorep into .venv (about a minute, once)"
	$(PIP) --editable '.[io]'
	$(BIN)/python -m compileall -q src  # also where the environment forbids Python to keep bytecode
	@touch $@

.venv/dev.stamp: .venv/isorep.stamp
	@echo "installing the development tools into .venv (once)"
	$(PIP) --editable '.[$(EXTRAS),onnx,gguf,stores,dev]'
	@touch $@

.venv/bench.stamp: .venv/isorep.stamp
	@echo "installing the peers to compare with into .venv (once)"
	$(PIP) --editable '.[io,bio,dask,torch,hf,images,bench]'
	@touch $@

.venv/docs.stamp: .venv/dev.stamp
	@echo "installing the documentation tools into .venv (once)"
	$(PIP) --editable '.[$(EXTRAS),dev,docs]'
	@touch $@

.venv-lowest/test.stamp: pyproject.toml constraints.txt tests/lowest.py
	@echo "installing the lowest versions into .venv-lowest (a few minutes, once)"
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python $(INSTALL) --only-binary :all: --constraint .venv-lowest/constraints.txt --editable '.[$(EXTRAS),test]'
	@touch $@

$(OTHER)/test.stamp: pyproject.toml constraints.txt
	@echo "installing isorep and its tests into $(OTHER) (a few minutes, once)"
	$(PYTHON) -m venv --clear $(OTHER)
	$(OTHER)/bin/python $(INSTALL) --only-binary :all: --constraint constraints.txt --editable '.[$(EXTRAS),test]'
	@touch $@
