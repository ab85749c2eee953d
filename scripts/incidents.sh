#!/usr/bin/env bash
# What has gone wrong in poolers, a test each (docs/incidents.md): runs them and prints a table; `make incidents` calls it.
#
#   scripts/incidents.sh            small sizes, as in `make test`; one or two minutes
#   scripts/incidents.sh --full     the sizes that the incidents had (5,000 clients, millions of statements), with an
#                                   optimised Weir; up to half an hour
#   scripts/incidents.sh NAME…      only tests whose names contain one of these
#
# Needs PostgreSQL's programs, psql and openssl; with PgBouncer installed, some checks are run on it as well, where they must
# fail. WEIR_BIN names another Weir than the one that is built. The exit status is 1 if a test failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=no
filters=()
for argument; do
    case $argument in
    --full) full=yes ;;
    -h | --help) sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//' && exit 0 ;;
    *) filters+=("$argument") ;;
    esac
done

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export WEIR_INCIDENTS_OUT=$out
threads=()
if [ "$full" = yes ]; then
    export WEIR_INCIDENTS_FULL=1
    # One after the other, so that figures are those of the test alone.
    threads=(--test-threads 1)
    if [ -z "${WEIR_BIN:-}" ]; then
        cargo build --quiet --release --package weir
        WEIR_BIN=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/weir
        export WEIR_BIN
    fi
fi

began=$SECONDS
log=$out/.log
status=0
cargo test --quiet --package weir-tests --features postgres --test incidents -- "${threads[@]}" "${filters[@]}" \
    2>&1 | tee "$log" || status=1

printf '\n%-66s %-7s %7s  %s\n' incident result seconds figures
for line in "$out"/*; do
    [ -e "$line" ] || continue
    IFS=$'\t' read -r test outcome seconds figures <"$line" || true
    printf '%-66s %-7s %7s  %s\n' "$test" "$outcome" "$seconds" "$figures"
done
counts=$(awk '/^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1) } }
              END { printf "%d passed, %d failed", p, f }' "$log")
sizes=$([ "$full" = yes ] && echo "the incidents' own sizes" || echo "small sizes; FULL=1 has the incidents' own")
echo
[ "$status" -eq 0 ] || echo "one test again: scripts/incidents.sh NAME (WEIR_SEED=… where a seed is printed)"
echo "incidents: $counts, $((SECONDS - began)) s ($sizes)"
exit "$status"
