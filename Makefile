# make up      install into .venv and start the server on the samples
# make test    install what the tests need and run them
# make test-slow  those that take seconds each: whole lives of servers and terminals, pictures, compilers
# make lint    style, types, and the one direction of imports
# make bench   measure against a real Triton (benchmarks/README.md)
# make soak    200 streams and 500 clients that come and go for a minute: nothing leaks, counters add up
# make soak-python  1,000 loads, 100,000 exceptions and responses, 200 killed workers of the Python backend: nothing leaks
# make build   the wheel, in dist/
# make pictures  take the pictures of the dashboard anew, in packaging/screens
# make zipapp  dist/infer.pyz, one file for machines with the same Python (packaging/README.md)
# make binary  dist/infer, one file for machines without Python
# make docker  check the Dockerfile; build the image where a Docker engine runs
# make locks   write packaging/locks anew
# make clean   remove what the above made

PYTHON ?= python3
VENV ?= .venv
LOCK ?= packaging/locks/shipped.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
ARGS ?=
# Tests run in two processes, the tests of a file in one of them; ARGS="-n 0" runs them in one. Slow ones run alone.
IN_TWO = -n 2 --dist loadfile
# Tests start hundreds of servers and workers; each would compile anew what bytecode is not kept of.
test test-slow: export PYTHONDONTWRITEBYTECODE =

# onnxruntime and onnxruntime-gpu own the same module, so one of them is chosen here.
EXTRA := $(if $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep GPU),gpu,cpu)

# magika asks for onnxruntime by that name; beside onnxruntime-gpu it would overwrite the GPU providers.
ONE_ONNXRUNTIME = $(PIP) uninstall --yes onnxruntime && $(PIP) install --force-reinstall --no-deps onnxruntime-gpu

.PHONY: up test test-slow lint bench soak soak-python build zipapp binary docker pictures locks clean install install-dev

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

up: $(VENV)/.installed
	$(BIN)/infer up --model-repository model_repository $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(IN_TWO) -m "not slow" $(ARGS)

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/run.py $(ARGS)

soak: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/soak.py $(ARGS)

soak-python: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/soak_python.py $(ARGS)

build: $(VENV)/.installed-dev
	rm -rf build/lib build/bdist.* dist/*.whl
	$(BIN)/python -m build --wheel --outdir dist .

pictures: $(VENV)/.installed-dev
	$(BIN)/python packaging/screens/make $(ARGS)

zipapp: build
	packaging/zipapp/build $(PYTHON) dist/*.whl

binary: build
	packaging/pyinstaller/build $(PYTHON) dist/*.whl

docker: build
	packaging/docker/lint $(PYTHON)
	packaging/docker/build dist/*.whl

locks:
	packaging/locks/write $(PYTHON)

clean:
	rm -rf $(VENV) build dist infer_server.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps make a second `make up` or `make test` start at once.
$(VENV)/.installed: pyproject.toml $(LOCK) | $(VENV)/bin/python
	$(PIP) install --constraint $(LOCK) --editable '.[$(EXTRA)]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(LOCK) | $(VENV)/bin/python
	$(PIP) install --constraint $(LOCK) --editable '.[$(EXTRA),torch,dev]'
	$(PIP) install --constraint $(LOCK) --no-deps silero-vad  # a speech model; its wheel asks for torch, its ONNX file does not
	$(if $(filter gpu,$(EXTRA)),$(ONE_ONNXRUNTIME))
	@touch $@ $(VENV)/.installed
