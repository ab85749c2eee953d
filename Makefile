# What there is to do. `make` alone says so.

CARGO ?= cargo
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build lab lab-deps test test-all bench soak sim lint deny

help: ## Say what there is to do
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'
	@echo "ARGS are passed on, as in: make demo ARGS='--seconds 5'"

demo: ## Show what Weir does, on a throw-away PostgreSQL (half a minute, then until Ctrl-C)
	@$(CARGO) build -p weir
	@exec "$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/weir" demo $(ARGS)

build: ## Build the optimised weir, and its lab, into target/release
	$(CARGO) build --release -p weir -p weir-lab

lab: ## Rerun the published experiments about pooling (ARGS='all --quick' is the default)
	@$(CARGO) build --quiet --release -p weir -p weir-lab
	@exec "$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/weir" lab $(or $(ARGS),all --quick)

lab-deps: ## Install what the experiments compare with: PgBouncer, Pgpool-II, MariaDB, Go, Node.js
	@scripts/lab-deps.sh

test: ## What a change needs: lints, unit tests, real PostgreSQL, simulator (under 15 minutes)
	@scripts/test.sh $(ARGS)

test-all: ## The same with the long and the many: huge results, soak, more seeds
	@scripts/test.sh --all $(ARGS)

bench: ## Weir beside PgBouncer, in interleaved rounds of pgbench (ARGS=idle, tail, bulk: other measurements)
	$(CARGO) build --quiet --release -p weir -p weir-bench
	$(CARGO) run --quiet --release -p weir-bench -- $(or $(ARGS),rounds)

soak: ## Mixed traffic with clients killed at random, for ten minutes
	$(CARGO) build --quiet --release -p weir -p weir-bench
	$(CARGO) run --quiet --release -p weir-bench -- soak $(ARGS)

sim: ## The simulator with many seeds (SEEDS=10000; SEED=1 is the first)
	$(CARGO) run --quiet -p weir-sim -- --seed $(or $(SEED),1) --count $(or $(SEEDS),10000) $(ARGS)

lint: ## Formatting, clippy, and who may know whom
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- --deny warnings
	$(CARGO) test --quiet -p weir --test arrows --test docs

deny: ## Licences, bans and sources of the dependencies (installs cargo-deny if it is missing)
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
