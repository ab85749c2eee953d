#!/bin/bash
# The panel in a real browser, before a real Weir and a real PostgreSQL: what an operator does, and that the page is right
# for those who see it badly or use no mouse.
#
#   tests/panel/run.sh            all checks
#   ONLY=REGEX tests/panel/run.sh     only the checks of such a name
#   SHOTS=FOLDER tests/panel/run.sh   leaves pictures of the pages there, in both themes and at a phone's width
#
# Starts its own PostgreSQL and Weir (the program `stand` of this crate). The browser is the distribution's Chromium; none is
# fetched. Where it, Node.js or its packages are not to be had, nothing is checked, and that is said.
set -u
here=$(cd "$(dirname "$0")" && pwd)

skip() { echo "the panel is not checked: $*"; exit 0; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium"
command -v node >/dev/null && command -v npm >/dev/null || skip "no Node.js"

if [ -z "${WEIR_PORT:-}" ]; then
    target=${CARGO_TARGET_DIR:-$here/../../target}
    cd "$here/.." || exit 1
    build=(--package weir-tests --bin stand)
    if [ -z "${WEIR_BIN:-}" ]; then
        build+=(--package weir --bin weir)
        export WEIR_BIN=$target/debug/weir
    fi
    cargo build --quiet "${build[@]}" || exit 1
    export WEIR_PANEL_CACHE=${WEIR_PANEL_CACHE:-$target/panel}
    mkdir -p "$WEIR_PANEL_CACHE"
    exec "$target/debug/stand" "$here/run.sh" "$@"
fi

cache=$WEIR_PANEL_CACHE
if ! cat "$here"/package*.json | cmp -s - "$cache/.installed"; then
    cp "$here"/package*.json "$cache/"
    npm ci --prefix "$cache" --no-audit --no-fund --ignore-scripts >"$cache/log" 2>&1 || skip "packages could not be fetched (see $cache/log)"
    cat "$here"/package*.json >"$cache/.installed"
fi
# Modules are looked for beside the file that names them.
cp "$here"/*.mjs "$cache/"
export BROWSER=$browser
cd "$cache" && exec node --test --test-reporter=spec ${ONLY:+--test-name-pattern="$ONLY"} check.mjs login.mjs
