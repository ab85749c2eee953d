# shellcheck shell=bash disable=SC2034,SC2154
title='pgjdbc with HikariCP'
prepare() {
    java_classes || return 1
    command=(java -cp "$classpath" Check)
}
