# The targets of this repository. `make` alone lists them.

CARGO ?= cargo
ARGS ?=

.DEFAULT_GOAL := help
# Each target that `make help` lists is a command, and no file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## List the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-17s %s\n", $$1, $$2 }'
	@echo "ARGS are passed on, as in: make demo ARGS='--seconds 5'"

demo: ## Show Weir with traffic, on a temporary PostgreSQL (half a minute, then until Ctrl-C)
	@exec scripts/demo.sh $(ARGS)

build: ## Build the optimised weir, weir-demo and weir-lab into target/release
	WEIR_COMMIT="$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" $(CARGO) build --release -p weir -p weir-demo -p weir-lab

PREFIX ?= /usr/local
install: ## Copy what `make build` has built, manual pages and completions to $(PREFIX) (PREFIX=/usr/local, DESTDIR=)
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 target/release/weir target/release/weir-demo target/release/weir-lab "$(DESTDIR)$(PREFIX)/bin"
	@scripts/install-docs.sh target/release/weir "$(DESTDIR)$(PREFIX)/share"

packages: ## deb, rpm, static tarball, OCI image, SBOM and checksums for amd64 and arm64, into target/packages (ARCH=amd64)
	@ARCH="$(ARCH)" packaging/build.sh

release: ## Packages, checksums, SBOM, provenance and signatures of the tag (KEY=minisign's key; DRAFT=1 of any commit)
	@KEY="$(KEY)" DRAFT="$(DRAFT)" ARCH="$(ARCH)" scripts/release.sh

sign: ## Sign what `make release` has made (KEY=minisign's key; needs no network)
	@KEY="$(KEY)" scripts/release.sh --sign

reproduce: ## Build a release again in another folder and compare its digests (VERSION=0.1.0 SUMS=FILE PUBLIC=weir.pub)
	@SUMS="$(SUMS)" PUBLIC="$(PUBLIC)" ARCH="$(ARCH)" scripts/reproduce.sh "$(VERSION)"

packages-test: ## Install, upgrade under a client and purge the packages in a clean Debian with systemd (root; minutes)
	@packaging/test.sh

image-test: ## Run the images as Kubernetes and five operators do, files that change, signals, probes; arm64 under qemu (root)
	@packaging/kubernetes/check.sh --tools
	@packaging/oci/test.py

charts: ## Check the Helm chart and the plain manifests: helm lint, kubeconform, weir check (installs tools into target/tools)
	@$(CARGO) build --quiet -p weir
	@packaging/kubernetes/check.sh

man: ## The manual pages, into target/man
	@$(CARGO) run --quiet -p weir -- man --dir target/man

lab: ## Rerun the published experiments about pooling (ARGS='all --quick' is the default)
	@$(CARGO) build --quiet --release -p weir -p weir-lab
	@exec "$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/weir" lab $(or $(ARGS),all --quick)

lab-deps: ## Install the programs that the experiments compare: PgBouncer, Pgpool-II, MariaDB, Go, Node.js
	@scripts/lab-deps.sh

test: ## The tests that a change needs: unit tests, real PostgreSQL, simulator (ARGS=--yes: may download PostgreSQL)
	@scripts/test.sh $(ARGS)

test-ci: ## The same and what CI runs: lints, the other suites, both back ends, the panel in a browser
	@scripts/test.sh --ci $(ARGS)

test-all: ## All of that and the long tests: huge results, soak, more seeds
	@scripts/test.sh --all $(ARGS)

call-path: ## Files and functions of the engine that a query and a login go through (needs gdb; ARGS=--list)
	@scripts/call-path.sh $(ARGS)

incidents: ## Tests of incidents of other poolers; FULL=1 takes the incidents' own sizes (ONLY=NAME)
	@scripts/incidents.sh $(if $(FULL),--full) $(ONLY) $(ARGS)

bench: ## Weir compared with other poolers, every group, then the budgets: 15 min (ARGS='rounds --only simple', --help)
	$(CARGO) build --quiet --release -p weir -p weir-bench
	$(CARGO) run --quiet --release -p weir-bench -- $(or $(ARGS),all)

soak: ## Mixed traffic with clients killed at random, for ten minutes
	$(CARGO) build --quiet --release -p weir -p weir-bench
	$(CARGO) run --quiet --release -p weir-bench -- soak $(ARGS)

regress: ## PostgreSQL's own regression and isolation tests, directly and in the modes session and auto (ARGS='date guc': only these)
	@tests/regress/run.sh $(ARGS)

pgbouncer-suite: ## PgBouncer's own test suite against Weir (PGBOUNCER_SOURCE=a checkout of PgBouncer)
	@PGBOUNCER_SOURCE=$(PGBOUNCER_SOURCE) scripts/pgbouncer-suite.sh $(ARGS)

sim: ## The simulator with many seeds (SEED=1 COUNT=3000, or HOURS=0.5 for as long; JOBS=1)
	@$(CARGO) run --quiet --profile sim -p weir-sim -- --seed $(or $(SEED),1) \
		$(if $(HOURS),--hours $(HOURS),--count $(or $(COUNT),3000)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

cluster-sim: ## Nodes that share budgets, with many seeds (COUNT=3000), then planted bugs
	@WEIR_CLUSTER_SEEDS=$(or $(COUNT),3000) $(CARGO) test --quiet --profile sim -p weir-cluster --lib -- sim:: --include-ignored --nocapture

cluster-test: ## Three Weirs, etcd and PostgreSQL: the budget is sampled 100 times a second while nodes and etcd fail
	@$(CARGO) build --quiet -p weir && tests/cluster/run.py target/debug/weir

cluster-chaos: ## Five Weirs and three etcd in network namespaces (needs root): etcd's leader killed, minorities cut off, disks full
	@$(CARGO) build --quiet -p weir && tests/cluster/chaos.py target/debug/weir $(ARGS)

cluster-config-test: ## Three Weirs, etcd and PostgreSQL: the configuration that nodes share
	@$(CARGO) build --quiet -p weir && tests/cluster/config.py target/debug/weir

cluster-cancel-test: ## Three Weirs, etcd and PostgreSQL: a request to cancel at one node ends a query at another
	@$(CARGO) build --quiet -p weir && tests/cluster/cancel.py target/debug/weir

cluster-etcd-test: ## Weir and an etcd with TLS, client certificates and users
	@$(CARGO) build --quiet -p weir && tests/cluster/etcd.py target/debug/weir

cluster-name-test: ## Two processes with one node's name: /readyz, SHOW CLUSTER and clients' errors say so
	@$(CARGO) build --quiet -p weir && tests/cluster/names.py target/debug/weir

patroni-test: ## Weir before two PostgreSQLs that Patroni switches and fails over, under load (needs etcd; installs Patroni into target)
	@$(CARGO) build --quiet -p weir && tests/cluster/patroni.py target/debug/weir

cluster-demo: ## Three Weirs that share a budget, with a load that moves from node to node; Ctrl-C ends it
	@$(CARGO) build --quiet -p weir && tests/cluster/run.py target/debug/weir demo

planted: ## Plant bugs in a copy of the engine; the simulator must find each within a minute
	@$(CARGO) test --quiet --profile sim -p weir-sim --test planted -- --include-ignored --nocapture

fuzz: ## Every fuzz target for a short time (SECONDS=10; TARGET=session is one; ARGS=--keep keeps the corpus)
	@scripts/fuzz.sh --seconds $(or $(SECONDS),10) $(ARGS) $(TARGET)

oss-fuzz: ## The fuzz targets as OSS-Fuzz builds them, with AddressSanitizer, on their corpora (zip)
	@scripts/oss-fuzz.sh

sanitize: ## The tests of the unsafe crates and of the protocol under AddressSanitizer (ARGS=CRATE)
	@scripts/sanitize.sh $(ARGS)

growth: ## Instructions of texts and of messages about stored texts (valgrind): no more than in proportion
	@scripts/growth.sh

differential: ## The same sessions directly and through Weir, compared (COUNT=10000, SEED=1, HOURS=1)
	@SEED=$(SEED) COUNT=$(COUNT) HOURS=$(HOURS) CARGO=$(CARGO) scripts/differential.sh $(ARGS)

drivers: ## Real drivers through Weir; writes docs/drivers.md (ONLY='pgx psycopg', SERVER='18', SUITES='asyncpg pgx')
	@ONLY="$(ONLY)" SERVER="$(SERVER)" SUITES="$(SUITES)" tests/drivers/all.sh

faults: ## Inject faults into a real PostgreSQL and a real Weir; writes docs/faults.md (ONLY=partition, ARGS=--list)
	@$(CARGO) run --quiet -p weir-tests --bin faults -- $(or $(ONLY),--page) $(ARGS)

docs: ## The pages as a site that can be searched, into target/site (builds mdBook once, outside of the repository)
	@CARGO=$(CARGO) scripts/docs.sh

lint: ## Formatting, clippy, dependencies between crates, pages against sources
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- --deny warnings
	$(CARGO) test --quiet -p weir --test arrows --test docs

panel: ## Build the panel into crates/web/panel, which is committed (needs Node.js 20 and npm)
	cd panel && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build

api-test: ## Test the API against its description, by schemathesis (EXAMPLES=20, SEED=1; needs Python 3.10)
	@EXAMPLES="$(EXAMPLES)" SEED="$(SEED)" tests/api/run.sh $(ARGS)

grafana-test: ## Check monitoring/grafana.json against Grafana's schema library (needs Node.js and npm)
	@tests/grafana/run.sh

panel-test: ## Test the panel in a real browser, with a real Weir (ONLY=REGEX, SHOTS=FOLDER for pictures)
	@ONLY="$(ONLY)" SHOTS="$(SHOTS)" tests/panel/run.sh $(ARGS)

panel-scale: ## Measure the panel's pages with 10,000 pools and 15,000 clients (POOLS=, BUSY=, CLIENTS=, ROUNDS=)
	@$(CARGO) build --quiet --release -p weir
	@WEIR_BIN="$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/weir" tests/panel/run.sh scale.mjs

deny: ## Licences, bans and sources of the dependencies (installs cargo-deny if it is missing)
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

audit: ## Known weaknesses of the dependencies (installs cargo-audit if it is missing; fetches the database of advisories)
	@$(CARGO) audit --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-audit
	$(CARGO) audit

forge: ## Check the files of GitHub and GitLab by their schemas, and that they name each step of CI (needs Python 3 with venv)
	@scripts/forge.sh
