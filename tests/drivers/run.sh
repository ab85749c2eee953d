#!/bin/bash
# Real drivers through Weir: each with its default settings, in session and in transaction mode.
#
#   tests/drivers/run.sh [DRIVER…]        all drivers, or these
#   WEIR_DRIVERS_DIRECT=1                 against PostgreSQL as well, which proves the checks themselves
#
# Starts its own PostgreSQL and Weir (the program `stand` of this crate). What a driver needs is installed, in pinned
# versions, into a cache below the target folder. A driver whose runtime is missing, or whose packages can't be fetched,
# is reported as skipped. The exit status is 1 if a check failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
all=(psql psycopg node-postgres lib-pq pgx pgjdbc tokio-postgres)

if [ -z "${WEIR_PORT:-}" ]; then
    target=${CARGO_TARGET_DIR:-$here/../../target}
    cd "$here/.." || exit 1
    cargo build --quiet --package weir-tests --bin stand || exit 1
    if [ -z "${WEIR_BIN:-}" ]; then
        cargo build --quiet --package weir || exit 1
        export WEIR_BIN=$target/debug/weir
    fi
    export CACHE=${WEIR_DRIVERS_CACHE:-$target/drivers}
    mkdir -p "$CACHE"
    exec "$target/debug/stand" "$here/run.sh" "$@"
fi

[ $# -gt 0 ] && drivers=("$@") || drivers=("${all[@]}")
modes=(session transaction)
[ -n "${WEIR_DRIVERS_DIRECT:-}" ] && modes=(direct "${modes[@]}")
export HOST=$WEIR_HOST USER_NAME=$WEIR_USER PASSWORD=$WEIR_PASSWORD

# Each makes the driver ready and sets `command`; 1 means that it can't run here, and `why` says why.
need() {
    local program
    for program; do
        command -v "$program" >/dev/null || { why="no $program"; return 1; }
    done
}

fetched() { # LOG COMMAND…: runs it quietly; a failure is a skip that says so
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { why="packages could not be fetched (see $log)"; return 1; }
}

# A driver's dependencies are installed once for each version of the file that pins them.
fresh() { [ -e "$2/.done" ] && cmp -s "$1" "$2/.done"; }

prepare_psql() {
    need psql || return 1
    command=("$here/psql/check.sh")
}

prepare_psycopg() {
    need python3 || return 1
    local folder=$CACHE/psycopg pins=$here/psycopg/requirements.txt
    if ! fresh "$pins" "$folder"; then
        fetched "$CACHE/psycopg.log" python3 -m venv --clear "$folder" || { why='no venv for python3'; return 1; }
        fetched "$CACHE/psycopg.log" "$folder/bin/pip" install --quiet --no-deps --disable-pip-version-check \
            -r "$pins" || return 1
        cp "$pins" "$folder/.done"
    fi
    command=("$folder/bin/python" "$here/psycopg/check.py")
}

prepare_node_postgres() {
    need node npm || return 1
    local folder=$CACHE/node-postgres pins=$here/node-postgres/package-lock.json
    if ! fresh "$pins" "$folder"; then
        mkdir -p "$folder"
        cp "$here/node-postgres/package.json" "$pins" "$folder/"
        fetched "$CACHE/node-postgres.log" npm ci --prefix "$folder" --no-audit --no-fund --ignore-scripts || return 1
        cp "$pins" "$folder/.done"
    fi
    cp "$here/node-postgres/check.js" "$folder/"
    command=(node --no-deprecation "$folder/check.js")
}

prepare_go() { # FOLDER
    need go || return 1
    (cd "$here/$1" && fetched "$CACHE/$1.log" go build -mod=readonly -o "$CACHE/$1" .) || {
        why="could not be built (see $CACHE/$1.log)"
        return 1
    }
    command=("$CACHE/$1")
}

prepare_lib_pq() { prepare_go lib-pq; }
prepare_pgx() { prepare_go pgx; }

prepare_pgjdbc() {
    need java mvn || return 1
    local folder=$CACHE/pgjdbc pins=$here/pgjdbc/pom.xml
    if ! fresh "$pins" "$folder"; then
        rm -rf "$folder" && mkdir -p "$folder"
        fetched "$CACHE/pgjdbc.log" mvn --batch-mode --quiet -f "$pins" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies "-DoutputDirectory=$folder" -DincludeScope=runtime || return 1
        cp "$pins" "$folder/.done"
    fi
    command=(java -cp "$folder/*" "$here/pgjdbc/Check.java")
}

prepare_tokio_postgres() {
    need cargo || return 1
    fetched "$CACHE/tokio-postgres.log" env CARGO_TARGET_DIR="$CACHE/tokio-postgres" cargo build --quiet --locked \
        --manifest-path "$here/tokio-postgres/Cargo.toml" || return 1
    command=("$CACHE/tokio-postgres/debug/weir-driver-tokio-postgres")
}

failures=0
rows=()
for driver in "${drivers[@]}"; do
    why=
    row=$driver
    if "prepare_${driver//-/_}"; then
        for mode in "${modes[@]}"; do
            export MODE=$mode PORT=$WEIR_PORT
            case $mode in
                direct) export PORT=$PG_DIRECT_PORT DATABASE=$PG_DIRECT_DATABASE ;;
                session) export DATABASE=$WEIR_SESSION ;;
                transaction) export DATABASE=$WEIR_TRANSACTION ;;
            esac
            echo "--- $driver, $mode"
            output=$(timeout --kill-after=5 180 "${command[@]}" 2>&1)
            status=$?
            echo "$output"
            if [ $status -eq 0 ]; then
                row+="|$(tail -1 <<<"$output" | sed 's/^.*: \([0-9]* checks\).*$/\1/')"
            else
                failures=$((failures + 1))
                [ $status -eq 124 ] && row+='|HANGS' || row+="|$(grep -c '^FAIL' <<<"$output") FAILED"
            fi
        done
    else
        echo "--- $driver: skipped, $why"
        for mode in "${modes[@]}"; do row+='|skipped'; done
    fi
    rows+=("$row")
done

echo
format='%-16s'
for mode in "${modes[@]}"; do format+=' %-14s'; done
# shellcheck disable=SC2059
printf "$format\n" driver "${modes[@]}"
for row in "${rows[@]}"; do
    IFS='|' read -ra cells <<<"$row"
    # shellcheck disable=SC2059
    printf "$format\n" "${cells[@]}"
done
[ $failures -eq 0 ]
