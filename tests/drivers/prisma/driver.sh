# shellcheck shell=bash disable=SC2034,SC2154
title='Prisma'
prepare() {
    node_modules || return 1
    cp "$folder/schema.prisma" "$cache/"
    # It generates without the schema engine, a program to be downloaded, but requires a path to one.
    local engine
    engine=$(type -P true)
    fetched env PRISMA_SCHEMA_ENGINE_BINARY="$engine" CHECKPOINT_DISABLE=1 PRISMA_HIDE_UPDATE_MESSAGE=1 \
        node "$cache/node_modules/prisma/build/index.js" generate --schema "$cache/schema.prisma" ||
        { why="prisma generate has failed (see $cache/log)"; return 1; }
    command=(node "$node_folder/check.js")
}
