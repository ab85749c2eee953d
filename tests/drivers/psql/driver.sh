# shellcheck shell=bash disable=SC2034,SC2154
title='psql'
prepare() {
    need psql || return 1
    command=("$folder/check.sh")
}
