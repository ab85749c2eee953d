# shellcheck shell=bash disable=SC2034,SC2154
title='Hibernate'
prepare() {
    java_classes || return 1
    command=(java -cp "$classpath" Check)
}
