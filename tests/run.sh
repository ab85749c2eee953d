#!/bin/bash
# Weir against real PostgreSQL, then real drivers through Weir. `make test` calls it; below ten minutes on two cores.
#
#   WEIR_TESTS_LONG=1     also the tests that take minutes: huge rows and COPY, the soak test (WEIR_SOAK_SECONDS, 600)
#   WEIR_BIN=…            this Weir instead of the one that cargo builds
set -eu
cd "$(dirname "$0")/.."
features=postgres
[ -n "${WEIR_TESTS_LONG:-}" ] && features=long
if [ -z "${WEIR_BIN:-}" ]; then
    cargo build --quiet --package weir
    WEIR_BIN=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/weir
    export WEIR_BIN
fi
cargo test --quiet --package weir-tests --features "$features"
tests/drivers/run.sh
