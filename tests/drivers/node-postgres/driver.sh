# shellcheck shell=bash disable=SC2034,SC2154
title='node-postgres'
prepare() {
    node_modules || return 1
    command=(node --no-deprecation "$node_folder/check.js")
}
