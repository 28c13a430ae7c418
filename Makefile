# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/sh
PY := .venv/bin/python
INPUTS := pyproject.toml constraints.txt tools/setup.sh
# Half of a test's time is waiting: for servers, disks, children. Two workers for each of two cores.
WORKERS ?= 4
PARALLEL := -n $(WORKERS) --dist worksteal
# A link that leads nowhere is an error.
SITE := $(PY) -m sphinx --quiet --fail-on-warning --keep-going -b dirhtml docs build/site
ALL_CLIENTS := claude codex pi opencode gemini aider

.PHONY: help demo test test-loaded check bench bench-graph bench-mcp soak bench-search bench-peers bench-quality bench-replay bench-validity judge conformance nightly mutants call-paths clients adapters docs release-check clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.venv/.user: $(INPUTS)
	@tools/setup.sh exact,cli,index && touch $@

.venv/.dev: $(INPUTS)
	@tools/setup.sh dev && touch $@ .venv/.user

demo: .venv/.user  ## what marksweep does to a working set, a conversation and a graph, in a minute
	@mkdir -p build && $(PY) -m marksweep demo --picture build/demo.svg

test: .venv/.dev  ## all tests
	@tools/browser.sh
	$(PY) -m pytest $(PARALLEL)

test-loaded: .venv/.dev  ## all tests with four busy processes, ROUNDS times
	@tools/browser.sh
	WORKERS=$(WORKERS) $(PY) tools/loaded.py $(or $(ROUNDS),1)

check: .venv/.dev  ## lint, types, import direction, public names, docs in step
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest tests/test_architecture.py tests/test_public_names.py tests/test_docs.py
	$(SITE)

.node/.ready: tools/node.sh
	@tools/node.sh && touch $@

conformance: .venv/.dev .node/.ready  ## the protocol's own suite and inspector, from npm, against the MCP server
	$(PY) tools/conformance.py

.clients/%.ready: tools/clients.sh
	@tools/clients.sh $*

# A client that cannot be installed is reported in the table; it is a failure if it was named.
clients: .venv/.dev  ## the real coding agents, from npm and PyPI, through `marksweep wrap`; CLIENTS="claude pi" chooses; KILLS=10 only kills the proxy
	@$(MAKE) --keep-going --silent $(patsubst %,.clients/%.ready,node $(or $(CLIENTS),$(ALL_CLIENTS))) || true
	$(PY) -m tests.clients $(CLIENTS) $(if $(KILLS),--kills $(KILLS))

adapters: .venv/.dev  ## agent frameworks with their own fake models, newest and oldest, each in its own environment
	$(PY) -m tests.adapters

bench: .venv/.dev  ## speed and memory as ratios in one run; prints the table of the README
	$(PY) -m benchmarks

# A missed bar does not keep the second comparison from running; the command still fails.
bench-peers: .venv/.dev  ## the same transcripts through other libraries, each in its own environment
	@status=0; \
	$(PY) -m benchmarks.peers || status=1; \
	$(PY) -m benchmarks.peers.recorded || status=1; \
	exit $$status

bench-validity: .venv/.dev  ## every strategy and budget on MARKSWEEP_DATA: no invalid history
	$(PY) -m benchmarks validity

bench-mcp: .venv/.dev  ## the front ends: help, a session of 50 MB; the server on stdio and with fifty clients; the proxy
	$(PY) -m benchmarks cli mcp proxy

soak: .venv/.dev  ## ten minutes of fifty clients at four servers that share databases, each killed once
	$(PY) -m benchmarks.soak

bench-graph: .venv/.dev  ## the knowledge graph: indexing, planning, purging, searching
	$(PY) -m benchmarks indexing graph

bench-search: .venv/.dev  ## how well search finds code, compared with FTS5 and bm25s on the same files
	$(PY) -m benchmarks.search

bench-quality: .venv/.dev  ## strategies on recorded runs in MARKSWEEP_DATA, compared with the clairvoyant bound
	$(PY) -m benchmarks.quality

judge: .venv/.dev  ## strategies by a language model on MARKSWEEP_DATA: contexts, and scores where there is a GPU
	$(PY) -m benchmarks.judge

bench-replay: .venv/.dev  ## a hundred synthetic transcripts of 20k tokens through the replay lab
	$(PY) -m benchmarks replay

nightly: .venv/.dev  ## the laws on fifty times as many examples, new ones every time
	HYPOTHESIS_PROFILE=nightly $(PY) -m pytest $(PARALLEL) tests/laws tests/heaps tests/dialects tests/plugins --timeout 7200

mutants: .venv/.dev  ## break the code on purpose; every break must be caught
	$(PY) tools/mutants.py

call-paths: .venv/.dev  ## the files that one tool result passes through, on its way in and through a collection
	$(PY) tools/call_paths.py

docs: .venv/.dev  ## write the generated parts of docs/, and the site into build/site
	$(PY) tools/docs.py
	$(PY) -m marksweep web src/marksweep/cli/demo_session.jsonl --limit 20k --by tool --svg docs/heap.svg
	$(SITE)

release-check: .venv/.dev  ## build wheel and sdist, install them as users would, and try each door
	$(PY) tools/release_check.py

clean:
	rm -rf .venv .venv-peers .node .clients .adapters build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
