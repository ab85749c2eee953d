# shellcheck shell=bash disable=SC2034,SC2154
title='database/sql with lib/pq'
prepare() {
    go_program || return 1
    command=("$cache/check")
}
