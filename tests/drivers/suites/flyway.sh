# shellcheck shell=bash disable=SC2034,SC2154
# Flyway's own tests are not published: the program beside this file uses it. Each process has two connections.
title=Flyway package='Flyway 12.4.0' size=8
prepare() { java_classes; }
suite() { program_results java -cp "$classpath" Check; }
