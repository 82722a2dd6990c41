# On a machine with Python 3.11+, make and a C compiler: `make demo` shows what hoca does, `make test` checks it.
# Both create .venv and install what is needed, once.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt
HOCA := $(VENV)/bin/python -m hoca
# One process more than cores, since some tests wait for others they have started, and at most four: files of tests that
# start Ray or torchrun themselves should not meet too many. In their own order: by number of tests, long ones come last.
PROCESSES := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 3 ? cores + 1 : 4)))
PYTEST := $(VENV)/bin/python -m pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
SOURCES := src tests benchmarks docs/site docs/tutorials $(wildcard setup.py)

# Of `make ablation`, `mixed`, `clips`, `msvd` and `compare`: runs side by side, and the folder of the research data.
JOBS ?= 2
SOURCE ?= ../shared/data
DEMO_CLIP := data/demo-clips/videos/test-00000.mp4

# The demo's and the tests' models are so small that a second thread gains nothing, and where the cores are busy with
# other work, waiting for it costs twenty times the time.
demo-train test loadtest adversary kills fuzz-parsers ablation mixed clips msvd compare: export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help install demo demo-train test format check bench docs site picture screenshots ablation mixed clips msvd compare loadtest adversary kills fuzz fuzz-parsers mutants verify-metrics clean clean-demo

help:
	@echo "make demo            caption two real clips with the shipped model, show what its words looked at"
	@echo "make demo-train      train on the built-in dataset, caption unseen clips, show what was attended to"
	@echo "make test            the checks and all tests"
	@echo "make format          put the code into its one format"
	@echo "make check           format, lint and types, without changing anything"
	@echo "make bench           memory of exact attention at the paper's size -> results/"
	@echo "make ablation        the paper's variants on the built-in dataset, continued where it stopped (GPU) -> results/"
	@echo "make mixed           the same of two real clips and one sound; SOURCE=the research data (GPU) -> results/"
	@echo "make clips           the paper's variants, ranks and category on 732 clips; SOURCE=the research data (GPU) -> results/"
	@echo "make msvd            word vectors and rewards on MSVD; SOURCE=the research data (GPU) -> results/msvd.csv"
	@echo "make compare         all captioners on the same features; SOURCE=the research data (GPU) -> results/comparison.csv"
	@echo "make verify-metrics  our scores beside those of the original metrics (needs Java) -> results/"
	@echo "make adversary       hostile files and requests, each of which must end in a result or in one line -> results/"
	@echo "make kills           kill training, extraction and fetching at random moments, and lose nothing -> results/"
	@echo "make fuzz            10,000 damaged files, none of which may harm the process that decodes them -> results/"
	@echo "make fuzz-parsers    coverage-guided, a minute for each of hoca's own parsers (CPython on Linux)"
	@echo "make mutants         plant faults one at a time and see which the tests notice -> results/"
	@echo "make docs            the README's tables and picture, from results/ and the demo's model"
	@echo "make site            the documentation as a site -> build/site/index.html"
	@echo "make screenshots     pictures of the report and of the page (needs Chromium) -> docs/"
	@echo "make loadtest        2,000 captions through the page's API, 16 clients, workers killed -> results/serve.csv"
	@echo "make clean           remove .venv, the demo and all caches"

install: $(TOOLS)

# torch goes first and alone, so that an index with a CPU build of the pinned version decides which build it is.
# setuptools is pinned too, hence no isolated build with whatever version is newest.
$(READY): pyproject.toml constraints.txt $(wildcard setup.py src/hoca/*/*.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hoca needs Python 3.11 or newer, $(PYTHON) is not: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment: install its venv module, then run make again"; exit 2; }
	@echo "installing into $(VENV): torch $(shell sed -n 's/^torch==//p' constraints.txt), then the rest"
	@$(PIP) setuptools torch
	@$(PIP) --no-build-isolation -e .
	@touch $@

# What tests and benchmarks need besides: all extras.
$(TOOLS): $(READY)
	@echo "installing what tests and benchmarks need"
	@$(PIP) --no-build-isolation -e '.[dev,docs,logging,h5,hf,glove,cluster,web,topics,gpu]'
	@touch $@

demo: $(READY)
	@mkdir -p demo
	@$(VENV)/bin/python benchmarks/demo_clips.py demo
	$(HOCA) caption demo/bikes.mp4 demo/bunny.mp4
	$(HOCA) explain demo/bikes.mp4 --out demo/report.html
	@echo "What each word looked at: open demo/report.html. Your own: .venv/bin/hoca caption VIDEO... --report out.html"

demo-train: $(READY)
	@mkdir -p demo
	$(HOCA) data prepare binding --out data/demo train=1200 validation=50 test=200
	$(HOCA) data prepare binding --out data/demo-clips --videos seed=1 train=0 validation=0 test=5 silent=0
	$(HOCA) train binding data=data/demo run=runs/demo epochs=8 batch_size=16 captions_per_video=2 attention=32 \
		learning_rate=0.004 dropout=0.1 --resume
	$(HOCA) evaluate runs/demo
	$(HOCA) caption data/demo-clips/videos/*.mp4 --model runs/demo --json > demo/captions.jsonl
	$(HOCA) explain $(DEMO_CLIP) --model runs/demo --figure demo/attention.png
	@$(VENV)/bin/python benchmarks/beside.py demo/captions.jsonl data/demo-clips/captions.jsonl
	@echo "What the words of the first clip looked at: demo/attention.png"

test: check
	$(PYTEST)

format: $(TOOLS)
	$(VENV)/bin/ruff format $(SOURCES)
	$(VENV)/bin/ruff check --fix $(SOURCES)

check: $(TOOLS)
	$(VENV)/bin/ruff format --check $(SOURCES)
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/mypy

bench: $(TOOLS)
	$(VENV)/bin/python benchmarks/attention_memory.py

ablation: $(TOOLS)
	$(VENV)/bin/python benchmarks/ablation.py --jobs $(JOBS)

mixed: $(TOOLS)
	$(VENV)/bin/python benchmarks/mixed.py --jobs $(JOBS) --source $(SOURCE)

clips: $(TOOLS)
	$(VENV)/bin/python benchmarks/clips.py --jobs $(JOBS) --source $(SOURCE)

msvd: $(TOOLS)
	$(VENV)/bin/python benchmarks/msvd.py --jobs $(JOBS) --source $(SOURCE)

compare: $(TOOLS)
	$(VENV)/bin/python benchmarks/compare.py --jobs $(JOBS) --source $(SOURCE)

screenshots: $(TOOLS)
	$(VENV)/bin/python benchmarks/screenshots.py

loadtest: $(TOOLS)
	$(VENV)/bin/python benchmarks/loadtest.py

adversary: $(TOOLS)
	$(VENV)/bin/python benchmarks/adversary.py

kills: $(TOOLS)
	$(VENV)/bin/python benchmarks/kills.py

fuzz: $(TOOLS)
	$(VENV)/bin/python benchmarks/fuzz.py

fuzz-parsers: $(TOOLS)
	@$(PIP) --no-build-isolation -e '.[fuzz]'
	$(VENV)/bin/python benchmarks/fuzz_parsers.py

mutants: $(TOOLS)
	$(VENV)/bin/python benchmarks/mutants.py

verify-metrics: $(TOOLS)
	@$(PIP) --no-build-isolation -e '.[verify]'
	$(VENV)/bin/python benchmarks/verify_metrics.py

docs: picture
	$(VENV)/bin/python benchmarks/readme_tables.py
	$(VENV)/bin/python benchmarks/compare.py page
	$(VENV)/bin/python benchmarks/speed_pages.py
	$(VENV)/bin/python benchmarks/recipes_page.py

site: export NO_MKDOCS_2_WARNING = 1
site: $(TOOLS)
	$(VENV)/bin/python -m mkdocs build --strict
	@echo "the documentation: open build/site/index.html"

picture: demo-train
	$(VENV)/bin/python benchmarks/readme_picture.py $(DEMO_CLIP) demo/attention.png docs/attention.png

clean-demo:
	rm -rf demo data/demo data/demo-clips runs/demo

clean: clean-demo
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
