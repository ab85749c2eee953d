#!/usr/bin/env bash
# `make demo`: checks what it needs, builds Weir and its demo, and runs it with these arguments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin"

case " $* " in
*" --help "* | *" -h "*) ;;
*) scripts/needs.sh demo "$@" ;;
esac
cargo build -p weir -p weir-demo
exec "$(scripts/target.sh)/debug/weir" demo "$@"
