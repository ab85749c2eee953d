# shellcheck shell=bash disable=SC2034,SC2154
title='GORM'
prepare() {
    go_program || return 1
    command=("$cache/check")
}
