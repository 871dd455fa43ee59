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
	$(BIN)/python -m pip install -q -c constraints.txt -e ./packages/models -e '.[sionna,bundle,openvino,ray,parquet,video,docs]' cyclonedx-bom pip-audit playwright scikit-learn
	@sh scripts/system.sh
	$(BIN)/pytest -n auto -m "check and not gpu"
	$(MAKE) docs
	$(BIN)/python -m scripts.pages

docs: install  ## the documentation site, in out/site; the build itself needs no network
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -q -j 2 docs out/site

# Every line of privacy, account and ledger is run by its own tests; COVERED="tests src docs" for the whole suite.
COVERED ?= tests/privacy tests/account tests/ledger tests/test_reprs.py tests/cli/test_ledger.py tests/cli/test_fleet.py tests/radio/test_waveform.py src/airpool/privacy src/airpool/account src/airpool/runtime/ledger
coverage: install  ## lines and branches that tests run, by folder; fails below 100 % of privacy, account and ledger
	$(BIN)/pytest -n auto -m "not check and not gpu" --cov --cov-report= $(COVERED)
	$(BIN)/python scripts/coverage.py
	$(BIN)/coverage report -m --skip-covered --include='*/airpool/privacy/*,*/airpool/account/*,*/runtime/ledger/*' --fail-under=100

lint: install  ## ruff and pyright
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

bench: install  ## each part beside its simplest rival, as one page: out/benchmarks.html
	$(BIN)/python -m benchmarks

sbom: install  ## bill of materials (out/sbom.json), and what is known against it
	$(BIN)/python -m pip install -q -c constraints.txt cyclonedx-bom pip-audit
	$(BIN)/python scripts/supply.py

wheels: install  ## wheels and source archives of airpool and airpool-models, and the wheel of airpool-device, in dist/
	$(BIN)/python -m pip install -q -c constraints.txt build
	for package in . packages/models; do $(BIN)/python -m build -o dist $$package || exit 1; done
	$(BIN)/python -m build --wheel -o dist deploy/device

clean:  ## remove .venv, caches and out/
	rm -rf .venv out build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Returns at once when .venv is whole and up to date.
install:
	@PYTHON="$(PYTHON)" sh scripts/bootstrap.sh
