# Everything happens in .venv. `make demo` and `make test` need only Python >= 3.11 and make.
PYTHON ?= python3
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check --prefer-binary -c constraints.txt

# tests run in as many processes as there are cores: more threads in each would only wait for each other
unit cluster-browser docs: export OMP_NUM_THREADS = 1

.PHONY: demo test lint types unit cluster-browser docs clean

demo: .venv/ready-demo
	.venv/bin/oneof demo

test: lint types unit cluster-browser docs

lint: .venv/ready-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: .venv/ready-dev
	.venv/bin/mypy

unit: .venv/ready-dev
	.venv/bin/pytest -n 3 --ignore=tests/cluster --ignore=tests/browser --ignore=tests/docs

# a Ray cluster beside a browser; they skip with a reason where there is none
cluster-browser: .venv/ready-dev
	.venv/bin/pytest -n 2 --dist loadfile -rs tests/cluster tests/browser

# the pages, where a warning is an error, and their tutorials
docs: .venv/ready-dev
	.venv/bin/sphinx-build -W --keep-going -q docs build/docs
	.venv/bin/pytest -n 2 tests/docs

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready-demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[report]'
	@touch $@

.venv/ready-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e '.[dev]'
	@touch $@ .venv/ready-demo

clean:
	rm -rf .venv build docs/generated demo runs .pytest_cache .mypy_cache .ruff_cache
