#!/bin/bash
# `make drivers`: the drivers with each version of PostgreSQL; keeps the results, writes docs/drivers.md from them.
#
#   ONLY='pgx psycopg'   these drivers
#   SUITES='asyncpg pgx'  these projects' own test suites, and no driver unless ONLY names some
#   SERVER='15 18'       these major versions; by default the installed one, and the newest that npm has
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
read -ra only <<<"${ONLY:-}"
read -ra suites <<<"${SUITES:-}"
if [ ${#suites[@]} -gt 0 ]; then
    KEEP=1 tests/drivers/suites/run.sh "${suites[@]}" || status=1
    [ ${#only[@]} -gt 0 ] || exit $status
fi
for server in ${SERVER:-installed 18}; do
    [ "$server" = installed ] && server=
    KEEP=1 WEIR_TEST_POSTGRES=$server tests/drivers/run.sh "${only[@]}" || status=1
done
[ $status -eq 0 ] && echo "drivers: all checks passed; docs/drivers.md is written" ||
    echo "drivers: checks have failed, see above; one again: make drivers ONLY=<driver>"
exit $status
