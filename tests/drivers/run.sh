#!/bin/bash
# Real drivers through Weir: each with its default settings, in the modes session, transaction and auto, and against
# PostgreSQL itself, which proves the checks. README.md beside this file explains how to add a driver.
#
#   tests/drivers/run.sh [DRIVER…]   all drivers, or these
#   MODES='direct session transaction auto'   all modes, or these
#   KEEP=1                               writes each driver's results into its folder, and docs/drivers.md of all of them
#   TRACE=1                              drivers of Python and Node.js show where a check failed
#
# Starts its own PostgreSQL and Weir (the program `with_servers` of this crate); WEIR_TEST_POSTGRES=18 takes a server of that
# version. What a driver needs is installed, in pinned versions, into a cache below the target folder. A driver whose
# runtime is missing, or whose packages can't be fetched, is reported as skipped. The exit status is 1 if a check failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)

arguments=("$@")
# shellcheck source-path=SCRIPTDIR source=../with_servers.sh
. "$here/../with_servers.sh"
with_servers drivers "$here/run.sh" --bin drivers

if [ $# -gt 0 ]; then
    drivers=("$@")
else
    drivers=()
    for file in "$here"/*/driver.sh; do drivers+=("$(basename "$(dirname "$file")")"); done
fi
read -ra modes <<<"${MODES:-direct session transaction auto}"
export HOST=$WEIR_HOST USER_NAME=$WEIR_USER PASSWORD=$WEIR_PASSWORD SHARED=$here/shared
table=$target/debug/drivers
echo "PostgreSQL $PG_DIRECT_VERSION"
# shellcheck source-path=SCRIPTDIR source=languages.sh
. "$here/languages.sh"

failures=0
caches=$cache results=$cache/results.${PG_DIRECT_VERSION%%.*}
rm -rf "$results"
mkdir -p "$results/files"

for driver in "${drivers[@]}"; do
    # Variables that driver.sh may use, and those that it sets.
    folder=$here/$driver cache=$caches/$driver why='' command=()
    mkdir -p "$cache"
    # shellcheck source=/dev/null
    . "$folder/driver.sh" || exit 1
    if ! prepare; then
        echo "--- $driver: skipped, $why"
        echo "$why" >"$results/$driver.skipped"
        continue
    fi
    for mode in "${modes[@]}"; do
        export MODE=$mode PORT=$WEIR_PORT CACHE=$results/files TLS_AUTHORITY=$WEIR_AUTHORITY
        case $mode in
            direct)
                # Some packages of PostgreSQL have no TLS.
                [ -n "${PG_DIRECT_TLS:-}" ] || TLS_AUTHORITY=
                export PORT=$PG_DIRECT_PORT DATABASE=$PG_DIRECT_DATABASE
                ;;
            session) export DATABASE=$WEIR_SESSION ;;
            transaction) export DATABASE=$WEIR_TRANSACTION ;;
            auto) export DATABASE=$WEIR_AUTO ;;
            *) echo "no such mode: $mode" >&2; exit 2 ;;
        esac
        echo "--- $driver, $mode"
        timeout --kill-after=5 "${WEIR_DRIVERS_SECONDS:-300}" "${command[@]}" 2>&1 | tee "$results/$driver.$mode"
        status=${PIPESTATUS[0]}
        [ "$status" -eq 124 ] && echo "FAIL hangs: not done after ${WEIR_DRIVERS_SECONDS:-300} s" | tee -a "$results/$driver.$mode"
        [ "$status" -eq 0 ] || failures=$((failures + 1))
    done
done

echo
"$table" table "$results" "${drivers[@]}" || failures=$((failures + 1))
if [ -n "${KEEP:-}" ]; then
    page=$here/../../docs/drivers.md
    "$table" keep "$results" "$PG_DIRECT_VERSION" "${drivers[@]}" || exit 1
    { "$table" page >"$page.new" && mv "$page.new" "$page"; } || exit 1
fi
[ $failures -eq 0 ]
