# shellcheck shell=bash disable=SC2034,SC2154
title='tokio-postgres'
prepare() {
    rust_program || return 1
    command=("$cache/debug/weir-driver-tokio-postgres")
}
