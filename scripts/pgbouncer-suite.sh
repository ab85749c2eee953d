#!/usr/bin/env bash
# PgBouncer's own test suite with `weir pgbouncer` in PgBouncer's place.
#
#   PGBOUNCER_SOURCE=folder scripts/pgbouncer-suite.sh [FILE.py …] [pytest's options]
#
# The folder is a checkout of PgBouncer, of 1.25 or later, which is not changed. Needs PostgreSQL's programs, python3 with venv, and
# openssl; pytest and psycopg are installed into a virtual environment under the cache folder. Tests run side by side (JOBS=4). The
# suite refuses to run as root: root becomes the user WEIR_SUITE_USER, "nobody" by default.
#
# The tests that scripts/pgbouncer-suite.known names are expected to fail, each with its reason (one that passes is listed as XPASS).
# Any other failure fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=$PWD

source=${PGBOUNCER_SOURCE-}
if [ ! -f "$source/test/conftest.py" ]; then
    echo "pgbouncer-suite: PGBOUNCER_SOURCE must be a checkout of PgBouncer: git clone https://github.com/pgbouncer/pgbouncer" >&2
    exit 2
fi
if [ -z "${WEIR_BIN-}" ]; then
    cargo build --quiet -p weir
    WEIR_BIN=${CARGO_TARGET_DIR:-target}/debug/weir
fi

venv=${XDG_CACHE_HOME:-/var/tmp}/weir-pgbouncer-suite
if [ ! -x "$venv/bin/pytest" ]; then
    # The interpreter of the distribution: others may not be readable for another user.
    python=$(for p in /usr/bin/python3 python3; do command -v "$p" && break; done)
    "$python" -m venv "$venv"
    "$venv/bin/pip" --quiet install pytest pytest-asyncio pytest-timeout pytest-xdist 'psycopg[binary]' filelock
fi

# Short, as Unix sockets are below it; of this run alone, as the suite leaves lock files there.
work=$(mktemp -d /tmp/ws-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/include"
cp -r "$source/test" "$source/etc" "$source/pyproject.toml" "$work"
cp "$source/include/bouncer.h" "$work/include"
cp "$WEIR_BIN" "$work/weir"
printf '#!/bin/sh\nexec "%s/weir" pgbouncer "$@"\n' "$work" >"$work/pgbouncer"
# What PgBouncer's configure would have found.
ldap=no
command -v slapd >/dev/null || [ -x /usr/sbin/slapd ] && ldap=yes
printf 'ldap_support = %s\ntls_support = yes\n' "$ldap" >"$work/config.mak"
chmod -R u+w,a+rX "$work"
chmod 755 "$work/pgbouncer" "$work/weir"

as=()
if [ "$(id -u)" -eq 0 ]; then
    user=${WEIR_SUITE_USER:-nobody}
    chown -R "$user" "$work"
    as=(runuser -u "$user" --)
fi
PATH=$(pg_config --bindir):/usr/sbin:$PATH
export PATH

cp scripts/pgbouncer_known.py scripts/pgbouncer-suite.known "$work"

pytest() {
    "${as[@]}" env HOME="$work" TMPDIR="$work" PYTHONPATH="$work" "$venv/bin/python" -m pytest -p pgbouncer_known \
        -o asyncio_default_fixture_loop_scope=function -q --timeout 90 --tb=short --no-showlocals --basetemp="$work/t" \
        -p no:cacheprovider -rfExX "$@"
}

# The names of the tests that failed, as pytest lists them at the end.
failed() {
    { grep -oE '^(FAILED|ERROR) [^ ]+' "$1" || true; } | awk '{ print $2 }' | sort -u
}

cd "$work/test"
[ $# -gt 0 ] || set -- test_*.py
status=0
pytest -n "${JOBS:-4}" --dist worksteal "$@" | tee "$work/output" || status=$?
[ "$status" -le 1 ] || exit "$status"
mapfile -t new < <(failed "$work/output")
# Some wait for milliseconds: up to five that failed are repeated alone.
if [ ${#new[@]} -gt 0 ] && [ ${#new[@]} -le 5 ]; then
    printf '\nonce more, alone: %s\n' "${new[*]}"
    status=0
    pytest "${new[@]}" | tee "$work/output" || status=$?
    [ "$status" -le 1 ] || exit "$status"
    mapfile -t new < <(failed "$work/output")
fi
if [ ${#new[@]} -gt 0 ]; then
    printf "PgBouncer's suite: not in scripts/pgbouncer-suite.known: %s\n" "${new[@]}"
    exit 1
fi
echo "PgBouncer's suite: no failure but of those in scripts/pgbouncer-suite.known"
