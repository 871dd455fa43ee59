# Python 3.11+, git and make are enough: what else is needed is installed into .venv by the first target run.
PYTHON ?= python3
BIN := .venv/bin

# Some virtual machines advertise AMX and trap on it.
ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
MPLBACKEND := Agg
export ONEDNN_MAX_CPU_ISA MPLBACKEND

.PHONY: help demo test check coverage docs lint bench sbom wheels clean install

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: install  ## the main job on what is shipped; its page and figures go to out/
	$(BIN)/airpool demo

test: install  ## everything that needs Python, git and make alone
	$(BIN)/pytest -n auto -m "not check and not gpu"

check: lint  ## lint, the tests that need more (Sionna's channels, int8, Ray, GNU Radio too), and every command on every page
	$(BIN)/python -m pip install -q -c constraints.txt --group check -e './packages/airpool[int8,video]' -e './packages/airpool-lab[bundle,parquet,ray,sionna]'
	@sh scripts/system.sh
	$(BIN)/pytest -n auto -m "check and not gpu"
	$(MAKE) docs
	$(BIN)/python -m scripts.pages

docs: install  ## the documentation site, in out/site; the build itself needs no network
	$(BIN)/python -m pip install -q -c constraints.txt --group docs
	$(BIN)/sphinx-build -W --keep-going -q -j 2 docs out/site

# Every line of privacy, account and ledger is run by its own tests; COVERED="tests packages docs" for the whole suite.
COVERED ?= tests/account tests/radio tests/schemes tests/truth packages/airpool/tests/schemes packages/airpool/tests/radio packages/airpool/tests/paper packages/airpool/tests/privacy packages/airpool/tests/account packages/airpool-runtime/tests/ledger tests/test_reprs.py packages/airpool-runtime/tests/cli/test_ledger.py packages/airpool-runtime/tests/cli/test_fleet.py packages/airpool-lab/tests/radio/test_waveform.py packages/airpool/src/airpool/privacy packages/airpool/src/airpool/account packages/airpool-runtime/src/airpool_runtime/ledger
coverage: install  ## lines and branches that tests run, by folder; fails below 100 % of privacy, account and ledger
	$(BIN)/pytest -n auto -m "not check and not gpu" --cov --cov-report= $(COVERED)
	$(BIN)/python scripts/coverage.py
	$(BIN)/coverage report -m --skip-covered --include='*/airpool/privacy/*,*/airpool/account/*,*/airpool_runtime/ledger/*' --fail-under=100

# Exceptions, with their reasons: in the pyproject.toml of each package (deptry) and of the root (repo-review).
lint: install  ## ruff, pyright, what packages and workflows declare, and lines of code by package
	$(BIN)/python -m pip install -q -c constraints.txt --group lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/validate-pyproject pyproject.toml packages/*/pyproject.toml
	for package in airpool airpool-models airpool-lab airpool-runtime airpool-web; do (cd packages/$$package && ../../$(BIN)/deptry --no-ansi src) || exit 1; done
	$(BIN)/repo-review --show err .
	$(BIN)/zizmor --offline -q .github
	$(BIN)/pyright
	$(BIN)/python scripts/size.py

bench: install  ## each part beside its simplest rival, as one page: out/benchmarks.html
	$(BIN)/python -m pip install -q -c constraints.txt --group bench
	$(BIN)/python -m benchmarks

sbom: install  ## bill of materials (out/sbom.json), and what is known against it
	$(BIN)/python -m pip install -q -c constraints.txt cyclonedx-bom pip-audit
	$(BIN)/python scripts/supply.py

wheels: install  ## wheels and source archives of all packages (of airpool-device its wheel), in dist/
	$(BIN)/python -m pip install -q -c constraints.txt --group check
	for package in airpool airpool-models airpool-lab airpool-runtime airpool-web; do $(BIN)/python -m build -o dist packages/$$package || exit 1; done
	$(BIN)/python -m build --wheel -o dist packages/airpool-device

clean:  ## remove .venv, caches and out/
	rm -rf .venv out build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Returns at once when .venv is whole and up to date.
install:
	@PYTHON="$(PYTHON)" sh scripts/bootstrap.sh
