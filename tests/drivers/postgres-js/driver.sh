# shellcheck shell=bash disable=SC2034,SC2154
title='postgres.js'
prepare() {
    node_modules || return 1
    command=(node "$node_folder/check.js")
}
