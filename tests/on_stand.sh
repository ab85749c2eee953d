# Sourced by scripts that run before a throw-away PostgreSQL and Weir, which the program `stand` of this crate starts:
#
#   on_stand NAME SCRIPT [CARGO_OPTION…]
#
# Outside of a stand it builds what is needed (and what the options name), then has a stand run SCRIPT, with the script's
# own arguments, and does not return. Inside of one it sets `cache` to a folder of that name that outlasts runs, and returns.
# `target` is the target folder in both.
on_stand() {
    local name=$1 script=$2 tests
    shift 2
    tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    cd "$tests" || exit 1
    target=$(realpath -m "${CARGO_TARGET_DIR:-../target}")
    cache=$target/$name
    [ -z "${WEIR_PORT:-}" ] || return 0
    # Of the whole workspace, with the features that `make test` chooses: otherwise libraries would be built once more.
    local build=(--workspace --features "weir-tests/postgres weir-lab/servers" --bin stand "$@")
    if [ -z "${WEIR_BIN:-}" ]; then
        build+=(--bin weir)
        export WEIR_BIN=$target/debug/weir
    fi
    cargo build --quiet "${build[@]}" || exit 1
    mkdir -p "$cache"
    exec "$target/debug/stand" "$script" "${arguments[@]}"
}
