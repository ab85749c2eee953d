#!/usr/bin/env bash
# Sessions drawn from seeds, played directly and through Weir; `make differential` runs it. The last line sums it up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1-}" = --help ] || [ "${1-}" = -h ]; then
    cat <<'HELP'
make differential [SEED=N] [COUNT=N] [HOURS=N]

Draws sessions from seeds (DDL, DML, cursors, savepoints, COPY, errors, prepared statements, binary formats, large
objects, parameters …), plays each against PostgreSQL and through Weir, eight at a time over pools of one to three
servers in every mode, and compares the answers byte for byte.

  COUNT=N   this many seeds; 10000 unless HOURS is given
  HOURS=N   as many as fit in, parts of an hour too
  SEED=N    the first seed; otherwise a new one. Alone: this one seed again

The transcripts of tests/transcripts are played by
  cargo test -p weir-tests --features postgres --test differential transcripts
and one of them by WEIR_TRANSCRIPT=part-of-its-name before that.

A failure prints the seed, both sides around the first difference, and the shortest script that still differs; kept as
a file of tests/transcripts it is played by each `make test` from then on.
HELP
    exit 0
fi

if [ -z "${SEED-}${COUNT-}${HOURS-}" ]; then COUNT=10000; fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
WEIR_SEED=${SEED-} WEIR_COUNT=${COUNT-} WEIR_HOURS=${HOURS-} ${CARGO:-cargo} test --quiet -p weir-tests --features postgres \
    --test differential -- --nocapture drawn_sessions_are_answered_alike_directly_and_through_weir 2>&1 | tee "$log" ||
    status=$?
grep '^differential:' "$log" | tail -1 || echo "differential: it did not get to its end"
exit "$status"
