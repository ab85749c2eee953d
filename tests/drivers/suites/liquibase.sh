# shellcheck shell=bash disable=SC2034,SC2154
# Liquibase's own tests are not published: the program beside this file uses it.
title=Liquibase package='Liquibase 4.33.0' size=4
prepare() { java_classes; }
suite() { program_results java -cp "$classpath" Check; }
