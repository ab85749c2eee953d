#!/usr/bin/env bash
# Runs the fuzz targets for a short time each; `make fuzz` calls it. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
scripts/fuzz.sh [--seconds N] [--keep] [TARGET…]

Runs each target (or those that are named) for N seconds, 10 by default, beginning with its kept corpus, and prints
a line about each: executions, executions a second, coverage (places in the code that were reached), files in the corpus,
findings. The last line sums up. The exit status is 1 if anything was found.

  --seconds N   how long each target runs
  --keep        what was newly reached joins fuzz/corpus, which is minimised
  --list        print the targets
  --longest T   print the longest input of target T, in bytes

It needs a Rust toolchain (stable will do: nothing is sanitised) and a C++ compiler for libFuzzer. cargo-fuzz is installed if
it is missing. To run one target for long, on one input, or under a debugger:

  cargo fuzz run --sanitizer none TARGET [INPUT]
TEXT
}

# Longer inputs only slow the fuzzer down where a few messages or lines show everything.
longest() {
    case $1 in
    ini | toml | auth_query | server_login | split) echo 4096 ;;
    session | engine) echo 1024 ;;
    proxy | startup | scram_* | client_login) echo 512 ;;
    *) echo 1024 ;;
    esac
}

seconds=10 keep=no targets=()
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --keep) keep=yes ;;
    --list) for file in fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done; exit ;;
    --longest) longest "${2:?--longest needs a target}"; exit ;;
    --help | -h) usage; exit ;;
    -*) echo "fuzz.sh: unknown option $1; see --help" >&2; exit 2 ;;
    *) targets+=("$1") ;;
    esac
    shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: --seconds needs a positive number, not $seconds" >&2; exit 2; }
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || { echo "fuzz.sh: no target $target; --list prints them" >&2; exit 2; }
done

cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
# A folder of its own: other flags than everybody else's.
export CARGO_TARGET_DIR="$PWD/fuzz/target"
began=$(date +%s)
one=()
[ ${#targets[@]} -eq 1 ] && one=("${targets[0]}")
cargo fuzz build --sanitizer none "${one[@]}"
host=$(rustc -vV | sed -n 's/^host: //p')

log=$(mktemp)
trap 'rm -f "$log"' EXIT
total=0 found=0
printf '%-14s %12s %8s %9s %7s %9s\n' target executions /s coverage corpus findings
for target in "${targets[@]}"; do
    kept=fuzz/corpus/$target new=fuzz/target/new/$target artifacts=fuzz/artifacts/$target
    mkdir -p "$kept" "$new" "$artifacts"
    options=(-max_len="$(longest "$target")" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1)
    [ -f "fuzz/dictionaries/$target.dict" ] && options+=(-dict="fuzz/dictionaries/$target.dict")
    status=0
    "fuzz/target/$host/release/$target" "${options[@]}" -max_total_time="$seconds" -artifact_prefix="$artifacts/" \
        "$new" "$kept" >"$log" 2>&1 || status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    corpus=$(find "$kept" -type f | wc -l)
    printf '%-14s %12s %8s %9s %7s %9s\n' "$target" "${runs:-?}" "${rate:-?}" "${coverage:-?}" "$corpus" \
        "$([ $status -eq 0 ] && echo 0 || echo 1)"
    total=$((total + ${runs:-0}))
    if [ $status -ne 0 ]; then
        found=$((found + 1))
        grep -E 'panicked at|^ERROR|SUMMARY|assertion|left:|right:' -A 1 "$log" | sed 's/^/    /' | head -n 20
        input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
        echo "    repeat it:  cargo fuzz run --sanitizer none $target ${input:-}"
        echo "    keep it:    cp ${input:-INPUT} fuzz/regressions/$target/NAME, and a test of that name"
    elif [ $keep = yes ]; then
        merged=$(mktemp -d)
        # The fewest files that reach every place; how often each place is reached would keep ten times as many.
        "fuzz/target/$host/release/$target" "${options[@]}" -set_cover_merge=1 -use_counters=0 \
            "$merged" "$kept" "$new" >"$log" 2>&1
        rm -rf "$kept" "$new"
        mv "$merged" "$kept"
        chmod 755 "$kept"
    fi
done
took=$(($(date +%s) - began))
echo "make fuzz: ${#targets[@]} targets, $total executions, $found with findings, in $((took / 60)) min $((took % 60)) s"
[ $found -eq 0 ]
