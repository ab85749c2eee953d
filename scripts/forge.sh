#!/usr/bin/env bash
# Checks the files of forges: by the schemas that check-jsonschema carries, and that both name each step of CI; `make forge`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${TOOLS:-target/tools}/forge
if [ ! -x "$tools/bin/check-jsonschema" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet check-jsonschema==0.33.0
fi
check() {
    "$tools/bin/check-jsonschema" "$@"
}
check --builtin-schema vendor.github-workflows .github/workflows/*.yml
check --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci .gitlab-ci.yml
for file in .github/ISSUE_TEMPLATE/{fault,wish}.yml; do
    "$tools/bin/python" - "$file" <<'END'
import sys
from ruamel.yaml import YAML
form = YAML(typ="safe").load(open(sys.argv[1]))
assert form["name"] and form["description"] and form["body"], sys.argv[1]
for part in form["body"]:
    assert part["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes"), part
    assert part["type"] == "markdown" or part["id"] and part["attributes"]["label"], part
END
done
steps=$(.ci/run --list | paste -sd, | sed 's/,/, /g')
for file in .github/workflows/ci.yml .gitlab-ci.yml; do
    grep -qF "[$steps]" "$file" || { echo "$file does not name the steps of .ci/run --list: $steps" >&2; exit 1; }
done
echo "the forges' files are valid, and name each step"
