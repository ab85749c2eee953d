#!/usr/bin/env bash
# The dashboard monitoring/grafana.json against the types of Grafana's schema library (`@grafana/schema`), then the same with a
# mistake in each place: the compiler must find it there. It needs Node.js and npm; without them nothing is checked, and the
# script reports that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

dashboard=../../monitoring/grafana.json
place=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/grafana
skip() { echo "the dashboard is not checked: $*"; exit 0; }
command -v node >/dev/null && command -v npm >/dev/null || skip "no Node.js"
mkdir -p "$place"
if ! cat package*.json | cmp -s - "$place/.installed"; then
    cp package*.json "$place/"
    npm ci --prefix "$place" --no-audit --no-fund --ignore-scripts >"$place/log" 2>&1 || skip "packages could not be fetched (see $place/log)"
    cat package*.json >"$place/.installed"
fi

# Compiles the dashboard that it reads, and prints the errors.
compile() {
    cat dashboard.ts - >"$place/checked.ts"
    (cd "$place" && node_modules/.bin/tsc --noEmit --strict --skipLibCheck --module nodenext --moduleResolution nodenext checked.ts)
}

compile <"$dashboard" || { echo "monitoring/grafana.json is not what Grafana's schema library says"; exit 1; }
# A name that is misspelt, and a value of another type or enum: each once.
while IFS=$'\t' read -r what mistake; do
    node -e "const d = JSON.parse(require('fs').readFileSync(0)); const of = (type) => d.panels.find((p) => p.type === type); $mistake; console.log(JSON.stringify(d))" \
        <"$dashboard" >"$place/mistaken.json"
    if compile <"$place/mistaken.json" >"$place/errors"; then
        echo "a mistake is not found: $what"
        exit 1
    fi
done <<'MISTAKES'
a misspelt key of the dashboard	d.refrehs = '10s'
a number for the title	d.title = 5
a variable without a type	delete d.templating.list[0].type
an unknown way to sort a variable	d.templating.list[1].sort = 'asc'
an unknown type of panel	of('stat').type = 'status'
a position without a width	delete of('stat').gridPos.w
an unknown colour mode	of('stat').options.colorMode = 'text'
an unknown option of a graph	of('timeseries').options.legends = {}
an unknown place of a legend	of('timeseries').options.legend = { placement: 'left' }
a drawing option of another type	of('timeseries').fieldConfig.defaults.custom = { fillOpacity: '10' }
an unknown way to stack	of('timeseries').fieldConfig.defaults.custom = { stacking: { mode: 'all' } }
a query without an expression	delete of('timeseries').targets[0].expr
MISTAKES
echo "the dashboard agrees with @grafana/schema $(node -p "require('$place/node_modules/@grafana/schema/package.json').version"); 12 planted mistakes are found"
