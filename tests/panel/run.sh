#!/bin/bash
# The panel in a real browser, with a real Weir and a real PostgreSQL: what an operator does, and that the page is
# accessible.
#
#   tests/panel/run.sh                all checks
#   tests/panel/run.sh day.mjs        those of a file, or of several
#   tests/panel/run.sh scale.mjs      no check, but how long pages take with very many pools
#   tests/panel/run.sh pictures.mjs   no check, but the pictures of docs/pictures, made anew
#   ONLY=REGEX tests/panel/run.sh     only the checks of such a name
#   SHOTS=FOLDER tests/panel/run.sh   leaves the pages' pictures there, instead of in panel-shots of the target folder
#
# Starts its own PostgreSQL and Weir (the program `with_servers` of this crate). The browser is the distribution's Chromium;
# none is downloaded. If it, Node.js or its packages are missing, nothing is checked, and the script reports that.
set -u
here=$(cd "$(dirname "$0")" && pwd)
arguments=("$@")

skip() { echo "the panel is not checked: $*"; exit 0; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium"
command -v node >/dev/null && command -v npm >/dev/null || skip "no Node.js"
# shellcheck source-path=SCRIPTDIR source=../with_servers.sh
. "$here/../with_servers.sh"
[ -z "${SHOTS:-}" ] || SHOTS=$(realpath -m "$SHOTS")
export SHOTS
with_servers panel "$here/run.sh"

if ! cat "$here"/package*.json | cmp -s - "$cache/.installed"; then
    cp "$here"/package*.json "$cache/"
    npm ci --prefix "$cache" --no-audit --no-fund --ignore-scripts >"$cache/log" 2>&1 || skip "packages could not be fetched (see $cache/log)"
    cat "$here"/package*.json >"$cache/.installed"
fi
# Node.js looks for modules beside the file that imports them.
cp "$here"/*.mjs "$cache/"
SHOTS=${SHOTS:-$target/panel-shots}
mkdir -p "$SHOTS"
# Drivers get only an address: for the rest they use their usual defaults.
export BROWSER=$browser PGPASSWORD=$WEIR_PASSWORD NODE_EXTRA_CA_CERTS=$WEIR_AUTHORITY
[ "${1:-}" != pictures.mjs ] || { export SHOTS=${here%/tests/panel}/docs/pictures; cd "$cache" && exec node pictures.mjs; }
[ "${1:-}" != scale.mjs ] || { cd "$cache" && exec node scale.mjs; }
[ $# -gt 0 ] || set -- alerts.mjs causes.mjs changed.mjs charts.mjs check.mjs cluster.mjs create.mjs day.mjs history.mjs incidents.mjs locks.mjs login.mjs pages.mjs problems.mjs sso.mjs users.mjs
cd "$cache" || exit 1
# The longest check waits ten minutes for an advice; one that takes longer than the limit fails, and its name is printed. A file
# whose `before` has failed would otherwise wait for the servers that it had started.
check() {
    node --test --test-concurrency=1 --test-force-exit --test-timeout=$((15 * 60 * 1000)) --test-reporter=spec \
        ${ONLY:+--test-name-pattern="$ONLY"} "$@"
}
failed=()
for file in "$@"; do
    check "$file" || failed+=("$file")
done
[ ${#failed[@]} -gt 0 ] || exit 0
# A busy machine can starve a check. One that passes then is named, and is a fault to look into, of the check or of Weir.
[ -n "${CI:-}" ] || exit 1
echo "Once more: ${failed[*]}"
check "${failed[@]}" || exit 1
echo "unsteady, having failed once and passed when repeated: ${failed[*]}"
