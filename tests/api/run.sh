#!/usr/bin/env bash
# schemathesis against the HTTP API of a running Weir: it makes valid and invalid requests from openapi.json; no answer
# may be a 5xx, or be missing in the description. `make api-test` calls it. EXAMPLES=N a path (20), SEED=N, and further
# arguments go to schemathesis (`--include-path /api/v1/pools`).
#
# It needs Python 3.10 with venv, and fetches schemathesis into target/api-test. Weir runs in a folder of its own,
# because settings like logfile create files there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=4.32.5
place=${CARGO_TARGET_DIR:-$PWD/target}/api-test
here=$PWD
if [ "$("$place/venv/bin/pip" show schemathesis 2>/dev/null | sed -n 's/^Version: //p')" != "$version" ]; then
    mkdir -p "$place"
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi
weir=${WEIR_BIN:-}
if [ -z "$weir" ]; then
    cargo build --quiet --workspace --bin weir
    weir=$(realpath "${CARGO_TARGET_DIR:-target}/debug/weir")
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/weir-api-XXXXXX")
pid=
clear_up() {
    [ -z "$pid" ] || { kill -QUIT "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; } || true
    rm -rf "$folder"
}
trap clear_up EXIT
read -r port api < <(python3 - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))
PY
)
cat >"$folder/weir.toml" <<TOML
[listen]
address = "127.0.0.1"
port = $port

[web]
address = "127.0.0.1"
port = $api

[auth.users]
app = "secret"

# No server listens there: this test does not check the answers of a pool's server.
[pools.app]
host = "127.0.0.1"
port = 1
TOML
cd "$folder"
"$weir" serve weir.toml 2>weir.log &
pid=$!
until curl -fsS -o /dev/null "http://127.0.0.1:$api/healthz" 2>/dev/null; do
    kill -0 "$pid" 2>/dev/null || { cat weir.log >&2; exit 1; }
    sleep 0.1
done
# The stream of events never ends, so schemathesis can't check it.
"$place/venv/bin/schemathesis" --config-file "$here/tests/api/schemathesis.toml" run \
    "http://127.0.0.1:$api/api/v1/openapi.json" \
    --max-examples "${EXAMPLES:-20}" --seed "${SEED:-1}" --exclude-path /api/v1/events --exclude-path /api/v1/drain "$@"
kill -0 "$pid" 2>/dev/null || { echo "Weir has ended" >&2; cat weir.log >&2; exit 1; }
