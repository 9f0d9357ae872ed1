# Two commands do everything on a machine with python3, make and a C compiler: `make demo` and `make test`.

PYTHON ?= python3
TORCH := torch==2.13.0
VENV := .venv
WHEEL := .venvs/wheel
TRACEML := .venvs/traceml
TRACEML_PIN := traceml-ai==0.5.0
LOOPS := .venvs/loops
PUBLIC := .venvs/public
# A pair with torchvision, a CUDA build of 5.5 GB where the index has no other; DLRM asks torch's profiler for CUDA by a
# name that it does not know from 2.14 on.
PUBLIC_TORCH := torch==2.13.0 torchvision==0.28.0
RIVALS := .venvs/rivals
AUDIT := .venvs/audit
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A registry that is slow for a moment is no reason to fail.
export PIP_RETRIES ?= 10
export PIP_DEFAULT_TIMEOUT ?= 60
# No locale changes what files say, in a test as little as in a build.
export PYTHONUTF8 := 1
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What only a built wheel can get wrong: entry point, links, data, imports. The rest is the same code as in the tree, and
# what takes long is tried there alone.
ON_WHEEL := tests/commands tests/report tests/probes $(addprefix tests/watch/test_,cli.py start.py status.py streams.py)

# Most tests wait for other processes most of the time: several at a time take half as long.
AT_A_TIME := -n 3 --dist worksteal

.PHONY: help demo test faults audit interpreters test-long check lint types test-tree test-wheel wheel on-wheel bench bench-sweep bench-tune bench-share bench-long bench-agents bench-screen bench-tui tui-shot zoo zoo-cuda lot loops public gpu-day simcuda causes floors fmt clean

help:
	@echo "make demo    train a small network on real images under gputune watch"
	@echo "make test    every gate and every test, on the tree and on the built wheel"
	@echo "make interpreters  the guest under each Python from 3.8 upwards that starts here, on PATH or under pyenv"
	@echo "make test-long  the tests that take minutes each"
	@echo "make faults  what gputune promises, tried with faults, into docs/reliability.md (ten minutes; FAULTS=full: on to all; ONLY=row CASE=n)"
	@echo "make zoo     training scripts with planted causes (ONLY=name for some of them)"
	@echo "make zoo-cuda  the zoo's trainings with the CUDA build of torch, on simulated cards (ONLY=name, ONLY=name@sleeping)"
	@echo "make lot     loops drawn by lot, judged at first sight (SEED=1000 COUNT=20 RESULTS=file KEEP=folder; a minute and a half each)"
	@echo "make loops   loops of Lightning, transformers, accelerate, WebDataset, TensorFlow and plain ones; notebooks, wandb and MLflow"
	@echo "make public  scripts that others have published: verdict, output, what the fix brings, into docs/public.md (ONLY=name SOURCES=folder)"
	@echo "make simcuda  the CUDA build of torch on simulated cards: set it up (1.6 GB, a minute), and its tests (LONG=1: all of them)"
	@echo "make causes  write docs/causes.md out of the advisors"
	@echo "make floors  draw the floors in docs/architecture.md out of the code"
	@echo "make bench   measure what gputune costs, into benchmarks/results.md"
	@echo "make bench-sweep  sweeps against exhaustive grids, Optuna and Ray Tune, into benchmarks/sweep.md (half an hour)"
	@echo "make bench-tune  watch --tune on three loops: what it brings, how soon, and what a step costs then, into benchmarks/tune.md"
	@echo "make bench-long  what a week's run costs its reader: the verdict again, and a page's series (some minutes)"
	@echo "make bench-tui  the screen with 1,000 simulated nodes (bench-screen), and 64 real agents, cut links and kills (bench-agents, half an hour)"
	@echo "make tui-shot   capture real screens in tmux, into docs/screens/"
	@echo "make bench-share  several processes on one simulated card: packs, auto, 200 random scenarios (ONLY=part)"
	@echo "make gpu-day  on a machine with a card: what gputune is worth there, in eight minutes, into gpu-day/ (ONLY=part OUT=folder)"
	@echo "make fmt     format the code"

# torch comes first: whatever else is installed then has to agree with it. pip would compile all of it on one core, the tests
# of each package too; what some package ships for another Python cannot be compiled, and need not be.
$(READY): pyproject.toml bin/gputune bin/gputune-python gputune/_proc.c gputune/_rows.c probes/guest/gputune_guest/_fast.c
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile "$(TORCH)"
	$(PIP) --no-compile --editable ".[dev,demo]"
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib/*/site-packages gputune probes advisors tui || true
	touch $@

demo: $(READY)
	$(BIN)/python examples/make_digits.py
	PATH="$(CURDIR)/$(BIN):$$PATH" gputune watch -- python examples/train_digits.py

# Types and the building of the wheel keep one core busy each; the linter would meet the copy of the tree that a wheel is built of.
test: lint
	$(MAKE) --jobs=2 --output-sync=target types wheel
	$(MAKE) test-tree on-wheel

check: lint types

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy -p gputune
	$(BIN)/lint-imports

test-tree: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --durations=15 $(AT_A_TIME) -m "not long"

# In `make test` too, with what starts there: CI runs that where no other Python does, and this where all are.
interpreters: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --durations=15 $(AT_A_TIME) -m interpreters tests/guest

# Whole trainings that are tuned, launchers, two hosts of namespaces: minutes, and best with nothing beside them.
test-long: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m long

# Ten minutes on two cores with nothing beside it. Full takes days, is stopped with Ctrl-C, and goes on from there.
faults: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.faults $(if $(filter full,$(FAULTS)),--full) \
		$(if $(ONLY),--only $(ONLY)) $(if $(CASE),--case $(CASE)) $(if $(HOURS),--hours $(HOURS))

# Licences of what gputune needs, and what is known against it. `pip-audit` and what it asks need a network: without one that is said.
$(AUDIT)/.ready:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit && touch $@ || true

audit: $(READY) $(AUDIT)/.ready
	$(BIN)/python tests/faults/supply.py $(AUDIT)/bin/python

# The second environment holds the wheel alone and borrows the libraries of the first. It is entered from a folder
# in which there is no `gputune` to import by accident.
test-wheel: wheel
	$(MAKE) on-wheel

wheel: $(READY)
	rm -rf dist $(WHEEL)
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/gputune-*.whl
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$($(WHEEL)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/libraries.pth"
	cd $(WHEEL) && bin/python -c "import gputune; assert 'site-packages' in gputune.__file__, gputune.__file__"

on-wheel:
	cd $(WHEEL) && PATH="$(CURDIR)/$(WHEEL)/bin:$(CURDIR)/$(BIN):$$PATH" bin/python \
		-m pytest --durations=15 -c "$(CURDIR)/pyproject.toml" --rootdir "$(CURDIR)" \
		$(AT_A_TIME) -m "not slow and not long" $(addprefix $(CURDIR)/,$(ON_WHEEL))

# TraceML pins other versions than ours: it gets an environment of its own.
$(TRACEML)/.ready:
	$(PYTHON) -m venv $(TRACEML)
	$(TRACEML)/bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" numpy
	$(TRACEML)/bin/python -m pip install --quiet --disable-pip-version-check "$(TRACEML_PIN)"
	touch $@

bench: $(READY) $(TRACEML)/.ready
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/all.py --traceml "$(CURDIR)/$(TRACEML)/bin/python"

# Optuna and Ray in an environment of their own, which borrows torch from the first.
$(RIVALS)/.ready: $(READY)
	$(PYTHON) -m venv $(RIVALS)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$($(RIVALS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/libraries.pth"
	$(RIVALS)/bin/python -m pip install --quiet --disable-pip-version-check optuna "ray[tune]"
	touch $@

bench-sweep: $(READY) $(RIVALS)/.ready
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/sweep.py --rivals "$(CURDIR)/$(RIVALS)/bin/python"

bench-tune: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/tune.py

bench-agents: $(READY)
	$(BIN)/python benchmarks/agents.py --markdown benchmarks/agents.md

bench-tui: bench-screen bench-agents

bench-long: $(READY)
	$(BIN)/python benchmarks/long_run.py

bench-screen: $(READY)
	$(BIN)/python benchmarks/tui.py --markdown benchmarks/tui.md

tui-shot: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/screens.py

# Apart from `bench`: it takes half an hour, most of it 200 random scenarios.
bench-share: $(READY)
	$(BIN)/python benchmarks/share.py $(if $(ONLY),--only $(ONLY))

zoo: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/zoo/judge.py $(if $(ONLY),--only $(ONLY))

# The CUDA build of torch and the simulated runtime are made at the first run (1.6 GB); without them every script says so.
zoo-cuda: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/zoo/cuda/judge.py $(if $(ONLY),--only $(ONLY))

SEED := 1000
COUNT := 20
lot: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/zoo/lot/judge.py --seed $(SEED) --count $(COUNT) \
		$(if $(RESULTS),--results $(RESULTS)) $(if $(KEEP),--keep $(KEEP))

# Frameworks in an environment of their own, which borrows torch and gputune from the first.
$(LOOPS)/.ready: $(READY)
	$(PYTHON) -m venv $(LOOPS)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$($(LOOPS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/libraries.pth"
	$(LOOPS)/bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" \
		lightning transformers accelerate webdataset torchdata tensorflow-cpu tensorboard ipykernel nbclient \
		wandb mlflow-skinny
	$(LOOPS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

loops: $(LOOPS)/.ready
	GPUTUNE_LOOPS=1 PATH="$(CURDIR)/$(LOOPS)/bin:$(CURDIR)/$(BIN):$$PATH" $(LOOPS)/bin/python -m pytest \
		tests/loops tests/inside/test_notebook.py tests/exporters/test_wandb.py tests/exporters/test_mlflow.py

# What one script needs and cannot be had is no reason not to try the others: they say what is missing.
$(PUBLIC)/.ready: benchmarks/public/scripts.toml $(READY)
	$(PYTHON) -m venv $(PUBLIC)
	$(PUBLIC)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(PUBLIC_TORCH) numpy
	$(BIN)/python benchmarks/public.py --requirements | while read -r need; do \
		$(PUBLIC)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(PUBLIC_TORCH) "$$need" || true; done
	$(PUBLIC)/bin/python -m compileall -qq -j 0 $(PUBLIC)/lib/*/site-packages || true
	touch $@

public: $(PUBLIC)/.ready
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python benchmarks/public.py --python $(PUBLIC)/bin/python \
		$(if $(ONLY),--only "$(ONLY)") $(if $(SOURCES),--sources "$(SOURCES)")

# Where torch's CUDA build is not to be had, nothing is tried, and the last line says so.
simcuda: $(READY)
	@$(BIN)/python tests/simcuda/simcuda.py; status=$$?; \
	if [ $$status = 77 ]; then echo "simcuda: SKIPPED, nothing was tried on CUDA"; exit 0; fi; \
	[ $$status = 0 ] || exit $$status; \
	GPUTUNE_SIMCUDA=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --durations=15 \
		-n 2 --dist worksteal $(if $(LONG),,-m "not long") tests/simcuda tests/zoo/cuda

# On a machine that may have nothing but torch: no environment is made, and what is missing is said. docs/gpu-day.md
gpu-day:
	$(PYTHON) benchmarks/gpu_day.py $(if $(ONLY),--only $(ONLY)) $(if $(OUT),--out "$(OUT)") \
		$(if $(MATCHING),--matching "$(MATCHING)") $(if $(BOX),--seconds $(BOX))

# The checklist that the project comes from, and who covers each of its lines, as the advisors say it themselves.
causes: $(READY)
	$(BIN)/python docs/causes.py

floors: $(READY)
	$(BIN)/python docs/floors.py

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist $(WHEEL) *.egg-info
