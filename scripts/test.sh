#!/usr/bin/env bash
# What a change needs before it goes in, from formatting to real PostgreSQL; `make test` runs it, `make test-all` adds the
# long and the many with --all. It stops at the first step that fails. PostgreSQL is found, or fetched, by the tests
# themselves. The last line says how many tests passed and failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=no
[ "${1-}" = --all ] && all=yes
log=$(mktemp)
trap 'rm -f "$log"' EXIT

bold() {
    if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

# The sums of what cargo's tests reported.
summary() {
    awk '/^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1) } }
         END { printf "%d passed, %d failed\n", p, f }' "$log"
}

step() {
    local title=$1 began=$SECONDS
    shift
    bold "$title"
    echo "\$ $*"
    if ! "$@" 2>&1 | tee -a "$log"; then
        echo "make test: failed at \"$title\" after $((SECONDS - began)) s"
        summary
        exit 1
    fi
    echo "($((SECONDS - began)) s)"
}

if ! command -v cargo >/dev/null; then
    echo "make test: cargo is missing; install Rust from https://rustup.rs" >&2
    exit 1
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

step "Formatting" cargo fmt --all --check -- --color never
step "Lints" cargo clippy --quiet --workspace --all-targets --all-features -- --deny warnings
step "Unit tests, the simulator's, and who may know whom" cargo test --quiet --workspace --no-fail-fast
step "Real PostgreSQL" cargo test --quiet -p weir-tests --features postgres --no-fail-fast
step "The simulator" make --no-print-directory sim COUNT="${COUNT:-$([ "$all" = yes ] && echo 50000 || echo 3000)}"
if [ "$all" = yes ]; then
    step "Planted bugs, which the simulator must find" make --no-print-directory planted
    step "Real drivers" tests/drivers/run.sh
    step "PostgreSQL's own regression tests" make --no-print-directory regress
    step "The fuzz targets" make --no-print-directory fuzz
    step "Huge results and long runs" cargo test --quiet -p weir-tests --features long
    step "What is fetched where there is no PostgreSQL" cargo test --quiet -p weir-pglocal -- --ignored
    step "Mixed traffic with clients killed at random" make --no-print-directory soak
fi

bold "All is well, after $((SECONDS / 60)) min $((SECONDS % 60)) s"
summary
