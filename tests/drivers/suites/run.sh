#!/bin/bash
# The test suites that projects publish with their packages, directly and through Weir in the modes session and auto:
# `tests/drivers/suites/run.sh [SUITE…]`. The page docs/drivers.md has the results that KEEP=1 has kept.
#
# A suite is a file here that sets `title`, `package` (with its version) and `size` (the servers of the pool in auto), and
# has two functions: `prepare` installs the package from its registry into $cache, or returns 1 with the reason in `why`;
# `suite` runs the tests against $PGHOST:$PGPORT and the new database $PGDATABASE as the superuser $PGUSER with
# $PGPASSWORD, and prints `ok NAME` or `FAIL NAME` for each. `differs NAME` knows why a test that
# passes directly fails through a pooler, and says so; any other such test is a failure.
# Where a package has no tests, `suite` runs a program that uses it, in the folder $folder, and which prints the lines of
# ../README.md.
#
# Starts its own PostgreSQL (the program `with_servers` of this crate), and a Weir for each mode.
set -u
here=$(cd "$(dirname "$0")" && pwd)

arguments=("$@")
# shellcheck source-path=SCRIPTDIR source=../../with_servers.sh
. "$here/../../with_servers.sh"
with_servers drivers/suites "$here/run.sh" --bin drivers
# shellcheck source-path=SCRIPTDIR source=../languages.sh
. "$here/../languages.sh"

suites=("$@")
[ $# -gt 0 ] || for file in "$here"/*.sh; do [ "$file" = "$here/run.sh" ] || suites+=("$(basename "$file" .sh)"); done
read -ra modes <<<"${MODES:-direct session auto}"
caches=$cache failures=0 pooler=''
SHARED=$here/../shared
export PGHOST=127.0.0.1 PGUSER=suites PGPASSWORD=suites
trap '[ -z "$pooler" ] || kill "$pooler"' EXIT

superuser() { PGUSER=postgres PGPASSWORD=postgres PGPORT=$PG_DIRECT_PORT psql -qX -d postgres "$@" >/dev/null; }
superuser -c "CREATE ROLE suites SUPERUSER LOGIN PASSWORD 'suites'" || exit 1

# A Weir in this mode, on a free port, which it names in its first line.
start_weir() { # MODE SIZE
    local folder=$cache/weir-$1
    rm -rf "$folder" && mkdir -p "$folder"
    echo '"suites" "suites"' >"$folder/users.txt"
    chmod 600 "$folder/users.txt"
    cat >"$folder/weir.toml" <<END
[listen]
address = "127.0.0.1"
port = $PGPORT
[auth]
file = "users.txt"
[log]
file = "$folder/log"
[pools."*"]
host = "127.0.0.1"
port = $PG_DIRECT_PORT
mode = "$1"
size = $2
max_pinned = 100
server_idle_timeout = "5s"
END
    "$WEIR_BIN" serve "$folder/weir.toml" >"$folder/out" 2>&1 &
    pooler=$!
    until grep -qs ': ready on' "$folder/out"; do
        kill -0 $pooler 2>/dev/null || { cat "$folder/out" >&2; return 1; }
    done
}

# An sdist with its tests, unpacked to $cache/source, and a venv with what they need: python_suite PACKAGE==VERSION PIN…
python_suite() {
    local pins
    need python3 || return 1
    python=$cache/venv/bin/python
    pins=$(printf '%s\n' "$@")
    [ "$pins" = "$(cat "$cache/.installed" 2>/dev/null)" ] && return 0
    rm -rf "$cache/source" "$cache/sdist" && mkdir -p "$cache/source"
    fetched python3 -m venv --clear "$cache/venv" || { why='no venv for python3'; return 1; }
    fetched "$python" -m pip install --quiet --disable-pip-version-check "$@" || return 1
    fetched "$python" -m pip download --quiet --no-deps --no-binary "${1%%==*}" -d "$cache/sdist" "$1" || return 1
    tar -xf "$cache"/sdist/*.tar.gz --strip-components=1 -C "$cache/source" && echo "$pins" >"$cache/.installed"
}

# pytest's summary as lines of results.
pytest_results() {
    timeout --kill-after=5 "${WEIR_SUITES_SECONDS:-900}" "$python" -m pytest -q -rA --tb=no --timeout 60 -p no:cacheprovider "$@" 2>&1 |
        sed -n 's/^PASSED \([^ ]*\).*/ok \1/p; s/^FAILED \([^ ]*\).*/FAIL \1/p; s/^ERROR \([^ ]*::[^ ]*\).*/FAIL \1/p'
}

# The lines of a program of checks, as those of drivers, without the reasons of failures, which are shown.
program_results() {
    MODE=$mode HOST=$PGHOST PORT=$PGPORT USER_NAME=$PGUSER PASSWORD=$PGPASSWORD DATABASE=$PGDATABASE \
        timeout --kill-after=5 "${WEIR_SUITES_SECONDS:-900}" "$@" | tee -a /dev/stderr |
        sed -n 's/^\(ok\|FAIL\) *\([^:]*\).*/\1 \2/p'
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
count() { grep -c "^$2" "$1"; }

for name in "${suites[@]}"; do
    folder=$here/$name cache=$caches/$name why='' size=3
    mkdir -p "$cache"
    differs() { return 1; }
    # shellcheck source=/dev/null
    . "$here/$name.sh" || exit 1
    if ! prepare; then
        echo "--- $name: skipped, $why"
        continue
    fi
    for mode in "${modes[@]}"; do
        echo "--- $package, $mode"
        database=suite_${name//-/_}_$mode results=$cache/results.$mode
        superuser -c 'SET client_min_messages = warning' -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" -c "CREATE DATABASE $database OWNER suites" || exit 1
        PGPORT=$PG_DIRECT_PORT
        [ "$mode" = direct ] || PGPORT=$(free_port)
        case $mode in
            session) start_weir session 60 || exit 1 ;;
            auto) start_weir auto "$size" || exit 1 ;;
        esac
        export PGPORT PGDATABASE=$database
        (cd "$cache" && suite) >"$results"
        [ -z "$pooler" ] || { kill "$pooler"; wait "$pooler"; pooler=''; }
        passed=$(count "$results" ok) failed=$(count "$results" FAIL)
        echo "$passed passed, $failed failed"
        [ "$passed" -gt 0 ] || failures=$((failures + 1))
        known=0
        while read -r _ test; do
            if grep -qxF "FAIL $test" "$cache/results.direct"; then
                continue
            elif reason=$(differs "$test"); then
                known=$((known + 1)) && echo "differs $test: $reason"
            else
                failures=$((failures + 1)) && echo "FAIL $test"
            fi
        done < <(grep ^FAIL "$results")
        [ -z "${KEEP:-}" ] || printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$package" "$PG_DIRECT_VERSION" "$mode" "$passed" \
            "$failed" "$known" "$(date -u +%F)" >"$here/$name.$mode.kept"
    done
    [ -z "${KEEP:-}" ] || { cat "$here/$name".*.kept >"$here/$name.tsv" && rm "$here/$name".*.kept; }
done
[ $failures -eq 0 ]
