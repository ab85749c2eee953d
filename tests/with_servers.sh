# Sourced by scripts that need a temporary PostgreSQL and Weir, which the program `with_servers` of this crate starts:
#
#   with_servers NAME SCRIPT [CARGO_OPTION…]
#
# Outside of that program it builds the program (and what the options name), then has it run SCRIPT with the script's
# own arguments, and does not return. Inside of it, it sets `cache` to a folder of that name that persists between
# runs, and returns. `target` is the target folder in both cases.
with_servers() {
    local name=$1 script=$2 tests
    shift 2
    tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    cd "$tests" || exit 1
    target=$(realpath -m "${CARGO_TARGET_DIR:-../target}")
    cache=$target/$name
    [ -z "${WEIR_PORT:-}" ] || return 0
    # Built with the whole workspace and the features of `make test`: otherwise libraries would be built twice.
    local build=(--workspace --features "weir-tests/postgres weir-lab/servers" --bin with_servers "$@")
    if [ -z "${WEIR_BIN:-}" ]; then
        build+=(--bin weir)
        export WEIR_BIN=$target/debug/weir
    fi
    cargo build --quiet "${build[@]}" || exit 1
    mkdir -p "$cache"
    exec "$target/debug/with_servers" "$script" "${arguments[@]}"
}
