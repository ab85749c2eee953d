#!/usr/bin/env bash
# The site that `make docs` builds, checked as a reader uses it: every link leads somewhere, and the search box answers
# the questions of a PgBouncer operator. Without Node.js nothing is checked, and the
# script reports that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v node >/dev/null || { echo "the site is not checked: no Node.js"; exit 0; }
scripts/docs.sh || { echo "the site could not be built"; exit 1; }
SITE=$(realpath -m "${CARGO_TARGET_DIR:-target}")/site
export SITE
exec node --test --test-reporter=spec tests/site/site.mjs
