#!/usr/bin/env bash
# How many files and functions of the engine a query and a login of a client go through, which is what one reads to follow
# them (`make call-path`; ARGS=--list prints each). Counted by gdb in a debug build, with 50 clients on 20 servers that
# `weir-bench own` has in memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v gdb >/dev/null || { echo "call-path: gdb is not installed" >&2; exit 1; }
[ "${1-}" != --list ] || export CALL_PATH_LIST=1
cargo build --quiet --workspace --features "weir-tests/postgres weir-lab/servers" --bin weir-bench
exec gdb -q -batch -nx -x scripts/call_path.py --args "$(scripts/target.sh)/debug/weir-bench" own --only simple-50 --transactions 100
