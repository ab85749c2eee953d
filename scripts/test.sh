#!/usr/bin/env bash
# What a change needs before it goes in. `make test`: unit tests, real PostgreSQL, the simulator. Where CI is set, and with --ci
# (`make test-ci`): formatting, lints, slow tests, the other suites, both back ends, and the panel in a browser. With --all
# (`make test-all`): long tests and large numbers, too. It stops at the first step that fails. What it needs is checked
# first (scripts/needs.sh); a missing PostgreSQL is downloaded after a question, with --yes and in CI without. What can't
# run here is left out with its reason. The last line says how many tests passed, failed and were ignored.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The steps of CI, which a forge may run one by one, each as a job: `make test-ci ARGS=--step=unit`.
readonly STEPS="format lints unit suites postgres epoll nodes panel dashboard simulator"

all=no
ci=no
yes=()
steps=()
[ -n "${CI-}" ] && ci=yes yes=(--yes)
for word in "$@"; do
    case $word in
    --all) all=yes ci=yes ;;
    --ci) ci=yes ;;
    --yes) yes=(--yes) ;;
    --step=*)
        ci=yes steps+=("${word#--step=}")
        [[ " $STEPS " == *" ${word#--step=} "* ]] || { echo "make test: the steps are $STEPS, not ${word#--step=}" >&2; exit 2; }
        ;;
    *)
        echo "make test: ARGS are --yes, --ci, --all and --step=NAME, not $word" >&2
        exit 2
        ;;
    esac
done
target=test
[ "$ci" = yes ] && target=test-ci
[ "$all" = yes ] && target=test-all

# Everything temporary is in one folder, which is looked into at the end, and removed. Other users may enter it: a root's
# PostgreSQL runs as one.
run=$(mktemp -d "${TMPDIR:-/tmp}/weir-run.XXXXXX")
chmod 711 "$run"
mkdir -m 1777 "$run/tmp"
log=$run/log
unsteady=$run/unsteady
beside=$run/beside
times=$run/times
touch "$log" "$unsteady" "$beside" "$times"
second=
trap '[ -z "$second" ] || kill -- "-$second" 2>/dev/null; rm -rf "$run"' EXIT
# Ended from outside, as by a time limit: what had not ended by then is what there is to look into.
trap interrupted TERM
interrupted() {
    trap - TERM
    bold "make $target: ended by a signal after $SECONDS s; its processes:"
    ps -o pid,ppid,stat,etime,args --forest -g "$(ps -o sid= -p $$)" | cut -c1-200
    if [ -n "$second" ]; then
        bold "What ran beside had printed:"
        tail -n 50 "$beside"
    fi
    exit 143
}
export TMPDIR=$run/tmp
# There Weir makes its sockets for upgrades, which stay where a test kills it.
export RUNTIME_DIRECTORY=$TMPDIR

bold() {
    if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

# The sums of what cargo's tests reported, a repeated test counted once. A test that can't run here passes, and prints a line
# "skipped: what: why"; it counts as ignored.
summary() {
    if [ -s "$unsteady" ]; then
        printf 'unsteady, having failed once and passed when repeated alone: %s\n' "$(paste -sd ' ' "$unsteady")"
    fi
    grep -oE 'skipped: .*' "$log" | sort | uniq -c | sed -E 's/^ *1 //; s/^ *([0-9]+) (.*)/\2 (\1 times)/' || true
    printf 'Seconds of each step: %s\n' "$(paste -sd ',' "$times" | sed 's/,/, /g')"
    awk -v again="$(wc -l <"$unsteady")" '
         /^test result:/ {
             for (i = 2; i <= NF; i++) {
                 if ($i ~ /^passed/) p += $(i-1)
                 if ($i ~ /^failed/) f += $(i-1)
                 if ($i ~ /^ignored/) g += $(i-1)
             }
         }
         /skipped: / { s++ }
         END { printf "%d passed, %d failed, %d ignored\n", p + again - s, f - again, g + s }' "$log"
}

# What tests have left in the temporary folder.
leftovers() {
    local left
    # What ends a killed test's servers does so within a few seconds.
    for _ in $(seq 40); do
        left=$(find "$TMPDIR" -mindepth 1 -maxdepth 1 ! -name '*org.chromium.*' ! -name '.weir-*' | sort)
        [ -n "$left" ] || return 0
        sleep 0.25
    done
    printf 'Left in the temporary folder, and removed now: %s\n' "$(sed 's#.*/##' <<<"$left" | head -n 20 | paste -sd ' ')"
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
    echo "make $target: failed at \"$1\" after $2 s"
    summary
    exit 1
}

step() {
    local title=$1 began=$SECONDS
    shift
    bold "$title"
    echo "\$ $*"
    "$@" 2>&1 | tee -a "$log" || give_up "$title" $((SECONDS - began))
    took "$title" $((SECONDS - began))
}

took() {
    echo "($2 s)"
    echo "$1 $2" >>"$times"
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
    took "$title" $((SECONDS - began))
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
        # Of the package alone, cargo would not know the features of the others: the same selection, of that kind of program.
        cargo test --quiet --workspace ${program#-p * } "${features[@]}" -- --exact "${names[@]}" --test-threads=1 || return 1
    done
    printf '%s\n' "${names[@]}" >>"$unsteady"
}

# Some tests open a thousand connections; Debian's soft limit is 1,024 files.
ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true
PATH="$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin"
status=0
scripts/needs.sh "$target" "${yes[@]}" || status=$?
# 3: PostgreSQL can't run here, and has said why.
case $status in 0) servers=yes ;; 3) servers=no ;; *) exit "$status" ;; esac
# Some tests call psql and pgbench: those beside the server. A `psql` of Debian's may be a wrapper that finds no client.
[ "$servers" = no ] || PATH="$("$(scripts/target.sh)/debug/weir-pglocal" --folder):$PATH"

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
# Those of every package but the two whose suites are named below; without servers, those that start none.
small=()
for manifest in $(cargo metadata --format-version 1 --no-deps | grep -o '"manifest_path":"[^"]*/Cargo.toml"' | cut -d'"' -f4); do
    package=${manifest%/Cargo.toml}
    case $package in */tests | */lab) continue ;; esac
    for program in $(programs "$package/tests"); do
        file=$package/tests/${program#--test=}
        if [ "$servers" = no ] && grep -qsE 'weir_pglocal|weir_tests' "$file.rs" "$file/main.rs"; then
            echo "skipped: ${package##*/}/tests/${program#--test=}: PostgreSQL can't run here" | tee -a "$log"
        else
            small+=("$program")
        fi
    done
done

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

# Whether one of these steps is to run.
wanted() {
    local name
    [ ${#steps[@]} -eq 0 ] && return
    for name in "$@"; do [[ " ${steps[*]} " != *" $name "* ]] || return 0; done
    return 1
}

format() {
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    step "Formatting" cargo fmt --all --check -- --color never
}

lints() {
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
    step "Lints" cargo clippy --quiet "${real[@]}" --all-targets -- --deny warnings
}

if [ "$ci" = yes ] && wanted format; then format; fi
# What is not run is not built.
selection=()
if [ "$ci" = no ]; then
    selection=(--lib --bins "${small[@]}")
    [ "$servers" = no ] || selection+=(--test=postgres)
fi
if wanted unit suites postgres epoll; then
    step "Build" cargo test --no-run "${real[@]}" "${selection[@]}"
fi
if wanted unit suites postgres epoll nodes panel simulator; then
    step "Build of the programs" cargo build "${real[@]}" --bin weir --bin weir-sim --bin weir-pglocal
fi
WEIR_BIN=$(realpath "$(scripts/target.sh)")/debug/weir
export WEIR_BIN

# The tests that take long are left to CI.
slow=()
if [ "$ci" = no ]; then
    mapfile -t slow < <(sed '/^#/d; s/^/--skip=/' scripts/slow-tests)
fi

# Many of these tests wait for a process or a socket, so more run at a time than there are processors.
unit_tests() {
    RUST_TEST_THREADS=$((2 * $(nproc))) tests "Unit tests, the simulator's, and which crate may use which" "${real[@]}" --lib --bins "${small[@]}" -- "${slow[@]}"
}

simulator() {
    step "The simulator" "$(dirname "$WEIR_BIN")/weir-sim" --seed 1 --count "${COUNT:-$1}"
}

postgres() {
    local gone
    gone=$(cargo test --quiet "${real[@]}" --test postgres --test demo -- --list | sed -n 's/: test$//p' | sort | comm -13 - <(sed '/^#/d' scripts/slow-tests | sort))
    if [ -n "$gone" ]; then
        echo "scripts/slow-tests names what is no test: $gone"
        give_up "Real PostgreSQL" 0
    fi
    tests "Real PostgreSQL" "${real[@]}" --test postgres -- "${slow[@]}"
}

real_postgres() {
    RUST_TEST_THREADS=$(($(nproc) + 1)) postgres
}

# Elsewhere, sockets are served by io_uring where the kernel has it. Here by epoll; all of it with --all.
epoll() {
    export WEIR_TEST_IO=epoll
    local runtime
    mapfile -t runtime < <(programs crates/runtime/tests)
    beside tests "The runtime by epoll" "${real[@]}" "${runtime[@]}"
    if [ "$all" = yes ]; then
        tests "Real PostgreSQL by epoll" "${real[@]}" --test postgres --test differential --test faults --test incidents --test pgbouncer
    else
        tests "Real PostgreSQL by epoll, in part" "${real[@]}" --test postgres -- bulk cancel tls
    fi
    beside_ends
    unset WEIR_TEST_IO
}

nodes() {
    step "Nodes and packages, in short" scripts/test-root.sh "$WEIR_BIN"
}

# $1: how many times the time pages have that they have alone.
panel() {
    step "The panel in a browser" env SLOWER="${SLOWER:-$1}" tests/panel/run.sh
}

dashboard() {
    step "The dashboard against Grafana's schema library" tests/grafana/run.sh
}

simulator_of_ci() {
    if [ "$all" = yes ]; then
        step "The simulator" make --no-print-directory sim COUNT="${COUNT:-50000}"
    else
        simulator 2000
    fi
}

# One step by itself.
run_step() {
    case $1 in
    format) ;; # before the build
    unit) unit_tests ;;
    suites) other_suites ;;
    postgres) real_postgres ;;
    panel) panel 2 ;;
    simulator) simulator_of_ci ;;
    *) "$1" ;;
    esac
}

if [ ${#steps[@]} -gt 0 ]; then
    for name in "${steps[@]}"; do run_step "$name"; done
elif [ "$servers" = no ]; then
    unit_tests
    simulator 300
    echo "skipped: the tests with PostgreSQL: it can't run here" | tee -a "$log"
elif [ "$ci" = no ]; then
    # Most of these tests wait for something, so more run at a time than there are processors.
    quick() { unit_tests && simulator 300; }
    beside quick
    RUST_TEST_THREADS=$((3 * $(nproc))) postgres
    beside_ends
else
    beside lints
    unit_tests
    beside_ends
    beside other_suites
    real_postgres
    beside_ends
    epoll
    nodes
    beside panel 3
    dashboard
    simulator_of_ci
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
    step "AddressSanitizer" make --no-print-directory sanitize
    step "Instructions of texts" make --no-print-directory growth
    tests "Huge results and long runs" -p weir-tests --features long
    step "What is fetched where there is no PostgreSQL" cargo test --quiet -p weir-pglocal -- --ignored
    step "Mixed traffic with clients killed at random" make --no-print-directory soak
fi

bold "All is well, after $((SECONDS / 60)) min $((SECONDS % 60)) s"
leftovers
summary
