#!/bin/bash
# Pools of connection libraries at a restart of Weir: two Weirs behind a balancer that asks /readyz, each restarted twice,
# while the pool works. Prints what each has done, and the errors that the application got.
#
#   tests/rolling/run.sh [LIBRARY…]      all, or these: asyncpg hikari hikari-test node-postgres
#                                        pgx pgx-ping psycopg psycopg-check
#   ROLLING_MODE=session                 the pool's mode: transaction (the default), session, auto
#   ROLLING_DRAIN=30s                    the drain's time
#   GAP=200                              half of the tasks query every few seconds, the others with pauses of at most so many
#                                        milliseconds: 5 by default, so that some connections never rest
#
# The packages are those of tests/drivers, in the same cache.
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$here")
target=$(realpath -m "${CARGO_TARGET_DIR:-$tests/../target}")
if [ -z "${WEIR_BIN:-}" ]; then
    build=(--workspace --features "weir-tests/postgres weir-lab/servers" --bin rolling --bin weir)
    (cd "$tests" && cargo build --quiet "${build[@]}") || exit 1
    export WEIR_BIN=$target/debug/weir
fi
export SHARED=$tests/drivers/shared
# shellcheck source-path=SCRIPTDIR source=../drivers/languages.sh
. "$tests/drivers/languages.sh"

# Of tests/drivers this driver, installed.
driver() {
    folder=$tests/drivers/$1 cache=$target/drivers/$1 why='' command=()
    mkdir -p "$cache"
    # shellcheck source=/dev/null
    . "$folder/driver.sh" && prepare
}

# Sets `command` for a library, or `why` it can't run.
library() {
    case $1 in
        asyncpg) driver asyncpg && command=("$python" "$here/pool_asyncpg.py") ;;
        psycopg) driver psycopg && command=("$python" "$here/pool_psycopg.py") ;;
        psycopg-check) driver psycopg && command=(env CHECK=1 "$python" "$here/pool_psycopg.py") ;;
        node-postgres)
            driver node-postgres && cp "$here/pool_node_postgres.js" "$cache/rolling.js" &&
                command=(node "$cache/rolling.js")
            ;;
        hikari | hikari-test)
            driver pgjdbc && javac -cp "$cache/jars/*" -d "$cache/rolling" "$here/Rolling.java" &&
                command=(java -cp "$cache/rolling:$cache/jars/*" Rolling)
            [ "$1" = hikari ] || command=(java -Dcom.zaxxer.hikari.aliveBypassWindowMs=0 "${command[@]:1}")
            ;;
        pgx | pgx-ping)
            folder=$here/pgx cache=$target/drivers/rolling-pgx why=''
            mkdir -p "$cache"
            go_program && command=("$cache/check")
            [ "$1" = pgx ] || command=(env CHECK=1 "$cache/check")
            ;;
        *) why='no such library'; return 1 ;;
    esac
}

[ $# -gt 0 ] || set -- asyncpg hikari hikari-test node-postgres pgx pgx-ping psycopg psycopg-check
failures=0
for name; do
    if ! library "$name"; then
        echo "--- $name: skipped, ${why:-could not be prepared}"
        continue
    fi
    echo "--- $name"
    "$target/debug/rolling" "${command[@]}" 2>&1 | sort | uniq -c || failures=$((failures + 1))
done
[ $failures -eq 0 ]
