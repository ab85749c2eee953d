#!/usr/bin/env bash
# What a change needs before it goes in. `make test`: formatting, lints, unit tests, real PostgreSQL, the simulator. Where CI is
# set, and with --ci (`make test-ci`): the other suites, both back ends, and the panel in a browser. With --all
# (`make test-all`): long tests and large numbers, too. It stops at the first step that fails. PostgreSQL is found, or
# fetched, by the tests themselves. The last line says how many tests passed and failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=no
ci=no
[ -n "${CI-}" ] && ci=yes
case "${1-}" in
--all) all=yes ci=yes ;;
--ci) ci=yes ;;
esac
log=$(mktemp)
unsteady=$(mktemp)
beside=$(mktemp)
second=
trap 'rm -f "$log" "$unsteady" "$beside"; [ -z "$second" ] || kill -- "-$second" 2>/dev/null' EXIT

bold() {
    if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

# The sums of what cargo's tests reported, a repeated test counted once.
summary() {
    if [ -s "$unsteady" ]; then
        printf 'unsteady, having failed once and passed when repeated alone: %s\n' "$(paste -sd ' ' "$unsteady")"
    fi
    awk -v again="$(wc -l <"$unsteady")" '
         /^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1) } }
         END { printf "%d passed, %d failed\n", p + again, f - again }' "$log"
}

# The names of the tests that failed, as libtest lists them at the end of each program's output.
failed_tests() {
    awk '/^failures:$/ { listing = 1; next } /^test result:/ { listing = 0 } listing && /^    [^ ]+$/ { print $1 }' "$1" | sort -u
}

# The programs they are in, as cargo names them: "-p weir-engine --lib".
failed_programs() {
    sed -n 's/^    `\(-p [^`]*\)`$/\1/p; s/^error: test failed, to rerun pass `\(-p [^`]*\)`$/\1/p' "$1" | sort -u
}

give_up() {
    # What runs beside is waited for: it has something to say, too.
    [ -z "$second" ] || beside_ends || true
    echo "make test: failed at \"$1\" after $2 s"
    summary
    exit 1
}

step() {
    local title=$1 began=$SECONDS
    shift
    bold "$title"
    echo "\$ $*"
    "$@" 2>&1 | tee -a "$log" || give_up "$title" $((SECONDS - began))
    echo "($((SECONDS - began)) s)"
}

# `cargo test`. Up to five tests that fail are repeated once, alone: a busy machine can starve a test that waits for real
# servers. One that passes then is named at the end, and is a fault to look into, of the test or of Weir; one that fails
# twice is a failure.
tests() {
    local title=$1 began=$SECONDS output
    shift
    bold "$title"
    echo "\$ cargo test --quiet --no-fail-fast $*"
    output=$(mktemp)
    if ! cargo test --quiet --no-fail-fast "$@" 2>&1 | tee "$output" | tee -a "$log"; then
        repeat "$output" "$@" || { rm -f "$output"; give_up "$title" $((SECONDS - began)); }
    fi
    rm -f "$output"
    echo "($((SECONDS - began)) s)"
}

# Runs a step beside what follows; `beside_ends` prints its output, and fails if it has.
beside() {
    # As a job: what a script only sends to the background ignores SIGINT and SIGQUIT, and so would the servers it starts.
    set -m
    "$@" >"$beside" 2>&1 &
    second=$!
    set +m
}

beside_ends() {
    local status=0
    wait "$second" || status=$?
    second=
    cat "$beside"
    return "$status"
}

repeat() {
    local output=$1 names programs program features=()
    shift
    mapfile -t names < <(failed_tests "$output")
    mapfile -t programs < <(failed_programs "$output")
    # A program that crashed lists no tests: that is never repeated.
    [ "$(grep -c '^test result: FAILED' "$output")" -eq ${#programs[@]} ] || return 1
    [ ${#names[@]} -ge 1 ] && [ ${#names[@]} -le 5 ] && [ ${#programs[@]} -ge 1 ] || return 1
    while [ $# -gt 0 ]; do
        [ "$1" = --features ] && features=(--features "$2")
        shift
    done
    for program in "${programs[@]}"; do
        bold "Once more, alone: $program: ${names[*]}"
        # shellcheck disable=SC2086  # a program is several words
        cargo test --quiet ${program/#-p * --test/--workspace --test} "${features[@]}" -- --exact "${names[@]}" --test-threads=1 || return 1
    done
    printf '%s\n' "${names[@]}" >>"$unsteady"
}

if ! command -v cargo >/dev/null; then
    echo "make test: cargo is missing; install Rust from https://rustup.rs" >&2
    exit 1
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

# Every build chooses the same packages and features: of a package alone, libraries would have other features, and be
# built once more.
real=(--workspace --features "weir-tests/postgres weir-lab/servers")
# The names of the test programs in these packages' folders: a file each, or a folder with a main.rs.
programs() {
    local folder
    for folder in "$@"; do
        find "$folder" -maxdepth 1 -name '*.rs' 2>/dev/null
        find "$folder" -mindepth 2 -maxdepth 2 -name main.rs 2>/dev/null
    done | sed -E 's#/main\.rs$##; s#\.rs$##; s#.*/#--test=#' | sort -u
}
# Those of every package but the two whose suites are named below.
mapfile -t small < <(cargo metadata --format-version 1 --no-deps | grep -o '"manifest_path":"[^"]*/Cargo.toml"' |
    sed -E 's#.*:"(.*)/Cargo.toml"#\1#' | grep -vE '/(tests|lab)$' | while read -r package; do programs "$package/tests"; done | sort -u)

# The suites that run beside the largest one. PgBouncer's own is not part of this repository: a checkout of it is named by
# PGBOUNCER_SOURCE.
other_suites() {
    tests "Faults, incidents, differences, pages, PgBouncer and the lab" "${real[@]}" --test differential --test faults --test incidents --test pages --test pgbouncer --test all
    if [ -n "${PGBOUNCER_SOURCE-}" ]; then
        step "PgBouncer's own test suite" scripts/pgbouncer-suite.sh
    else
        bold "PgBouncer's own test suite: not run, PGBOUNCER_SOURCE names no checkout of PgBouncer"
    fi
}

step "Formatting" cargo fmt --all --check -- --color never
step "Build" cargo test --quiet --no-run "${real[@]}"
WEIR_BIN=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/weir
export WEIR_BIN
beside step "Lints" cargo clippy --quiet "${real[@]}" --all-targets -- --deny warnings
tests "Unit tests, the simulator's, and which crate may use which" "${real[@]}" --lib --bins "${small[@]}"
beside_ends
simulator() {
    step "The simulator" "$(dirname "$WEIR_BIN")/weir-sim" --seed 1 --count "${COUNT:-2000}"
}

if [ "$ci" = yes ]; then
    beside other_suites
else
    beside simulator
    # Alone, these tests mostly wait: twice as many at a time as there are processors.
    export RUST_TEST_THREADS=$((2 * $(nproc)))
fi
tests "Real PostgreSQL" "${real[@]}" --test postgres
beside_ends
if [ "$ci" = yes ]; then
    # Above, sockets are served by io_uring where the kernel has it. Here by epoll, as elsewhere: all of it with --all.
    export WEIR_TEST_IO=epoll
    mapfile -t runtime < <(programs crates/runtime/tests)
    beside tests "The runtime by epoll" "${real[@]}" "${runtime[@]}"
    if [ "$all" = yes ]; then
        tests "Real PostgreSQL by epoll" "${real[@]}" --test postgres --test differential --test faults --test incidents --test pgbouncer
    else
        tests "Real PostgreSQL by epoll, in part" "${real[@]}" --test postgres -- bulk cancel tls
    fi
    beside_ends
    unset WEIR_TEST_IO
    # Beside the simulator, pages have three times the time that they have alone.
    beside step "The panel in a browser" env SLOWER="${SLOWER:-3}" tests/panel/run.sh
    step "The dashboard against Grafana's schema library" tests/grafana/run.sh
    if [ "$all" = yes ]; then
        step "The simulator" make --no-print-directory sim COUNT="${COUNT:-50000}"
    else
        simulator
    fi
    beside_ends
fi
if [ "$all" = yes ]; then
    tests "The lab, interrupted and in a browser" "${real[@]}" --test kill --test products_page
    step "What rustc makes of the code: nothing is read that was never set" scripts/optimised.sh
    step "Planted bugs, which the simulator must find" make --no-print-directory planted
    step "Real drivers" tests/drivers/run.sh
    step "The API against its description" tests/api/run.sh
    step "The site of the pages, its links and its search" tests/site/run.sh
    step "PostgreSQL's own regression tests" make --no-print-directory regress
    step "The fuzz targets" make --no-print-directory fuzz
    step "Instructions of texts" make --no-print-directory growth
    tests "Huge results and long runs" -p weir-tests --features long
    step "What is fetched where there is no PostgreSQL" cargo test --quiet -p weir-pglocal -- --ignored
    step "Mixed traffic with clients killed at random" make --no-print-directory soak
fi

bold "All is well, after $((SECONDS / 60)) min $((SECONDS % 60)) s"
summary
