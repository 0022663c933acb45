# Everything happens in .venv. `make demo` and `make test` need only Python >= 3.11 and make.
PYTHON ?= python3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --prefer-binary -c constraints.txt

.PHONY: demo test lint types unit cluster browser clean

demo: .venv/ready-demo
	.venv/bin/oneof demo

test: lint types unit cluster browser

lint: .venv/ready-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: .venv/ready-dev
	.venv/bin/mypy

unit: .venv/ready-dev
	.venv/bin/pytest -n 2 --ignore=tests/cluster --ignore=tests/browser

cluster: .venv/ready-dev
	.venv/bin/pytest tests/cluster

# skips with a reason where there is no Chromium
browser: .venv/ready-dev
	.venv/bin/pytest -rs tests/browser

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready-demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[report]'
	@touch $@

.venv/ready-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[dev]'
	@touch $@ .venv/ready-demo

clean:
	rm -rf .venv demo runs .pytest_cache .mypy_cache .ruff_cache
